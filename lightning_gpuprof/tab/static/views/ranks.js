// The ranks of a run side by side: where each rank's step goes, and which rank the others wait for.

import { kindColor, phaseColor } from "../colors.js";
import { h } from "../dom.js";
import { duration } from "../format.js";
import { sectionCard } from "../render.js";
import { askAgain } from "./cycles.js";

/** @typedef {import("../payloads").RankLane} RankLane */
/** @typedef {import("../payloads").LanePart} LanePart */

/** Backward's own colour, hatched: the time is a part of that phase. */
const EXCHANGE = `repeating-linear-gradient(115deg, ${phaseColor("backward")} 0 3px, #9db2ee 3px 6px)`;

/** @type {import("./registry.js").View} */
export const ranks = {
  id: "ranks",
  label: "Ranks",
  about:
    "Each rank's mean steady step by its host's clock; below it what its device did, by the device's; then all ranks' traces.",
  async render(context) {
    const payload = await context.get("ranks");
    const why = traces(payload) ?? payload.nothing;
    const surface = {
      ...context,
      charts: { ranks: () => lanes(payload.lanes) },
      open: {
        ranks: (/** @type {import("../table.js").Row} */ row) => context.go({ view: "steps", rank: String(row.rank) }),
      },
    };
    const node = h(
      "div",
      null,
      payload.sections.map((section) => sectionCard(surface, section)),
      why && h("p.empty", { role: "note" }, why),
    );
    askAgain(context, node, payload);
    return node;
  },
};

/**
 * Why the traces of all ranks are not compared here; null if they are, or if there are none.
 * @param {import("../payloads").RanksPayload} payload
 */
function traces({ state, error }) {
  if (state === "preparing") return "A separate process compares the traces of all ranks, and the result follows here.";
  if (state === "failed") return `The traces of all ranks could not be compared: ${error}`;
  return null;
}

/** @param {RankLane[]} all */
function lanes(all) {
  const whole = (/** @type {LanePart[]} */ parts) => parts.reduce((sum, part) => sum + part.ns, 0);
  const longest = Math.max(...all.map((lane) => Math.max(lane.mean_ns, whole(lane.device))));
  return h(
    "div",
    null,
    h(
      "div.ranks",
      { "aria-hidden": true },
      all.map((lane) =>
        h(
          lane.is_slow ? "div.rank-lane.slow" : "div.rank-lane",
          null,
          h("span.label", null, `rank ${lane.rank}${lane.is_slow ? " slow" : ""}`),
          strip("div.strip", lane.parts, phaseOrExchange, lane.mean_ns / longest),
          lane.device.length > 0 && strip("div.strip.lower", lane.device, kindColor, whole(lane.device) / longest),
        ),
      ),
    ),
    legend(
      "Phases",
      all.flatMap((lane) => lane.parts),
      phaseOrExchange,
    ),
    legend(
      "Lower bars: the device",
      all.flatMap((lane) => lane.device),
      kindColor,
    ),
  );
}

/** @param {string} key */
function phaseOrExchange(key) {
  return key === "exchange" ? EXCHANGE : phaseColor(key);
}

/**
 * @param {string} spec
 * @param {LanePart[]} parts
 * @param {(key: string) => string} color
 * @param {number} width As a share of the longest lane.
 */
function strip(spec, parts, color, width) {
  return h(
    spec,
    { style: { width: `${width * 100}%` } },
    parts.map(({ key, label, ns }) =>
      h("div.strip-part", { title: `${label}: ${duration(ns)}`, style: { flex: `${ns} 0 0`, background: color(key) } }),
    ),
  );
}

/**
 * @param {string} title
 * @param {LanePart[]} parts
 * @param {(key: string) => string} color
 */
function legend(title, parts, color) {
  if (!parts.length) return null;
  const labels = new Map(parts.map((part) => [part.key, part.label]));
  return h(
    "ul.legend",
    { "aria-label": title },
    [...labels].map(([key, label]) => h("li", null, h("i.chip", { style: { background: color(key) } }), label)),
  );
}
