// A finding, shown where it is: its time, its rows, its operator, its kinds of activity.

function startFindings(page, timeline, changed) {
  for (const button of document.querySelectorAll("[data-finding]")) {
    const finding = page.data.findings[Number(button.dataset.finding)];
    if (!finding) continue;
    button.hidden = false;
    button.addEventListener("click", () => {
      show(page, timeline, finding.at);
      changed();
      byId("time").scrollIntoView({ block: "start" });
      byId("scroll").focus({ preventScroll: true });
      byId("reading").textContent = `shown: ${finding.cause}`;
    });
  }
}

/** at: start and end or null, rows, operator or null, kinds. */
function show(page, timeline, at) {
  const { tree } = page;
  const workers = at.rows.length ? new Set(at.rows.flatMap((row) => tree.rows[row].workers)) : null;
  const kinds = at.kinds.length ? new Set(at.kinds) : undefined;
  page.light = workers || kinds || at.operator !== null ? { operator: at.operator ?? undefined, workers, kinds } : null;
  for (const row of at.rows) tree.reveal(row);
  byId("filter").value = "";
  page.filter = "";
  timeline.chosen = at.rows.length ? at.rows[0] : -1;
  timeline.lay();
  const extent = at.start === null ? extentOf(page, at.operator) : [at.start, at.end];
  timeline.mark(...(at.start === null ? [null] : extent));
  if (extent) timeline.goTo(...extent);
  else page.view.showAll();
  if (at.rows.length) timeline.bring(at.rows[0]);
}

/** When an operator ran; null for no operator. */
function extentOf(page, operator) {
  if (operator === null) return null;
  const { spans } = page;
  let [start, end] = [Infinity, -Infinity];
  for (let at = 0; at < spans.operator.length; at += 1) {
    if (spans.operator[at] !== operator) continue;
    start = Math.min(start, spans.start[at]);
    end = Math.max(end, spans.start[at] + spans.length[at]);
  }
  return start < end ? [start, end] : null;
}
