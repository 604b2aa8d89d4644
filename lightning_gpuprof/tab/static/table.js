// A table that sorts by its headings and searches as one types; remembers both over refreshes.

import { h, shorten } from "./dom.js";

const NAME_LENGTH = 300;
const FIRST_ROWS = 20;

/**
 * @typedef {Record<string, any>} Row
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} [title] What the column means.
 * @property {(value: any, row: Row) => import("./dom.js").Child} [format]
 * @property {boolean} [text] Left-aligned text, sorted by alphabet.
 * @property {boolean} [plain] Text that is no name out of code.
 * @property {boolean} [tail] Keeps the end of a text that is too long: a path's file and line.
 * @property {boolean} [bar] Shows a bar for the value's share of the column's largest.
 *
 * @typedef {object} TableState
 * @property {string} [sort]
 * @property {boolean} [up]
 * @property {string} [search]
 * @property {boolean} [all]
 */

/**
 * @param {object} spec
 * @param {string} spec.label
 * @param {Column[]} spec.columns
 * @param {Row[]} spec.rows
 * @param {TableState} spec.state Kept by the caller from one refresh to the next.
 * @param {string} [spec.sort] Column first sorted by, largest first; as given where left out.
 * @param {(row: Row) => void} [spec.open] Makes each name a button that calls this.
 * @param {boolean} [spec.searchable]
 * @param {number} [spec.first] Rows shown until all are asked for.
 */
export function table(spec) {
  const { columns, rows, state, first = FIRST_ROWS } = spec;
  state.sort ??= spec.sort;
  const body = h("tbody");
  const heads = columns.map((column) => headCell(column, state, () => draw()));
  const more = h("button.link", { onclick: () => ((state.all = !state.all), draw()) });
  const found = h("span.muted", { "aria-live": "polite" });
  const search = h("input", {
    type: "search",
    placeholder: "Search names…",
    "aria-label": `Search in ${spec.label}`,
    value: state.search ?? "",
    oninput: (/** @type {any} */ event) => ((state.search = event.target.value), draw()),
  });
  const largest = new Map(
    columns.filter((one) => one.bar).map((one) => [one.key, Math.max(1, ...values(rows, one.key))]),
  );

  function draw() {
    const shown = arrange(rows, columns, state);
    const part = state.all ? shown : shown.slice(0, first);
    body.replaceChildren(...part.map((row) => line(row, columns, largest, spec.open)));
    heads.forEach((head, index) => markSort(head, columns[index], state));
    more.hidden = shown.length <= first;
    more.textContent = state.all ? `Show the first ${first}` : `Show all ${shown.length}`;
    found.textContent = state.search ? `${shown.length} of ${rows.length} rows` : "";
  }
  draw();
  return h(
    "div.table-box",
    null,
    spec.searchable && h("div.table-tools", null, search, found),
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": spec.label },
      h("table", null, h("thead", null, h("tr", null, heads)), body),
    ),
    more,
  );
}

/**
 * @param {Row[]} rows
 * @param {string} key
 */
function values(rows, key) {
  return rows.map((row) => row[key]).filter((value) => typeof value === "number");
}

/**
 * @param {Row[]} rows
 * @param {Column[]} columns
 * @param {TableState} state
 */
function arrange(rows, columns, state) {
  const wanted = (state.search ?? "").toLowerCase();
  const named = columns.filter((column) => column.text);
  // As it is shown, and whole where that is short.
  const words = (/** @type {Row} */ row) =>
    named.map(({ key, format }) => `${row[key]} ${format?.(row[key], row)}`).join(" ");
  const kept = wanted ? rows.filter((row) => words(row).toLowerCase().includes(wanted)) : [...rows];
  const key = state.sort;
  if (!key) return kept;
  const sign = state.up ? 1 : -1;
  return kept.sort((a, b) => sign * compare(a[key], b[key]));
}

/**
 * Not measured sorts below every number.
 * @param {any} a
 * @param {any} b
 */
function compare(a, b) {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b);
  return (a ?? -Infinity) - (b ?? -Infinity) || 0;
}

/**
 * @param {Column} column
 * @param {TableState} state
 * @param {() => void} draw
 */
function headCell(column, state, draw) {
  const sort = () => {
    state.up = state.sort === column.key ? !state.up : Boolean(column.text);
    state.sort = column.key;
    draw();
  };
  return h(
    column.text ? "th" : "th.number",
    { scope: "col", title: column.title },
    h("button", { onclick: sort }, column.label),
  );
}

/**
 * @param {HTMLElement} head
 * @param {Column} column
 * @param {TableState} state
 */
function markSort(head, column, state) {
  if (state.sort === column.key) head.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  else head.removeAttribute("aria-sort");
}

/**
 * @param {Row} row
 * @param {Column[]} columns
 * @param {Map<string, number>} largest
 * @param {((row: Row) => void) | undefined} open
 */
function line(row, columns, largest, open) {
  return h(
    "tr",
    null,
    columns.map((column, index) => {
      const value = row[column.key];
      const shown = column.format ? column.format(value, row) : (value ?? "–");
      if (column.text) {
        const text = shown instanceof Node ? shown : shorten(shown, NAME_LENGTH);
        const title = shown instanceof Node ? null : shorten(value ?? "", 2000);
        const name = open && index === 0 ? h("button.link", { onclick: () => open(row) }, text) : text;
        if (column.tail) return h("td.name.tail", { title }, h("bdi", { dir: "ltr" }, name));
        return h(column.plain ? "td.plain" : "td.name", { title }, name);
      }
      const share = column.bar && typeof value === "number" ? value / (largest.get(column.key) ?? 1) : 0;
      return h(
        "td.number",
        null,
        column.bar && h("i.cell-bar", { style: { width: `${(share * 100).toFixed(1)}%` } }),
        h("span", null, value === null || value === undefined ? "–" : shown),
      );
    }),
  );
}
