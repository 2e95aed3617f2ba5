// Which part of the time is shown. Everything that has an axis of time shares one view.

const SHORTEST = 1_000; // ns

class View {
  constructor(length) {
    this.length = Math.max(length, SHORTEST);
    this.start = 0;
    this.end = this.length;
    this.watchers = [];
  }

  /** Call a function after every change. */
  watch(tell) {
    this.watchers.push(tell);
  }

  /** Show a part; it is moved and cut to fit. */
  show(start, end) {
    const least = Math.min(SHORTEST, this.length);
    const width = Math.min(this.length, Math.max(least, end - start));
    const from = Math.min(Math.max(0, start - (width - (end - start)) / 2), this.length - width);
    this.start = from;
    this.end = from + width;
    for (const tell of this.watchers) tell();
  }

  showAll() {
    this.show(0, this.length);
  }

  /** Make the part shorter by a factor (longer below 1); `at`, from 0 to 1, stays where it is. */
  zoom(factor, at = 0.5) {
    const width = Math.min(this.length, Math.max(SHORTEST, (this.end - this.start) / factor));
    const fixed = this.start + at * (this.end - this.start);
    this.show(fixed - at * width, fixed + (1 - at) * width);
  }

  /** Move by a share of what is shown. */
  move(share) {
    const width = this.end - this.start;
    const from = Math.min(Math.max(0, this.start + share * width), this.length - width);
    this.show(from, from + width);
  }
}
