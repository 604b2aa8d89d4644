// Step time, what holds it back, what to change, how much that saves: readable in three seconds.

import { card, h, shorten } from "../dom.js";
import { count, duration, number, size } from "../format.js";
import { compileTable } from "./compile_table.js";
import { findings } from "./findings.js";
import { hero } from "./hero.js";
import { lineTable, workerTable } from "./line_table.js";
import { moduleTable } from "./module_table.js";
import { phaseTable } from "./phase_table.js";
import { plan } from "./plan.js";
import { stepsChart } from "./steps_chart.js";
import { trialsCard } from "./trials_card.js";
import { whereToLook } from "./where_to_look.js";

/** Enough to see how the run went; the steps view has every step. */
const OVERVIEW_BUCKETS = 160;

/** @type {import("./registry.js").View} */
export const overview = {
  id: "overview",
  label: "Overview",
  about:
    "Where a training step goes, what holds it back, and what a change would save; by the host's clock unless a figure says device.",
  async render(context) {
    const [report, steps] = await Promise.all([
      context.get("report"),
      context.get("steps", { buckets: OVERVIEW_BUCKETS }),
    ]);
    const stepped = steps.first.length > 0;
    return h(
      "div.overview",
      null,
      notices(context.header, report),
      await hero(context, report),
      report.steps.count > 0 && facts(context.header, report),
      (report.steps.count > 0 || report.findings.length > 0) &&
        h(
          "div.columns",
          null,
          h("div.column", null, findings(context, report), plan(report), trialsCard(report)),
          h(
            "div.column",
            null,
            whereToLook(context, report),
            stepped && phaseTable(report),
            lineTable(report),
            workerTable(report),
            moduleTable(report),
            compileTable(report),
            stepped && card("Steps over time", null, stepsChart(context, steps, { height: 210, zoom: false })),
          ),
        ),
    );
  },
};

/**
 * Reasons to doubt the figures; problems of the records are shown above every view, and running out of
 * memory has its own place.
 * @param {any} header
 * @param {any} report
 */
function notices(header, report) {
  const texts = report.run.notices.filter(
    (/** @type {string} */ text) => !header.warnings.includes(text) && !text.includes("OutOfMemoryError"),
  );
  return texts.map((/** @type {string} */ text) => h("p.notice", { role: "note" }, shorten(text, 600)));
}

/**
 * Figures beside the verdict, each in a line.
 * @param {any} header
 * @param {any} report
 */
function facts(header, report) {
  const { steps, run, device } = report;
  const { loss } = header;
  /** @type {[label: string, value: string, meaning?: string][]} */
  const known = [
    [
      "Slow steps",
      `${duration(steps.p95_ns)}, up to ${duration(steps.max_ns)}`,
      "one step in twenty takes longer than the first",
    ],
  ];
  if (device.memory)
    known.push([
      "GPU memory",
      `${size(device.memory.peak_reserved_bytes)} of ${size(device.memory.total_bytes)}`,
      "peak reserved",
    ]);
  if (loss) known.push(["Loss", `${number(Number(loss.value.toPrecision(4)))} at step ${count(loss.step)}`, loss.name]);
  if (run.own_cost_ns_per_step)
    known.push(["Cost of measuring", `${duration(run.own_cost_ns_per_step)} per step`, "by this package"]);
  return h(
    "dl.facts-line",
    null,
    known.map(([label, value, title]) => h("div", { title }, h("dt", null, label), h("dd", null, value))),
  );
}
