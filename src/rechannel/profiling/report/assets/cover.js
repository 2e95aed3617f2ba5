// How much of each column of pixels every kind of activity covers, in one row of the timeline.

class Cover {
  constructor(kinds) {
    this.kinds = kinds;
    this.width = 0;
  }

  /** Start a row of `width` columns. */
  clear(width) {
    if (width !== this.width) {
      this.width = width;
      this.parts = Array.from({ length: this.kinds }, () => new Float32Array(width));
      this.path = new Float32Array(width);
      this.used = new Set();
    }
    for (const kind of this.used) this.parts[kind].fill(0);
    this.used.clear();
    this.path.fill(0);
  }

  /** Add a span. from, to: columns, with fractions. part: of the row's height. path: 0 to 1. */
  add(kind, from, to, part, path) {
    const first = Math.max(0, Math.floor(from));
    const last = Math.min(this.width - 1, Math.ceil(to) - 1);
    const share = this.parts[kind];
    this.used.add(kind);
    for (let x = first; x <= last; x += 1) {
      const covered = Math.min(to, x + 1) - Math.max(from, x);
      if (covered <= 0) continue;
      share[x] += part * covered;
      this.path[x] += path * covered;
    }
  }
}

/** Cover a row with the spans of its workers within the view. bright: whether a span is not dimmed, or null. */
function coverRow(cover, row, page, view, width, bright) {
  cover.clear(width);
  const { spans, ranges } = page;
  const scale = width / (view.end - view.start);
  const part = 1 / row.workers.length;
  const dimmed = bright ? page.data.kinds.length : 0;
  for (const worker of row.workers) {
    const [, end] = ranges[worker];
    for (let at = firstAfter(spans, ranges[worker], view.start); at < end && spans.start[at] < view.end; at += 1) {
      const from = (spans.start[at] - view.start) * scale;
      const to = from + spans.length[at] * scale;
      const busy = spans.busy[at] / 1000;
      const kind = spans.kind[at] + (bright && !bright(at) ? dimmed : 0);
      cover.add(kind, from, to, part * busy, (spans.path[at] / 100) * busy);
    }
  }
}
