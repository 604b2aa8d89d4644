// Small multiples: a picture per time of two sides, on a scale of its own, grey where the difference shows nothing.

import { chipColor } from "./colors.js";
import { h } from "./dom.js";
import { shown } from "./format.js";

/** @typedef {import("./payloads").Interval} Interval */
/** @typedef {import("./payloads").Multiple} Multiple */
/** @typedef {import("./payloads").Multiples} Multiples */
/** @typedef {import("./payloads").Unit} Unit */

/** @param {Multiples} spec */
export function multiples(spec) {
  return h(
    "ul.multiples",
    { "data-multiples": spec.id },
    spec.multiples.map((multiple) => h("li", null, picture(multiple, spec))),
  );
}

/**
 * @param {Multiple} multiple
 * @param {Multiples} spec
 */
function picture(multiple, { unit, base_label: baseLabel = "Base", new_label: newLabel = "New" }) {
  const { key, label, base, new: now, diff, base_interval: ofBase, new_interval: ofNew, noise } = multiple;
  const sign = noise ? "noise" : (diff ?? 0) > 0 ? "more" : "less";
  const color = chipColor(key);
  const longest = Math.max(Number.MIN_VALUE, ...[base, now, ofBase?.high, ofNew?.high].map((value) => value ?? 0));
  return h(
    `figure.multiple.${sign}`,
    { "data-key": key },
    h("figcaption", { title: label }, color && h("i.chip", { style: { background: color } }), label),
    side(baseLabel, base, ofBase, unit, longest),
    side(newLabel, now, ofNew, unit, longest),
    difference(multiple, unit),
  );
}

/**
 * A side's time as a bar, with the interval as a line.
 * @param {string} label
 * @param {number | null} value
 * @param {Interval | null | undefined} interval
 * @param {Unit} unit
 * @param {number} longest What the whole width stands for.
 */
function side(label, value, interval, unit, longest) {
  const share = (/** @type {number} */ part) => `${((100 * part) / longest).toFixed(2)}%`;
  return h(
    "div.side",
    { title: interval && `${label}: ${shown(interval, unit)}` },
    h("span.note", null, label),
    h(
      "div.track",
      null,
      value ? h("i.bar", { style: { width: share(value) } }) : null,
      interval && h("i.interval", { style: { left: share(interval.low), width: share(interval.high - interval.low) } }),
    ),
    h("span.number", null, shown(value, unit)),
  );
}

/**
 * @param {Multiple} multiple
 * @param {Unit} unit
 */
function difference({ diff, diff_interval: interval, noise }, unit) {
  const range = interval ? shown(interval, unit) : "";
  return h(
    "div.between",
    { title: range || null },
    diff !== null && h("strong", null, shown(diff, unit)),
    h("span.note", null, noise ?? range),
  );
}
