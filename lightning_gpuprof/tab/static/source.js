// Where the views' data comes from: TensorBoard's routes, or the data in an HTML report.

/** @typedef {import("./payloads").Payloads} Payloads */
/**
 * @typedef {Record<string, string | number | undefined | null>} Params
 * @typedef {object} Source
 * @property {<Name extends keyof Payloads>(name: Name, params?: Params) => Promise<Payloads[Name]>} get
 *   Fetches a view's payload.
 * @property {(name: string, params?: Params) => Promise<ArrayBuffer>} getBinary Fetches columns.
 * @property {(name: string, params?: Params) => string | null} url Where a file lies, null offline.
 * @property {() => Promise<string>} plotly Where a script that defines Plotly can be loaded from.
 * @property {boolean} live Whether asking again can give a newer answer.
 */

/** An answer that says in one sentence why there is nothing to show. */
export class SourceError extends Error {}

/**
 * @param {string} base The plugin's folder as TensorBoard serves it.
 * @returns {Source}
 */
export function httpSource(base) {
  /** @type {Source["url"]} */
  const url = (name, params = {}) => {
    const full = new URL(name, base);
    for (const [key, value] of Object.entries(params)) {
      if (value !== undefined && value !== null && value !== "") {
        full.searchParams.set(key, String(value));
      }
    }
    return full.href;
  };
  const ask = async (/** @type {string} */ name, /** @type {Params | undefined} */ params) => {
    try {
      return await fetch(/** @type {string} */ (url(name, params)));
    } catch {
      throw new SourceError("TensorBoard does not answer. Is it still running?");
    }
  };
  return {
    url,
    live: true,
    plotly: async () => new URL("plotly.js", base).href,
    async get(name, params) {
      const answer = await ask(name, params);
      const body = await answer.json().catch(() => null);
      if (!answer.ok || body === null) throw refusal(answer, body);
      return body;
    },
    async getBinary(name, params) {
      const answer = await ask(name, params);
      if (!answer.ok) throw refusal(answer, await answer.json().catch(() => null));
      return answer.arrayBuffer();
    },
  };
}

/**
 * @param {Response} answer
 * @param {{error?: string} | null} body
 */
function refusal(answer, body) {
  return new SourceError(body?.error ?? `TensorBoard answered ${answer.status}.`);
}
