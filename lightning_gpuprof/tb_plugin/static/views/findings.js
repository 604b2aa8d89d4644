// One finding as a card: what, why one can believe it, what to change, what that saves.

import { h, shorten } from "../dom.js";
import { durationRange, evidence, kernelName, percent } from "../format.js";
import { phaseLabel } from "../phases.js";

const PLACES = 4;

/**
 * @param {any} finding An entry of the report's `findings`.
 * @param {number | undefined} stepNs Mean step time: the length of the gain's scale.
 */
export function findingCard(finding, stepNs) {
  const where = (finding.where ?? []).map((/** @type {any} */ one) => place(one, finding.title)).filter(Boolean);
  return h(
    "article.finding",
    { "data-severity": finding.severity },
    h(
      "header",
      null,
      h("span.severity", null, finding.severity),
      h("h3", null, finding.title),
      h("code.finding-id", { title: `confidence ${percent(finding.confidence)}` }, finding.id),
    ),
    h("p.advice", null, finding.advice),
    finding.change && h("pre.code", null, finding.change),
    gain(finding, stepNs),
    where.length > 0 &&
      h(
        "ul.where",
        { "aria-label": "Where" },
        where.slice(0, PLACES).map((/** @type {any} */ one) => h("li", null, one)),
        where.length > PLACES && h("li.muted", null, `and ${where.length - PLACES} more places`),
      ),
    h(
      "dl.evidence",
      { "aria-label": "Evidence" },
      paired(finding.evidence ?? {}).map(([label, texts]) =>
        h("div", null, h("dt", null, label), h("dd", null, texts.length > 1 ? `${texts[0]} (${texts.slice(1).join(", ")})` : texts[0])),
      ),
    ),
  );
}

/**
 * One figure in several units, such as a time and its share, under its one name.
 * @param {Record<string, unknown>} figures
 * @returns {[label: string, texts: string[]][]}
 */
function paired(figures) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const [key, value] of Object.entries(figures)) {
    const [label, text] = evidence(key, value);
    found.set(label, [...(found.get(label) ?? []), text]);
  }
  return [...found];
}

/**
 * The saving as a bar on the scale of a step: sure part solid, possible part hatched.
 * @param {any} finding
 * @param {number | undefined} stepNs
 */
function gain(finding, stepNs) {
  const saving = finding.saving_ns;
  if (!saving || !saving.high) return null;
  const how = finding.measured ? ", measured (" + shorten(finding.measured, 80) + ")" : "";
  const text = `saves ${durationRange(saving.low, saving.high)} per step${how}`;
  if (!stepNs) return h("p.gain-text", null, text);
  const width = (/** @type {number} */ ns) => `${Math.min(100, (ns / stepNs) * 100).toFixed(2)}%`;
  return h(
    "div.gain",
    null,
    h(
      "div.gain-bar",
      { role: "img", "aria-label": text },
      h("i.gain-high", { style: { width: width(saving.high) } }),
      h("i.gain-low", { style: { width: width(saving.low) } }),
    ),
    h("span.gain-text", null, text),
  );
}

/**
 * A place as a line, null where it says nothing that the finding's title does not.
 * @param {any} where
 * @param {string} title
 */
function place(where, title) {
  if (where.file) {
    const line = where.line ? `:${where.line}` : "";
    return h(
      "span",
      null,
      h("code", null, shorten(where.file, 200) + line),
      where.source && h("code.source", null, shorten(where.source.trim(), 200)),
    );
  }
  const parts = [];
  if (where.name && !title.includes(where.name)) parts.push(h("code", null, shorten(where.name, 200)));
  if (where.kernel) parts.push(h("code", { title: shorten(where.kernel, 1000) }, shorten(kernelName(where.kernel), 120)));
  if (typeof where.rank === "number") parts.push(h("span", null, `on rank ${where.rank}`));
  if (!parts.length) return null;
  if (where.phase) parts.push(h("span", null, `in ${phaseLabel(where.phase).toLowerCase()}`));
  return h("span.parts", null, parts);
}
