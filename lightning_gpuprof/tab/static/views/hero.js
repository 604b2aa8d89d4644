// The first thing seen: how long a step takes, what holds it back, the change, its gain, how busy the GPU is.

import { codeLine, h, shorten } from "../dom.js";
import { count, duration, durationRange, number, percent, percentRange } from "../format.js";
import { phaseColor, phaseInk, phaseLabel } from "../phases.js";
import { outOfMemory } from "./out_of_memory.js";
import { measured } from "./phase_table.js";

/**
 * @param {import("../app.js").Context} context
 * @param {any} report
 */
export async function hero(context, report) {
  const failed = await outOfMemory(context, report.run.error);
  if (!report.steps.median_ns || !report.steps.step_ns) return [failed ?? noSteps(context, report)];
  const { title, change, code, gain } = cause(report);
  return [
    failed,
    h(
      "section.hero",
      { "aria-label": "Step time" },
      h(
        "div.hero-time",
        null,
        h("span.label", null, "Step time"),
        h("strong.big", null, duration(report.steps.step_ns)),
        h("span.note", null, stepsNote(report.steps)),
        fewSlow(report) && h("span.note", null, "A few slow steps take most of the time: see Steps."),
      ),
      h(
        "div.hero-cause",
        null,
        h("span.label", null, gain ? "Held back by" : "Verdict"),
        h("strong.title", null, shorten(title, 300)),
        code ? codeLine(change) : h("p.two-lines", { title: change }, change),
      ),
      gain,
      busy(report),
      phaseStrip(report),
    ),
  ];
}

/**
 * The finding to act on; where there is none, who waits for whom, or the question to look at first.
 * @param {any} report
 * @returns {{title: string, change: string, code?: boolean, gain?: HTMLElement | null}}
 */
function cause(report) {
  const first = report.findings[0];
  // Warm-up steps alone promise nothing for later ones.
  if (report.steps.basis === "all")
    return {
      title: "Too short to say what to change",
      change: "Only warm-up steps were recorded: train longer and look again.",
    };
  if (first && first.severity !== "info") {
    const { change, code } = inOneLine(first);
    const at = first.where.find((/** @type {any} */ one) => one.file);
    const place = at ? `, at ${shorten(at.file, 120)}:${at.line}` : "";
    return {
      title: first.title,
      change: code ? change : change + place,
      code,
      gain: heroGain(first, report.steps.step_ns),
    };
  }
  const { busy: seen } = report.device;
  if (seen?.title) return { title: seen.title, change: seen.advice.split(". ").at(-1) };
  const look = report.focus && `First look at ${report.focus.next}.`;
  return {
    title: "No finding is worth a change by itself",
    change: look ?? "No rule fired: the longest operators are the next place to look.",
  };
}

/**
 * A change as its first line of code; where it has none, as how its advice begins.
 * @param {any} finding
 */
export function inOneLine({ change, advice }) {
  const line = change?.split("\n").find((/** @type {string} */ one) => one.trim() && !one.trim().startsWith("#"));
  return {
    change: line?.trim() ?? shorten(/^.+?(?=[:.]? \(|[:.] |\.?$)/s.exec(advice)?.[0] ?? advice, 200),
    code: Boolean(line),
  };
}

/** How busy the GPU is, and who waits. @param {any} report */
function busy(report) {
  const { type, busy: seen } = report.device;
  const [value, note] =
    type === "cpu"
      ? ["none", "trained on a CPU"]
      : seen && seen.busy_frac !== null
        ? [percent(seen.busy_frac), waits(seen)]
        : ["–", [seen && waits(seen), "the share takes a profiler cycle"].filter(Boolean).join("; ")];
  return h(
    "div.hero-busy",
    { title: seen && seen.busy_frac !== null ? busyNote(seen) : null },
    h("span.label", null, type === "cpu" ? "GPU" : "GPU busy"),
    h("strong.big", null, value),
    h("span.note", null, note),
  );
}

/** Who waits, as the GPU's sentence says behind its figure. @param {any} seen */
function waits(seen) {
  return seen.line.split(": ")[1] ?? "";
}

/** Of what the figure is, and how it was split. @param {any} seen */
function busyNote(seen) {
  const of = `of the device's steady step, ${duration(seen.step_ns)}`;
  if (seen.basis === "marks") return `${of}: at least so long it had work queued, by its marks`;
  /** @type {[string, number][]} */
  const parts = [
    ["compute", seen.compute_frac],
    ["communication", seen.communication_frac],
    ["copies", seen.copies_frac],
    ["idle", seen.idle_frac],
  ];
  const split = parts.filter(([, frac]) => frac >= 0.0005).map(([name, frac]) => `${name} ${percent(frac)}`);
  return `${of}: ${split.join(", ")}; the work by the profiled steps`;
}

/** @param {any} report */
function fewSlow(report) {
  return report.checks.some((/** @type {any} */ one) => one.id === "slow-steps-share" && one.state === "look");
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
  return h(
    "div.hero-gain",
    null,
    h("span.label", null, "Fixing it saves"),
    h("strong.big.accent", null, between ? time : percentRange(low / mean, high / mean)),
    h("span.note", null, between ? "per step, over all steps rather than the steady steps alone" : `${time} per step`),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} report
 */
function noSteps(context, report) {
  const { stage, status, timer } = report.run;
  const open =
    "Steps are written 50 at a time unless window= says otherwise, and the first are not there yet. If the run no longer trains, it was killed before that.";
  const ended = `This ${stage} session ended before its first window of steps was written.`;
  const unmarked =
    "A trace tells steps apart where the script calls prof.step() after each; its analysis takes a moment.";
  const untimed = "Steps were not timed: neither GpuProfCallback nor PhaseTimer was among the callbacks.";
  return h(
    "section.card.hero",
    { "aria-label": "Step time" },
    h(
      "div.hero-cause",
      null,
      h("span.label", null, "Step time"),
      h("strong.title", null, "No steps recorded"),
      h(
        "p",
        null,
        context.run.state === "trace"
          ? unmarked
          : status === "open"
            ? open
            : timer || status === "exception"
              ? ended
              : untimed,
      ),
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
  return [behind ? `${counted}, for the device` : counted, `${host} ${duration(steps.median_ns)}`, samples]
    .filter(Boolean)
    .join(" · ");
}

/** The step as one bar, in the order of the loop. @param {any} report */
function phaseStrip(report) {
  const phases = measured(report);
  return (
    phases.length > 0 &&
    h(
      "div.strip",
      { role: "img", "aria-label": "Share of each phase; the table below has the numbers" },
      phases.map(({ phase, frac }) =>
        h(
          "div.strip-part",
          {
            title: `${phaseLabel(phase)}: ${percent(frac)}`,
            style: { flex: `${frac} 0 0`, background: phaseColor(phase), color: phaseInk(phase) },
          },
          (frac ?? 0) > 0.07 && h("span", null, phaseLabel(phase)),
        ),
      ),
    )
  );
}
