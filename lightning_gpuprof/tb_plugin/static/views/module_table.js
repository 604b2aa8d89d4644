// The modules that the program named: how often each is called, and how long it takes on both clocks.

import { card, h } from "../dom.js";
import { duration, number } from "../format.js";
import { table } from "../table.js";

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where no module was named.
 */
export function moduleTable(report) {
  const rows = report.modules;
  if (!rows.length) return null;
  const time = (/** @type {string} */ key, /** @type {string} */ label) => ({ key, label, format: (/** @type {any} */ ns) => (ns === null ? "–" : duration(ns)) });
  const loops = rows.filter((/** @type {any} */ one) => one.advice);
  return card(
    "Modules",
    "Own time, mean per step: on the host, where a GPU's work is only queued, and on the device.",
    table({
      label: "Modules",
      columns: [
        { key: "name", label: "Module", text: true },
        { key: "calls_per_step", label: "Calls", format: (calls) => (calls === null ? "–" : number(Number(calls.toPrecision(3)))) },
        time("forward_ns", "Forward"),
        time("backward_ns", "Backward"),
        ...(rows.some((/** @type {any} */ one) => one.device_forward_ns !== null) ? [time("device_forward_ns", "Device, forward"), time("device_backward_ns", "Device, backward")] : []),
      ],
      rows,
      state: {},
    }),
    loops.length > 0 && h("ul.plain-list", null, loops.map((/** @type {any} */ one) => h("li", null, h("code", null, one.name), ` ${one.advice}`))),
  );
}
