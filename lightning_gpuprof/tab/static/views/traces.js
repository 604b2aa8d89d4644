// The trace file of each profiler cycle: to download, or to open in Perfetto.

import { card, h } from "../dom.js";
import { count, size } from "../format.js";
import { openInPerfetto } from "../perfetto.js";
import { untraced } from "./cycles.js";

/** @type {import("./registry.js").View} */
export const traces = {
  id: "traces",
  label: "Traces",
  about:
    "The profiler's trace files as they were written, on the profiler's own clock: for Perfetto, chrome://tracing and others.",
  async render(context) {
    const { cycles } = await context.get("traces");
    const status = h("p.muted", { role: "status" });
    const say = (/** @type {string} */ text) => (status.textContent = text);
    return card(
      "Traces",
      "A file for each profiler cycle and rank. Perfetto opens in a new tab and gets the file from this page, not over the network.",
      cycles.length
        ? h(
            "ul.traces",
            null,
            cycles.map((cycle) => line(context, cycle, say)),
          )
        : h("p.empty", null, untraced(context)),
      status,
    );
  },
};

/**
 * @param {import("../app.js").Context} context
 * @param {import("../payloads").CycleLine} cycle
 * @param {(text: string) => void} say
 */
function line(context, cycle, say) {
  const there = cycle.size_bytes !== null;
  const url = context.source.url("trace", { run: context.run.name, file: cycle.trace_file });
  const title = `${context.run.name} ${cycle.trace_file}`;
  return h(
    "li",
    null,
    h(
      "div",
      null,
      h("strong", null, `Rank ${cycle.rank}, cycle ${cycle.cycle}`),
      context.run.state !== "trace" &&
        h("span.muted", null, `steps ${count(cycle.first_step)} to ${count(cycle.last_step)}`),
    ),
    h("code", null, cycle.trace_file),
    h("span.muted", null, there ? size(cycle.size_bytes) : "the file is gone"),
    there && url && h("a.button", { href: url, download: cycle.trace_file }, "Download"),
    there && url && h("button.button", { onclick: () => openInPerfetto(url, title, say) }, "Open in Perfetto"),
    h(
      "button.link",
      { onclick: () => context.go({ view: "operators", trace: cycle.trace_file }), disabled: !cycle.analysed },
      cycle.analysed ? "Operators" : "not analysed yet",
    ),
  );
}
