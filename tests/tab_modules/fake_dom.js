// As much of a browser's document as the modules need to build a page: elements, texts, attributes, events.

class FakeNode {
  constructor() {
    /** @type {FakeNode[]} */
    this.childNodes = [];
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = [new FakeText(text)];
  }

  append(...nodes) {
    this.childNodes.push(...nodes.map((node) => (node instanceof FakeNode ? node : new FakeText(node))));
  }

  replaceChildren(...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }
}

class FakeText extends FakeNode {
  constructor(text) {
    super();
    this.text = String(text);
  }

  get textContent() {
    return this.text;
  }
}

class FakeElement extends FakeNode {
  constructor(tag) {
    super();
    this.tag = tag;
    this.className = "";
    this.hidden = false;
    this.attributes = {};
    this.listeners = {};
    this.properties = {};
    this.style = { setProperty: (name, value) => (this.properties[name] = value) };
  }

  get children() {
    return this.childNodes.filter((node) => node instanceof FakeElement);
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  getAttribute(name) {
    return this.attributes[name] ?? null;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }

  /** Calls the listener of an event, as a click or typing does. */
  fire(name, event = { target: this }) {
    this.listeners[name](event);
  }

  /** All elements below this one that have a tag and all of the classes, as in "td.name". */
  all(spec) {
    const [tag, ...classes] = spec.split(".");
    const has = (node) =>
      (!tag || node.tag === tag) && classes.every((name) => node.className.split(" ").includes(name));
    return this.children.flatMap((node) => [...(has(node) ? [node] : []), ...node.all(spec)]);
  }

  /** The texts of these elements. */
  texts(spec) {
    return this.all(spec).map((node) => node.textContent);
  }
}

globalThis.Node = FakeNode;
globalThis.document = {
  createElement: (tag) => new FakeElement(tag),
  createElementNS: (_, tag) => new FakeElement(tag),
};

/** An element that holds what was drawn. */
export function box(...children) {
  const root = new FakeElement("div");
  root.append(...children.flat().filter((child) => child));
  return root;
}
