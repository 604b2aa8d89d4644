// The batch sizes that fit a card, as `lightning-gpuprof plan` predicts and `tune` measured.

import { chart } from "../charts.js";
import { card, h, shorten } from "../dom.js";
import { count, duration, number, percent, size } from "../format.js";
import { table } from "../table.js";

const GIB = 2 ** 30;

/**
 * @param {import("../app.js").Context} context
 * @param {any} found The plan view's payload.
 * @returns {HTMLElement}
 */
export function plan(context, found) {
  const { plan: planned, tune: tuned, notes } = found;
  return h(
    "div",
    null,
    notes.map((/** @type {string} */ note) => h("p.notice", { role: "note" }, shorten(note, 600))),
    h(
      "div.columns",
      null,
      planned ? predicted(context, planned) : missing(context, "Plan: what fits which card", "plan", "predicts, without a GPU and without training, the memory of a step and the batch size that fits each card"),
      tuned ? measured(context, tuned) : missing(context, "Tune: speed by batch size", "tune", "runs a few batch sizes for real and measures samples per second and memory"),
    ),
  );
}

/**
 * How to make what is not there.
 * @param {import("../app.js").Context} context
 * @param {string} title
 * @param {string} command
 * @param {string} does
 */
function missing(context, title, command, does) {
  return card(
    title,
    null,
    h("p.muted", null, `This command ${does}; its result shows here once the file lies beside the run:`),
    h("pre.code.command", null, `lightning-gpuprof ${command} --model train.py:make --json > ${shellWord(`${context.run.path}/${command}.json`)}`),
  );
}

/** @param {string} text As one word of a shell's command line. */
function shellWord(text) {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The largest batch size that is tried: `LARGEST_BATCH` of trials/cards.py. */
const LARGEST_BATCH = 2 ** 20;

/** @param {number | null} value */
function batchSize(value) {
  return value === LARGEST_BATCH ? `${count(value)} or more` : count(value);
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} planned
 */
function predicted(context, planned) {
  const [low, high] = planned.target_frac;
  const band = `${Math.round(low * 100)}–${Math.round(high * 100)}%`;
  return card(
    "Plan: what fits which card",
    `Predicted, not measured: ${planned.precision}, ${shorten(planned.optimizer, 60)}, one device. The batch size fills ${band} of the card.`,
    table({
      label: "Cards",
      columns: [
        { key: "card", label: "Card", text: true, plain: true, format: (card, row) => card ?? size(row.vram_bytes) },
        { key: "batch_size", label: "Batch size", format: batchSize },
        { key: "peak_reserved_bytes", label: "Reserves", format: size },
        { key: "vram_frac", label: "Of the card", format: percent },
        { key: "largest_batch_size", label: "At most", format: batchSize, title: "the largest batch size that still fits" },
      ],
      rows: planned.cards,
      state: context.local("cards"),
    }),
    h("h3", null, "Predicted batch sizes"),
    table({
      label: "Predicted batch sizes",
      columns: [
        { key: "batch_size", label: "Batch size", format: count },
        { key: "activations", label: "Activations", format: size },
        { key: "peak_allocated_bytes", label: "Allocated", format: size },
        { key: "peak_reserved_bytes", label: "Reserved", format: size, bar: true },
        { key: "peak_phase", label: "Peak in", text: true, plain: true, format: (phase) => phase.replaceAll("_", " ") },
      ],
      rows: [...planned.points].sort((a, b) => a.batch_size - b.batch_size).map((one) => ({ ...one, activations: one.exact_bytes.activations })),
      state: context.local("points"),
    }),
    planned.assumptions.length > 0 &&
      h(
        "details.behind",
        null,
        h("summary", null, "What the prediction assumes"),
        h("ul.plain-list", null, planned.assumptions.map((/** @type {string} */ one) => h("li.muted", null, one))),
      ),
  );
}

/**
 * @param {import("../app.js").Context} context
 * @param {any} tuned
 */
function measured(context, tuned) {
  const ran = tuned.points.filter((/** @type {any} */ one) => one.samples_per_s);
  const memory = ran.some((/** @type {any} */ one) => one.peak_reserved_bytes);
  const device = ran[0]?.device ? `Measured on ${shorten(ran[0].device, 60)}. ` : "";
  const said = tuned.suggested_batch_size === null ? `No suggestion: ${tuned.reason}.` : `Batch size ${count(tuned.suggested_batch_size)}: ${tuned.reason}.`;
  return card(
    "Tune: speed by batch size",
    shorten(device + said, 400),
    ran.length > 1 && chart(context, { label: "Samples per second by batch size; the table below has the numbers", height: 240, plot: () => curve(ran, memory, tuned.suggested_batch_size) }),
    table({
      label: "Measured batch sizes",
      columns: /** @type {import("../table.js").Column[]} */ ([
        { key: "batch_size", label: "Batch size", format: count },
        { key: "step_ns", label: "Step", format: duration },
        { key: "samples_per_s", label: "Samples/s", format: number, bar: true },
        { key: "peak_reserved_bytes", label: "Peak reserved", format: size },
        { key: "error", label: "Why not", text: true, plain: true, format: (error, row) => (row.out_of_memory ? "out of memory" : shorten(error ?? "–", 60)) },
      ]).filter((column) => column.key !== "error" || ran.length < tuned.points.length),
      rows: tuned.points.map((/** @type {any} */ one) => ({ ...one, samples_per_s: one.samples_per_s && Number(one.samples_per_s.toPrecision(4)) })),
      state: context.local("tuned"),
    }),
  );
}

/**
 * @param {any[]} ran
 * @param {boolean} memory
 * @param {number | null} suggested
 */
function curve(ran, memory, suggested) {
  const x = ran.map((one) => one.batch_size);
  const line = (/** @type {string} */ name, /** @type {(number | null)[]} */ y, /** @type {string} */ color, /** @type {object} */ more) => ({ name, x, y, mode: "lines+markers", line: { color, width: 2 }, marker: { size: 7 }, ...more });
  return {
    data: [
      line("samples per second", ran.map((one) => one.samples_per_s), "#4c7df0", { hovertemplate: "%{y:.4~g}/s at %{x}<extra></extra>" }),
      ...(memory ? [line("peak reserved, GiB (right)", ran.map((one) => (one.peak_reserved_bytes === null ? null : one.peak_reserved_bytes / GIB)), "#d4548c", { yaxis: "y2", hovertemplate: "%{y:.3~g} GiB at %{x}<extra></extra>" })] : []),
    ],
    layout: {
      showlegend: memory,
      margin: { r: memory ? 48 : 8 },
      xaxis: { title: { text: "batch size" }, rangemode: "tozero" },
      yaxis: { title: { text: "samples per second" } },
      yaxis2: { overlaying: "y", side: "right", rangemode: "tozero", showgrid: false, automargin: true },
      shapes: suggested === null ? [] : [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: suggested, x1: suggested, line: { color: "#12694f", width: 1, dash: "dash" } }],
    },
  };
}
