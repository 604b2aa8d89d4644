// Device memory over the run and by kind, and what batch size would fill it.

import { chart } from "../charts.js";
import { memoryColor } from "../colors.js";
import { h } from "../dom.js";
import { MEMORY } from "../labels.js";
import { page } from "../render.js";
import { memorySites } from "./memory_sites.js";

/** @typedef {import("../payloads").MemoryPayload} MemoryPayload */
/** @typedef {import("../payloads").MemoryPoint} MemoryPoint */
/** @typedef {import("../payloads").BatchCurve} BatchCurve */

const GIB = 2 ** 30;
/** The line at the device's whole memory is left out if the data would fill less than this share of the chart. */
const LEAST_SHARE = 0.1;

/** @type {import("./registry.js").View} */
export const memory = {
  id: "memory",
  label: "Memory",
  about:
    "Device memory by the allocator's own counters, read at each window's end, and the batch size that would fill it.",
  async render(context) {
    const [payload, sites] = await Promise.all([
      context.get("memory"),
      context.get("memory_sites", { file: context.state.snapshot }).catch((error) => alertOf(error)),
    ]);
    const surface = {
      ...context,
      charts: {
        memory: () => overTheRun(context, payload),
        batch_size: () => (payload.curve ? byBatchSize(context, payload, payload.curve) : null),
      },
    };
    return h(
      "div",
      null,
      payload.nothing && h("p.empty", { role: "note" }, payload.nothing),
      page(surface, payload.sections),
      sites instanceof Node ? sites : memorySites(context, sites),
    );
  },
};

/** @param {unknown} error */
function alertOf(error) {
  return h("p.empty", { role: "alert" }, error instanceof Error ? error.message : String(error));
}

/**
 * @param {import("../app.js").Context} context
 * @param {MemoryPayload} payload
 */
function overTheRun(context, { points }) {
  const known = Object.keys(MEMORY).filter((kind) => points.some((point) => point.kind_bytes[kind] > 0));
  return chart(context, {
    label: "Device memory over the run",
    height: 260,
    numbers: () => ({
      id: "memory",
      columns: [
        { key: "step", label: "Step", unit: "count" },
        { key: "peak_reserved_bytes", label: "Peak reserved", unit: "bytes" },
        { key: "peak_allocated_bytes", label: "Peak allocated", unit: "bytes" },
        { key: "allocated_bytes", label: "Between steps", unit: "bytes" },
        ...known.map((kind) => ({ key: kind, label: MEMORY[kind], unit: /** @type {const} */ ("bytes") })),
      ],
      rows: points.map(({ kind_bytes: kinds, ...point }) => ({ ...point, ...kinds })),
    }),
    plot: () => plotOverTheRun(points, known),
  });
}

/**
 * @param {MemoryPoint[]} points
 * @param {string[]} kinds
 */
function plotOverTheRun(points, kinds) {
  const peak = Math.max(...points.map((point) => point.peak_reserved_bytes));
  const [scale, unit] = unitOf(peak);
  const steps = points.map((point) => point.step);
  const line = (
    /** @type {"peak_reserved_bytes" | "peak_allocated_bytes" | "allocated_bytes"} */ key,
    /** @type {string} */ name,
    /** @type {object} */ style,
  ) => ({
    name,
    x: steps,
    y: points.map((point) => point[key] / scale),
    type: "scatter",
    mode: steps.length > 1 ? "lines" : "markers",
    hovertemplate: `%{y:.3~g} ${unit}`,
    line: style,
  });
  const area = (/** @type {string} */ kind) => ({
    name: MEMORY[kind].toLowerCase(),
    x: steps,
    y: points.map((point) => (point.kind_bytes[kind] ?? 0) / scale),
    type: "scatter",
    mode: "lines",
    stackgroup: "kinds",
    hovertemplate: `%{y:.3~g} ${unit}`,
    line: { width: 0, color: memoryColor(kind) },
  });
  return {
    data: [
      ...kinds.map(area),
      line("peak_reserved_bytes", "peak reserved", { color: "#98a1ad", width: 1.5 }),
      line("peak_allocated_bytes", "peak allocated", { color: "#4c7df0", width: 2 }),
      line("allocated_bytes", "allocated between steps", { color: "#2f9e8f", width: 1.5, dash: "dot" }),
    ],
    layout: {
      showlegend: true,
      hovermode: "x unified",
      xaxis: { title: { text: "step" }, hoverformat: ",d", tickformat: ",~r", rangemode: "tozero" },
      yaxis: { title: { text: unit }, range: [0, (peak / scale) * 1.08] },
      shapes: wholeMemory(points[points.length - 1].total_bytes / scale),
    },
  };
}

/**
 * @param {import("../app.js").Context} context
 * @param {MemoryPayload} payload
 * @param {BatchCurve} curve
 */
function byBatchSize(context, payload, curve) {
  const { constant_bytes: constant, per_sample_bytes: slope } = curve;
  return chart(context, {
    label: "Peak memory by batch size, measured and predicted",
    height: 240,
    numbers: () => ({
      id: "batch_size",
      columns: [
        { key: "samples", label: "Batch size", unit: "count" },
        { key: "peak_allocated_bytes", label: "Measured peak", unit: "bytes" },
        { key: "predicted_bytes", label: "By the line", unit: "bytes" },
      ],
      rows: payload.sizes.map((size) => ({ ...size, predicted_bytes: constant + slope * size.samples })),
    }),
    plot: () => plotByBatchSize(payload, curve),
  });
}

/**
 * @param {MemoryPayload} payload
 * @param {BatchCurve} curve
 */
function plotByBatchSize(
  { sizes, points },
  { batch_size: batch, constant_bytes: constant, per_sample_bytes: slope, low, high },
) {
  const total = points[points.length - 1].total_bytes;
  const until = Math.max(high ?? 0, batch) * 1.15;
  const highest = Math.max(constant + slope * until, ...sizes.map((size) => size.peak_allocated_bytes));
  const [scale, unit] = unitOf(highest);
  const band = { type: "rect", yref: "paper", y0: 0, y1: 1, fillcolor: "#73bf9d", opacity: 0.18, line: { width: 0 } };
  return {
    data: [
      {
        name: "predicted",
        x: [0, until],
        y: [constant / scale, (constant + slope * until) / scale],
        mode: "lines",
        line: { color: "#98a1ad", dash: "dot" },
      },
      {
        name: "measured",
        x: sizes.map((size) => size.samples),
        y: sizes.map((size) => size.peak_allocated_bytes / scale),
        mode: "markers",
        marker: { color: "#4c7df0", size: 8 },
      },
    ],
    layout: {
      showlegend: true,
      xaxis: { title: { text: "batch size" }, rangemode: "tozero" },
      yaxis: { title: { text: `${unit} at the peak` }, rangemode: "tozero" },
      shapes: [
        ...(highest < LEAST_SHARE * total ? [] : wholeMemory(total / scale)),
        ...(low ? [{ ...band, x0: low, x1: high }] : []),
      ],
    },
  };
}

/**
 * The unit in which a chart's largest value has digits before the point.
 * @param {number} largest
 * @returns {[scale: number, unit: string]}
 */
function unitOf(largest) {
  return largest < GIB ? [2 ** 20, "MiB"] : [GIB, "GiB"];
}

/** A line at the device's whole memory. @param {number} at */
function wholeMemory(at) {
  const line = { color: "#d43d2a", width: 1, dash: "dash" };
  return [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line }];
}
