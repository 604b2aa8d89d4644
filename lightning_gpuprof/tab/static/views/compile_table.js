// Where torch.compile broke its graph, and what it compiled again, in its own words.

import { card } from "../dom.js";
import { table } from "../table.js";

/**
 * @param {any} report
 * @returns {HTMLElement | null} Null where it did neither.
 */
export function compileTable(report) {
  if (!report.compile_events.length) return null;
  const rows = report.compile_events.map((/** @type {any} */ one) => ({
    ...one,
    line: `${one.place.file}:${one.place.line}`,
    source: one.place.source,
  }));
  return card(
    "torch.compile",
    "Graph breaks and recompilations, each once, with torch's reason.",
    table({
      label: "torch.compile",
      columns: [
        { key: "what", label: "What", text: true },
        { key: "line", label: "Line", text: true },
        { key: "source", label: "Source", text: true },
        { key: "reason", label: "Reason", text: true },
      ],
      rows,
      state: {},
    }),
  );
}
