// Operators, kernels, modules and source lines of one profiler cycle, and the call tree.

import { h } from "../dom.js";
import { sectionCard } from "../render.js";
import { absent, askAgain, cyclePicker } from "./cycles.js";
import { flame } from "./flame.js";

/** @type {import("./registry.js").View} */
export const operators = {
  id: "operators",
  label: "Operators",
  about: "Operators and kernels of the profiled steps: host times by the host's clock, kernels by the device's.",
  async render(context) {
    const [payload, { cycles }] = await Promise.all([
      context.get("operators", { trace: context.state.trace }),
      context.get("traces"),
    ]);
    // Both views must show the same cycle. If none is picked, each of them would choose its own default.
    const calls = await context.get("calls", { trace: payload.trace });
    const why = absent(payload, context);
    searchAsAsked(context, payload.sections);
    const node = h(
      "div",
      null,
      cyclePicker(context, cycles, payload.trace),
      why && h("p.empty", { role: "note" }, why),
      payload.sections.map((section) => sectionCard(context, section)),
      calls.state === "prepared" && calls.name.length > 0 && flame(context, calls),
    );
    askAgain(context, node, calls);
    return node;
  },
};

/**
 * Searches the tables for the name that a finding's link to this view asks for.
 * @param {import("../app.js").Context} context
 * @param {import("../payloads").Section[]} sections
 */
function searchAsAsked(context, sections) {
  const { find } = context.state;
  for (const section of sections) {
    for (const part of section.body) {
      if (part.type !== "table" || !part.searchable) continue;
      /** @type {import("../table.js").TableState & {asked?: string}} */
      const state = context.local(`${section.id}/${part.id}`);
      const names = JSON.stringify(part.rows);
      if (find !== undefined && find !== state.asked && names.includes(JSON.stringify(find).slice(1, -1))) {
        state.search = find;
      }
      state.asked = find;
    }
  }
}
