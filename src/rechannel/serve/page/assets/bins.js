// Which task owns each bin: a row per task, a column per bin in the order of hashes, the darker the more it has.

import { brief, count, most, size, sum } from "/ui/figures.js";
import { Component, createRef, html } from "/ui/lib.js";
import { numbered } from "/ui/shared.js";

const NEW_MS = 4_000; // for how long a bin that has moved is marked
const LABELLED = 24; // rows that are as high as their names
const FIGURES = { rows: { name: "rows a timestep", shown: brief }, bytes: { name: "bytes of state", shown: size } };

export class Bins extends Component {
  constructor() {
    super();
    this.state = { figure: "rows" };
  }

  render({ job }, { figure }) {
    const all = Object.entries(job.bins);
    const chosen = all.filter(([name]) => name === job.chosen);
    const shown = chosen.length ? chosen : all;
    return html`<div class="tools">
        <span class="group" role="group" aria-label="Coloured by">${Object.keys(FIGURES).map((each) => html`<button type="button" key=${each} aria-pressed=${String(figure === each)} onClick=${() => this.setState({ figure: each })}>${each}</button>`)}</span>
        ${chosen.length > 0 && all.length > 1 && html`<span>Only ${job.chosen}, which is chosen in the dataflow.</span>`}
      </div>
      ${shown.map(([name, bins]) => html`<${TaskMap} key=${name} name=${name} bins=${bins} figure=${figure} />`)}
      ${all.length === 0 && html`<p class="hint">No operator has state.</p>`}`;
  }
}

/** What the bins of each task have in total. */
export function byTask(bins, values) {
  const made = Array(bins.tasks).fill(0);
  bins.owners.forEach((task, bin) => (made[task] += values?.[bin] ?? 0));
  return made;
}

class TaskMap extends Component {
  constructor() {
    super();
    this.canvas = createRef();
    this.state = { at: null, width: 600 };
    this.moved = new Map();
    this.draw = () => this.paint();
  }

  componentDidMount() {
    this.watcher = new ResizeObserver(([entry]) => this.setState({ width: Math.floor(entry.contentRect.width) }));
    if (this.canvas.current) this.watcher.observe(this.canvas.current.parentNode);
    addEventListener("recoloured", this.draw);
    this.paint();
  }

  componentWillUnmount() {
    this.watcher.disconnect();
    removeEventListener("recoloured", this.draw);
    clearTimeout(this.fading);
  }

  componentDidUpdate(before) {
    const [old, now] = [before.bins, this.props.bins];
    if (old !== now && old.bins === now.bins) {
      now.owners.forEach((task, bin) => task !== old.owners[bin] && this.moved.set(bin, Date.now()));
      clearTimeout(this.fading);
      this.fading = setTimeout(() => this.paint(), NEW_MS + 50);
    }
    this.paint();
  }

  height() {
    const { tasks } = this.props.bins;
    return tasks <= LABELLED ? 18 : Math.max(2, Math.min(12, Math.floor(480 / tasks)));
  }

  paint() {
    const canvas = this.canvas.current;
    if (!canvas) return;
    const { bins, figure } = this.props;
    const { width, at } = this.state;
    const [rowHeight, ratio] = [this.height(), devicePixelRatio || 1];
    canvas.width = width * ratio;
    canvas.height = rowHeight * bins.tasks * ratio;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const ink = (name) => style.getPropertyValue(name).trim();
    const [accent, heat, line, row] = [ink("--accent"), `rgb(${ink("--heat")})`, ink("--line"), ink("--row")];
    for (let task = 0; task < bins.tasks; task += 2) {
      paint.fillStyle = row;
      paint.fillRect(0, task * rowHeight, width, rowHeight);
    }
    const values = bins[figure] ?? [];
    const highest = most(values);
    const left = (bin) => (bin * width) / bins.bins;
    const gap = rowHeight > 4 ? 1 : 0; // above and below what is drawn in a row; a row of two pixels has none to spare
    const cell = (bin, task, colour, strength) => {
      paint.globalAlpha = strength;
      paint.fillStyle = colour;
      paint.fillRect(left(bin), task * rowHeight + gap, Math.max(1, left(bin + 1) - left(bin) - (width / bins.bins > 4 ? 0.5 : 0)), rowHeight - 2 * gap);
    };
    const now = Date.now();
    bins.owners.forEach((task, bin) => {
      const fresh = now - (this.moved.get(bin) ?? 0) < NEW_MS;
      // By the root, so that one hot bin does not make all others look alike.
      if (values[bin]) cell(bin, task, fresh ? heat : accent, 0.12 + 0.88 * Math.sqrt(values[bin] / highest));
      else cell(bin, task, fresh ? heat : line, fresh ? 0.4 : 1);
    });
    paint.globalAlpha = 1;
    paint.strokeStyle = heat;
    for (const [bin, task] of bins.moving) paint.strokeRect(left(bin) + 0.5, task * rowHeight + gap + 0.5, Math.max(1, left(bin + 1) - left(bin) - 1), rowHeight - 2 * gap - 1);
    if (at !== null && at < bins.bins) {
      paint.strokeStyle = ink("--ink");
      paint.strokeRect(left(at) - 0.5, 0.5, Math.max(2, left(at + 1) - left(at) + 1), rowHeight * bins.tasks - 1);
    }
  }

  pointed(event) {
    const { left, width } = this.canvas.current.getBoundingClientRect();
    this.setState({ at: Math.max(0, Math.min(this.props.bins.bins - 1, Math.floor(((event.clientX - left) / width) * this.props.bins.bins))) });
  }

  pressed(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -16, PageDown: 16, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") this.setState({ at: null });
    if (by === undefined) return;
    event.preventDefault();
    const from = this.state.at ?? (by > 0 ? -1 : this.props.bins.bins);
    this.setState({ at: Math.max(0, Math.min(this.props.bins.bins - 1, from + by)) });
  }

  reading() {
    const { bins } = this.props;
    const { at } = this.state;
    if (at === null || at >= bins.owners.length) return "Point at a bin, or use the arrow keys.";
    const to = bins.moving.filter(([bin]) => bin === at).map(([, task]) => `, moves to task ${task}`);
    const shared = bins.spread.includes(at) ? ", its rows are shared by several tasks" : "";
    const rows = bins.rows ? `${brief(bins.rows[at])} rows a timestep, ` : "";
    return `Bin ${at}: task ${bins.owners[at]}, ${rows}${size(bins.bytes[at])}${to.join("")}${shared}`;
  }

  render({ name, bins, figure }) {
    if (!bins.owners.length) return html`<div class="panel map"><h3>${name}</h3><p class="hint">${numbered(bins.bins, "bin")} at ${numbered(bins.tasks, "task")}: too many to show one by one.</p></div>`;
    const { shown, name: what } = FIGURES[figure];
    const values = bins[figure];
    const totals = byTask(bins, values);
    const highest = most(totals, 1e-9);
    const rowHeight = this.height();
    const labelled = bins.tasks <= LABELLED;
    const uneven = sum(totals) > 0 ? (highest * bins.tasks) / sum(totals) : null;
    const words = `${numbered(bins.bins, "bin")} at ${numbered(bins.tasks, "task")}`;
    return html`<div class="panel map">
      <h3>${name}<span class="when">${words}, by ${what}${uneven === null ? "" : `; the busiest task has ${uneven.toFixed(2)} × the mean`}${bins.moving.length ? html`; <b class="worst-name">${numbered(bins.moving.length, "bin")} to move</b>` : ""}</span></h3>
      ${figure === "rows" && !values && html`<p class="hint">Rows of these bins have not been measured yet.</p>`}
      <div class="map-grid">
        <div class="task-names" aria-hidden="true" style=${{ "--row": `${rowHeight}px` }}>${totals.map((_, task) => html`<span key=${task}>${labelled ? `task ${task}` : ""}</span>`)}</div>
        <div class="cells"><canvas ref=${this.canvas} tabindex="0" role="img" style=${{ height: `${rowHeight * bins.tasks}px` }} aria-label=${`Bins of ${name}: ${words}. ${this.reading()}`}
          onPointerMove=${(event) => this.pointed(event)} onPointerDown=${(event) => this.pointed(event)} onPointerLeave=${(event) => event.pointerType === "touch" || this.setState({ at: null })} onKeyDown=${(event) => this.pressed(event)}></canvas></div>
        <div class="task-sums" style=${{ "--row": `${rowHeight}px` }}>${totals.map((total, task) => html`<span key=${task} title=${`task ${task}: ${shown(total)}`}><i style=${{ width: `${(100 * total) / highest}%` }}></i>${labelled ? html`<b>${shown(total)}</b>` : ""}</span>`)}</div>
      </div>
      <p class="reading" role="status">${this.reading()}</p>
    </div>`;
  }
}

/** How many bins of how many are where they are to be. */
export const movedOf = (one) => `${count(one.bins)} of ${count(one.bins + one.bins_left)}`;
