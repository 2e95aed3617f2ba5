// A matrix of channels: who sends (rows) to whom (columns). Hosts and executors fold.

const SIDE = 28; // rows and columns at most
const SIDE_AT_FIRST = 12;

function drawChannels(page) {
  const { channels, rows, shares } = page.data;
  byId("between").hidden = !channels.length;
  if (!channels.length) return;
  const tree = new Tree(rows, shares.critical, 1);
  tree.unfoldUpTo(SIDE_AT_FIRST);
  const sums = new Array(rows.length).fill(0);
  for (const [from, to, share] of channels) {
    for (const end of [from, to]) for (let at = end; at >= 0; at = tree.rows[at].parent) sums[at] += share;
  }
  const show = () => {
    byId("matrix").replaceChildren(...matrix(tree, channels, sums, (at) => {
      tree.turn(at);
      show();
      byId("matrix").querySelector(`tbody [data-row="${at}"]`)?.focus();
    }));
  };
  show();
}

/** The table, and what it leaves out. */
function matrix(tree, channels, sums, turned) {
  const visible = tree.visible().filter((at) => sums[at] > 0);
  const closed = visible.filter((at) => !(tree.folds(at) && tree.open.has(at)));
  const kept = new Set([...closed].sort((a, b) => sums[b] - sums[a]).slice(0, SIDE));
  const columns = closed.filter((at) => kept.has(at));
  const opened = visible.filter((at) => !closed.includes(at));
  const home = tree.rows.map((_, at) => {
    let found = kept.has(at) ? at : -1;
    for (let above = at; above >= 0; above = tree.rows[above].parent) if (kept.has(above)) found = above;
    return found;
  });
  const shares = new Map();
  let left = 0;
  for (const [from, to, share] of channels) {
    const key = `${home[from]} ${home[to]}`;
    if (home[from] < 0 || home[to] < 0) left += share;
    else shares.set(key, (shares.get(key) || 0) + share);
  }
  const most = Math.max(...shares.values(), 1e-12);
  const name = (at) => {
    const row = tree.rows[at];
    if (!tree.folds(at)) return row.name;
    const button = element("button", { type: "button", "data-row": at, "aria-expanded": String(tree.open.has(at)) }, row.name);
    button.addEventListener("click", () => turned(at));
    return button;
  };
  const head = element("tr", {}, element("td"), ...columns.map((at) => element("th", { scope: "col" }, name(at))));
  const body = columns.map((from) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name(from)),
      ...columns.map((to) => cell(shares.get(`${from} ${to}`) || 0, most, tree.rows[from].name, tree.rows[to].name)),
    ),
  );
  const fold = opened.length ? [element("p", { class: "hint" }, "Unfolded: ", ...opened.map(name))] : [];
  const rest = closed.length - columns.length;
  const notes = rest || left > 0 ? [element("p", { class: "hint" }, `${numbered(rest, "row")} with less: ${percent(left)} of the critical path.`)] : [];
  return [...fold, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)), ...notes];
}

function cell(share, most, from, to) {
  if (!share) return element("td");
  const style = `background:rgba(var(--heat), ${(0.08 + 0.62 * (share / most)).toFixed(3)})`;
  const value = 100 * share;
  const text = value < 0.1 ? "·" : value.toFixed(1);
  return element("td", { style, title: `${from} to ${to}: ${percent(share)} of the critical path` }, text);
}
