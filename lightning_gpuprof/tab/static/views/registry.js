// The views in the order of their tabs.

import { compare } from "./compare.js";
import { memory } from "./memory.js";
import { operators } from "./operators.js";
import { overview } from "./overview.js";
import { ranks } from "./ranks.js";
import { roofline } from "./roofline.js";
import { runs } from "./runs.js";
import { steps } from "./steps.js";
import { timeline } from "./timeline.js";
import { traces } from "./traces.js";

/**
 * @typedef {object} View
 * @property {string} id In the address.
 * @property {string} label
 * @property {string} about One sentence on what it shows, and by which clock.
 * @property {(context: import("../app.js").Context) => Promise<Node>} render
 */

/** @type {View[]} */
export const VIEWS = [overview, steps, timeline, operators, roofline, memory, ranks, compare, runs, traces];
