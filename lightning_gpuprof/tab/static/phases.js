// Names and colours of the phases: hue tells what a phase belongs to (data, compute, the rest).

/** @type {Record<string, [label: string, color: string, meaning: string]>} */
export const PHASES = {
  data_wait: ["Data wait", "#f0a030", "waiting for the DataLoader's next batch"],
  host_to_device: ["Host to device", "#c47a1c", "moving the batch to the device"],
  forward: ["Forward", "#4c7df0", "training_step"],
  zero_grad: ["Zero grad", "#a3b7ea", "optimizer.zero_grad"],
  backward: ["Backward", "#2b4fb8", "loss.backward"],
  clip_gradients: ["Clip gradients", "#8b9fd6", "configure_gradient_clipping"],
  optimizer_step: ["Optimizer step", "#7d5bd0", "optimizer.step without the closure in it"],
  callbacks: ["Callbacks", "#d4548c", "hooks of callbacks"],
  logging: ["Logging", "#e596ba", "loggers and metrics"],
  checkpoint: ["Checkpoint", "#2f9e8f", "saving checkpoints"],
  validation: ["Validation", "#73bf9d", "validation inside the epoch"],
  garbage_collection: ["Garbage collection", "#a8905c", "full runs of Python's garbage collector"],
  other: ["Other", "#98a1ad", "the loop itself and what no other phase claims"],
};

/** @param {string} phase */
export const phaseLabel = (phase) => PHASES[phase]?.[0] ?? phase;
/** @param {string} phase */
export const phaseColor = (phase) => PHASES[phase]?.[1] ?? "#98a1ad";
/** @param {string} phase */
export const phaseMeaning = (phase) => PHASES[phase]?.[2] ?? "";

/**
 * Dark or white: what can be read on a phase's colour.
 * @param {string} phase
 */
export function phaseInk(phase) {
  const parts = phaseColor(phase).match(/[0-9a-f]{2}/g) ?? [];
  const [r, g, b] = parts.map((part) => (parseInt(part, 16) / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.2 ? "#11141a" : "#ffffff";
}
