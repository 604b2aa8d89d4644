// The data source of an HTML report: answers that were stored in the file when it was written.

import { SourceError } from "./source.js";

/** Parameters on which the answers that a report holds do not depend. */
const FIXED = ["run", "session", "buckets", "first", "last", "from", "to", "columns", "groups"];

/** @typedef {{same_as?: string, error?: string, base64?: string}} Answer A payload, or what stands for it. */

/** @returns {import("./source.js").Source} */
export function embeddedSource() {
  /** @type {Record<string, Answer>} */
  const answers = JSON.parse(element("gp-data").textContent ?? "{}");
  /** @param {string} name @param {import("./source.js").Params} [params] */
  const find = (name, params = {}) => {
    const asked = Object.entries(params).filter(
      ([key, value]) => !FIXED.includes(key) && value !== undefined && value !== null && value !== "",
    );
    const keyOf = (/** @type {typeof asked} */ some) =>
      [name, ...some.map(([key, value]) => `${key}=${value}`).sort()].join("&");
    // Answers that are the same for all ranks are stored without a rank.
    const stored = answers[keyOf(asked)] ?? answers[keyOf(asked.filter(([key]) => key !== "rank"))];
    const answer = stored?.same_as ? answers[stored.same_as] : stored;
    if (!answer) throw new SourceError("This report does not hold that; TensorBoard's PROFILE tab has all of the run.");
    if (answer.error) throw new SourceError(answer.error);
    return answer;
  };
  return {
    url: () => null,
    live: false,
    plotly: () => unpacked("gp-plotly"),
    getBinary: async (name, params) => bytes(find(name, params).base64 ?? "").buffer,
    async get(name, params) {
      const answer = /** @type {any} */ (find(name, params)); // as the views in Python made it
      return name === "steps" ? part(answer, params ?? {}) : answer;
    },
  };
}

/** @param {string} id */
function element(id) {
  const holder = document.getElementById(id);
  if (!holder) throw new Error(`this report lacks its ${id}`);
  return holder;
}

/**
 * Unpacks a compressed script and returns a URL from which it can be loaded.
 * @param {string} id
 */
async function unpacked(id) {
  const stream = new Blob([bytes(element(id).textContent ?? "")]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = await new Response(stream).arrayBuffer();
  return URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
}

/** @param {string} base64 */
function bytes(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/**
 * The stored buckets in a range of steps; a report cannot compute finer ones.
 * @param {import("./payloads").Steps} steps
 * @param {import("./source.js").Params} params
 */
function part(steps, params) {
  const from = Number(params.first ?? 0);
  const to = Number(params.last ?? Infinity);
  const inRange = (/** @type {number[]} */ column) =>
    column.filter((_, index) => steps.last[index] >= from && steps.first[index] < to);
  return {
    ...steps,
    first: inRange(steps.first),
    last: inRange(steps.last),
    count: inRange(steps.count),
    max_ns: inRange(steps.max_ns),
    slowest: inRange(steps.slowest),
    flags: inRange(steps.flags),
    phase_ns: Object.fromEntries(Object.entries(steps.phase_ns).map(([phase, values]) => [phase, inRange(values)])),
  };
}
