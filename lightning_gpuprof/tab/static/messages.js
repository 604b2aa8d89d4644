// Sentences shown where there is nothing to draw, or beside a drawing.

import { code, h, shorten } from "./dom.js";

const ONE_LINE = "Trainer(callbacks=[GpuProfCallback()])";
const MOST = 5;

/**
 * @param {string[]} roots The folders that TensorBoard was started on.
 * @param {string[]} missing Those of these folders that do not exist.
 */
export function welcome(roots, missing) {
  return h(
    "section.welcome",
    null,
    h("h1", null, "No profiled run yet"),
    missing.length > 0 &&
      h(
        "p.notice",
        { role: "note" },
        `${missing.join(", ")} does not exist. Is --logdir right? TensorBoard takes a relative one from where it was started.`,
      ),
    h(
      "p",
      null,
      `No run under ${roots.join(", ")} was trained with GpuProfCallback; add it to your Trainer in one line, ` +
        "and this page shows where each training step goes while it trains:",
    ),
    code(`from lightning_gpuprof import GpuProfCallback\n\ntrainer = ${ONE_LINE}`),
  );
}

/**
 * Why a run cannot be shown; null if it can.
 * @param {import("./app.js").RunLine} run
 * @param {number} known The newest schema that this version reads.
 */
export function unreadable(run, known) {
  if (run.state === "newer-schema") {
    return (
      `${run.name} was written with record schema ${run.schema_version}; this version reads up ` +
      `to ${known}. Upgrade lightning-gpuprof where TensorBoard runs to see it.`
    );
  }
  if (run.state !== "unreadable") return null;
  return `${run.name} cannot be read: ${run.error}`;
}

/**
 * Reasons to doubt a run's records.
 * @param {import("./app.js").RunLine} run
 * @param {import("./payloads").RunHeader} header
 * @param {string} [asked] The run that the page's address names.
 */
export function notices(run, header, asked = run.name) {
  const texts = asked === run.name ? [] : [`There is no run ${asked} below this --logdir: ${run.name} is shown.`];
  // An incomplete last line is normal while a run is being written.
  if (run.state !== "live") texts.push(...header.warnings);
  for (const { probe, step, error } of header.disabled) {
    texts.push(`The ${probe} was switched off at step ${step}: ${error}`);
  }
  return texts.slice(0, MOST).map((text) => h("p.notice", { role: "note" }, shorten(text, 600)));
}
