// Formats numbers for people; the only place of the browser side that does.

const TIMES = /** @type {const} */ ([
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
]);
const SIZES = /** @type {const} */ ([
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
]);
const NOT_MEASURED = "not measured";

/** @typedef {number | null | undefined} Measured */

/** @param {number} value */
function threeDigits(value) {
  const digits = String(Math.trunc(Math.abs(value))).length;
  return value.toFixed(Math.max(0, 3 - digits));
}

/** @param {Measured} ns */
export function duration(ns) {
  if (ns === null || ns === undefined) return NOT_MEASURED;
  for (const [scale, unit] of TIMES) {
    if (Math.abs(ns) >= scale) return `${threeDigits(ns / scale)} ${unit}`;
  }
  return ns === 0 ? "0" : `${Math.round(ns)} ns`;
}

/**
 * Two durations in one unit: "20.1–26.3 ms"; from nothing on, "up to 26.3 ms".
 * @param {number} low
 * @param {number} high
 */
export function durationRange(low, high) {
  if (low === high) return duration(low);
  if (low === 0) return `up to ${duration(high)}`;
  const [scale, unit] = TIMES.find(([one]) => Math.abs(high) >= one) ?? [1, "ns"];
  return `${threeDigits(low / scale)}–${threeDigits(high / scale)} ${unit}`;
}

/** @param {Measured} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return NOT_MEASURED;
  for (const [scale, unit] of SIZES) {
    if (Math.abs(bytes) >= scale) return `${threeDigits(bytes / scale)} ${unit}`;
  }
  return `${Math.round(bytes)} B`;
}

/**
 * A kernel's name without the type before it and the parameters behind it.
 * @param {string} name
 */
export function kernelName(name) {
  const text = name.replaceAll("(anonymous namespace)::", "");
  let [depth, begin] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "<") depth++;
    else if (text[at] === ">") depth -= depth ? 1 : 0;
    else if (text[at] === " " && !depth) begin = at + 1;
    else if (text[at] === "(" && !depth) return text.slice(begin, at) || text;
  }
  return text;
}

/** Types, and wrappers that many kernels share: they tell none from another. */
const SHARED =
  /^(?:void|float\d?|double|int|long|short|char|bool|unsigned|signed|const|true|false|half|__half|BFloat16|Half|complex|lambda|gpu_kernel_impl\w*|OpaqueType|TensorListMetadata|ReduceOp|func_wrapper_t|[Aa]rray|tuple|BinaryFunctor|[AB]UnaryFunctor)$/;

/**
 * A kernel's own name, with the functor or tile in its template parameters that tells it from others.
 * @param {string} name
 */
export function shortKernel(name) {
  const [own, ...inside] = kernelName(name)
    .replace(/\b(?:\w+::)+/g, "")
    .split("<");
  const told = inside
    .join("<")
    .match(/[A-Za-z_]\w*/g)
    ?.find((word) => !SHARED.test(word));
  const text = told ? `${own.trim()}<${told}>` : own.trim();
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** @param {Measured} frac */
export function percent(frac) {
  if (frac === null || frac === undefined) return NOT_MEASURED;
  return `${(frac * 100).toFixed(1)}%`;
}

/**
 * Two shares as one text: "49–63%"; from nothing on, "up to 63%".
 * @param {number} low
 * @param {number} high
 */
export function percentRange(low, high) {
  const digits = high < 0.1 ? 1 : 0;
  const [from, to] = [(low * 100).toFixed(digits), (high * 100).toFixed(digits)];
  if (from === to) return `${to}%`;
  return Number(from) === 0 ? `up to ${to}%` : `${from}–${to}%`;
}

/** @param {Measured} value */
export function count(value) {
  if (value === null || value === undefined) return NOT_MEASURED;
  return Math.round(value).toLocaleString("en-US");
}

/** @param {Measured} value */
export function number(value) {
  if (value === null || value === undefined) return NOT_MEASURED;
  if (Number.isInteger(value)) return count(value);
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/** @param {Measured} rate */
export function perSecond(rate) {
  return rate === null || rate === undefined ? NOT_MEASURED : `${number(rate)}/s`;
}

/** @type {[string, (value: number) => string][]} */
const BY_SUFFIX = [
  ["_ns", duration],
  ["_bytes", size],
  ["_frac", percent],
  ["_per_s", perSecond],
  ["_count", (value) => (Number.isInteger(value) ? count(value) : threeDigits(value))],
];

/**
 * Formats an evidence entry by the unit that its key ends in.
 * @param {string} key
 * @param {unknown} value
 * @returns {[label: string, text: string]}
 */
export function evidence(key, value) {
  const [suffix, format] = BY_SUFFIX.find(([end]) => key.endsWith(end)) ?? ["", number];
  const label = key.slice(0, key.length - suffix.length).replaceAll("_", " ");
  return [label, typeof value === "number" ? format(value) : String(value)];
}

/** @param {number} unixNs */
export function date(unixNs) {
  return new Date(unixNs / 1e6).toLocaleString("en-GB", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}
