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
  const onDevice = rows.some((/** @type {any} */ one) => one.device_forward_ns !== null);
  const loops = rows.filter((/** @type {any} */ one) => one.advice);
  return card(
    "Modules",
    "Own time, mean per step: on the host, where a GPU's work is only queued, and on the device.",
    table({
      label: "Modules",
      columns: [
        { key: "name", label: "Module", text: true },
        {
          key: "calls_per_step",
          label: "Calls",
          format: (calls) => (calls === null ? "–" : number(Number(calls.toPrecision(3)))),
        },
        { key: "forward_ns", label: "Forward", format: duration },
        { key: "backward_ns", label: "Backward", format: duration },
        ...(onDevice
          ? [
              { key: "device_forward_ns", label: "Device, forward", format: duration },
              { key: "device_backward_ns", label: "Device, backward", format: duration },
            ]
          : []),
      ],
      rows,
      state: {},
    }),
    loops.length > 0 &&
      h(
        "ul.plain-list",
        null,
        loops.map((/** @type {any} */ one) => h("li", null, h("code", null, one.name), ` ${one.advice}`)),
      ),
  );
}
