// The components of pages. Markup comes only from templates, so a hostile name stays text.

import { createContext, html, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { mayLeave, useFilter } from "./address.js";
import { Failure, good, post, task } from "./api.js";
import { useAction, useNow } from "./data.js";
import { ago, countdown, moment } from "./format.js";
import { coded, count, currentLanguage, explain, languages, t } from "./words.js";

export { html, useEffect, useMemo, useRef, useState };

let lastId = 0;
function useId() {
  const id = useRef(null);
  id.current ??= `part-${++lastId}`;
  return id.current;
}

// === showing ===

export const Note = ({ kind = "info", children }) =>
  html`<div class="note ${kind}" role=${kind === "bad" ? "alert" : "status"}>${children}</div>`;

export const Link = ({ act, children }) => html`<${Going} class="link" onClick=${act}>${children}<//>`;

// Explains the failure of `of`: a read, which can be tried again, or an action.
export const Failed = ({ of: { failure, reload }, children }) => failure && html`
  <${Note} kind="bad">${explain(failure)} ${children} ${reload && html`<${Link} act=${reload}>${t("Try again")}<//>`}<//>`;

export const Unread = ({ read }) => read?.failure && html`<span class="badge warn" title=${explain(read.failure)}>${t("not read", "未读取")}</span>`;

// The read of the section around a form, if it failed; then the form cannot be saved.
const FailedRead = createContext(null);

// Shows a value that was read; `children` is a function of it. If a later read fails, the old value stays, marked as stale.
// `empty` is shown if there are no rows. `also` are further reads whose failures are shown.
export function Section({ title, read, also = [], actions, empty, isEmpty = (value) => (value?.items ?? value)?.length === 0, children, class: kind = "" }) {
  const { value, failure, isLoading, isOld, at } = read ?? {};
  const has = !read || value !== undefined;
  return html`
    <section class="section ${kind}" aria-busy=${!!isLoading && (!has || isOld)}>
      ${(title || actions) && html`<header><h2>${title}</h2><div class="actions">${actions}</div></header>`}
      ${failure && html`<${Failed} of=${read}>${at && t("Last read {when}.", "当前内容读取于{when}。", { when: ago(new Date(at).toISOString()) })}<//>`}
      ${also.map((one) => html`<${Failed} of=${one} />`)}
      ${!has && !failure && html`<p class="quiet" role="status">${t("Loading …")}</p>`}
      <${FailedRead.Provider} value=${failure && read}>${has && (empty && isEmpty(value) ? html`<div class="empty">${empty}</div>` : read ? children?.(value) : children)}<//>
    </section>`;
}

// Says that a list is cut: no more than `most` rows were read.
export const Newest = ({ rows, most }) => rows.length >= most && html`<p class="quiet">${t("Only the newest {count} are shown.", "仅显示最新的 {count} 条。", { count: most })}</p>`;

export const Badge = ({ kind = "", title, children }) => html`<span class="badge ${kind}" title=${title}>${children}</span>`;

export const Time = ({ at, plain }) => html`<time datetime=${at} title=${moment(at)}>${plain ? moment(at) : ago(at)}</time>`;

export function Countdown({ until }) {
  const left = new Date(until).getTime() - useNow();
  return left > 0 ? html`<span class="number" title=${moment(until)}>${countdown(left)}</span>` : null;
}

export const Bar = ({ value, label, kind = "" }) => html`
  <span class="bar ${kind}" role="img" aria-label=${label}><span style=${{ width: `${Math.max(0, Math.min(100, value))}%` }}></span></span>`;

// Shows how much is used, and of which limit if there is one. `name` distinguishes several.
export function Bound({ used, most, show, label, name = label }) {
  if (most === null) return html`<span class="number">${show(used)}</span>`;
  const part = most === 0 ? 100 : (used / most) * 100;
  const words = t("{used} of {most}", "{used} / {most}", { used: show(used), most: show(most) });
  return html`<span class="bound number">${name !== label && `${label}: `}${words}<${Bar} value=${part} label=${`${name}: ${words}`} kind=${part >= 100 ? "bad" : part >= 80 ? "warn" : ""} /></span>`;
}

export const Pairs = ({ of }) => html`<dl class="pairs">${of.map(([name, value]) => html`<dt key=${name}>${name}</dt><dd><bdi>${value ?? "–"}</bdi></dd>`)}</dl>`;

// === acting ===

const FOCUSABLE = "a[href], button:enabled, input, select, textarea, [tabindex='0']";

// If a button disappears while it has the focus, because it deleted its own row, the element in its place gets the focus.
function useHandingOn() {
  const button = useRef(null);
  useLayoutEffect(() => () => {
    if (document.activeElement !== button.current) return;
    const before = [...document.querySelectorAll(FOCUSABLE)];
    before.length = before.indexOf(button.current);
    setTimeout(() => {
      const now = [...document.querySelectorAll(FOCUSABLE)];
      if (document.activeElement === document.body) now[now.indexOf(before.findLast((one) => now.includes(one))) + 1]?.focus();
    });
  }, []);
  return button;
}

// A button that may remove itself.
export const Going = ({ children, ...more }) => html`<button type="button" ref=${useHandingOn()} ...${more}>${children}</button>`;

// A button that asks the question `asks`, if there is one, runs `act`, then `after`, and shows the result.
export function Action({ act, after, children, class: kind = "", done, title, disabled, asks }) {
  const action = useAction(async () => { const done = await act(); await after?.(); return done; });
  const button = useHandingOn();
  return html`<span class="action">
    <button type="button" class=${kind} title=${title} disabled=${disabled} aria-busy=${action.isRunning} ref=${button}
      onClick=${() => !action.isRunning && (!asks || confirm(asks)) && action.run()}>${children}</button>
    ${action.failure && html`<span class="said bad" role="alert">${explain(action.failure)}</span>`}
    ${action.done && done && html`<span class="said good" role="status">${typeof done === "function" ? done(action.done) : done}</span>`}
  </span>`;
}

export const Switch = ({ isOn, act, ...more }) => html`<${Action} act=${() => act(!isOn)} ...${more}>${isOn ? t("Switch off") : t("Switch on")}<//>`;

// The server's tasks by their keys: the title, and the address that starts the task.
export const TASKS = {
  "checkin-all": ["Check in", "/api/checkin/trigger"], "sync-all-account-tokens": ["Sync tokens", "/api/account-tokens/sync-all"],
  "site-announcements:all": ["Announcements", "/api/site-announcements/sync"], "refresh-models-and-rebuild-routes": ["Refresh models", "/api/routes/rebuild"],
  "refresh-all-account-runtime-health": ["Read balances", "/api/accounts/health/refresh"], "model-availability-probe-all": ["Probe all models", "/api/models/probe"],
  "rotate-seal-key": ["New seal key"], "replace-index-key": ["New index key"],
};
export const taskTitle = ({ dedupeKey, type, title }) => (TASKS[dedupeKey] ? t(TASKS[dedupeKey][0]) : coded(type, title, title));

export const Healthy = ({ is }) => html`<${Badge} kind=${is ? "good" : "bad"}>${is ? t("healthy") : t("unhealthy")}<//>`;

// The title of an event: in Chinese, the kind of the event goes before the server's English title.
export const eventTitle = ({ type, relatedType, title }) => coded(["task", "settings", "update_center"].includes(relatedType) ? relatedType : type, title, title);
export const Level = ({ of: level }) => html`<${Badge} kind=${{ warning: "warn", error: "bad" }[level]}>${t(level)}<//>`;

// A button whose `start` returns an answer with a task's id; shows the task's progress until it ends or the button is gone.
export function TaskAction({ start, after, ...more }) {
  const [state, setState] = useState(null);
  const stop = useRef(null);
  useEffect(() => () => stop.current?.abort(), []);
  const act = async () => {
    stop.current = new AbortController();
    const { jobId, taskId } = await start();
    const ended = await task(jobId ?? taskId, setState, stop.current.signal);
    setState(null);
    if (ended.status === "failed") throw new Failure("failed", ended.error ?? ended.message);
    after?.();
    return ended.message;
  };
  return html`<${Action} act=${act} done=${(said) => html`<bdi>${said}</bdi>`} ...${more} />
    ${state && html`<span class="said" role="status"><bdi>${state.message}</bdi></span>`}`;
}

export const probes = (what) => t("Probe all models of {what}?", "探测 {what} 的全部模型？", { what });

// A button that starts one of `TASKS`. A probe may cost money at each of the `accounts`, so it asks first.
export const StartTask = ({ kind, accounts = [], label = t(TASKS[kind][0]), after }) => html`<${TaskAction} start=${() => post(TASKS[kind][1])} after=${after}
  asks=${kind === "model-availability-probe-all" && probes(count(accounts.filter(({ status }) => status === "active").length, "{count} account", "{count} accounts"))}>${label}<//>`;

// Escape and the cross close the dialog, and ask first about unsaved changes; the focus goes in, and later back to where it
// was.
export function Dialog({ title, onClose, children, wide }) {
  const dialog = useRef(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const own = dialog.current;
    own.showModal();
    (own.querySelector("[autofocus]") ?? own.querySelector("input, select, textarea, footer button"))?.focus();
    return () => { own.close(); before?.focus?.(); };
  }, []);
  const close = (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (mayLeave(dialog.current)) onClose();
  };
  return html`
    <dialog ref=${dialog} class=${wide ? "wide" : ""} aria-labelledby=${id} onCancel=${close} onKeyDown=${(event) => event.key === "Escape" && !event.isComposing && close(event)}>
      <header><h2 id=${id}>${title}</h2><button class="icon" aria-label=${t("Close")} onClick=${close}>×</button></header>
      ${children}
    </dialog>`;
}

// A button that opens what `children` draws; `children` is a function of the closing function. `InDialog` draws it in a dialog.
export function Opens({ label, children, ...more }) {
  const [isOpen, setOpen] = useState(false);
  const button = useHandingOn();
  return html`<button type="button" ...${more} ref=${button} onClick=${() => setOpen(true)}>${label}</button>${isOpen && children(() => setOpen(false))}`;
}

// Asks before `name` is deleted; if there is a `phrase`, the user has to type it.
function Confirm({ title, name, consequence, verb, phrase, act, after, onClose }) {
  const [typed, setTyped] = useState("");
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <div class="name"><bdi>${name}</bdi></div>
      ${consequence && html`<p>${consequence}</p>`}
      <${Form} keeps kind="danger" act=${act} after=${() => { onClose(); after?.(); }} verb=${verb} onCancel=${onClose} disabled=${phrase && typed.trim() !== phrase}>
        ${phrase && html`<${Field} label=${t("Type {phrase} to continue", "输入 {phrase} 以继续", { phrase })} value=${typed} onChange=${setTyped} />`}<//>
    <//>`;
}

export const InDialog = ({ label, title = label, wide, after, children, ...more }) => html`<${Opens} label=${label} ...${more}>${(close) => html`
  <${Dialog} title=${title} wide=${wide} onClose=${close}>${children(() => { close(); after?.(); })}<//>`}<//>`;

export const Removal = ({ label = t("Delete", "删除"), title = label, class: kind = "danger quiet", ...more }) => html`
  <${Opens} label=${label} class=${kind}>${(close) => html`<${Confirm} title=${title} verb=${label} ...${more} onClose=${close} />`}<//>`;

// The keys of marked rows: `flip(key)` marks or unmarks a row, `tick(key, name)` draws its check box.
export function useMarks() {
  const [keys, setKeys] = useState(new Set());
  const flip = (key) => setKeys(new Set(keys.has(key) ? [...keys].filter((one) => one !== key) : [...keys, key]));
  const tick = (key, name) => html`<input type="checkbox" aria-label=${t("Select {name}", "勾选 {name}", { name })} checked=${keys.has(key)} onChange=${() => flip(key)} />`;
  return { keys, setKeys, flip, tick };
}

// Cuts a list into portions of `most` items.
export function* portions(list, most) {
  for (let at = 0; at < list.length; at += most) yield list.slice(at, at + most);
}

const NAMED = 8;
// The number of rows in one request: of more keys, the server would leave out the rest.
const SENT = 500;

// Actions on all `rows` (`{id, name}`) at once: `path` names the resource, `label` the count. `children` is a function of
// `send(action, more)` and draws further actions. `onAll`, if given, is called with the rows to mark instead: `all`, or none.
export function Batch({ path, rows, all = rows, onAll, label: labelOf, actions = [], consequence, after, children }) {
  const [failed, setFailed] = useState([]);
  const label = labelOf(rows.length);
  const send = async (action, more) => {
    const failures = [];
    try {
      for (const some of portions(rows, SENT)) {
        const { failedItems = [] } = await post(`/api/${path}/batch`, { ids: some.map(({ id }) => id), action, ...more }, { timeoutMs: 300_000 });
        failures.push(...failedItems.map(({ id, message }) => ({ message, name: rows.find((row) => row.id === id).name })));
      }
    } finally {
      setFailed(failures);
      await after();
    }
  };
  const names = `${label}\n\n${rows.slice(0, NAMED).map(({ name }) => name).join("\n")}${rows.length > NAMED ? "\n…" : ""}`;
  return html`
    ${failed.length > 0 && html`<${Note} kind="bad">${t("Some of these failed:", "以下各项操作失败：")}
      <ul>${failed.map(({ name, message }) => html`<li><bdi>${name}</bdi>: <bdi>${message}</bdi></li>`)}</ul>
      <${Link} act=${() => setFailed([])}>${t("Close")}<//><//>`}
    ${rows.length > 0 && html`<div class="note actions" role="group" aria-label=${label}><strong>${label}</strong>
      ${onAll && (rows.length < all.length ? html`<button class="quiet" onClick=${() => onAll(all)}>${t("Choose all {count}", "全选 {count} 个", { count: all.length })}</button>`
        : html`<${Going} class="quiet" onClick=${() => onAll([])}>${t("Choose none", "全不选")}<//>`)}
      ${[["enable", t("Switch on")], ["disable", t("Switch off")], ...actions].map(([action, text]) => html`<${Action} key=${action} asks=${action === "disable" && `${text}: ${names}`} act=${() => send(action)} done=${t("Done")}>${text}<//>`)}
      ${children?.(send)}
      <${Removal} title=${t("Delete all of these?", "删除以下各项？")} name=${names} consequence=${consequence} act=${() => send("delete")} /></div>`}`;
}

// === fields and forms ===

// A labelled field. `kind` is text, number, password, area or switch; `choices`, as `[value, label]`, make it a selection.
// `from` are the reads that the choices come from; their failures are shown.
export function Field({ label, hint, kind = "text", value, onChange, choices, from = [], failure, ...more }) {
  const id = useId();
  const set = (event) => onChange(kind === "switch" ? event.target.checked : event.target.value);
  const about = hint || failure ? `${id}-hint` : undefined;
  const shared = { id, "aria-describedby": about, "aria-invalid": failure ? "true" : undefined, ...more };
  const named = html`<label for=${id}>${label}</label>`;
  const input = kind === "switch" ? html`<input type="checkbox" role="switch" checked=${!!value} onChange=${set} ...${shared} />${named}`
    : choices ? html`${named}<select value=${value} onChange=${set} ...${shared}>${choices.map(([key, text]) => html`<option value=${key}>${text}</option>`)}</select>`
      : kind === "area" ? html`${named}<textarea value=${value} onInput=${set} spellcheck=${false} ...${shared}></textarea>`
        : html`${named}<input type=${kind} value=${value} onInput=${set} autocomplete=${kind === "password" ? "new-password" : "off"} autocapitalize="off" spellcheck=${false} ...${shared} />`;
  return html`<div class="field ${kind}">${input}
    ${about && html`<p class="hint ${failure ? "bad" : ""}" id=${about}>${failure ?? hint}</p>`}
    ${from.map((read) => html`<${Failed} of=${read} />`)}</div>`;
}

export const partsOf = (text, between = /[,，\n]/) => text.split(between).map((part) => part.trim()).filter(Boolean);

// Merges the changes of others into a list that is sent as a whole. `lists` are the one that the form was opened with, the
// typed one and the stored one.
export function merged(...lists) {
  const [before, typed, now] = lists.map((list) => list.map((one) => JSON.stringify(one)));
  const kept = typed.filter((one) => !before.includes(one) || now.includes(one));
  const added = now.filter((one) => !before.includes(one));
  return [...new Set([...kept, ...added])].map((one) => JSON.parse(one));
}

export function Filter({ name, ...more }) {
  const [value, set] = useFilter(name);
  return html`<${Field} value=${value} onChange=${set} ...${more} />`;
}

export const Languages = ({ onChange, class: kind }) => html`<label class=${kind}><span class="unseen">${t("Language", "语言")}</span>
  <select value=${currentLanguage()} onChange=${(event) => onChange(event.target.value)}>${languages.map(([key, label]) => html`<option value=${key}>${label}</option>`)}</select></label>`;

export const fieldsOf = (values, set) => (name, label, more) =>
  html`<${Field} label=${label} value=${values[name] ?? ""} onChange=${(value) => set(name, value)} ...${more} />`;

// The members of `now` that are not those of `sent`.
export const without = (now, sent) => Object.fromEntries(Object.entries(now).filter(([name, value]) => value !== sent[name]));

// The state of a form over a value that was read: `field(name, label, more)` draws a field, `changes` has the changed fields.
// While there are changes, a newer value does not replace the `shown` one.
export function useDraft(read) {
  const [changes, setChanges] = useState({});
  const isSame = !Object.keys(changes).length;
  const held = useRef();
  if (isSame) held.current = read;
  const shown = held.current;
  const set = (name, value) => setChanges(({ [name]: _, ...rest }) => (String(value) === String(shown[name] ?? "") ? rest : { ...rest, [name]: value }));
  const values = { ...shown, ...changes };
  // What was typed while the changes were being saved stays.
  const saved = () => { held.current = values; setChanges((now) => without(now, changes)); };
  return { values, changes, shown, set, isSame, field: fieldsOf(values, set), clear: () => setChanges({}), saved, replace: setChanges };
}

// A form that Enter submits through the async functions `act` and `after`. Until then changes count as unsaved, unless the
// page `keeps` them. With a `draft`, only changes can be submitted. Submitting clears them and shows `done`; Cancel clears
// them, too.
export function Form({ act, after, draft, verb = t("Save"), done = t("Saved"), onCancel = draft?.isSame === false ? draft.clear : undefined, children, disabled, keeps, kind = "first" }) {
  const [state, setState] = useState("");
  const action = useAction(async () => { await act(); draft?.saved(); setState("saved"); await after?.(); });
  const form = useRef(null);
  // If the form disappears while it has the focus, the next step, below the dialog's header, gets the focus.
  useLayoutEffect(() => () => {
    const dialog = form.current.contains(document.activeElement) && form.current.closest("dialog");
    if (dialog) setTimeout(() => dialog.querySelectorAll(FOCUSABLE)[1]?.focus());
  }, []);
  const isChanged = draft ? !draft.isSame : state === "changed";
  const failedRead = useContext(FailedRead);
  const stale = draft && failedRead;
  // A disabled button would lose the focus.
  const isBlocked = !!(disabled || draft?.isSame || stale || action.isRunning);
  // A dialog's form may be inside another form.
  const send = (event) => { event.preventDefault(); event.stopPropagation(); if (!isBlocked) action.run(); };
  return html`<form ref=${form} class=${isChanged && !keeps ? "unsaved" : ""} onSubmit=${send} onInput=${() => setState("changed")}
    onClick=${({ target }) => target.closest("fieldset button, .link:not([aria-expanded])") && setState("changed")}>
    ${children}
    ${draft?.isSame && state === "saved" && html`<p class="said good" role="status">${done}</p>`}
    <${Failed} of=${stale || action} />
    <footer>
      ${onCancel && html`<button type="button" onClick=${onCancel}>${t("Cancel")}</button>`}
      <button class=${kind} aria-disabled=${isBlocked} aria-busy=${action.isRunning}>${verb}</button>
    </footer>
  </form>`;
}

// Tabs; `items` are `[key, label]`. Changing the tab loses the forms below, unless the page `keeps` them.
export function Tabs({ items, value, onChange, label, keeps }) {
  const bar = useRef(null);
  const choose = (key) => (keeps || mayLeave(bar.current.parentElement, "form.unsaved")) && onChange(key);
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = (items.findIndex(([key]) => key === value) + by + items.length) % items.length;
    choose(items[next][0]);
    bar.current.children[next].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${bar} onKeyDown=${step}>
    ${items.map(([key, text]) => html`<button type="button" role="tab" key=${key} aria-selected=${key === value}
      tabindex=${key === value ? 0 : -1} onClick=${() => choose(key)}>${text}</button>`)}
  </div>`;
}

export function Copyable({ text, label }) {
  const [copied, setCopied] = useState(false);
  const area = useRef(null);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); } catch {
      // Without TLS a page may not write to the clipboard: the text is selected and copied by the browser's command instead.
      getSelection().selectAllChildren(area.current);
      if (!document.execCommand("copy")) return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<div class="copyable"><pre ref=${area} tabindex="0" aria-label=${label}>${text}</pre>
    <button type="button" class="quiet" onClick=${copy}>${copied ? t("Copied") : t("Copy", "复制")}</button></div>`;
}

export function Reveal({ masked, read, label }) {
  const [value, setValue] = useState(null);
  return html`${value === null ? html`<span class="mono">${masked}</span>` : html`<${Copyable} text=${value} label=${label} />`} <${Action} class="quiet"
    act=${async () => setValue(value === null ? await read() : null)}>${value === null ? t("Reveal", "显示") : t("Hide", "隐藏")}<//>`;
}

// A field for a secret. The `stored` value is never in the field, which is empty until the user types; null removes the stored
// value, if it `mayGo`.
export const Kept = ({ stored, empty, value, onChange, mayGo = true, ...more }) => html`
  <${Field} ...${more} value=${value ?? ""} onChange=${onChange} placeholder=${!stored ? empty : value === null ? "" : t("unchanged")}
    hint=${value === null ? t("Removed when saved.", "保存时移除。") : stored && stored !== true && html`<bdi class="mono">${stored}</bdi>`} />
  ${stored && mayGo && html`<${Link} act=${() => onChange(value === null ? "" : null)}>${value === null ? t("Keep it", "保留") : t("Remove")}<//>`}`;

export const newKey = () => `sk-${Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;

export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function Fold({ label, children }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  return html`<div class="fold">
    <button type="button" class="link" aria-expanded=${open} aria-controls=${id} onClick=${() => setOpen(!open)}>
      <span aria-hidden="true">${open ? "▾" : "▸"}</span> ${label}</button>
    <div id=${id} hidden=${!open}>${open && children}</div>
  </div>`;
}

// Chooses several of many `options` (`{key, text}`) by typing. `beside(key, text)` is drawn beside a chosen one; `from` as in
// `Field`.
export function Pick({ label, hint, options, from = [], chosen, onChange, beside }) {
  const [typed, setTyped] = useState("");
  const wanted = typed.trim().toLowerCase();
  const taken = new Set(chosen);
  const textOf = (key) => options.find((option) => option.key === key)?.text ?? `#${key}`;
  const found = wanted || options.length <= 12
    ? options.filter((option) => !taken.has(option.key) && option.text.toLowerCase().includes(wanted)).slice(0, 20) : [];
  const add = (key) => { onChange([...chosen, key]); setTyped(""); };
  // Enter takes the first one; it would send the form around.
  const enter = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (found[0]) add(found[0].key);
  };
  return html`<fieldset class="pick"><legend>${label}</legend>
    ${hint && html`<p class="hint">${hint}</p>`}
    ${from.map((read) => html`<${Failed} of=${read} />`)}
    <ul>${chosen.map((key) => html`<li key=${key}><bdi>${textOf(key)}</bdi> ${beside?.(key, textOf(key))}
      <${Going} class="quiet" aria-label=${t("Remove {name}", { name: textOf(key) })}
        onClick=${() => onChange(chosen.filter((other) => other !== key))}>×<//></li>`)}</ul>
    ${options.length > 12 && html`<input value=${typed} placeholder=${t("Type to find …", "输入以查找…")} aria-label=${t("Find: {what}", "查找：{what}", { what: label })} autocomplete="off"
      onInput=${(event) => setTyped(event.target.value)} onKeyDown=${enter} />`}
    <div class="actions">${found.map(({ key, text }) => html`<${Going} class="quiet" key=${key} onClick=${() => add(key)}>+ <bdi>${text}</bdi><//>`)}</div>
  </fieldset>`;
}

export const Table = ({ label, head = [], rows }) => html`<div class="scrolls" tabindex="0" role="region" aria-label=${label}><table>
  <thead><tr>${head.map((name) => html`<th>${name}</th>`)}</tr></thead>
  <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td><bdi>${cell}</bdi></td>`)}</tr>`)}</tbody></table></div>`;

// === an account ===

export const nameOf = (account) => account.username || t("Account {id}", account);

export const isInTrouble = ({ status, runtimeHealth }) => ["expired", "unhealthy"].includes(status) || ["unhealthy", "degraded"].includes(runtimeHealth.state);

export const healthReason = ({ source, reason }) => coded(source, reason, source !== "none" && reason);

export function StateBadge({ account: { status, runtimeHealth: { state, ...why } } }) {
  const words = { healthy: t("healthy"), degraded: t("degraded"), unhealthy: t("unhealthy"), disabled: t("off"), expired: t("expired"), unknown: t("not checked", "未检查") };
  const told = status === "expired" ? status : state;
  return html`<${Badge} title=${healthReason(why)} kind=${{ healthy: "good", degraded: "warn", unhealthy: "bad", expired: "bad" }[told]}>${words[told] ?? told}<//>`;
}

export async function recheck({ id, capabilities }) {
  if (capabilities?.canRefreshBalance) return good(await post(`/api/accounts/${id}/balance`));
  const { refresh } = good(await post(`/api/models/check/${id}`));
  return good({ ...refresh, success: refresh.status !== "failed", message: coded(refresh.errorCode, refresh.errorMessage, refresh.errorMessage) });
}
