// Hands a trace to ui.perfetto.dev in a new tab; nothing is sent anywhere before the click.

const PERFETTO = "https://ui.perfetto.dev";
const PING_EVERY_MS = 50;
const GIVE_UP_MS = 30_000;

/**
 * @param {string} url The trace file, on this server.
 * @param {string} title
 * @param {(text: string) => void} say Told how it goes, in a sentence.
 */
export async function openInPerfetto(url, title, say) {
  // Opened before the first await, because browsers allow a new window only while they handle a click.
  const target = window.open(PERFETTO);
  if (!target) return say("The browser blocked the new window. Allow pop-ups for this page.");
  say("Loading the trace…");
  const answer = await fetch(url);
  if (!answer.ok) return say("The trace file could not be read.");
  const buffer = await answer.arrayBuffer();
  say("Waiting for Perfetto…");
  const ready = await pong(target, PERFETTO);
  if (!ready) {
    return say("Perfetto did not answer: is ui.perfetto.dev reachable? Download the trace instead.");
  }
  target.postMessage({ perfetto: { buffer, title } }, PERFETTO, [buffer]);
  say("Opened in Perfetto.");
}

/**
 * Shows a trace in the Perfetto UI that this server carries.
 * @param {HTMLIFrameElement} frame On the page.
 * @param {string} page The UI's address.
 * @param {string} url The trace file, on this server.
 * @param {string} title
 * @param {(text: string) => void} say
 */
export async function embedPerfetto(frame, page, url, title, say) {
  say("Loading the trace…");
  // Without this mode the UI assumes that it is served from a wrong address, and shows an error.
  frame.src = `${page}#!/viewer?mode=embedded`;
  const answer = await fetch(url);
  if (!answer.ok) return say("The trace file could not be read.");
  const buffer = await answer.arrayBuffer();
  const target = frame.contentWindow;
  if (!target || !(await pong(target, location.origin))) return say("Perfetto did not start.");
  target.postMessage({ perfetto: { buffer, title } }, location.origin, [buffer]);
  say("");
}

/**
 * Pings the page until it answers, since it listens only after it has loaded.
 * @param {Window} target
 * @param {string} origin
 * @returns {Promise<boolean>}
 */
function pong(target, origin) {
  return new Promise((done) => {
    const end = (/** @type {boolean} */ answer) => {
      clearInterval(timer);
      window.removeEventListener("message", hear);
      done(answer);
    };
    const hear = (/** @type {MessageEvent} */ event) => {
      if (event.source === target && event.origin === origin && event.data === "PONG") end(true);
    };
    const started = Date.now();
    const timer = setInterval(() => {
      if (target.closed || Date.now() - started > GIVE_UP_MS) end(false);
      else target.postMessage("PING", origin);
    }, PING_EVERY_MS);
    window.addEventListener("message", hear);
  });
}
