// Shared by views of a profiler cycle: the list of cycles, and why there is nothing to show.

import { count } from "../format.js";
import { picker } from "../picker.js";

/** @typedef {import("../payloads").CycleLine} CycleLine */

const ASK_AGAIN_MS = 1500;
/** Notes of a run that say why it has no trace. */
const WHY = ["no-trace", "profiler-busy", "trace-failed"];

/**
 * Why no cycle has a trace, by the notes of the run.
 * @param {import("../app.js").Context} context
 */
export function untraced(context) {
  const notes = context.header.notes.filter((note) => WHY.includes(note.name) && note.message);
  const why = notes.at(-1)?.message ?? "A cycle needs wait + warmup + active steps.";
  return `No profiler cycle has finished: this run has timers only. ${why}`;
}

/**
 * Why a cycle's payload holds nothing; null if it holds something.
 * @param {{state: import("../payloads").CycleSections["state"], error: string | null}} payload
 * @param {import("../app.js").Context} context
 */
export function absent(payload, context) {
  switch (payload.state) {
    case "no-cycle":
      return untraced(context);
    case "being-analysed":
      return "The trace is being analysed. The tables fill in here when that is done.";
    case "not-analysed":
      return "This cycle's trace has no analysis that can be shown here.";
    case "preparing":
      return "A separate process is preparing the trace for the timeline, which will appear here.";
    case "not-prepared":
      return "This cycle's trace was not prepared for the timeline.";
    case "failed":
      return `The trace could not be prepared: ${payload.error}`;
    default:
      return null;
  }
}

/**
 * Draws the view again after a moment, as long as some of its data are being prepared.
 * @param {import("../app.js").Context} context
 * @param {HTMLElement} node The view.
 * @param {{state?: string}} payload
 */
export function askAgain(context, node, payload) {
  if (payload.state !== "preparing") return;
  context.onMount(() => setTimeout(() => node.isConnected && context.refresh(), ASK_AGAIN_MS));
}

/**
 * @param {import("../app.js").Context} context
 * @param {CycleLine[]} cycles
 * @param {string | null} picked
 */
export function cyclePicker(context, cycles, picked) {
  if (cycles.length < 2) return null;
  const name = (/** @type {CycleLine} */ cycle) =>
    context.run.state === "trace"
      ? cycle.trace_file
      : `rank ${cycle.rank}, cycle ${cycle.cycle}: steps ${count(cycle.first_step)}–${count(cycle.last_step)}`;
  return picker({
    label: "Profiler cycle",
    options: cycles.map((cycle) => [cycle.trace_file, name(cycle)]),
    value: picked ?? "",
    pick: (trace) => context.go({ trace, view_ns: undefined, event: undefined }),
  });
}
