// Findings, the first one open: what, the change, what it saves, why one can believe it, and where it is.

import { card, code, h, shorten } from "../dom.js";
import { durationRange, evidence, percent, percentRange, shortKernel } from "../format.js";
import { phaseLabel } from "../phases.js";
import { goTo } from "./places.js";

const PLACES = 4;
const CHIPS = 4;
/** Findings are ranked by what they save: who has mended these looks again. */
const MOST_SHOWN = 8;

/**
 * @param {import("../app.js").Context} context
 * @param {any} report
 */
export function findings(context, report) {
  const found = report.findings;
  const step = report.steps.step_ns;
  const items = found.map((/** @type {any} */ one, /** @type {number} */ index) =>
    h("li", null, finding(context, one, step, index)),
  );
  return card(
    found.length === 1 ? "1 finding" : `${found.length} findings`,
    found.length > 1 && "By the saving you can count on; info comes last.",
    found.length
      ? h("ol.findings", null, items.slice(0, MOST_SHOWN))
      : h("p.muted", null, "No rule fired on what was measured: see where to look."),
    items.length > MOST_SHOWN &&
      h(
        "details.abstained",
        null,
        h("summary", null, `${items.length - MOST_SHOWN} more findings`),
        h("ol.findings", { start: MOST_SHOWN + 1 }, items.slice(MOST_SHOWN)),
      ),
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

/**
 * One line, and below it the details once it is opened.
 * @param {import("../app.js").Context} context
 * @param {any} one An entry of the report's `findings`.
 * @param {number | undefined} stepNs Mean step time: what savings are a share of.
 * @param {number} index
 */
function finding(context, one, stepNs, index) {
  const { low, high } = one.saving_ns;
  const short = high && stepNs ? percentRange(low / stepNs, high / stepNs) : "";
  return h(
    "details.finding",
    { "data-severity": one.severity, open: index === 0 },
    h(
      "summary",
      null,
      h("span.severity", null, one.severity),
      h("h3", null, one.title),
      h("span.gain-text", { title: "of the mean step" }, short),
    ),
    h("p.advice", null, one.advice),
    one.change && code(one.change),
    high > 0 &&
      h(
        "p.gain-text",
        null,
        `saves ${durationRange(low, high)} per step${one.measured ? `, measured (${shorten(one.measured, 80)})` : ""}`,
      ),
    places(context, one),
    h(
      "dl.evidence",
      { "aria-label": "Evidence" },
      chips(one.evidence ?? {}).map(([label, text]) => h("div", null, h("dt", null, label), h("dd", null, text))),
    ),
    h("p.note", null, h("code", null, one.id), `, confidence ${percent(one.confidence)}`),
  );
}

/**
 * The first figures, one in several units, such as a time and its share, under its one name.
 * @param {Record<string, unknown>} figures
 * @returns {[label: string, text: string][]}
 */
function chips(figures) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const [key, value] of Object.entries(figures)) {
    if (key === "step_ns") continue; // stands above
    const [label, text] = evidence(key, value);
    found.set(label, [...(found.get(label) ?? []), text]);
  }
  return [...found]
    .slice(0, CHIPS)
    .map(([label, [first, ...others]]) => [label, others.length ? `${first} (${others.join(", ")})` : first]);
}

/**
 * Where it is, each place a link to the view that shows it.
 * @param {import("../app.js").Context} context
 * @param {any} one
 */
function places(context, one) {
  const all = one.where.length ? one.where : [{}];
  return h(
    "ul.where",
    { "aria-label": "Where" },
    all
      .slice(0, PLACES)
      .map((/** @type {any} */ where) =>
        h("li", null, h("button.link", { onclick: () => goTo(context, one, where) }, ...named(where, one))),
      ),
    all.length > PLACES && h("li.muted", null, `and ${all.length - PLACES} more places`),
  );
}

/**
 * @param {any} where
 * @param {any} one
 * @returns {import("../dom.js").Child[]}
 */
function named(where, one) {
  if (where.file) {
    const line = where.line ? `:${where.line}` : "";
    return [
      h("code", null, shorten(where.file, 200) + line),
      where.source && h("code.source", null, shorten(where.source.trim(), 200)),
    ];
  }
  const rank = typeof where.rank === "number" && `rank ${where.rank}`;
  const kernel = where.kernel && h("code", { title: shorten(where.kernel, 1000) }, shortKernel(where.kernel));
  const parts = [where.name && h("code", null, shorten(where.name, 200)), kernel, rank].filter(Boolean);
  if (where.phase) parts.push(`${parts.length ? "in " : ""}${phaseLabel(where.phase).toLowerCase()}`);
  return parts.length
    ? parts.flatMap((part, i) => (i ? [" ", part] : [part]))
    : [/memory|vram/.test(one.id) ? "Show the memory" : "Show it in the timeline"];
}
