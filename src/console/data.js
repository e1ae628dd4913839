// How pages read data: after a failed read the old value stays, marked as stale. A hidden tab sends no requests.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { events, get, listen, send } from "./api.js";

const UNREAD = { value: undefined, at: null, failure: null, isLoading: true };

// Requests that were sent before their page could be drawn, by path. The page repeats one that has failed, or was sent more
// than five seconds before.
const early = new Map();
export function readEarly(path) {
  const forget = () => early.delete(path);
  const answer = get(path);
  early.set(path, answer);
  answer.catch(forget);
  setTimeout(forget, 5000);
}
function take(path) {
  const answer = early.get(path) ?? get(path);
  early.delete(path);
  return answer;
}

// Reads `path` now and every `every` seconds; null reads nothing. With `keeps` the value of the former path stays until the new
// one has come, so that a list does not jump; meanwhile `isOld` is true. `read` replaces GET; then `path` is only a name. `set`
// stores the answer to a change.
export function useRead(path, { every = 0, read = take, keeps = false } = {}) {
  const [state, setState] = useState(UNREAD);
  const [turn, shown, busy] = [useRef(0), useRef(0), useRef(0)];
  const reader = useRef(read);
  reader.current = read;
  const hold = (value) => setState({ value, of: path, at: Date.now(), failure: null, isLoading: false });
  const reload = useCallback(async () => {
    if (path === null) return;
    const mine = ++turn.current;
    // An answer counts unless a later one was shown: each of a slow server's may come after the next question.
    const isNews = () => mine > shown.current && (shown.current = mine);
    setState((before) => (before.isLoading ? before : { ...before, isLoading: true }));
    busy.current += 1;
    try {
      const value = await reader.current(path);
      if (isNews()) hold(value);
    } catch (failure) {
      if (isNews()) setState((before) => ({ ...before, failure, isLoading: false }));
    } finally {
      busy.current -= 1;
    }
  }, [path]);
  // A layout effect runs before the page is painted, which is a frame sooner.
  useLayoutEffect(() => {
    setState((before) => (path === null ? { ...UNREAD, isLoading: false } : keeps ? before : UNREAD));
    reload();
    return () => { shown.current = ++turn.current; };
  }, [reload]);
  useTicks(path === null ? 0 : every, () => busy.current || reload());
  // Reads that failed while the server was away, or without a token, are repeated once it answers.
  const waits = !state.isLoading && /offline|signin/.test(state.failure?.kind);
  useEffect(() => (waits ? listen((what) => { if (what === "online") reload(); }) : undefined), [waits, reload]);
  const set = (value) => { shown.current = ++turn.current; hold(value); };
  return { ...state, isOld: state.value !== undefined && state.of !== path, reload, set };
}

// Calls `start(wasHidden)` whenever the tab is visible, and what that returned when it is hidden; returns what ends both.
function whileVisible(start) {
  let stop = document.hidden ? null : start(false);
  const follow = () => {
    if (!document.hidden) stop ??= start(true);
    else { stop?.(); stop = null; }
  };
  document.addEventListener("visibilitychange", follow);
  return () => { stop?.(); document.removeEventListener("visibilitychange", follow); };
}

// Runs `work` every `seconds` while the tab is visible, and at once when it becomes visible again.
export function useTicks(seconds, work) {
  const latest = useRef(work);
  latest.current = work;
  useEffect(() => (seconds ? whileVisible((wasHidden) => {
    if (wasHidden) latest.current();
    const timer = setInterval(() => latest.current(), seconds * 1000);
    return () => clearInterval(timer);
  }) : undefined), [seconds]);
}

async function keepOpen(path, signal, onOpen, onEvent) {
  for (let wait = 1; !signal.aborted; wait = Math.min(30, 2 * wait)) {
    try {
      const answer = await send("GET", path, { signal, timeoutMs: 0 });
      onOpen(true);
      onEvent();
      for await (const _ of events(answer)) { wait = 1; onEvent(); }
    } catch { /* the listener polls until the stream is open again */ }
    onOpen(false);
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

// Calls `hear` when the stream has news, at most twice a second, while the tab is visible. Returns whether the stream is open.
export function useStream(path, hear) {
  const [isOpen, setOpen] = useState(false);
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => {
    if (!path) return undefined;
    let timer = null;
    const tell = () => { timer ??= setTimeout(() => { timer = null; latest.current(); }, 500); };
    const end = whileVisible(() => {
      const stop = new AbortController();
      keepOpen(path, stop.signal, setOpen, tell);
      return () => stop.abort();
    });
    return () => { end(); clearTimeout(timer); };
  }, [path]);
  return isOpen;
}

// Follows a typed value once typing pauses, so that not every letter is a request.
export function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 350);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export function useNow() {
  const [now, setNow] = useState(Date.now());
  useTicks(1, () => setNow(Date.now()));
  return now;
}

// An action and its state; a second run while the first is in progress does nothing.
export function useAction(work) {
  const [state, setState] = useState({ isRunning: false, failure: null, done: undefined });
  const running = useRef(false);
  const run = async (...given) => {
    if (running.current) return undefined;
    running.current = true;
    setState({ isRunning: true, failure: null, done: undefined });
    try {
      const done = await work(...given);
      setState({ isRunning: false, failure: null, done: done ?? true });
      return done ?? true;
    } catch (failure) {
      setState({ isRunning: false, failure, done: undefined });
      return undefined;
    } finally {
      running.current = false;
    }
  };
  return { ...state, run };
}
