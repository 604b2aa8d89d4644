// At which lines of the program a step's time is spent, by samples of the training thread and of workers.

import { card, h, shorten } from "../dom.js";
import { duration, durationRange, percent, percentRange } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";

/** A line below this share of the step is in the report's JSON alone. */
const SHOWN_FRAC = 0.005;
/** And one below this share of a worker's work. */
const SHOWN_WORKER_FRAC = 0.02;
const MOST = 6;

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where no line was sampled often enough.
 */
export function lineTable(report) {
  const lines = report.lines.filter((/** @type {any} */ one) => one.frac >= SHOWN_FRAC).slice(0, MOST);
  if (!lines.length) return null;
  const rest = report.lines_unlisted_ns;
  return card(
    "At which lines",
    `Each line with what it calls in other packages: the host's time in the mean step, by samples of the training thread in the first seconds.${rest == null ? "" : ` A line that is not listed takes at most ${duration(rest)}.`}`,
    table(
      { label: "Per step", title: "Where the true mean lies 19 times in 20, as far as chance goes" },
      lines.map((/** @type {any} */ one) =>
        row(one, inStep(one), phaseColor(one.phase), ` in ${phaseLabel(one.phase).toLowerCase()}`),
      ),
    ),
  );
}

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where no worker process was sampled at a line often enough.
 */
export function workerTable(report) {
  const workers = report.workers;
  const lines = (workers?.lines ?? []).filter((/** @type {any} */ one) => one.frac >= SHOWN_WORKER_FRAC).slice(0, MOST);
  if (!lines.length) return null;
  const processes = workers.processes === 1 ? "1 worker process" : `${workers.processes} worker processes`;
  return card(
    "In the loader's workers",
    `What a line takes of making a batch, with what it calls in other packages: by ${workers.samples} samples of ${processes}, which waited for work in ${percent(workers.waiting_frac)} of them.`,
    table(
      { label: "Per batch", title: "The share of what one worker takes to make a batch" },
      lines.map((/** @type {any} */ one) =>
        row(one, one.batch_ns == null ? "" : duration(one.batch_ns), phaseColor("data_wait"), ""),
      ),
    ),
  );
}

/**
 * @param {{label: string, title: string}} last Heading of the last column.
 * @param {HTMLElement[]} rows
 */
function table(last, rows) {
  return h(
    "table.lines",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, "Line"),
        h("th.number", { scope: "col" }, "Share"),
        h("th.number", { scope: "col", title: last.title }, last.label),
      ),
    ),
    h("tbody", null, rows),
  );
}

/** @param {any} one */
function inStep(one) {
  return one.low_ns < one.high_ns ? durationRange(one.low_ns, one.high_ns) : duration(one.mean_ns);
}

/**
 * @param {any} one
 * @param {string} time
 * @param {string} color
 * @param {string} where
 */
function row(one, time, color, where) {
  return h(
    "tr",
    { title: `${one.file}:${one.line} in ${one.function}` },
    h(
      "th",
      { scope: "row" },
      h("i.chip", { style: { background: color } }),
      h("code", null, `${shorten(one.file.split("/").slice(-2).join("/"), 60)}:${one.line}`),
      where && h("span.muted", null, where),
      one.source && h("code.source", null, shorten(one.source.trim(), 200)),
    ),
    h("td.number", null, percentRange(one.low_frac, one.high_frac)),
    h("td.number.muted", null, time),
  );
}
