// The findings as a plan of work: what each change brings, asks for and risks, in order.

import { card, h } from "../dom.js";
import { durationRange, percentRange } from "../format.js";
import { inOneLine } from "./hero.js";

/** @param {any} report */
export function plan(report) {
  const step = report.steps.step_ns;
  const items = report.plan;
  if (!items.length) {
    const next = report.focus && `Nothing to plan by. First look at ${report.focus.next}.`;
    return next && card("Plan", null, h("p", null, next));
  }
  return card(
    "Plan",
    "Quick changes first.",
    h(
      "div.scroll",
      { tabindex: 0, role: "region", "aria-label": "Plan" },
      h(
        "table.plan",
        null,
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["Change", "Impact", "Effort", "Risk"].map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h(
          "tbody",
          null,
          items.map((/** @type {any} */ one) => row(one, step)),
        ),
      ),
    ),
  );
}

/**
 * @param {any} one
 * @param {number | null} step
 */
function row(one, step) {
  const { low, high } = one.saving_ns;
  const impact = !high ? "–" : step ? percentRange(low / step, high / step) : durationRange(low, high);
  const { change, code } = inOneLine(one);
  return h(
    "tr",
    { title: `${one.id}: ${one.advice}` },
    h("th", { scope: "row" }, code ? h("code", null, change) : change),
    h("td.plain", null, impact),
    h("td", null, `${one.horizon}: ${one.difficulty}`),
    h("td", null, one.risk),
  );
}
