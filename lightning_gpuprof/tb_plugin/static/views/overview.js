// Step time, what holds it back, what to change, how much that saves: readable in three seconds.

import { card, h, shorten } from "../dom.js";
import { count, duration, durationRange, number, percent, percentRange, size } from "../format.js";
import { phaseColor, phaseInk, phaseLabel, phaseMeaning } from "../phases.js";
import { findingCard } from "./findings.js";
import { stepsChart } from "./steps_chart.js";
import { whatIf } from "./what_if.js";

/** Enough to see how the run went; the steps view has every step. */
const OVERVIEW_BUCKETS = 160;

/** @type {import("./registry.js").View} */
export const overview = {
  id: "overview",
  label: "Overview",
  about: "Where a training step goes, what holds it back, and what a change would save.",
  async render(context) {
    const [report, steps] = await Promise.all([context.get("report"), context.get("steps", { buckets: OVERVIEW_BUCKETS })]);
    return h(
      "div.overview",
      null,
      hero(report),
      report.steps.count > 0 && meters(context.header, report),
      h(
        "div.columns",
        null,
        h("div.column", null, findings(report)),
        h(
          "div.column",
          null,
          report.steps.count > 0 && phases(report),
          whatIf(context, report),
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

/** @param {any} report */
function hero(report) {
  const { median_ns: median, mean_ns: mean } = report.steps;
  if (!median) return noSteps(report);
  const first = report.findings[0];
  const gain = first && mean && first.saving_ns.high > 0;
  return h(
    "section.hero",
    { "aria-label": "Step time" },
    h(
      "div.hero-time",
      null,
      h("span.label", null, "Step time"),
      h("strong.big", null, duration(median)),
      h("span.note", null, stepsNote(report.steps)),
    ),
    h(
      "div.hero-cause",
      null,
      h("span.label", null, gain ? "Held back by" : first ? "Worth a look" : "Held back by"),
      h("strong.title", null, first ? shorten(first.title, 300) : "Nothing that the rules know of"),
      h("p", null, first ? shorten(first.advice, 600) : "No finding fired on what was measured."),
    ),
    gain && heroGain(first, mean),
    phaseStrip(report),
  );
}

/** @param {any} report */
function noSteps(report) {
  const open = report.run.status === "open";
  return h(
    "section.hero",
    { "aria-label": "Step time" },
    h(
      "div.hero-cause",
      null,
      h("span.label", null, "Step time"),
      h("strong.title", null, "No steps recorded"),
      h(
        "p",
        null,
        open
          ? "The first window of steps is not written yet; windows are 50 steps unless set otherwise. Where the run is no longer training, it was killed before."
          : `This ${report.run.stage} session ended before its first window of steps was written.`,
      ),
    ),
  );
}

/** @param {any} steps */
function stepsNote(steps) {
  if (!steps.median_ns) return "no steps recorded yet";
  const rate = steps.samples_per_s;
  const counted = `median of ${count(steps.basis_count)} ${steps.basis === "steady" ? "steady " : ""}steps`;
  return rate ? `${counted} · ${number(Number(rate.toPrecision(3)))} samples/s` : counted;
}

/**
 * @param {any} finding
 * @param {number} mean The steady step that savings are a share of.
 */
function heroGain(finding, mean) {
  const { low, high } = finding.saving_ns;
  if (!high) return null;
  return h(
    "div.hero-gain",
    null,
    h("span.label", null, "Changing it saves"),
    h("strong.big.accent", null, percentRange(low / mean, high / mean)),
    h("span.note", null, `${durationRange(low, high)} of each step`),
  );
}

/** @param {any} report */
function measured(report) {
  const device = report.device.time?.phases ?? {};
  return Object.entries(report.phases)
    .map(([phase, /** @type {any} */ one]) => ({
      phase,
      frac: one.step_frac ?? one.frac,
      mean: one.mean_ns,
      device: device[phase]?.mean_ns,
      parts: one.parts ?? [],
    }))
    .filter((one) => one.frac > 0);
}

/** The step as one bar, in the order of the loop. @param {any} report */
function phaseStrip(report) {
  return h(
    "div.strip",
    { role: "img", "aria-label": "Share of each phase; the table below has the numbers" },
    measured(report).map(({ phase, ...one }) =>
      h(
        "div.strip-part",
        {
          title: `${phaseLabel(phase)}: ${percent(one.frac)}`,
          style: { flex: `${one.frac} 0 0`, background: phaseColor(phase), color: phaseInk(phase) },
        },
        one.frac > 0.07 && h("span", null, phaseLabel(phase)),
      ),
    ),
  );
}

/** @param {any} report */
function phases(report) {
  const rows = measured(report).sort((a, b) => b.frac - a.frac);
  const largest = Math.max(...rows.map((row) => row.frac), 0.01);
  const device = rows.some((row) => row.device !== undefined);
  // Host and device bars on one scale of time; without a device, shares fill the width.
  const longest = Math.max(...rows.map((row) => row.mean ?? 0), ...rows.map((row) => row.device ?? 0), 1);
  return card(
    "Where a step goes",
    device ? "Mean of the steady steps: the upper bar by the host's clock, the lower one by the device's." : "Mean of the steady steps, by the host's clock.",
    h(
      "table.phases",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, "Phase"),
          h("th", { scope: "col" }, h("span.sr", null, "Bar")),
          h("th.number", { scope: "col" }, "Share"),
          h("th.number", { scope: "col" }, "Mean"),
          device && h("th.number", { scope: "col" }, "On device"),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { title: phaseMeaning(row.phase) },
            h("th", { scope: "row" }, h("i.chip", { style: { background: phaseColor(row.phase) } }), phaseLabel(row.phase)),
            h(
              "td.bar-cell",
              null,
              h("i.bar", {
                style: { width: `${(device ? row.mean / longest : row.frac / largest) * 100}%`, background: phaseColor(row.phase) },
              }),
              device &&
                h("i.bar.on-device", {
                  style: { width: `${((row.device ?? 0) / longest) * 100}%`, background: phaseColor(row.phase) },
                }),
            ),
            h("td.number", null, percent(row.frac)),
            h("td.number.muted", null, duration(row.mean)),
            device && h("td.number.muted", null, row.device === undefined ? "–" : duration(row.device)),
          ),
        ),
      ),
    ),
  );
}

/**
 * @param {any} header
 * @param {any} report
 */
function meters(header, report) {
  const { steps, device, run } = report;
  const noGpu = device.type === "cpu" ? "no GPU: not measured" : "not measured";
  const memory = device.memory;
  const loss = header.loss;
  /** @type {[label: string, value: string, note: string][]} */
  const meters = [
    ["Slow steps", duration(steps.p95_ns), `95th percentile; slowest ${duration(steps.max_ns)}`],
    deviceMeter(device.time, noGpu),
    [
      "Device memory",
      memory ? size(memory.peak_reserved_bytes) : noGpu,
      memory ? `peak reserved of ${size(memory.total_bytes)}` : "peak reserved",
    ],
    [
      loss ? `Loss (${loss.name})` : "Loss",
      loss ? number(Number(loss.value.toPrecision(4))) : "not recorded",
      loss ? `at step ${count(loss.step)}` : "add DeferredLoss to record it",
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

/** @type {Record<string, string>} */
const STATES = {
  device_bound: "The device",
  host_bound: "The host",
  data_bound: "Data",
  sync_bound: "Syncs",
};

/**
 * @param {any} time
 * @param {string} absent
 * @returns {[label: string, value: string, note: string]}
 */
function deviceMeter(time, absent) {
  if (!time) return ["Bound by", absent, "device, host, data or syncs"];
  const share = percent(time.state_frac[time.state]);
  return ["Bound by", STATES[time.state] ?? time.state, `${share} of steps, by run-ahead`];
}

/** @param {any} report */
function findings(report) {
  const found = report.findings;
  const step = report.steps.mean_ns;
  return card(
    found.length === 1 ? "1 finding" : `${found.length} findings`,
    "What holds the run back, by expected saving.",
    h("ol.findings", null, found.map((/** @type {any} */ one) => h("li", null, findingCard(one, step)))),
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
    h("summary", null, `${rules.length} rules could not judge: their input was not measured`),
    h(
      "ul",
      null,
      rules.map((rule) => h("li", null, h("code", null, rule.id), ` ${rule.reason}`)),
    ),
  );
}
