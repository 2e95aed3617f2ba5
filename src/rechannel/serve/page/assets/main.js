// The page: what is known of the job, section by section.

import { Failure, hasToken } from "/ui/api.js";
import { Bins } from "/ui/bins.js";
import { Charts } from "/ui/charts.js";
import { brief, length, moment, most, percentile, size, sum, UNKNOWN } from "/ui/figures.js";
import { aborted, Form } from "/ui/form.js";
import { Graph } from "/ui/graph.js";
import { Component, html, render } from "/ui/lib.js";
import { byId, numbered, startTheme } from "/ui/shared.js";
import { Store } from "/ui/store.js";
import { Acts, Operators, Reconfigurations, Sinks, Sources, Troubles } from "/ui/tables.js";

const SECTIONS = [["dataflow", "Dataflow"], ["time", "Timesteps"], ["bins", "Bins"], ["changes", "Reconfigurations"], ["change", "Change"], ["sources", "Sources and sinks"], ["operators", "Operators"]];
const RECENT = 100;

const may = (job, path) => path in job.paths;

function Head({ job, leave }) {
  const { status, trouble } = job;
  if (!status) return html`<h1>Rechannel</h1>`;
  const condition = trouble === "silent" ? "does not answer" : trouble ? "in trouble" : status.message.split(":")[0];
  const at = status.committed_ms ? `, committed ${moment(status.committed_ms)}` : "";
  return html`<h1>${status.name}</h1>
    <span class=${`pill ${condition.replace(/ /g, "-")}`} role="status">${condition}</span>
    <span class="about">timestep ${status.timestep}${at}; configuration ${status.configuration}; rechannel ${status.version}${status.as_of_ms ? `; as of ${moment(status.as_of_ms)}` : ""}${may(job, "/plan") ? "" : "; read only"}</span>
    <button type="button" class="quiet" onClick=${leave}>Forget the token</button>`;
}

function Navigation({ job }) {
  return html`<nav aria-label="Sections">${SECTIONS.filter(([id]) => id !== "change" || may(job, "/plan")).map(([id, title]) => html`<a key=${id} href=${`#${id}`}>${title}</a>`)}</nav>`;
}

function Key({ store, wrong }) {
  const enter = (event) => {
    event.preventDefault();
    store.start(new FormData(event.target).get("token"));
  };
  return html`<form class="key panel" onSubmit=${enter}>
    <h2>Token</h2>
    <p>The job shows itself to those who have its token. It is in the file that <code>server.token_file</code> names, and <code>rechannel run --serve</code> and <code>rechannel ui</code> print where that is. This tab keeps it until it is closed, and nobody else gets it.</p>
    <p class="tools"><label>Token <input name="token" type="password" required autocomplete="off" spellcheck=${false} /></label><button type="submit">Show the job</button></p>
    <p class="refused" role="alert">${wrong}</p>
  </form>`;
}

function Tiles({ job }) {
  const recent = job.timesteps.slice(-RECENT);
  const [last, times] = [recent.at(-1), recent.map((each) => each.duration_ms)];
  const lags = Object.values(job.status.lag).map((lag) => lag.seconds).filter((value) => value !== null);
  const state = Object.values(job.status.operators).map((each) => each.state_bytes ?? 0);
  const owed = most(Object.values(job.sinks).map((sink) => sink.owed));
  const tiles = [
    ["rows read per second", brief(last?.input_rows_per_second)],
    ["timestep, p50", length(percentile(times, 0.5))],
    [`p99 of ${recent.length}`, length(percentile(times, 0.99))],
    ["longest lag", lags.length ? length(most(lags) * 1e3) : UNKNOWN],
    ["state", size(sum(state))],
    ["unpublished timesteps", String(owed)],
    ["retries", String(job.status.retries)],
  ];
  return html`<dl class="tiles">${tiles.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

class App extends Component {
  constructor() {
    super();
    this.state = { said: null };
  }

  async abort(id, store) {
    try {
      await aborted(id);
      this.setState({ said: null });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.setState({ said: error.message });
    }
    store.start();
  }

  render({ job, store }, { said }) {
    if (!hasToken()) return html`<${Key} store=${store} wrong=${job.wrong} />`;
    if (!job.status) return html`<p class="hint" role="status">${job.trouble ? (job.trouble === "silent" ? "The job does not answer." : job.trouble) : "Asking the job …"}</p>`;
    const choose = (name) => store.set({ chosen: job.chosen === name ? null : name });
    return html`<${Navigation} job=${job} />
      ${job.trouble && html`<p class="refused" role="status">${job.trouble === "silent" ? "The job does not answer: it has ended, or its host cannot be reached. This is what was known last; rechannel ui STATE_DIR shows what it left." : job.trouble}</p>`}
      <${Tiles} job=${job} />
      <${Troubles} job=${job} />
      <${Section} id="dataflow"><${Graph} job=${job} choose=${choose} /><//>
      <${Section} id="time"><${Charts} job=${job} /><//>
      <${Section} id="bins"><${Bins} job=${job} /><//>
      <${Section} id="changes">${said && html`<p class="refused" role="alert">${said}</p>`}<${Reconfigurations} job=${job} abort=${may(job, "/plan") ? (id) => this.abort(id, store) : null} /><${Acts} job=${job} /><//>
      ${may(job, "/plan") && html`<${Section} id="change"><${Form} job=${job} applied=${() => store.start()} /><//>`}
      <${Section} id="sources"><${Sources} job=${job} /><${Sinks} job=${job} /><//>
      <${Section} id="operators"><${Operators} job=${job} /><p class="hint">${numbered(Object.keys(job.status.operators).length, "operator")}; rows are those of the latest timestep.</p><//>`;
  }
}

function Section({ id, children }) {
  const [, title] = SECTIONS.find(([each]) => each === id);
  return html`<section id=${id} aria-labelledby=${`${id}-title`}><h2 id=${`${id}-title`}>${title}</h2>${children}</section>`;
}

function show(job) {
  document.title = job.status ? `${job.status.name} · Rechannel` : "Rechannel";
  render(html`<${Head} job=${job} leave=${() => store.leave()} />`, byId("head"));
  render(html`<${App} job=${job} store=${store} />`, byId("app"));
}

const store = new Store(show);
byId("app").replaceChildren();
byId("head").replaceChildren();
show(store.state);
startTheme(() => dispatchEvent(new Event("recoloured")));
store.start();
