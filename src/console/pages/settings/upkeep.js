// What the server did by itself and on request: tasks and events; maintenance; and what it is made of.

import { useState } from "../../vendor/htm-preact.js";
import { useFilter } from "../../address.js";
import { get, post, remove } from "../../api.js";
import { useRead } from "../../data.js";
import { clock } from "../../format.js";
import { List } from "../../list.js";
import { Action, Badge, Field, Removal, Section, Time, html } from "../../parts.js";
import { t } from "../../words.js";

const TASK = { pending: ["", "waiting"], running: ["warn", "running"], succeeded: ["good", "done"], failed: ["bad", "failed"] };

export function Tasks() {
  const read = useRead("/api/tasks?limit=200", { every: 5 });
  const [opened, setOpened] = useFilter("open");
  const columns = [
    { name: "title", label: t("Task"), cell: (task) => html`<bdi>${task.title}</bdi>` },
    { name: "state", label: t("State"), cell: (task) => html`<${Badge} kind=${TASK[task.status]?.[0]}>${t(TASK[task.status]?.[1] ?? task.status)}<//>` },
    { name: "message", label: t("Progress"), cell: (task) => html`<bdi>${task.error ?? task.message}</bdi>` },
    { name: "at", label: t("Begun"), class: "less", cell: (task) => html`<${Time} at=${task.startedAt ?? task.createdAt} />` },
  ];
  const detail = (task) => html`<p class=${task.error ? "bad-text" : ""}><bdi>${task.error ?? task.message}</bdi></p>
    <table><tbody>${task.logs.map((line) => html`<tr key=${line.seq}><td class="number">${clock(line.createdAt)}</td><td><bdi>${line.message}</bdi></td></tr>`)}</tbody></table>`;
  return html`<${Section} title=${t("Tasks")} read=${read} isEmpty=${(value) => !value.tasks.length} empty=${t("No task since the server was started.")}>
    ${(value) => html`<${List} label=${t("Tasks")} rows=${value.tasks} columns=${columns} keyOf=${(task) => task.id} opened=${opened || null} onOpen=${(id) => setOpened(id ?? "")} detail=${detail} />`}<//>`;
}

const LEVEL = { info: "", warning: "warn", error: "bad" };

export function Events() {
  const [unread, setUnread] = useFilter("unread");
  const [opened, setOpened] = useFilter("open");
  const read = useRead(`/api/events?limit=500${unread && "&read=false"}`, { every: 15 });
  const open = async (id) => {
    setOpened(id ?? "");
    const event = read.value.find((one) => String(one.id) === id);
    if (event && !event.read) { await post(`/api/events/${id}/read`).catch(() => {}); read.reload(); }
  };
  const columns = [
    { name: "title", label: t("Event"), cell: (event) => html`<bdi style=${{ fontWeight: event.read ? 400 : 700 }}>${event.title}</bdi>` },
    { name: "level", label: t("Level"), cell: (event) => html`<${Badge} kind=${LEVEL[event.level]}>${t(event.level)}<//> ${!event.read && html`<span class="quiet">${t("new")}</span>`}` },
    { name: "message", label: t("Message"), class: "less", cell: (event) => html`<bdi>${event.message}</bdi>` },
    { name: "at", label: t("When"), cell: (event) => html`<${Time} at=${event.createdAt} />` },
  ];
  const detail = (event) => html`<p><bdi>${event.title}</bdi></p><p><bdi>${event.message}</bdi></p><p class="quiet">${event.type} · <${Time} at=${event.createdAt} plain /></p>`;
  return html`<${Section} title=${t("Events")} read=${read} actions=${html`
      <${Action} act=${async () => { await post("/api/events/read-all"); await read.reload(); }}>${t("Mark all as read")}<//>
      <${Removal} label=${t("Delete all")} title=${t("Delete all events?")} name=${t("Every event, read and unread")} act=${() => remove("/api/events")} after=${read.reload} />`}>
    ${(events) => html`<div class="filters"><${Field} kind="switch" label=${t("Unread only")} value=${unread === "1"} onChange=${(is) => setUnread(is ? "1" : "")} /></div>
      ${events.length ? html`<${List} label=${t("Events")} rows=${events} columns=${columns} keyOf=${(event) => String(event.id)} opened=${opened || null} onOpen=${open} detail=${detail} />`
        : html`<p class="empty">${t("No events.")}</p>`}`}<//>`;
}

const WORK = [
  ["clear-usage", "Clear usage", "The log, all sums, counters and cooldowns are forgotten."],
  ["clear-cache", "Forget found models", "Found models and automatic channels and routes go, then models are asked for anew. What was made by hand stays."],
  ["rotate-seal-key", "New seal key", "A new key seals every stored credential; a task seals the old ones anew, then deletes the former key."],
  ["replace-index-key", "New index key", "A new key makes the look-up hashes; a task makes the old ones anew, then deletes the former key."],
  ["factory-reset", "Factory reset", "Everything goes: sites, accounts, keys, routes, the log, the settings. The admin token is the built-in one again, which works on the server's machine only.", "RESET"],
];

export function Maintenance() {
  const [answer, setAnswer] = useState(null);
  const run = async (name, phrase) => {
    setAnswer({ name, ...await post(`/api/settings/maintenance/${name}`, phrase && { confirm: phrase }) });
    // The token does not hold any more: the next answer leads to the sign-in.
    if (phrase) get("/api/events/count").catch(() => {});
  };
  return html`<div class="columns">${WORK.map(([name, title, words, phrase]) => html`<${Section} title=${t(title)} key=${name}><p>${t(words)}</p>
    <${Removal} label=${t(title)} title=${t("Go on?")} name=${`${t(title)} · ${location.host}`} consequence=${t(words)} phrase=${phrase} act=${() => run(name, phrase)} />
    ${answer?.name === name && html`<p class="said good" role="status">${answer.jobId ? html`<a href=${`/settings?tab=tasks&open=${answer.jobId}`}>${t("A task does it: see how it goes")}</a>` : t("Done")}</p>`}<//>`)}</div>`;
}

export function About() {
  const read = useRead("/api/openapi.json");
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(read.value, null, 2)], { type: "application/json" }));
    link.download = "switchyard-openapi.json";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<${Section} title=${t("About")} read=${read}>${(value) => html`<p>Switchyard <bdi>${value.info?.version}</bdi></p>
      <button onClick=${save}>${t("Save the description of the API (OpenAPI)")}</button>`}<//>
    <${Section} title=${t("What others wrote")}><p>htm 3.1.1 (Apache-2.0), ${t("with")} Preact (MIT)</p><//>`;
}
