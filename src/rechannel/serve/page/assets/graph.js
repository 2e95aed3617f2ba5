// The dataflow: its nodes with what goes through them, and the one that takes most of the critical path.

import { brief, length, most, size, sum } from "/ui/figures.js";
import { layout } from "/ui/layout.js";
import { Component, createRef, html } from "/ui/lib.js";
import { numbered, percent } from "/ui/shared.js";

const BOX = { width: 196, height: 84 };
const WIDE = { along: BOX.width + 84, across: BOX.height + 22, sideways: true };
const NARROW = { along: BOX.height + 46, across: BOX.width + 16, sideways: false };
const DRIVER = ["planning", "scheduling", "commit", "release", "control message"];

export class Graph extends Component {
  constructor() {
    super();
    this.box = createRef();
    this.state = { width: 1_000 };
  }

  componentDidMount() {
    this.watcher = new ResizeObserver(([entry]) => this.setState({ width: entry.contentRect.width }));
    this.watcher.observe(this.box.current);
  }

  componentWillUnmount() {
    this.watcher.disconnect();
  }

  render({ job, choose }) {
    const layers = layout(job.nodes, 1, 1).layers;
    const way = this.state.width >= Math.min(4, layers) * WIDE.along - 84 ? WIDE : NARROW;
    const { cells, lines } = layout(job.nodes, way.along, way.across);
    const at = (cell) => (way.sideways ? [cell.along, cell.at] : [cell.at, cell.along]);
    const right = most(cells.map((cell) => at(cell)[0])) + BOX.width;
    const bottom = most(cells.map((cell) => at(cell)[1])) + BOX.height;
    const shares = job.flow?.critical?.operators ?? {};
    const worst = bottleneck(job.flow?.critical);
    return html`<div class="graph-frame" ref=${this.box}>
      ${cells.length === 0 && html`<p class="hint">The dataflow is not known yet.</p>`}
      <div class="graph-inner" style=${{ width: `${right}px`, height: `${bottom}px` }}>
        <svg class="edges" width=${right} height=${bottom} aria-hidden="true">${lines.map((line) => edge(line, at, way, job))}</svg>
        ${cells.map((cell) => html`<${Node} key=${cell.node.name} node=${cell.node} at=${at(cell)} job=${job} share=${shares[cell.node.name]} worst=${worst === cell.node.name} choose=${choose} />`)}
      </div>
      <${Critical} flow=${job.flow} worst=${worst} />
    </div>`;
  }
}

/** The operator whose tasks take most of the critical path, if they take more than the driver does. */
export function bottleneck(critical) {
  if (!critical) return null;
  const [[name, share] = [null, 0]] = Object.entries(critical.operators).sort(([, a], [, b]) => b - a);
  return share > sum(DRIVER.map((kind) => critical.kinds[kind] ?? 0)) ? name : null;
}

/** Names of the sources and operators with tasks whose rows a node passes on. */
function stagesOf(name, job, seen = new Set()) {
  if (seen.has(name)) return [];
  seen.add(name);
  if (job.status.operators[name]) return [name];
  const node = job.nodes.find((each) => each.name === name);
  return (node?.upstreams ?? []).flatMap((up) => stagesOf(up, job, seen));
}

function edge(line, at, way, job) {
  const rows = job.flow?.rows ?? {};
  const sent = sum(stagesOf(line.from, job).map((stage) => rows[stage]?.[line.to] ?? 0));
  const rate = job.flow?.seconds ? sent / job.flow.seconds : 0;
  const points = line.points.map((cell, number) => {
    const [x, y] = at(cell);
    const last = number === line.points.length - 1;
    if (cell.bend) return [[x, y + BOX.height / 2], [x + BOX.width, y + BOX.height / 2]].map(([a, b]) => (way.sideways ? [a, b] : [x + BOX.width / 2, a === x ? y : y + BOX.height]));
    if (way.sideways) return [[last ? x : x + BOX.width, y + BOX.height / 2]];
    return [[x + BOX.width / 2, last ? y : y + BOX.height]];
  }).flat();
  const [[x0, y0], ...rest] = points;
  let d = `M${x0} ${y0}`;
  rest.reduce(([x, y], [u, v]) => {
    const half = way.sideways ? (u - x) / 2 : (v - y) / 2;
    d += way.sideways ? ` C${x + half} ${y} ${u - half} ${v} ${u} ${v}` : ` C${x} ${y + half} ${u} ${v - half} ${u} ${v}`;
    return [u, v];
  }, [x0, y0]);
  const [end, before] = [points.at(-1), points.at(-2)];
  const [x, y] = [(end[0] + before[0]) / 2, (end[1] + before[1]) / 2];
  return html`<g key=${`${line.from}→${line.to}`}>
    <path d=${d} stroke-width=${1.2 + Math.min(5, Math.log10(1 + rate))} />
    ${sent > 0 && html`<text x=${x} y=${way.sideways ? y - 7 : y + 4} text-anchor="middle">${brief(rate)}/s</text>`}
  </g>`;
}

function Node({ node, at, job, share, worst, choose }) {
  const operator = job.status.operators[node.name];
  const last = job.timesteps.at(-1)?.operators[node.name];
  const facts = factsOf(node, operator, last, job);
  const kind = ["source", "sink"].includes(node.kind) ? node.kind : operator?.bins ? "stateful" : "stateless";
  const words = [node.kind.replace(/_/g, " "), node.keys.length ? `by ${node.keys.join(", ")}` : "", operator ? `· ${numbered(operator.tasks, "task")}` : ""].filter(Boolean).join(" ");
  return html`<button type="button" class=${`node ${kind} ${worst ? "worst" : ""}`} style=${{ left: `${at[0]}px`, top: `${at[1]}px` }}
      aria-pressed=${String(job.chosen === node.name)} title=${`${node.name}: ${words}`} onClick=${() => choose(node.name)}>
    <span class="name">${node.name}</span>
    <span class="what">${words}</span>
    <span class="facts-of">${facts.map((fact) => html`<span>${fact}</span>`)}</span>
    ${share >= 0.005 && html`<span class="share" title="share of the critical path"><span class="fill" style=${{ width: `${Math.min(100, 100 * share)}%` }}></span></span>
      <span class="share-words">${worst ? "bottleneck " : ""}${percent(share)}</span>`}
  </button>`;
}

function factsOf(node, operator, last, job) {
  if (node.kind === "sink") {
    const sink = job.sinks[node.name];
    if (!sink) return [];
    return sink.quarantine ? ["in quarantine"] : [sink.owed ? `${numbered(sink.owed, "timestep")} unpublished` : "published"];
  }
  if (!operator) return [];
  const made = [last ? `${brief(last.rows_in)} rows a timestep` : ""];
  const lag = job.status.lag[node.name];
  if (lag && lag.seconds !== null) made.push(`lag ${length(lag.seconds * 1e3)}`);
  if (operator.state_bytes !== null && operator.state_bytes !== undefined) made.push(size(operator.state_bytes));
  return made.filter(Boolean);
}

function Critical({ flow, worst }) {
  if (!flow) return null;
  const { critical } = flow;
  if (!critical) return html`<p class="hint">Critical path: ${flow.unknown}</p>`;
  const kinds = Object.entries(critical.kinds).sort(([, a], [, b]) => b - a).slice(0, 6);
  const rest = Math.max(0, 1 - sum(kinds.map(([, share]) => share)));
  return html`<div class="critical">
    <p><b>Critical path</b> of timesteps ${critical.first} to ${critical.last}, ${length(critical.mean_ms)} each: ${worst ? html`most of it is the tasks of <b class="worst-name">${worst}</b>, above all task ${critical.tasks[worst]}` : "most of it is the driver's own work"}.</p>
    <div class="stack" aria-hidden="true">${kinds.map(([name, share], at) => html`<span key=${name} class=${`hue-${at}`} style=${{ flex: String(share) }}></span>`)}${rest > 0.001 && html`<span style=${{ flex: String(rest) }}></span>`}</div>
    <ul class="names-of-lines">${kinds.map(([name, share], at) => html`<li key=${name}><span class=${`swatch hue-${at}`} aria-hidden="true"></span>${name} ${percent(share)}</li>`)}</ul>
  </div>`;
}
