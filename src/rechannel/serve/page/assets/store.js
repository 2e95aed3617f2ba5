// What is known of the job, and the loop that keeps it so: one round of requests after the other, never two at a time.

import { Failure, get, hasToken, setToken } from "/ui/api.js";

const KEPT = 1_000; // timesteps
const ROUND_MS = 1_000;
const SLOW_ROUNDS = 5; // what changes seldom, or costs more, is asked for in every fifth round
const PATIENCE_MS = 10_000;

export class Store {
  constructor(changed) {
    this.changed = changed;
    this.state = { status: null, timesteps: [], nodes: [], bins: {}, flow: null, sinks: {}, open: [], history: [], acts: [], paths: {}, schemas: {}, trouble: null, wrong: "", chosen: null };
    this.round = 0;
    this.failed = 0;
    this.timer = null;
    this.busy = false;
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
  }

  set(some) {
    Object.assign(this.state, some);
    this.changed(this.state);
  }

  /** Go on with a token. */
  start(token) {
    if (token !== undefined) setToken(token);
    this.round = 0;
    this.set({ wrong: "" });
    this.now();
  }

  leave() {
    setToken("");
    clearTimeout(this.timer);
    this.set({ status: null, timesteps: [], nodes: [], bins: {}, flow: null, sinks: {}, open: [], history: [], acts: [] });
  }

  now() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.busy && hasToken() && !document.hidden) this.once();
  }

  async once() {
    this.busy = true;
    try {
      await this.ask();
      this.failed = 0;
    } catch (error) {
      if (!(error instanceof Failure)) console.error(error);
      this.failed += 1;
      if (error.status === 401) {
        setToken("");
        this.set({ status: null, wrong: "That is not the token of this job." });
      } else {
        this.set({ trouble: error.status === 0 ? "silent" : error.message });
      }
    }
    this.busy = false;
    if (hasToken()) this.timer = setTimeout(() => this.now(), Math.min(PATIENCE_MS, ROUND_MS * 2 ** Math.min(this.failed, 4)));
  }

  async ask() {
    const slow = this.round % SLOW_ROUNDS === 0;
    const after = this.state.timesteps.at(-1)?.timestep;
    const progress = `/progress?recent=${KEPT}${after === undefined ? "" : `&after=${after}`}`;
    const wanted = [get("/status"), get(progress), get("/bins"), get("/reconfigurations?open=true")];
    if (slow) wanted.push(get("/reconfigurations?last=50"), get("/dataflow"), get("/sinks"), get("/acts"));
    if (this.round === 0) wanted.push(get("/openapi.json"));
    if (slow) this.askFlow();
    const [status, { last, recent }, { operators }, { reconfigurations }, history, dataflow, sinks, acts, document_] = await Promise.all(wanted);
    const some = { status, bins: operators, open: reconfigurations, trouble: null, at: Date.now() };
    some.timesteps = this.timesteps(last, recent);
    if (slow) Object.assign(some, { history: history.reconfigurations, nodes: dataflow.nodes, sinks: sinks.sinks, acts: acts.acts });
    if (document_) Object.assign(some, { paths: document_.paths, schemas: document_.components.schemas });
    // One that is over is in the history, which is asked for seldom.
    const gone = this.state.open.some((one) => !reconfigurations.find((other) => other.id === one.id));
    this.round = gone ? SLOW_ROUNDS : this.round + 1;
    this.set(some);
  }

  /** Apart from the rest: the first answer may take as long as compiling what counts the paths. */
  async askFlow() {
    if (this.flowing) return;
    this.flowing = true;
    try {
      this.set({ flow: (await get("/flow")).flow });
    } catch {
      // The other requests say what is wrong.
    }
    this.flowing = false;
  }

  timesteps(last, recent) {
    const known = this.state.timesteps;
    const again = last && known.length && last.timestep < known.at(-1).timestep; // another driver has withdrawn some
    if (again) this.round = -1;
    return again ? [] : [...known, ...recent].slice(-KEPT);
  }
}
