// The dataflow: its nodes with what goes through them, and the one that takes most of the critical path.

import { brief, length, most, size, sum } from "/ui/figures.js";
import { layout } from "/ui/layout.js";
import { Component, createRef, html } from "/ui/lib.js";
import { numbered, percent } from "/ui/shared.js";

const HEIGHT = 74;
const [SLIM, BROAD] = [148, 196]; // widths of a box
const [NEAR, FAR] = [46, 84]; // gaps between layers
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
    const way = wayOf(layout(job.nodes, 1, 1).layers, this.state.width);
    const { cells, lines } = layout(job.nodes, way.along, way.across);
    const at = (cell) => (way.sideways ? [cell.along, cell.at] : [cell.at, cell.along]);
    const right = most(cells.map((cell) => at(cell)[0])) + way.width;
    const bottom = most(cells.map((cell) => at(cell)[1])) + HEIGHT;
    const shares = job.flow?.critical?.operators ?? {};
    const worst = bottleneck(job.flow?.critical);
    return html`<div class="graph-frame" ref=${this.box}>
      ${cells.length === 0 && html`<p class="hint">The dataflow is not known yet.</p>`}
      <div class="graph-inner" style=${{ width: `${right}px`, height: `${bottom}px` }}>
        <svg class="edges" width=${right} height=${bottom} aria-hidden="true">${lines.map((line) => edge(line, at, way, job))}</svg>
        ${cells.map((cell) => html`<${Node} key=${cell.node.name} node=${cell.node} at=${at(cell)} width=${way.width} job=${job} share=${shares[cell.node.name]} worst=${worst === cell.node.name} choose=${choose} />`)}
      </div>
      <${Critical} flow=${job.flow} worst=${worst} />
    </div>`;
  }
}

/** How layers follow on each other: from left to right if they fit, otherwise downwards. */
function wayOf(layers, room) {
  const width = Math.max(SLIM, Math.min(BROAD, Math.floor((room - (layers - 1) * NEAR) / layers)));
  const gap = layers > 1 ? Math.max(NEAR, Math.min(FAR, Math.floor((room - layers * width) / (layers - 1)))) : FAR;
  if (layers * width + (layers - 1) * gap <= room || room >= 4 * SLIM + 3 * NEAR) return { along: width + gap, across: HEIGHT + 18, width, sideways: true };
  const slim = Math.max(SLIM, Math.min(BROAD, Math.floor((room - 16) / 2)));
  return { along: HEIGHT + 42, across: slim + 14, width: slim, sideways: false };
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

/** Rows per second that a line carries: out of a source, or into an operator; 0 where rows stay within a task. */
function rateOf({ from, to }, job) {
  const last = job.timesteps.at(-1);
  if (job.status.operators[from]?.bins === null && last?.rows_in) return ((last.operators[from]?.rows_in ?? 0) * (last.input_rows_per_second ?? 0)) / last.rows_in;
  const { rows = {}, seconds = 0 } = job.flow ?? {};
  const sent = sum(stagesOf(from, job).map((stage) => rows[stage]?.[to] ?? 0));
  return seconds ? sent / seconds : 0;
}

/** Where a line enters and leaves each of its cells: [x, y]. */
function pointsOf(line, at, { sideways, width }) {
  const middle = sideways ? HEIGHT / 2 : width / 2;
  const long = sideways ? width : HEIGHT;
  return line.points.flatMap((cell, number) => {
    const [x, y] = at(cell);
    const [enters, leaves] = sideways ? [[x, y + middle], [x + long, y + middle]] : [[x + middle, y], [x + middle, y + long]];
    if (number === 0) return [leaves];
    return number === line.points.length - 1 ? [enters] : [enters, leaves];
  });
}

/** A path that leaves and reaches its points in the direction of the layers. */
function curve([[x0, y0], ...rest], sideways) {
  let [x, y] = [x0, y0];
  const parts = rest.map(([u, v]) => {
    const half = sideways ? (u - x) / 2 : (v - y) / 2;
    const part = sideways ? `C${x + half} ${y} ${u - half} ${v} ${u} ${v}` : `C${x} ${y + half} ${u} ${v - half} ${u} ${v}`;
    [x, y] = [u, v];
    return part;
  });
  return `M${x0} ${y0} ${parts.join(" ")}`;
}

function edge(line, at, way, job) {
  const points = pointsOf(line, at, way);
  const rate = rateOf(line, job);
  const [x, y] = [0, 1].map((axis) => (points.at(-1)[axis] + points.at(-2)[axis]) / 2);
  return html`<g key=${`${line.from}→${line.to}`}>
    <path d=${curve(points, way.sideways)} stroke-width=${1.2 + Math.min(5, Math.log10(1 + rate))} />
    ${rate > 0 && html`<text x=${x} y=${way.sideways ? y - 7 : y + 4} text-anchor="middle">${brief(rate)}/s</text>`}
  </g>`;
}

function Node({ node, at, width, job, share, worst, choose }) {
  const operator = job.status.operators[node.name];
  const facts = factsOf(node, operator, job);
  const kind = ["source", "sink"].includes(node.kind) ? node.kind : operator?.bins ? "stateful" : "stateless";
  const words = [node.kind.replace(/_/g, " "), node.keys.length ? `by ${node.keys.join(", ")}` : ""].filter(Boolean).join(" ");
  return html`<button type="button" class=${`node ${kind} ${worst ? "worst" : ""}`} style=${{ left: `${at[0]}px`, top: `${at[1]}px`, width: `${width}px`, height: `${HEIGHT}px` }}
      aria-pressed=${String(job.chosen === node.name)} title=${[`${node.name}: ${words}`, ...facts].join(", ")} onClick=${() => choose(node.name)}>
    <span class="name">${node.name}</span>
    <span class="what">${words}</span>
    <span class="facts-of">${facts.map((fact) => html`<span>${fact}</span>`)}</span>
    ${share >= 0.005 && html`<span class="share-words">${worst ? "bottleneck, " : ""}${percent(share)} of the path</span>
      <span class="share"><span class="fill" style=${{ width: `${Math.min(100, 100 * share)}%` }}></span></span>`}
  </button>`;
}

function factsOf(node, operator, job) {
  if (node.kind === "sink") {
    const sink = job.sinks[node.name];
    if (!sink) return [];
    return sink.quarantine ? ["in quarantine"] : [sink.owed ? `${numbered(sink.owed, "timestep")} unpublished` : "published"];
  }
  if (!operator) return [];
  const made = [numbered(operator.tasks, "task")];
  const lag = job.status.lag[node.name];
  if (lag && lag.seconds !== null) made.push(`lag ${length(lag.seconds * 1e3)}`);
  if (operator.state_bytes !== null && operator.state_bytes !== undefined) made.push(size(operator.state_bytes));
  return made;
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
