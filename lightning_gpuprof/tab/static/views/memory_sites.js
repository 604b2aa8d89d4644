// Which lines of code hold the memory, from the allocator snapshots beside the run.

import { card, h, shorten } from "../dom.js";
import { count } from "../format.js";
import { picker } from "../picker.js";
import { cards } from "../render.js";
import { askAgain } from "./cycles.js";

/** @typedef {import("../payloads").MemorySites} MemorySites */

/**
 * @param {import("../app.js").Context} context
 * @param {MemorySites} payload
 * @returns {HTMLElement | null} Null where the run has no snapshot.
 */
export function memorySites(context, payload) {
  if (payload.state === "no-snapshot") return null;
  const node = h(
    "div",
    null,
    payload.snapshots.length > 1 && snapshotPicker(context, payload),
    payload.state === "prepared"
      ? cards(context, payload.sections)
      : card("Who holds the memory", null, h("p.empty", { role: "status" }, absent(payload))),
  );
  askAgain(context, node, payload);
  return node;
}

/** @param {MemorySites} payload */
function absent({ state, file, error }) {
  if (state === "failed") return `The memory snapshot ${shorten(file, 100)} could not be analysed: ${error}`;
  return state === "preparing"
    ? "A separate process is analysing the memory snapshot. The result will appear here."
    : "The memory snapshot was not analysed; opening the run in TensorBoard does so.";
}

/**
 * @param {import("../app.js").Context} context
 * @param {MemorySites} payload
 */
function snapshotPicker(context, { snapshots, file }) {
  const name = (/** @type {import("../payloads").Snapshot} */ snapshot) =>
    snapshot.step === null
      ? shorten(snapshot.file, 80)
      : `rank ${snapshot.rank}, step ${count(snapshot.step)} (${snapshot.reason})`;
  return picker({
    label: "Memory snapshot",
    options: snapshots.map((snapshot) => [snapshot.file, name(snapshot)]),
    value: file ?? "",
    pick: (snapshot) => context.go({ snapshot }),
  });
}
