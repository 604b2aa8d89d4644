// Colours of phases, kinds of events and kinds of memory. Hue says what they belong to: data, compute, the rest.

/** @type {Record<string, string>} */
const PHASES = {
  data_wait: "#f0a030",
  host_to_device: "#c47a1c",
  forward: "#4c7df0",
  zero_grad: "#a3b7ea",
  backward: "#2b4fb8",
  clip_gradients: "#8b9fd6",
  optimizer_step: "#7d5bd0",
  callbacks: "#d4548c",
  logging: "#e596ba",
  checkpoint: "#2f9e8f",
  validation: "#73bf9d",
  garbage_collection: "#a8905c",
  other: "#98a1ad",
};

/** @type {Record<string, string>} */
const EVENTS = {
  operator: "#6d97f3",
  annotation: "#b7b4ee",
  runtime: "#53a39b",
  sync: "#d43d2a",
  allocator: "#7d4a2b",
  python: "#b4bfcd",
  overhead: "#c9cdd4",
  memcpy: "#c47a1c",
  memset: "#dcae6e",
  kernel_gemm: "#2b4fb8",
  kernel_conv: "#3d6be0",
  kernel_attention: "#7049c4",
  kernel_normalisation: "#2f9e8f",
  kernel_elementwise: "#73bf9d",
  kernel_reduction: "#a5bb57",
  kernel_communication: "#d4548c",
  kernel_copy: "#c47a1c",
  kernel_optimizer: "#9d7be0",
  kernel_other: "#8894a7",
  idle: "#c3cad6",
  idle_host_data_wait: "#f0a030",
  idle_host_sync: "#d43d2a",
  idle_host_allocator: "#7d4a2b",
  idle_host_launch_call: "#53a39b",
  idle_host_operator: "#6d97f3",
  idle_host_region: "#8f86e8",
  idle_host_python: "#98a1ad",
  idle_launch_latency: "#62b8d6",
  idle_kernel_gap: "#c3cad6",
  idle_dependency: "#b58bd8",
  idle_unknown: "#d7dbe1",
};

/** @type {Record<string, string>} */
const MEMORY = {
  parameters: "#2b4fb8",
  gradients: "#7d5bd0",
  optimizer_state: "#d4548c",
  activations: "#73bf9d",
};

const GREY = "#98a1ad";

/** Special steps that charts mark: those whose flag explains the step's length. @type {Record<string, string>} */
export const MARKS = {
  compiled: "#d43d2a",
  profiled: "#7d5bd0",
  validation: "#2f9e6f",
  checkpoint: "#b8741a",
  unfinished: "#d43d2a",
};

/** @param {string} phase */
export const phaseColor = (phase) => PHASES[phase] ?? GREY;
/** @param {string} kind */
export const kindColor = (kind) => EVENTS[kind] ?? GREY;
/** @param {string} kind */
export const memoryColor = (kind) => MEMORY[kind] ?? GREY;

/**
 * The colour of a part of a document by its key; null where the key has none.
 * @param {string} key
 * @returns {string | null}
 */
export function chipColor(key) {
  const [whole] = key.split("/"); // of a named part, such as "callbacks/EMA", the phase
  return PHASES[whole] ?? EVENTS[whole] ?? MEMORY[whole] ?? null;
}

/** Annotations that stand for a phase of the step take its colour. */
const PHASE_OF = /** @type {[RegExp, string][]} */ ([
  [/dataloader_next|DataLoader|data_wait/i, "data_wait"],
  [/batch_to_device|transfer_batch/i, "host_to_device"],
  [/zero_grad/i, "zero_grad"],
  [/backward/i, "backward"],
  [/clip/i, "clip_gradients"],
  [/training_step|forward/i, "forward"],
  [/optimizer/i, "optimizer_step"],
  [/validation/i, "validation"],
  [/checkpoint/i, "checkpoint"],
  [/Logger|logging/i, "logging"],
  [/\[Callback\]/, "callbacks"],
]);

/** @param {string} name */
export function annotationColor(name) {
  if (name.startsWith("ProfilerStep")) return kindColor("annotation");
  const phase = name in PHASES ? name : PHASE_OF.find(([pattern]) => pattern.test(name))?.[1];
  return phase ? phaseColor(phase) : kindColor("annotation");
}

/** @type {Map<string, string>} */
const inks = new Map();

/**
 * Dark or white, whichever can be read on a colour.
 * @param {string} color
 */
export function ink(color) {
  const known = inks.get(color);
  if (known) return known;
  const [r, g, b] = (color.match(/[0-9a-f]{2}/g) ?? []).map((part) => (parseInt(part, 16) / 255) ** 2.2);
  const text = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#11141a" : "#ffffff";
  inks.set(color, text);
  return text;
}
