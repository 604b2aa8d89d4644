// A cut of the timeline as typed arrays, and a loader that fetches new cuts as the reader moves about.

/**
 * @typedef {object} Blocks
 * @property {number} from First nanosecond that it covers.
 * @property {number} to
 * @property {number} density Pixels per nanosecond for which it was cut.
 * @property {Map<number, [first: number, last: number]>} lanes Slice of the arrays by lane.
 * @property {Float64Array} start
 * @property {Float32Array} dur
 * @property {Int32Array} count
 * @property {Int32Array} event
 * @property {Int32Array} name
 * @property {Uint8Array} kind
 * @property {Uint8Array} hit 1 if an event in the block matches the search, or there is no search.
 * @property {string} text The text that was searched for.
 * @property {Record<string, string>} names
 *
 * @typedef {{from: number, to: number, columns: number, groups: string, text?: string}} Range
 * @typedef {(range: Range) => Promise<ArrayBuffer>} Fetch
 *
 * @typedef {object} Head What stands before the columns.
 * @property {number} from
 * @property {number} to
 * @property {number} blocks
 * @property {number[]} lanes
 * @property {number[]} counts Blocks by lane.
 * @property {Record<string, string>} names
 */

/**
 * @param {ArrayBuffer} buffer
 * @param {number} columns That were asked for.
 * @param {string} text That was searched for.
 * @returns {Blocks}
 */
export function decode(buffer, columns, text) {
  const length = new DataView(buffer).getUint32(0, true);
  /** @type {Head} */
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  /** @type {<T>(kind: {new (buffer: ArrayBuffer, at: number, length: number): T, BYTES_PER_ELEMENT: number}) => T} */
  const take = (Kind) => {
    const values = new Kind(buffer, at, head.blocks);
    at += head.blocks * Kind.BYTES_PER_ELEMENT;
    return values;
  };
  const lanes = new Map();
  let first = 0;
  head.lanes.forEach((lane, index) => {
    lanes.set(lane, [first, first + head.counts[index]]);
    first += head.counts[index];
  });
  return {
    from: head.from,
    to: head.to,
    density: columns / Math.max(1, head.to - head.from),
    lanes,
    start: take(Float64Array),
    dur: take(Float32Array),
    count: take(Int32Array),
    event: take(Int32Array),
    name: take(Int32Array),
    kind: take(Uint8Array),
    hit: take(Uint8Array),
    text,
    names: head.names,
  };
}

/**
 * Index of the last block that starts at or before a time; first - 1 if there is none.
 * @param {Blocks} blocks
 * @param {[number, number]} slice
 * @param {number} time
 */
export function lastBefore(blocks, [first, last], time) {
  let low = first;
  let high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks.start[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const MARGIN = 1;
const COARSER_THAN = 0.7;

/** Holds the blocks that the view shows; coarser blocks are drawn until finer blocks have arrived. */
export class BlockLoader {
  /**
   * @param {object} spec
   * @param {Fetch} spec.fetch
   * @param {[number, number]} spec.span The whole trace.
   * @param {boolean} spec.refines Whether the server can give finer blocks for a shorter range.
   * @param {() => void} spec.loaded
   * @param {(error: unknown) => void} spec.failed
   */
  constructor(spec) {
    this.spec = spec;
    /** @type {Blocks | null} */
    this.blocks = null;
    this.groups = "";
    /** The text to search for; hits are marked if the server can give finer blocks. */
    this.text = "";
    this.busy = false;
  }

  /**
   * Loads the blocks that a view needs, unless they are loaded already.
   * @param {{from: number, to: number, width: number, groups: string}} view
   */
  async need(view) {
    this.wanted = view;
    if (this.busy || this.suits(view)) return;
    this.busy = true;
    const span = view.to - view.from;
    const from = Math.floor(Math.max(this.spec.span[0], view.from - MARGIN * span));
    const to = Math.ceil(Math.min(this.spec.span[1], view.to + MARGIN * span));
    const columns = Math.min(12000, Math.max(200, Math.ceil((view.width * Math.max(1, to - from)) / span)));
    try {
      const { text } = this;
      const buffer = await this.spec.fetch({ from, to: Math.max(from + 1, to), columns, groups: view.groups, text });
      this.blocks = decode(buffer, columns, text);
      this.groups = view.groups;
      this.spec.loaded();
    } catch (error) {
      this.spec.failed(error);
      return; // stays busy: what failed once would fail on every move
    }
    this.busy = false;
    if (this.wanted !== view) this.need(this.wanted);
  }

  /** @param {{from: number, to: number, width: number, groups: string}} view */
  suits(view) {
    const { blocks } = this;
    if (!blocks) return false;
    if (!this.spec.refines) return true;
    const [first, last] = this.spec.span;
    const covered = blocks.from <= Math.max(view.from, first) && blocks.to >= Math.min(view.to, last);
    const fine = blocks.density >= (COARSER_THAN * view.width) / (view.to - view.from);
    return covered && fine && this.groups === view.groups && blocks.text === this.text;
  }
}
