// The timeline: lanes of marks on top, a row per worker or group of them below. Only rows in sight are drawn.

const BAR = 18; // height of the row of a worker
const GROUP = 28; // of a row with parts
const NARROW = 560; // below this width, names stand above their rows

class Timeline {
  constructor(page) {
    this.page = page;
    this.tree = page.tree;
    this.view = page.view;
    this.frame = byId("frame");
    this.scroll = byId("scroll");
    this.stage = byId("stage");
    this.canvas = this.stage.querySelector("canvas");
    this.lanes = new Lanes(page);
    this.labels = new Labels(this.stage.querySelector(".names"), this.tree, (at) => this.turn(at));
    this.cover = new Cover(2 * page.data.kinds.length);
    this.chosen = -1;
    this.others = []; // what is drawn with the same axis
    this.waits = false;
    this.marked = null;
    this.view.watch(() => this.later());
    this.scroll.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.lay()).observe(this.frame);
    this.listen();
    startKeys(this, page);
  }

  /** Where the axis begins, and its width. */
  axis() {
    return [this.left, this.width];
  }

  /** Compute the places of all rows, and draw. */
  lay() {
    this.visible = this.tree.visible(this.page.filter, this.page.sort);
    const whole = this.scroll.clientWidth;
    this.above = whole < NARROW;
    const wanted = (at) => textWidth(this.tree.rows[at].name) * 1.06 + INDENT * this.tree.rows[at].depth + BESIDE;
    const most = Math.min(320, 0.34 * whole);
    this.left = this.above ? 0 : Math.max(116, Math.min(most, Math.max(...this.visible.map(wanted), 0)));
    this.width = Math.max(1, whole - this.left);
    this.tops = [0];
    for (const at of this.visible) this.tops.push(this.tops[this.tops.length - 1] + this.heights(at).whole);
    const height = this.tops[this.tops.length - 1];
    this.shown = Math.min(height, Math.max(240, Math.round(innerHeight * 0.55)));
    byId("sizer").style.height = `${Math.max(height, 1)}px`;
    this.scroll.style.height = `${this.shown}px`;
    this.stage.style.height = `${this.shown}px`;
    this.later();
  }

  /** Heights of a row: of its name, its bar and both. */
  heights(at) {
    const row = this.tree.rows[at];
    const bar = this.tree.folds(at) ? GROUP : BAR;
    const room = (this.above ? this.width : this.left) - BESIDE - INDENT * row.depth;
    const name = TEXT * linesOf(row.name, room) + 3;
    return { name, bar, whole: this.above ? name + bar : Math.max(name, bar) };
  }

  /** Draw with the next frame of the screen. */
  later() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.draw();
    });
  }

  draw() {
    const ink = inks();
    const { scrollTop } = this.scroll;
    this.lanes.draw(this.view, this.left, this.width, this.above, ink);
    const context = sized(this.canvas, this.left + this.width, this.shown);
    const columns = Math.min(4_000, Math.round(this.width * (devicePixelRatio || 1)));
    const bright = this.page.bright();
    const boxes = new Map();
    for (let i = this.rowAt(scrollTop); i < this.visible.length && this.tops[i] < scrollTop + this.shown; i += 1) {
      const at = this.visible[i];
      const { name, bar, whole } = this.heights(at);
      const top = this.tops[i] - scrollTop;
      const box = { left: this.left, top: top + (this.above ? name : 0) + 1, width: this.width, height: (this.above ? bar : whole) - 2 };
      this.ground(context, box, ink);
      coverRow(this.cover, this.tree.rows[at], this.page, this.view, columns, bright);
      paintRow(context, this.cover, this.page, box, ink);
      boxes.set(at, { left: 0, top, width: this.above ? this.width : this.left, height: this.above ? name : whole });
    }
    this.labels.show(boxes, this.chosen);
    for (const other of this.others) other.draw(this.view, this.left, this.width, this.above, ink);
    this.drawMark();
    Object.assign(this.frame.dataset, { start: this.view.start, end: this.view.end, rows: this.visible.length });
  }

  /** Draw the ground of a row where there are windows. */
  ground(context, box, ink) {
    context.fillStyle = ink.row;
    const scale = box.width / (this.view.end - this.view.start);
    for (const [start, end] of this.page.extents) {
      const from = Math.max(0, (start - this.view.start) * scale);
      const to = Math.min(box.width, (end - this.view.start) * scale);
      if (from < to) context.fillRect(box.left + from, box.top, to - from, box.height);
    }
  }

  /** The place in `visible` of the row at a height. */
  rowAt(height) {
    let [low, high] = [0, this.visible.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  turn(at) {
    this.tree.turn(at);
    this.lay();
  }

  /** Scroll to a row. */
  bring(at) {
    const i = this.visible.indexOf(at);
    if (i < 0) return;
    const { scrollTop } = this.scroll;
    if (this.tops[i] < scrollTop) this.scroll.scrollTop = this.tops[i];
    else if (this.tops[i + 1] > scrollTop + this.shown) this.scroll.scrollTop = this.tops[i + 1] - this.shown;
    this.later();
  }

  /** Mark a part of the time; null for none. */
  mark(start, end) {
    this.marked = start === null ? null : [start, end];
    this.drawMark();
  }

  drawMark() {
    if (!this.marked) {
      if (!this.choosing) byId("chosen").hidden = true;
      return;
    }
    const x = (time) => this.left + Math.min(1, Math.max(0, (time - this.view.start) / (this.view.end - this.view.start))) * this.width;
    this.place(x(this.marked[0]), x(this.marked[1]));
  }

  place(from, to) {
    const box = byId("chosen");
    box.hidden = false;
    box.style.left = `${Math.min(from, to)}px`;
    box.style.width = `${Math.max(1, Math.abs(to - from))}px`;
  }

  /** Show what is chosen while the pointer is dragged; null at its end. */
  choose(from, to) {
    this.choosing = from !== null;
    byId("chosen").classList.toggle("dragged", this.choosing);
    if (from === null) {
      this.drawMark();
      return;
    }
    const { left } = this.frame.getBoundingClientRect();
    const cut = (x) => Math.min(this.left + this.width, Math.max(this.left, x - left));
    this.place(cut(from), cut(to));
  }

  timeAt(event, box) {
    const x = event.clientX - box.getBoundingClientRect().left;
    if (x < this.left || x > this.left + this.width) return null;
    return this.view.start + ((x - this.left) / this.width) * (this.view.end - this.view.start);
  }

  listen() {
    const frame = { view: this.view, axis: () => this.axis(), choose: (from, to) => this.choose(from, to) };
    this.shared = frame;
    const words = (event) => {
      const y = event.clientY - this.scroll.getBoundingClientRect().top + this.scroll.scrollTop;
      const [time, at] = [this.timeAt(event, this.scroll), this.visible[this.rowAt(y)]];
      return time === null || at === undefined ? null : rowWords(this.page, this.tree.rows[at], time);
    };
    this.tells(this.scroll, words, false);
    const { box } = this.lanes;
    const marks = (event) => {
      const place = box.getBoundingClientRect();
      const mark = this.lanes.at(event.clientX - place.left, event.clientY - place.top, this.view, this.left, this.width);
      return mark && markWords(mark);
    };
    this.tells(box, marks, true, (event) => {
      const place = box.getBoundingClientRect();
      const mark = this.lanes.at(event.clientX - place.left, event.clientY - place.top, this.view, this.left, this.width);
      if (mark) this.goTo(mark.start, mark.end);
    });
  }

  /** Show words of what is under the pointer. bare: whether the wheel zooms without Ctrl. */
  tells(box, words, bare, pressed = () => {}) {
    const point = (event) => {
      const told = words(event);
      if (told) tooltip.show(event.clientX, event.clientY, ...told);
      else tooltip.hide();
      return told;
    };
    const press = (event) => {
      const told = point(event);
      if (told) byId("reading").textContent = spoken(told);
      pressed(event);
    };
    listen(box, this.shared, { point, press, bare });
  }

  /** Show a part of the time with some room around it. */
  goTo(start, end) {
    const room = Math.max(0.05 * (end - start), SHORTEST);
    this.view.show(Math.max(0, start - room), Math.min(this.view.length, end + room));
  }
}
