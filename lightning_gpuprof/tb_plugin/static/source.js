// Where the views' data comes from: TensorBoard's routes, or what an HTML report carries.

/**
 * @typedef {Record<string, string | number | undefined | null>} Params
 * @typedef {object} Source
 * @property {(name: string, params?: Params) => Promise<any>} get Fetches a view's payload.
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
  return {
    url,
    live: true,
    plotly: async () => new URL("plotly.js", base).href,
    async get(name, params) {
      let answer;
      try {
        answer = await fetch(/** @type {string} */ (url(name, params)));
      } catch {
        throw new SourceError("TensorBoard does not answer. Is it still running?");
      }
      const body = await answer.json().catch(() => null);
      if (!answer.ok || body === null) {
        throw new SourceError(body?.error ?? `TensorBoard answered ${answer.status}.`);
      }
      return body;
    },
  };
}
