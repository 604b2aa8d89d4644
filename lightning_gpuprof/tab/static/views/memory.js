// Device memory over the run and by kind, and what batch size would fill it.

import { chart } from "../charts.js";
import { card, code, h } from "../dom.js";
import { count, percent, size } from "../format.js";
import { memorySites } from "./memory_sites.js";
import { outOfMemory } from "./out_of_memory.js";

const GIB = 2 ** 30;
/** Where the device's whole memory would leave less than this share to what is shown, it is not drawn. */
const SEEN = 0.1;
/** @type {Record<string, [label: string, color: string]>} */
const KINDS = {
  parameters: ["Parameters", "#2b4fb8"],
  gradients: ["Gradients", "#7d5bd0"],
  optimizer_state: ["Optimizer state", "#d4548c"],
  activations: ["Activations", "#73bf9d"],
  other: ["Other", "#98a1ad"],
};

/** @type {import("./registry.js").View} */
export const memory = {
  id: "memory",
  label: "Memory",
  about:
    "Device memory by the allocator's own counters, read at each window's end, and the batch size that would fill it.",
  async render(context) {
    const failed = (/** @type {any} */ error) => h("p.empty", { role: "alert" }, String(error.message));
    const [payload, report, found] = await Promise.all([
      context.get("memory"),
      context.get("report"),
      context.get("memory_sites", { file: context.state.snapshot }).catch(failed),
    ]);
    const sites = found instanceof Node ? found : memorySites(context, found);
    const full = await outOfMemory(context, report.run.error);
    const leak = report.findings.find((/** @type {any} */ one) => one.id === "memory-growth");
    if (!payload.points.length) return h("div", null, full ?? h("p.empty", { role: "note" }, absent(payload)), sites);
    return h(
      "div",
      null,
      full,
      !full && verdict(payload, leak, found),
      over(context, payload),
      h(
        "div.columns",
        null,
        h("div.column", null, kinds(payload), allocator(payload)),
        // What grows fills any batch's room.
        payload.advice && !leak && advice(context, payload),
      ),
      sites,
    );
  },
};

/**
 * In a sentence: what grows and at which line, or how much of the device is used and what would fill it.
 * @param {any} payload
 * @param {any} leak The finding that memory grows, where there is one.
 * @param {any} found The snapshot's lines.
 */
function verdict(payload, leak, found) {
  const last = payload.points[payload.points.length - 1];
  const peak = Math.max(...payload.points.map((/** @type {any} */ one) => one.peak_reserved_bytes));
  const line = leak && found.devices?.[0]?.growing[0];
  const batch = payload.advice?.suggested_batch_size;
  const title = leak ? leak.title : `The peak takes ${percent(peak / last.total_bytes)} of ${size(last.total_bytes)}`;
  const next = leak ? leak.advice : batch ? `Batch size ${count(batch)} fills it.` : null;
  return h(
    "section.hero",
    { "aria-label": "Verdict" },
    h(
      "div.hero-cause",
      null,
      h("span.label", null, leak ? "Leak" : "Verdict"),
      h("strong.title", null, title),
      line?.file &&
        h(
          "p",
          null,
          "It grows at ",
          h("code", null, `${line.file}:${line.line}`),
          line.function && ` in ${line.function}`,
          ".",
        ),
      next && h("p", null, next),
      leak?.change && code(leak.change),
    ),
  );
}

/** @param {any} payload */
function absent(payload) {
  return payload.device?.type === "cpu"
    ? "This run trained on a CPU: there is no device memory to measure. On a GPU this view shows it over the run, by kind, with the peak and what batch size would fill it."
    : "Device memory was not measured in this run.";
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} payload
 */
function over(context, payload) {
  const { points } = payload;
  const known = Object.keys(KINDS).filter((kind) => points.some((/** @type {any} */ one) => one.kind_bytes[kind] > 0));
  const last = points[points.length - 1];
  const peak = Math.max(...points.map((/** @type {any} */ one) => one.peak_reserved_bytes));
  const [scale, unit] = unitOf(peak);
  const x = points.map((/** @type {any} */ one) => one.step);
  const line = (/** @type {string} */ key, /** @type {string} */ name, /** @type {object} */ style) => ({
    name,
    x,
    y: points.map((/** @type {any} */ one) => one[key] / scale),
    type: "scatter",
    mode: x.length > 1 ? "lines" : "markers",
    hovertemplate: `%{y:.3~g} ${unit}`,
    line: style,
  });
  const area = (/** @type {string} */ kind) => ({
    name: KINDS[kind][0].toLowerCase(),
    x,
    y: points.map((/** @type {any} */ one) => (one.kind_bytes[kind] ?? 0) / scale),
    type: "scatter",
    mode: "lines",
    stackgroup: "kinds",
    hovertemplate: `%{y:.3~g} ${unit}`,
    line: { width: 0, color: KINDS[kind][1] },
  });
  return card(
    "Device memory over the run",
    `At most ${size(peak)} of ${size(last.total_bytes)} reserved. Lines are peaks since the process began, and the memory between steps; areas are the peak by kind.`,
    chart(context, {
      label: "Device memory over the run",
      numbers: () => ({
        columns: [
          { key: "step", label: "Step", format: count },
          { key: "peak_reserved_bytes", label: "Peak reserved", format: size },
          { key: "peak_allocated_bytes", label: "Peak allocated", format: size },
          { key: "allocated_bytes", label: "Between steps", format: size },
          ...known.map((kind) => ({ key: kind, label: KINDS[kind][0], format: size })),
        ],
        rows: points.map((/** @type {any} */ one) => ({ ...one, ...one.kind_bytes })),
      }),
      height: 260,
      plot: () => ({
        data: [
          ...known.map(area),
          line("peak_reserved_bytes", "peak reserved", { color: "#98a1ad", width: 1.5 }),
          line("peak_allocated_bytes", "peak allocated", { color: "#4c7df0", width: 2 }),
          line("allocated_bytes", "allocated between steps", { color: "#2f9e8f", width: 1.5, dash: "dot" }),
        ],
        layout: {
          showlegend: true,
          hovermode: "x unified",
          xaxis: { title: { text: "step" }, hoverformat: ",d", tickformat: ",~r", rangemode: "tozero" },
          yaxis: { title: { text: unit }, range: [0, (peak / scale) * 1.08] },
          shapes: whole(last.total_bytes / scale),
        },
      }),
    }),
  );
}

/** @param {any} payload */
function kinds(payload) {
  const last = payload.points[payload.points.length - 1];
  const rows = Object.entries(last.kind_bytes).filter(([, bytes]) => bytes > 0);
  if (!rows.length) return card("By kind", null, h("p.empty", null, "Kinds of memory were not measured."));
  const largest = Math.max(...rows.map(([, bytes]) => bytes));
  return card(
    "By kind",
    `Memory at the peak, as of step ${count(last.step)}.`,
    bars(
      rows.map(([kind, bytes]) => [KINDS[kind]?.[0] ?? kind, bytes, KINDS[kind]?.[1] ?? "#98a1ad"]),
      largest,
    ),
  );
}

/** The allocator's own breakdown. @param {any} payload */
function allocator(payload) {
  const last = payload.points[payload.points.length - 1];
  const rows = Object.entries(last.allocator_bytes ?? {});
  if (!rows.length) return null;
  const frac = (last.allocator_bytes.inactive_split?.all ?? 0) / Math.max(1, last.reserved_bytes);
  const pools = Object.keys(rows[0][1]);
  return card(
    "Allocator",
    `As of step ${count(last.step)}: fragmentation ${percent(frac)} (inactive split of reserved), ${count(last.alloc_retries)} retries, ${count(last.ooms)} times out of memory.`,
    h(
      "table.phases",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Memory"),
          pools.map((pool) => h("th.number", { scope: "col" }, pool.replace("_", " "))),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map(([name, of]) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, name.replace("_", " ")),
            pools.map((pool) => h("td.number", null, size(of[pool]))),
          ),
        ),
      ),
    ),
  );
}

/**
 * @param {[label: string, bytes: number, color: string][]} rows
 * @param {number} largest
 */
function bars(rows, largest) {
  return h(
    "table.phases",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, "What"),
        h("th", { scope: "col" }, h("span.sr", null, "Bar")),
        h("th.number", { scope: "col" }, "Memory"),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map(([label, bytes, color]) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, h("i.chip", { style: { background: color } }), label),
          h("td.bar-cell", null, h("i.bar", { style: { width: `${(bytes / largest) * 100}%`, background: color } })),
          h("td.number", null, size(bytes)),
        ),
      ),
    ),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} payload
 */
function advice(context, payload) {
  const { advice: found, sizes, points } = payload;
  const { constant_bytes: constant, per_sample_bytes: slope } = found.details ?? {};
  const text = found.suggested_batch_size
    ? `${count(found.suggested_batch_size)} instead of ${count(found.batch_size)}${found.low === found.high ? "" : `: ${count(found.low)} to ${count(found.high)} fill the target band`}.`
    : `No suggestion: ${found.reason}.`;
  const known = constant !== undefined && constant !== null && slope;
  return card(
    "Batch size",
    text,
    decided(found.details ?? {}),
    found.suggested_batch_size && found.reason && h("p.muted", null, found.reason),
    known &&
      chart(context, {
        label: "Peak memory by batch size, measured and predicted",
        height: 240,
        numbers: () => ({
          columns: [
            { key: "samples", label: "Batch size", format: count },
            { key: "peak_allocated_bytes", label: "Measured peak", format: size },
            { key: "predicted_bytes", label: "By the line", format: size },
          ],
          rows: sizes.map((/** @type {any} */ one) => ({ ...one, predicted_bytes: constant + slope * one.samples })),
        }),
        plot: () => curve(found, sizes, points[points.length - 1].total_bytes, constant, slope),
      }),
  );
}

/** Which rank the advice is from: one batch size goes to all. @param {any} details */
function decided({ rank, ranks_advised: advised }) {
  if (rank === undefined) return null;
  return h(
    "p.muted",
    null,
    `One batch size goes to every rank: rank ${rank} of the ${count(advised)} that measured their memory has the least room, and decides.`,
  );
}

/**
 * @param {any} found
 * @param {any[]} sizes
 * @param {number} total
 * @param {number} constant
 * @param {number} slope
 */
function curve(found, sizes, total, constant, slope) {
  const until = Math.max(found.high ?? 0, found.batch_size) * 1.15;
  const highest = Math.max(constant + slope * until, ...sizes.map((one) => one.peak_allocated_bytes));
  const [scale, unit] = unitOf(highest);
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
        x: sizes.map((one) => one.samples),
        y: sizes.map((one) => one.peak_allocated_bytes / scale),
        mode: "markers",
        marker: { color: "#4c7df0", size: 8 },
      },
    ],
    layout: {
      showlegend: true,
      xaxis: { title: { text: "batch size" }, rangemode: "tozero" },
      yaxis: { title: { text: `${unit} at the peak` }, rangemode: "tozero" },
      shapes: [
        ...(highest < SEEN * total ? [] : whole(total / scale)),
        ...(found.low
          ? [
              {
                type: "rect",
                yref: "paper",
                y0: 0,
                y1: 1,
                x0: found.low,
                x1: found.high,
                fillcolor: "#73bf9d",
                opacity: 0.18,
                line: { width: 0 },
              },
            ]
          : []),
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
function whole(at) {
  return [
    { type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line: { color: "#d43d2a", width: 1, dash: "dash" } },
  ];
}
