// Requests to the admin API. The `kind` of a `Failure` says what happened, so that no code has to read messages:
//
//   signin   the token is missing or wrong            forbidden  this address is not allowed
//   offline  no answer came                           limited    too many requests; wait `retryAfter` seconds
//   refused  the request was wrong (4xx)              failed     the server failed (5xx)

const KEY = "switchyard.token";
const TIMEOUT_MS = 60_000;

export class Failure extends Error {
  constructor(kind, message, more = {}) {
    super(message);
    this.kind = kind;
    Object.assign(this, more);
  }
}

// === the token: for this tab or, on request, this browser ===

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY) ?? "",
  isKept: () => localStorage.getItem(KEY) !== null,
  set(value, isKept) {
    token.forget();
    (isKept ? localStorage : sessionStorage).setItem(KEY, value);
  },
  forget() {
    sessionStorage.removeItem(KEY);
    localStorage.removeItem(KEY);
  },
};

// Listeners for `signin` (the token is no longer valid), `offline` and `online`.
const listeners = new Set();
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
export const tell = (what) => listeners.forEach((listener) => listener(what));

function kindOf(status, code) {
  if (code === "missing_token" || code === "invalid_token") return "signin";
  if (status === 401 || status === 403) return "forbidden";
  if (status === 429) return "limited";
  return status >= 500 ? "failed" : "refused";
}

function words(value, status) {
  const error = value?.error;
  return value?.message ?? (typeof error === "string" ? error : error?.message) ?? `HTTP ${status}`;
}

// Puts text into a header: its UTF-8 bytes, one character for each.
export const forHeader = (text) => String.fromCharCode(...new TextEncoder().encode(text));

// Sends a request; throws a `Failure` if there is no answer or its status is not a success.
export async function send(method, path, { body, signal, as = token.get(), timeoutMs = TIMEOUT_MS, headers: more } = {}) {
  // Nothing is sent without a token, as after a sign-out in another tab.
  if (!as) {
    tell("signin");
    throw new Failure("signin");
  }
  const headers = { ...(body !== undefined && { "content-type": "application/json" }), ...more, authorization: `Bearer ${forHeader(as)}` };
  // The content of a file may be longer than a JavaScript string can be.
  const text = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  const limit = timeoutMs ? AbortSignal.timeout(timeoutMs) : undefined;
  const signals = [signal, limit].filter(Boolean);
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: text,
      cache: "no-store", credentials: "omit", signal: signals.length ? AbortSignal.any(signals) : undefined });
  } catch (error) {
    if (signal?.aborted) throw error;
    // A slow action does not mean that the server is away.
    if (!limit?.aborted || method === "GET") tell("offline");
    throw new Failure("offline", limit?.aborted ? "timeout" : "unreachable");
  }
  const said = answer.ok ? "" : await answer.text().catch(() => "");
  let value = null;
  try { value = JSON.parse(said); } catch { /* an error page of a proxy */ }
  const isAway = value === null && /50[234]/.test(answer.status);
  tell(isAway ? "offline" : "online");
  if (answer.ok) return answer;
  if (isAway) throw new Failure("offline", "unreachable");
  const failure = new Failure(kindOf(answer.status, value?.code), words(value, answer.status), {
    status: answer.status, value, retryAfter: Number(answer.headers.get("retry-after")) || null,
  });
  if (failure.kind === "signin" && as === token.get()) tell("signin");
  throw failure;
}

async function ask(method, path, body, more = {}) {
  const answer = await send(method, path, { ...more, body });
  try {
    const text = await answer.text();
    return text === "" ? null : JSON.parse(text);
  } catch (error) {
    if (more.signal?.aborted) throw error;
    // The answer broke off, or something in between answered in the server's place.
    if (method === "GET") tell("offline");
    throw new Failure("offline", "unreachable");
  }
}

// Many answers with status 200 report that a site refused; throws such a refusal as a `Failure`.
export function good(answer) {
  if (answer?.success !== false) return answer;
  throw new Failure("refused", words(answer, 200), { status: 200, value: answer });
}

export const get = (path, more) => ask("GET", path, undefined, more);
export const post = (path, body = {}, more) => ask("POST", path, body, more);
export const put = (path, body, more) => ask("PUT", path, body, more);
export const remove = (path, body, more) => ask("DELETE", path, body, more);

// Reads server-sent events (WHATWG), each as `{event, data}`; `data` is text.
export async function* events(answer) {
  const decoder = new TextDecoderStream();
  const reader = answer.body.pipeThrough(decoder).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = done ? "" : blocks.pop();
    for (const block of blocks) {
      const event = { event: "message", data: [] };
      for (const line of block.split(/\r?\n/)) {
        const [, name, text] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
        if (name === "data") event.data.push(text);
        if (name === "event") event.event = text;
      }
      if (event.data.length) yield { ...event, data: event.data.join("\n") };
    }
    if (done) return;
  }
}

// Follows a task until it ends; a hidden tab does not ask.
export async function task(id, onChange, signal) {
  for (;;) {
    if (!document.hidden) {
      // A lost answer does not end the task.
      const { task: state } = await get(`/api/tasks/${encodeURIComponent(id)}`, { signal }).catch((failure) => {
        if (!/offline|limited/.test(failure.kind)) throw failure;
        return {};
      });
      if (state) onChange(state);
      if (/succeeded|failed/.test(state?.status)) return state;
    }
    await new Promise((resolve) => setTimeout(resolve, 400));
    signal.throwIfAborted();
  }
}
