// Tables of a document. A click on a heading sorts, typing searches, and a refresh keeps both.

import { chipColor } from "./colors.js";
import { h, shorten } from "./dom.js";
import { columnDecimals, shortKernel, shown } from "./format.js";
import { scrollBox } from "./scroll.js";

/** @typedef {import("./payloads").Column} Column */
/** @typedef {import("./payloads").Place} Place */
/** @typedef {import("./payloads").Table} Table */
/** @typedef {import("./payloads").Value} Value */
/** @typedef {Record<string, Value | undefined>} Row */

/**
 * @typedef {object} TableState What a reader changed; kept by the view from one refresh to the next.
 * @property {string} [sort]
 * @property {boolean} [up]
 * @property {string} [search]
 * @property {boolean} [all]
 *
 * @typedef {object} TableOptions
 * @property {TableState} [state]
 * @property {string} [label] What the table is about, where it has no title.
 * @property {(row: Row) => (() => void) | null} [open] What a click on a row's name does, null for nothing.
 * @property {Selection} [select] Rows are selected with a box before their name.
 *
 * @typedef {object} Selection
 * @property {(row: Row) => boolean} has
 * @property {(row: Row) => void} toggle
 */

/** version_2 before version_10. */
const NATURAL = new Intl.Collator("en", { numeric: true });
const LONGEST_TEXT = 300;
const LONGEST_TITLE = 2000;
/** A text of so few letters stands on one line. */
const SHORT_TEXT = 14;
/** @type {ReadonlySet<string>} */
const TEXT_UNITS = new Set(["text", "code", "place", "state", "flag"]);

/**
 * @param {Table} spec
 * @param {TableOptions} [options]
 */
export function table(spec, { state = {}, label = spec.title ?? spec.id, open, select } = {}) {
  const columns = visibleColumns(spec);
  state.sort ??= spec.sort ?? undefined;
  const largest = largestValues(spec, columns);
  const decimals = new Map(
    columns.map(({ key, unit }) => [
      key,
      columnDecimals(
        spec.rows.map((row) => row[key]),
        unit,
      ),
    ]),
  );
  const body = h("tbody");
  const heads = columns.map((column) => headCell(column, state, draw));
  const more = h("button.link", {
    onclick: () => {
      state.all = !state.all;
      draw();
    },
  });
  const matches = h("span.muted", { "aria-live": "polite" });
  const search = h("input", {
    type: "search",
    placeholder: "Search names…",
    "aria-label": `Search in ${label}`,
    value: state.search ?? "",
    oninput: (/** @type {Event} */ event) => {
      state.search = /** @type {HTMLInputElement} */ (event.target).value;
      draw();
    },
  });

  function draw() {
    const rows = arrange(spec, state);
    const first = spec.first_rows ?? rowsToLookAt(spec.rows);
    const part = state.all ? rows : rows.slice(0, first);
    body.replaceChildren(...part.map((row) => tableRow(row, spec, columns, { largest, decimals }, { open, select })));
    heads.forEach((head, index) => markSorted(head, columns[index], state));
    more.hidden = rows.length <= first;
    more.textContent = state.all ? `Show the first ${first}` : `Show all ${rows.length}`;
    matches.textContent = state.search ? `${rows.length} of ${spec.rows.length} rows` : "";
  }
  draw();
  return h(
    "div.table-box",
    null,
    spec.searchable && h("div.table-tools", null, search, matches),
    scrollBox(label, h("table", { "data-table": spec.id }, h("thead", null, h("tr", null, heads)), body)),
    more,
  );
}

/** As many rows as are worth a look, where rows have a state; otherwise all. @param {Row[]} rows */
function rowsToLookAt(rows) {
  const quiet = rows.filter(({ state }) => state === "good" || state === "not_measured");
  return quiet.length ? Math.max(1, rows.length - quiet.length) : rows.length;
}

/** The columns that a page shows, without those in which no row has a value. @param {Table} spec */
export function visibleColumns({ columns, rows }) {
  return columns.filter(
    ({ key, detail }) => detail !== "verbose" && (!rows.length || rows.some((row) => (row[key] ?? "") !== "")),
  );
}

/**
 * The rows that match the search, in the order that the reader chose. A row of level 1 stays below its row of
 * level 0.
 * @param {Table} spec
 * @param {TableState} state
 * @returns {Row[]}
 */
export function arrange(spec, { search, sort, up }) {
  const words = (search ?? "").toLowerCase();
  const searched = spec.columns.filter(({ unit, detail }) => TEXT_UNITS.has(unit) && detail !== "verbose");
  const matching = words
    ? spec.rows.filter((row) => searched.some((column) => searchText(row[column.key], column).includes(words)))
    : spec.rows;
  if (!sort) return [...matching];
  /** @type {Row[][]} */
  const groups = [];
  for (const row of matching) {
    if (row.level && groups.length) groups[groups.length - 1].push(row);
    else groups.push([row]);
  }
  const sign = up ? 1 : -1;
  groups.sort(([first], [second]) => sign * compare(first[sort], second[sort]));
  return groups.flat();
}

/**
 * The text in which to search: the value as shown and in full, such as a kernel's short and long name.
 * @param {Value | undefined} value
 * @param {Column} column
 */
function searchText(value, { unit }) {
  return `${shown(value, unit)} ${value && typeof value === "object" ? cellText(value, unit) : ""}`.toLowerCase();
}

/**
 * Orders the values of a column; values that were not measured come below every number.
 * @param {Value | undefined} first
 * @param {Value | undefined} second
 */
function compare(first, second) {
  const [a, b] = [sortKey(first), sortKey(second)];
  if (typeof a === "string" && typeof b === "string") return NATURAL.compare(a, b);
  if (typeof a === "string") return 1;
  if (typeof b === "string") return -1;
  return a === b ? 0 : a - b;
}

/**
 * @param {Value | undefined} value
 * @returns {number | string}
 */
function sortKey(value) {
  if (value === null || value === undefined) return -Infinity;
  if (typeof value === "object") {
    if (value.type === "quantity") return sortKey(value.value);
    return value.type === "interval" ? value.high : shown(value, "place");
  }
  return typeof value === "boolean" ? Number(value) : value;
}

/**
 * @param {Table} spec
 * @param {Column[]} columns
 */
function largestValues({ rows }, columns) {
  const bars = columns.filter((column) => column.bar);
  return new Map(
    bars.map(({ key }) => {
      const numbers = rows.map((row) => row[key]).filter((value) => typeof value === "number");
      return [key, Math.max(Number.MIN_VALUE, ...numbers.map(Math.abs))];
    }),
  );
}

/** @param {Column} column */
function isText({ unit }) {
  return TEXT_UNITS.has(unit);
}

/**
 * @param {Column} column
 * @param {TableState} state
 * @param {() => void} draw
 */
function headCell(column, state, draw) {
  const sort = () => {
    state.up = state.sort === column.key ? !state.up : isText(column);
    state.sort = column.key;
    draw();
  };
  return h(
    isText(column) ? "th" : "th.number",
    { scope: "col", title: column.note },
    h("button", { onclick: sort, "aria-label": column.label ? null : `Sort by ${column.key}` }, column.label),
  );
}

/**
 * @param {HTMLElement} head
 * @param {Column} column
 * @param {TableState} state
 */
function markSorted(head, column, state) {
  if (state.sort === column.key) head.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  else head.removeAttribute("aria-sort");
}

/**
 * @param {Row} row
 * @param {Table} spec
 * @param {Column[]} columns
 * @param {{largest: Map<string, number>, decimals: Map<string, number | null>}} ofColumns
 * @param {Pick<TableOptions, "open" | "select">} options
 */
function tableRow(row, spec, columns, { largest, decimals }, { open, select }) {
  const color = spec.color && chipColor(String(row[spec.color] ?? ""));
  const show = open?.(row);
  const named = nameColumn(columns);
  return h(
    row.level ? "tr.part" : "tr",
    { "data-state": row.state, "data-place": placeOf(row) },
    columns.map((column) => {
      const value = row[column.key];
      const isName = column === named;
      const text = shorten(cellText(value, column.unit, decimals.get(column.key)), LONGEST_TEXT);
      const name = isName && show ? h("button.link", { onclick: show }, text) : text;
      const content = isName && select ? h("span", null, selectBox(row, text, select), name) : name;
      if (!isText(column)) return numberCell(content, row, column, largest);
      return textCell(content, value, column, isName ? { color, note: row.note } : {});
    }),
  );
}

/**
 * @param {Row} row
 * @param {string} name
 * @param {Selection} select
 */
function selectBox(row, name, select) {
  const [checked, onchange] = [select.has(row), () => select.toggle(row)];
  return h("input", { type: "checkbox", "aria-label": `Select ${name}`, checked, onchange });
}

/** The column that says what a row is about: the first, or behind a state the first text. @param {Column[]} columns */
function nameColumn(columns) {
  const isState = (/** @type {Column} */ { unit }) => unit === "state" || unit === "flag";
  if (!isState(columns[0])) return columns[0];
  return columns.find((column) => isText(column) && !isState(column)) ?? columns[0];
}

/** A line of code that a row is about, so that a finding can lead to it. @param {Row} row */
export function placeOf(row) {
  for (const value of Object.values(row)) {
    if (value && typeof value === "object" && value.type === "place" && value.file) return shown(value, "place");
  }
  return null;
}

/**
 * @param {import("./dom.js").Child} content
 * @param {Value | undefined} value
 * @param {Column} column
 * @param {{color?: string | null, note?: Value}} first What the first cell of a row has beside its text.
 */
function textCell(content, value, column, { color, note }) {
  const phase = phaseIn(value);
  const isName = !phase && (column.unit === "code" || column.unit === "place");
  const whole = shorten(wholeText(value), LONGEST_TITLE);
  const fill = color ?? (phase && chipColor(phase));
  const chip = fill && h("i.chip", { style: { background: fill } });
  const below = note && h("p.note", null, shorten(note, LONGEST_TITLE));
  const source = value && typeof value === "object" && value.type === "place" && value.source;
  const code = source && h("code.source", null, shorten(source.trim(), LONGEST_TEXT));
  if (column.keep_end) return h("td.name.tail", { title: whole }, chip, h("bdi", { dir: "ltr" }, content), code, below);
  const isShort = typeof value === "string" && value.length <= SHORT_TEXT;
  const kind = isName ? "td.name" : `td.plain${color ? ".colored" : ""}${isShort ? ".short" : ""}`;
  return h(kind, { title: whole, "data-unit": column.unit }, chip, content, code, below);
}

/** The phase that a place is, where it is nothing else. @param {Value | undefined} value */
function phaseIn(value) {
  const isPlace = value && typeof value === "object" && value.type === "place";
  return isPlace && !value.file && !value.name && !value.kernel ? value.phase : null;
}

/**
 * The content of a cell: a kernel's short name, or a line of code with its function.
 * @param {Value | undefined} value
 * @param {import("./payloads").Unit} unit
 * @param {number | null} [decimals]
 */
function cellText(value, unit, decimals) {
  if (!value || typeof value !== "object" || value.type !== "place") return shown(value, unit, decimals);
  if (value.kernel && !value.name) return shortKernel(value.kernel);
  const text = shown(value, unit);
  return value.file && value.function ? `${text} ${value.function}` : text;
}

/** @param {Value | undefined} value */
function wholeText(value) {
  if (value === null || value === undefined || typeof value === "boolean") return "";
  if (typeof value !== "object") return String(value);
  return value.type === "place" ? (value.kernel ?? shown(value, "place")) : "";
}

/**
 * @param {import("./dom.js").Child} content
 * @param {Row} row
 * @param {Column} column
 * @param {Map<string, number>} largest
 */
function numberCell(content, row, column, largest) {
  const value = row[column.key];
  const share = column.bar && typeof value === "number" ? Math.abs(value) / (largest.get(column.key) ?? 1) : 0;
  return h(
    "td.number",
    null,
    column.bar && h(barSpec(value, row, column), { style: { width: `${(share * 100).toFixed(1)}%` } }),
    h("span", null, content),
  );
}

/**
 * Differences are drawn by their sign, and grey where they show nothing.
 * @param {Value | undefined} value
 * @param {Row} row
 * @param {Column} column
 */
function barSpec(value, { state }, { difference }) {
  if (!difference || typeof value !== "number") return "i.cell-bar";
  if (state === "neutral") return "i.cell-bar.neutral";
  return value > 0 ? "i.cell-bar.more" : "i.cell-bar.less";
}
