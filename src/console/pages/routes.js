// The page Models: one row a model, a pattern or a group, with its channels behind it.

import { useMemo, useState } from "../vendor/htm-preact.js";
import { useFilter } from "../address.js";
import { get, Failure, post, task } from "../api.js";
import { useRead } from "../data.js";
import { number } from "../format.js";
import { List } from "../list.js";
import { Action, Badge, Dialog, Field, Fold, Removal, Section, html } from "../parts.js";
import { count, t } from "../words.js";
import { RouteDetail } from "./routes/channels.js";
import { RouteForm, strategies } from "./routes/edit.js";
import { isExact } from "./routes/pattern.js";

// What the list filters by, prepared once for each answer.
function prepared(routes) {
  const rows = routes.map((route) => ({
    ...route,
    name: route.displayName || route.modelPattern,
    kind: route.routeMode === "explicit_group" ? "group" : isExact(route.modelPattern) ? "model" : "pattern",
    state: !route.enabled ? "off" : route.enabledChannelCount ? "on" : "empty",
    text: [route.modelPattern, route.displayName ?? "", ...route.siteNames].join("\n").toLowerCase(),
  }));
  return rows.sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : one.id - other.id));
}

const STATES = { on: ["good", "In use"], off: ["", "Off"], empty: ["bad", "No channel"] };
const KINDS = { group: "Group", pattern: "Pattern" };

const columns = () => [
  { name: "model", label: t("Model"), cell: (row) => html`<bdi>${row.name}</bdi>` },
  { name: "kind", label: t("Kind"), class: "less", cell: (row) => row.kind === "model" && row.name === row.modelPattern ? t("Model")
    : html`${row.kind !== "model" && html`<${Badge}>${t(KINDS[row.kind])}<//> `}${row.name !== row.modelPattern && html`<bdi class="quiet mono">${row.modelPattern}</bdi>`}` },
  { name: "channels", label: t("Channels"), class: "number", cell: (row) => row.enabledChannelCount === row.channelCount
    ? number(row.channelCount) : t("{on} of {all}", { on: row.enabledChannelCount, all: row.channelCount }) },
  { name: "state", label: t("State"), cell: (row) => html`<${Badge} kind=${STATES[row.state][0]}>${t(STATES[row.state][1])}<//>` },
  { name: "strategy", label: t("Strategy"), class: "less", cell: (row) => strategies().find(([key]) => key === row.routingStrategy)?.[1] ?? row.routingStrategy },
  { name: "sites", label: t("Sites"), class: "less", cell: (row) => html`<bdi class="quiet">${row.siteNames.join(", ")}</bdi>` },
];

const said = (made) => t("{models} models; routes +{createdRoutes} −{removedRoutes}, channels +{createdChannels} −{removedChannels}.", made);

async function readModels() {
  const { jobId } = await post("/api/routes/rebuild");
  const ended = await task(jobId);
  if (ended.status === "failed") throw new Failure("failed", ended.message);
  return ended.result.rebuild;
}

// Asks where a request for a name would go. Nothing is sent.
function Lookup() {
  const [model, setModel] = useState("");
  const [asked, setAsked] = useState(null);
  const found = useRead(asked && `/api/routes/decision?model=${encodeURIComponent(asked)}`);
  return html`
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); if (model.trim() === asked) found.reload(); setAsked(model.trim() || null); }}>
      <${Field} label=${t("Name as a client asks for it")} value=${model} onChange=${setModel} />
      <button disabled=${!model.trim()}>${t("Where would it go?")}</button>
    </form>
    ${asked && html`<${Section} read=${found}>${({ decision }) => !decision.matched
      ? html`<p>${t("No enabled route matches.")}</p>`
      : html`<p><bdi><b>${decision.selectedLabel ?? t("No channel can serve it now.")}</b></bdi></p>
        <ol>${decision.summary.map((step) => html`<li><bdi>${step}</bdi></li>`)}</ol>`}<//>`}`;
}

// What is done to all routes that the filter shows.
function Batch({ rows, after }) {
  const send = (action) => async () => { await post("/api/routes/batch", { ids: rows.map((row) => row.id), action }); after(); };
  const amount = count(rows.length, "{count} route", "{count} routes");
  return html`<p class="action"><span>${amount}:</span>
    <${Action} class="quiet" act=${send("enable")}>${t("Switch on")}<//>
    <${Action} class="quiet" act=${send("disable")}>${t("Switch off")}<//>
    <${Removal} label=${t("Delete")} title=${t("Delete routes")} name=${amount} phrase=${String(rows.length)}
      consequence=${t("All that the filter shows go, with their channels. A rebuild makes those of known models anew.")} act=${send("delete")} /></p>`;
}

export function Routes() {
  const read = useRead("/api/routes/summary", { every: 30 });
  const [text, setText] = useFilter("q");
  const [kind, setKind] = useFilter("kind");
  const [state, setState] = useFilter("state");
  const [open, setOpen] = useFilter("open");
  const [isNew, setNew] = useState(false);
  const [looks, setLooks] = useState(false);
  const rows = useMemo(() => prepared(read.value ?? []), [read.value]);
  const wanted = text.trim().toLowerCase();
  const shown = useMemo(() => rows.filter((row) => (!wanted || row.text.includes(wanted))
    && (!kind || row.kind === kind) && (!state || row.state === state)), [rows, wanted, kind, state]);
  const rebuild = async () => { const { rebuild: made } = await post("/api/routes/rebuild", { refreshModels: false }); read.reload(); return made; };
  const refresh = async () => { const made = await readModels(); read.reload(); return made; };
  return html`
    <${Section} title=${t("Models and routes")} read=${read} isEmpty=${(value) => !value.length}
      empty=${html`<p>${t("No models yet. They appear when a site with an account is added.")}</p><p><a href="/sites">${t("Sites")}</a></p>`}
      actions=${html`
        <${Action} act=${rebuild} done=${said} title=${t("Makes the routes from the models that are known")}>${t("Rebuild")}<//>
        <${Action} act=${refresh} done=${said} title=${t("Asks every account for its models first")}>${t("Read models anew")}<//>
        <button class="first" onClick=${() => setNew(true)}>${t("New route")}</button>`}>
      ${() => html`
        <div class="filters" role="search">
          <${Field} kind="search" label=${t("Filter")} placeholder=${t("Model or site")} value=${text} onChange=${setText} />
          <${Field} kind="select" label=${t("Kind")} value=${kind} onChange=${setKind}
            choices=${[["", t("All")], ["model", t("Model")], ["pattern", t("Pattern")], ["group", t("Group")]]} />
          <${Field} kind="select" label=${t("State")} value=${state} onChange=${setState}
            choices=${[["", t("All")], ...Object.entries(STATES).map(([key, [, label]]) => [key, t(label)])]} />
        </div>
        ${shown.length !== rows.length && shown.length > 0 && html`<${Batch} rows=${shown} after=${read.reload} />`}
        ${shown.length ? html`<${List} label=${t("Models and routes")} rows=${shown} columns=${columns()} keyOf=${(row) => String(row.id)}
          opened=${open} onOpen=${(key) => setOpen(key ?? "")}
          detail=${(row) => html`<${RouteDetail} key=${row.id} row=${row} rows=${rows} after=${read.reload} />`} />`
          : html`<div class="empty">${t("Nothing matches the filter.")}</div>`}`}
    <//>
    <section class="section"><${Fold} label=${t("Where would a request go?")} open=${looks} onToggle=${() => setLooks(!looks)}><${Lookup} /><//></section>
    ${isNew && html`<${Dialog} title=${t("New route")} wide onClose=${() => setNew(false)}>
      <${RouteForm} rows=${rows} onDone=${(id) => { setNew(false); if (id) { read.reload(); } }} /><//>`}`;
}
