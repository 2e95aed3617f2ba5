// Changing the job: a form made from the schemas of its OpenAPI document, its plan, and the plan carried out.

import { post } from "/ui/api.js";
import { count, length, size } from "/ui/figures.js";
import { Component, html } from "/ui/lib.js";
import { numbered } from "/ui/shared.js";

const SWITCHES = ["assign_logic"]; // changes that switch the program are requested, since their plans are not replayed

const LEAST_MS = 0.05; // costs below are not given in figures

const nameOf = (ref) => ref.slice(ref.lastIndexOf("/") + 1);
const resolved = (schema, schemas) => (schema.$ref ? resolved(schemas[nameOf(schema.$ref)], schemas) : schema);

/** Kinds and their schemas, of all changes or all strategies. */
export function kindsOf(schemas, name) {
  return Object.entries(schemas[name]?.discriminator.mapping ?? {}).map(([kind, ref]) => [kind, schemas[nameOf(ref)]]);
}

/** The fields of a kind: {name, about, types, choices, needed, nullable}. */
export function fieldsOf(schema, schemas) {
  return Object.entries(schema.properties).filter(([name]) => name !== "kind").map(([name, of]) => {
    const ways = (of.anyOf ?? [of]).map((each) => resolved(each, schemas));
    return {
      name,
      about: of.description ?? ways.find((each) => each.description)?.description ?? "",
      types: ways.map((each) => (each.enum ? "enum" : each.type)),
      choices: ways.flatMap((each) => each.enum ?? []),
      needed: schema.required.includes(name),
      initial: of.default,
    };
  });
}

/** The JSON text of what was typed into a field; undefined if the field is left out. Raises Error in words for the reader. */
export function written(field, typed) {
  if (field.types.includes("boolean") && !field.choices.length) return typed === undefined || typed === field.initial ? undefined : JSON.stringify(typed);
  const text = String(typed ?? "").trim();
  if (!text) {
    if (!field.needed) return undefined;
    if (field.types.includes("null")) return "null";
    throw new Error(`${field.name} is missing`);
  }
  if (field.choices.length || field.types.every((type) => type === "string" || type === "null")) return JSON.stringify(text);
  if (/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text) && field.types.some((type) => type === "integer" || type === "number")) return text; // as it is: a hash has more digits than a number here
  if (field.types.includes("array") && !text.startsWith("[")) return `[${text.split(/[\s,]+/).map((part) => (/^\d+$/.test(part) ? part : JSON.stringify(part))).join(",")}]`;
  try {
    JSON.parse(text);
  } catch {
    throw new Error(`${field.name} is not JSON: ${text}`);
  }
  return text;
}

/** The JSON text of a change or strategy. typed: by field. */
export function bodyOf(kind, fields, typed) {
  const parts = fields.map((field) => [field.name, written(field, typed[field.name])]).filter(([, text]) => text !== undefined);
  return `{${[["kind", JSON.stringify(kind)], ...parts].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}

export class Form extends Component {
  constructor() {
    super();
    this.state = { change: "rescale", strategy: "all_at_once", typed: {}, cause: "", plan: null, said: null, wrong: null, busy: false };
    this.edits = 0;
  }

  /** Another node of the graph is another operator of the change, unless one was typed. */
  componentDidUpdate(before) {
    if (before.job.chosen !== this.props.job.chosen) this.edited({});
  }

  /** What is shown now has not been planned; an answer that is under way is of what was shown before. */
  edited(more) {
    this.edits += 1;
    this.setState((state) => ({ ...(typeof more === "function" ? more(state) : more), plan: null, said: null, wrong: null }));
  }

  /** What was typed holds for the plan that was made of it, and for no other. */
  typed(part, name, value) {
    this.edited(({ typed }) => ({ typed: { ...typed, [part]: { ...typed[part], [name]: value } } }));
  }

  parts() {
    const { schemas, chosen, status } = this.props.job;
    return ["change", "strategy"].map((part) => {
      const kind = this.state[part];
      const [, schema] = kindsOf(schemas, part === "change" ? "Change" : "Strategy").find(([each]) => each === kind);
      const fields = fieldsOf(schema, schemas);
      const given = chosen && status.operators[chosen] && fields.some((field) => field.name === "operator") ? { operator: chosen } : {};
      return { part, kind, schema, fields, typed: { ...given, ...this.state.typed[part] } };
    });
  }

  async tried(does) {
    this.setState({ busy: true, wrong: null, said: null });
    try {
      this.setState({ ...(await does()), busy: false });
    } catch (error) {
      this.setState({ wrong: error.message, busy: false });
    }
  }

  plan(event) {
    event.preventDefault();
    const edit = this.edits;
    return this.tried(async () => {
      const [change, strategy] = this.parts().map(({ kind, fields, typed }) => bodyOf(kind, fields, typed));
      const body = `"change":${change},"strategy":${strategy}`;
      const text = await post("/plan", `{${body}}`);
      return edit === this.edits ? { plan: { text, body, shown: JSON.parse(text) } } : {};
    });
  }

  apply() {
    return this.tried(async () => {
      const { plan, change, cause } = this.state;
      const what = SWITCHES.includes(change) ? plan.body : `"plan":${plan.text}`;
      const answer = await post("/reconfigure", `{${what},"cause":${JSON.stringify(cause.trim() || "asked for on the page")}}`);
      this.props.applied();
      return { plan: null, said: `${JSON.parse(answer).id} is accepted: see it among the reconfigurations.` };
    });
  }

  render({ job }, { plan, said, wrong, busy, cause }) {
    if (!kindsOf(job.schemas, "Change").length) return null;
    const names = Object.keys(job.status.operators);
    return html`<form class="change panel" onSubmit=${(event) => this.plan(event)}>
      <datalist id="operator-names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <datalist id="source-names">${Object.keys(job.status.sources).map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      ${this.parts().map(({ part, kind, schema, fields, typed }) => html`<fieldset key=${part}>
        <legend>${part === "change" ? "Change" : "Strategy"}</legend>
        <label>kind <select name=${part} value=${kind} onChange=${(event) => this.edited({ [part]: event.target.value })}>
          ${kindsOf(job.schemas, part === "change" ? "Change" : "Strategy").map(([each]) => html`<option key=${each} value=${each}>${each.replace(/_/g, " ")}</option>`)}</select></label>
        ${fields.map((field) => html`<${Field} key=${`${kind} ${field.name}`} field=${field} id=${`${part}-${field.name}`} value=${typed[field.name]} typed=${(value) => this.typed(part, field.name, value)} />`)}
        <p class="hint">${schema.description.split("\n\n")[0]}</p>
      </fieldset>`)}
      <div class="tools">
        <button type="submit" disabled=${busy}>Plan</button>
        <button type="button" class="strong" disabled=${busy || !plan} onClick=${() => this.apply()}>Apply this plan</button>
        <label>cause <input name="cause" value=${cause} maxlength="500" placeholder="for the history" onInput=${(event) => this.setState({ cause: event.target.value })} /></label>
      </div>
      <div role="status" aria-live="polite">
        ${wrong && html`<p class="refused">${wrong}</p>`}
        ${said && html`<p class="accepted">${said}</p>`}
        ${plan && html`<${Plan} plan=${plan.shown} />`}
      </div>
    </form>`;
  }
}

function Field({ field, id, value, typed }) {
  const { name, about, types, choices, needed, initial } = field;
  const list = { operator: "operator-names", source: "source-names" }[name];
  const change = (event) => typed(event.target.value);
  if (types.includes("boolean") && types.length === 1) return html`<label title=${about}><input type="checkbox" id=${id} checked=${value ?? initial ?? false} onChange=${(event) => typed(event.target.checked)} /> ${name}</label>`;
  if (choices.length) return html`<label title=${about}>${name} <select id=${id} value=${value ?? ""} onChange=${change}>${!needed && html`<option value=""></option>`}${choices.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`;
  const placeholder = initial === null || initial === undefined ? (needed ? "" : "optional") : String(initial);
  return html`<label title=${about}>${name} <input id=${id} list=${list} value=${value ?? ""} placeholder=${placeholder} required=${needed && !types.includes("null")} inputmode=${types.includes("integer") ? "numeric" : undefined} autocomplete="off" spellcheck=${false} onInput=${change} /></label>`;
}

/** What a plan says, in words. */
export function wordsOf(plan) {
  const made = plan.affected.map((one) => {
    const state = one.bins ? `${numbered(one.bins, "bin")} (${size(one.bytes)}) move between its tasks` : "no state moves";
    return `${one.operator}: ${state}${one.tasks.length ? `; tasks ${one.tasks.slice(0, 16).join(", ")}${one.tasks.length > 16 ? ", ..." : ""}` : ""}`;
  });
  const cost = plan.cost_ms < LEAST_MS ? "less than can be measured" : length(plan.cost_ms);
  made.push(`${numbered(plan.steps.length, "step")} over ${numbered(plan.timesteps, "timestep")}; the most expensive is expected to add ${cost} to its timestep`);
  return made;
}

function Plan({ plan }) {
  const nothing = plan.steps.length === 0;
  const tasks = (ranges) => ranges.reduce((many, [first, end]) => many + end - first, 0);
  return html`<div class="plan"><h3>${nothing ? "Nothing would change" : "What it would do"}</h3>
    <ul>${!nothing && wordsOf(plan).map((words) => html`<li key=${words}>${words}.</li>`)}
      ${plan.advice.map((words) => html`<li key=${words} class="advice">${words}</li>`)}
      ${(plan.topology?.operators ?? []).filter((one) => one.kept || one.replaced || one.new || one.gone).map((one) => html`<li key=${one.operator}>Tasks of ${one.operator}: ${["unaffected", "kept", "replaced", "new", "gone"].filter((how) => one[how]).map((how) => `${count(tasks(one[how]))} ${how}`).join(", ")}.</li>`)}
    </ul></div>`;
}

/** End a reconfiguration, or lead it back. */
export const aborted = (id) => post(`/reconfigurations/${encodeURIComponent(id)}/abort`, JSON.stringify({ reason: "asked for on the page" }));
