// Light or dark: TensorBoard decides inside TensorBoard, the reader's system in an HTML report.

const listeners = /** @type {Set<() => void>} */ (new Set());

/** @param {boolean} dark */
function setDark(dark) {
  const wanted = dark ? "dark" : "light";
  if (document.documentElement.dataset.theme === wanted) return;
  document.documentElement.dataset.theme = wanted;
  listeners.forEach((listener) => listener());
}

/** Calls back after each change of theme. @param {() => void} listener */
export function onTheme(listener) {
  listeners.add(listener);
}

export function followTensorBoard() {
  let body;
  try {
    body = parent.document.body;
  } catch {
    return followReader(); // framed by a page of another origin
  }
  const update = () => setDark(body.classList.contains("dark-mode"));
  new MutationObserver(update).observe(body, { attributeFilter: ["class"] });
  update();
}

export function followReader() {
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", () => setDark(query.matches));
  setDark(query.matches);
}

/**
 * The value of a CSS colour variable, for charts and canvases, which CSS does not paint.
 * @param {string} name
 */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
