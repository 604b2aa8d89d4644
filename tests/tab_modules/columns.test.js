import assert from "node:assert/strict";
import { test } from "node:test";

import "./fake_dom.js";
import { assign, columns } from "../../lightning_gpuprof/tab/static/columns.js";

test("cards go to the shorter column", () => {
  assert.deepEqual(assign([10, 3, 3, 4]), [0, 1, 1, 1]);
});

test("a card changes sides if that makes the longer column shorter", () => {
  assert.deepEqual(assign([10, 3, 3, 9]), [0, 1, 0, 1]);
});

test("the first two cards stay beside each other", () => {
  assert.deepEqual(assign([1, 40]), [0, 1]);
  assert.deepEqual(assign([40, 1, 1]), [0, 1, 1]);
});

test("cards have their place in reading order, for pages with one column", () => {
  const card = (height) => ({ height, node: globalThis.document.createElement("p") });
  const spread = [card(10), card(3), card(3), card(9)];
  const [left, right] = columns(spread).all("div.column");
  assert.deepEqual(
    spread.map(({ node }) => node.properties.order),
    ["0", "1", "2", "3"],
  );
  assert.deepEqual([left.children.length, right.children.length], [2, 2]);
});
