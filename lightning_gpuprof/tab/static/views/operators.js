// Operators, kernels, modules and source lines of one profiler cycle, and who called what.

import { card, h } from "../dom.js";
import { count, duration, number, percent, shortKernel, size } from "../format.js";
import { table } from "../table.js";
import { absent, askAgain, cyclePicker } from "./cycles.js";
import { place } from "./device_tables.js";
import { flame } from "./flame.js";

/** Columns by key, in order; those that no row has are left out. */
const COLUMNS = /** @type {import("../table.js").Column[]} */ ([
  { key: "name", label: "Name", text: true },
  { key: "category", label: "Kind", text: true, plain: true },
  { key: "where", label: "Line", text: true, tail: true, format: place },
  {
    key: "step_ns",
    label: "Per step",
    format: duration,
    bar: true,
    title: "the column sorted by, over the profiled steps",
  },
  { key: "step_frac", label: "% of step", format: percent, title: "of the profiled step" },
  { key: "count", label: "Calls", format: count },
  {
    key: "self_ns",
    label: "Host self",
    format: duration,
    bar: true,
    title: "host time not in operators that it called",
  },
  { key: "total_ns", label: "Total", format: duration, bar: true },
  {
    key: "device_self_ns",
    label: "Device self",
    format: duration,
    bar: true,
    title: "time of the kernels that it launched itself",
  },
  { key: "device_total_ns", label: "Device total", format: duration, title: "time of all kernels launched under it" },
  { key: "device_count", label: "Launches", format: count, title: "kernels, copies and fills that it launched itself" },
  {
    key: "allocated_bytes",
    label: "Allocated",
    format: size,
    title: "memory allocated while it was the innermost operator, over the profiled steps",
  },
  { key: "mean_ns", label: "Mean", format: duration },
  { key: "min_ns", label: "Min", format: duration },
  { key: "max_ns", label: "Max", format: duration },
  { key: "frac", label: "Share", format: percent },
  {
    key: "occupancy_frac",
    label: "Occupancy",
    format: percent,
    title: "the profiler's estimate, over the time of the launches: warps in flight of those that fit",
  },
  {
    key: "blocks_per_sm",
    label: "Blocks/SM",
    format: tenths,
    title: "thread blocks launched per multiprocessor; below 1 some have nothing to do",
  },
  { key: "warps_per_sm", label: "Warps/SM", format: tenths, title: "warps launched per multiprocessor" },
  {
    key: "tensor_cores",
    label: "Tensor cores",
    text: true,
    plain: true,
    format: (used) => (used === true ? "yes" : used === false ? "no" : "–"),
  },
]);

/** @param {number | null | undefined} value */
function tenths(value) {
  return value === null || value === undefined ? "–" : value.toFixed(1);
}

/** @type {import("./registry.js").View} */
export const operators = {
  id: "operators",
  label: "Operators",
  about: "Operators and kernels of the profiled steps: host times by the host's clock, kernels by the device's.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("operators", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    // The same cycle, also where none was picked and they would choose by different files.
    const trace = { trace: payload.trace };
    const [device, calls] = await Promise.all([context.get("device", trace), context.get("calls", trace)]);
    const why = absent(payload, context);
    for (const row of payload.operators) row.allocated_bytes = calls.operator_bytes?.[row.name];
    const onDevice = payload.operators.some((/** @type {any} */ row) => row.device_self_ns);
    const node = h(
      "div",
      null,
      cycles.length > 1 && cyclePicker(context, cycles, payload.trace),
      why && h("p.empty", { role: "note" }, why),
      device.state === "analysed" && meters(device, payload.operators),
      rows(
        context,
        "Operators",
        `${onDevice ? "Device" : "Host"} self time per step: outside the operators that one calls.`,
        payload.operators,
        onDevice ? "device_self_ns" : "self_ns",
        device,
      ),
      rows(context, "Kernels", "What ran on the device, by the device's clock.", payload.kernels, "total_ns", device),
      rows(
        context,
        "Modules",
        "Device time of what was launched inside each module.",
        payload.modules ?? [],
        "total_ns",
        device,
      ),
      rows(
        context,
        "Source lines",
        "Device time of what was launched from each line of your own code.",
        payload.lines ?? [],
        "total_ns",
        device,
      ),
      calls.state === "prepared" && calls.name.length > 0 && flame(context, calls),
    );
    askAgain(context, node, calls);
    return node;
  },
};

/**
 * @param {any} row
 * @param {string} text
 */
function found(row, text) {
  return `${row.name} ${place(row.where)}`.includes(text);
}

/**
 * @param {any} device The device view's payload.
 * @param {any[]} operators
 */
function meters(device, operators) {
  const { launches, thin_kernels: thin, occupancy } = device;
  /** @type {[label: string, value: string, note: string][]} */
  const meters = [];
  if (device.gpu)
    meters.push(["Device busy", percent(device.gpu.busy_frac), "of the profiled steps: any kernel, copy or fill"]);
  if (device.gemm_frac !== null) meters.push(["Matrix multiplies", percent(device.gemm_frac), "of kernel time"]);
  if (device.tensor_core_frac !== null)
    meters.push([
      "On tensor cores",
      percent(device.tensor_core_frac),
      "of multiply, convolution and attention time, by kernel names",
    ]);
  if (occupancy?.occupancy_frac !== undefined)
    meters.push([
      "Occupancy",
      percent(occupancy.occupancy_frac),
      `of the warps that fit, over kernel time; ${tenths(occupancy.blocks_per_sm)} blocks and ${tenths(occupancy.warps_per_sm)} warps launched per SM`,
    ]);
  const calls = Object.fromEntries(operators.map((row) => [row.name, row.count]));
  if (calls["aten::to"]) {
    const steps = device.steps?.length || 1;
    const each = (/** @type {number} */ total) => number(Number((total / steps).toPrecision(4)));
    const copied = device.to_bytes === null || device.to_bytes === undefined ? "" : ` ${size(device.to_bytes / steps)}`;
    meters.push([
      ".to() and .cuda()",
      each(calls["aten::to"]),
      `calls${device.steps?.length ? " per step" : ""}; ${each(calls["aten::_to_copy"] ?? 0)} of them copy${copied}`,
    ]);
  }
  if (launches?.overhead)
    meters.push(["Launch call", duration(launches.overhead.median_ns), `median of ${count(launches.count)} launches`]);
  if (launches?.delay)
    meters.push([
      "Launch to start",
      duration(launches.delay.median_ns),
      "median; long means that the device is behind the host",
    ]);
  if (thin)
    meters.push([
      "Short kernels",
      percent(thin.count_frac),
      `below 10 µs: ${count(thin.count)}, ${duration(thin.total_ns)} together`,
    ]);
  if (!meters.length) return null;
  return h(
    "dl.meters",
    null,
    meters.map(([label, value, note]) =>
      h("div.meter", null, h("dt", null, label), h("dd", null, value), h("dd.note", null, note)),
    ),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {string} title
 * @param {string} note
 * @param {any[]} rows
 * @param {string} of The column that is divided by the steps.
 * @param {any} device The device view's payload, which has the profiled steps.
 */
function rows(context, title, note, rows, of, device) {
  if (!rows.length) return null;
  const steps = device.steps ?? [];
  const whole = steps.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.dur_ns, 0);
  if (whole) rows.forEach((row) => Object.assign(row, { step_ns: row[of] / steps.length, step_frac: row[of] / whole }));
  const sort = whole ? "step_ns" : of;
  const used = COLUMNS.filter(({ key }) =>
    rows.some((row) => row[key] !== undefined && row[key] !== null && row[key] !== ""),
  );
  const columns = used.map((column) => ({
    ...column,
    bar: column.key === sort,
    label: column.key === "total_ns" && title === "Operators" ? "Host total" : column.label,
    format: column.key === "name" && title === "Kernels" ? shortKernel : column.format,
  }));
  const state = context.local(title);
  const { find } = context.state;
  // A finding leads here with a name, which not every table has.
  if (find !== undefined && find !== state.asked && rows.some((row) => found(row, find))) state.search = find;
  state.asked = find;
  return card(title, note, table({ label: title, columns, rows, state, sort, searchable: true }));
}
