// Labels and colours of the kinds of events; hues as in the phases' palette.

import { PHASES, phaseColor } from "../phases.js";

/** @type {Record<string, [label: string, color: string]>} */
const KINDS = {
  operator: ["Operator", "#6d97f3"],
  annotation: ["Annotation", "#b7b4ee"],
  runtime: ["Runtime call", "#53a39b"],
  sync: ["Host sync", "#d43d2a"],
  allocator: ["Device allocation", "#7d4a2b"],
  python: ["Python", "#b4bfcd"],
  overhead: ["Profiler overhead", "#c9cdd4"],
  memcpy: ["Copy", "#c47a1c"],
  memset: ["Fill", "#dcae6e"],
  kernel_gemm: ["Matrix multiply", "#2b4fb8"],
  kernel_conv: ["Convolution", "#3d6be0"],
  kernel_attention: ["Attention", "#7049c4"],
  kernel_normalisation: ["Normalisation", "#2f9e8f"],
  kernel_elementwise: ["Elementwise", "#73bf9d"],
  kernel_reduction: ["Reduction", "#a5bb57"],
  kernel_communication: ["Communication", "#d4548c"],
  kernel_copy: ["Copy kernel", "#c47a1c"],
  kernel_optimizer: ["Optimizer", "#9d7be0"],
  kernel_other: ["Other kernel", "#8894a7"],
  idle_host_data_wait: ["Waiting for data", "#f0a030"],
  idle_host_sync: ["Host waits for the device", "#d43d2a"],
  idle_host_allocator: ["Device allocation", "#7d4a2b"],
  idle_host_launch_call: ["Launch call", "#53a39b"],
  idle_host_operator: ["Operator on the host", "#6d97f3"],
  idle_host_region: ["Inside an annotation", "#8f86e8"],
  idle_host_python: ["Python, or nothing recorded", "#98a1ad"],
  idle_launch_latency: ["Launch latency", "#62b8d6"],
  idle_kernel_gap: ["Between queued kernels", "#c3cad6"],
  idle_dependency: ["Waiting for another stream", "#b58bd8"],
  idle_unknown: ["Unknown", "#d7dbe1"],
};

/** @param {string} kind */
export const kindLabel = (kind) => KINDS[kind]?.[0] ?? kind;
/** @param {string} kind */
export const kindColor = (kind) => KINDS[kind]?.[1] ?? "#98a1ad";

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
  let found = inks.get(color);
  if (!found) {
    const [r, g, b] = (color.match(/[0-9a-f]{2}/g) ?? []).map((part) => (parseInt(part, 16) / 255) ** 2.2);
    found = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#11141a" : "#ffffff";
    inks.set(color, found);
  }
  return found;
}
