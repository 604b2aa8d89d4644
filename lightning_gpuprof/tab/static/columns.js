// Cards in two columns of about the same height.

import { h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {{height: number, node: Child}} Spread A card and about how high it is. */

/** The cards of each pair of columns, in reading order. @type {WeakMap<Element, HTMLElement[]>} */
const CARDS = new WeakMap();

/**
 * Spreads cards over two columns, by heights that are estimated until the page has been laid out.
 * @param {Spread[]} spread In reading order.
 */
export function columns(spread) {
  const sides = assign(spread.map(({ height }) => height));
  const nodes = [0, 1].map((side) => spread.filter((_, index) => sides[index] === side).map(({ node }) => node));
  if (!nodes[1].length) return nodes[0].length ? h("div", null, nodes[0]) : null;
  const root = h("div.columns", null, h("div.column", null, nodes[0]), h("div.column", null, nodes[1]));
  const ordered = spread.map(({ node }) => /** @type {HTMLElement} */ (node));
  ordered.forEach((node, index) => node.style.setProperty("order", String(index)));
  CARDS.set(root, ordered);
  return root;
}

/** Spreads the cards of a page again, by their heights as they are now. @param {Element} root */
export function balanceColumns(root) {
  for (const pair of root.querySelectorAll(".columns")) {
    const nodes = CARDS.get(pair);
    const [left, right] = pair.children;
    if (!nodes || !left.clientWidth) continue; // one column, because the page is narrow
    const sides = assign(nodes.map((node) => node.offsetHeight));
    const parts = [0, 1].map((side) => nodes.filter((_, index) => sides[index] === side));
    left.replaceChildren(...parts[0]);
    right.replaceChildren(...parts[1]);
  }
}

/**
 * The column of each card, 0 or 1: the shorter one so far, then cards change sides while that makes the longer column
 * shorter. The first two cards stay beside each other.
 * @param {number[]} heights
 */
export function assign(heights) {
  const totals = [0, 0];
  /** @type {number[]} */
  const sides = heights.map((height) => {
    const side = totals[1] < totals[0] ? 1 : 0;
    totals[side] += height;
    return side;
  });
  for (;;) {
    const longer = totals[1] > totals[0] ? 1 : 0;
    const excess = totals[longer] - totals[1 - longer];
    const movable = heights.map((height, index) => (index > 1 && sides[index] === longer ? height : 0));
    // Moving half of the excess would make the columns equal.
    const gains = movable.map((height) => (height ? excess - Math.abs(excess - 2 * height) : 0));
    const best = gains.indexOf(Math.max(...gains));
    if (best < 0 || gains[best] <= 0) return sides;
    sides[best] = 1 - longer;
    totals[longer] -= heights[best];
    totals[1 - longer] += heights[best];
  }
}

/** By how much one column is longer than the other. @param {number[]} heights */
export function unevenness(heights) {
  const sides = assign(heights);
  return Math.abs(heights.reduce((sum, height, index) => sum + (sides[index] ? -height : height), 0));
}
