// The stacked chart of steps by phase, shared by the overview and the steps view.

import { chart } from "../charts.js";
import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";
import { MARKED } from "./step_flags.js";

const BARS_UP_TO = 80;
const UNITS = /** @type {const} */ ([
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
]);

/**
 * @param {import("../app.js").Context} context
 * @param {any} payload The steps view's payload.
 * @param {object} options
 * @param {number} options.height
 * @param {boolean} options.zoom Whether dragging zooms.
 * @param {boolean} [options.marks] Whether compiled, validated, ... steps are marked below.
 * @param {(plot: any) => void} [options.ready]
 */
export function stepsChart(context, payload, options) {
  const phases = Object.entries(payload.phase_ns).filter(([, values]) =>
    /** @type {number[]} */ (values).some((value) => value > 0),
  );
  if (!payload.first.length) return h("p.empty", null, "No steps recorded yet.");
  return h(
    "div",
    null,
    chart(context, {
      label: "Host time of each step by phase, stacked",
      height: options.height,
      ready: options.ready,
      numbers: () => numbers(payload, phases),
      plot: () => plot(payload, phases, options),
    }),
    legend(phases.map(([phase]) => phase)),
    options.marks && markLegend(payload),
    cutNote(height(payload, phases)),
  );
}

/**
 * How high to draw. One slow first step must not flatten all others: it is cut off, and the chart says so.
 * @param {any} payload
 * @param {[string, any][]} phases
 */
function height(payload, phases) {
  const sorted = totals(payload, phases).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
  const top = sorted[sorted.length - 1];
  const usual = sorted[Math.floor(sorted.length * 0.98)] || top;
  const cut = top > 3 * usual;
  return { limit: cut ? usual * 1.6 : top * 1.05, top, cut };
}

/**
 * @param {any} payload
 * @param {[string, any][]} phases
 * @returns {number[]}
 */
function totals(payload, phases) {
  return payload.first.map((/** @type {number} */ _, /** @type {number} */ index) =>
    phases.reduce((sum, [, values]) => sum + values[index], 0),
  );
}

/**
 * The whole step, for the tooltip alone.
 * @param {number[]} y
 * @param {number[]} x
 * @param {string} unit
 * @returns {any}
 */
function total(y, x, unit) {
  return {
    name: "total",
    x,
    y,
    type: "scatter",
    mode: "markers",
    marker: { opacity: 0, size: 1 },
    hovertemplate: `<b>%{y:.3~g} ${unit}</b>`,
  };
}

/** @param {{limit: number, top: number, cut: boolean}} drawn */
function cutNote({ limit, top, cut }) {
  return (
    cut &&
    h(
      "p.muted",
      null,
      `What is taller than ${duration(limit)} is cut off here, up to ${duration(top)}; the table has it.`,
    )
  );
}

/**
 * @param {any} payload
 * @param {[string, any][]} phases
 * @returns {import("../charts.js").Numbers}
 */
function numbers(payload, phases) {
  const { first, last, count: counts } = payload;
  const rows = first.map((/** @type {number} */ step, /** @type {number} */ i) => ({
    step,
    steps: counts[i] > 1 ? `${count(step)}–${count(last[i])}` : count(step),
    max_ns: payload.max_ns[i],
    ...Object.fromEntries(phases.map(([phase, values]) => [phase, values[i]])),
  }));
  const several = counts.some((/** @type {number} */ steps) => steps > 1);
  return {
    columns: [
      { key: "step", label: several ? "Steps" : "Step", format: (_, row) => row.steps },
      ...phases.map(([phase]) => ({ key: phase, label: phaseLabel(phase), format: duration })),
      { key: "max_ns", label: several ? "Slowest step" : "Whole step", format: duration },
    ],
    rows,
  };
}

/** The marks that occur in a payload. @param {any} payload */
function marked(payload) {
  return MARKED.filter(({ bit }) => payload.flags.some((/** @type {number} */ flags) => flags & bit));
}

/** @param {any} payload */
function markLegend(payload) {
  const found = marked(payload);
  if (!found.length) return null;
  return h(
    "ul.legend",
    { "aria-label": "Marks" },
    found.map(({ label, color }) => h("li", null, h("i.tick", { style: { background: color } }), `${label} in it`)),
  );
}

/**
 * A row of ticks per flag, above the stack.
 * @param {any} payload
 * @param {number} top
 */
function marks(payload, top) {
  return marked(payload).map(({ bit, label, color }, row) => {
    const at = payload.first.filter((/** @type {number} */ _, /** @type {number} */ i) => payload.flags[i] & bit);
    return {
      name: label,
      x: at,
      y: at.map(() => top * (0.985 - 0.03 * row)),
      type: "scatter",
      mode: "markers",
      marker: { symbol: "line-ns-open", size: 7, color, line: { width: 1.5, color } },
      hovertemplate: label,
    };
  });
}

/**
 * @param {any} payload
 * @param {[string, any][]} phases
 * @param {{zoom: boolean, marks?: boolean}} options
 */
function plot(payload, phases, { zoom, marks: marking }) {
  const { limit } = height(payload, phases);
  const [scale, unit] = UNITS.find(([one]) => limit >= one) ?? [1, "ns"];
  const x = payload.first;
  const many = x.length > BARS_UP_TO;
  // An area's last step would have no width: it is drawn once more where it ends.
  const last = x.length - 1;
  const ends = many ? [...x, payload.last[last] + 1] : x;
  const data = phases.map(([phase, values]) => ({
    name: phaseLabel(phase),
    x: ends,
    y: (many ? [...values, values[last]] : values).map((/** @type {number} */ ns) => ns / scale),
    hovertemplate: `%{y:.3~g} ${unit}`,
    ...(many ? area(phase) : bar(phase)),
  }));
  data.push(
    total(
      totals(payload, phases).map((/** @type {number} */ ns) => ns / scale),
      x,
      unit,
    ),
  );
  if (marking) data.push(...slowest(payload, scale, unit), .../** @type {any[]} */ (marks(payload, limit / scale)));
  return {
    data,
    layout: {
      barmode: "stack",
      bargap: 0.08,
      hovermode: "x unified",
      dragmode: zoom ? "zoom" : false,
      xaxis: {
        title: { text: "step" },
        range: many ? [x[0], ends[ends.length - 1]] : [x[0] - 0.5, x[last] + 0.5],
        fixedrange: !zoom,
        hoverformat: ",d",
        tickformat: ",~r",
      },
      yaxis: { title: { text: `${unit} per step` }, fixedrange: true, range: [0, limit / scale] },
    },
  };
}

/**
 * The slowest step of each bucket: a mean of many hides it.
 * @param {any} payload
 * @param {number} scale
 * @param {string} unit
 * @returns {any[]}
 */
function slowest(payload, scale, unit) {
  if (!payload.count.some((/** @type {number} */ steps) => steps > 1)) return [];
  return [
    {
      name: "slowest in it",
      x: payload.slowest,
      y: payload.max_ns.map((/** @type {number} */ ns) => ns / scale),
      type: "scatter",
      mode: "markers",
      marker: { size: 3, color: "#8a93a1" },
      hovertemplate: `%{y:.3~g} ${unit}`,
    },
  ];
}

/** @param {string} phase */
function area(phase) {
  return {
    type: "scatter",
    mode: "lines",
    stackgroup: "phases",
    line: { width: 0, shape: "hv", color: phaseColor(phase) },
    fillcolor: phaseColor(phase),
  };
}

/** @param {string} phase */
function bar(phase) {
  return { type: "bar", marker: { color: phaseColor(phase), line: { width: 0 } } };
}

/** @param {string[]} phases */
export function legend(phases) {
  return h(
    "ul.legend",
    { "aria-label": "Phases" },
    phases.map((phase) => h("li", null, h("i.chip", { style: { background: phaseColor(phase) } }), phaseLabel(phase))),
  );
}
