// Boxes that scroll sideways show on which side something is cut.

import { h } from "./dom.js";

const OBSERVER = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(markAll);
/** A box counts as cut only above this, because widths of text are fractions of a pixel. */
const SLACK_PX = 1;

/**
 * A region that scrolls sideways if its content is wider, and says so.
 * @param {string} label
 * @param {HTMLElement} content
 */
export function scrollBox(label, content) {
  const box = h("div.scroll", { role: "region", "aria-label": label }, content);
  watchEdges(box, true);
  return h("div", null, box, h("p.muted.cut-note", null, "Wider than the page: scroll it sideways."));
}

/**
 * Marks a box with the sides on which its content is cut.
 * @param {HTMLElement} box
 * @param {boolean} [isRegion] Whether the keyboard scrolls it while it is cut; not where its content has the focus.
 */
export function watchEdges(box, isRegion = false) {
  const mark = () => markEdges(box, isRegion);
  box.addEventListener("scroll", mark, { passive: true });
  MARKS.set(box, mark);
  OBSERVER?.observe(box);
  if (box.firstElementChild) {
    MARKS.set(box.firstElementChild, mark);
    OBSERVER?.observe(box.firstElementChild);
  }
}

/** @type {WeakMap<Element, () => void>} */
const MARKS = new WeakMap();

/** @param {ResizeObserverEntry[]} entries */
function markAll(entries) {
  new Set(entries.map(({ target }) => MARKS.get(target))).forEach((mark) => mark?.());
}

/**
 * @param {HTMLElement} box
 * @param {boolean} isRegion
 */
function markEdges(box, isRegion) {
  const left = box.scrollLeft > SLACK_PX;
  const right = box.scrollLeft + box.clientWidth < box.scrollWidth - SLACK_PX;
  const cut = left && right ? "both" : left ? "left" : right ? "right" : null;
  setOrRemove(box, "data-cut", cut);
  if (isRegion) setOrRemove(box, "tabindex", cut && "0");
}

/**
 * @param {HTMLElement} box
 * @param {string} name
 * @param {string | null} value
 */
function setOrRemove(box, name, value) {
  if (value) box.setAttribute(name, value);
  else box.removeAttribute(name);
}
