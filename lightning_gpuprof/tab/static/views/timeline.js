// The profiled steps themselves, event by event, with what made the device wait.

import { kindColor } from "../colors.js";
import { card, h, shorten } from "../dom.js";
import { count, duration } from "../format.js";
import { EVENTS } from "../labels.js";
import { embedPerfetto, openInPerfetto } from "../perfetto.js";
import { page } from "../render.js";
import { table } from "../table.js";
import { TimelineWidget } from "../timeline/widget.js";
import { absent, askAgain, cyclePicker } from "./cycles.js";

/** A search begins after so long without another letter. */
const TYPING_MS = 200;

/** @typedef {import("../payloads").EventDetails} EventDetails */
/** @typedef {import("../payloads").TimelineEvent} TimelineEvent */
/** @typedef {import("../timeline/widget.js").Picked} Picked */
/** @typedef {import("../table.js").Row} Row */

/** @type {import("./registry.js").View} */
export const timeline = {
  id: "timeline",
  label: "Timeline",
  about:
    "The profiled steps event by event: what the host did, what the device did, and why it waited; " +
    "both on the trace's own clock.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("timeline", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    const { sections } = await context.get("device", { trace: payload.trace });
    const picker = cyclePicker(context, cycles, payload.trace);
    if (payload.state !== "prepared" || payload.trace === null) {
      const why = h("p.empty", { role: "status" }, absent(payload, context));
      const node = h("div", null, picker, why, page(context, sections));
      askAgain(context, node, payload);
      return node;
    }
    const cycle = cycles.find((line) => line.trace_file === payload.trace);
    const view = new TimelineView(context, payload, payload.trace, cycle);
    return h("div", null, picker, view.node(), page({ ...context, open: view.openers() }, sections));
  },
};

class TimelineView {
  /**
   * @param {import("../app.js").Context} context
   * @param {import("../payloads").TimelinePayload} payload
   * @param {string} trace
   * @param {import("../payloads").CycleLine | undefined} cycle
   */
  constructor(context, payload, trace, cycle) {
    this.context = context;
    this.payload = payload;
    this.trace = trace;
    this.cycle = cycle;
    /** @type {import("../timeline/widget.js").WidgetState & {search?: string}} */
    this.state = context.local(trace);
    const address = /^(-?\d+)_(-?\d+)$/.exec(context.state.view_ns ?? "");
    if (address) this.state.view = [Number(address[1]), Number(address[2])];
    this.status = h("span.muted", { role: "status" });
    this.details = h("div.tl-details", { "aria-live": "polite" }, hint());
    this.matches = h("div");
    this.perfetto = h("div");
    this.keys = keys();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.typing = undefined;
    this.widget = new TimelineWidget({
      payload,
      state: this.state,
      refines: context.source.live,
      fetch: (range) => context.getBinary("timeline_cut", { trace, ...range }),
      select: (event) => this.select(event),
      moved: (from, to) =>
        context.note({ view_ns: this.isWhole(from, to) ? undefined : `${Math.round(from)}_${Math.round(to)}` }),
      failed: (error) => this.say(error),
      help: () => this.toggleKeys(),
    });
    context.onMount(() => this.widget.mounted());
    const shared = Number(context.state.event ?? NaN);
    if (context.source.live && shared >= 0) context.onMount(() => this.selectNumber(shared));
  }

  node() {
    const { payload, widget } = this;
    const [first, last] = payload.span_ns;
    return card(
      "Timeline",
      `${count(payload.events)} events over ${duration(last - first)}, by the trace's clock. ` +
        "Drag to move, Ctrl and wheel to zoom, double-click an event to fill the view, ? for the keys.",
      this.tools(),
      this.keys,
      widget.node,
      legend(payload.used),
      this.matches,
      this.details,
      this.perfetto,
    );
  }

  /** Rows of the tables below that have a place in the timeline. @returns {Record<string, (row: Row) => void>} */
  openers() {
    const show = (/** @type {Row} */ row) => {
      const [start, length] = [Number(row.start_ns ?? 0), Number(row.dur_ns ?? 0)];
      this.widget.show(start - 2 * length, start + 3 * length);
      this.widget.node.scrollIntoView({ block: "nearest" });
    };
    return { gaps: show, syncs: show };
  }

  tools() {
    const { widget, context, state } = this;
    const search = h("input", {
      type: "search",
      placeholder: "Search events…",
      "aria-label": "Search events by name",
      value: state.search ?? "",
      oninput: (/** @type {Event} */ event) => this.searchSoon(/** @type {HTMLInputElement} */ (event.target).value),
    });
    const searched = state.search;
    if (searched && context.source.live) context.onMount(() => this.search(searched));
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) =>
      h("button.button", { onclick: act, "aria-label": label, title: label }, text);
    const url = context.source.url("trace", { run: context.run.name, file: this.trace });
    const hasFile = this.cycle && this.cycle.size_bytes !== null && url;
    const title = `${context.run.name} ${this.trace}`;
    return h(
      "div.table-tools",
      null,
      // An HTML report holds the blocks to draw, but not the name of every event.
      context.source.live && search,
      button("−", "Zoom out", () => widget.zoom(1.6)),
      button("+", "Zoom in", () => widget.zoom(0.6)),
      button("Fit", "Show all", () => widget.show(...widget.span)),
      button("?", "Keys", () => this.toggleKeys()),
      hasFile &&
        h("button.button", { onclick: () => openInPerfetto(url, title, (text) => this.say(text)) }, "Open in Perfetto"),
      hasFile && context.perfetto && h("button.button", { onclick: () => this.embed(url) }, "Perfetto here"),
      this.status,
    );
  }

  toggleKeys() {
    this.keys.hidden = !this.keys.hidden;
  }

  /** Shows the whole trace in Perfetto, below the timeline. @param {string} url */
  embed(url) {
    const frame = /** @type {HTMLIFrameElement} */ (h("iframe.perfetto", { title: "Perfetto" }));
    this.perfetto.replaceChildren(frame);
    const address = this.context.source.url("perfetto/index.html");
    if (address) embedPerfetto(frame, address, url, this.trace, (text) => this.say(text));
  }

  /** @param {unknown} message A sentence, or what was thrown. */
  say(message) {
    this.status.textContent = message instanceof Error ? message.message : String(message);
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  isWhole(from, to) {
    const [first, last] = this.widget.span;
    return from <= first && to >= last;
  }

  /** Selects the event that the address names. @param {number} event */
  async selectNumber(event) {
    try {
      this.select(await this.context.get("timeline_event", { trace: this.trace, event }));
    } catch (error) {
      this.say(error);
    }
  }

  /** @param {{event: number, name: string, kind: string, start_ns: number, dur_ns: number}} event */
  async select(event) {
    this.context.note({ event: String(event.event), trace: this.trace });
    const select = (/** @type {TimelineEvent} */ other) => this.select(other);
    try {
      const known = await this.context.get("timeline_event", { trace: this.trace, event: event.event });
      this.widget.selected = known;
      this.widget.reveal(known);
      this.details.replaceChildren(details(known, select));
    } catch (error) {
      this.say(error);
      this.widget.selected = null;
      this.details.replaceChildren(details({ ...event, lane: -1, around: [], partner: null, arguments: null }, select));
    }
  }

  /** Searches once the reader has stopped typing. @param {string} text */
  searchSoon(text) {
    this.state.search = text;
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.search(text), TYPING_MS);
  }

  /** @param {string} text */
  async search(text) {
    this.state.search = text;
    this.widget.search(text);
    if (!text) return this.matches.replaceChildren();
    try {
      const answer = await this.context.get("timeline_search", { trace: this.trace, text });
      if (text !== this.state.search) return; // the reader went on typing
      this.matches.replaceChildren(...results(answer, text, (row) => this.select(eventOf(row))));
    } catch (error) {
      this.say(error);
    }
  }
}

/** The keys that move the timeline while it has the focus. */
function keys() {
  const all = [
    ["← → or A D", "move"],
    ["+ − or W S", "zoom in and out"],
    ["0", "show all"],
    ["Ctrl and wheel", "zoom at the pointer"],
    ["Shift and wheel", "move"],
    ["?", "show or hide these keys"],
  ];
  return h(
    "dl.evidence.tl-keys",
    { "aria-label": "Keys", hidden: true },
    all.map(([key, action]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, action))),
  );
}

function hint() {
  return h("p.muted", null, "Click an event to see its operator, shapes, kernel and where it was called from.");
}

/** @param {Row} row Of a search. @returns {Picked} */
function eventOf(row) {
  return {
    event: Number(row.event),
    name: String(row.name),
    kind: String(row.kind),
    start_ns: Number(row.start_ns),
    dur_ns: Number(row.dur_ns),
  };
}

/**
 * @param {EventDetails} event
 * @param {(event: TimelineEvent) => void} pick
 */
function details(event, pick) {
  const { kind, partner } = event;
  /** @type {[string, import("../dom.js").Child][]} */
  const facts = [
    ["kind", EVENTS[kind] ?? kind],
    ["starts at", duration(event.start_ns)],
    ["takes", duration(event.dur_ns)],
    ["inputs", event.arguments],
  ];
  if (partner) {
    facts.push([partnerLabel(kind, partner.kind), link(partner, pick)]);
    if (isLaunched(kind)) facts.push(["from launch to start", duration(event.start_ns - partner.start_ns)]);
  }
  return h(
    "section.tl-detail",
    { "aria-label": "Picked event" },
    h("h3", null, chip(kind), shorten(event.name, 600)),
    h(
      "dl.evidence",
      null,
      facts
        .filter(([, value]) => value)
        .map(([label, value]) => h("div", null, h("dt", null, label), h("dd", null, value))),
    ),
    event.around.length > 0 &&
      h(
        "ol.tl-stack",
        { "aria-label": "Called from, innermost first" },
        event.around.map((caller) => h("li", null, chip(caller.kind), link(caller, pick))),
      ),
  );
}

/** @param {string} kind */
function isLaunched(kind) {
  return kind.startsWith("kernel") || kind.startsWith("mem");
}

/**
 * @param {string} kind
 * @param {string} partnerKind
 */
function partnerLabel(kind, partnerKind) {
  if (kind.startsWith("idle")) return "ended by";
  if (isLaunched(kind)) return "launched by";
  return kind === "sync" && partnerKind === "sync" ? "call" : "runs on the device";
}

/**
 * @param {TimelineEvent} event
 * @param {(event: TimelineEvent) => void} pick
 */
function link(event, pick) {
  return h("button.link", { onclick: () => pick(event), title: shorten(event.name, 1000) }, shorten(event.name, 160));
}

/**
 * @param {import("../payloads").SearchResult} answer
 * @param {string} text
 * @param {(row: Row) => void} open
 */
function results(answer, text, open) {
  const wanted = `“${shorten(text, 60)}”`;
  if (!answer.count) return [h("p.muted", { role: "status" }, `No event holds ${wanted}.`)];
  const total = `${count(answer.count)} events hold ${wanted}, ${duration(answer.total_ns)} together; the longest:`;
  return [h("p.muted", { role: "status" }, total), table(answer.table, { open: (row) => () => open(row) })];
}

/** @param {string} kind */
function chip(kind) {
  return h("i.chip", { style: { background: kindColor(kind) } });
}

/** @param {string[]} used The kinds of events in this trace. */
function legend(used) {
  const label = (/** @type {string} */ kind) => EVENTS[kind] ?? kind;
  return h(
    "ul.legend",
    { "aria-label": "Colours" },
    used
      .filter((kind) => kind !== "annotation")
      .map((kind) =>
        h("li", null, chip(kind), kind.startsWith("idle_") ? `idle: ${label(kind).toLowerCase()}` : label(kind)),
      ),
  );
}
