// The axis of time, and on it what the application numbers: batches, executions, jobs, stages.

const LANE = 17; // height of a line of marks
const AXIS = 22;
const LINES = 3; // lines per kind of mark; more marks at the same time lie on top of each other

/** The distance of ticks, ns, at which about `count` of them are shown: 1, 2 or 5 times a power of ten, or minutes. */
function tickStep(length, count) {
  const raw = length / Math.max(1, count);
  const clock = [6e10, 1.2e11, 3e11, 6e11, 1.2e12, 1.8e12, 3.6e12, 7.2e12, 2.16e13, 4.32e13, DAY];
  if (raw > DAY) return DAY * tickStep(raw / DAY, 1);
  if (raw > 3e10) return clock.find((step) => step >= raw);
  if (raw > 5e9) return [1e10, 1.5e10, 3e10].find((step) => step >= raw);
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((times) => times * power >= raw);
}

/** Marks by kind, each with the line that it lies on. */
function lanesOf(marks) {
  const lanes = new Map();
  for (const [what, number, start, end, name, attempt] of marks) {
    if (!lanes.has(what)) lanes.set(what, { what, marks: [], ends: [] });
    const lane = lanes.get(what);
    let line = lane.ends.findIndex((over) => over <= start);
    if (line < 0) line = lane.ends.length < LINES ? lane.ends.length : lane.ends.indexOf(Math.min(...lane.ends));
    lane.ends[line] = Math.max(end, lane.ends[line] || 0);
    lane.marks.push({ what, number, start, end, name, attempt, line });
  }
  return [...lanes.values()];
}

function markName(mark) {
  return `${mark.what} ${mark.number}${mark.attempt ? ` (attempt ${mark.attempt})` : ""}`;
}

class Lanes {
  constructor(page) {
    this.page = page;
    this.box = byId("lanes");
    this.canvas = this.box.querySelector("canvas");
    this.names = this.box.querySelector(".names");
    this.lanes = lanesOf(page.data.marks);
  }

  /** Draw for a view. left: where the axis begins; above: whether names stand above their lanes. */
  draw(view, left, width, above, ink) {
    const titles = above ? 15 : 0;
    let top = AXIS;
    for (const lane of this.lanes) {
      lane.top = top + titles;
      top = lane.top + lane.ends.length * LANE + 4;
    }
    this.box.style.height = `${top}px`;
    const context = sized(this.canvas, left + width, top);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const x = (time) => left + ((time - view.start) / (view.end - view.start)) * width;
    this.ticks(context, view, x, width, left, top, ink);
    for (const lane of this.lanes) this.marks(context, lane, view, x, left, width, ink);
    this.names.replaceChildren(
      ...this.lanes.map((lane) => {
        const at = above ? `top:${lane.top - 15}px;width:${width}px` : `top:${lane.top}px;width:${left}px`;
        const plural = lane.what === "batch" ? "batches" : `${lane.what}s`;
        return element("span", { style: at }, element("span", { class: "name" }, plural));
      }),
    );
  }

  ticks(context, view, x, width, left, bottom, ink) {
    const step = tickStep(view.end - view.start, width / 110);
    context.fillStyle = ink.faint;
    for (let time = Math.ceil(view.start / step) * step; time <= view.end; time += step) {
      const text = tick(time, step);
      const at = x(time);
      const wide = context.measureText(text).width;
      context.fillRect(at, AXIS - 5, 1, bottom - AXIS + 5 > 0 ? 5 : 0);
      const from = Math.min(Math.max(left + 1, at - wide / 2), left + width - wide - 1);
      if (Math.abs(from - (at - wide / 2)) < wide / 2) context.fillText(text, from, 9);
    }
  }

  marks(context, lane, view, x, left, width, ink) {
    let drawn = {};
    lane.marks.forEach((mark, at) => {
      if (mark.end < view.start || mark.start > view.end) return;
      const from = Math.max(left, x(mark.start));
      const to = Math.min(left + width, Math.max(x(mark.end), from + 1));
      if (to - (drawn[mark.line] ?? -9) < 1) return; // nothing new to see
      drawn[mark.line] = to;
      const y = lane.top + mark.line * LANE;
      context.globalAlpha = at % 2 ? 0.8 : 1;
      context.fillStyle = ink.mark;
      context.fillRect(from, y, Math.max(1, to - from - (to - from > 3 ? 1 : 0)), LANE - 2);
      context.globalAlpha = 1;
      const text = [`${markName(mark)}${mark.name ? `: ${mark.name}` : ""}`, markName(mark), String(mark.number)].find(
        (each) => to - from > 14 && context.measureText(each).width + 8 < to - from,
      );
      context.fillStyle = ink.markText;
      if (text) context.fillText(text, from + 4, y + LANE / 2 - 0.5);
    });
  }

  /** The mark at a point, or null. */
  at(x, y, view, left, width) {
    const time = view.start + ((x - left) / width) * (view.end - view.start);
    const slack = (1.5 / width) * (view.end - view.start);
    for (const lane of this.lanes) {
      const line = Math.floor((y - lane.top) / LANE);
      const found = lane.marks.filter((mark) => mark.line === line && mark.start - slack <= time && time <= mark.end + slack);
      if (found.length) return found[found.length - 1];
    }
    return null;
  }
}
