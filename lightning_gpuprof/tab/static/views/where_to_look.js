// The questions that a profile is read by, with this run's answers and what to do next.

import { card, h } from "../dom.js";
import { evidence } from "../format.js";

/**
 * @param {import("../app.js").Context} context
 * @param {any} report
 */
export function whereToLook(context, report) {
  const of = (/** @type {string} */ state) => report.checks.filter((/** @type {any} */ one) => one.state === state);
  const first = report.focus?.id;
  // A batch that fills the device sooner is no advice where something grows in it.
  const grows = report.findings.some((/** @type {any} */ one) => one.id === "memory-growth");
  const look = of("look")
    .filter((/** @type {any} */ one) => one.id !== "vram" || !grows)
    .sort((/** @type {any} */ a, /** @type {any} */ b) => Number(b.id === first) - Number(a.id === first));
  const rows = (/** @type {any[]} */ some) =>
    h(
      "table.questions",
      null,
      h(
        "tbody",
        null,
        some.map((one) => row(context, one)),
      ),
    );
  const folded = (/** @type {any[]} */ some, /** @type {string} */ text) =>
    some.length > 0 && h("details.abstained", null, h("summary", null, `${some.length} ${text}`), rows(some));
  return card(
    "Where to look",
    null,
    look.length ? rows(look) : h("p.muted", null, "Every answer is as it should be."),
    folded(of("ok"), "answered: nothing to look at"),
    folded(of("not_measured"), "not measured"),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} one
 */
function row(context, one) {
  const measured = one.value !== null;
  const [label, value] = evidence(one.figure, one.value);
  return h(
    "tr",
    null,
    h(
      "th",
      { scope: "row" },
      h("button.link", { onclick: () => context.go({ view: one.view }), title: `Shown in ${one.view}` }, one.question),
      one.state !== "ok" && h("p.note", null, one.next),
    ),
    h(
      "td.number",
      { title: `limit ${evidence(one.figure, one.limit)[1]}` },
      measured ? h("strong", null, value) : "–",
      measured && h("p.note", null, label),
    ),
  );
}
