// Operators against what their device can do: FLOP/s over FLOPs per byte, sized by time.

import { chart } from "../charts.js";
import { card, h, shorten } from "../dom.js";
import { count, duration, number, percent } from "../format.js";
import { table } from "../table.js";
import { absent, cyclePicker } from "./cycles.js";

/** @type {Record<string, [label: string, color: string]>} */
const BOUNDS = {
  compute: ["compute", "#4c7df0"],
  memory: ["memory", "#f0a030"],
  latency: ["latency: near neither roof", "#d4548c"],
  unknown: ["roof not known", "#98a1ad"],
};

/** @type {import("./registry.js").View} */
export const roofline = {
  id: "roofline",
  label: "Roofline",
  about:
    "Operators of the profiled steps against what their device can do at most; kernel times by the device's clock.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("roofline", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    const picker = cycles.length > 1 && cyclePicker(context, cycles, payload.trace);
    const why = absent(payload, context) ?? nothing(payload);
    if (why) return h("div", null, picker, h("p.empty", { role: "note" }, why));
    const known = payload.rows.filter((/** @type {any} */ row) => row.flop_per_s && row.flop_per_byte);
    return h(
      "div",
      null,
      picker,
      card(
        conclusion(payload.rows),
        source(payload.roofs),
        known.length > 0 &&
          chart(context, {
            label: "FLOP/s over FLOPs per byte, one point per operator and shape; the table below has the numbers",
            height: 420,
            plot: () => plot(payload, known),
          }),
        (payload.roofs?.notes ?? []).map((/** @type {string} */ note) => h("p.muted", null, note)),
      ),
      card("Operators on the roofline", "Longest kernel time first.", numbers(context, payload.rows)),
    );
  },
};

/** An operator that reaches less than this of both its roofs waits for neither: for launches, or for itself. */
const NEAR = 0.1;
const LABELLED = 3;

/** @param {any} row */
function limit(row) {
  if (!row.bound || row.roof_frac === null) return "unknown";
  return row.roof_frac < NEAR ? "latency" : row.bound;
}

/** What bounds most of the time of the operators whose roofs are known. @param {any[]} rows */
function conclusion(rows) {
  /** @type {Map<string, number>} */
  const time = new Map();
  for (const row of rows)
    if (limit(row) !== "unknown") time.set(limit(row), (time.get(limit(row)) ?? 0) + row.total_ns);
  const [most, ...others] = [...time].sort(([, a], [, b]) => b - a);
  if (!most) return "Roofline";
  const frac = most[1] / others.reduce((sum, [, ns]) => sum + ns, most[1]);
  const said = /** @type {Record<string, string>} */ ({
    compute: "bound by compute: lower precision makes it faster",
    memory: "bound by memory: fusing and smaller types make it faster",
    latency: `bound by latency, below ${percent(NEAR).replace(".0", "")} of both roofs: fewer and larger operators make it faster`,
  });
  return `${percent(frac)} of the placed time is ${said[most[0]]}`;
}

/** @param {any} payload */
function nothing(payload) {
  if (payload.rows.length) return null;
  if (!payload.device) return "This trace holds no device events: a roofline needs kernels.";
  return (
    payload.roofs?.reason ||
    "No operator could be placed on the roofline: that takes shapes (record_shapes=True) and kernels."
  );
}

/** @param {any} roofs The summary of the analysis. @returns {string | import("../dom.js").Child[]} */
function source(roofs) {
  const placed = roofs?.kernel_frac ? `${percent(roofs.kernel_frac)} of kernel time is placed. ` : "";
  if (!roofs?.device) return `${placed}${roofs?.reason || "The device's peaks are not known: points without roofs."}`;
  const used = roofs.hfu ? `Its matrix operators' FLOPs would take ${percent(roofs.hfu)} of the time at peak. ` : "";
  // The address is out of a file that may come from anywhere: nothing but a web page is linked to.
  const sheet = /^https:\/\//.test(roofs.url ?? "")
    ? h("a.link", { href: roofs.url, target: "_blank", rel: "noreferrer noopener" }, "data sheet")
    : "data sheet";
  return [`${placed}${used}Peaks of ${roofs.device} from its `, sheet, `${roofs.reason ? `; ${roofs.reason}` : ""}.`];
}

/**
 * @param {any} payload
 * @param {any[]} rows
 */
function plot(payload, rows) {
  const longest = Math.max(...rows.map((row) => row.total_ns));
  const x = rows.map((row) => row.flop_per_byte);
  const [left, right] = [Math.min(...x, 0.1) / 2, Math.max(...x, 100) * 2];
  const data = Object.entries(BOUNDS).map(([bound, [label, color]]) => {
    const mine = rows.filter((row) => limit(row) === bound);
    return {
      name: label,
      x: mine.map((row) => row.flop_per_byte),
      y: mine.map((row) => row.flop_per_s),
      text: mine.map((row) => shorten(`${row.name} ${JSON.stringify(row.dims)}`.replaceAll("<", "‹"), 90)),
      type: "scatter",
      ...labels(mine, rows),
      hovertemplate: "%{text}<br>%{y:.3~s}FLOP/s at %{x:.3~g} FLOP/byte<extra></extra>",
      marker: {
        color,
        opacity: 0.75,
        size: mine.map((row) => 6 + 26 * Math.sqrt(row.total_ns / longest)),
        line: { width: 0 },
      },
    };
  });
  return {
    data: [...data.filter((one) => one.x.length), ...roofs(rows, left, right)],
    layout: {
      showlegend: true,
      xaxis: {
        type: "log",
        title: { text: "FLOPs per byte" },
        range: [Math.log10(left), Math.log10(right)],
        showgrid: true,
        dtick: 1,
      },
      yaxis: { type: "log", title: { text: "FLOP/s" }, rangemode: "normal", tickformat: "~s", dtick: 1 },
    },
  };
}

/**
 * The dots with the most time of all carry their operator's name.
 * @param {any[]} mine
 * @param {any[]} rows
 */
function labels(mine, rows) {
  const largest = [...rows].sort((a, b) => b.total_ns - a.total_ns).slice(0, LABELLED);
  return {
    mode: "markers+text",
    texttemplate: mine.map((row) =>
      largest.includes(row) ? `${shorten(row.name, 30)} ${duration(row.total_ns)}` : "",
    ),
    textposition: "top center",
    cliponaxis: false,
  };
}

/**
 * A roof per peak that some operator is held against: matrix units have their own.
 * @param {any[]} rows
 * @param {number} left
 * @param {number} right
 */
function roofs(rows, left, right) {
  /** @type {Map<number, {row: any, types: Set<string>}>} */
  const byPeak = new Map();
  for (const row of rows) {
    if (!row.peak_flop_per_s || !row.peak_bytes_per_s) continue;
    const known = byPeak.get(row.peak_flop_per_s) ?? { row, types: new Set() };
    byPeak.set(row.peak_flop_per_s, { row, types: known.types.add(row.dtype) });
  }
  return [...byPeak].map(([peak, { row, types }]) => ({
    name: `${number(Number((peak / 1e12).toPrecision(3)))} TFLOP/s (${[...types].join(", ")})`,
    x: [left, peak / row.peak_bytes_per_s, right],
    y: [left * row.peak_bytes_per_s, peak, peak],
    mode: "lines",
    type: "scatter",
    line: { color: "#8a93a1", width: 1.5 },
    hoverinfo: "name",
  }));
}

/**
 * @param {import("../app.js").Context} context
 * @param {any[]} rows
 */
function numbers(context, rows) {
  return table({
    label: "Roofline",
    columns: /** @type {import("../table.js").Column[]} */ ([
      { key: "name", label: "Operator", text: true },
      { key: "dims", label: "Shapes", text: true, format: (dims) => shorten(JSON.stringify(dims), 36) },
      { key: "dtype", label: "Type", text: true, plain: true },
      { key: "count", label: "Calls", format: count },
      { key: "total_ns", label: "Kernel time", format: duration, bar: true },
      { key: "flop_per_byte", label: "FLOP/byte", format: (value) => number(value) },
      {
        key: "flop_per_s",
        label: "TFLOP/s",
        format: (value) => (value && value < 1e9 ? "< 0.001" : number(value / 1e12)),
      },
      { key: "bytes_per_s", label: "GB/s", format: (value) => number(value / 1e9) },
      {
        key: "bound",
        label: "Bound by",
        text: true,
        plain: true,
        format: (_, row) => (row.anomaly ? "see note" : limit(row).replace("unknown", "–")),
      },
      { key: "roof_frac", label: "Of its roof", format: percent },
    ]),
    rows,
    state: context.local("rows"),
    sort: "total_ns",
    searchable: true,
  });
}
