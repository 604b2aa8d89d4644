// TensorBoard loads this and calls render() in the plugin's own iframe.

import { mount } from "./app.js";
import { httpSource } from "./source.js";
import { followTensorBoard } from "./theme.js";

export async function render() {
  document.documentElement.lang = "en";
  document.title = "Profile";
  await Promise.all(
    ["style.css", "views.css"].map((name) => addStylesheet(new URL(`static/${name}`, document.baseURI).href)),
  );
  followTensorBoard();
  await mount(document.body, httpSource(document.baseURI));
}

/** @param {string} href */
function addStylesheet(href) {
  return new Promise((done) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = href;
    // If the style sheet cannot be loaded, the page is shown without it.
    link.onload = link.onerror = () => done(undefined);
    document.head.append(link);
  });
}
