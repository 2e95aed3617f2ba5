// Mouse and touch on whatever has the axis of time: the wheel zooms, dragging chooses a part, two fingers zoom.

const CLICK = 4; // pixels that a click may move

/**
 * Listen on an element. frame: { view, axis(): [left, width], choose(from, to) or choose(null) }.
 * point(event): tells what lies there; press(event): a click. bare: whether the wheel zooms without Ctrl.
 */
function listen(box, frame, { point, press, bare }) {
  const { view } = frame;
  const fingers = new Map();
  let begun = null;
  const shareAt = (clientX) => {
    const [left, width] = frame.axis();
    return Math.min(1, Math.max(0, (clientX - box.getBoundingClientRect().left - left) / width));
  };
  const timeAt = (clientX) => view.start + shareAt(clientX) * (view.end - view.start);
  const spread = () => Math.abs([...fingers.values()][0] - [...fingers.values()][1]);

  box.addEventListener(
    "wheel",
    (event) => {
      const zooms = bare || event.ctrlKey || event.metaKey;
      if (!zooms && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      if (zooms) view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), shareAt(event.clientX));
      else view.move(event.deltaX / frame.axis()[1]);
      point(event);
    },
    { passive: false },
  );
  box.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("button")) return;
    fingers.set(event.pointerId, event.clientX);
    begun = { x: event.clientX, y: event.clientY, moves: event.shiftKey || event.pointerType === "touch", start: view.start, end: view.end, gap: fingers.size === 2 ? spread() : 0 };
  });
  box.addEventListener("pointermove", (event) => {
    if (!begun || !fingers.has(event.pointerId)) {
      if (event.pointerType !== "touch") point(event);
      return;
    }
    fingers.set(event.pointerId, event.clientX);
    const far = Math.abs(event.clientX - begun.x) > CLICK;
    if (far && !box.hasPointerCapture(event.pointerId)) box.setPointerCapture(event.pointerId);
    if (fingers.size === 2) {
      const wide = (begun.end - begun.start) * (begun.gap / Math.max(8, spread()));
      const middle = (begun.start + begun.end) / 2;
      view.show(middle - wide / 2, middle + wide / 2);
    } else if (begun.moves) {
      const by = ((begun.x - event.clientX) / frame.axis()[1]) * (begun.end - begun.start);
      if (far) view.show(...within(begun.start + by, begun.end + by, view.length));
    } else if (far) {
      tooltip.hide();
      frame.choose(begun.x, event.clientX);
    }
  });
  const ended = (event) => {
    if (!begun || !fingers.delete(event.pointerId)) return;
    const far = Math.abs(event.clientX - begun.x) > CLICK;
    const chosen = far && !begun.moves && event.type === "pointerup";
    const [from, to] = [timeAt(begun.x), timeAt(event.clientX)].sort((a, b) => a - b);
    if (!far && event.type === "pointerup") press(event);
    if (!fingers.size) begun = null;
    frame.choose(null);
    if (chosen) view.show(from, to);
  };
  box.addEventListener("pointerup", ended);
  box.addEventListener("pointercancel", ended);
  box.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") tooltip.hide(); // a finger that is lifted leaves, too
  });
}

/** A part of the same length that lies within [0, length]. */
function within(start, end, length) {
  const by = start < 0 ? -start : Math.min(0, length - end);
  return [start + by, end + by];
}
