// Operators against what their device can do: FLOP/s over FLOPs per byte, sized by time.

import { chart } from "../charts.js";
import { h, shorten } from "../dom.js";
import { duration } from "../format.js";
import { LIMITS } from "../labels.js";
import { sectionCard } from "../render.js";
import { color } from "../theme.js";
import { absent, cyclePicker } from "./cycles.js";

/** @typedef {import("../payloads").RooflinePoint} Point */

/** @type {Record<Point["limit"], string>} */
const COLORS = { compute: "#4c7df0", memory: "#f0a030", latency: "#d4548c", unknown: "#98a1ad" };
/** Where the names of the points with the most time stand, so that those of neighbours do not overlap. */
const LABEL_POSITIONS = ["top center", "bottom center", "bottom right"];
const LABELLED = LABEL_POSITIONS.length;
/** On a narrower page the roofs are named in the legend, otherwise at their ends. */
const NARROW = 700;
const ROOM_FOR_LABELS = 170;
/** Labels of peaks that are closer than this factor stand above and below their roofs. */
const CLOSE = 2.5;

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
  const hasRoom = window.innerWidth > NARROW;
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
    data: [...traces.filter((trace) => trace.x.length), ...roofs.map((roof) => roofLine(roof, left, right, !hasRoom))],
    layout: {
      showlegend: true,
      annotations: hasRoom ? roofLabels(roofs, left) : [],
      ...(hasRoom ? { margin: { r: ROOM_FOR_LABELS } } : {}),
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
    textposition: points.map((point) => LABEL_POSITIONS[Math.max(0, largest.indexOf(point))]),
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
 * The name of each peak at the right end of its roof, and the bandwidth above the slope.
 * @param {import("../payloads").Roof[]} roofs
 * @param {number} left
 */
function roofLabels(roofs, left) {
  const label = { showarrow: false, font: { color: color("muted"), size: 13 } };
  const sorted = [...roofs].sort((a, b) => b.flop_per_s - a.flop_per_s);
  const peaks = sorted.map((roof, index) => {
    const isClose = index > 0 && sorted[index - 1].flop_per_s < CLOSE * roof.flop_per_s;
    return {
      ...label,
      text: roof.label,
      xref: "paper",
      x: 1,
      xanchor: "left",
      y: Math.log10(roof.flop_per_s),
      yanchor: isClose ? "top" : "bottom",
    };
  });
  const slopes = new Map(sorted.map((roof) => [roof.bandwidth, roof]));
  const bandwidths = [...slopes.values()].map((roof) => {
    const middle = Math.sqrt(left * (roof.flop_per_s / roof.bytes_per_s));
    const [x, y] = [Math.log10(middle), Math.log10(middle * roof.bytes_per_s)];
    return { ...label, text: roof.bandwidth, x, y, xanchor: "right", yanchor: "bottom" };
  });
  return [...peaks, ...bandwidths];
}

/**
 * @param {import("../payloads").Roof} roof
 * @param {number} left
 * @param {number} right
 * @param {boolean} showlegend
 */
function roofLine({ label, flop_per_s: peak, bytes_per_s: bandwidth }, left, right, showlegend) {
  return {
    name: label,
    showlegend,
    x: [left, peak / bandwidth, right],
    y: [left * bandwidth, peak, peak],
    mode: "lines",
    type: "scatter",
    line: { color: "#8a93a1", width: 1.5 },
    hoverinfo: "name",
  };
}
