// Where a step goes: each phase with its named parts, by the host's clock and the device's.

import { card, h, shorten } from "../dom.js";
import { duration, percent } from "../format.js";
import { phaseColor, phaseLabel, phaseMeaning } from "../phases.js";

/** A part below this share of the step is in the report's JSON alone. */
const SHOWN_FRAC = 0.005;
const MOST_PARTS = 4;

/**
 * @typedef {object} Line
 * @property {string} phase
 * @property {string} label
 * @property {boolean} part
 * @property {number | null | undefined} frac Of the mean step; parts that only the device knows have none.
 * @property {number | null | undefined} host_ns
 * @property {number | undefined} device_ns
 */

/**
 * The phases that take any time of a steady step, in the order of the loop.
 * @param {any} report
 * @returns {(Line & {parts: Line[]})[]}
 */
export function measured(report) {
  const time = report.device.time ?? { phases: {}, parts: [] };
  return Object.entries(report.phases)
    .map(([phase, /** @type {any} */ one]) => ({
      phase,
      label: phaseLabel(phase),
      part: false,
      frac: one.step_frac ?? one.frac,
      host_ns: one.mean_ns,
      device_ns: time.phases[phase]?.mean_ns,
      parts: parts(phase, one.parts ?? [], time.parts ?? []),
    }))
    .filter((one) => one.frac > 0);
}

/**
 * @param {string} phase
 * @param {any[]} host
 * @param {any[]} device
 * @returns {Line[]}
 */
function parts(phase, host, device) {
  const mine = device.filter((one) => one.phase === phase);
  const names = new Set([...host, ...mine].map((one) => one.name));
  return [...names]
    .map((name) => {
      const by = host.find((one) => one.name === name);
      const on = mine.find((one) => one.name === name);
      return { phase, label: name, part: true, frac: by?.step_frac, host_ns: by?.mean_ns, device_ns: on?.mean_ns };
    })
    .filter((one) => (one.frac ?? 0) >= SHOWN_FRAC || one.device_ns)
    .sort((a, b) => (b.host_ns ?? 0) - (a.host_ns ?? 0))
    .slice(0, MOST_PARTS);
}

/** @param {any} report */
export function phaseTable(report) {
  const phases = measured(report).sort((a, b) => (b.frac ?? 0) - (a.frac ?? 0));
  const device = phases.some((one) => one.device_ns !== undefined);
  const longest = Math.max(...phases.flatMap((one) => [one.host_ns ?? 0, one.device_ns ?? 0]), 1);
  const named = phases.some((one) => one.parts.length);
  return card(
    "Where a step goes",
    [
      device
        ? "Mean of the steady steps: the upper bar by the host's clock, the lower one by the device's, idle time included."
        : "Mean of the steady steps, by the host's clock.",
      named ? "Indented: the callbacks, loggers and components within a phase." : "",
    ].join(" "),
    h(
      "table.phases",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Phase"),
          h("th", { scope: "col" }, h("span.sr", null, "Bar")),
          h("th.number", { scope: "col" }, "Share"),
          h("th.number", { scope: "col" }, device ? "On host" : "Mean"),
          device &&
            h(
              "th.number",
              { scope: "col", title: "from the start of the phase to its end on the device: work and waits" },
              "Device, idle too",
            ),
        ),
      ),
      h(
        "tbody",
        null,
        phases.flatMap((one) => [one, ...one.parts]).map((one) => line(one, longest, device)),
      ),
    ),
  );
}

/**
 * @param {Line} one
 * @param {number} longest
 * @param {boolean} device
 */
function line(one, longest, device) {
  const bar = (/** @type {string} */ spec, /** @type {number | null | undefined} */ ns) =>
    ns ? h(spec, { style: { width: `${(ns / longest) * 100}%`, background: phaseColor(one.phase) } }) : null;
  const absent = (/** @type {number | null | undefined} */ ns) =>
    ns === undefined || ns === null ? "–" : duration(ns);
  return h(
    one.part ? "tr.part" : "tr",
    { title: one.part ? one.label : phaseMeaning(one.phase) },
    h(
      "th",
      { scope: "row" },
      !one.part && h("i.chip", { style: { background: phaseColor(one.phase) } }),
      shorten(one.label, 40),
    ),
    h("td.bar-cell", null, bar(one.part ? "i.bar.thin" : "i.bar", one.host_ns), bar("i.bar.on-device", one.device_ns)),
    h("td.number", null, one.frac === undefined || one.frac === null ? "–" : percent(one.frac)),
    h("td.number.muted", null, absent(one.host_ns)),
    device && h("td.number.muted", null, absent(one.device_ns)),
  );
}
