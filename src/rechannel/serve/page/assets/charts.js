// Figures over time: one line or stacked area per series, the time of all charts pointed at together.

import { brief, clock, count, length, size } from "/ui/figures.js";
import { Component, createRef, html, uPlot } from "/ui/lib.js";

const HEIGHT = 168;
const KEY = "timesteps";
const PHASES = ["plan", "run", "commit", "release"];
const HUES = 6;
const POWERS = Array.from({ length: 56 }, (_, power) => 2 ** power); // bytes between two lines of the grid

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** What the four charts show of some timesteps: {title, unit, names, columns, stacked}. */
export function seriesOf(timesteps) {
  const times = timesteps.map((each) => each.committed_ms / 1e3);
  const last = timesteps.at(-1);
  const phases = PHASES.filter((name) => timesteps.some((each) => name in each.phases));
  const sources = Object.keys(last?.lag ?? {});
  const stateful = Object.entries(last?.operators ?? {}).filter(([, of]) => of.state_bytes !== null).map(([name]) => name);
  const read = (each) => each.input_rows_per_second;
  const written = (each) => (read(each) && each.rows_in ? (each.rows_out * read(each)) / each.rows_in : null); // over the same time
  return [
    { title: "Timesteps, by phase", shown: length, stacked: true, names: phases, columns: phases.map((name) => timesteps.map((each) => each.phases[name] ?? 0)) },
    { title: "Rows per second", shown: brief, names: ["read", "to sinks"], columns: [timesteps.map(read), timesteps.map(written)] },
    { title: "Lag of sources", shown: (value) => length(value * 1e3), names: sources, columns: sources.map((name) => timesteps.map((each) => each.lag[name]?.seconds ?? null)) },
    { title: "State", shown: size, steps: POWERS, stacked: true, names: stateful, columns: stateful.map((name) => timesteps.map((each) => each.operators[name]?.state_bytes ?? 0)) },
  ].map((each) => ({ ...each, times }));
}

/** Each column on top of those before it. */
export function stacked(columns) {
  const below = [];
  return columns.map((column) => column.map((value, at) => (below[at] = (below[at] ?? 0) + (value ?? 0))));
}

export class Chart extends Component {
  constructor() {
    super();
    this.box = createRef();
    this.state = { at: null };
    this.recolour = () => this.make();
  }

  componentDidMount() {
    this.make();
    this.watcher = new ResizeObserver(([entry]) => this.plot?.setSize({ width: Math.floor(entry.contentRect.width), height: HEIGHT }));
    this.watcher.observe(this.box.current);
    addEventListener("recoloured", this.recolour);
  }

  componentWillUnmount() {
    this.watcher.disconnect();
    removeEventListener("recoloured", this.recolour);
    this.plot?.destroy();
  }

  componentDidUpdate(before) {
    const same = before.names.join("\n") === this.props.names.join("\n");
    if (!same) this.make();
    else if (before.times !== this.props.times || before.marks !== this.props.marks) this.plot?.setData(this.data());
  }

  /** The columns as they are drawn: the highest of a stack first, so that it is painted first. */
  data() {
    const { times, columns, stacked: piled } = this.props;
    return [times, ...(piled ? stacked(columns).reverse() : columns)];
  }

  make() {
    this.plot?.destroy();
    const { names, stacked: piled, shown, steps } = this.props;
    const drawn = names.map((name, at) => ({ name, hue: style(`--hue-${at % HUES}`) }));
    if (piled) drawn.reverse();
    const grid = { stroke: style("--line"), width: 1 };
    const axis = { stroke: style("--faint"), font: "11px system-ui, sans-serif", grid, ticks: { show: false } };
    this.plot = new uPlot({
      width: Math.floor(this.box.current.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: { sync: { key: KEY, setSeries: false }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (_, __, high) => [0, high > 0 ? high * 1.06 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, space: 70, values: (_, splits) => splits.map((at) => clock(at * 1e3)) },
        { ...axis, size: 62, space: 34, ...(steps && { incrs: steps }), values: (_, splits) => splits.map((at) => shown(at)) },
      ],
      series: [{}, ...drawn.map(({ name, hue }) => ({ label: name, stroke: hue, width: piled ? 1 : 1.8, fill: piled ? hue : undefined, points: { show: false }, paths: piled ? uPlot.paths.stepped({ align: -1 }) : undefined }))],
      hooks: { drawClear: [(plot) => this.marks(plot)], setCursor: [(plot) => this.setState({ at: plot.cursor.idx ?? null })] },
    }, this.data(), this.box.current);
  }

  /** Grey where a reconfiguration was under way. */
  marks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = style("--row");
    for (const [from, to] of this.props.marks) {
      const [left, right] = [from, to].map((at) => plot.valToPos(at / 1e3, "x", true));
      const x = Math.max(bbox.left, left);
      const width = Math.min(bbox.left + bbox.width, Math.max(right, left + 2)) - x;
      if (width > 0) ctx.fillRect(x, bbox.top, width, bbox.height);
    }
    ctx.restore();
  }

  render({ title, names, columns, shown, times }, { at }) {
    const place = at === null || at >= times.length ? times.length - 1 : at;
    const when = at === null ? "now" : clock(times[place] * 1e3);
    const words = names.map((name, number) => `${name} ${shown(columns[number][place])}`).join(", ");
    return html`<figure class="chart panel">
      <figcaption>${title}<span class="when">${times.length ? when : ""}</span></figcaption>
      <div class="plot" ref=${this.box} role="img" aria-label=${`${title}, ${when}: ${words || "nothing is known"}`}></div>
      <ul class="names-of-lines">${names.map((name, number) => html`<li key=${name}><span class=${`swatch hue-${number % HUES}`} aria-hidden="true"></span>${name} <b>${shown(columns[number][place])}</b></li>`)}
        ${names.length === 0 && html`<li>Nothing is known yet.</li>`}</ul>
    </figure>`;
  }
}

export function Charts({ job }) {
  const marks = marksOf([...job.history, ...job.open.filter((one) => !job.history.find((other) => other.id === one.id))]);
  return html`<div class="charts">${seriesOf(job.timesteps).map((each) => html`<${Chart} key=${each.title} ...${each} marks=${marks} />`)}</div>
    <p class="hint">${count(job.timesteps.length)} timesteps. Grey: a reconfiguration was moving.</p>`;
}

/** [from, to], Unix milliseconds, of the reconfigurations that were moving. */
export function marksOf(all) {
  return all.filter((one) => one.times.moving).map((one) => [one.times.moving, one.open ? Date.now() : Math.max(...Object.values(one.times))]);
}
