// Keeps the keyboard focus and the unfolded parts when a part of the page is drawn again.

const FOCUSABLE = "a[href], button, select, input, summary, [tabindex]";

/**
 * Draws, then moves the focus to the element of the same kind and name at the same place in their order.
 * If view and run are still the same, the parts that were unfolded are unfolded again.
 * @param {Element} root
 * @param {() => void} draw
 * @param {string} run
 */
export function keepFocus(root, draw, run = "") {
  const active = document.activeElement;
  const name = active && root.contains(active) && active !== root ? nameOf(active) : null;
  const number = name === null ? -1 : alike(root, name).indexOf(/** @type {Element} */ (active));
  const cursor = active instanceof HTMLInputElement && active.type === "search" ? active.selectionStart : null;
  const shown = `${root.getAttribute("data-run")} ${titleOf(root)}`;
  const before = [...foldsOf(root)].map(
    ([words, folds]) => /** @type {const} */ ([words, folds.map((fold) => fold.open)]),
  );
  draw();
  root.setAttribute("data-run", run);
  if (shown === `${run} ${titleOf(root)}`) unfold(foldsOf(root), new Map(before));
  if (name === null) return;
  const again = /** @type {HTMLElement | undefined} */ (alike(root, name)[number]);
  again?.focus({ preventScroll: true });
  if (cursor !== null && again instanceof HTMLInputElement) again.setSelectionRange(cursor, cursor);
}

/**
 * The folded parts by their headings, without the numbers in these, which may have changed.
 * @param {Element} root
 */
function foldsOf(root) {
  /** @type {Map<string, HTMLDetailsElement[]>} */
  const folds = new Map();
  for (const fold of root.querySelectorAll("details")) {
    const words = fold.querySelector("summary")?.textContent?.replace(/\d+/g, "") ?? "";
    folds.set(words, [...(folds.get(words) ?? []), fold]);
  }
  return folds;
}

/**
 * @param {Map<string, HTMLDetailsElement[]>} folds
 * @param {Map<string, boolean[]>} open
 */
function unfold(folds, open) {
  for (const [words, some] of folds) {
    const were = open.get(words);
    if (were?.length === some.length) some.forEach((fold, i) => (fold.open = were[i]));
  }
}

/** @param {Element} root */
function titleOf(root) {
  return root.querySelector("h1")?.textContent;
}

/**
 * @param {Element} root
 * @param {string} name
 */
function alike(root, name) {
  return [...root.querySelectorAll(FOCUSABLE)].filter((element) => nameOf(element) === name);
}

/** @param {Element} element */
function nameOf(element) {
  const text =
    element instanceof HTMLSelectElement ? element.labels[0]?.firstElementChild?.textContent : element.textContent;
  return `${element.tagName} ${element.getAttribute("aria-label") ?? text?.trim() ?? ""}`;
}
