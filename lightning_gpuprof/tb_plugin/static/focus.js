// Keeps the keyboard, and what was unfolded, as it was while a part of the page is drawn anew.

const FOCUSABLE = "a[href], button, select, input, summary, [tabindex]";

/**
 * Draws, then focuses what stands where the focused element stood: the same kind and name.
 * Where it is still the same view, what was unfolded is again.
 * @param {Element} root
 * @param {() => void} draw
 */
export function keepFocus(root, draw) {
  const active = document.activeElement;
  const name = active && root.contains(active) && active !== root ? nameOf(active) : null;
  const number = name === null ? -1 : alike(root, name).indexOf(/** @type {Element} */ (active));
  const cursor = active instanceof HTMLInputElement && active.type === "search" ? active.selectionStart : null;
  const title = titleOf(root);
  const open = [...root.querySelectorAll("details")].map((one) => one.open);
  draw();
  const folds = [...root.querySelectorAll("details")];
  if (titleOf(root) === title && folds.length === open.length) folds.forEach((one, i) => (one.open ||= open[i]));
  if (name === null) return;
  const again = /** @type {HTMLElement | undefined} */ (alike(root, name)[number]);
  again?.focus({ preventScroll: true });
  if (cursor !== null && again instanceof HTMLInputElement) again.setSelectionRange(cursor, cursor);
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
  return [...root.querySelectorAll(FOCUSABLE)].filter((one) => nameOf(one) === name);
}

/** @param {Element} element */
function nameOf(element) {
  const text = element instanceof HTMLSelectElement ? element.labels[0]?.firstElementChild?.textContent : element.textContent;
  return `${element.tagName} ${element.getAttribute("aria-label") ?? text?.trim() ?? ""}`;
}
