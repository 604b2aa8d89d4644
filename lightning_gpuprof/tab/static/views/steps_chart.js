// The stacked chart of steps by phase, shared by the overview and the steps view.

import { chart } from "../charts.js";
import { MARKS, phaseColor } from "../colors.js";
import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { FLAGS, PHASES } from "../labels.js";
import { markList, markShapes, slowDownLines } from "./step_marks.js";

/** @typedef {import("../payloads").Steps} Steps */
/** @typedef {[phase: string, values: number[]][]} PhaseColumns */

const BARS_UP_TO = 80;
const UNITS = /** @type {const} */ ([
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
]);

/**
 * @param {import("../app.js").Context} context
 * @param {Steps} payload
 * @param {object} options
 * @param {number} options.height
 * @param {boolean} options.zoom Whether dragging zooms.
 * @param {boolean} [options.marks] Whether compiled, validated, ... steps are marked below.
 * @param {(plot: import("../charts.js").Plot) => void} [options.ready]
 */
export function stepsChart(context, payload, options) {
  const phases = Object.entries(payload.phase_ns).filter(([, values]) => values.some((value) => value > 0));
  if (!payload.first.length) return h("p.empty", { role: "note" }, stepless(context));
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
    phaseLegend(phases.map(([phase]) => phase)),
    options.marks && markLegend(payload),
    options.marks && markList(context, payload),
    cutNote(drawnHeight(payload, phases)),
  );
}

/** Why there are no steps to draw. @param {import("../app.js").Context} context */
function stepless({ run }) {
  if (run.state === "trace") return "Traces hold no phases of steps: Overview has the profiled steps, Timeline their events.";
  return run.state === "live" ? "Waiting for the first steps." : "This run recorded no step.";
}

/** @param {string} phase */
function phaseLabel(phase) {
  return PHASES[phase]?.[0] ?? phase;
}

/**
 * The height of the axis. A slow first step must not flatten all others: it is cut off, and the chart says so.
 * @param {Steps} payload
 * @param {PhaseColumns} phases
 */
function drawnHeight(payload, phases) {
  const sorted = totals(payload, phases).sort((a, b) => a - b);
  const top = sorted[sorted.length - 1];
  const usual = sorted[Math.floor(sorted.length * 0.98)] || top;
  const cut = top > 3 * usual;
  return { limit: cut ? usual * 1.6 : top * 1.05, top, cut };
}

/**
 * @param {Steps} payload
 * @param {PhaseColumns} phases
 */
function totals(payload, phases) {
  return payload.first.map((_, index) => phases.reduce((sum, [, values]) => sum + values[index], 0));
}

/** @param {{limit: number, top: number, cut: boolean}} drawn */
function cutNote({ limit, top, cut }) {
  if (!cut) return null;
  return h(
    "p.muted",
    null,
    `What is taller than ${duration(limit)} is cut off here, up to ${duration(top)}; the table has it.`,
  );
}

/**
 * @param {Steps} payload
 * @param {PhaseColumns} phases
 * @returns {import("../charts.js").Numbers}
 */
function numbers(payload, phases) {
  const { first, last, count: counts } = payload;
  const several = counts.some((steps) => steps > 1);
  const rows = first.map((step, i) => ({
    step,
    steps: counts[i] > 1 ? `${count(step)}–${count(last[i])}` : count(step),
    max_ns: payload.max_ns[i],
    ...Object.fromEntries(phases.map(([phase, values]) => [phase, values[i]])),
  }));
  return {
    id: "steps",
    columns: [
      several ? { key: "steps", label: "Steps", unit: "text" } : { key: "step", label: "Step", unit: "count" },
      ...phases.map(([phase]) => ({ key: phase, label: phaseLabel(phase), unit: /** @type {const} */ ("ns") })),
      { key: "max_ns", label: several ? "Slowest step" : "Whole step", unit: "ns" },
    ],
    rows,
  };
}

/** The flags in a payload that charts mark. @param {Steps} payload */
function marksIn(payload) {
  return Object.entries(MARKS)
    .map(([flag, color]) => ({ bit: FLAGS[flag][0], label: FLAGS[flag][1], color }))
    .filter(({ bit }) => payload.flags.some((flags) => flags & bit));
}

/** @param {Steps} payload */
function markLegend(payload) {
  const marks = marksIn(payload);
  if (!marks.length) return null;
  return h(
    "ul.legend",
    { "aria-label": "Marks" },
    marks.map(({ label, color }) => h("li", null, h("i.tick", { style: { background: color } }), `a step with: ${label}`)),
  );
}

/**
 * A row of ticks per flag, above the stack.
 * @param {Steps} payload
 * @param {number} top
 */
function marks(payload, top) {
  return marksIn(payload).map(({ bit, label, color }, row) => {
    const steps = payload.first.filter((_, i) => payload.flags[i] & bit);
    return {
      name: label,
      x: steps,
      y: steps.map(() => top * (0.985 - 0.03 * row)),
      type: "scatter",
      mode: "markers",
      marker: { symbol: "line-ns-open", size: 7, color, line: { width: 1.5, color } },
      hovertemplate: label,
    };
  });
}

/**
 * @param {Steps} payload
 * @param {PhaseColumns} phases
 * @param {{zoom: boolean, marks?: boolean}} options
 */
function plot(payload, phases, { zoom, marks: marking }) {
  const { limit } = drawnHeight(payload, phases);
  const [scale, unit] = UNITS.find(([size]) => limit >= size) ?? [1, "ns"];
  const first = payload.first;
  const isArea = first.length > BARS_UP_TO;
  // The last step of an area would have no width, so it is drawn again where it ends.
  const last = first.length - 1;
  const ends = isArea ? [...first, payload.last[last] + 1] : first;
  /** @type {object[]} */
  const traces = phases.map(([phase, values]) => ({
    name: phaseLabel(phase),
    x: ends,
    y: (isArea ? [...values, values[last]] : values).map((ns) => ns / scale),
    hovertemplate: `%{y:.3~g} ${unit}`,
    ...(isArea ? area(phase) : bar(phase)),
  }));
  const sums = totals(payload, phases).map((ns) => ns / scale);
  /** @type {[number, number]} */
  const range = isArea ? [first[0], ends[ends.length - 1]] : [first[0] - 0.5, first[last] + 0.5];
  return {
    data: [
      ...traces,
      total(sums, first, unit),
      ...(marking ? slowest(payload, scale, unit) : []),
      ...(marking ? marks(payload, limit / scale) : []),
      ...(marking ? slowDownLines(payload, scale) : []),
    ],
    layout: {
      shapes: marking ? markShapes(payload, range) : [],
      barmode: "stack",
      bargap: 0.08,
      hovermode: "x unified",
      dragmode: zoom ? "zoom" : false,
      xaxis: { title: { text: "step" }, range, fixedrange: !zoom, hoverformat: ",d", tickformat: ",~r" },
      yaxis: { title: { text: `${unit} per step` }, fixedrange: true, range: [0, limit / scale] },
    },
  };
}

/**
 * Invisible points that show the whole step in the tooltip.
 * @param {number[]} y
 * @param {number[]} x
 * @param {string} unit
 */
function total(y, x, unit) {
  const marker = { opacity: 0, size: 1 };
  return { name: "total", x, y, type: "scatter", mode: "markers", marker, hovertemplate: `<b>%{y:.3~g} ${unit}</b>` };
}

/**
 * The slowest step of every bucket, which a mean of many steps would hide.
 * @param {Steps} payload
 * @param {number} scale
 * @param {string} unit
 */
function slowest(payload, scale, unit) {
  if (!payload.count.some((steps) => steps > 1)) return [];
  return [
    {
      name: "slowest step",
      x: payload.slowest,
      y: payload.max_ns.map((ns) => ns / scale),
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
function phaseLegend(phases) {
  return h(
    "ul.legend",
    { "aria-label": "Phases" },
    phases.map((phase) => h("li", null, h("i.chip", { style: { background: phaseColor(phase) } }), phaseLabel(phase))),
  );
}
