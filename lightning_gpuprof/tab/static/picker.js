// A labelled list from which one entry is picked.

import { h, shorten } from "./dom.js";

/**
 * @param {object} spec
 * @param {string} spec.label
 * @param {[value: string, text: string][]} spec.options
 * @param {string} spec.value Of the picked entry.
 * @param {(value: string) => void} spec.pick
 * @param {string} [spec.id]
 */
export function picker({ label, options, value, pick, id }) {
  const select = h(
    "select",
    {
      id,
      onchange: (/** @type {Event} */ event) => {
        pick(options[/** @type {HTMLSelectElement} */ (event.target).selectedIndex][0]);
      },
    },
    options.map(([option, text]) => h("option", { selected: option === value }, shorten(text, 80))),
  );
  // `h` escapes invisible characters in attributes, but the value that is sent back must be unchanged.
  [...select.children].forEach((child, index) => {
    /** @type {HTMLOptionElement} */ (child).value = options[index][0];
  });
  return h("label.picker", null, h("span", null, label), select);
}
