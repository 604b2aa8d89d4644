import assert from "node:assert/strict";
import { test } from "node:test";

import { box } from "./fake_dom.js";
import { cards, estimatedHeight, page, sectionCard } from "../../lightning_gpuprof/tab/static/render.js";

const VERDICT = {
  type: "verdict",
  kind: "change",
  label: "Fix first",
  title: "55% of each step waits for data",
  sentence: "Make batches in worker processes.",
  change: "DataLoader(..., num_workers=2)",
  gain: "a step of 27.1 ms instead of 43.3 ms",
  gain_short: "25 to 50%",
};
const FINDING = {
  type: "finding",
  id: "data-wait",
  severity: "critical",
  title: "55% of each step waits for data",
  advice: "Make batches in worker processes.",
  change: "DataLoader(..., num_workers=2)",
  short_change: "DataLoader(..., num_workers=2)",
  short_change_is_code: true,
  saving: { short: "25 to 50%", sentence: "saves 11 to 22 ms per step" },
  no_saving: "no time is claimed as saved",
  evidence: [
    { key: "data_wait_ns", label: "data wait", value: 23.9e6, unit: "ns" },
    { key: "data_wait_frac", label: "data wait", value: 0.552, unit: "frac" },
    { key: "num_workers_count", label: "num workers", value: 0, unit: "count" },
  ],
  places: [{ type: "place", file: "train.py", line: 7, source: "for batch in loader:" }],
  confidence: 0.9,
};
const BARS = {
  type: "bars",
  id: "phases",
  unit: "ns",
  device_label: "Device",
  bars: [
    { key: "forward", label: "Forward", value: 6e6, frac: 0.75, device_value: 5e6 },
    { key: "forward/encoder", label: "encoder", value: 2e6, frac: 0.25, level: 1 },
    { key: "backward", label: "Backward", value: 2e6, frac: 0.25 },
  ],
};
const TABLE = {
  type: "table",
  id: "lines",
  columns: [{ key: "place", label: "Line", unit: "place" }],
  rows: [{ place: { type: "place", file: "train.py", line: 3 } }],
};
const section = (id, ...body) => ({ id, title: id, detail: "page", body });
const surface = (more = {}) => ({ local: () => ({}), go: () => {}, ...more });
const drawn = (...body) => box(sectionCard(surface(), section("x", ...body)));

test("a section is a card with its title, its note and its parts", () => {
  const root = box(sectionCard(surface(), { ...section("Plan", TABLE), note: "quick changes first" }));
  assert.deepEqual(root.texts("h2"), ["Plan"]);
  assert.deepEqual(root.texts("p.note"), ["quick changes first"]);
  assert.equal(root.all("table").length, 1);
});

test("the answer stands on top: the verdict between large figures, and the step as a strip", () => {
  const large = {
    type: "figures",
    large: true,
    figures: [
      { key: "step_ns", label: "Step time", value: 43.3e6, unit: "ns", note: "mean of 597 steps" },
      { key: "gpu_busy_frac", label: "GPU busy", value: null, unit: "frac" },
    ],
  };
  const sections = [
    { id: "headline", title: "", detail: "first", body: [large] },
    { id: "verdict", title: "", detail: "first", body: [VERDICT] },
    section("phases", BARS),
  ];
  const [hero] = box(page(surface(), sections)).all("section.hero");
  assert.deepEqual(hero.texts("strong.big"), ["43.3 ms", "25 to 50%", "-"]);
  assert.deepEqual(hero.texts("strong.title"), [VERDICT.title]);
  assert.deepEqual(hero.texts("code.one-line"), [VERDICT.change]);
  assert.deepEqual(
    hero.all("div.strip-part").map((part) => part.attributes.title),
    ["Forward: 75%", "Backward: 25%"],
  );
});

test("a failed run says why above everything else", () => {
  const failed = { ...VERDICT, kind: "failed", title: "Out of memory" };
  const warning = { type: "text", style: "warning", lines: ["Records are incomplete."] };
  const sections = [
    { id: "failure", title: "", detail: "first", body: [failed] },
    { id: "notices", title: "", detail: "first", body: [warning] },
    { id: "verdict", title: "", detail: "first", body: [VERDICT] },
  ];
  const root = box(page(surface(), sections));
  assert.deepEqual(root.texts("p.notice"), ["Records are incomplete."]);
  assert.deepEqual(root.texts("strong.title"), ["Out of memory", VERDICT.title]);
  assert.equal(root.all("section.failed").length, 1);
});

test("findings come first, whatever their place in the document, and verbose sections are folded", () => {
  const sections = [
    section("phases", BARS),
    section("findings", FINDING),
    { ...section("rules", TABLE), detail: "verbose" },
  ];
  const root = box(page(surface(), sections));
  assert.deepEqual(root.texts("h2"), ["findings", "phases"]);
  assert.deepEqual(root.texts("summary").at(-1), "rules");
});

test("a finding shows its saving, its change, its evidence and its places as they are worded", () => {
  const root = drawn(FINDING);
  assert.deepEqual(root.texts("h3"), [FINDING.title]);
  assert.deepEqual(root.texts("span.gain-text"), ["25 to 50%"]);
  assert.deepEqual(root.texts("p.gain-text"), ["saves 11 to 22 ms per step"]);
  assert.deepEqual(root.texts("pre.code"), [FINDING.change]);
  assert.deepEqual(root.texts("dd"), ["23.9 ms (55%)", "0", "90%"]);
  assert.deepEqual(root.all("ul.where")[0].texts("code"), ["train.py:7", "for batch in loader:"]);
});

test("a finding without a saving says why", () => {
  const root = drawn({ ...FINDING, saving: null });
  assert.deepEqual(root.texts("p.gain-text"), ["no time is claimed as saved"]);
});

test("the first finding is open, and after eight the others are folded", () => {
  const findings = Array.from({ length: 10 }, (_, number) => ({ ...FINDING, id: `rule-${number}` }));
  const root = drawn(...findings);
  const cards = root.all("details.finding");
  assert.deepEqual(
    cards.map((card) => card.attributes.open !== undefined),
    [true, ...Array(9).fill(false)],
  );
  assert.equal(root.all("details.abstained")[0].all("details.finding").length, 2);
});

test("a place of a finding leads to where it is shown", () => {
  const asked = [];
  const root = box(
    sectionCard(surface({ goTo: (place, finding) => asked.push([place.line, finding.id]) }), section("x", FINDING)),
  );
  root.all("ul.where")[0].all("button")[0].fire("click");
  assert.deepEqual(asked, [[7, "data-wait"]]);
});

test("bars are drawn as shares of the longest, a part below its whole", () => {
  const root = drawn(BARS);
  assert.deepEqual(
    root
      .all("tbody")[0]
      .all("tr")
      .map((row) => row.texts("th")[0]),
    ["Forward", "encoder", "Backward"],
  );
  assert.equal(root.all("tr.part").length, 1);
  assert.deepEqual(
    root.all("i.bar").map((bar) => bar.properties.width),
    ["100%", `${(5 / 6) * 100}%`, `${(2 / 6) * 100}%`, `${(2 / 6) * 100}%`],
  );
  assert.deepEqual(root.texts("td.number.muted"), ["6.00 ms", "5.00 ms", "2.00 ms", "-", "2.00 ms", "-"]);
});

test("texts are drawn by their style", () => {
  const text = (style, ...lines) => ({ type: "text", style, lines });
  const root = drawn(text("plain", "a", "b"), text("note", "c"), text("warning", "d"), text("command", "e f"));
  assert.deepEqual(root.texts("p"), ["a", "b", "c", "d"]);
  assert.deepEqual(root.texts("p.muted"), ["c"]);
  assert.deepEqual(root.texts("p.notice"), ["d"]);
  assert.deepEqual(root.texts("pre.code"), ["e f"]);
});

test("figures that were not measured are left out of a line of figures", () => {
  const figures = [
    { key: "a_ns", label: "a", value: null, unit: "ns" },
    { key: "b_ns", label: "b", value: { type: "interval", low: 2e6, high: 3e6 }, unit: "ns" },
  ];
  const root = drawn({ type: "figures", figures }, TABLE);
  assert.deepEqual(root.texts("dd"), ["2.0 to 3.0 ms"]);
});

test("a chart is drawn by the page, and elsewhere is a link to its view", () => {
  const chart = { type: "chart", name: "flame", title: "Call tree" };
  const views = [];
  const linked = box(sectionCard(surface({ go: ({ view }) => views.push(view) }), section("x", chart)));
  linked.all("button.link")[0].fire("click");
  assert.deepEqual(views, ["operators"]);
  const node = globalThis.document.createElement("canvas");
  const here = box(sectionCard(surface({ charts: { flame: () => node } }), section("x", chart)));
  assert.equal(here.all("canvas").length, 1);
});

test("a row with a trace opens its view on that trace", () => {
  const went = [];
  const rows = [{ name: "capture 0", view: "timeline", trace: "rank0-capture0.gz" }];
  const table = { type: "table", id: "t", columns: [{ key: "name", label: "", unit: "text" }], rows };
  const root = box(sectionCard(surface({ go: (changes) => went.push(changes) }), section("x", table)));
  root.all("button.link")[0].listeners.click();
  assert.deepEqual(went, [{ view: "timeline", trace: "rank0-capture0.gz" }]);
});

test("a row opens its own view, otherwise the view of its table", () => {
  const views = [];
  const rows = [{ name: "a", view: "memory" }, { name: "b" }];
  const table = { type: "table", id: "t", columns: [{ key: "name", label: "", unit: "text" }], rows, opens: "steps" };
  const root = box(sectionCard(surface({ go: ({ view }) => views.push(view) }), section("x", table)));
  root.all("td.plain").forEach((cell) => cell.all("button.link")[0].fire("click"));
  assert.deepEqual(views, ["memory", "steps"]);
});

test("code in a sentence is shown as code, without its backticks", () => {
  const root = box(sectionCard(surface(), section("x", { type: "text", lines: ["Pass `a=1` or `b`."] })));
  assert.deepEqual(root.texts("code"), ["a=1", "b"]);
  assert.deepEqual(root.texts("p"), ["Pass a=1 or b."]);
});

test("a table with wide rows has the width of the page", () => {
  const many = Array.from({ length: 9 }, (_, number) => ({ key: `c${number}`, label: "", unit: "count" }));
  const row = Object.fromEntries(many.map(({ key }) => [key, 1_234_567]));
  const wide = { type: "table", id: "wide", columns: many, rows: [row] };
  const root = box(cards(surface(), [section("a", TABLE), section("b", wide), section("c", TABLE)]));
  assert.deepEqual(
    root.children.map((node) => node.texts("h2").length || node.attributes["aria-label"]),
    [1, 1, 1],
  );
  assert.equal(root.all("div.column").length, 0);
});

test("a long table counts with the rows that it shows at first", () => {
  const rows = Array(500).fill(TABLE.rows[0]);
  assert.equal(
    estimatedHeight(section("x", { ...TABLE, rows, first_rows: 8 })),
    estimatedHeight(section("x", { ...TABLE, rows: rows.slice(0, 8) })),
  );
});
