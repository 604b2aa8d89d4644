// The profiled steps themselves, event by event, with what made the device wait.

import { card, h, shorten } from "../dom.js";
import { count, duration } from "../format.js";
import { embedPerfetto, openInPerfetto } from "../perfetto.js";
import { table } from "../table.js";
import { kindColor, kindLabel } from "../timeline/colors.js";
import { TimelineWidget } from "../timeline/widget.js";
import { absent, askAgain, cyclePicker } from "./cycles.js";
import { deviceTables } from "./device_tables.js";

/** @type {import("./registry.js").View} */
export const timeline = {
  id: "timeline",
  label: "Timeline",
  about:
    "The profiled steps event by event: what the host did, what the device did, and why it waited; both on the trace's one clock.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("timeline", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    const summary = await context.get("device", { trace: payload.trace });
    const picker = cycles.length > 1 && cyclePicker(context, cycles, payload.trace);
    if (payload.state !== "prepared") {
      const node = h(
        "div",
        null,
        picker,
        h("p.empty", { role: "status" }, absent(payload, context)),
        deviceTables(summary),
      );
      askAgain(context, node, payload);
      return node;
    }
    return new TimelineView(context, payload, summary, cycles).node(picker);
  },
};

class TimelineView {
  /**
   * @param {import("../app.js").Context} context
   * @param {any} payload
   * @param {any} summary
   * @param {any[]} cycles
   */
  constructor(context, payload, summary, cycles) {
    this.context = context;
    this.payload = payload;
    this.summary = summary;
    this.cycle = cycles.find((one) => one.trace_file === payload.trace);
    this.kept = context.local(payload.trace);
    const address = /^(-?\d+)_(-?\d+)$/.exec(context.state.view_ns ?? "");
    if (address) this.kept.view = [Number(address[1]), Number(address[2])];
    this.said = h("span.muted", { role: "status" });
    this.details = h("div.tl-details", { "aria-live": "polite" }, hint());
    this.found = h("div");
    this.perfetto = h("div");
    this.widget = new TimelineWidget({
      payload,
      kept: this.kept,
      refines: context.source.live,
      fetch: (range) => context.getBinary("timeline_cut", { trace: payload.trace, ...range }),
      select: (event) => this.select(event),
      moved: (from, to) =>
        context.note({ view_ns: this.isWhole(from, to) ? undefined : `${Math.round(from)}_${Math.round(to)}` }),
      failed: (error) => this.say(error),
    });
    context.onMount(() => this.widget.mounted());
  }

  /** @param {any} picker */
  node(picker) {
    const { payload, widget } = this;
    return h(
      "div",
      null,
      picker,
      card(
        "Timeline",
        `${count(payload.events)} events over ${duration(payload.span_ns[1] - payload.span_ns[0])}, by the trace's clock. Drag to move, Ctrl and wheel to zoom, double-click an event to fill the view.`,
        this.tools(),
        widget.node,
        legend(payload.used),
        this.found,
        this.details,
        this.perfetto,
      ),
      deviceTables(this.summary, (from, to) => {
        widget.show(from - (to - from) * 2, to + (to - from) * 2);
        widget.node.scrollIntoView({ block: "nearest" });
      }),
    );
  }

  tools() {
    const { widget, context } = this;
    const search = h("input", {
      type: "search",
      placeholder: "Search events…",
      "aria-label": "Search events by name",
      value: this.kept.search ?? "",
      onchange: (/** @type {any} */ event) => this.search(event.target.value),
    });
    if (this.kept.search && context.source.live) context.onMount(() => this.search(this.kept.search));
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) =>
      h("button.button", { onclick: act, "aria-label": label, title: label }, text);
    const url = context.source.url("trace", { run: context.run.name, file: this.payload.trace });
    const there = this.cycle && this.cycle.size_bytes !== null && url;
    return h(
      "div.table-tools",
      null,
      // A report carries what can be drawn, not each event's name.
      context.source.live && search,
      button("−", "Zoom out", () => widget.zoom(1.6)),
      button("+", "Zoom in", () => widget.zoom(0.6)),
      button("Fit", "Show all", () => widget.show(...widget.span)),
      there &&
        h(
          "button.button",
          { onclick: () => openInPerfetto(url, `${context.run.name} ${this.payload.trace}`, (text) => this.say(text)) },
          "Open in Perfetto",
        ),
      there && context.perfetto && h("button.button", { onclick: () => this.embed(url) }, "Perfetto here"),
      this.said,
    );
  }

  /** Shows the whole trace in Perfetto below. @param {string} url */
  embed(url) {
    const frame = /** @type {HTMLIFrameElement} */ (h("iframe.perfetto", { title: "Perfetto" }));
    this.perfetto.replaceChildren(frame);
    const page = this.context.source.url("perfetto/index.html");
    if (page) embedPerfetto(frame, page, url, this.payload.trace, (text) => this.say(text));
  }

  /** @param {unknown} what */
  say(what) {
    this.said.textContent = what instanceof Error ? what.message : String(what);
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  isWhole(from, to) {
    const [first, last] = this.widget.span;
    return from <= first && to >= last;
  }

  /** @param {any} event A block, or a row of a search. */
  async select(event) {
    /** @type {any} */
    let detail;
    try {
      detail = await this.context.get("timeline_event", { trace: this.payload.trace, event: event.event });
    } catch (error) {
      this.say(error);
      detail = { ...event, around: [], partner: null, arguments: null };
    }
    this.widget.selected = "lane" in detail ? detail : null;
    if (this.widget.selected) this.widget.reveal(detail);
    this.details.replaceChildren(details(detail, (one) => this.select(one)));
  }

  /** @param {string} text */
  async search(text) {
    this.kept.search = text;
    this.widget.search(text);
    this.found.replaceChildren();
    if (text) {
      try {
        const answer = await this.context.get("timeline_search", { trace: this.payload.trace, text });
        this.found.replaceChildren(...results(answer, text, (event) => this.select(event)));
      } catch (error) {
        this.say(error);
      }
    }
  }
}

function hint() {
  return h("p.muted", null, "Click an event to see its operator, shapes, kernel and where it was called from.");
}

/**
 * @param {any} detail
 * @param {(event: any) => void} pick
 */
function details(detail, pick) {
  /** @type {[string, import("../dom.js").Child][]} */
  const facts = [
    ["kind", kindLabel(detail.kind)],
    ["starts at", duration(detail.start_ns)],
    ["takes", duration(detail.dur_ns)],
    ["inputs", detail.arguments],
  ];
  const { partner } = detail;
  if (partner) {
    const launched = detail.kind.startsWith("kernel") || detail.kind.startsWith("mem");
    const label = detail.kind.startsWith("idle")
      ? "ended by"
      : launched
        ? "launched by"
        : detail.kind === "sync" && partner.kind === "sync"
          ? "call"
          : "runs on the device";
    facts.push([label, link(partner, pick)]);
    if (launched) facts.push(["from launch to start", duration(detail.start_ns - partner.start_ns)]);
  }
  return h(
    "section.tl-detail",
    { "aria-label": "Picked event" },
    h("h3", null, h("i.chip", { style: { background: kindColor(detail.kind) } }), shorten(detail.name, 600)),
    h(
      "dl.evidence",
      null,
      facts
        .filter(([, value]) => value)
        .map(([label, value]) => h("div", null, h("dt", null, label), h("dd", null, value ?? ""))),
    ),
    detail.around.length > 0 &&
      h(
        "ol.tl-stack",
        { "aria-label": "Called from, innermost first" },
        detail.around.map((/** @type {any} */ one) =>
          h("li", null, h("i.chip", { style: { background: kindColor(one.kind) } }), link(one, pick)),
        ),
      ),
  );
}

/**
 * @param {any} event
 * @param {(event: any) => void} pick
 */
function link(event, pick) {
  return h("button.link", { onclick: () => pick(event), title: shorten(event.name, 1000) }, shorten(event.name, 160));
}

/**
 * @param {any} answer
 * @param {string} text
 * @param {(event: any) => void} pick
 */
function results(answer, text, pick) {
  const said = `${count(answer.count)} events hold “${shorten(text, 60)}”, ${duration(answer.total_ns)} together`;
  return [
    h("p.muted", { role: "status" }, answer.count ? `${said}; the longest:` : `No event holds “${shorten(text, 60)}”.`),
    answer.count > 0 &&
      table({
        label: "Events found",
        columns: [
          { key: "name", label: "Name", text: true },
          { key: "kind", label: "Kind", text: true, plain: true, format: (kind) => kindLabel(kind) },
          { key: "start_ns", label: "Starts at", format: duration },
          { key: "dur_ns", label: "Takes", format: duration, bar: true },
        ],
        rows: answer.events,
        state: {},
        sort: "dur_ns",
        first: 6,
        open: pick,
      }),
  ].filter((node) => node instanceof Node);
}

/** @param {string[]} used The kinds of events in this trace. */
function legend(used) {
  const shown = used.filter((kind) => kind !== "annotation");
  return h(
    "ul.legend",
    { "aria-label": "Colours" },
    shown.map((kind) =>
      h(
        "li",
        null,
        h("i.chip", { style: { background: kindColor(kind) } }),
        kind.startsWith("idle_") ? `idle: ${kindLabel(kind).toLowerCase()}` : kindLabel(kind),
      ),
    ),
  );
}
