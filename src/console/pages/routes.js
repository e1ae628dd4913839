// The page Models: one row a model, a pattern or a group, with its channels behind it.

import { useMemo, useState } from "../vendor/htm-preact.js";
import { useFilter } from "../address.js";
import { post } from "../api.js";
import { useRead } from "../data.js";
import { number } from "../format.js";
import { List } from "../list.js";
import { Action, Badge, Dialog, Field, Section, TaskAction, html } from "../parts.js";
import { t } from "../words.js";
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
const KINDS = { model: "Model", pattern: "Pattern", group: "Group" };

const columns = () => [
  { name: "model", label: t("Model"), cell: (row) => html`<bdi>${row.name}</bdi>` },
  { name: "kind", label: t("Kind"), class: "less", cell: (row) => html`${t(KINDS[row.kind])}${row.name !== row.modelPattern
    && html` <bdi class="quiet mono">${row.modelPattern}</bdi>`}` },
  { name: "channels", label: t("Channels"), class: "number", cell: (row) => row.enabledChannelCount === row.channelCount
    ? number(row.channelCount) : t("{on} of {all}", { on: row.enabledChannelCount, all: row.channelCount }) },
  { name: "state", label: t("State"), cell: (row) => html`<${Badge} kind=${STATES[row.state][0]}>${t(STATES[row.state][1])}<//>` },
  { name: "strategy", label: t("Strategy"), class: "less", cell: (row) => strategies().find(([key]) => key === row.routingStrategy)?.[1] ?? row.routingStrategy },
  { name: "sites", label: t("Sites"), class: "less", cell: (row) => html`<bdi class="quiet">${row.siteNames.join(", ")}</bdi>` },
];

const said = (made) => t("{models} models; routes +{createdRoutes} −{removedRoutes}, channels +{createdChannels} −{removedChannels}.", made);

export function Routes() {
  const read = useRead("/api/routes/summary", { every: 30 });
  const [text, setText] = useFilter("q");
  const [kind, setKind] = useFilter("kind");
  const [state, setState] = useFilter("state");
  const [open, setOpen] = useFilter("open");
  const [isNew, setNew] = useState(false);
  const rows = useMemo(() => prepared(read.value ?? []), [read.value]);
  const wanted = text.trim().toLowerCase();
  const shown = useMemo(() => rows.filter((row) => (!wanted || row.text.includes(wanted))
    && (!kind || row.kind === kind) && (!state || row.state === state)), [rows, wanted, kind, state]);
  const rebuild = async () => { const { rebuild: made } = await post("/api/routes/rebuild", { refreshModels: false }); read.reload(); return made; };
  return html`
    <${Section} title=${t("Models and routes")} read=${read} isEmpty=${(value) => !value.length}
      empty=${html`<a href="/sites">${t("No models yet. They appear when a site with an account is added.")}</a>`}
      actions=${html`
        <${Action} act=${rebuild} done=${said}>${t("Rebuild")}<//>
        <${TaskAction} start=${() => post("/api/routes/rebuild")} after=${read.reload}>${t("Read models anew")}<//>
        <button class="first" onClick=${() => setNew(true)}>${t("New route")}</button>`}>
      ${() => html`
        <div class="filters" role="search">
          <${Field} kind="search" label=${t("Filter")} placeholder=${t("Model or site")} value=${text} onChange=${setText} />
          <${Field} kind="select" label=${t("Kind")} value=${kind} onChange=${setKind}
            choices=${[["", t("All")], ...Object.entries(KINDS).map(([key, label]) => [key, t(label)])]} />
          <${Field} kind="select" label=${t("State")} value=${state} onChange=${setState}
            choices=${[["", t("All")], ...Object.entries(STATES).map(([key, [, label]]) => [key, t(label)])]} />
        </div>
        ${shown.length ? html`<${List} label=${t("Models and routes")} rows=${shown} columns=${columns()} keyOf=${(row) => String(row.id)}
          opened=${open || null} onOpen=${(key) => setOpen(key ?? "")}
          detail=${(row) => html`<${RouteDetail} key=${row.id} row=${row} rows=${rows} after=${read.reload} />`} />`
          : html`<div class="empty">${t("Nothing matches the filter.")}</div>`}`}
    <//>
    ${isNew && html`<${Dialog} title=${t("New route")} wide onClose=${() => setNew(false)}>
      <${RouteForm} rows=${rows} onDone=${() => { setNew(false); read.reload(); }} /><//>`}`;
}
