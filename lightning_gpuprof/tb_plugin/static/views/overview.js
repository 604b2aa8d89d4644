// Step time, what holds it back, what to change, how much that saves: readable in three seconds.

import { card, h, shorten } from "../dom.js";
import { count, duration, durationRange, number, percent, percentRange, size } from "../format.js";
import { phaseColor, phaseInk, phaseLabel } from "../phases.js";
import { findingCard } from "./findings.js";
import { lineTable, workerTable } from "./line_table.js";
import { measured, phaseTable } from "./phase_table.js";
import { stepsChart } from "./steps_chart.js";
import { trialsCard } from "./trials_card.js";

/** Enough to see how the run went; the steps view has every step. */
const OVERVIEW_BUCKETS = 160;
/** Findings are ranked by what they save: who has mended these looks again. */
const MOST_OPEN = 8;

/** @type {import("./registry.js").View} */
export const overview = {
  id: "overview",
  label: "Overview",
  about: "Where a training step goes, what holds it back, and what a change would save; by the host's clock unless a figure says device.",
  async render(context) {
    const [report, steps] = await Promise.all([context.get("report"), context.get("steps", { buckets: OVERVIEW_BUCKETS })]);
    return h(
      "div.overview",
      null,
      notices(context.header, report),
      report.device.busy && h("p.gpu-line", null, `${report.device.busy.line}.`),
      hero(report),
      report.steps.count > 0 && meters(context.header, report),
      (report.steps.count > 0 || report.findings.length > 0) && h(
        "div.columns",
        null,
        h("div.column", null, findings(report), trialsCard(report)),
        h(
          "div.column",
          null,
          report.steps.count > 0 && phaseTable(report),
          lineTable(report),
          workerTable(report),
          card(
            "Steps over time",
            "Mean host time of a step, stacked by phase, over the run.",
            stepsChart(context, steps, { height: 210, zoom: false }),
          ),
        ),
      ),
    );
  },
};

/**
 * Reasons to doubt the figures; problems of the records are shown above every view.
 * @param {any} header
 * @param {any} report
 */
function notices(header, report) {
  const texts = report.run.notices.filter((/** @type {string} */ text) => !header.warnings.includes(text));
  return texts.map((/** @type {string} */ text) => h("p.notice", { role: "note" }, shorten(text, 600)));
}

/** @param {any} report */
function hero(report) {
  const { median_ns: median, step_ns: mean } = report.steps;
  if (!median || !mean) return noSteps(report);
  const first = report.findings[0];
  // Warm-up steps alone promise nothing for later ones.
  const gain = first && first.saving_ns.high > 0 && report.steps.basis !== "all";
  const held = gain && first.severity !== "info";
  // Where no finding is worth a change, the side that the steps wait for still is known.
  const quiet = (!first || first.severity === "info") && report.steps.basis !== "all";
  const known = quiet && report.device.busy?.title ? report.device.busy : null;
  return h(
    "section.hero",
    { "aria-label": "Step time" },
    h(
      "div.hero-time",
      null,
      h("span.label", null, "Step time"),
      h("strong.big", null, duration(mean)),
      h("span.note", null, stepsNote(report.steps)),
      fewSlow(report) && h("span.note", null, "A few slow steps take most of the time: see Steps."),
    ),
    h(
      "div.hero-cause",
      null,
      h("span.label", null, first && !held && !known ? "Worth a look" : "Held back by"),
      h("strong.title", null, known ? known.title : first ? shorten(first.title, 300) : "Nothing that the rules know of"),
      h("p", null, known ? known.advice : first ? shorten(first.advice, 600) : "No finding fired on what was measured."),
    ),
    gain && !known && heroGain(first, mean),
    phaseStrip(report),
  );
}

/** @param {any} report */
function fewSlow(report) {
  return report.checks.some((/** @type {any} */ one) => one.id === "slow-steps-share" && one.state === "look");
}

/** @param {any} report */
function noSteps(report) {
  const { stage, status, timer } = report.run;
  const open = "Steps are written 50 at a time unless window= says otherwise, and the first are not there yet. If the run no longer trains, it was killed before that.";
  const ended = `This ${stage} session ended before its first window of steps was written.`;
  const untimed = "Steps were not timed: neither GpuProfCallback nor PhaseTimer was among the callbacks.";
  return h(
    "section.card.hero",
    { "aria-label": "Step time" },
    h(
      "div.hero-cause",
      null,
      h("span.label", null, "Step time"),
      h("strong.title", null, "No steps recorded"),
      h("p", null, status === "open" ? open : timer || status === "exception" ? ended : untimed),
    ),
  );
}

/** @type {Record<string, string>} */
const KINDS = { steady: "steady ", all: "warm-up " };

/**
 * Phases, savings and samples add up to the mean, so that is the large figure. It is the device's
 * where the host queued steps faster than the device did them.
 * @param {any} steps
 */
function stepsNote(steps) {
  const rate = steps.samples_per_s;
  const behind = steps.step_ns > steps.mean_ns;
  const counted = `mean of ${count(steps.basis_count)} ${KINDS[steps.basis] ?? ""}step${steps.basis_count === 1 ? "" : "s"}`;
  const host = behind ? `the host's mean ${duration(steps.mean_ns)}, median` : "median";
  const samples = rate ? `${number(Number(rate.toPrecision(3)))} samples/s` : null;
  return [behind ? `${counted}, for the device` : counted, `${host} ${duration(steps.median_ns)}`, samples].filter(Boolean).join(" · ");
}

/**
 * @param {any} finding
 * @param {number} mean The steady step that savings are a share of.
 */
function heroGain(finding, mean) {
  const { low, high } = finding.saving_ns;
  if (!high) return null;
  const time = durationRange(low, high);
  // Work done once per epoch, and compilation, are no part of a steady step's time.
  const between = finding.when !== "in_steps";
  const share = percentRange(low / mean, high / mean);
  return h(
    "div.hero-gain",
    null,
    h("span.label", null, "Fixing it saves"),
    h("strong.big.accent", null, between ? time : share),
    h("span.note", null, between ? "per step, over all steps rather than the steady steps alone" : `${time} of the mean step`),
  );
}

/** The step as one bar, in the order of the loop. @param {any} report */
function phaseStrip(report) {
  return h(
    "div.strip",
    { role: "img", "aria-label": "Share of each phase; the table below has the numbers" },
    measured(report).map(({ phase, frac }) =>
      h(
        "div.strip-part",
        {
          title: `${phaseLabel(phase)}: ${percent(frac)}`,
          style: { flex: `${frac} 0 0`, background: phaseColor(phase), color: phaseInk(phase) },
        },
        (frac ?? 0) > 0.07 && h("span", null, phaseLabel(phase)),
      ),
    ),
  );
}

/**
 * @param {any} header
 * @param {any} report
 */
function meters(header, report) {
  const { steps, run } = report;
  const loss = header.loss;
  /** @type {[label: string, value: string, note: string][]} */
  const meters = [
    ["Slow steps", duration(steps.p95_ns), `one in twenty takes longer; the slowest ${duration(steps.max_ns)}`],
    ...(report.device.type === "cpu" ? [/** @type {[string, string, string]} */ (["GPU", "none", "trained on a CPU: .item() waits for nothing; for a GPU see lightning-gpuprof inspect"])] : deviceMeters(report.device)),
    [
      loss && loss.name !== "loss" ? `Loss (${loss.name})` : "Loss",
      loss ? number(Number(loss.value.toPrecision(4))) : "not recorded",
      loss ? `at step ${count(loss.step)}` : "what training_step returns is, under the names in metrics=",
    ],
    ["Cost of measuring", duration(run.own_cost_ns_per_step), "of each step, by this package"],
  ];
  return h(
    "dl.meters",
    null,
    meters.map(([label, value, note]) =>
      h("div.meter", null, h("dt", null, label), h("dd", null, value), h("dd.note", null, note)),
    ),
  );
}

/** @type {Record<string, [label: string, meaning: string]>} */
const STATES = {
  device_bound: ["The device", "it had work queued all the time"],
  host_bound: ["The host", "the device waited for its launches"],
  data_bound: ["Data", "the device waited for the next batch"],
  sync_bound: ["Syncs", "the host stopped to wait for the device"],
};

/**
 * @param {any} device The report's.
 * @returns {[label: string, value: string, note: string][]}
 */
function deviceMeters({ time, busy, memory }) {
  const absent = "not measured";
  const [label, meaning] = time ? (STATES[time.state] ?? [time.state, ""]) : [absent, "device, host, data or syncs"];
  return [
    ["Bound by", label, time ? `${meaning}, in ${percent(time.state_frac[time.state])} of steps` : meaning],
    busy && busy.busy_frac !== null
      ? ["GPU busy", percent(busy.busy_frac), busyNote(busy)]
      : ["GPU busy", absent, "that takes a profiler cycle"],
    memory
      ? ["GPU memory", size(memory.peak_reserved_bytes), `peak reserved of ${size(memory.total_bytes)}`]
      : ["GPU memory", absent, "peak reserved"],
  ];
}

/** Of what the figure is, and how it was split. @param {any} busy */
function busyNote(busy) {
  const of = `of the device's steady step, ${duration(busy.step_ns)}`;
  if (busy.basis === "marks") return `${of}: at least so long it had work queued, by its marks`;
  /** @type {[string, number][]} */
  const parts = [["compute", busy.compute_frac], ["communication", busy.communication_frac], ["copies", busy.copies_frac], ["idle", busy.idle_frac]];
  const split = parts.filter(([, frac]) => frac >= 0.0005).map(([name, frac]) => `${name} ${percent(frac)}`);
  return `${of}: ${split.join(", ")}; the work by the profiled steps`;
}

/** @param {any} report */
function findings(report) {
  const found = report.findings;
  const step = report.steps.step_ns;
  const cards = found.map((/** @type {any} */ one) => h("li", null, findingCard(one, step)));
  return card(
    found.length === 1 ? "1 finding" : `${found.length} findings`,
    "What holds the run back, by the saving you can count on; info comes last.",
    h("ol.findings", null, cards.slice(0, MOST_OPEN)),
    cards.length > MOST_OPEN &&
      h(
        "details.abstained",
        null,
        h("summary", null, `${cards.length - MOST_OPEN} more findings`),
        h("ol.findings", { start: MOST_OPEN + 1 }, cards.slice(MOST_OPEN)),
      ),
    !found.length && h("p.empty", null, "No rule fired on what was measured."),
    abstained(report.abstained),
  );
}

/** @param {any[]} rules */
function abstained(rules) {
  if (!rules.length) return null;
  return h(
    "details.abstained",
    null,
    h("summary", null, `${rules.length} rules give no answer: not measured, or covered by another finding`),
    h(
      "ul",
      null,
      rules.map((rule) => h("li", null, h("code", null, rule.id), ` ${rule.reason}`)),
    ),
  );
}
