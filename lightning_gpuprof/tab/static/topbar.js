// Above every view: the run, rank and session shown, and the run's state.

import { h } from "./dom.js";
import { count, date } from "./format.js";
import { picker } from "./picker.js";
import { OTHER_RUN } from "./state.js";

/** @type {Record<string, [label: string, meaning: string]>} */
const STATES = {
  live: ["live", "training goes on; this page follows it"],
  finished: ["finished", "the run ended normally"],
  stopped: ["stopped", "the run ended without a closing record: it was killed, or its machine failed"],
  interrupted: ["interrupted", "the run was interrupted by hand"],
  exception: ["failed", "the run ended with an exception"],
  "newer-schema": ["newer version", "written by a newer version of lightning-gpuprof"],
  trace: ["traces only", "profiler traces without records of GpuProfCallback"],
  unreadable: ["unreadable", "its first record cannot be read"],
};

/**
 * @param {import("./app.js").RunLine[]} runs
 * @param {import("./app.js").RunLine} run The picked run.
 * @param {import("./payloads").RunHeader | null} header Its picked session, null if that cannot be read.
 * @param {(changes: Record<string, string | undefined>) => void} go
 * @returns {import("./dom.js").Child[]}
 */
export function topbar(runs, run, header, go) {
  const [label, meaning] = STATES[run.state] ?? [run.state, ""];
  const ranks = header?.ranks ?? [];
  const sessions = ranks.find((line) => line.rank === header?.rank)?.sessions ?? [];
  return [
    picker({
      id: "gp-run",
      label: "Run",
      options: runs.map((line) => [line.name, line.name]),
      value: run.name,
      pick: (name) => go({ ...OTHER_RUN, run: name }),
    }),
    ranks.length > 1 &&
      picker({
        id: "gp-rank",
        label: "Rank",
        options: ranks.map((line) => [String(line.rank), String(line.rank)]),
        value: String(header?.rank),
        pick: (rank) => go({ rank, session: undefined, trace: undefined, view_ns: undefined, event: undefined }),
      }),
    sessions.length > 1 &&
      picker({
        id: "gp-session",
        label: "Session",
        options: sessions.map(({ session, stage, steps }) => [
          String(session),
          `${session}: ${stage}, ${count(steps)} steps`,
        ]),
        value: String(header?.session),
        pick: (session) => go({ session }),
      }),
    h("span.pill", { "data-state": run.state, title: meaning }, label),
    h("span.facts", null, facts(run, header).join("  ·  ")),
  ];
}

/**
 * @param {import("./app.js").RunLine} run
 * @param {import("./payloads").RunHeader | null} header
 */
function facts(run, header) {
  const device = header?.device;
  const texts = [];
  if (device) texts.push(device.name ?? (device.type === "cpu" ? "CPU" : "GPU, model not recorded"));
  const world = header?.world_size ?? 1;
  if (world > 1) texts.push(`${world} ranks`);
  // Above the overhead budget some steps are only counted, not recorded.
  const steps =
    header && run.state !== "trace"
      ? Math.max(header.steps, (header.last_step ?? -1) + 1, header.end?.steps ?? 0)
      : null;
  if (steps !== null) texts.push(`${count(steps)} step${steps === 1 ? "" : "s"}`);
  if (run.started_unix_ns) texts.push(date(run.started_unix_ns));
  return texts;
}
