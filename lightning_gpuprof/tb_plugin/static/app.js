// The shell: pickers, view tabs, loading, polling. Views fetch what they show and return a node.

import { append, h, shorten } from "./dom.js";
import { count, date } from "./format.js";
import { SourceError } from "./source.js";
import { onStateChanged, readState, writeState } from "./state.js";
import { onTheme } from "./theme.js";
import { VIEWS } from "./views/registry.js";

const POLL_MS = 4000;
const ONE_LINE = "Trainer(callbacks=[GpuProfCallback()])";

/** @type {Record<string, [label: string, meaning: string]>} */
const STATES = {
  live: ["live", "training goes on; this page follows it"],
  finished: ["finished", "the run ended in good order"],
  stopped: ["stopped", "the run ended without a word: it was killed, or lost its machine"],
  interrupted: ["interrupted", "the run was interrupted by hand"],
  exception: ["failed", "the run ended with an exception"],
  "newer-schema": ["newer version", "written by a newer version of lightning-gpuprof"],
  unreadable: ["unreadable", "its first record cannot be read"],
};

/**
 * @typedef {Record<string, any>} RunLine
 * @typedef {object} Context What a view is given.
 * @property {import("./source.js").Source} source
 * @property {RunLine} run The picked run, a line of /runs.
 * @property {RunLine[]} runs All runs.
 * @property {boolean} perfetto Whether the server carries the Perfetto UI.
 * @property {Record<string, any>} header The picked session, as /run tells it.
 * @property {Record<string, string>} state What the address holds: view, run, rank, session, ...
 * @property {(view: string, params?: import("./source.js").Params) => Promise<any>} get
 *   Fetches a payload of the picked run, rank and session.
 * @property {(view: string, params?: import("./source.js").Params) => Promise<ArrayBuffer>} getBinary
 *   Fetches columns of the picked run, rank and session.
 * @property {(key: string) => any} local The view's own state, kept over refreshes.
 * @property {(draw: () => void) => void} onMount Called once the view is on the page.
 * @property {(changes: Record<string, string | undefined>) => void} go Changes the address.
 * @property {(changes: Record<string, string | undefined>) => void} note Changes the address alone.
 * @property {() => void} refresh Draws the view again.
 */

/**
 * @param {HTMLElement} root
 * @param {import("./source.js").Source} source
 */
export async function mount(root, source) {
  const app = new App(root, source);
  onTheme(() => app.draw());
  onStateChanged(() => app.stateChanged());
  await app.refresh();
  if (source.live) setInterval(() => app.poll(), POLL_MS);
}

class App {
  /**
   * @param {HTMLElement} root
   * @param {import("./source.js").Source} source
   */
  constructor(root, source) {
    this.source = source;
    this.state = readState();
    /** @type {Map<string, any>} */
    this.locals = new Map();
    /** @type {{runs: RunLine[], roots: string[], schema_version: number, perfetto?: boolean}} */
    this.listing = { runs: [], roots: [], schema_version: 0 };
    this.drawn = "";
    this.turn = 0;
    this.bar = h("header.topbar");
    this.tabs = h("nav.tabs", { "aria-label": "Views" });
    this.main = h("main", { tabindex: -1 });
    this.main.append(h("p.loading", { role: "status" }, "Reading the runs…"));
    root.replaceChildren(h("div.gp", null, h("div.top", null, this.bar, this.tabs), this.main));
  }

  /** Lists the runs again and draws what is picked. */
  async refresh() {
    try {
      this.listing = await this.source.get("runs");
    } catch (error) {
      return this.say(error);
    }
    await this.draw();
  }

  /** Asks whether anything grew, and draws again only then; a hidden page does not ask. */
  async poll() {
    if (document.hidden) return;
    try {
      this.listing = await this.source.get("runs");
    } catch {
      return; // TensorBoard is restarting or gone: what is shown stays
    }
    if (this.fingerprint() !== this.drawn) await this.draw();
  }

  fingerprint() {
    const run = this.picked();
    const names = this.listing.runs.map((one) => one.name + one.state);
    return JSON.stringify([names, run?.name, run?.size_bytes, run?.state, run?.analysed]);
  }

  stateChanged() {
    this.state = readState();
    this.draw();
  }

  /** @returns {RunLine | undefined} */
  picked() {
    const { runs } = this.listing;
    return runs.find((run) => run.name === this.state.run) ?? runs[0];
  }

  /** @param {Record<string, string | undefined>} changes */
  go(changes) {
    this.note(changes);
    this.draw();
  }

  /** @param {Record<string, string | undefined>} changes */
  note(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === undefined) delete this.state[key];
      else this.state[key] = value;
    }
    writeState(this.state);
  }

  async draw() {
    const turn = ++this.turn;
    this.drawn = this.fingerprint();
    const run = this.picked();
    if (!run) return this.empty();
    this.drawTabs();
    if (run.state === "newer-schema" || run.state === "unreadable") {
      this.drawBar(run, null);
      return this.say(new SourceError(this.unreadable(run)));
    }
    try {
      const header = await this.source.get("run", this.params(run));
      const view = VIEWS.find((one) => one.id === this.state.view) ?? VIEWS[0];
      /** @type {(() => void)[]} */
      const mounted = [];
      const node = await view.render(this.context(run, header, view.id, mounted));
      if (turn !== this.turn) return; // another draw began meanwhile
      this.drawBar(run, header);
      this.main.replaceChildren(...this.notices(run, header), node);
      mounted.forEach((draw) => draw());
    } catch (error) {
      if (turn !== this.turn) return;
      this.drawBar(run, null);
      this.say(error);
    }
  }

  /** @param {RunLine} run */
  params(run) {
    return { run: run.name, rank: this.state.rank, session: this.state.session };
  }

  /**
   * @param {RunLine} run
   * @param {Record<string, any>} header
   * @param {string} view
   * @param {(() => void)[]} mounted
   * @returns {Context}
   */
  context(run, header, view, mounted) {
    return {
      source: this.source,
      run,
      runs: this.listing.runs,
      perfetto: Boolean(this.listing.perfetto),
      header,
      state: this.state,
      get: (name, params) => this.source.get(name, { ...this.params(run), ...params }),
      getBinary: (name, params) => this.source.getBinary(name, { ...this.params(run), ...params }),
      local: (key) => {
        const full = `${view}/${key}`;
        if (!this.locals.has(full)) this.locals.set(full, {});
        return this.locals.get(full);
      },
      onMount: (draw) => mounted.push(draw),
      go: (changes) => this.go(changes),
      note: (changes) => this.note(changes),
      refresh: () => this.draw(),
    };
  }

  drawTabs() {
    const current = VIEWS.find((one) => one.id === this.state.view) ?? VIEWS[0];
    this.tabs.replaceChildren(
      ...VIEWS.map((view) =>
        h(
          "button.tab",
          {
            "aria-current": view === current ? "page" : null,
            title: view.about,
            onclick: () => this.go({ view: view.id }),
          },
          view.label,
        ),
      ),
    );
  }

  /**
   * @param {RunLine} run
   * @param {Record<string, any> | null} header
   */
  drawBar(run, header) {
    const [label, meaning] = STATES[run.state] ?? [run.state, ""];
    const ranks = header?.ranks ?? [];
    const sessions = ranks.find((/** @type {any} */ one) => one.rank === header?.rank)?.sessions ?? [];
    const focused = this.bar.contains(document.activeElement) && document.activeElement?.id;
    this.bar.replaceChildren();
    append(this.bar, [
      picker("run", "Run", this.listing.runs.map((one) => [one.name, one.name]), run.name, (name) =>
        this.go({ run: name, rank: undefined, session: undefined, trace: undefined, view_ns: undefined, cycle: undefined, base_cycle: undefined, snapshot: undefined }),
      ),
      ranks.length > 1 &&
        picker("rank", "Rank", ranks.map((/** @type {any} */ one) => [String(one.rank), String(one.rank)]), String(header?.rank), (rank) =>
          this.go({ rank, session: undefined }),
        ),
      sessions.length > 1 &&
        picker(
          "session",
          "Session",
          sessions.map((/** @type {any} */ one) => [
            String(one.session),
            `${one.session}: ${one.stage}, ${count(one.steps)} steps`,
          ]),
          String(header?.session),
          (session) => this.go({ session }),
        ),
      h("span.pill", { "data-state": run.state, title: meaning }, label),
      h("span.facts", null, facts(run, header).join("  ·  ")),
    ]);
    if (focused) document.getElementById(focused)?.focus();
  }

  /**
   * @param {RunLine} run
   * @param {Record<string, any>} header
   */
  notices(run, header) {
    // While a run is written its last line is often not whole yet: no news.
    const texts = run.state === "live" ? [] : [...header.warnings];
    for (const one of header.disabled) {
      texts.push(`The ${one.probe} was switched off at step ${one.step}: ${one.error}`);
    }
    if (header.timer === "hooks") {
      texts.push("This Trainer's profiler could not be tapped: hooks alone time it, some phases are merged.");
    }
    return texts.slice(0, 5).map((text) => h("p.notice", { role: "note" }, shorten(text, 600)));
  }

  /** @param {RunLine} run */
  unreadable(run) {
    if (run.state === "newer-schema") {
      return (
        `${run.name} was written with record schema ${run.schema_version}; this version reads up ` +
        `to ${this.listing.schema_version}. Upgrade lightning-gpuprof where TensorBoard runs to see it.`
      );
    }
    return `${run.name} cannot be read: the first line of its record file is no record of lightning_gpuprof.`;
  }

  empty() {
    this.bar.replaceChildren();
    this.tabs.replaceChildren();
    const roots = this.listing.roots.join(", ");
    this.main.replaceChildren(
      h(
        "section.welcome",
        null,
        h("h1", null, "No profiled run yet"),
        h(
          "p",
          null,
          `No run under ${roots} was trained with GpuProfCallback; add it to your Trainer in one line, ` +
            "and this page shows where each training step goes while it trains:",
        ),
        h("pre.code", null, `from lightning_gpuprof import GpuProfCallback\n\ntrainer = ${ONE_LINE}`),
      ),
    );
  }

  /** Shows why there is nothing to show. @param {unknown} error */
  say(error) {
    const known = error instanceof SourceError;
    if (!known) console.error(error);
    const text = known ? error.message : `This view failed to draw: ${error}`;
    this.main.replaceChildren(h("p.empty", { role: "alert" }, text));
  }
}

/**
 * @param {string} id
 * @param {string} label
 * @param {[value: string, text: string][]} options
 * @param {string} value
 * @param {(value: string) => void} pick
 */
function picker(id, label, options, value, pick) {
  const select = h(
    "select",
    { id: `gp-${id}`, onchange: (/** @type {any} */ event) => pick(event.target.value) },
    options.map(([one, text]) =>
      h("option", { value: one, selected: one === value }, shorten(text, 80)),
    ),
  );
  // Attributes are cleaned of unseen marks for show; the value that goes back must be as it was.
  [...select.children].forEach((child, index) => {
    /** @type {HTMLOptionElement} */ (child).value = options[index][0];
  });
  return h("label.picker", null, h("span", null, label), select);
}

/**
 * @param {RunLine} run
 * @param {Record<string, any> | null} header
 */
function facts(run, header) {
  const device = header?.device;
  const texts = [];
  if (device) texts.push(device.name ?? (device.type === "cpu" ? "CPU" : device.type));
  const world = header?.world_size ?? 1;
  if (world > 1) texts.push(`${world} ranks`);
  if (header) texts.push(`${count(header.steps)} steps`);
  if (run.started_unix_ns) texts.push(date(run.started_unix_ns));
  return texts;
}
