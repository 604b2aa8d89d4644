// Operators against what their device can do: FLOP/s over FLOPs per byte, sized by time.

import { chart } from "../charts.js";
import { h, shorten } from "../dom.js";
import { duration } from "../format.js";
import { LIMITS } from "../labels.js";
import { sectionCard } from "../render.js";
import { absent, cyclePicker } from "./cycles.js";

/** @typedef {import("../payloads").RooflinePoint} Point */

/** @type {Record<Point["limit"], string>} */
const COLORS = { compute: "#4c7df0", memory: "#f0a030", latency: "#d4548c", unknown: "#98a1ad" };
const LABELLED = 3;

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
    const picker = cyclePicker(context, cycles, payload.trace);
    const why = absent(payload, context) ?? payload.nothing;
    if (why) return h("div", null, picker, h("p.empty", { role: "note" }, why));
    const surface = {
      ...context,
      charts: {
        roofline: () =>
          chart(context, {
            label: "FLOP/s over FLOPs per byte, a point for each operator and shape; the table below has the numbers",
            height: 420,
            plot: () => plot(payload),
          }),
      },
    };
    const [first, ...others] = payload.sections;
    return h(
      "div",
      null,
      picker,
      sectionCard(surface, first),
      sheet(payload.data_sheet),
      others.map((section) => sectionCard(surface, section)),
    );
  },
};

/** @param {string | null} address */
function sheet(address) {
  if (!address) return null;
  return h(
    "p.muted.sheet",
    null,
    h("a.link", { href: address, target: "_blank", rel: "noreferrer noopener" }, "Data sheet"),
  );
}

/** @param {import("../payloads").RooflinePayload} payload */
function plot({ points, roofs }) {
  const longest = Math.max(...points.map((point) => point.total_ns));
  const intensities = points.map((point) => point.flop_per_byte);
  const [left, right] = [Math.min(...intensities, 0.1) / 2, Math.max(...intensities, 100) * 2];
  const largest = [...points].sort((a, b) => b.total_ns - a.total_ns).slice(0, LABELLED);
  const kinds = /** @type {Point["limit"][]} */ (Object.keys(COLORS));
  const traces = kinds.map((kind) =>
    scatter(
      kind,
      points.filter((point) => point.limit === kind),
      largest,
      longest,
    ),
  );
  return {
    data: [...traces.filter((trace) => trace.x.length), ...roofs.map((roof) => roofLine(roof, left, right))],
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
 * The points that have the same limit; those with the most time carry their operator's name.
 * @param {Point["limit"]} kind
 * @param {Point[]} points
 * @param {Point[]} largest
 * @param {number} longest
 */
function scatter(kind, points, largest, longest) {
  const label = (/** @type {Point} */ point) =>
    largest.includes(point) ? `${shorten(point.name, 30)} ${duration(point.total_ns)}` : "";
  return {
    name: LIMITS[kind],
    x: points.map((point) => point.flop_per_byte),
    y: points.map((point) => point.flop_per_s),
    text: points.map((point) => shorten(`${point.name} ${point.shapes}`.replaceAll("<", "‹"), 90)),
    type: "scatter",
    mode: "markers+text",
    texttemplate: points.map(label),
    textposition: "top center",
    cliponaxis: false,
    hovertemplate: "%{text}<br>%{y:.3~s}FLOP/s at %{x:.3~g} FLOP/byte<extra></extra>",
    marker: {
      color: COLORS[kind],
      opacity: 0.75,
      size: points.map((point) => 6 + 26 * Math.sqrt(point.total_ns / longest)),
      line: { width: 0 },
    },
  };
}

/**
 * @param {import("../payloads").Roof} roof
 * @param {number} left
 * @param {number} right
 */
function roofLine({ label, flop_per_s: peak, bytes_per_s: bandwidth }, left, right) {
  return {
    name: label,
    x: [left, peak / bandwidth, right],
    y: [left * bandwidth, peak, peak],
    mode: "lines",
    type: "scatter",
    line: { color: "#8a93a1", width: 1.5 },
    hoverinfo: "name",
  };
}
