// Requests to the job, each with the token that the reader typed. It is kept for this tab alone, and goes to this job alone.

const TOKEN = "rechannel-token";
// A host that is cut off or suspended closes no connection: a request to it would never end. A plan may take a while.
const ANSWERED_MS = 30_000;
const DONE_MS = 130_000;
const answers = new Map();

/** What the job answers in place of what was asked for. status: 0 if it does not answer at all. */
export class Failure extends Error {
  constructor(status, kind, message) {
    super(message);
    Object.assign(this, { status, kind });
  }
}

let held = "";
try {
  held = sessionStorage.getItem(TOKEN) || "";
} catch {
  // Without storage, the token is kept until the page is left.
}

export const hasToken = () => held !== "";

export function setToken(token) {
  held = token.trim();
  answers.clear();
  try {
    if (held) sessionStorage.setItem(TOKEN, held);
    else sessionStorage.removeItem(TOKEN);
  } catch {
    // As above.
  }
}

const silent = () => {
  throw new Failure(0, "silent", "the job does not answer");
};

async function sent(path, options) {
  const headers = { Authorization: `Bearer ${held}`, ...options.headers };
  const signal = AbortSignal.timeout(options.method === "POST" ? DONE_MS : ANSWERED_MS);
  const answer = await fetch(path, { ...options, headers, signal, cache: "no-store", credentials: "omit", redirect: "error" }).catch(silent);
  if (answer.ok || answer.status === 304) return answer;
  const { error = "failed", message = answer.statusText } = await answer.json().catch(() => ({}));
  throw new Failure(answer.status, error, message);
}

/** Ask for something. An answer that has not changed is the same object as before. */
export async function get(path) {
  const known = answers.get(path);
  const answer = await sent(path, { headers: known ? { "If-None-Match": known.tag } : {} });
  if (answer.status === 304) return known.data;
  const [tag, data] = [answer.headers.get("ETag"), await answer.json().catch(silent)];
  if (tag && !path.startsWith("/progress")) answers.set(path, { tag, data });
  return data;
}

/** Send JSON text. It returns the answer as text: numbers in a plan may have more digits than a number here. */
export async function post(path, body) {
  const answer = await sent(path, { method: "POST", body, headers: { "Content-Type": "application/json" } });
  return answer.text().catch(silent);
}
