// Every step of the run, stacked by phase; dragging asks the server for that range in more detail.

import { card, h } from "../dom.js";
import { count, duration, number, percent } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";
import { table } from "../table.js";
import { flagLabel } from "./step_flags.js";
import { stepsChart } from "./steps_chart.js";

const AROUND = 25;

/** @type {import("./registry.js").View} */
export const steps = {
  id: "steps",
  label: "Steps",
  about: "Every step of the run, stacked by phase, by the host's clock.",
  async render(context) {
    const { from, to } = context.state;
    const [payload, report] = await Promise.all([
      context.get("steps", { first: from, last: to }),
      context.get("report"),
    ]);
    return h(
      "div",
      null,
      card(
        "Phases per step",
        "Host time of each step, stacked by phase. Drag to zoom in, double-click to go back.",
        range(context, payload),
        stepsChart(context, payload, {
          height: 380,
          zoom: true,
          marks: true,
          ready: (plot) => listen(context, plot, payload),
        }),
      ),
      payload.steps > 0 &&
        h(
          "div.columns",
          null,
          slowest(context, report.steps),
          h("div.column", null, percentiles(report.steps), outside(report.outside)),
        ),
    );
  },
};

/**
 * @param {import("../app.js").Context} context
 * @param {any} payload
 */
function range(context, payload) {
  if (!payload.first.length) return null;
  const last = payload.first.length - 1;
  const [from, to] = [payload.first[0], payload.last[last]];
  const timed = payload.count.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0);
  const widest = Math.max(...payload.count);
  return h(
    "p.muted",
    { "aria-live": "polite" },
    `Steps ${count(from)} to ${count(to)}`,
    timed <= to - from
      ? `, ${count(timed)} of them timed by phase, `
      : ` of ${count(Math.max(payload.steps, to + 1))}, `,
    widest > 1 ? `each point the mean of up to ${count(widest)} steps. ` : "one by one. ",
    (context.state.from ?? context.state.to) !== undefined &&
      h("button.link", { onclick: () => context.go({ from: undefined, to: undefined }) }, "Show all"),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} found The report's `steps`.
 */
function slowest(context, found) {
  if (!found.slowest.length)
    return card("Slowest steps", null, h("p.empty", null, "No step was slower than the median one."));
  const open = (/** @type {any} */ row) =>
    context.go({ from: String(Math.max(0, row.step - AROUND)), to: String(row.step + AROUND + 1) });
  return card(
    "Slowest steps",
    "What exceeded its own median most in each; warm-up and compilation are left out.",
    table({
      label: "Slowest steps",
      columns: [
        { key: "step", label: "Step", text: true, plain: true, format: (step) => count(step) },
        { key: "dur_ns", label: "Time", format: duration, bar: true },
        { key: "excess_ns", label: "Above median", format: duration },
        { key: "phase", label: "Because of", text: true, plain: true, format: (phase, row) => because(phase, row) },
        {
          key: "flags",
          label: "In it",
          text: true,
          plain: true,
          format: (flags) => flags.map(flagLabel).join(", ") || "–",
        },
      ],
      rows: found.slowest,
      state: context.local("slowest"),
      sort: "dur_ns",
      open,
    }),
  );
}

/**
 * @param {string | null} phase
 * @param {any} row
 */
function because(phase, row) {
  if (!phase) return "–";
  const part = row.part ? `, ${row.part}` : "";
  return h(
    "span",
    null,
    h("i.chip", { style: { background: phaseColor(phase) } }),
    `${phaseLabel(phase)}${part}: +${duration(row.phase_excess_ns)}`,
  );
}

/** @param {any} found The report's `steps`. */
function percentiles(found) {
  /** @type {[string, number | null][]} */
  const rows = [
    ["Mean", found.mean_ns],
    ["Median", found.median_ns],
    ["95th percentile", found.p95_ns],
    ["99th percentile", found.p99_ns],
    ["Slowest", found.max_ns],
  ];
  const largest = Math.max(...rows.map(([, ns]) => ns ?? 0), 1);
  const apart = found.apart.map((/** @type {any} */ one) => [one, flagLabel(one.reason)]);
  return card(
    "Step times",
    `Of ${count(found.basis_count)} ${found.basis === "steady" ? "steady " : ""}steps. Apart from validation and checkpoints, the 95th percentile is ${aboveMedian(found.jitter_frac)}.`,
    h(
      "table.phases",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, ""),
          h("th", { scope: "col" }, h("span.sr", null, "Bar")),
          h("th.number", { scope: "col" }, "Time"),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map(([label, ns]) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, label),
            h(
              "td.bar-cell",
              null,
              h("i.bar", { style: { width: `${((ns ?? 0) / largest) * 100}%`, background: "var(--accent)" } }),
            ),
            h("td.number", null, duration(ns)),
          ),
        ),
      ),
    ),
    apart.length > 0 &&
      h(
        "dl.evidence",
        { "aria-label": "Left out of these" },
        apart.map((/** @type {any} */ [one, label]) =>
          h(
            "div",
            null,
            h("dt", null, `left out: ${label}`),
            h("dd", null, `${count(one.count)} steps, ${duration(one.total_ns)}`),
          ),
        ),
      ),
  );
}

/** @param {number | null} frac */
function aboveMedian(frac) {
  return frac !== null && frac >= 2
    ? `${number(Number((1 + frac).toPrecision(3)))} times the median`
    : `${percent(frac)} above the median`;
}

/** @param {any[]} spans */
function outside(spans) {
  if (!spans.length) return null;
  return card(
    "Outside of steps",
    "Wall time that belongs to no step.",
    table({
      label: "Outside of steps",
      columns: [
        {
          key: "where",
          label: "Where",
          text: true,
          plain: true,
          format: (where) => (where === "unmarked_steps" ? "steps timed without phases" : where.replaceAll("_", " ")),
        },
        { key: "count", label: "Times", format: count },
        { key: "total_ns", label: "Together", format: duration, bar: true },
        { key: "max_ns", label: "Longest", format: duration },
      ],
      rows: spans,
      state: {},
    }),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} plot
 * @param {any} payload
 */
function listen(context, plot, payload) {
  plot.on("plotly_relayout", (/** @type {any} */ event) => {
    const left = event["xaxis.range[0]"];
    const right = event["xaxis.range[1]"];
    if (left === undefined) return;
    const from = Math.max(0, Math.floor(left));
    const to = Math.ceil(right) + 1;
    if (to > from) context.go({ from: String(from), to: String(to) });
  });
  plot.on("plotly_doubleclick", () => context.go({ from: undefined, to: undefined }));
}
