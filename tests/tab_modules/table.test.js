import assert from "node:assert/strict";
import { test } from "node:test";

import { box } from "./fake_dom.js";
import { arrange, table, visibleColumns } from "../../lightning_gpuprof/tab/static/table.js";

const SPEC = {
  type: "table",
  id: "operators",
  title: "Operators",
  columns: [
    { key: "name", label: "Name", unit: "code" },
    { key: "kernel", label: "Kernel", unit: "place" },
    { key: "total_ns", label: "Total", unit: "ns", bar: true },
    { key: "start_ns", label: "Start", unit: "ns", detail: "verbose" },
    { key: "calls", label: "Calls", unit: "count" },
  ],
  rows: [
    { name: "aten::mm", total_ns: 2e6, kernel: { type: "place", kernel: "void sgemm_128(float*)" }, start_ns: 1 },
    { name: "aten::add", total_ns: 4e6, start_ns: 2 },
    { name: "aten::copy_", start_ns: 3 },
  ],
};
const names = (rows) => rows.map((row) => row.name);
const drawnNames = (root) => root.texts("td.name").filter((text) => text.startsWith("aten"));

test("rows keep the order of the document until a heading is clicked", () => {
  assert.deepEqual(names(arrange(SPEC, {})), ["aten::mm", "aten::add", "aten::copy_"]);
});

test("what was not measured comes last, largest first", () => {
  assert.deepEqual(names(arrange(SPEC, { sort: "total_ns" })), ["aten::add", "aten::mm", "aten::copy_"]);
  assert.deepEqual(names(arrange(SPEC, { sort: "total_ns", up: true })), ["aten::copy_", "aten::mm", "aten::add"]);
});

test("texts are sorted by alphabet", () => {
  assert.deepEqual(names(arrange(SPEC, { sort: "name", up: true })), ["aten::add", "aten::copy_", "aten::mm"]);
});

test("a search looks at names as they are shown and as they are in whole", () => {
  assert.deepEqual(names(arrange(SPEC, { search: "SGEMM" })), ["aten::mm"]);
  assert.deepEqual(names(arrange(SPEC, { search: "float*" })), ["aten::mm"]);
  assert.deepEqual(names(arrange(SPEC, { search: "nothing like it" })), []);
});

test("a row of level 1 stays below its own row in every order", () => {
  const rows = [
    { name: "forward", total_ns: 1 },
    { name: "encoder", total_ns: 9, level: 1 },
    { name: "backward", total_ns: 5 },
  ];
  const order = names(arrange({ ...SPEC, rows }, { sort: "total_ns" }));
  assert.deepEqual(order, ["backward", "forward", "encoder"]);
});

test("columns that are verbose or empty are left out", () => {
  const shown = visibleColumns(SPEC).map((column) => column.key);
  assert.deepEqual(shown, ["name", "kernel", "total_ns"]);
});

test("a cell shows its value by the unit of its column, and a bar by its share of the largest", () => {
  const root = box(table(SPEC));
  assert.deepEqual(root.texts("td.number"), ["2.00 ms", "4.00 ms", "-"]);
  assert.deepEqual(
    root.all("i.cell-bar").map((bar) => bar.properties.width),
    ["50.0%", "100.0%", "0.0%"],
  );
});

test("a kernel has its short name, and its whole name as the cell's title", () => {
  const cell = box(table(SPEC)).all("td.name")[1];
  assert.equal(cell.textContent, "sgemm_128");
  assert.equal(cell.attributes.title, "void sgemm_128(float*)");
});

test("a click on a heading sorts by it, a second click the other way round", () => {
  const state = {};
  const root = box(table(SPEC, { state }));
  const [, , total] = root.all("thead")[0].all("button");
  total.fire("click");
  assert.deepEqual(drawnNames(root), ["aten::add", "aten::mm", "aten::copy_"]);
  assert.equal(root.all("th.number")[0].attributes["aria-sort"], "descending");
  total.fire("click");
  assert.deepEqual(drawnNames(root), ["aten::copy_", "aten::mm", "aten::add"]);
  assert.deepEqual(state, { sort: "total_ns", up: true });
});

test("a search is counted, and stays over a refresh", () => {
  const state = {};
  const spec = { ...SPEC, searchable: true };
  const root = box(table(spec, { state }));
  root.all("input")[0].fire("input", { target: { value: "add" } });
  assert.deepEqual(drawnNames(root), ["aten::add"]);
  assert.deepEqual(root.texts("span.muted"), ["1 of 3 rows"]);
  assert.deepEqual(drawnNames(box(table(spec, { state }))), ["aten::add"]);
});

test("the first rows are shown until all are asked for", () => {
  const root = box(table({ ...SPEC, first_rows: 1 }));
  assert.deepEqual(drawnNames(root), ["aten::mm"]);
  const [more] = root.all("button.link");
  assert.equal(more.textContent, "Show all 3");
  more.fire("click");
  assert.equal(drawnNames(root).length, 3);
  assert.equal(more.textContent, "Show the first 1");
});

test("a row that can be opened is a button", () => {
  const opened = [];
  const root = box(table(SPEC, { open: (row) => () => opened.push(row.name) }));
  root.all("td.name")[0].all("button.link")[0].fire("click");
  assert.deepEqual(opened, ["aten::mm"]);
});

test("markup in a name is text, and marks that turn text are escaped", () => {
  const rows = [{ name: "<img src=x onerror=alert(1)>\u202e" }];
  const root = box(table({ ...SPEC, rows }));
  assert.deepEqual(root.texts("td.name"), ["<img src=x onerror=alert(1)>\\u202e"]);
  assert.equal(root.all("img").length, 0);
});

test("differences are drawn by their sign, and grey in a row that is neutral", () => {
  const columns = [
    { key: "label", label: "Phase", unit: "text" },
    { key: "more_ns", label: "Difference", unit: "ns", bar: true, difference: true },
    { key: "all_ns", label: "Total", unit: "ns", bar: true },
  ];
  const rows = [
    { label: "Forward", more_ns: 2e6, all_ns: 1 },
    { label: "Backward", more_ns: -1e6, all_ns: 1 },
    { label: "Other", more_ns: 1e6, all_ns: 1, state: "neutral" },
  ];
  const root = box(table({ type: "table", id: "phases", columns, rows }));
  const kinds = root.all("i.cell-bar").map((node) => node.className);
  const plain = "cell-bar";
  assert.deepEqual(kinds, ["cell-bar more", plain, "cell-bar less", plain, "cell-bar neutral", plain]);
});
