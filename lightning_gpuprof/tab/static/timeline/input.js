// Moving about in the timeline with mouse, wheel and keys.

const CLICK_PX = 4;

/** @typedef {import("./widget.js").TimelineWidget} Widget */

/** @param {Widget} widget */
export function listen(widget) {
  const { canvas } = widget;
  /** @type {{x: number, y: number, from: number, to: number, scroll: number, far: boolean} | null} */
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = {
      x: event.clientX,
      y: event.clientY,
      from: widget.from,
      to: widget.to,
      scroll: widget.box.scrollTop,
      far: false,
    };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return widget.hover(event);
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.far ||= Math.abs(dx) + Math.abs(dy) > CLICK_PX;
    if (!drag.far) return;
    const by = (dx / widget.width) * (drag.to - drag.from);
    widget.show(drag.from - by, drag.to - by);
    widget.box.scrollTop = drag.scroll - dy;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.far) widget.click(event);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => (widget.tip.hidden = true));
  canvas.addEventListener("dblclick", (event) => {
    const hit = widget.hit(event);
    if (hit) widget.show(hit.start_ns - hit.dur_ns * 0.2, hit.start_ns + hit.dur_ns * 1.2);
  });
  widget.node.addEventListener("wheel", (event) => wheel(widget, event), { passive: false });
  canvas.addEventListener("keydown", (event) => key(widget, event));
}

/**
 * @param {Widget} widget
 * @param {WheelEvent} event
 */
function wheel(widget, event) {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const left = widget.canvas.getBoundingClientRect().left;
    widget.zoom(Math.exp(event.deltaY * 0.0022), (event.clientX - left) / widget.width);
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    widget.pan((event.deltaX || event.deltaY) / widget.width);
  }
}

/**
 * @param {Widget} widget
 * @param {KeyboardEvent} event
 */
function key(widget, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  /** @type {Record<string, () => void>} */
  const moves = {
    ArrowLeft: () => widget.pan(-0.15),
    a: () => widget.pan(-0.15),
    ArrowRight: () => widget.pan(0.15),
    d: () => widget.pan(0.15),
    "+": () => widget.zoom(0.7),
    "=": () => widget.zoom(0.7),
    w: () => widget.zoom(0.7),
    "-": () => widget.zoom(1.4),
    s: () => widget.zoom(1.4),
    0: () => widget.show(...widget.span),
    "?": () => widget.spec.help(),
  };
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  move();
}
