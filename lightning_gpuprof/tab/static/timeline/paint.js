// Paints a range of the timeline on a canvas.

import { annotationColor, ink, kindColor } from "../colors.js";
import { duration, kernelName, size } from "../format.js";
import { EVENTS } from "../labels.js";
import { color } from "../theme.js";
import { lastBefore } from "./blocks.js";
import { HEAD, LANE, laneTop } from "./layout.js";

const TEXT_FROM = 34;
const CHAR = 6.1;
/** Blocks without a hit are drawn fainter; blocks with a hit are never narrower than this. */
const FADED = 0.18;
const HIT_PX = 2;
const FONT = '13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

/**
 * @typedef {object} Scene
 * @property {number} from
 * @property {number} to
 * @property {number} width
 * @property {import("./layout.js").Row[]} rows
 * @property {import("./blocks.js").Blocks | null} blocks
 * @property {string[]} kinds
 * @property {import("./widget.js").Selected | null} selected The picked event.
 * @property {number} top First visible pixel row.
 * @property {number} bottom
 */

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 */
export function paint(pen, scene) {
  const { width, top, bottom } = scene;
  pen.clearRect(0, top, width, bottom - top);
  pen.font = FONT;
  pen.textBaseline = "middle";
  grid(pen, scene);
  for (const row of scene.rows) {
    if (row.bottom < top || row.top > bottom) continue;
    pen.fillStyle = color("raised");
    pen.fillRect(0, row.top, width, HEAD - 3);
    if (row.folded) continue;
    if (row.kind === "memory") memory(pen, scene, row);
    else for (let index = 0; index < row.lanes; index++) lane(pen, scene, row, index);
  }
  selection(pen, scene);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 * @param {import("./layout.js").Row} row
 * @param {number} index
 */
function lane(pen, scene, row, index) {
  const { blocks } = scene;
  const slice = blocks?.lanes.get(row.first + index);
  const y = row.body + index * LANE;
  if (!blocks || !slice || y + LANE < scene.top || y > scene.bottom) return;
  if (!blocks.text) return blocksOf(pen, scene, row, blocks, slice, y, null, 1);
  pen.globalAlpha = FADED;
  blocksOf(pen, scene, row, blocks, slice, y, 0, 1);
  pen.globalAlpha = 1;
  blocksOf(pen, scene, row, blocks, slice, y, 1, HIT_PX);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 * @param {import("./layout.js").Row} row
 * @param {import("./blocks.js").Blocks} blocks
 * @param {[number, number]} slice
 * @param {number} y
 * @param {0 | 1 | null} hit Only blocks that a search found, or only the others; null for all.
 * @param {number} least Width in pixels that even the shortest gets.
 */
function blocksOf(pen, scene, row, blocks, slice, y, hit, least) {
  const { from, to, width, kinds } = scene;
  const scale = width / (to - from);
  const annotated = row.kind === "annotations";
  const height = LANE - 2;
  let painted = -1;
  let last = "";
  for (let i = Math.max(slice[0], lastBefore(blocks, slice, from)); i < slice[1]; i++) {
    const begin = blocks.start[i];
    if (begin > to) break;
    if (hit !== null && blocks.hit[i] !== hit) continue;
    const x1 = (begin + blocks.dur[i] - from) * scale;
    if (x1 < 0) continue;
    const x = Math.max(-2, (begin - from) * scale);
    const end = Math.min(width + 2, x1);
    const drawn = Math.max(end - x, least);
    if (x + drawn <= painted) continue; // lies in a pixel that is painted already
    const name = blocks.name[i];
    const text = name >= 0 ? blocks.names[name] : "";
    const fill = annotated && text ? annotationColor(text) : kindColor(kinds[blocks.kind[i]]);
    if (fill !== last) pen.fillStyle = last = fill;
    const left = Math.max(x, painted);
    // A thin gap between neighbours, if there is room for it.
    pen.fillRect(left, y, Math.max(drawn - (left - x) - (drawn > 3 ? 0.7 : 0), 0.7), height);
    painted = x + drawn;
    if (end - x > TEXT_FROM) {
      pen.fillStyle = last = ink(fill);
      const label = name >= 0 ? blockLabel(row, kinds[blocks.kind[i]], text) : `${blocks.count[i]} events`;
      const begins = Math.max(x, 0);
      const room = Math.floor((end - begins - 8) / CHAR);
      if (room > 2)
        pen.fillText(label.length > room ? label.slice(0, room - 1) + "…" : label, begins + 4, y + height / 2 + 0.5);
    }
  }
}

/**
 * A block's label in a lane: gaps by their cause, kernels by the distinctive part of their names.
 * @param {import("./layout.js").Row} row
 * @param {string} kind
 * @param {string} name
 */
function blockLabel(row, kind, name) {
  if (row.kind === "idle") return EVENTS[kind] ?? kind;
  return row.kind === "stream" ? kernelName(name) : name;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 * @param {import("./layout.js").Row} row
 */
function memory(pen, scene, row) {
  const { from, to, width } = scene;
  if (!row.track) return;
  const { start_ns: start, allocated_bytes: allocated, reserved_bytes: reserved } = row.track;
  const highest = Math.max(1, ...allocated, ...(reserved ?? []));
  const height = row.bottom - row.body - 4;
  const x = (/** @type {number} */ ns) => ((ns - from) / (to - from)) * width;
  const y = (/** @type {number} */ bytes) => row.body + height - (bytes / highest) * height;
  const steps = (/** @type {number[]} */ values) => {
    pen.beginPath();
    start.forEach((ns, i) => {
      if (i) pen.lineTo(x(ns), y(values[i - 1]));
      else pen.moveTo(x(ns), y(values[0]));
      pen.lineTo(x(ns), y(values[i]));
    });
  };
  steps(allocated);
  pen.strokeStyle = kindColor("kernel_elementwise");
  pen.stroke();
  pen.lineTo(x(start[start.length - 1]), y(0));
  pen.lineTo(x(start[0]), y(0));
  pen.globalAlpha = 0.35;
  pen.fillStyle = kindColor("kernel_elementwise");
  pen.fill();
  pen.globalAlpha = 1;
  if (reserved) {
    steps(reserved);
    pen.strokeStyle = color("muted");
    pen.stroke();
  }
  pen.fillStyle = color("muted");
  pen.fillText(`peak ${size(Math.max(...allocated))} allocated`, 6, row.body + 8);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 */
function grid(pen, { from, to, width, top, bottom }) {
  pen.fillStyle = color("grid");
  for (const at of ticks(from, to, width))
    pen.fillRect(Math.round(((at - from) / (to - from)) * width), top, 1, bottom - top);
}

/**
 * The picked event's outline, and a line to its launch or kernel.
 * @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene
 */
function selection(pen, scene) {
  const { selected, rows, from, to, width } = scene;
  if (!selected) return;
  const x = (/** @type {number} */ ns) => ((ns - from) / (to - from)) * width;
  const y = laneTop(rows, selected.lane);
  pen.strokeStyle = color("text");
  pen.lineWidth = 2;
  if (y !== null) {
    const left = Math.max(-4, x(selected.start_ns));
    const right = Math.min(width + 4, x(selected.start_ns + selected.dur_ns));
    pen.strokeRect(left, y, Math.max(right - left, 2), LANE - 2);
  }
  const { partner } = selected;
  const other = partner ? laneTop(rows, partner.lane) : null;
  if (y !== null && partner && other !== null) {
    pen.lineWidth = 1.2;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(x(selected.start_ns), y + LANE / 2);
    pen.lineTo(x(partner.start_ns), other + LANE / 2);
    pen.stroke();
    pen.setLineDash([]);
  }
  pen.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {{from: number, to: number, width: number, height: number}} scene
 */
export function paintRuler(pen, { from, to, width, height }) {
  pen.clearRect(0, 0, width, height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  for (const at of ticks(from, to, width)) {
    const x = Math.round(((at - from) / (to - from)) * width);
    pen.fillStyle = color("border");
    pen.fillRect(x, height - 6, 1, 6);
    pen.fillStyle = color("muted");
    const text = tickText(at, to - from);
    if (x + 4 + pen.measureText(text).width <= width) pen.fillText(text, x + 4, height / 2); // a label that does not fit is left out
  }
}

/**
 * Round times, some 110 pixels apart.
 * @param {number} from
 * @param {number} to
 * @param {number} width
 */
export function ticks(from, to, width) {
  const rough = ((to - from) * 110) / Math.max(width, 110);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const times = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) times.push(at);
  return times;
}

/**
 * @param {number} ns
 * @param {number} span
 */
function tickText(ns, span) {
  if (ns === 0) return "0";
  const [scale, unit] = span > 5e9 ? [1e9, "s"] : span > 5e3 * 100 ? [1e6, "ms"] : [1e3, "µs"];
  if (span < 2000) return duration(ns);
  const value = Number((ns / scale).toFixed(span / scale < 5 ? 3 : 1));
  return `${value.toLocaleString("en-US", { maximumFractionDigits: 3 })} ${unit}`;
}
