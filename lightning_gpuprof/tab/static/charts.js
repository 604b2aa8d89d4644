// Draws charts with Plotly, in the tab's colours. Plotly is loaded when the first chart is drawn.

import { h } from "./dom.js";
import { table } from "./table.js";
import { color } from "./theme.js";

/**
 * @typedef {object} Plot A drawn chart, to listen to.
 * @property {(event: string, listener: (event: Record<string, number | undefined>) => void) => void} on
 *
 * @typedef {object} Plotly
 * @property {(box: HTMLElement, data: object[], layout: object, config: object) => Promise<Plot>} newPlot
 */

/** @type {Promise<Plotly> | null} */
let loading = null;

/** How many rows of a chart's table are shown at first. */
const FIRST_ROWS = 20;

/** @param {import("./source.js").Source} source */
function plotly(source) {
  loading ??= source.plotly().then(
    (url) =>
      new Promise((done, fail) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = () => done(/** @type {{Plotly: Plotly}} */ (/** @type {unknown} */ (window)).Plotly);
        script.onerror = () => fail(new Error(`no Plotly at ${url}`));
        document.head.append(script);
      }),
  );
  return loading;
}

function baseLayout() {
  const grid = color("grid");
  const axis = {
    gridcolor: grid,
    zerolinecolor: grid,
    linecolor: grid,
    tickcolor: grid,
    automargin: true,
    tickfont: { color: color("muted"), size: 13 },
    title: { font: { color: color("muted"), size: 13 }, standoff: 6 },
  };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "inherit", size: 13, color: color("text") },
    margin: { l: 52, r: 8, t: 8, b: 36 },
    xaxis: { ...axis, showgrid: false },
    yaxis: { ...axis, rangemode: "tozero" },
    hoverlabel: {
      bgcolor: color("surface"),
      bordercolor: color("border"),
      font: { color: color("text"), size: 13 },
    },
    legend: { orientation: "h", y: -0.2, font: { size: 13 } },
    showlegend: false,
  };
}

/**
 * @param {object} base
 * @param {object} over Its values count if both objects have a key.
 * @returns {object}
 */
function merge(base, over) {
  const merged = new Map(Object.entries(base));
  for (const [key, value] of Object.entries(over)) {
    const below = merged.get(key);
    merged.set(key, isPlain(value) && isPlain(below) ? merge(below, value) : value);
  }
  return Object.fromEntries(merged);
}

/** @param {unknown} value @returns {value is object} */
function isPlain(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @typedef {Pick<import("./payloads").Table, "id" | "columns" | "rows">} Numbers What a chart shows, as a table. */

/**
 * A chart that draws itself once it is on the page.
 * @param {import("./app.js").Context} context
 * @param {object} spec
 * @param {string} spec.label What the chart shows, for those who cannot see it.
 * @param {number} spec.height In pixels.
 * @param {() => {data: object[], layout?: object}} spec.plot
 * @param {() => Numbers} [spec.numbers] Left out if a table beside the chart has the numbers.
 * @param {(plot: Plot) => void} [spec.ready] Called with the drawn plot, to listen to it.
 */
export function chart(context, spec) {
  const box = h("div.chart", {
    role: "img",
    "aria-label": spec.label,
    style: { height: `${spec.height}px` },
  });
  context.onMount(async () => {
    let Plotly;
    try {
      Plotly = await plotly(context.source);
    } catch {
      const why = "The script that draws charts could not be loaded; reload this page.";
      box.append(h("p.empty", null, why));
      return;
    }
    if (!box.isConnected) return;
    const { data, layout } = spec.plot();
    const config = { displayModeBar: false, responsive: true };
    const plot = await Plotly.newPlot(box, data, merge(baseLayout(), layout ?? {}), config);
    spec.ready?.(plot);
  });
  return spec.numbers ? h("div", null, box, behind(context, spec.label, spec.numbers)) : box;
}

/**
 * The numbers of a chart as a folded table, which is built when the reader first opens it.
 * @param {import("./app.js").Context} context
 * @param {string} label
 * @param {() => Numbers} numbers
 */
function behind(context, label, numbers) {
  /** @type {import("./table.js").TableState & {open?: boolean}} */
  const state = context.local(`behind ${label}`);
  const box = h("div");
  const title = `${label}, in numbers`;
  const fill = () => {
    box.replaceChildren(table({ type: "table", title, first_rows: FIRST_ROWS, ...numbers() }, { state }));
  };
  if (state.open) fill();
  return h(
    "details.behind",
    {
      open: Boolean(state.open),
      ontoggle: (/** @type {Event} */ event) => {
        state.open = /** @type {HTMLDetailsElement} */ (event.target).open;
        if (state.open && !box.firstChild) fill();
      },
    },
    h("summary", null, "Show as a table"),
    box,
  );
}
