// Tables: what changed, where rows come from and go to, what operators do.

import { movedOf } from "/ui/bins.js";
import { brief, clock, count, length, moment, most, size, UNKNOWN } from "/ui/figures.js";
import { html } from "/ui/lib.js";
import { numbered } from "/ui/shared.js";

const PHASES = ["prepare", "synchronize", "update"];

/** heads: [title, is a number]. rows: [key, cells]. */
export function Table({ heads, rows, name, none, chosen }) {
  if (!rows.length) return html`<p class="hint">${none}</p>`;
  return html`<div class="table" role="region" aria-label=${name} tabindex="0"><table>
    <thead><tr>${heads.map(([title, number]) => html`<th key=${title} scope="col" class=${number ? "figure" : ""}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map(([key, cells]) => html`<tr key=${key} class=${chosen === key ? "chosen-row" : ""}>${cells.map((cell, at) => html`<td key=${at} class=${heads[at][1] ? "figure" : ""}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export function Reconfigurations({ job, abort }) {
  const open = job.open.map((one) => one.id);
  const all = [...job.history.filter((one) => !open.includes(one.id)), ...job.open].reverse();
  const heads = [["id"], ["change"], ["phase"], ["bins moved", true], ["bytes", true], ["timesteps"], ["phases"], ["p99 before, during, after", true], ["cause"], ["at", true]];
  if (abort) heads.push([""]);
  const longest = most(all.flatMap((one) => PHASES.map((phase) => one.phases_ms[phase] ?? 0)), 1);
  const rows = all.map((one) => [one.id, [
    one.id,
    html`${one.change}<span class="under">${one.strategy}</span>`,
    html`<span class=${`pill ${one.open ? "busy" : one.phase}`}>${one.phase}</span>${one.reason && html`<span class="under">${one.reason}</span>`}`,
    one.open ? html`${movedOf(one)}<progress max=${Math.max(1, one.bins + one.bins_left)} value=${one.bins} aria-label="bins moved"></progress>` : count(one.bins),
    size(one.bytes),
    one.first_timestep === null ? UNKNOWN : one.first_timestep === one.last_timestep ? String(one.first_timestep) : `${one.first_timestep} to ${one.last_timestep}`,
    html`<${Phases} of=${one.phases_ms} longest=${longest} />`,
    ["before", "during", "after"].map((when) => (one.latency_ms[when] ? length(one.latency_ms[when].p99) : UNKNOWN)).join(", "),
    one.cause,
    one.times.waiting ? html`<span title=${moment(one.times.waiting)}>${clock(one.times.waiting)}</span>` : UNKNOWN,
    ...(abort ? [one.open && one.phase !== "reversing" ? html`<button type="button" onClick=${() => abort(one.id)}>Abort ${one.id}</button>` : ""] : []),
  ]]);
  return html`<${Table} name="Reconfigurations" heads=${heads} rows=${rows} none="Nothing has been changed yet." />`;
}

/** Upgrades, forks, savepoints, resets and edits. */
export function Acts({ job }) {
  if (!job.acts.length) return null;
  const heads = [["what else was done"], ["what"], ["after timestep", true], ["cause"], ["at", true]];
  const rows = [...job.acts].reverse().map((one, at) => [at, [one.kind, one.what, one.timestep === null ? UNKNOWN : String(one.timestep), one.cause || UNKNOWN, moment(one.time_ms)]]);
  return html`<${Table} name="What else was done" heads=${heads} rows=${rows} none="" />`;
}

/** Prepare, synchronize, update: as long as they took, beside the longest of all. */
function Phases({ of, longest }) {
  const there = PHASES.filter((phase) => of[phase] !== null);
  if (!there.length) return UNKNOWN;
  const words = there.map((phase) => `${phase} ${length(of[phase])}`).join(", ");
  return html`<span class="phases" title=${words}><span class="phase-bars" aria-hidden="true">${there.map((phase) => html`<i key=${phase} class=${`hue-${PHASES.indexOf(phase)}`} style=${{ width: `${Math.max(1, (56 * of[phase]) / longest)}px` }}></i>`)}</span>${words}</span>`;
}

export function Sources({ job }) {
  const heads = [["source"], ["unread rows", true], ["unread bytes", true], ["oldest waits", true], ["as of"], ["rows a timestep", true], ["committed offset"]];
  const about = (lag, what) => (lag.estimated === what ? "~" : "");
  const rows = Object.entries(job.status.lag).map(([name, lag]) => [name, [
    name,
    lag.rows === null ? "unknown" : about(lag, "rows") + count(lag.rows),
    lag.bytes === null ? "unknown" : about(lag, "bytes") + size(lag.bytes),
    lag.seconds === null ? "unknown" : `${lag.at_least ? "at least " : ""}${length(lag.seconds * 1e3)}`,
    moment(lag.at_ms),
    brief(job.timesteps.at(-1)?.operators[name]?.rows_in),
    html`<code>${shortened(JSON.stringify(job.status.sources[name] ?? {}))}</code>`,
  ]]);
  return html`<${Table} name="Sources" heads=${heads} rows=${rows} none="There is no source." chosen=${job.chosen} />`;
}

export function Sinks({ job }) {
  const heads = [["sink"], ["unpublished timesteps", true], ["oldest", true], ["failed attempts", true], ["why"]];
  const rows = Object.entries(job.sinks).map(([name, sink]) => [name, [
    name, count(sink.owed), sink.oldest === null ? UNKNOWN : String(sink.oldest), count(sink.failures), sink.quarantine ? `in quarantine: ${sink.quarantine}` : sink.error ?? UNKNOWN,
  ]]);
  return html`<${Table} name="Sinks" heads=${heads} rows=${rows} none="There is no sink." chosen=${job.chosen} />`;
}

export function Operators({ job }) {
  const heads = [["operator"], ["tasks", true], ["bins", true], ["rows in", true], ["rows out", true], ["keys", true], ["state rows", true], ["state", true], ["late", true], ["dead", true], ["event-time lag", true], ["slowest task"]];
  const last = job.timesteps.at(-1)?.operators ?? {};
  const rows = Object.entries(job.status.operators).map(([name, how]) => {
    const did = last[name];
    const slow = did?.slowest_task;
    return [name, [
      name, count(how.tasks), count(how.bins), count(did?.rows_in), count(did?.rows_out), count(did?.keys), count(how.state_rows), size(how.state_bytes), count(how.rows_late), count(how.rows_dead),
      how.event_time_lag_s === null || how.event_time_lag_s === undefined ? UNKNOWN : length(how.event_time_lag_s * 1e3),
      slow ? `task ${slow.task}, ${length(slow.busy_ms)}${slow.executor === null ? "" : `, executor ${slow.executor}`}` : UNKNOWN,
    ]];
  });
  return html`<${Table} name="Operators" heads=${heads} rows=${rows} none="There is no operator." chosen=${job.chosen} />`;
}

/** What goes wrong and is retried, with a sentence each. */
export function troublesOf(job) {
  const made = Object.entries(job.status.troubles).map(([topic, text]) => [topic, text]);
  for (const [name, sink] of Object.entries(job.sinks)) {
    if (sink.quarantine) made.push([`sink ${name}`, `in quarantine, ${numbered(sink.owed, "timestep")} unpublished: ${sink.quarantine}`]);
    else if (sink.error) made.push([`sink ${name}`, sink.error]);
  }
  for (const [name, rows] of Object.entries(job.status.bad_rows)) {
    if (rows.bad) made.push([`bad rows of ${name}`, `${count(rows.bad)} of ${count(rows.rows)}${Object.entries(rows.failed).map(([what, many]) => `; ${what}: ${count(many)}`).join("")}`]);
  }
  return made;
}

export function Troubles({ job }) {
  const found = troublesOf(job);
  const { message } = job.status;
  if (!found.length && !message.startsWith("failed")) return null;
  return html`<section class="troubles" aria-label="Troubles" role="status"><h2>Troubles${job.status.as_of_ms ? ` as of ${moment(job.status.as_of_ms)}` : ""}</h2><dl>
    ${message.startsWith("failed") && html`<dt>job</dt><dd>${message}</dd>`}
    ${found.map(([topic, text]) => html`<dt key=${topic}>${topic}</dt><dd key=${`${topic}:`}>${text}</dd>`)}
  </dl></section>`;
}

const shortened = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);
