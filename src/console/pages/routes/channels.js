// A route opened: its channels by priority, how likely each is and why, and what can be done about them.

import { useMemo, useState } from "../../vendor/htm-preact.js";
import { get, post, put, remove } from "../../api.js";
import { href } from "../../address.js";
import { useAction, useRead } from "../../data.js";
import { duration, money, number, percent } from "../../format.js";
import { Action, Badge, Bar, Countdown, Dialog, Failed, Field, Fold, Form, Removal, Section, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { RouteForm } from "./edit.js";

// Of each priority so many channels are drawn before one asks for more.
const MOST = 50;

const reasons = () => ({
  candidate: t("Takes part"), next: t("Is next"), observed: t("Gets a few requests to be watched"), waiting: t("Others have waited longer"),
  not_leading: t("Another one is steadier"), lower_priority: t("Waits behind a better priority"), breaker_open: t("Its site or model fails again and again"),
  recent_failure: t("Failed lately; others go first"), cooling: t("Cooling down"), half_open: t("Limited by its provider; tried now and then"),
  channel_disabled: t("Switched off"), account_unusable: t("Its account cannot be used"), site_disabled: t("Its site is switched off"),
  token_unusable: t("No usable key"), other_model: t("Serves another model"), surface_not_offered: t("Does not offer this kind of request"),
  site_excluded: t("The key excludes the site"), credential_excluded: t("The key excludes the account"), already_tried: t("Was tried already"),
  not_eligible: t("Cannot be used"),
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
  const isTaken = rows.some((other) => other.id !== row.id && other.enabled && (other.displayName === name || other.modelPattern === name)
    && (other.kind === "group" || row.kind === "pattern"));
  return !row.enabled || !name || isTaken ? null : name;
}

async function tryOut(model, channelId) {
  const began = performance.now();
  await post("/api/test/chat", { model, forcedChannelId: channelId, max_tokens: 16, messages: [{ role: "user", content: "Say OK." }] });
  return performance.now() - began;
}

function Channel({ channel, chance, row, rows, draft, onDraft, after }) {
  const { id, site, account, token } = channel;
  const name = `${site.name} / ${account.username ?? `#${account.id}`}${token ? ` / ${token.name}` : ""}`;
  const asks = reachedBy(row, channel, rows);
  const code = channel.enabled ? chance?.reasonCode : "channel_disabled";
  const until = chance ? chance.cooldownUntil ?? chance.limitedUntil : channel.cooldownUntil ?? channel.limitedUntil;
  const edit = (field, label) => html`<label>${label} <input type="number" min="0" step="1" value=${draft?.[field] ?? channel[field]}
    aria-label=${`${label}: ${name}`} onInput=${(event) => onDraft(id, field, event.target.value)} /></label>`;
  return html`<li class="channel">
    <div><a href=${href("/sites", { q: site.name })}><bdi>${site.name}</bdi></a>
      <div class="quiet"><bdi>${account.username ?? t("Account {id}", { id: account.id })}</bdi>${token && html` / <bdi>${token.name}</bdi>`}</div>
      ${channel.sourceModel && channel.sourceModel !== row.modelPattern && html`<div class="mono"><bdi>${channel.sourceModel}</bdi></div>`}
      ${channel.manualOverride && html`<${Badge} title=${t("No rebuild removes it")}>${t("By hand")}<//>`}
      ${channel.routeUnit && html` <${Badge}><bdi>${channel.routeUnit.name}</bdi> × ${channel.routeUnit.memberCount}<//>`}</div>
    <div>${chance ? html`<span class="chance"><${Bar} value=${chance.probability} kind=${chance.eligible ? "" : "bad"} label=${t("Probability of {name}", { name })} />
        <b class="number">${percent(chance.probability, 1)}</b></span>` : ""}
      ${code && html`<div class=${chance?.eligible === false || !channel.enabled ? "bad-text" : ""}>${reasons()[code] ?? code} ${until && html`<${Countdown} until=${until} />`}</div>
        ${chance && html`<div class="quiet raw"><bdi>${chance.reason}</bdi></div>`}`}</div>
    <div class="number">${t("{good} good, {bad} failed", { good: number(channel.successCount), bad: number(channel.failCount) })}
      <div class="quiet">${channel.successCount > 0 && duration(Math.round(channel.totalLatencyMs / channel.successCount))} ${money(channel.totalCost)}</div>
      ${channel.lastFailAt && html`<div class="quiet">${t("Failed")} <${Time} at=${channel.lastFailAt} /></div>`}</div>
    <div class="edits">${edit("priority", t("Priority"))}${edit("weight", t("Weight"))}</div>
    <div class="actions">
      <${Action} class="quiet" act=${() => tryOut(asks, id)} disabled=${!asks || !channel.enabled} done=${(took) => t("Answered in {time}", { time: duration(took) })}
        title=${asks ? t("Sends a short question through this channel alone") : t("No name leads to this route alone")}>${t("Try")}<//>
      ${asks && html`<a href=${href("/playground", { model: asks, channel: id })}>${t("Playground")}</a>`}
      <${Action} class="quiet" act=${async () => { await put(`/api/channels/${id}`, { enabled: !channel.enabled }); after(); }}>${channel.enabled ? t("Switch off") : t("Switch on")}<//>
      <${Removal} label=${t("Delete")} title=${t("Delete the channel")} name=${html`<bdi>${name}</bdi>`} after=${after}
        consequence=${channel.manualOverride ? t("It was made or changed by hand: no rebuild makes it anew as it was.") : t("A rebuild makes it anew as long as the account offers the model.")}
        act=${() => remove(`/api/channels/${id}`)} /></div>
  </li>`;
}

// The changed priorities and weights, all saved together: priorities at once, weights one by one.
function Changes({ drafts, channels, onDone }) {
  const valid = (text) => /^\d{1,9}$/.test(String(text).trim());
  const changes = channels.flatMap((channel) => ["priority", "weight"].filter((field) => drafts[channel.id]?.[field] !== undefined
    && Number(drafts[channel.id][field]) !== channel[field]).map((field) => ({ id: channel.id, field, value: drafts[channel.id][field] })));
  const action = useAction(async () => {
    const of = (field) => changes.filter((change) => change.field === field);
    const updates = of("priority").map(({ id, value }) => ({ id, priority: Number(value) }));
    if (updates.length) await put("/api/channels/batch", { updates });
    for (const { id, value } of of("weight")) await put(`/api/channels/${id}`, { weight: Number(value) });
    onDone();
  });
  if (!changes.length) return null;
  const isValid = changes.every(({ value }) => String(value).trim() !== "" && valid(value));
  return html`<div class="note changes" role="status"><span>${count(changes.length, "{count} change is not saved", "{count} changes are not saved")}</span>
    ${!isValid && html`<span class="bad-text">${t("Whole numbers from 0")}</span>`}
    <button class="first" disabled=${!isValid || action.isRunning} onClick=${action.run}>${t("Save")}</button>
    <button onClick=${() => onDone()}>${t("Discard")}</button><${Failed} failure=${action.failure} /></div>`;
}

// Adds a channel by hand.
function NewChannel({ row, onDone }) {
  const accounts = useRead("/api/accounts");
  const [text, setText] = useState("");
  const [is, setIs] = useState({ accountId: "", tokenId: "", sourceModel: "", priority: "0", weight: "10" });
  const set = (name) => (value) => setIs((before) => ({ ...before, [name]: value, ...(name === "accountId" ? { tokenId: "" } : {}) }));
  const tokens = useRead(is.accountId ? `/api/account-tokens?accountId=${is.accountId}` : null);
  const named = useMemo(() => (accounts.value?.accounts ?? []).map((one) => [String(one.id), `${one.site.name} / ${one.username ?? `#${one.id}`}`]), [accounts.value]);
  const wanted = text.trim().toLowerCase();
  const offered = named.filter(([id, name]) => id === is.accountId || name.toLowerCase().includes(wanted)).slice(0, 100);
  const add = async () => {
    const body = { accountId: Number(is.accountId), priority: Number(is.priority), weight: Number(is.weight) };
    if (is.tokenId) body.tokenId = Number(is.tokenId);
    if (is.sourceModel.trim()) body.sourceModel = is.sourceModel.trim();
    await post(`/api/routes/${row.id}/channels`, body);
    onDone(true);
  };
  return html`<${Section} read=${accounts}>${() => html`
    <${Form} act=${add} verb=${t("Add")} onCancel=${() => onDone(false)} disabled=${!is.accountId}>
      ${named.length > 20 && html`<${Field} kind="search" label=${t("Find an account")} value=${text} onChange=${setText} />`}
      <${Field} kind="select" label=${t("Account")} value=${is.accountId} onChange=${set("accountId")} choices=${[["", t("Choose …")], ...offered]} />
      ${tokens.value?.length > 0 && html`<${Field} kind="select" label=${t("Key of the account")} value=${is.tokenId} onChange=${set("tokenId")}
        choices=${[["", t("The default one")], ...tokens.value.map((one) => [String(one.id), one.name])]} />`}
      <${Failed} failure=${tokens.failure} retry=${tokens.reload} />
      <${Field} label=${t("Name at the site")} hint=${t("Empty: the name of the route.")} value=${is.sourceModel} onChange=${set("sourceModel")} class="mono" />
      <div class="columns"><${Field} kind="number" min="0" label=${t("Priority")} hint=${t("The lowest is tried first.")} value=${is.priority} onChange=${set("priority")} />
        <${Field} kind="number" min="0" label=${t("Weight")} value=${is.weight} onChange=${set("weight")} /></div>
    <//>`}<//>`;
}

// What sites ask for the model, where they tell.
function Prices({ model }) {
  const read = useRead("/api/models/marketplace?includePricing=1", { read: async (path) => {
    const { models } = await get(path);
    return models.find((one) => one.name === model) ?? { pricingSources: [] };
  } });
  const usd = (value) => (value === undefined ? "–" : money(value));
  return html`<${Section} read=${read} isEmpty=${(value) => !value.pricingSources.length} empty=${t("No site tells a price for it.")}>
    ${(value) => html`<div class="scrolls" tabindex="0" role="region" aria-label=${t("Prices")}><table>
      <thead><tr><th>${t("Site")}</th><th>${t("Group")}</th><th>${t("In, per million")}</th><th>${t("Out, per million")}</th><th>${t("Per call")}</th></tr></thead>
      <tbody>${value.pricingSources.flatMap((source) => Object.entries(source.groupPricing).map(([group, price]) => html`<tr>
        <td><bdi>${source.siteName} / ${source.username}</bdi></td><td><bdi>${group}</bdi></td><td class="number">${usd(price.inputPerMillion)}</td>
        <td class="number">${usd(price.outputPerMillion)}</td><td class="number">${usd(price.perCallTotal)}</td></tr>`))}</tbody></table></div>`}<//>`;
}

export function RouteDetail({ row, rows, after }) {
  const channels = useRead(`/api/routes/${row.id}/channels`, { every: 10 });
  const decision = useRead(`decision ${row.id} ${row.name}`, { every: 10, read: () => decide(row) });
  const [drafts, setDrafts] = useState({});
  const [dialog, setDialog] = useState("");
  const [prices, setPrices] = useState(false);
  const [most, setMost] = useState({});
  const reload = () => { channels.reload(); decision.reload(); after(); };
  const close = () => setDialog("");
  const draw = (id, field, value) => setDrafts((before) => ({ ...before, [id]: { ...before[id], [field]: value } }));
  const chances = useMemo(() => new Map((decision.value?.candidates ?? []).map((one) => [one.channelId, one])), [decision.value]);
  const isResting = channels.value?.some((one) => one.cooldownUntil || one.limitedUntil || one.failCount > 0);
  const buckets = useMemo(() => {
    const made = new Map();
    for (const one of channels.value ?? []) made.set(one.priority, [...(made.get(one.priority) ?? []), one]);
    return [...made].sort(([one], [other]) => one - other);
  }, [channels.value]);
  const clear = async () => { const { clearedChannels } = await post(`/api/routes/${row.id}/cooldown/clear`); reload(); return clearedChannels; };
  const sources = row.sourceRouteIds.map((id) => rows.find((other) => other.id === id)).filter(Boolean);
  return html`
    <div class="actions">
      <button onClick=${() => setDialog("edit")}>${t("Edit")}</button>
      <${Action} act=${async () => { await put(`/api/routes/${row.id}`, { enabled: !row.enabled }); reload(); }}>${row.enabled ? t("Switch off") : t("Switch on")}<//>
      ${row.kind !== "group" && html`<button onClick=${() => setDialog("add")}>${t("Add a channel")}</button>`}
      ${isResting && html`<${Action} act=${clear} done=${(cleared) => count(cleared, "{count} channel is as if it had never failed", "{count} channels are as if they had never failed")}
        title=${t("Ends the cooldown of all channels of the route and forgets their failures")}>${t("Clear cooldowns")}<//>`}
      ${row.kind !== "pattern" && html`<a href=${href("/playground", { model: row.name })}>${t("Playground")}</a>`}
      <a href=${href("/log", { search: row.name })}>${t("Log")}</a>
      <${Removal} label=${t("Delete")} title=${t("Delete the route")} name=${html`<bdi>${row.name}</bdi>`} after=${after}
        consequence=${row.kind === "group" ? t("The routes in it stay.") : t("Its channels go with it. A rebuild makes the routes of known models anew.")}
        act=${() => remove(`/api/routes/${row.id}`)} />
    </div>
    ${row.modelMapping && html`<p class="quiet">${t("Model mapping")}: <bdi class="mono">${row.modelMapping}</bdi></p>`}
    ${row.kind === "group" && html`<p>${t("Models of the group")}: ${sources.map((one) => html`<a href=${href("/routes", { q: one.modelPattern, open: one.id })}><bdi>${one.modelPattern}</bdi></a> `)}</p>`}
    <${Failed} failure=${decision.failure} retry=${decision.reload} />
    ${decision.value && !decision.value.matched && html`<p class="quiet">${t("The route is off: no request goes to it.")}</p>`}
    <${Section} read=${channels} class="plain" isEmpty=${(value) => !value.length} empty=${t("No channels. Add one, or rebuild once an account offers the model.")}>
      ${(value) => html`${buckets.map(([priority, list]) => html`
        <h3>${t("Priority {priority}", { priority })} <span class="quiet">${count(list.length, "{count} channel", "{count} channels")}</span></h3>
        <ul class="channels" aria-label=${t("Priority {priority}", { priority })}>${list.slice(0, most[priority] ?? MOST).map((channel) => html`<${Channel} key=${channel.id} channel=${channel} chance=${chances.get(channel.id)}
          row=${row} rows=${rows} draft=${drafts[channel.id]} onDraft=${draw} after=${reload} />`)}</ul>
        ${list.length > (most[priority] ?? MOST) && html`<button onClick=${() => setMost({ ...most, [priority]: (most[priority] ?? MOST) + 200 })}>${t("Show more")}</button>`}`)}
        <${Changes} drafts=${drafts} channels=${value} onDone=${() => { setDrafts({}); reload(); }} />`}
    <//>
    ${row.kind === "model" && html`<${Fold} label=${t("Prices")} open=${prices} onToggle=${() => setPrices(!prices)}><${Prices} model=${row.modelPattern} /><//>`}
    ${dialog === "edit" && html`<${Dialog} title=${t("Edit the route")} wide onClose=${close}><${RouteForm} route=${row} rows=${rows}
      onDone=${(id) => { close(); if (id) reload(); }} /><//>`}
    ${dialog === "add" && html`<${Dialog} title=${t("Add a channel")} onClose=${close}><${NewChannel} row=${row} onDone=${(is) => { close(); if (is) reload(); }} /><//>`}`;
}
