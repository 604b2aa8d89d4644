// What `lightning-gpuprof try` measured of the program's changes, beside what the findings had predicted.

import { card, code, h, shorten } from "../dom.js";
import { duration, durationRange, percent } from "../format.js";

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where nothing was tried.
 */
export function trialsCard(report) {
  const tried = report.trials;
  if (!tried) return null;
  const measured = tried.trials.filter((/** @type {any} */ one) => one.after !== null);
  const rest = tried.trials.filter((/** @type {any} */ one) => one.after === null);
  return card(
    "Tried",
    `Gains per step that lightning-gpuprof try measured in short runs of ${shorten(tried.program, 200)}, with and without a change in turns.`,
    measured.length > 0 &&
      h(
        "table.lines",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Change", "Predicted", "Measured", "Step", "Losses"].map((text) => h("th", null, text)),
          ),
        ),
        h("tbody", null, measured.map(row)),
      ),
    tried.paste && h("p", null, `Measured together: ${percent(tried.combination.gain_frac)} less per step.`),
    tried.paste && code(tried.paste),
    tried.notes.map((/** @type {string} */ note) => h("p.muted", null, shorten(note, 400))),
    rest.length > 0 &&
      h(
        "details.abstained",
        null,
        h("summary", null, `${rest.length} more that needed no trial, or failed`),
        h(
          "ul",
          null,
          rest.map((/** @type {any} */ one) =>
            h("li", null, h("code", null, one.change), ` ${shorten(one.note || one.alters, 400)}`),
          ),
        ),
      ),
  );
}

/** @param {any} one */
function row(one) {
  const named = one.value === null ? one.change : `${one.change}=${one.value}`;
  const step = one.before.step_ns;
  const gain = `${percent(one.low_frac)} to ${percent(one.high_frac)}`;
  const interval = one.verdict === "faster" || one.verdict === "slower" ? gain : one.verdict;
  return h(
    "tr",
    null,
    h(
      "td",
      { title: one.alters },
      h("code", null, shorten(named, 80)),
      one.ceiling && " (the most that data can give)",
      one.alters && !one.ceiling && " (alters results)",
    ),
    h("td", null, one.predicted_ns ? durationRange(one.predicted_ns[0], one.predicted_ns[1]) : ""),
    h("td", { title: `${gain}, 19 times in 20` }, interval),
    h("td", null, `${duration(step)} to ${duration(one.after.step_ns)}`),
    h("td", null, one.losses),
  );
}
