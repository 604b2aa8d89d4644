// The frame of the page: pickers, view tabs, loading, polling. Views fetch their data and return a node.

import { balanceColumns } from "./columns.js";
import { append, h } from "./dom.js";
import { keepFocus } from "./focus.js";
import { notices, unreadable, welcome } from "./messages.js";
import { watchEdges } from "./scroll.js";
import { SourceError } from "./source.js";
import { onStateChanged, readState, writeState } from "./state.js";
import { onTheme } from "./theme.js";
import { topbar } from "./topbar.js";
import { VIEWS } from "./views/registry.js";

const POLL_MS = 4000;

/**
 * @typedef {import("./payloads").RunLine} RunLine
 * @typedef {import("./payloads").RunHeader} RunHeader
 * @typedef {import("./payloads").Payloads} Payloads
 * @typedef {Record<string, string | undefined>} Changes
 *
 * @typedef {object} Context What a view is given.
 * @property {import("./source.js").Source} source
 * @property {RunLine} run The picked run, a line of /runs.
 * @property {RunLine[]} runs All runs.
 * @property {boolean} perfetto Whether the server carries the Perfetto UI.
 * @property {RunHeader} header The picked session.
 * @property {Record<string, string>} state What the address holds: view, run, rank, session, ...
 * @property {<Name extends keyof Payloads>(view: Name, params?: import("./source.js").Params) => Promise<Payloads[Name]>} get
 *   Fetches a payload of the picked run, rank and session.
 * @property {(view: string, params?: import("./source.js").Params) => Promise<ArrayBuffer>} getBinary
 *   Fetches columns of the picked run, rank and session.
 * @property {<State extends object>(key: string) => State} local The view's own state, kept over refreshes.
 * @property {(draw: () => void) => void} onMount Called once the view is on the page.
 * @property {(changes: Changes) => void} go Changes the address and draws the page again.
 * @property {(changes: Changes) => void} note Changes the address without drawing.
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
    /** @type {Map<string, object>} */
    this.locals = new Map();
    /** @type {import("./payloads").Listing} */
    this.listing = { runs: [], roots: [], missing: [], schema_version: 0, perfetto: false };
    this.drawn = "";
    this.turn = 0;
    this.bar = h("header.topbar");
    this.tabs = h("nav.tabs", { "aria-label": "Views" });
    watchEdges(this.tabs);
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

  /** Asks for the list of runs, and draws again if something has grown; a hidden page does not ask. */
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
    const names = this.listing.runs.map((line) => line.name + line.state);
    return JSON.stringify([names, run?.name, run?.size_bytes, run?.state, run?.analysed, run?.analysed_unix_ns]);
  }

  stateChanged() {
    this.state = readState();
    this.draw();
  }

  /** @returns {RunLine | undefined} */
  picked() {
    const { runs } = this.listing;
    return runs.find((run) => run.name === this.state.run) ?? runs.find((run) => !isEvaluation(run, runs)) ?? runs[0];
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
    const view = VIEWS.find((candidate) => candidate.id === this.state.view) ?? VIEWS[0];
    this.drawTabs(view);
    const why = unreadable(run, this.listing.schema_version);
    if (why) {
      this.drawBar(run, null);
      return this.say(new SourceError(why));
    }
    try {
      const header = await this.source.get("run", this.params(run));
      /** @type {(() => void)[]} */
      const mounted = [];
      const node = await view.render(this.context(run, header, view.id, mounted));
      if (turn !== this.turn) return; // another draw began meanwhile
      this.drawBar(run, header);
      keepFocus(
        this.main,
        () => {
          this.main.replaceChildren(heading(view), ...notices(run, header, this.state.run), node);
          balanceColumns(this.main);
        },
        run.name,
      );
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
   * @param {RunHeader} header
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
        const state = this.locals.get(full) ?? {};
        this.locals.set(full, state);
        return /** @type {any} */ (state); // as the view made it
      },
      onMount: (draw) => mounted.push(draw),
      go: (changes) => this.go(changes),
      note: (changes) => this.note(changes),
      refresh: () => this.draw(),
    };
  }

  /** @param {import("./views/registry.js").View} current */
  drawTabs(current) {
    const tab = (/** @type {import("./views/registry.js").View} */ view) =>
      h(
        "button.tab",
        {
          "aria-current": view === current ? "page" : null,
          title: view.about,
          onclick: () => this.go({ view: view.id }),
        },
        view.label,
      );
    keepFocus(this.tabs, () => this.tabs.replaceChildren(...VIEWS.map(tab)));
    showCurrent(this.tabs);
  }

  /**
   * @param {RunLine} run
   * @param {RunHeader | null} header
   */
  drawBar(run, header) {
    keepFocus(this.bar, () => {
      this.bar.replaceChildren();
      append(
        this.bar,
        topbar(this.listing.runs, run, header, (changes) => this.go(changes)),
      );
    });
  }

  empty() {
    this.bar.replaceChildren();
    this.tabs.replaceChildren();
    this.main.replaceChildren(welcome(this.listing.roots, this.listing.missing));
  }

  /** Shows why there is nothing to show. @param {unknown} error */
  say(error) {
    const isExpected = error instanceof SourceError;
    if (!isExpected) console.error(error);
    const text = isExpected ? error.message : `This view failed to draw: ${error}`;
    this.main.replaceChildren(h("p.empty", { role: "alert" }, text));
  }
}

/** Scrolls the current tab into the middle of the row. @param {HTMLElement} tabs */
function showCurrent(tabs) {
  const current = /** @type {HTMLElement | null} */ (tabs.querySelector("[aria-current]"));
  if (current) tabs.scrollLeft = current.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
}

/** The view's title, what it shows and by which clock. @param {import("./views/registry.js").View} view */
function heading(view) {
  return h("header.view-head", null, h("h1", null, view.label), h("p.note", null, view.about));
}

/**
 * Whether a run is an evaluation in the folder of a fit; the fit is shown first.
 * @param {RunLine} run
 * @param {RunLine[]} runs
 */
function isEvaluation(run, runs) {
  const at = run.name.lastIndexOf("/");
  const fit = at < 0 ? "." : run.name.slice(0, at);
  return run.name.slice(at + 1) === run.stage && runs.some((other) => other.name === fit);
}
