// At which lines of the program a step's time is spent, by samples of the training thread.

import { card, h, shorten } from "../dom.js";
import { duration, durationRange, percent } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";

/** A line below this share of the step is in the report's JSON alone. */
const SHOWN_FRAC = 0.005;
const MOST = 6;

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where no line was seen often enough.
 */
export function lineTable(report) {
  const lines = report.lines.filter((/** @type {any} */ one) => one.frac >= SHOWN_FRAC).slice(0, MOST);
  if (!lines.length) return null;
  return card(
    "At which lines",
    "What a line of your program takes of the mean step, with what it calls in other packages: the host's time, by samples of the training thread in the first seconds.",
    h(
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
          h("th.number", { scope: "col", title: "Where the true mean lies 19 times in 20, as far as chance goes" }, "Per step"),
        ),
      ),
      h("tbody", null, lines.map(row)),
    ),
  );
}

/** @param {any} one */
function row(one) {
  const range = one.low_ns < one.high_ns ? durationRange(one.low_ns, one.high_ns) : duration(one.mean_ns);
  return h(
    "tr",
    { title: `${one.file}:${one.line} in ${one.function}` },
    h(
      "th",
      { scope: "row" },
      h("i.chip", { style: { background: phaseColor(one.phase) } }),
      h("code", null, `${shorten(one.file.split("/").slice(-2).join("/"), 60)}:${one.line}`),
      h("span.muted", null, ` in ${phaseLabel(one.phase).toLowerCase()}`),
      one.source && h("code.source", null, shorten(one.source.trim(), 200)),
    ),
    h("td.number", null, percent(one.frac)),
    h("td.number.muted", null, range),
  );
}
