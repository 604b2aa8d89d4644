// From a finding to the view that shows its place: a rank, a memory line, a range of the timeline, an operator.

/** How much of the timeline is shown on each side, in lengths of the event. */
const AROUND = 2;

/**
 * @param {import("../app.js").Context} context
 * @param {any} finding
 * @param {any} where One of its places.
 */
export async function goTo(context, finding, where) {
  if (typeof where.rank === "number") return context.go({ view: "ranks" });
  if (/memory|vram/.test(finding.id)) return context.go({ view: "memory" });
  if (where.kernel || where.name?.includes("::")) {
    return context.go({ view: "operators", find: where.kernel ?? where.name });
  }
  const [device, { lines = [] }] = await Promise.all([context.get("device"), context.get("operators")]);
  const calls = device.syncs ?? [];
  const there =
    calls.find((/** @type {any} */ call) => sameLine(call.where, where)) ??
    (/sync/.test(finding.id) ? calls[0] : where.phase || where.file ? null : device.gaps?.[0]);
  if (there) {
    const ns = there.dur_ns ?? there.blocked_ns;
    return context.go({
      view: "timeline",
      trace: device.trace,
      view_ns: `${there.start_ns - AROUND * ns}_${there.start_ns + (1 + AROUND) * ns}`,
    });
  }
  if (lines.some((/** @type {any} */ row) => sameLine(row.where, where)))
    return context.go({ view: "operators", find: `${where.file}:${where.line}` });
  const row =
    where.file &&
    [...document.querySelectorAll(".lines tr")].find((one) =>
      one.getAttribute("title")?.startsWith(`${where.file}:${where.line} `),
    );
  if (row) {
    row.classList.add("found");
    return row.scrollIntoView({ block: "center" });
  }
  return context.go({ view: where.phase || !device.trace ? "steps" : "timeline" });
}

/**
 * Traces and samples may name a file from different folders on.
 * @param {any} a
 * @param {any} b
 */
function sameLine(a, b) {
  return Boolean(a && b.file) && a.line === b.line && (a.file.endsWith(b.file) || b.file.endsWith(a.file));
}
