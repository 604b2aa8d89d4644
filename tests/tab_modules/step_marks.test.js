import assert from "node:assert/strict";
import { test } from "node:test";

import { box } from "./fake_dom.js";
import { markList, markShapes, slowDownLines } from "../../lightning_gpuprof/tab/static/views/step_marks.js";

const RAMP = {
  label: "slower from step 100: 2.00 ms more every 100 steps",
  shape: "ramp",
  since_step: 100,
  until_step: 249,
  steps: [0, 100, 249],
  level_ns: [10e6, 10e6, 14e6],
};
const SPIKES = { ...RAMP, shape: "spikes", until_step: null, steps: [100, 299], level_ns: [110e6, 110e6] };
const CAPTURE = { label: "capture 0", by_request: false, first_step: 160, last_step: 162, trace_file: "rank0-capture0.gz" };
const payload = (slow_downs, captures = []) => ({ marks: { slow_downs, captures } });

test("a ramp is a sloped line, and spikes a dotted line at their height", () => {
  const [ramp, spikes] = slowDownLines(payload([RAMP, SPIKES]), 1e6);
  assert.deepEqual([ramp.x, ramp.y, ramp.line.dash], [[0, 100, 249], [10, 10, 14], "solid"]);
  assert.deepEqual([spikes.y, spikes.line.dash], [[110, 110], "dot"]);
});

test("a slow-down has an upright line where it begins, and another where it ends", () => {
  const shapes = markShapes(payload([RAMP, SPIKES]), [0, 300]);
  assert.deepEqual(
    shapes.map(({ x0, line }) => [x0, line.dash]),
    [
      [100, "solid"],
      [100, "solid"],
      [250, "dash"],
    ],
  );
});

test("a capture is a band over its steps that is wide enough to be seen", () => {
  const [exact] = markShapes(payload([], [CAPTURE]), [150, 200]);
  assert.deepEqual([exact.x0, exact.x1], [160, 163]);
  const [wide] = markShapes(payload([], [CAPTURE]), [0, 1_000_000]);
  assert.deepEqual([wide.x0, wide.x1], [160, 4160]);
});

test("a capture by request has a colour of its own", () => {
  const [own, asked] = markShapes(payload([], [CAPTURE, { ...CAPTURE, by_request: true }]), [0, 300]);
  assert.notEqual(own.fillcolor, asked.fillcolor);
});

test("what lies outside of the shown steps is not drawn", () => {
  assert.deepEqual(markShapes(payload([RAMP], [CAPTURE]), [300, 400]), []);
});

test("what is marked is said in words, and a capture leads to its trace", () => {
  const went = [];
  const context = { go: (changes) => went.push(changes) };
  const root = box(markList(context, payload([RAMP], [CAPTURE, { ...CAPTURE, label: "capture 1", trace_file: "" }])));
  assert.deepEqual(root.texts("li"), [RAMP.label, "capture 0", "capture 1"]);
  const [button] = root.all("button.link");
  button.listeners.click();
  assert.deepEqual(went, [{ view: "timeline", trace: "rank0-capture0.gz" }]);
  assert.equal(root.all("button.link").length, 1);
});

test("a run that kept its pace has no list of marks", () => {
  assert.equal(markList({}, payload([])), null);
});
