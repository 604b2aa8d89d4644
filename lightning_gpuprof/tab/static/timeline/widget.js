// The timeline itself: canvas, headings, and moving about with mouse, wheel and keys.

import { h, shorten } from "../dom.js";
import { count, duration } from "../format.js";
import { EVENTS } from "../labels.js";
import { BlockLoader, lastBefore } from "./blocks.js";
import { listen } from "./input.js";
import { LANE, laneAt, laneTop, layOut, rowKey, rowOfLane, shownGroups } from "./layout.js";
import { paint, paintRuler } from "./paint.js";

const RULER = 22;
const SHORTEST_NS = 200;

/**
 * @typedef {{event: number, name: string, kind: string, start_ns: number, dur_ns: number}} Picked
 * @typedef {import("../payloads").TimelineEvent & {partner: import("../payloads").TimelineEvent | null}} Selected
 *
 * @typedef {object} WidgetState What outlives a refresh of the page.
 * @property {[number, number]} [view]
 * @property {Record<string, boolean>} [folded]
 * @property {number} [scroll]
 *
 * @typedef {object} Spec
 * @property {import("../payloads").TimelinePayload} payload
 * @property {WidgetState} state
 * @property {boolean} refines
 * @property {import("./blocks.js").Fetch} fetch
 * @property {(event: Picked) => void} select
 * @property {(from: number, to: number) => void} moved Called once the view rests.
 * @property {(error: unknown) => void} failed
 * @property {() => void} help Shows the keys.
 */

export class TimelineWidget {
  /** @param {Spec} spec */
  constructor(spec) {
    this.spec = spec;
    const [first, last] = spec.payload.span_ns;
    /** @type {[number, number]} */
    this.span = [first, Math.max(last, first + SHORTEST_NS)];
    const [from, to] = spec.state.view ?? this.span;
    this.from = from;
    this.to = to;
    /** @type {number | undefined} */
    this.pending = undefined;
    this.width = 200;
    this.height = 0;
    spec.state.folded ??= {};
    /** @type {Selected | null} */
    this.selected = null;
    this.rows = layOut(spec.payload, spec.state.folded);
    this.loader = new BlockLoader({
      fetch: spec.fetch,
      span: this.span,
      refines: spec.refines,
      loaded: () => this.redraw(),
      failed: spec.failed,
    });
    this.ruler = /** @type {HTMLCanvasElement} */ (h("canvas.tl-ruler", { "aria-hidden": true }));
    this.canvas = /** @type {HTMLCanvasElement} */ (
      h("canvas.tl-canvas", {
        tabindex: 0,
        role: "application",
        "aria-label":
          "Timeline of the profiled steps. Arrow left and right move, plus and minus zoom, 0 shows all; " +
          "search lists events as a table.",
      })
    );
    this.heads = h("div.tl-heads");
    this.tip = h("div.tl-tip", { hidden: true });
    this.sheet = h("div.tl-sheet", null, this.canvas, this.heads);
    this.box = h("div.tl-box", { onscroll: () => this.redraw() }, this.sheet);
    this.node = h("div.tl", null, this.ruler, this.box, this.tip);
    this.frames = 0;
    // For tests and benchmarks, which cannot read what is drawn on a canvas.
    Object.assign(this.canvas, { timeline: this });
    listen(this);
  }

  /** Called once it is on the page. */
  mounted() {
    this.place();
    this.box.scrollTop = this.spec.state.scroll ?? 0;
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.resize();
  }

  /** Places the groups again after one was folded or unfolded. */
  place() {
    this.rows = layOut(this.spec.payload, this.spec.state.folded ?? {});
    this.heads.replaceChildren(
      ...this.rows.map((row) =>
        h(
          "button.tl-head",
          { "aria-expanded": String(!row.folded), style: { top: `${row.top}px` }, onclick: () => this.fold(row) },
          h("strong", null, row.note),
          ` ${shorten(row.label, 80)}`,
        ),
      ),
    );
    this.sheet.style.height = `${this.rows.length ? this.rows[this.rows.length - 1].bottom + 8 : 60}px`;
  }

  /** @param {import("./layout.js").Row} row */
  fold(row) {
    const { folded } = this.spec.state;
    if (folded) folded[rowKey(row)] = !row.folded;
    const focused = [...this.heads.children].indexOf(/** @type {Element} */ (document.activeElement));
    this.place();
    /** @type {HTMLElement | undefined} */ (this.heads.children[focused])?.focus();
    this.redraw();
  }

  resize() {
    this.width = Math.max(200, this.box.clientWidth);
    this.height = this.box.clientHeight;
    const ratio = devicePixelRatio || 1;
    for (const [canvas, height] of /** @type {const} */ ([
      [this.ruler, RULER],
      [this.canvas, this.height],
    ])) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${height}px`;
    }
    this.draw();
  }

  redraw() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.draw();
    });
  }

  draw() {
    if (!this.node.isConnected) return;
    const ratio = devicePixelRatio || 1;
    const width = this.width;
    const top = this.box.scrollTop;
    const bottom = top + this.height;
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    // The canvas stays in place while the sheet below it scrolls.
    pen.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
    const { from, to, rows, selected } = this;
    const { kinds } = this.spec.payload;
    paint(pen, { from, to, width, rows, blocks: this.loader.blocks, kinds, selected, top, bottom });
    const ruler = /** @type {CanvasRenderingContext2D} */ (this.ruler.getContext("2d"));
    ruler.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintRuler(ruler, { from, to, width, height: RULER });
    this.frames++;
    this.spec.state.view = [from, to];
    this.spec.state.scroll = top;
    this.loader.need({ from, to, width, groups: shownGroups(rows) });
  }

  /**
   * Shows a range of time.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const [first, last] = this.span;
    const margin = (last - first) * 0.02;
    const length = Math.min(Math.max(to - from, SHORTEST_NS), last - first + 2 * margin);
    const begin = Math.min(Math.max(from, first - margin), last + margin - length);
    this.from = begin;
    this.to = begin + length;
    this.tip.hidden = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.node.isConnected && this.spec.moved(this.from, this.to), 400);
    this.redraw();
  }

  /** Marks the hits of a search, also inside of blocks. @param {string} text Empty for none. */
  search(text) {
    this.loader.text = text;
    this.redraw();
  }

  /** @param {number} share Of the width, to the right. */
  pan(share) {
    const by = (this.to - this.from) * share;
    this.show(this.from + by, this.to + by);
  }

  /**
   * @param {number} factor Below 1 zooms in.
   * @param {number} [at] Share of the width that stays where it is.
   */
  zoom(factor, at = 0.5) {
    const center = this.from + (this.to - this.from) * at;
    this.show(center - (center - this.from) * factor, center + (this.to - center) * factor);
  }

  /** Brings an event into view with some room around it. @param {Selected} event */
  reveal(event) {
    const row = rowOfLane(this.rows, event.lane);
    if (row?.folded) this.fold(row);
    const y = laneTop(this.rows, event.lane) ?? 0;
    if (y < this.box.scrollTop || y + LANE > this.box.scrollTop + this.box.clientHeight) {
      this.box.scrollTop = Math.max(0, y - this.box.clientHeight / 3);
    }
    const room = Math.max(event.dur_ns * 2, (this.to - this.from) * 0.02);
    const inside = event.start_ns >= this.from && event.start_ns + event.dur_ns <= this.to;
    if (!inside || event.dur_ns < (this.to - this.from) / 200)
      this.show(event.start_ns - room, event.start_ns + event.dur_ns + room);
    this.redraw();
  }

  /** The block below the pointer. @param {MouseEvent} event */
  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const { blocks } = this.loader;
    const lane = laneAt(this.rows, event.clientY - box.top + this.box.scrollTop);
    const slice = lane === null ? undefined : blocks?.lanes.get(lane);
    if (!blocks || !slice) return null;
    const pixel = (this.to - this.from) / this.width;
    const time = this.from + (event.clientX - box.left) * pixel;
    const at = lastBefore(blocks, slice, time + pixel);
    if (at < slice[0] || blocks.start[at] + Math.max(blocks.dur[at], pixel) < time - pixel) return null;
    const name = blocks.name[at];
    return {
      event: blocks.event[at],
      count: blocks.count[at],
      name: name >= 0 ? blocks.names[name] : "",
      kind: this.spec.payload.kinds[blocks.kind[at]],
      start_ns: blocks.start[at],
      dur_ns: blocks.dur[at],
    };
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const hit = this.hit(event);
    this.tip.hidden = !hit;
    this.canvas.style.cursor = hit ? "pointer" : "grab";
    if (!hit) return;
    const what = hit.name || `${count(hit.count)} events too short to draw here`;
    this.tip.replaceChildren(
      h("strong", null, shorten(what, 160)),
      h("span", null, `${EVENTS[hit.kind] ?? hit.kind} · ${duration(hit.dur_ns)}`),
    );
    const box = this.node.getBoundingClientRect();
    const left = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${event.clientY - box.top + 16}px`;
  }

  /** @param {PointerEvent} event */
  click(event) {
    const hit = this.hit(event);
    if (!hit) return;
    if (hit.count > 1) this.show(hit.start_ns - hit.dur_ns * 0.5, hit.start_ns + hit.dur_ns * 1.5);
    else this.spec.select(hit);
  }
}
