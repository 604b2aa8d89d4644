// Two runs side by side: the document of their comparison, and the run to compare with.

import { h } from "../dom.js";
import { picker } from "../picker.js";
import { page } from "../render.js";
import { askAgain } from "./cycles.js";

/** @typedef {import("../payloads").RunLine} RunLine */

/** @type {import("./registry.js").View} */
export const compare = {
  id: "compare",
  label: "Compare",
  about: "This run against another one: steps by the host's clock, kernels by the device's.",
  async render(context) {
    const others = context.runs.filter((run) => run.name !== context.run.name && isComparable(run, context.run));
    if (!context.source.live) {
      return empty(
        "This report holds one run. `lightning-gpuprof compare BASE NEW` and TensorBoard's PROFILE tab compare two.",
      );
    }
    if (!others.length) {
      return empty(
        isOfTraces(context.run)
          ? "There is no other folder of traces here to compare with. Point TensorBoard at a folder of several."
          : "There is no other run with steps here to compare with. Train a second one, or point TensorBoard at a " +
            "folder of several.",
      );
    }
    const base = others.find((run) => run.name === context.state.base) ?? runBefore(context.run, others);
    const name = (/** @type {RunLine} */ run) =>
      isSameModel(run, context.run) ? run.name : `${run.name} (another model)`;
    const against = picker({
      label: "Compared with",
      options: others.map((run) => [run.name, name(run)]),
      value: base.name,
      pick: (picked) => context.go({ base: picked }),
    });
    try {
      const answer = await context.get("compare", { base: base.name });
      if ("sections" in answer) return h("div", null, against, page(context, answer.sections));
      const node = h("div", null, against, h("p.empty", { role: "status" }, waiting(answer)));
      askAgain(context, node, answer);
      return node;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return h("div", null, against, h("p.empty", { role: "alert" }, why));
    }
  },
};

/** @param {RunLine} run */
function isOfTraces(run) {
  return run.state === "trace";
}

/**
 * Runs are compared with runs that have steps, and folders of traces with one another.
 * @param {RunLine} run
 * @param {RunLine} shown
 */
function isComparable(run, shown) {
  return isOfTraces(shown) ? isOfTraces(run) : Boolean(run.steps);
}

/** @param {string} text */
function empty(text) {
  return h("p.empty", { role: "note" }, text);
}

/** @param {import("../payloads").Waiting} answer */
function waiting({ state, error }) {
  if (state === "failed") return `The runs could not be compared: ${error}`;
  return "A separate process is comparing the runs. The result will appear here.";
}

/**
 * The run before this run: preferably one of the same model and stage, and among these one in the same folder.
 * @param {RunLine} run
 * @param {RunLine[]} others The newest first.
 */
function runBefore(run, others) {
  const folder = (/** @type {RunLine} */ line) => line.name.slice(0, line.name.lastIndexOf("/") + 1);
  const alike = others.filter((other) => isSameModel(other, run) && other.stage === run.stage);
  const candidates = alike.length ? alike : others;
  const siblings = candidates.filter((other) => folder(other) === folder(run));
  const earlier = (/** @type {RunLine[]} */ lines) =>
    lines.find((line) => (line.started_unix_ns ?? 0) < (run.started_unix_ns ?? 0));
  return earlier(siblings) ?? earlier(candidates) ?? candidates[0];
}

/**
 * Whether two runs have the same model. Parameter counts are compared only if both runs shard the model alike, because
 * a rank counts only the parameters that it holds.
 * @param {RunLine} a
 * @param {RunLine} b
 */
function isSameModel(a, b) {
  const isCountedAlike = a.world_size === b.world_size && a.strategy === b.strategy;
  return a.model?.class === b.model?.class && (!isCountedAlike || a.model?.parameters === b.model?.parameters);
}
