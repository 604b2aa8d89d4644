// A run that ran out of device memory: the message, what filled it, one change.

import { code, h, shorten } from "../dom.js";
import { size } from "../format.js";

const GIB = 2 ** 30;
const ASKED = /Tried to allocate ([\d.]+) (MiB|GiB)/;
const WHOLE = /total capacity of ([\d.]+) (MiB|GiB)/;

/**
 * @param {import("../app.js").Context} context
 * @param {string | null | undefined} error How the session ended.
 * @returns {Promise<HTMLElement | null>} Null where it ended otherwise.
 */
export async function outOfMemory(context, error) {
  if (!error?.includes("OutOfMemoryError")) return null;
  const sites = await context.get("memory_sites").catch(() => ({}));
  const device = sites.devices?.[0];
  const batch = context.header.loader?.batch_size;
  const [asked, whole] = [bytes(ASKED, error), bytes(WHOLE, error)];
  // A tensor larger than the device is a wrong shape: no batch size makes room for it.
  const single = Boolean(asked && whole && asked > whole);
  const change = batch > 1 && !single ? `DataLoader(..., batch_size=${Math.floor(batch / 2)})` : null;
  return h(
    "section.card.hero.failed",
    { "aria-label": "Out of memory" },
    h(
      "div.hero-cause",
      null,
      h("span.label", null, "This run ended"),
      h(
        "strong.title",
        null,
        `Out of memory${asked ? `: ${size(asked)} more did not fit` : ""}${whole ? ` in ${size(whole)}` : ""}`,
      ),
      h(
        "p",
        null,
        single
          ? "One tensor is larger than the whole device: correct the shapes where it is made, at the end of the traceback."
          : "Halve the batch, and accumulate gradients over two to keep its effect.",
      ),
      change && code(`${change}\nTrainer(..., accumulate_grad_batches=2)`),
      device && h("p", null, `It held ${size(device.peak_bytes)}: ${filled(device)}.`),
      device &&
        context.state.view !== "memory" &&
        h("button.link", { onclick: () => context.go({ view: "memory" }) }, "Show the lines that hold the memory"),
      h("p.note", null, shorten(error, 300)),
    ),
  );
}

/** The kinds and the line that hold the most at the peak. @param {any} device */
function filled(device) {
  const kinds = Object.entries(device.kind_bytes)
    .filter(([, held]) => Number(held) > 0.01 * device.peak_bytes)
    .sort(([, a], [, b]) => Number(b) - Number(a));
  const texts = kinds.slice(0, 3).map(([kind, held]) => `${kind.replaceAll("_", " ")} ${size(Number(held))}`);
  const [line] = device.sites;
  if (line?.file) texts.push(`the most at ${line.file}:${line.line} (${size(line.bytes)})`);
  return texts.join(", ");
}

/**
 * @param {RegExp} form
 * @param {string} text
 */
function bytes(form, text) {
  const found = form.exec(text);
  return found && Number(found[1]) * (found[2] === "GiB" ? GIB : 2 ** 20);
}
