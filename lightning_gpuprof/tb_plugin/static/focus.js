// Keeps the keyboard where it was while a part of the page is drawn anew.

const FOCUSABLE = "a[href], button, select, input, summary, [tabindex]";

/**
 * Draws, then focuses what stands where the focused element stood: the same kind and name.
 * @param {Element} root
 * @param {() => void} draw
 */
export function keepFocus(root, draw) {
  const active = document.activeElement;
  const name = active && root.contains(active) && active !== root ? nameOf(active) : null;
  const number = name === null ? -1 : alike(root, name).indexOf(/** @type {Element} */ (active));
  const cursor = active instanceof HTMLInputElement && active.type === "search" ? active.selectionStart : null;
  draw();
  if (name === null) return;
  const again = /** @type {HTMLElement | undefined} */ (alike(root, name)[number]);
  again?.focus({ preventScroll: true });
  if (cursor !== null && again instanceof HTMLInputElement) again.setSelectionRange(cursor, cursor);
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
