// Slow-downs and captures, drawn over the chart of steps.

import { h } from "../dom.js";

/** @typedef {import("../payloads").Steps} Steps */

const SLOW = "#d43d2a";
const CAPTURED = "#7d5bd0";
const ASKED = "#2b4fb8";
/** A capture of few steps among many is still this share of the chart's width. */
const LEAST_WIDTH = 0.004;

/**
 * The level of each slow-down as a line: a step, a slope, or the height of spikes.
 * @param {Steps} payload
 * @param {number} scale Nanoseconds of the axis' unit.
 * @returns {object[]}
 */
export function slowDownLines({ marks }, scale) {
  return marks.slow_downs.map(({ label, shape, steps, level_ns }) => ({
    name: "slow-down",
    x: steps,
    y: level_ns.map((ns) => ns / scale),
    type: "scatter",
    mode: "lines",
    line: { color: SLOW, width: 2.5, dash: shape === "spikes" ? "dot" : "solid" },
    hoverinfo: "skip",
    meta: label,
  }));
}

/**
 * Where slow-downs begin and end, and the steps of captures, as shapes over the whole height.
 * @param {Steps} payload
 * @param {[number, number]} range The steps that the chart shows.
 * @returns {object[]}
 */
export function markShapes({ marks }, [from, to]) {
  const upright = (/** @type {number} */ step, /** @type {string} */ dash) => ({
    type: "line",
    xref: "x",
    yref: "paper",
    x0: step,
    x1: step,
    y0: 0,
    y1: 1,
    line: { color: SLOW, width: 1.5, dash },
  });
  const least = (to - from) * LEAST_WIDTH;
  return [
    ...marks.slow_downs.map(({ since_step: since }) => upright(since, "solid")),
    ...marks.slow_downs.flatMap(({ until_step: until }) => (until === null ? [] : [upright(until + 1, "dash")])),
    ...marks.captures.map(({ first_step: first, last_step: last, by_request: asked }) => ({
      type: "rect",
      xref: "x",
      yref: "paper",
      x0: first,
      x1: Math.max(last + 1, first + least),
      y0: 0,
      y1: 1,
      fillcolor: asked ? ASKED : CAPTURED,
      opacity: 0.3,
      line: { width: 0 },
    })),
  ].filter(({ x0, x1 }) => x1 >= from && x0 <= to);
}

/**
 * What is marked, in sentences; those of captures lead to their traces.
 * @param {import("../app.js").Context} context
 * @param {Steps} payload
 */
export function markList(context, { marks }) {
  if (!marks.slow_downs.length && !marks.captures.length) return null;
  const tick = (/** @type {string} */ color) => h("i.tick", { style: { background: color } });
  return h(
    "ul.legend",
    { "aria-label": "Slow-downs and captures" },
    marks.slow_downs.map(({ label }) => h("li", null, tick(SLOW), label)),
    marks.captures.map(({ label, by_request: asked, trace_file: trace }) =>
      h(
        "li",
        null,
        tick(asked ? ASKED : CAPTURED),
        trace ? h("button.link", { onclick: () => context.go({ view: "timeline", trace }) }, label) : label,
      ),
    ),
  );
}
