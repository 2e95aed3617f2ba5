// The timeline by keyboard: rows, their activities one by one, and the part of the time that is shown.

function startKeys(timeline, page) {
  const { view, tree } = page;
  let span = -1;

  const tell = (words) => {
    byId("reading").textContent = spoken(words);
  };
  const choose = (by) => {
    const rows = timeline.visible;
    const at = Math.min(rows.length - 1, Math.max(0, rows.indexOf(timeline.chosen) + by));
    timeline.chosen = rows[at];
    span = -1;
    timeline.bring(timeline.chosen);
    const row = tree.rows[timeline.chosen];
    tell([row.name, [[null, `${percent(row.critical)} of the critical path`]]]);
  };
  const step = (by) => {
    const row = tree.rows[timeline.chosen];
    if (!row || row.worker < 0) return;
    const [first, end] = page.ranges[row.worker];
    if (first === end) return;
    const next = span < 0 ? firstAfter(page.spans, [first, end], view.start) : span + by;
    span = Math.min(end - 1, Math.max(first, next));
    const [start, length] = [page.spans.start[span], page.spans.length[span]];
    if (start < view.start || start + length > view.end) {
      const middle = start + length / 2;
      const half = Math.max(view.end - view.start, 2 * length) / 2;
      view.show(...within(middle - half, middle + half, view.length));
    }
    timeline.mark(start, start + length);
    tell(spanWords(page, span));
  };
  const acts = {
    "+": () => view.zoom(2),
    "=": () => view.zoom(2),
    "-": () => view.zoom(0.5),
    0: () => view.showAll(),
    ArrowLeft: () => view.move(-0.2),
    ArrowRight: () => view.move(0.2),
    ArrowUp: () => choose(-1),
    ArrowDown: () => choose(timeline.chosen < 0 ? 0 : 1),
    Enter: () => timeline.chosen >= 0 && tree.folds(timeline.chosen) && timeline.turn(timeline.chosen),
    n: () => step(1),
    p: () => step(-1),
    Escape: () => {
      timeline.chosen = -1;
      timeline.mark(null);
      timeline.later();
    },
  };
  byId("scroll").addEventListener("keydown", (event) => {
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    const onButton = event.target !== byId("scroll") && event.key === "Enter";
    if (!act || onButton || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
}
