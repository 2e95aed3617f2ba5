// Rows of the timeline as a tree that folds.

const AT_FIRST = 24; // rows that are visible at the beginning, if their tree allows it

class Tree {
  /** rows: [name, parent, worker]. critical: by worker. */
  constructor(rows, critical, most = AT_FIRST) {
    this.rows = rows.map(([name, parent, worker]) => ({ name, parent, worker, parts: [], workers: [], critical: 0, depth: 0 }));
    this.top = [];
    this.rows.forEach((row, at) => {
      row.at = at;
      row.depth = row.parent < 0 ? 0 : this.rows[row.parent].depth + 1;
      (row.parent < 0 ? this.top : this.rows[row.parent].parts).push(at);
      if (row.worker < 0) return;
      for (let above = at; above >= 0; above = this.rows[above].parent) {
        this.rows[above].workers.push(row.worker);
        this.rows[above].critical += critical[row.worker];
      }
    });
    this.open = new Set();
    this.unfoldUpTo(most);
  }

  /** Unfold level by level as long as no more than `most` rows are visible. */
  unfoldUpTo(most) {
    for (;;) {
      const more = this.visible().filter((at) => this.folds(at) && !this.open.has(at));
      const after = this.visible().length + more.reduce((sum, at) => sum + this.rows[at].parts.length, 0);
      if (!more.length || after > most) return;
      more.forEach((at) => this.open.add(at));
    }
  }

  folds(at) {
    return this.rows[at].parts.length > 0;
  }

  turn(at) {
    if (!this.open.delete(at)) this.open.add(at);
  }

  foldAll() {
    this.open.clear();
  }

  unfoldAll() {
    this.rows.forEach((row, at) => this.folds(at) && this.open.add(at));
  }

  /** Unfold what is above a row. */
  reveal(at) {
    for (let above = this.rows[at].parent; above >= 0; above = this.rows[above].parent) this.open.add(above);
  }

  /** The visible rows. filter: part of a name; by: "name" or "critical". */
  visible(filter = "", by = "name") {
    const wanted = filter.trim().toLowerCase();
    const matching = new Set();
    if (wanted) {
      this.rows.forEach((row, at) => {
        if (!row.name.toLowerCase().includes(wanted)) return;
        for (let above = at; above >= 0; above = this.rows[above].parent) matching.add(above);
      });
    }
    const found = [];
    const add = (places, within) => {
      const order = by === "critical" ? [...places].sort((a, b) => this.rows[b].critical - this.rows[a].critical || a - b) : places;
      for (const at of order) {
        const named = this.rows[at].name.toLowerCase().includes(wanted);
        if (wanted && !within && !matching.has(at)) continue;
        found.push(at);
        const inside = wanted && !within && !named; // a part of it is looked for
        if (this.open.has(at) || inside) add(this.rows[at].parts, within || (wanted && named));
      }
    };
    add(this.top, false);
    return found;
  }
}
