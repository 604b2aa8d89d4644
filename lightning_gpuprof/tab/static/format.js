// Formats values by their unit, for all browser modules.
//
// report/format.py does the same in Python; tests/data/format_cases.json holds both to the same texts.

import { PHASES } from "./labels.js";

/** @typedef {import("./payloads").Unit} Unit */
/** @typedef {import("./payloads").Value} Value */
/** @typedef {import("./payloads").Place} Place */
/** @typedef {import("./payloads").Interval} Interval */
/** @typedef {number | null | undefined} Measured */
/** @typedef {readonly (readonly [number, string])[]} Scales */

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
const NOT_MEASURED = "-";
const SIGNIFICANT = 4;
const SMALLEST = 1e-4;
/** Enough digits to write any double below a million exactly. */
const EXACT_DIGITS = 60;

/** @type {Record<string, string>} */
const STATES = { good: "ok", bad: "bad", look: "look", neutral: "", not_measured: NOT_MEASURED };

/**
 * Formats a value of a document by its unit, a share in a column with the column's decimals.
 * @param {Value | undefined} value
 * @param {Unit} unit
 * @param {number | null} [decimals]
 * @returns {string}
 */
export function shown(value, unit, decimals) {
  if (value === null || value === undefined) return NOT_MEASURED;
  if (typeof value === "object") {
    if (value.type === "quantity") return shown(value.value, value.unit);
    return value.type === "place" ? placeName(value) : interval(value, unit);
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return unit === "state" ? (STATES[value] ?? value) : value;
  return quantity(value, unit, decimals);
}

/**
 * The decimals with which the shares in a column stay aligned; null for other units.
 * @param {(Value | undefined)[]} values
 * @param {Unit} unit
 */
export function columnDecimals(values, unit) {
  if (unit !== "frac" && unit !== "change_frac") return null;
  return percentDecimals(...values.filter((value) => typeof value === "number"));
}

/**
 * Where something is as text, without the line's source.
 * @param {Place} place
 */
export function placeName(place) {
  const file = place.short_file || place.file;
  if (file) return isMeasured(place.line) ? `${file}:${place.line}` : file;
  const rank = isMeasured(place.rank) ? `rank ${place.rank}` : "";
  const names = [place.name || place.kernel, rank].filter(Boolean).join(" ");
  return names || (place.phase ? (PHASES[place.phase]?.[0] ?? place.phase) : "");
}

/**
 * @param {Interval} interval
 * @param {Unit} unit
 */
function interval({ low, high }, unit) {
  switch (unit) {
    case "frac":
      return percentRange(low, high);
    case "change_frac": {
      const decimals = percentDecimals(Math.max(Math.abs(low), Math.abs(high)));
      return between(quantity(low, unit, decimals), quantity(high, unit, decimals), false);
    }
    case "ns":
      return range(low, high, TIMES, "ns");
    case "bytes":
      return range(low, high, SIZES, "B");
    case "bytes_per_s":
      return `${range(low, high, SIZES, "B")}/s`;
    default:
      return between(quantity(low, unit), quantity(high, unit), low === 0 && high > 0);
  }
}

/**
 * An interval in one unit, with as few digits as its width supports: `interval_text` of units.py.
 * @param {number} low
 * @param {number} high
 * @param {Scales} scales
 * @param {string} base
 */
function range(low, high, scales, base) {
  const [scale, unit] = scaleOf(Math.max(Math.abs(low), Math.abs(high)), scales, base);
  const decimals = rangeDecimals(low / scale, high / scale, scale);
  const [from, to] = [toDigits(low / scale, decimals), toDigits(high / scale, decimals)];
  return between(`${from} ${unit}`, `${to} ${unit}`, Number(from) === 0 && Number(to) > 0);
}

/**
 * The decimals of an interval's ends: the first digit of its width, and of the larger end two to three digits.
 * Below zero, ends are rounded to tens and so on.
 * @param {number} low
 * @param {number} high
 * @param {number} scale
 */
function rangeDecimals(low, high, scale) {
  const largest = exponentOf(Math.max(Math.abs(low), Math.abs(high)));
  const byWidth = high > low ? -exponentOf(high - low) : 2 - largest;
  const decimals = Math.min(Math.max(byWidth, 1 - largest), 2 - largest);
  return scale > 1 ? decimals : Math.min(decimals, 0);
}

/**
 * Rounds to decimals; no whole number to fewer than two digits, or three if the first is 1.
 * @param {number} value
 * @param {number} decimals
 */
function toDigits(value, decimals) {
  const digits = Math.abs(value).toExponential(2).startsWith("1") ? 3 : 2;
  const own = Math.max(decimals, Math.min(0, digits - 1 - exponentOf(value)));
  if (own < 0) return String(Number(rounded(value / 10 ** -own, 0)) * 10 ** -own);
  const text = rounded(value, own);
  return Number(text) ? text : text.replace("-", "");
}

/** The power of ten of a number's first digit, once rounded to three digits. @param {number} value */
function exponentOf(value) {
  return Number(value.toExponential(2).split("e")[1]);
}

/**
 * Joins the ends of an interval, the unit written once where both have the same.
 * @param {string} low
 * @param {string} high
 * @param {boolean} fromNothing
 */
function between(low, high, fromNothing) {
  if (low === high) return high;
  if (fromNothing) return `up to ${high}`;
  const [number, unit] = low.split(" ");
  return `${unit && high.endsWith(` ${unit}`) ? number : low} to ${high}`;
}

/**
 * @param {number} value
 * @param {Unit} unit
 * @param {number | null} [decimals]
 */
function quantity(value, unit, decimals) {
  switch (unit) {
    case "ns":
      return duration(value);
    case "bytes":
      return size(value);
    case "bytes_per_s":
      return `${size(value)}/s`;
    case "per_s":
      return `${count(value)}/s`;
    case "frac":
      return percent(value, decimals);
    case "change_frac":
      return `${value >= 0 ? "+" : ""}${percent(value, decimals)}`;
    case "unix_ns":
      return utc(value);
    case "count":
      return count(value);
    default:
      return number(value);
  }
}

/** @param {Measured} ns */
export function duration(ns) {
  return isMeasured(ns) ? scaled(ns, TIMES, "ns") : NOT_MEASURED;
}

/** @param {Measured} bytes */
export function size(bytes) {
  return isMeasured(bytes) ? scaled(bytes, SIZES, "B") : NOT_MEASURED;
}

/**
 * @param {number} value
 * @param {Scales} scales
 * @param {string} base
 */
function scaled(value, scales, base) {
  const [scale, unit] = scaleOf(value, scales, base);
  return `${scale > 1 ? threeDigits(value / scale) : rounded(value, 0)} ${unit}`;
}

/**
 * The largest unit of which a value is at least one, once rounded to three digits.
 * @param {number} value
 * @param {Scales} scales
 * @param {string} base
 * @returns {readonly [number, string]}
 */
function scaleOf(value, scales, base) {
  return scales.find(([scale]) => Math.abs(value) >= 0.9995 * scale) ?? [1, base];
}

/**
 * A share, with as many decimals as it needs alone.
 * @param {Measured} frac
 * @param {number | null} [decimals]
 */
export function percent(frac, decimals) {
  return isMeasured(frac) ? `${rounded(frac * 100, decimals ?? percentDecimals(frac))}%` : NOT_MEASURED;
}

/**
 * How many decimals shares need that are read together: one below a tenth, and just below 100%.
 * @param {...number} fracs
 */
function percentDecimals(...fracs) {
  const needsOne = fracs.map(Math.abs).some((frac) => (frac > 0 && frac < 0.0995) || (frac >= 0.995 && frac < 1));
  return needsOne ? 1 : 0;
}

/**
 * @param {number} low
 * @param {number} high
 */
function percentRange(low, high) {
  const digits = Math.abs(high) < 0.1 ? 1 : 0;
  const [from, to] = [rounded(low * 100, digits), rounded(high * 100, digits)];
  if (from === to) return `${to}%`;
  return Number(from) === 0 ? `up to ${to}%` : `${from} to ${to}%`;
}

/**
 * A count, or a mean of counts with three significant digits.
 * @param {Measured} value
 */
export function count(value) {
  if (!isMeasured(value)) return NOT_MEASURED;
  return grouped(rounded(value, Number.isInteger(value) ? 0 : decimalsOfThreeDigits(value)));
}

/**
 * A plain number with four significant digits.
 * @param {Measured} value
 */
export function number(value) {
  if (!isMeasured(value)) return NOT_MEASURED;
  if (Number.isInteger(value)) return grouped(value.toFixed(0));
  if (Math.abs(value) < SMALLEST) {
    const [digits, exponent] = value.toExponential(SIGNIFICANT - 1).split("e");
    return `${withoutZeros(digits)}e${Number(exponent)}`;
  }
  const decimals = Math.max(0, SIGNIFICANT - 1 - Math.floor(Math.log10(Math.abs(value))));
  return withoutZeros(grouped(rounded(value, decimals)));
}

/** A moment in the reader's time zone. @param {number} unixNs */
export function date(unixNs) {
  return new Date(unixNs / 1e6).toLocaleString("en-GB", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}

/** @param {number} unixNs */
function utc(unixNs) {
  return `${new Date(unixNs / 1e6).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/**
 * @param {Measured} value
 * @returns {value is number}
 */
function isMeasured(value) {
  return value !== null && value !== undefined;
}

/** @param {number} value */
function threeDigits(value) {
  return rounded(value, decimalsOfThreeDigits(value));
}

/** @param {number} value */
function decimalsOfThreeDigits(value) {
  return Math.max(0, 3 - String(Math.trunc(Math.abs(value))).length);
}

/**
 * Rounds to decimals, and a tie to the even digit as Python does; `toFixed` rounds ties up.
 * @param {number} value
 * @param {number} decimals
 */
function rounded(value, decimals) {
  const text = value.toFixed(decimals);
  if (Math.abs(value) >= 1e6) return text;
  const exact = value.toFixed(EXACT_DIGITS);
  const end = exact.length - EXACT_DIGITS + decimals;
  if (!/^50*$/.test(exact.slice(end))) return text;
  const down = exact.slice(0, decimals ? end : end - 1);
  return /[02468]$/.test(down) ? down : text;
}

/** Separates thousands. @param {string} digits */
function grouped(digits) {
  const [whole, decimals] = digits.split(".");
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return decimals ? `${groups}.${decimals}` : groups;
}

/** @param {string} digits */
function withoutZeros(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
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

/** Types, and wrappers that many kernels share: they distinguish no kernel from another. */
const SHARED = new RegExp(
  "^(?:void|float\\d?|double|int|long|short|char|bool|unsigned|signed|const|true|false|half|__half|BFloat16|Half|" +
    "complex|lambda|gpu_kernel_impl\\w*|OpaqueType|TensorListMetadata|ReduceOp|func_wrapper_t|[Aa]rray|tuple|" +
    "BinaryFunctor|[AB]UnaryFunctor)$",
);

/**
 * A kernel's own name, with the functor or tile in its template parameters that distinguishes it.
 * @param {string} name
 */
export function shortKernel(name) {
  const [own, ...parameters] = kernelName(name)
    .replace(/\b(?:\w+::)+/g, "")
    .split("<");
  const words = parameters.join("<").match(/[A-Za-z_]\w*/g) ?? [];
  const functor = words.find((word) => !SHARED.test(word));
  const text = functor ? `${own.trim()}<${functor}>` : own.trim();
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
