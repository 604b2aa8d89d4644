// The device's work and waits in the profiled steps, as numbers: the tables behind the timeline.

import { card, h, shorten } from "../dom.js";
import { count, duration, percent, shortKernel, size } from "../format.js";
import { table } from "../table.js";
import { kindColor, kindLabel } from "../timeline/colors.js";

/**
 * @param {any} summary The device view's payload.
 * @param {(from: number, to: number) => void} [show] Shows a range in the timeline.
 */
export function deviceTables(summary, show) {
  if (summary.state !== "analysed") return null;
  const open = show && ((/** @type {any} */ row) => show(row.start_ns, row.start_ns + (row.dur_ns ?? row.blocked_ns)));
  return h(
    "div",
    null,
    // What makes the times doubtful comes first, then what is missing and steps that are left out.
    summary.warnings
      .slice(0, 4)
      .map((/** @type {string} */ text) => h("p.notice", { role: "note" }, shorten(text, 400))),
    summary.gpu && split(summary.gpu),
    h(
      "div.columns",
      null,
      summary.idle.length > 0 && causes(summary, open),
      summary.sync_count > 0 && syncs(summary, open),
    ),
    (summary.sync_kinds ?? []).length > 0 && waits(summary.sync_kinds),
    summary.copies.length > 0 && copies(summary.copies),
  );
}

/** @param {any} gpu */
function split(gpu) {
  /** @type {[string, number, string][]} */
  const parts = [
    ["Compute", gpu.compute_ns, kindColor("kernel_gemm")],
    ["Communication not hidden", gpu.exposed_comm_ns, kindColor("kernel_communication")],
    ["Copies not hidden", gpu.exposed_copy_ns, kindColor("memcpy")],
    ["Idle", gpu.idle_ns, "#c3cad6"],
  ];
  return card(
    "The device's time",
    `Busy ${percent(gpu.busy_frac)} of ${duration(gpu.span_ns)}${gpu.steps ? ` in ${count(gpu.steps)} whole ${gpu.steps === 1 ? "step" : "steps"}` : ""}, with the profiler on, by the device's clock: any kernel, copy or fill of any stream.`,
    h(
      "div.strip",
      { "aria-hidden": true },
      parts
        .filter(([, ns]) => ns > 0)
        .map(([, ns, color]) => h("div.strip-part", { style: { flex: `${ns} 0 0`, background: color } })),
    ),
    h(
      "ul.legend",
      null,
      parts
        .filter(([, ns]) => ns > 0)
        .map(([label, ns, color]) =>
          h(
            "li",
            null,
            h("i.chip", { style: { background: color } }),
            `${label} ${duration(ns)} (${percent(ns / gpu.span_ns)})`,
          ),
        ),
    ),
  );
}

/**
 * @param {any} summary
 * @param {((row: any) => void) | undefined} open
 */
function causes(summary, open) {
  return card(
    "Why the device was idle",
    "Every nanosecond of every gap has one cause; a click shows a gap.",
    h(
      "table.phases",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["Cause", "Gaps", "Time"].map((text, i) => h(i ? "th.number" : "th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        null,
        summary.idle.map((/** @type {any} */ one) =>
          h(
            "tr",
            null,
            h(
              "th",
              { scope: "row" },
              h("i.chip", { style: { background: kindColor(`idle_${one.cause}`) } }),
              kindLabel(`idle_${one.cause}`),
            ),
            h("td.number", null, count(one.count)),
            h("td.number", null, duration(one.total_ns)),
          ),
        ),
      ),
    ),
    (summary.idle_functions ?? []).length > 0 &&
      table({
        label: "What the host ran meanwhile",
        columns: [
          {
            key: "name",
            label: "Meanwhile the host was in the code of",
            text: true,
            tail: true,
            format: (name) => shorten(name, 80),
          },
          { key: "total_ns", label: "Time", format: duration, bar: true },
        ],
        rows: summary.idle_functions,
        state: {},
        first: 5,
      }),
    summary.gaps.length > 0 &&
      table({
        label: "Longest gaps",
        columns: [
          {
            key: "cause",
            label: "Longest gaps",
            text: true,
            plain: true,
            format: (cause) => kindLabel(`idle_${cause}`),
          },
          { key: "dur_ns", label: "Time", format: duration, bar: true },
          { key: "next_name", label: "Ended by", text: true, format: (name) => shortKernel(name ?? "–") },
          { key: "operator", label: "Operator", text: true, format: (name) => shorten(name ?? "–", 40) },
        ],
        rows: summary.gaps,
        state: {},
        first: 8,
        open,
      }),
  );
}

/**
 * @param {any} summary
 * @param {((row: any) => void) | undefined} open
 */
function syncs(summary, open) {
  return card(
    "Host syncs",
    `${count(summary.sync_count)} ${summary.sync_count === 1 ? "call" : "calls"} made the host wait for the device, ${duration(summary.sync_ns)} together.`,
    table({
      label: "Host syncs",
      columns: /** @type {import("../table.js").Column[]} */ ([
        { key: "name", label: "Call", text: true, format: (name) => shorten(name, 40) },
        { key: "blocked_ns", label: "Blocked", format: duration, bar: true },
        { key: "where", label: "Line", text: true, tail: true, format: place },
        { key: "operator", label: "In", text: true, format: (name, row) => shorten(name ?? row.region ?? "–", 40) },
      ]).filter((column) => column.key !== "where" || summary.syncs.some((/** @type {any} */ one) => one.where)),
      rows: summary.syncs,
      state: {},
      first: 8,
      open,
    }),
  );
}

/** @param {any[]} rows */
function waits(rows) {
  return card(
    "What the syncs wait for",
    "Waiting for the whole device holds up every stream; what has to stay can wait for less.",
    table({
      label: "What the syncs wait for",
      columns: [
        {
          key: "name",
          label: "Waits for",
          text: true,
          plain: true,
          format: (kind) => WAITS_FOR[kind] ?? `one ${kind}`,
        },
        { key: "count", label: "Calls", format: count },
        { key: "total_ns", label: "Time", format: duration, bar: true },
        { key: "where", label: "Line", text: true, tail: true, format: place },
        { key: "cheaper", label: "If it has to stay", text: true, plain: true },
      ],
      rows,
      state: {},
    }),
  );
}

/** @type {Record<string, string>} */
const WAITS_FOR = { device: "the whole device", copy: "its own copy", other: "something else" };

/** A source line as text. @param {any} where */
export function place(where) {
  return where ? shorten(`${where.file}:${where.line} ${where.function ?? ""}`, 80) : "–";
}

/** @param {any[]} rows */
function copies(rows) {
  return card(
    "Copies",
    "By direction and kind of host memory: pinned memory copies faster and without making the host wait.",
    table({
      label: "Copies",
      columns: /** @type {import("../table.js").Column[]} */ ([
        { key: "kind", label: "Kind", text: true },
        { key: "count", label: "Copies", format: count },
        { key: "memory", label: "Host memory", text: true },
        { key: "bytes", label: "Bytes", format: size },
        { key: "total_ns", label: "Time", format: duration, bar: true },
        { key: "bytes_per_s", label: "Rate", format: (rate) => (rate ? `${size(rate)}/s` : "–") },
      ]).filter((column) => rows.some((row) => row[column.key] !== undefined && row[column.key] !== null)),
      rows,
      state: {},
    }),
  );
}
