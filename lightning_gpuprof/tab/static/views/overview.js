// Step time, what holds it back, what to change, how much that saves: readable in three seconds.

import { h } from "../dom.js";
import { page } from "../render.js";
import { goTo } from "./places.js";
import { overviewSections } from "./sections.js";
import { stepsChart } from "./steps_chart.js";

/** Enough to see how the run went; the steps view has every step. */
const OVERVIEW_BUCKETS = 160;

/** @type {import("./registry.js").View} */
export const overview = {
  id: "overview",
  label: "Overview",
  about:
    "Where a training step goes, what holds it back, and what a change would save; by the host's clock " +
    "unless a figure says device.",
  async render(context) {
    const [report, steps] = await Promise.all([
      context.get("report"),
      context.get("steps", { buckets: OVERVIEW_BUCKETS }),
    ]);
    const surface = {
      ...context,
      charts: { steps: () => stepsChart(context, steps, { height: 210, zoom: false }) },
      goTo: (/** @type {import("../payloads").Place} */ place) => goTo(context, place),
    };
    return h("div.overview", null, page(surface, overviewSections(report.sections)));
  },
};
