// Every step of the run, stacked by phase; dragging asks the server for that range in more detail.

import { card, h } from "../dom.js";
import { count } from "../format.js";
import { cards } from "../render.js";
import { stepSections } from "./sections.js";
import { stepsChart } from "./steps_chart.js";

/** @typedef {import("../payloads").Steps} Steps */

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
    const surface = {
      ...context,
      open: {
        slowest: (/** @type {import("../table.js").Row} */ row) => show(context, Number(row.step)),
        slow_downs: (/** @type {import("../table.js").Row} */ row) => show(context, Number(row.since_step)),
      },
    };
    const sections = payload.steps > 0 ? stepSections(report.sections) : [];
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
          ready: (plot) => listen(context, plot),
        }),
      ),
      cards(surface, sections),
    );
  },
};

/**
 * Shows a step among its neighbours.
 * @param {import("../app.js").Context} context
 * @param {number} step
 */
function show(context, step) {
  context.go({ from: String(Math.max(0, step - AROUND)), to: String(step + AROUND + 1) });
}

/**
 * @param {import("../app.js").Context} context
 * @param {Steps} payload
 */
function range(context, payload) {
  if (!payload.first.length) return null;
  const last = payload.first.length - 1;
  const [from, to] = [payload.first[0], payload.last[last]];
  const timed = payload.count.reduce((sum, steps) => sum + steps, 0);
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
 * @param {import("../charts.js").Plot} plot
 */
function listen(context, plot) {
  plot.on("plotly_relayout", (event) => {
    const left = event["xaxis.range[0]"];
    const right = event["xaxis.range[1]"];
    if (left === undefined || right === undefined) return;
    const from = Math.max(0, Math.floor(left));
    const to = Math.ceil(right) + 1;
    if (to > from) context.go({ from: String(from), to: String(to) });
  });
  plot.on("plotly_doubleclick", () => context.go({ from: undefined, to: undefined }));
}
