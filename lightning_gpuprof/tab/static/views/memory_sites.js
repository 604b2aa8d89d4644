// Which lines of code hold the memory, from the allocator snapshots beside the run.

import { card, h, shorten } from "../dom.js";
import { count, size } from "../format.js";
import { picker } from "../picker.js";
import { table } from "../table.js";
import { askAgain } from "./cycles.js";

/**
 * @param {import("../app.js").Context} context
 * @param {any} found The memory_sites view's payload.
 * @returns {HTMLElement | null} Null where the run has no snapshot.
 */
export function memorySites(context, found) {
  if (found.state === "no-snapshot") return null;
  const picker = found.snapshots.length > 1 && snapshotPicker(context, found);
  const node = h(
    "div",
    null,
    picker,
    found.state === "prepared"
      ? found.devices.flatMap((/** @type {any} */ device) => [sites(context, device), growing(context, device)])
      : card("Who holds the memory", null, h("p.empty", { role: "status" }, absent(found))),
  );
  askAgain(context, node, found);
  return node;
}

/** @param {any} found */
function absent(found) {
  if (found.state === "failed")
    return `The memory snapshot ${shorten(found.file, 100)} could not be analysed: ${found.error}`;
  return found.state === "preparing"
    ? "The memory snapshot is being analysed, in a process of its own. It will show here."
    : "The memory snapshot was not analysed; opening the run in TensorBoard does so.";
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} found
 */
function snapshotPicker(context, found) {
  const name = (/** @type {any} */ one) =>
    one.step === null ? shorten(one.file, 80) : `rank ${one.rank}, step ${count(one.step)} (${one.reason})`;
  return picker({
    label: "Memory snapshot",
    options: found.snapshots.map((/** @type {any} */ one) => [one.file, name(one)]),
    value: found.file,
    pick: (snapshot) => context.go({ snapshot }),
  });
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} device
 */
function sites(context, device) {
  const kinds = Object.entries(device.kind_bytes).filter(([, bytes]) => bytes > 0);
  const shares = kinds.map(([kind, bytes]) => `${kind.replaceAll("_", " ")} ${size(bytes)}`).join(", ");
  return card(
    "Who holds the memory",
    `Allocations alive at the highest point of the snapshot's history: ${size(device.peak_bytes)} on device ${device.device}${shares && ` (${shares})`}.`,
    places(context, "Allocation sites", device.sites, []),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} device
 */
function growing(context, device) {
  if (!device.growing.length) return null;
  return card(
    "What grows",
    "Lines whose memory is not given back from step to step.",
    places(context, "Growing sites", device.growing, [
      {
        key: "bytes_per_step",
        label: "Per step",
        format: (/** @type {number | null} */ bytes) => (bytes === null ? "–" : size(bytes)),
      },
    ]),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {string} label
 * @param {any[]} rows
 * @param {any[]} more
 */
function places(context, label, rows, more) {
  const placed = rows.map((row) => ({
    ...row,
    place: row.file === null ? "no stack was recorded" : `${row.file}:${row.line}`,
  }));
  return table({
    label,
    columns: [
      { key: "place", label: "Line", text: true, tail: true },
      { key: "function", label: "Function", text: true, format: (name) => name ?? "–" },
      { key: "bytes", label: "Memory", format: size, bar: true },
      { key: "count", label: "Blocks", format: count },
      ...more,
    ],
    rows: placed,
    state: context.local(label),
    sort: "bytes",
  });
}
