// From a finding to the view that shows its place: a rank, a line of memory, a range of the timeline, an operator.

import { placeName } from "../format.js";
import { rowOf } from "../render.js";

/** @typedef {import("../payloads").Place} Place */
/** @typedef {import("../payloads").Section} Section */
/** @typedef {import("../table.js").Row} Row */

/** How much of the timeline is shown on either side of an event, in lengths of the event. */
const AROUND = 2;

/**
 * @param {import("../app.js").Context} context
 * @param {Place} place
 */
export async function goTo(context, place) {
  if (place.view && place.view !== "timeline") return context.go({ view: place.view, find: nameOf(place) });
  const device = await context.get("device");
  const event = eventAt(device.sections, place);
  if (event) return context.go({ view: "timeline", trace: device.trace ?? undefined, view_ns: around(event) });
  const operators = await context.get("operators");
  const line = rowsOf(operators.sections, "lines").find((row) => isSameLine(row.where, place));
  if (line) return context.go({ view: "operators", find: placeName(place) });
  const row = place.file ? rowOf(place) : undefined;
  if (row) {
    row.classList.add("sought");
    return row.scrollIntoView({ block: "center" });
  }
  return context.go({ view: place.phase || !device.trace ? "steps" : "timeline" });
}

/**
 * The text to search for in the Operators view.
 * @param {Place} place
 */
function nameOf(place) {
  return place.view === "operators" ? (place.kernel ?? place.name ?? undefined) : undefined;
}

/**
 * The wait or the gap of the timeline that a place is about: the call at its line; without a line, the longest.
 * @param {Section[]} sections
 * @param {Place} place
 */
function eventAt(sections, place) {
  const calls = rowsOf(sections, "syncs");
  const call = calls.find((row) => isSameLine(row.where, place));
  const [gap] = rowsOf(sections, "gaps");
  if (call || place.view === "timeline") return call ?? calls[0] ?? gap;
  return place.phase || place.file ? undefined : gap;
}

/**
 * @param {Section[]} sections
 * @param {string} id Of a table.
 * @returns {Row[]}
 */
function rowsOf(sections, id) {
  const tables = sections.flatMap((section) => section.body).filter((part) => part.type === "table");
  return tables.find((table) => table.id === id)?.rows ?? [];
}

/** A range of the timeline with an event in its middle. @param {Row} row */
function around(row) {
  const [start, length] = [Number(row.start_ns ?? 0), Number(row.dur_ns ?? 0)];
  return `${start - AROUND * length}_${start + (1 + AROUND) * length}`;
}

/**
 * Whether a row's place is this place. Traces and samples may name a file relative to different folders.
 * @param {import("../payloads").Value | undefined} value
 * @param {Place} place
 */
function isSameLine(value, place) {
  if (!value || typeof value !== "object" || value.type !== "place") return false;
  if (!value.file || !place.file || value.line !== place.line) return false;
  return value.file.endsWith(place.file) || place.file.endsWith(value.file);
}
