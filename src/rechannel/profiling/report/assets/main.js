// Everything that is drawn, put together.

/** Whether a span is not dimmed; null if nothing is. */
function brightness(page) {
  const { light, dims, spans } = page;
  if (!light && !dims) return null;
  return (at) =>
    (!dims || spans.path[at] >= 5) &&
    (!light ||
      ((!light.kinds || light.kinds.has(spans.kind[at])) &&
        (light.operator === undefined || spans.operator[at] === light.operator) &&
        (!light.workers || light.workers.has(spans.worker[at]))));
}

async function start() {
  const data = await readData();
  const { spans } = data;
  const page = {
    data,
    spans,
    ranges: rangesOf(spans, data.shares.critical.length),
    extents: extentsOf(data.windows),
    view: new View(data.length),
    tree: new Tree(data.rows, data.shares.critical),
    filter: "",
    sort: "name",
    light: null,
    dims: false,
  };
  page.bright = () => brightness(page);
  byId("time").hidden = false;
  const timeline = new Timeline(page);
  const windows = new Windows(page);
  timeline.others.push(windows);
  timeline.tells(
    windows.box,
    (event) => {
      const time = timeline.timeAt(event, windows.box);
      return time === null ? null : windows.words(time, event.clientY - windows.box.getBoundingClientRect().top);
    },
    true,
  );
  const updates = [];
  const changed = () => {
    byId("clear").hidden = !page.light;
    updates.forEach((update) => update());
    timeline.later();
  };
  updates.push(startLegend(page, changed));
  updates.push(
    drawGraph(page, (vertex) => {
      if (vertex.operator < 0) {
        const row = page.tree.rows.findIndex((each) => each.name === vertex.name);
        show(page, timeline, { start: null, rows: row < 0 ? [] : [row], operator: null, kinds: [] });
      } else if (page.light?.operator === vertex.operator) page.light = null;
      else page.light = { operator: vertex.operator };
      changed();
    }),
  );
  drawChannels(page);
  startFindings(page, timeline, changed);
  startTools(page, timeline, changed);
  timeline.lay();
  startTheme(() => timeline.later());
}

function startTools(page, timeline, changed) {
  const { view, tree } = page;
  const press = (id, act) => byId(id).addEventListener("click", act);
  press("zoom-in", () => view.zoom(2));
  press("zoom-out", () => view.zoom(0.5));
  press("zoom-all", () => view.showAll());
  press("unfold-all", () => {
    tree.unfoldAll();
    timeline.lay();
  });
  press("fold-all", () => {
    tree.foldAll();
    timeline.lay();
  });
  press("clear", () => {
    page.light = null;
    timeline.mark(null);
    changed();
  });
  byId("filter").addEventListener("input", (event) => {
    page.filter = event.target.value;
    timeline.scroll.scrollTop = 0;
    timeline.lay();
  });
  byId("sort").addEventListener("change", (event) => {
    page.sort = event.target.value;
    timeline.lay();
  });
  byId("dim").addEventListener("change", (event) => {
    page.dims = event.target.checked;
    changed();
  });
}

start().catch((error) => {
  const problem = byId("problem");
  problem.hidden = false;
  problem.textContent = `The timeline cannot be drawn by this browser (${error.message}). Findings and tables are complete.`;
  console.error(error);
});
