import assert from "node:assert/strict";
import { test } from "node:test";

import { box } from "./fake_dom.js";
import { multiples } from "../../lightning_gpuprof/tab/static/multiples.js";

const interval = (low, high) => ({ type: "interval", low, high });
const FORWARD = {
  key: "forward",
  label: "Forward",
  base: 6e6,
  new: 4e6,
  diff: -2e6,
  base_interval: interval(5e6, 8e6),
  new_interval: interval(3e6, 5e6),
  diff_interval: interval(-3e6, -1e6),
};
const drawn = (...list) => box(multiples({ type: "multiples", id: "phases", unit: "ns", multiples: list }));
const widths = (root, spec) => root.all(spec).map((node) => node.properties.width);

test("a picture has a scale of its own, on which both sides and their intervals are drawn", () => {
  const root = drawn(FORWARD, { ...FORWARD, key: "other", base: 60, new: 80, base_interval: null, new_interval: null });
  assert.deepEqual(widths(root, "i.bar"), ["75.00%", "50.00%", "75.00%", "100.00%"]);
  assert.deepEqual(widths(root, "i.interval"), ["37.50%", "25.00%"]);
  assert.equal(root.all("i.interval")[0].properties.left, "62.50%");
});

test("a difference has its sign and its interval", () => {
  const root = drawn(FORWARD, { ...FORWARD, diff: 2e6 });
  assert.equal(root.all("figure.less").length, 1);
  assert.equal(root.all("figure.more").length, 1);
  assert.deepEqual(root.texts("div.between")[0], "-2.00 ms-3.0 to -1.0 ms");
});

test("a difference within noise is grey and says so instead of its interval", () => {
  const root = drawn({ ...FORWARD, noise: "within noise" });
  assert.equal(root.all("figure.noise").length, 1);
  assert.equal(root.all("figure.less").length, 0);
  assert.deepEqual(root.texts("div.between"), ["-2.00 mswithin noise"]);
});

test("a side that was not measured has no bar, and no difference is made up", () => {
  const root = drawn({ key: "forward", label: "Forward", base: 6e6, new: null, diff: null, noise: "not in both" });
  assert.equal(root.all("i.bar").length, 1);
  assert.deepEqual(root.texts("span.number"), ["6.00 ms", "-"]);
  assert.deepEqual(root.texts("div.between"), ["not in both"]);
});
