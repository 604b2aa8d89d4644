// Every step of the run, stacked by phase; dragging asks the server for that range in more detail.

import { card, h } from "../dom.js";
import { count } from "../format.js";
import { stepsChart } from "./steps_chart.js";

/** @type {import("./registry.js").View} */
export const steps = {
  id: "steps",
  label: "Steps",
  about: "Every step of the run, stacked by phase, by the host's clock.",
  async render(context) {
    const { from, to } = context.state;
    const payload = await context.get("steps", { first: from, last: to });
    return h(
      "div",
      null,
      card(
        "Phases per step",
        "Host time of each step, stacked by phase. Drag to zoom in, double-click to go back.",
        range(context, payload),
        stepsChart(context, payload, {
          height: 420,
          zoom: true,
          ready: (plot) => listen(context, plot, payload),
        }),
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
  const until = payload.first[last] + payload.count[last];
  const widest = Math.max(...payload.count);
  return h(
    "p.muted",
    { "aria-live": "polite" },
    `Steps ${count(payload.first[0])} to ${count(until - 1)} of ${count(payload.steps)}, `,
    widest > 1 ? `each point the mean of up to ${count(widest)} steps. ` : "one by one. ",
    (context.state.from ?? context.state.to) !== undefined &&
      h("button.link", { onclick: () => context.go({ from: undefined, to: undefined }) }, "Show all"),
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
    const to = Math.min(payload.steps, Math.ceil(right) + 1);
    if (to > from) context.go({ from: String(from), to: String(to) });
  });
  plot.on("plotly_doubleclick", () => context.go({ from: undefined, to: undefined }));
}
