// The call tree, as boxes below their callers; a click makes a box fill the width.

import { annotationColor, ink, kindColor } from "../colors.js";
import { card, h, shorten } from "../dom.js";
import { count, duration, percent } from "../format.js";

const ROW = 19;
const DEEPEST = 28;
const NARROWEST = 0.002;
const MODULE = "nn.Module: ";

/**
 * @typedef {object} CallNode
 * @property {string} name
 * @property {string} kind
 * @property {number} count
 * @property {number} host
 * @property {number} device
 * @property {CallNode[]} children
 */

/**
 * @param {import("../app.js").Context} context
 * @param {import("../payloads").CallTreePayload} calls
 */
export function flame(context, calls) {
  /** @type {{by?: "device" | "host", path?: string[], modules?: boolean}} */
  const state = context.local("flame");
  const device = calls.device_ns.some((ns) => ns > 0);
  const modules = calls.name.some((name) => name.startsWith(MODULE));
  state.by ??= device ? "device" : "host";
  state.path ??= [];
  const whole = tree(calls);
  const boxes = h("div.flame");
  const crumbs = h("p.muted", { "aria-live": "polite" });
  const draw = () => {
    const root = state.modules ? collapse(whole, (node) => node.name.startsWith(MODULE)) : whole;
    const weight = (/** @type {CallNode} */ node) => (state.by === "device" ? node.device : node.host);
    const path = follow(root, state.path ?? []);
    const open = (/** @type {CallNode[]} */ to) => ((state.path = to.slice(1).map((node) => node.name)), draw());
    boxes.replaceChildren(...layOut(path, weight, open));
    crumbs.textContent =
      path.length > 1 ? `${shorten(path[path.length - 1].name, 120)}: a click on a box above it goes back up.` : "";
  };
  /** @type {(label: string, pressed: () => boolean, act: () => void) => HTMLElement} */
  const toggle = (label, pressed, act) => {
    const button = h("button.button", { "aria-pressed": String(pressed()) }, label);
    button.addEventListener("click", () => {
      act();
      [...(button.parentElement?.children ?? [])].forEach((other) => other.dispatchEvent(new Event("gp-update")));
      draw();
    });
    button.addEventListener("gp-update", () => button.setAttribute("aria-pressed", String(pressed())));
    return button;
  };
  draw();
  return card(
    "Call tree",
    "Calls with the same callers summed up over the profiled steps; a click makes one fill the width.",
    h(
      "div.table-tools",
      null,
      device &&
        toggle(
          "Device time",
          () => state.by === "device",
          () => (state.by = "device"),
        ),
      device &&
        toggle(
          "Host time",
          () => state.by === "host",
          () => (state.by = "host"),
        ),
      modules &&
        toggle(
          "Modules only",
          () => Boolean(state.modules),
          () => ((state.modules = !state.modules), (state.path = [])),
        ),
    ),
    crumbs,
    boxes,
  );
}

/** @param {import("../payloads").CallTreePayload} calls @returns {CallNode} */
function tree(calls) {
  /** @type {CallNode[]} */
  const nodes = calls.name.map((name, i) => ({
    name: name.startsWith("ProfilerStep#") ? "ProfilerStep" : name,
    kind: calls.kind[i],
    count: calls.count[i],
    host: calls.host_ns[i],
    device: calls.device_ns[i],
    children: [],
  }));
  const top = nodes.filter((node, i) => calls.parent[i] < 0 || !nodes[calls.parent[i]].children.push(node));
  return rooted(top);
}

/** @param {CallNode[]} children @returns {CallNode} */
function rooted(children) {
  const sum = (/** @type {"host" | "device"} */ key) => children.reduce((total, node) => total + node[key], 0);
  return { name: "all", kind: "annotation", count: 1, host: sum("host"), device: sum("device"), children };
}

/**
 * Leaves out the nodes that do not pass; their callers take over their children.
 * @param {CallNode} root
 * @param {(node: CallNode) => boolean} passes
 */
function collapse(root, passes) {
  /** @type {(nodes: CallNode[]) => CallNode[]} */
  const passing = (nodes) => {
    /** @type {Map<string, CallNode>} */
    const merged = new Map();
    for (const node of nodes.flatMap((node) => {
      const children = passing(node.children);
      return passes(node) ? [{ ...node, children }] : children;
    })) {
      const same = merged.get(node.name);
      if (!same) merged.set(node.name, { ...node });
      else {
        same.count += node.count;
        same.host += node.host;
        same.device += node.device;
        same.children = [...same.children, ...node.children];
      }
    }
    return [...merged.values()];
  };
  return rooted(passing(root.children));
}

/**
 * The nodes along a path of names, as far as the path exists.
 * @param {CallNode} root
 * @param {string[]} names
 */
function follow(root, names) {
  const path = [root];
  for (const name of names) {
    const next = path[path.length - 1].children.find((node) => node.name === name);
    if (!next) break;
    path.push(next);
  }
  return path;
}

/**
 * @param {CallNode[]} path From the root to the node that fills the width.
 * @param {(node: CallNode) => number} weight
 * @param {(path: CallNode[]) => void} open
 */
function layOut(path, weight, open) {
  /** @type {HTMLElement[]} */
  const boxes = [];
  const total = weight(path[path.length - 1]);
  let deepest = 0;
  /** @type {(node: CallNode, above: CallNode[], left: number, width: number, depth: number) => void} */
  const place = (node, above, left, width, depth) => {
    const here = [...above, node];
    deepest = Math.max(deepest, depth);
    boxes.push(box(node, here, left, width, depth, weight(node), weight(path[0]), open));
    if (depth >= DEEPEST) return;
    let at = left;
    for (const child of [...node.children].sort((a, b) => weight(b) - weight(a))) {
      const share = total ? weight(child) / total : 0;
      if (share < NARROWEST || at + share > left + width + 1e-6) continue;
      place(child, here, at, share, depth + 1);
      at += share;
    }
  };
  path
    .slice(0, -1)
    .forEach((node, depth) =>
      boxes.push(box(node, path.slice(0, depth + 1), 0, 1, depth, weight(node), weight(path[0]), open)),
    );
  place(path[path.length - 1], path.slice(0, -1), 0, 1, path.length - 1);
  const height = h("div", { style: { height: `${(deepest + 1) * ROW + 4}px` } });
  return [height, ...boxes];
}

/**
 * @param {CallNode} node
 * @param {CallNode[]} path
 * @param {number} left
 * @param {number} width
 * @param {number} depth
 * @param {number} ns
 * @param {number} whole
 * @param {(path: CallNode[]) => void} open
 */
function box(node, path, left, width, depth, ns, whole, open) {
  const fill = node.kind === "annotation" ? annotationColor(node.name) : kindColor(node.kind);
  const label = `${shorten(node.name, 300)}: ${duration(ns)} (${percent(whole ? ns / whole : 0)}), ${count(node.count)} calls`;
  return h(
    "button.flame-box",
    {
      title: label,
      "aria-label": label,
      onclick: () => open(path),
      style: {
        left: `${left * 100}%`,
        width: `calc(${width * 100}% - 1px)`,
        top: `${depth * ROW}px`,
        background: fill,
        color: ink(fill),
      },
    },
    width > 0.03 ? shorten(node.name, 120) : "",
  );
}
