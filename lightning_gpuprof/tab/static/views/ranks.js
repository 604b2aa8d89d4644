// The ranks of a run side by side: where each one's step goes, and which one the others wait for.

import { card, h } from "../dom.js";
import { count, duration, percent } from "../format.js";
import { phaseColor, phaseLabel } from "../phases.js";
import { kindColor } from "../timeline/colors.js";
import { legend } from "./steps_chart.js";

/** @type {[key: string, label: string, color: string][]} */
const DEVICE = [
  ["compute_ns", "Computing", kindColor("kernel_gemm")],
  ["exposed_comm_ns", "Waiting in communication", kindColor("kernel_communication")],
  ["exposed_copy_ns", "Copying", kindColor("memcpy")],
  ["idle_ns", "Idle", "#c3cad6"],
];

/** Backward's own colour, hatched: the time is a part of that phase. */
const EXCHANGE = `repeating-linear-gradient(115deg, ${phaseColor("backward")} 0 3px, #9db2ee 3px 6px)`;

/** @type {import("./registry.js").View} */
export const ranks = {
  id: "ranks",
  label: "Ranks",
  about:
    "One lane per rank: the mean steady step by phase, by each host's own clock; below it what its device did, by the device's.",
  async render(context) {
    const report = await context.get("report");
    const traced = new Set(report.trace_files.map((/** @type {any} */ one) => one.rank));
    const lanes = report.ranks.filter((/** @type {any} */ one) => one.mean_ns);
    const lacking = report.run.notices.find((/** @type {string} */ text) => text.startsWith("Records of "));
    if (lanes.length < 2) {
      const world = context.header.world_size;
      const why =
        world > 1
          ? (lacking ?? `Only ${lanes.length} of ${world} ranks left records of steps here.`)
          : "This run has one rank: there is nothing to compare. Runs with several (DDP, FSDP) have a lane for each here.";
      return h("p.empty", { role: "note" }, why);
    }
    const devices = await Promise.all(
      lanes.map((/** @type {any} */ one) => (traced.has(one.rank) ? deviceOf(context, one.rank) : null)),
    );
    lanes.forEach((/** @type {any} */ one, /** @type {number} */ i) => (one.device = devices[i]));
    const waits = devices.some((one) => one);
    const slowest = verdict(lanes, report.findings);
    const here = context.header.ranks.length;
    return card(
      "Ranks",
      slowest.said,
      lacking && h("p.muted", { role: "note" }, lacking),
      here > report.ranks.length &&
        h(
          "p.muted",
          { role: "note" },
          `${report.ranks.length} of ${count(here)} ranks: the first, and those that the others wait for most. report --json has all of them.`,
        ),
      chart(lanes, slowest.rank),
      legend(shown(lanes)),
      lanes.some((/** @type {any} */ one) => one.exchange_ns !== null) &&
        h(
          "ul.legend",
          { "aria-label": "Exchange" },
          h(
            "li",
            null,
            h("i.chip", { style: { background: EXCHANGE } }),
            "Exchanging gradients, and waiting for ranks that are late: the last part of Backward",
          ),
        ),
      waits &&
        h(
          "ul.legend",
          { "aria-label": "Lower bars" },
          h("li", null, "Lower bars, by the device's clock:"),
          DEVICE.map(([, label, color]) => h("li", null, h("i.chip", { style: { background: color } }), label)),
        ),
      numbers(context, lanes, slowest.rank),
      waits &&
        h(
          "p.muted",
          null,
          "A rank that is early waits for the late ranks inside its collective operations: the longer that wait, the faster the rank. Idle time of the late rank is what the others wait for.",
        ),
    );
  },
};

/**
 * A rank's device in a profiled step, null where no cycle of that rank was analysed.
 * @param {import("../app.js").Context} context
 * @param {number} rank
 */
async function deviceOf(context, rank) {
  const found = await context.get("device", { rank }).catch(() => null);
  const steps = found?.steps?.length;
  if (!found?.gpu || !steps || !found.trace.startsWith(`rank${rank}-`)) return null;
  return Object.fromEntries(DEVICE.map(([key]) => [key, found.gpu[key] / steps]));
}

/** The phases that some rank has. @param {any[]} lanes */
function shown(lanes) {
  const names = new Set(
    lanes.flatMap((lane) => Object.keys(lane.phase_mean_ns).filter((phase) => lane.phase_mean_ns[phase] > 0)),
  );
  return Object.keys(lanes[0].phase_mean_ns).filter((phase) => names.has(phase));
}

/**
 * Who is waited for, as the report says; else who differs most, and in what.
 * @param {any[]} lanes
 * @param {any[]} findings
 * @returns {{said: string, rank?: number}}
 */
function verdict(lanes, findings) {
  const late = findings.find((one) => one.id === "straggler-rank");
  if (late)
    return {
      said: `${late.title}.`,
      rank: late.where.find((/** @type {any} */ one) => typeof one.rank === "number")?.rank,
    };
  let [phase, slow, spread] = ["", lanes[0], 0];
  for (const name of shown(lanes)) {
    const sorted = lanes
      .filter((lane) => lane.phase_mean_ns[name] !== undefined)
      .sort((a, b) => a.phase_mean_ns[name] - b.phase_mean_ns[name]);
    const [low, high] = [sorted[0], sorted[sorted.length - 1]];
    const between = high.phase_mean_ns[name] - low.phase_mean_ns[name];
    if (between > spread) [phase, slow, spread] = [name, high, between];
  }
  if (!phase || spread < 0.02 * lanes[0].mean_ns) return { said: "Mean steady step by phase; the ranks are alike." };
  return {
    said: `Ranks differ most in ${phaseLabel(phase).toLowerCase()}: rank ${slow.rank} takes ${duration(spread)} longer than the fastest one.`,
    rank: slow.rank,
  };
}

/**
 * @param {any[]} lanes
 * @param {number | undefined} slow The rank to point out.
 */
function chart(lanes, slow) {
  const whole = (/** @type {any} */ lane) => DEVICE.reduce((sum, [key]) => sum + lane.device[key], 0);
  const longest = Math.max(...lanes.map((lane) => Math.max(lane.mean_ns, lane.device ? whole(lane) : 0)));
  return h(
    "div.ranks",
    { "aria-hidden": true },
    lanes.map((lane) =>
      h(
        lane.rank === slow ? "div.rank-lane.slow" : "div.rank-lane",
        null,
        h("span.label", null, `rank ${lane.rank}${lane.rank === slow ? " slow" : ""}`),
        h(
          "div.strip",
          { style: { width: `${(lane.mean_ns / longest) * 100}%` } },
          shown([lane]).flatMap((phase) => {
            const exchange = (phase === "backward" && lane.exchange_ns) || 0;
            return [
              part(phaseLabel(phase), lane.phase_mean_ns[phase] - exchange, phaseColor(phase)),
              exchange > 0 && part("Exchanging gradients", exchange, EXCHANGE),
            ];
          }),
        ),
        lane.device &&
          h(
            "div.strip.lower",
            { style: { width: `${(whole(lane) / longest) * 100}%` } },
            DEVICE.filter(([key]) => lane.device[key] > 0).map(([key, label, color]) =>
              part(label, lane.device[key], color),
            ),
          ),
      ),
    ),
  );
}

/**
 * @param {string} label
 * @param {number} ns
 * @param {string} color
 */
function part(label, ns, color) {
  return h("div.strip-part", { title: `${label}: ${duration(ns)}`, style: { flex: `${ns} 0 0`, background: color } });
}

/**
 * @param {import("../app.js").Context} context
 * @param {any[]} lanes
 * @param {number | undefined} slow
 */
function numbers(context, lanes, slow) {
  const waits = lanes.some((lane) => lane.device);
  const hosts = new Set(lanes.map((lane) => lane.host)).size > 1;
  const waited = lanes.some((lane) => lane.waited_ns !== null);
  const phases = shown(lanes).filter((phase) =>
    lanes.some((lane) => (lane.phase_mean_ns[phase] ?? 0) > 0.005 * lane.mean_ns),
  );
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": "Ranks in numbers" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          [
            "Rank",
            ...(hosts ? ["Host"] : []),
            "Steps",
            "Median step",
            "Mean step",
            ...(waited ? ["Waits for others", "Comes last"] : []),
            ...phases.map(phaseLabel),
            ...(waits ? ["Waiting in communication", "Device idle"] : []),
          ].map((text, i) => h(text === "Host" ? "th" : "th.number", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        null,
        lanes.map((lane) =>
          h(
            lane.rank === slow ? "tr.slow" : "tr",
            null,
            h(
              "td.number",
              null,
              h(
                "button.link",
                {
                  onclick: () => context.go({ view: "steps", rank: String(lane.rank) }),
                  title: `Steps of rank ${lane.rank}`,
                },
                String(lane.rank),
              ),
            ),
            hosts && h("td.plain", null, lane.host),
            h("td.number", null, count(lane.steps)),
            h("td.number", null, duration(lane.median_ns)),
            h("td.number", null, duration(lane.mean_ns)),
            waited && [
              h("td.number", null, lane.waited_ns === null ? "–" : duration(lane.waited_ns)),
              h(
                "td.number",
                { title: "Share of steps in which the others wait for it" },
                lane.last_frac === null ? "–" : percent(lane.last_frac),
              ),
            ],
            phases.map((phase) =>
              h(
                "td.number",
                { title: percent((lane.phase_mean_ns[phase] ?? 0) / lane.mean_ns) },
                phase in lane.phase_mean_ns ? duration(lane.phase_mean_ns[phase]) : "–",
              ),
            ),
            waits &&
              ["exposed_comm_ns", "idle_ns"].map((key) =>
                h("td.number", null, lane.device ? duration(lane.device[key]) : "–"),
              ),
          ),
        ),
      ),
    ),
  );
}
