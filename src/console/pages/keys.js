// Keys: what clients authenticate with, what each has used and may use, and how a client is connected.

import { useMemo, useState } from "../vendor/htm-preact.js";
import { useFilter } from "../address.js";
import { post } from "../api.js";
import { useRead } from "../data.js";
import { ago, money, number } from "../format.js";
import { List } from "../list.js";
import { Action, Badge, Confirm, Dialog, Field, Form, Note, Section, Tabs, Time, html } from "../parts.js";
import { count, t } from "../words.js";
import { Connect } from "./keys/connect.js";
import { Bound, Detail } from "./keys/detail.js";
import { NewKey } from "./keys/form.js";
import { stateOf } from "./keys/state.js";

const SHOWN_NAMES = 8;

// The names of what a batch touches, not more than one can read.
const Names = ({ keys }) => html`<ul>${keys.slice(0, SHOWN_NAMES).map((key) => html`<li key=${key.id}><bdi>${key.name}</bdi></li>`)}</ul>
  ${keys.length > SHOWN_NAMES && html`<p>${t("and {count} more", { count: keys.length - SHOWN_NAMES })}</p>`}`;

function Labels({ keys, act, onClose }) {
  const [group, setGroup] = useState("");
  const [tags, setTags] = useState("");
  const send = () => act({ action: "updateMetadata", ...(group.trim() && { groupOperation: "set", groupName: group }), ...(tags.trim() && { tagOperation: "append", tags }) });
  return html`<${Dialog} title=${t("Group and tags")} onClose=${onClose}><${Names} keys=${keys} />
    <${Form} act=${send} verb=${t("Save")} onCancel=${onClose} disabled=${!group.trim() && !tags.trim()}>
      <${Field} label=${t("Group")} hint=${t("Empty leaves it as it is.")} value=${group} onChange=${setGroup} />
      <${Field} label=${t("Tags to add")} hint=${t("With commas between them.")} value=${tags} onChange=${setTags} />
    <//><//>`;
}

// What is done with several keys at once. Some of them may fail: those are named until the next try.
function Batch({ chosen, all, onChoose, onDone }) {
  const [asks, setAsks] = useState(null);
  const [failed, setFailed] = useState([]);
  const act = async (body) => {
    const names = new Map(chosen.map((key) => [key.id, key.name]));
    const { failedItems } = await post("/api/downstream-keys/batch", { ids: chosen.map((key) => key.id), ...body });
    setFailed(failedItems.map((item) => ({ ...item, name: names.get(item.id) })));
    setAsks(null);
    onDone();
  };
  const close = () => setAsks(null);
  const names = html`<${Names} keys=${chosen} />`;
  return html`
    ${failed.length > 0 && html`<${Note} kind="bad">${t("This did not work for some keys:")}
      <ul>${failed.map((item) => html`<li key=${item.id}><bdi>${item.name}</bdi>: <bdi>${item.message}</bdi></li>`)}</ul>
      <button class="link" onClick=${() => setFailed([])}>${t("Close")}</button><//>`}
    ${chosen.length > 0 && html`<div class="filters" role="group" aria-label=${t("With the chosen keys")}>
      <strong>${count(chosen.length, "{count} key chosen", "{count} keys chosen")}</strong>
      ${chosen.length < all.length && html`<button class="quiet" onClick=${() => onChoose(all)}>${t("Choose all {count}", { count: all.length })}</button>`}
      <${Action} act=${() => act({ action: "enable" })}>${t("Turn on")}<//>
      <${Action} act=${() => act({ action: "disable" })}>${t("Turn off")}<//>
      <button onClick=${() => setAsks("labels")}>${t("Group and tags …")}</button>
      <button onClick=${() => setAsks("resetUsage")}>${t("Reset usage")}</button>
      <button class="danger quiet" onClick=${() => setAsks("delete")}>${t("Delete")}</button></div>`}
    ${asks === "labels" && html`<${Labels} keys=${chosen} act=${act} onClose=${close} />`}
    ${asks === "resetUsage" && html`<${Confirm} title=${t("Reset usage")} name=${names} verb=${t("Reset usage")} act=${() => act({ action: "resetUsage" })} onClose=${close} />`}
    ${asks === "delete" && html`<${Confirm} title=${t("Delete these keys?")} name=${names} verb=${t("Delete")}
      consequence=${t("Clients that use it are refused at once. The log stays.")} act=${() => act({ action: "delete" })} onClose=${close} />`}`;
}

export function Keys() {
  const [connects, setConnects] = useFilter("connect");
  const [search, setSearch] = useFilter("q");
  const [state, setState] = useFilter("state");
  const [group, setGroup] = useFilter("group");
  const [opened, setOpened] = useFilter("open");
  const [chosen, setChosen] = useState(new Set());
  const [isMaking, setMaking] = useState(false);
  const read = useRead("/api/downstream-keys/summary?range=24h", { every: 10 });
  const prepared = useMemo(() => (read.value?.items ?? []).map((key) => ({ key,
    text: [key.name, key.description, key.keyMasked, key.groupName, ...key.tags, ...key.supportedModels].join("\n").toLowerCase() })), [read.value]);
  const keys = prepared.map(({ key }) => key);
  const wanted = search.trim().toLowerCase();
  const shown = prepared.filter(({ key, text }) => (!wanted || text.includes(wanted)) && (!state || stateOf(key)[2] === state)
    && (!group || key.groupName === group)).map(({ key }) => key);
  const picked = keys.filter((key) => chosen.has(key.id));
  const any = [["", t("All")]];
  const groups = [...new Set(keys.map((key) => key.groupName).filter(Boolean))].sort();
  const toggle = (id) => setChosen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const columns = [
    { name: "name", label: t("Name"), cell: (key) => html`<bdi>${key.name}</bdi>` },
    { name: "state", label: t("State"), cell: (key) => {
      const [kind, words] = stateOf(key);
      return html`<input type="checkbox" aria-label=${t("Choose {name}", { name: key.name })} checked=${chosen.has(key.id)} onChange=${() => toggle(key.id)} /> <${Badge} kind=${kind}>${words}<//>`;
    } },
    { name: "cost", label: t("Cost"), cell: (key) => html`<${Bound} used=${key.usedCost} most=${key.maxCost} show=${money} label=${t("Cost")} />` },
    { name: "requests", label: t("Requests"), cell: (key) => html`<${Bound} used=${key.usedRequests} most=${key.maxRequests} show=${number} label=${t("Requests")} />` },
    { name: "range", label: t("24 hours"), class: "less", cell: (key) => html`<span class="number">${money(key.rangeUsage.totalCost)}
      <span class="quiet"> ${count(key.rangeUsage.totalRequests, "{count} request", "{count} requests")}</span></span>` },
    { name: "labels", label: t("Group, tags"), class: "less", cell: (key) => html`${[key.groupName, ...key.tags].filter(Boolean).map((name) => html`<${Badge} key=${name}><bdi>${name}</bdi><//> `)}` },
    { name: "expires", label: t("Expires"), class: "less", cell: (key) => (key.expiresAt ? html`<${Time} at=${key.expiresAt} />` : html`<span class="quiet">${t("never")}</span>`) },
    { name: "used", label: t("Last used"), class: "less", cell: (key) => html`<span class=${key.lastUsedAt ? "" : "quiet"}>${ago(key.lastUsedAt)}</span>` },
  ];
  return html`
    <${Tabs} label=${t("Keys")} value=${connects} onChange=${setConnects} items=${[["", t("Keys")], ["1", t("Connect a client")]]} />
    ${connects ? html`${(read.failure || !read.value) && html`<${Section} read=${read} />`}<${Connect} keys=${keys} reload=${read.reload} onNew=${() => setMaking(true)} />`
      : html`<${Section} title=${t("Keys of clients")} read=${read} actions=${html`<button class="first" onClick=${() => setMaking(true)}>${t("New key")}</button>`}
          isEmpty=${(value) => !value.items.length}
          empty=${html`<p>${t("There is no key yet. Until there is one, clients use the global token, PROXY_TOKEN.")}</p><button onClick=${() => setMaking(true)}>${t("Make the first key")}</button>`}>
        ${() => html`
          <div class="filters">
            <${Field} kind="search" label=${t("Search")} value=${search} onChange=${setSearch} />
            <${Field} kind="select" label=${t("State")} value=${state} onChange=${setState} choices=${[...any, ["on", t("On")], ["blocked", t("Cannot be used")], ["off", t("Off")]]} />
            <${Field} kind="select" label=${t("Group")} value=${group} onChange=${setGroup} choices=${[...any, ...groups.map((name) => [name, `\u2068${name}\u2069`])]} />
          </div>
          <${Batch} chosen=${picked} all=${shown} onChoose=${(some) => setChosen(new Set(some.map((key) => key.id)))} onDone=${read.reload} />
          ${shown.length ? html`<${List} label=${t("Keys of clients")} rows=${shown} columns=${columns} keyOf=${(key) => String(key.id)} opened=${opened || null}
              onOpen=${(id) => setOpened(id ?? "")} detail=${(key) => html`<${Detail} item=${key} onDone=${read.reload} key=${key.id} />`} />`
            : html`<p class="empty">${t("No key is like this.")}</p>`}`}
      <//>`}
    ${isMaking && html`<${NewKey} onClose=${() => setMaking(false)} onDone=${read.reload} />`}`;
}
