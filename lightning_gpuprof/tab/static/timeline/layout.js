// Where each lane lies on the page; groups can be folded to their heading.

export const HEAD = 20;
export const LANE = 17;
export const MEMORY = 54;
const GAP = 6;

/**
 * @typedef {object} Row A group of lanes, or the memory track of a device.
 * @property {number} index The group's number, -1 for memory.
 * @property {string} kind
 * @property {string} label
 * @property {string} note
 * @property {number} first First lane.
 * @property {number} lanes
 * @property {boolean} folded
 * @property {number} top
 * @property {number} body Top of its first lane.
 * @property {number} bottom
 * @property {import("../payloads").MemoryTrack} [track]
 */

/** @type {Record<string, string>} */
const TITLES = {
  annotations: "Annotations",
  idle: "Idle, by cause",
  stream: "Device",
  syncs: "Host syncs",
  thread: "Host",
  python: "Python",
  memory: "Memory",
};

/**
 * @param {Pick<import("../payloads").TimelinePayload, "groups" | "memory">} payload
 * @param {Record<string, boolean>} folded By row key.
 * @returns {Row[]}
 */
export function layOut(payload, folded) {
  /** @type {Pick<Row, "kind" | "label" | "index" | "first" | "lanes" | "track">[]} */
  const rows = payload.groups.map((group, index) => ({ ...group, index }));
  const device = rows.findLastIndex((row) => row.kind === "stream");
  const memory = payload.memory.map((track) => ({
    kind: "memory",
    label: track.device < 0 ? "host" : `device ${track.device}`,
    index: -1,
    first: -1,
    lanes: 0,
    track,
  }));
  rows.splice(device + 1, 0, ...memory);
  let top = 0;
  return rows.map((row) => {
    const hidden = folded[rowKey(row)] ?? row.kind === "python";
    const body = top + HEAD;
    const height = hidden ? 0 : row.kind === "memory" ? MEMORY : row.lanes * LANE;
    const placed = { ...row, note: TITLES[row.kind] ?? row.kind, folded: hidden, top, body, bottom: body + height };
    top = placed.bottom + GAP;
    return placed;
  });
}

/** @param {{kind: string, index: number, label: string}} row */
export const rowKey = (row) => `${row.kind}/${row.index}/${row.label}`;

/** The groups to load blocks of. @param {Row[]} rows */
export const shownGroups = (rows) =>
  rows
    .filter((row) => !row.folded && row.index >= 0)
    .map((row) => row.index)
    .join(",");

/**
 * The row in which a lane lies.
 * @param {Row[]} rows
 * @param {number} lane
 */
export function rowOfLane(rows, lane) {
  return rows.find((row) => row.index >= 0 && lane >= row.first && lane < row.first + row.lanes);
}

/**
 * The top of a lane.
 * @param {Row[]} rows
 * @param {number} lane
 */
export function laneTop(rows, lane) {
  const row = rowOfLane(rows, lane);
  return row ? (row.folded ? row.top : row.body + (lane - row.first) * LANE) : null;
}

/**
 * @param {Row[]} rows
 * @param {number} y
 * @returns {number | null} The lane at a height.
 */
export function laneAt(rows, y) {
  const below = rows.find((row) => row.index >= 0 && !row.folded && y >= row.body && y < row.bottom);
  return below ? below.first + Math.floor((y - below.body) / LANE) : null;
}
