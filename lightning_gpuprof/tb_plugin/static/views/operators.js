// The operators and kernels of one profiler cycle, as its trace's analysis has them.

import { card, h } from "../dom.js";
import { count, duration, percent } from "../format.js";
import { table } from "../table.js";
import { absent, cyclePicker } from "./cycles.js";

/** Columns by key, in order; those that no row has are left out. */
const COLUMNS = /** @type {import("../table.js").Column[]} */ ([
  { key: "name", label: "Name", text: true },
  { key: "category", label: "Kind", text: true },
  { key: "module", label: "Module", text: true },
  { key: "count", label: "Calls", format: count },
  { key: "host_self_ns", label: "Host self", format: duration, bar: true, title: "host time not in operators that it called" },
  { key: "host_total_ns", label: "Host total", format: duration, title: "host time with the operators that it called" },
  { key: "self_ns", label: "Self", format: duration, bar: true, title: "time not in operators that it called" },
  { key: "device_self_ns", label: "Device self", format: duration, bar: true, title: "time of the kernels that it launched itself" },
  { key: "device_total_ns", label: "Device total", format: duration, title: "time of all kernels launched under it" },
  { key: "total_ns", label: "Total", format: duration, bar: true },
  { key: "mean_ns", label: "Mean", format: duration },
  { key: "min_ns", label: "Min", format: duration },
  { key: "max_ns", label: "Max", format: duration },
  { key: "frac", label: "Share", format: percent },
]);

/** @type {import("./registry.js").View} */
export const operators = {
  id: "operators",
  label: "Operators",
  about: "Operators and kernels of the profiled steps, by the profiler's clocks.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("operators", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    const why = absent(payload);
    return h(
      "div",
      null,
      cycles.length > 1 && cyclePicker(context, cycles, payload.trace),
      why && h("p.empty", { role: "note" }, why),
      rows(context, "Operators", "Host operators; self time is time outside the operators that one calls.", payload.operators),
      rows(context, "Kernels", "What ran on the device, by the device's clock.", payload.kernels),
    );
  },
};

/**
 * @param {import("../app.js").Context} context
 * @param {string} title
 * @param {string} note
 * @param {any[]} rows
 */
function rows(context, title, note, rows) {
  if (!rows.length) return null;
  const used = COLUMNS.filter(({ key }) =>
    rows.some((row) => row[key] !== undefined && row[key] !== null && row[key] !== ""),
  );
  const sort = used.find((column) => column.bar)?.key;
  const columns = used.map((column) => ({ ...column, bar: column.key === sort }));
  const state = context.local(title);
  return card(title, note, table({ label: title, columns, rows, state, sort, searchable: true }));
}
