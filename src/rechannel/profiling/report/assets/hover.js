// What the timeline shows at a point, as a title and lines of [kind or null, text].

const LISTED = 5; // kinds that are listed

/** The span of a worker at a time, or -1. */
function spanAt(page, worker, time) {
  const range = page.ranges[worker];
  const at = firstAfter(page.spans, range, time);
  return at < range[1] && page.spans.start[at] <= time ? at : -1;
}

/** What a span is. */
function spanWords(page, at) {
  const { spans, data } = page;
  const kind = data.kinds[spans.kind[at]];
  const operator = data.operators[spans.operator[at]];
  const merged = spans.count[at] > 1;
  const busy = (spans.length[at] * spans.busy[at]) / 1000;
  return [
    kind.name,
    [
      [kind, merged ? `${numbered(spans.count[at], "activity", "activities")}, most of their time ${kind.name}` : kind.name],
      ...(operator ? [[null, operator]] : []),
      [null, `starts at ${duration(spans.start[at])}, lasts ${duration(spans.length[at])}${merged ? `, ${duration(busy)} of it busy` : ""}`],
      [null, `${percent(spans.critical[at] / 1e9)} of the critical path; on ${spans.path[at]} % of the paths at its time`],
    ],
  ];
}

/** What a row does at a time. */
function rowWords(page, row, time) {
  if (row.worker >= 0) {
    const at = spanAt(page, row.worker, time);
    if (at >= 0) {
      const [, lines] = spanWords(page, at);
      return [row.name, lines];
    }
    const known = page.extents.some(([start, end]) => start <= time && time < end);
    return [row.name, [[null, `at ${duration(time)}: ${known ? "waiting" : "in no window"}`]]];
  }
  const counts = new Map();
  let busy = 0;
  for (const worker of row.workers) {
    const at = spanAt(page, worker, time);
    if (at < 0) continue;
    busy += 1;
    counts.set(page.spans.kind[at], (counts.get(page.spans.kind[at]) || 0) + 1);
  }
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, LISTED);
  const lines = most.map(([kind, count]) => [page.data.kinds[kind], `${page.data.kinds[kind].name}: ${count}`]);
  return [row.name, [[null, `at ${duration(time)}: ${busy} of ${numbered(row.workers.length, "row")} busy`], ...lines]];
}

function markWords(mark) {
  const lines = [[null, `starts at ${duration(mark.start)}, lasts ${duration(mark.end - mark.start)}`]];
  if (mark.name) lines.unshift([null, mark.name]);
  return [markName(mark), lines];
}

/** A title and lines as one sentence, for readers of the screen. */
function spoken([title, lines]) {
  return [title, ...lines.map(([, text]) => text)].join("; ");
}
