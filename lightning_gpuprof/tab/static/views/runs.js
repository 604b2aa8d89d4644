// All runs in one table: sort, search, open one of them, or select two and compare them.

import { h } from "../dom.js";
import { page } from "../render.js";
import { OTHER_RUN } from "../state.js";

const ASK_AGAIN_MS = 300;
/** As many runs are compared with each other. */
const COMPARED = 2;

/** @typedef {import("../table.js").Row} Row */

/** @type {import("./registry.js").View} */
export const runs = {
  id: "runs",
  label: "Runs",
  about: "All runs below the log dir, the newest first: a click opens one, and two that are selected can be compared.",
  async render(context) {
    if (!context.source.live) {
      return h("p.empty", { role: "note" }, "This report holds one run. TensorBoard's PROFILE tab lists all of them.");
    }
    const answer = await context.get("run_table");
    /** @type {{names?: string[]}} */
    const selected = context.local("selected");
    selected.names ??= [];
    const compare = h("button.button", { onclick: () => compareSelected(context, selected.names ?? []) });
    const say = () => {
      const count = selected.names?.length ?? 0;
      compare.textContent = count === COMPARED ? "Compare the two" : `Select two to compare (${count} selected)`;
      /** @type {HTMLButtonElement} */ (compare).disabled = count !== COMPARED;
    };
    say();
    const surface = {
      ...context,
      open: {
        runs: (/** @type {Row} */ row) =>
          context.go({ ...OTHER_RUN, base: undefined, run: String(row.id), view: "overview" }),
      },
      select: {
        runs: {
          has: (/** @type {Row} */ row) => selected.names?.includes(String(row.id)) ?? false,
          toggle: (/** @type {Row} */ row) => {
            selected.names = toggled(selected.names ?? [], String(row.id));
            say();
          },
        },
      },
    };
    const node = h("div", null, h("div.table-tools", null, compare), page(surface, answer.sections));
    if (answer.pending) context.onMount(() => setTimeout(() => node.isConnected && context.refresh(), ASK_AGAIN_MS));
    return node;
  },
};

/**
 * @param {string[]} names
 * @param {string} name
 */
function toggled(names, name) {
  return names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/**
 * Compares two runs: the one that began later against the other.
 * @param {import("../app.js").Context} context
 * @param {string[]} names
 */
function compareSelected(context, names) {
  const [newer, older] = context.runs.filter((run) => names.includes(run.name));
  if (older) context.go({ ...OTHER_RUN, view: "compare", run: newer.name, base: older.name });
}
