// What is known of the job, and the loop that keeps it so: one round of requests after the other, never two at a time.

import { Failure, get, hasToken, setToken } from "/ui/api.js";

const KEPT = 1_000; // timesteps
const ROUND_MS = 1_000;
const SLOW_ROUNDS = 5; // what changes seldom, or costs more, is asked for in every fifth round
const PATIENCE_MS = 10_000;

/** What is known before the job is asked. */
const nothing = () => ({ status: null, timesteps: [], nodes: [], bins: {}, flow: null, sinks: {}, open: [], history: [], acts: [], trouble: null, chosen: null });

export class Store {
  constructor(changed) {
    this.changed = changed;
    this.state = { ...nothing(), paths: {}, schemas: {}, wrong: "" };
    this.round = 0;
    this.due = true; // what is asked for seldom is asked for in the next round
    this.failed = 0;
    this.timer = null;
    this.busy = false;
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
  }

  set(some) {
    Object.assign(this.state, some);
    this.changed(this.state);
  }

  /** Ask at once, for everything. token: from now on. */
  start(token) {
    if (token !== undefined) setToken(token);
    this.due = true;
    this.set({ wrong: "" });
    this.now();
  }

  leave() {
    setToken("");
    clearTimeout(this.timer);
    this.set(nothing());
  }

  now() {
    clearTimeout(this.timer);
    if (!this.busy && hasToken() && !document.hidden) this.once();
  }

  async once() {
    this.busy = true;
    const [found, error] = await this.asked().then((all) => [all, null], (wrong) => [null, wrong]);
    this.failed = error ? this.failed + 1 : 0;
    try {
      if (error) this.heard(error);
      else if (hasToken()) this.set(found);
    } finally {
      // Even if what was found could not be drawn.
      this.busy = false;
      const wait = Math.min(PATIENCE_MS, ROUND_MS * 2 ** Math.min(this.failed, 4));
      if (hasToken()) this.timer = setTimeout(() => this.now(), wait);
    }
  }

  /** Note what is wrong; what was known is still shown. */
  heard(error) {
    if (!(error instanceof Failure)) console.error(error);
    if (error.status === 401) {
      setToken("");
      this.set({ ...nothing(), wrong: "That is not the token of this job." });
    } else {
      this.set({ trouble: error.status === 0 ? "silent" : error.message });
    }
  }

  async asked() {
    const slow = this.due || this.round % SLOW_ROUNDS === 0;
    this.due = false;
    this.round += 1;
    const [often, seldom, fixed] = await Promise.all([this.often(), slow ? this.seldom() : {}, this.fixed()]);
    return { ...often, ...seldom, ...fixed, trouble: null };
  }

  async often() {
    const after = this.state.timesteps.at(-1)?.timestep;
    const progress = `/progress?recent=${KEPT}${after === undefined ? "" : `&after=${after}`}`;
    const [status, { last, recent }, { operators }, { reconfigurations }] = await Promise.all(["/status", progress, "/bins", "/reconfigurations?open=true"].map(get));
    // One that is over is in the history.
    if (this.state.open.some((one) => !reconfigurations.find((other) => other.id === one.id))) this.due = true;
    return { status, timesteps: this.joined(last, recent), bins: operators, open: reconfigurations };
  }

  async seldom() {
    this.askFlow();
    const [{ reconfigurations }, { nodes }, { sinks }, { acts }] = await Promise.all(["/reconfigurations?last=50", "/dataflow", "/sinks", "/acts"].map(get));
    return { history: reconfigurations, nodes, sinks, acts };
  }

  /** What may be asked of the job, which does not change. */
  async fixed() {
    if (Object.keys(this.state.paths).length) return {};
    const { paths, components } = await get("/openapi.json");
    return { paths, schemas: components.schemas };
  }

  /** Apart from the rest: the first answer may take as long as compiling what counts the paths. */
  async askFlow() {
    if (this.flowing) return;
    this.flowing = true;
    // The other requests say what is wrong. What was known is old by then.
    const found = await get("/flow").catch(() => ({ flow: null }));
    this.flowing = false;
    this.set(found);
  }

  /** The timesteps that were known, and those after them. A number that comes again: another driver has withdrawn the first. */
  joined(last, recent) {
    const known = this.state.timesteps;
    if (last && known.length && last.timestep < known.at(-1).timestep) return [];
    return [...known, ...recent].slice(-KEPT);
  }
}
