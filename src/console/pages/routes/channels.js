// A route opened: its channels by priority, how likely each is and why, and what can be done about them.

import { useMemo, useState } from "../../vendor/htm-preact.js";
import { get, post, put, remove } from "../../api.js";
import { href } from "../../address.js";
import { useRead } from "../../data.js";
import { duration, money, number, percent } from "../../format.js";
import { Action, Badge, Bar, Countdown, Dialog, Failed, Field, Fold, Form, Pick, Removal, Section, Table, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { RouteForm } from "./edit.js";

// So many channels of a priority are drawn before one asks for more.
const MOST = 50;

const reasons = () => ({
  candidate: t("Takes part"), next: t("Is next"), observed: t("Gets a few requests to be watched"), waiting: t("Others have waited longer"),
  not_leading: t("Another one is steadier"), lower_priority: t("Waits behind a better priority"), breaker_open: t("Its site or model fails again and again"),
  recent_failure: t("Failed lately; others go first"), cooling: t("Cooling down"), half_open: t("Limited by its provider; tried now and then"),
  channel_disabled: t("Switched off"), account_unusable: t("Its account cannot be used"), site_disabled: t("Its site is switched off"),
  token_unusable: t("No usable key"), other_model: t("Serves another model"),
});

// How a route would decide now: for one name, or for a pattern of all channels, each by its own model.
async function decide(row) {
  if (row.kind === "pattern") {
    const { decisions } = await post("/api/routes/decision/route-wide/batch", { routeIds: [row.id] });
    return decisions[row.id];
  }
  const { decisions } = await post("/api/routes/decision/by-route/batch", { items: [{ routeId: row.id, model: row.name }] });
  return decisions[row.id]?.[row.name];
}

// The name under which a request reaches this very route, so that one of its channels can be tried; null if there is none.
function reachedBy(row, channel, rows) {
  if (row.displayName) return row.displayName;
  const name = row.kind === "model" ? row.modelPattern : channel.sourceModel;
  const isTaken = rows.some((other) => other.id !== row.id && other.enabled && other.kind !== "pattern" && other.name === name);
  return !row.enabled || !name || isTaken ? null : name;
}

async function tryOut(model, forcedChannelId) {
  const began = performance.now();
  await post("/api/test/chat", { model, forcedChannelId, max_tokens: 16, messages: [{ role: "user", content: "Say OK." }] });
  return performance.now() - began;
}

function Channel({ channel, chance, row, rows, draft, onDraft, after }) {
  const { id, site, account, token } = channel;
  const name = `${site.name} / ${account.username ?? `#${account.id}`}${token ? ` / ${token.name}` : ""}`;
  const asks = reachedBy(row, channel, rows);
  const code = channel.enabled ? chance?.reasonCode : "channel_disabled";
  const until = chance ? chance.cooldownUntil ?? chance.limitedUntil : channel.cooldownUntil ?? channel.limitedUntil;
  const edit = (field, label) => html`<label>${label} <input type="number" min="0" step="1" value=${draft?.[field] ?? channel[field]}
    aria-label=${`${label}: ${name}`} onInput=${(event) => onDraft(id, field, event.target.value.trim())} /></label>`;
  return html`<li class="channel">
    <div><a href=${href("/sites", { q: site.name })}><bdi>${site.name}</bdi></a>
      <div class="quiet"><bdi>${account.username ?? t("Account {id}", { id: account.id })}</bdi>${token && html` / <bdi>${token.name}</bdi>`}</div>
      ${channel.sourceModel && channel.sourceModel !== row.modelPattern && html`<div class="mono"><bdi>${channel.sourceModel}</bdi></div>`}
      ${channel.manualOverride && html`<${Badge}>${t("By hand")}<//>`}</div>
    <div>${chance ? html`<span class="chance"><${Bar} value=${chance.probability} kind=${chance.eligible ? "" : "bad"} label=${t("Probability of {name}", { name })} />
        <b class="number">${percent(chance.probability, 1)}</b></span>` : ""}
      ${code && html`<div class=${chance?.eligible === false || !channel.enabled ? "bad-text" : ""}>${reasons()[code] ?? code} ${until && html`<${Countdown} until=${until} />`}</div>
        ${chance && html`<div class="quiet raw"><bdi>${chance.reason}</bdi></div>`}`}</div>
    <div class="number">${t("{good} good, {bad} failed", { good: number(channel.successCount), bad: number(channel.failCount) })}
      <div class="quiet">${channel.successCount > 0 && duration(Math.round(channel.totalLatencyMs / channel.successCount))} ${money(channel.totalCost)}</div></div>
    <div class="edits">${edit("priority", t("Priority"))}${edit("weight", t("Weight"))}</div>
    <div class="actions">
      <${Action} class="quiet" act=${() => tryOut(asks, id)} disabled=${!asks || !channel.enabled} done=${(took) => t("Answered in {time}", { time: duration(took) })}>${t("Try")}<//>
      ${asks && html`<a href=${href("/playground", { model: asks, channel: id })}>${t("Playground")}</a>`}
      <${Action} class="quiet" act=${async () => { await put(`/api/channels/${id}`, { enabled: !channel.enabled }); after(); }}>${channel.enabled ? t("Switch off") : t("Switch on")}<//>
      <${Removal} label=${t("Delete")} title=${t("Delete the channel")} name=${html`<bdi>${name}</bdi>`} after=${after} act=${() => remove(`/api/channels/${id}`)} /></div>
  </li>`;
}

// The changed priorities and weights, saved together: priorities at once, weights one by one.
function Changes({ drafts, channels, onDone }) {
  const changed = (field) => channels.filter((one) => drafts[one.id]?.[field] !== undefined && drafts[one.id][field] !== String(one[field]))
    .map(({ id }) => ({ id, [field]: Number(drafts[id][field]), isValid: /^\d{1,9}$/.test(drafts[id][field]) }));
  const [priorities, weights] = [changed("priority"), changed("weight")];
  const all = [...priorities, ...weights];
  const save = async () => {
    if (priorities.length) await put("/api/channels/batch", { updates: priorities.map(({ id, priority }) => ({ id, priority })) });
    for (const { id, weight } of weights) await put(`/api/channels/${id}`, { weight });
    onDone();
  };
  return all.length > 0 && html`<div class="note changes"><span role="status">${count(all.length, "{count} change is not saved", "{count} changes are not saved")}</span>
    <${Action} class="first" act=${save} disabled=${!all.every((one) => one.isValid)}>${t("Save")}<//>
    <button onClick=${onDone}>${t("Discard")}</button></div>`;
}

// Adds a channel by hand.
function NewChannel({ row, onDone }) {
  const accounts = useRead("/api/accounts");
  const [account, setAccount] = useState([]);
  const [tokenId, setToken] = useState("");
  const [name, setName] = useState("");
  const [accountId] = account;
  const tokens = useRead(accountId ? `/api/account-tokens?accountId=${accountId}` : null);
  const add = async () => {
    await post(`/api/routes/${row.id}/channels`, { accountId, ...(tokenId && { tokenId: Number(tokenId) }), ...(name.trim() && { sourceModel: name.trim() }) });
    onDone();
  };
  return html`<${Section} read=${accounts} class="plain">${(value) => html`
    <${Form} act=${add} verb=${t("Add")} disabled=${!accountId}>
      <${Pick} label=${t("Account")} chosen=${account} onChange=${(chosen) => { setAccount(chosen.slice(-1)); setToken(""); }}
        options=${value.accounts.map((one) => ({ key: one.id, text: `${one.site.name} / ${one.username ?? `#${one.id}`}` }))} />
      <${Failed} failure=${tokens.failure} retry=${tokens.reload} />
      ${tokens.value?.length > 0 && html`<${Field} kind="select" label=${t("Key")} value=${tokenId} onChange=${setToken}
        choices=${[["", t("The default one")], ...tokens.value.map((one) => [String(one.id), one.name])]} />`}
      <${Field} label=${t("Name at the site")} hint=${t("Optional")} value=${name} onChange=${setName} class="mono" />
    <//>`}<//>`;
}

// What sites ask for the model, where they tell.
function Prices({ model }) {
  const read = useRead("/api/models/marketplace?includePricing=1", { read: async (path) => {
    const { models } = await get(path);
    return models.find((one) => one.name === model) ?? { pricingSources: [] };
  } });
  return html`<${Section} read=${read} isEmpty=${(value) => !value.pricingSources.length} empty=${t("No site tells a price for it.")}>
    ${(value) => html`<${Table} label=${t("Prices")} head=${[t("Site"), t("Group"), t("In, per million"), t("Out, per million"), t("Per call")]}
      rows=${value.pricingSources.flatMap((source) => Object.entries(source.groupPricing).map(([group, price]) => [`${source.siteName} / ${source.username}`, group,
        money(price.inputPerMillion), money(price.outputPerMillion), money(price.perCallTotal)]))} />`}<//>`;
}

export function RouteDetail({ row, rows, after }) {
  const channels = useRead(`/api/routes/${row.id}/channels`, { every: 10 });
  const decision = useRead(`decision ${row.id} ${row.name}`, { every: 10, read: () => decide(row) });
  const [drafts, setDrafts] = useState({});
  const [dialog, setDialog] = useState("");
  const [prices, setPrices] = useState(false);
  const [most, setMost] = useState(MOST);
  const reload = () => { channels.reload(); decision.reload(); after(); };
  const close = () => setDialog("");
  const draw = (id, field, value) => setDrafts((before) => ({ ...before, [id]: { ...before[id], [field]: value } }));
  const chances = useMemo(() => new Map((decision.value?.candidates ?? []).map((one) => [one.channelId, one])), [decision.value]);
  const isResting = channels.value?.some((one) => one.cooldownUntil || one.limitedUntil || one.failCount > 0);
  const buckets = useMemo(() => {
    const made = {};
    for (const one of channels.value ?? []) (made[one.priority] ??= []).push(one);
    return Object.entries(made).sort(([one], [other]) => one - other);
  }, [channels.value]);
  const clear = async () => { await post(`/api/routes/${row.id}/cooldown/clear`); reload(); };
  const sources = rows.filter((other) => row.sourceRouteIds.includes(other.id));
  return html`
    <div class="actions">
      <button onClick=${() => setDialog("edit")}>${t("Edit")}</button>
      <${Action} act=${async () => { await put(`/api/routes/${row.id}`, { enabled: !row.enabled }); reload(); }}>${row.enabled ? t("Switch off") : t("Switch on")}<//>
      ${row.kind !== "group" && html`<button onClick=${() => setDialog("add")}>${t("Add a channel")}</button>`}
      ${isResting && html`<${Action} act=${clear} title=${t("Of all channels of the route, and their failures are forgotten")}>${t("Clear cooldowns")}<//>`}
      <a href=${href("/playground", { model: row.name })}>${t("Playground")}</a>
      <a href=${href("/log", { search: row.name })}>${t("Log")}</a>
      <${Removal} label=${t("Delete")} title=${t("Delete the route")} name=${html`<bdi>${row.name}</bdi>`} after=${after}
        consequence=${row.kind !== "group" && t("Its channels go with it. A rebuild makes the routes of known models anew.")} act=${() => remove(`/api/routes/${row.id}`)} />
    </div>
    ${row.modelMapping && html`<p class="quiet">${t("Model mapping")}: <bdi class="mono">${row.modelMapping}</bdi></p>`}
    ${row.kind === "group" && html`<p>${t("Models of the group")}: ${sources.map((one) => html`<a href=${href("/routes", { q: one.modelPattern, open: one.id })}><bdi>${one.modelPattern}</bdi></a> `)}</p>`}
    <${Failed} failure=${decision.failure} retry=${decision.reload} />
    ${decision.value && !decision.value.matched && html`<p class="quiet">${t("The route is off: no request goes to it.")}</p>`}
    <${Section} read=${channels} class="plain" isEmpty=${(value) => !value.length} empty=${t("No channel")}>
      ${(value) => html`${buckets.map(([priority, list]) => html`
        <h3>${t("Priority {priority}", { priority })} <span class="quiet">(${list.length})</span></h3>
        <ul class="channels" aria-label=${t("Priority {priority}", { priority })}>${list.slice(0, most).map((channel) => html`<${Channel} key=${channel.id} channel=${channel} chance=${chances.get(channel.id)}
          row=${row} rows=${rows} draft=${drafts[channel.id]} onDraft=${draw} after=${reload} />`)}</ul>
        ${list.length > most && html`<button onClick=${() => setMost(most + 200)}>${t("Show more")}</button>`}`)}
        <${Changes} drafts=${drafts} channels=${value} onDone=${() => { setDrafts({}); reload(); }} />`}
    <//>
    ${row.kind === "model" && html`<${Fold} label=${t("Prices")} open=${prices} onToggle=${() => setPrices(!prices)}><${Prices} model=${row.modelPattern} /><//>`}
    ${dialog === "edit" && html`<${Dialog} title=${t("Edit the route")} wide onClose=${close}><${RouteForm} route=${row} rows=${rows}
      onDone=${() => { close(); reload(); }} /><//>`}
    ${dialog === "add" && html`<${Dialog} title=${t("Add a channel")} onClose=${close}><${NewChannel} row=${row} onDone=${() => { close(); reload(); }} /><//>`}`;
}
