// The step time with chosen findings fixed: both ends of what that would save.

import { card, h, shorten } from "../dom.js";
import { duration, durationRange, percentRange } from "../format.js";

const OFFERED = 5;

/**
 * @param {import("../app.js").Context} context
 * @param {any} report
 */
export function whatIf(context, report) {
  /** @type {any[]} */
  const offered = report.findings
    .filter((/** @type {any} */ one, /** @type {number} */ i, /** @type {any[]} */ all) => one.saving_ns?.high > 0 && all.findIndex((other) => other.id === one.id) === i)
    .slice(0, OFFERED);
  if (!offered.length || !report.steps.step_ns) return null;
  const state = context.local("what-if");
  state.fixed ??= [];
  const answer = h("div.what-if", { "aria-live": "polite" });
  const draw = async () => {
    const removing = offered.map((one) => one.id).filter((id) => state.fixed.includes(id));
    try {
      answer.replaceChildren(...estimate(await context.get("what_if", { removing: removing.join(",") })));
    } catch (error) {
      answer.replaceChildren(h("p.muted", null, error instanceof Error ? error.message : String(error)));
    }
  };
  const toggle = (/** @type {any} */ finding) => {
    const box = h("input", {
      type: "checkbox",
      checked: state.fixed.includes(finding.id),
      onchange: (/** @type {any} */ event) => {
        state.fixed = state.fixed.filter((/** @type {string} */ id) => id !== finding.id);
        if (event.target.checked) state.fixed.push(finding.id);
        draw();
      },
    });
    return h("label", null, box, h("code", null, finding.id), h("span.muted", null, shorten(finding.title, 90)));
  };
  draw();
  return card("What if", "The mean step with the ticked findings fixed; savings that overlap are not counted twice.", h("div.toggles", null, offered.map(toggle)), answer);
}

/** @param {any} found The what_if view's payload. */
function estimate(found) {
  const width = (/** @type {number} */ ns) => `${((ns / found.step_ns) * 100).toFixed(2)}%`;
  const { low, high } = found.saving_ns;
  const text = high
    ? `${durationRange(found.step_low_ns, found.step_high_ns)} instead of ${duration(found.step_ns)}, ${percentRange(low / found.step_ns, high / found.step_ns)} less`
    : `${duration(found.step_ns)} as it is`;
  return [
    h(
      "div.gain-bar.step-bar",
      { role: "img", "aria-label": text },
      h("i.gain-high", { style: { width: width(found.step_high_ns) } }),
      h("i.gain-low", { style: { width: width(found.step_low_ns) } }),
    ),
    h("p.gain-text", null, text),
  ];
}
