// Special steps: the bits of the records' StepFlag, and how each is marked.

/** @type {Record<string, [bit: number, label: string, color: string]>} */
const FLAGS = {
  warmup: [1, "warm-up", ""],
  compiled: [2, "compiled", "#d43d2a"],
  profiled: [4, "profiled", "#7d5bd0"],
  validation: [8, "validation", "#2f9e6f"],
  checkpoint: [16, "checkpoint", "#b8741a"],
  epoch_start: [32, "epoch start", ""],
  watched: [64, "watched for syncs", ""],
  unfinished: [128, "unfinished", "#d43d2a"],
  logged: [256, "logged", ""],
};

/** @param {string} flag */
export const flagLabel = (flag) => FLAGS[flag]?.[1] ?? String(flag);

/** The flags that charts mark: those that explain a step's length. */
export const MARKED = Object.entries(FLAGS)
  .filter(([, [, , color]]) => color)
  .map(([flag, [bit, label, color]]) => ({ flag, bit, label, color }));
