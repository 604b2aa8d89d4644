// The current selection, kept in the page's address so that it can be shared.
// TensorBoard reserves `p.<plugin>.<key>` in its own hash for plugins.

const PREFIX = "p.gpuprof.";
/** Changes of the selection that go with another run: what concerns a single run is left out. */
export const OTHER_RUN = Object.fromEntries(
  ["rank", "session", "trace", "view_ns", "event", "find", "snapshot", "from", "to"].map((key) => [key, undefined]),
);

/** The window whose address people copy: TensorBoard's, or this one in a report. */
function shownWindow() {
  try {
    return parent.location.href ? parent : window;
  } catch {
    return window; // framed by a page of another origin
  }
}

/** @returns {Record<string, string>} */
export function readState() {
  /** @type {Record<string, string>} */
  const state = {};
  for (const part of shownWindow().location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=", 2);
    if (key.startsWith(PREFIX) && value !== undefined) {
      try {
        state[key.slice(PREFIX.length)] = decodeURIComponent(value);
      } catch {
        continue; // a hand-made address with a stray percent sign
      }
    }
  }
  return state;
}

/** @param {Record<string, string | undefined>} state */
export function writeState(state) {
  const target = shownWindow();
  const others = target.location.hash
    .slice(1)
    .split("&")
    .filter((part) => part && !part.startsWith(PREFIX));
  const own = Object.entries(state)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${PREFIX}${key}=${encodeURIComponent(/** @type {string} */ (value))}`);
  target.history.replaceState(target.history.state, "", "#" + [...others, ...own].join("&"));
}

/** Calls back when the address is changed by hand. @param {() => void} listener */
export function onStateChanged(listener) {
  shownWindow().addEventListener("hashchange", listener);
}
