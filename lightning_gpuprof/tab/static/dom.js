// Builds elements. Every text becomes a text node, because names in traces may hold markup.

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;

/**
 * Shows control and direction marks as escapes, so that they can neither hide text nor reverse it.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(UNSEEN, (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"));
}

/**
 * @param {unknown} text
 * @param {number} length
 */
export function shorten(text, length) {
  const whole = String(text);
  return whole.length > length ? whole.slice(0, length - 1) + "…" : whole;
}

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * Makes an element: h("p.note", {title: "x"}, "text", child).
 *
 * A prop that begins with "on" is a listener, "style" an object, anything else an attribute
 * (left out if null, undefined or false).
 * @param {string} spec Tag and classes.
 * @param {Props | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * Makes an SVG element, as `h` makes an HTML element.
 * @param {string} spec
 * @param {Props | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(spec, props, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  apply(element, props);
  append(element, children);
  return element;
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Props | null | undefined} props
 */
function apply(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "style") {
      for (const [key, text] of Object.entries(/** @type {object} */ (value)))
        element.style.setProperty(key, String(text));
    } else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
export function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
}

/**
 * A sentence whose code between backticks is shown as code.
 * @param {string} text
 * @returns {Child[]}
 */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", null, part) : part));
}

/**
 * Code with a button that copies it.
 * @param {string} text
 */
export function code(text) {
  return h("div.code-box", null, h("pre.code", null, text), copyButton(text));
}

/**
 * Code with a copy button in one line, cut if it is too long.
 * @param {string} text
 */
export function codeLine(text) {
  return h("div.code-box", null, h("code.one-line", { title: text }, text), copyButton(text));
}

/** @param {string} text */
function copyButton(text) {
  const button = h(
    "button.copy",
    {
      title: "Copy the code",
      onclick: () => copied(text).then((done) => (button.textContent = done ? "Copied" : "Select it")),
    },
    "Copy",
  );
  return button;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>} False where the browser allows no page to copy, as over plain HTTP.
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return withSelection(text);
  }
}

/** @param {string} text */
function withSelection(text) {
  const box = /** @type {HTMLTextAreaElement} */ (h("textarea.sr", null, text));
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
}

/**
 * A section with a heading and a sentence on what it shows.
 * @param {string} title
 * @param {string | Child[] | null | false} note
 * @param {...(Child | Child[])} children
 */
export function card(title, note, ...children) {
  return h(
    "section.card",
    { "aria-label": title },
    h("header.card-head", null, h("h2", null, title), note && h("p.note", null, note)),
    ...children,
  );
}
