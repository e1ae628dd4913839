// An account that was opened: how it is, its models, tokens, check-ins and settings.

import { useState } from "../../vendor/htm-preact.js";
import { get, good, post, put, remove } from "../../api.js";
import { useDraft, useRead } from "../../data.js";
import { money, percent } from "../../format.js";
import { Action, Badge, Bar, Countdown, Dialog, Field, Form, Removal, Section, Tabs, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { AddAccount, hasSessions } from "./add.js";
import { SecretField } from "./site.js";

const SHOWN = 200;

export const nameOf = (account) => account.username || t("Account {id}", { id: account.id });

export const isInTrouble = ({ status, runtimeHealth }) => ["expired", "unhealthy"].includes(status) || ["unhealthy", "degraded"].includes(runtimeHealth.state);

export function StateBadge({ account: { status, runtimeHealth: { state, reason } } }) {
  const words = { healthy: t("healthy"), degraded: t("degraded"), unhealthy: t("unhealthy"), disabled: t("off"), expired: t("expired"), unknown: t("not checked") };
  const told = status === "expired" ? "expired" : state;
  return html`<${Badge} title=${reason} kind=${{ healthy: "good", degraded: "warn", unhealthy: "bad", expired: "bad" }[told]}>${words[told] ?? told}<//>`;
}

// How much of a provider's limits is used, and when they begin anew.
export const Windows = ({ windows }) => html`<dl class="pairs">${(windows ?? []).map((one) => html`
  <dt key=${one.name}><bdi>${one.name}</bdi></dt>
  <dd><${Bar} value=${one.usedPercent} kind=${one.usedPercent >= 90 ? "bad" : one.usedPercent >= 70 ? "warn" : ""}
    label=${t("{name}: {percent} used", { name: one.name, percent: percent(one.usedPercent) })} /> ${percent(one.usedPercent)}
    ${one.resetAt && html` · ${t("anew in")} <${Countdown} until=${one.resetAt} />`}</dd>`)}</dl>`;

// Reads the balance, or the models where there is none.
export async function recheck(account) {
  if (account.capabilities.canRefreshBalance) return good(await post(`/api/accounts/${account.id}/balance`));
  const { refresh } = await post(`/api/models/check/${account.id}`);
  return good({ ...refresh, success: refresh.status !== "failed", message: refresh.errorMessage });
}

export function AccountDetail({ account, site, reload }) {
  const [tab, setTab] = useState("models");
  const [renews, setRenews] = useState(false);
  const { id, capabilities: can, runtimeHealth: health } = account;
  const isSession = account.credentialMode === "session" && !account.oauthProvider;
  const then = (work) => async () => { const done = await work(); reload(); return done; };
  const tabs = [["models", t("Models")], ...(isSession ? [["tokens", t("Tokens")]] : []), ...(can.canCheckin ? [["checkins", t("Check-ins")]] : []), ["settings", t("Settings")]];
  const Tab = { models: Models, tokens: Tokens, checkins: Checkins, settings: Edit }[tab];
  return html`
    <dl class="pairs">
      <dt>${t("State")}</dt><dd><${StateBadge} account=${account} /> <bdi>${health.reason}</bdi> ${health.checkedAt && html`<span class="quiet"><${Time} at=${health.checkedAt} /></span>`}</dd>
      <dt>${t("Credential")}</dt><dd>${account.oauthProvider ?? (isSession ? t("session") : t("API key"))} <code>${account.apiToken ?? account.accessToken}</code></dd>
      ${can.canRefreshBalance && html`<dt>${t("Balance")}</dt><dd>${t("{balance} left, {used} used", { balance: money(account.balance), used: money(account.balanceUsed) })}
        <span class="quiet"> <${Time} at=${account.lastBalanceRefresh} /></span></dd>`}
      <dt>${t("Today")}</dt><dd>${t("{spend} spent, {reward} gained", { spend: money(account.todaySpend), reward: money(account.todayReward) })}</dd>
    </dl>
    ${account.limitWindows?.length > 0 && html`<${Windows} windows=${account.limitWindows} />`}
    <div class="actions">
      <${Action} act=${then(() => recheck(account))} done=${t("Done")}>${can.canRefreshBalance ? t("Read the balance") : t("Check it")}<//>
      ${can.canRefreshBalance && html`<${Action} act=${then(() => recheck({ id, capabilities: {} }))} done=${(told) => count(told.modelCount, "{count} model", "{count} models")}>${t("Read the models")}<//>`}
      ${can.canCheckin && html`<${Action} act=${then(async () => good(await post(`/api/checkin/trigger/${id}`)))} done=${(told) => html`<bdi>${told.message}</bdi>`}>${t("Check in")}<//>`}
      <${Action} act=${then(() => post(`/api/accounts/${id}/clear-cooldown`))} done=${t("Done")}>${t("End cooling")}<//>
      ${isSession && hasSessions(site.platform) && html`<button onClick=${() => setRenews(true)}>${t("Log in again")}</button>`}
      <${Action} act=${then(() => put(`/api/accounts/${id}`, { status: account.status === "disabled" ? "active" : "disabled" }))}>
        ${account.status === "disabled" ? t("Switch on") : t("Switch off")}<//>
      <${Removal} label=${t("Delete")} title=${t("Delete this account?")} name=${html`<bdi>${nameOf(account)}</bdi>`}
        consequence=${t("Its tokens and channels go with it.")} act=${() => remove(`/api/accounts/${id}`)} after=${reload} />
    </div>
    <${Tabs} label=${t("About the account")} items=${tabs} value=${tab} onChange=${setTab} />
    <${Tab} account=${account} site=${site} reload=${reload} />
    ${renews && html`<${Dialog} title=${t("Log in again")} onClose=${() => setRenews(false)}><${AddAccount} site=${site} account=${account} reload=${reload} /><//>`}`;
}

// === models ===

function Models({ account, site }) {
  const read = useRead(`/api/accounts/${account.id}/models`);
  const [text, setText] = useState("");
  const [added, setAdded] = useState("");
  const flip = async (name) => {
    const { models } = await get(`/api/sites/${site.id}/disabled-models`);
    await put(`/api/sites/${site.id}/disabled-models`, { models: models.includes(name) ? models.filter((one) => one !== name) : [...models, name] });
    await read.reload();
  };
  const add = async () => {
    await post(`/api/accounts/${account.id}/models/manual`, { models: added.split(/[\n,]+/).map((one) => one.trim()).filter(Boolean) });
    setAdded("");
    await read.reload();
  };
  return html`<${Section} class="plain" read=${read}>${({ models }) => {
    const fitting = models.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()));
    return html`
      ${models.length > 12 && html`<${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} />`}
      ${!models.length && html`<p class="quiet">${t("No model is known of this account.")}</p>`}
      <ul class="plain models">${fitting.slice(0, SHOWN).map(({ name, disabled, isManual, latencyMs }) => html`<li key=${name}>
        <bdi class=${disabled ? "quiet" : ""}>${name}</bdi> ${isManual && html`<${Badge}>${t("by hand")}<//>`} ${disabled && html`<${Badge}>${t("off at this site")}<//>`}
        ${latencyMs !== null && html`<span class="quiet">${latencyMs} ms</span>`}
        <${Action} class="link" act=${() => flip(name)}>${disabled ? t("Switch on") : t("Switch off at this site")}<//></li>`)}</ul>
      ${fitting.length > SHOWN && html`<p class="quiet">${t("{count} more: search for them.", { count: fitting.length - SHOWN })}</p>`}`;
  }}<//>
  <${Form} act=${add} verb=${t("Add by hand")} disabled=${!added.trim()}>
    <${Field} label=${t("Models the site does not list")} hint=${t("Several with commas between. They stay when the models are read again.")} value=${added} onChange=${setAdded} /><//>`;
}

// === tokens ===

function Tokens({ account, reload }) {
  const read = useRead(`/api/account-tokens?accountId=${account.id}`);
  const groups = useRead(`/api/account-tokens/groups/${account.id}`);
  const [draft, setDraft] = useState({ name: "", token: "", group: "" });
  const then = (work) => async () => { const done = good(await work()); await read.reload(); reload(); return done; };
  const set = (name) => (value) => setDraft((before) => ({ ...before, [name]: value }));
  const add = then(async () => {
    const sent = Object.fromEntries(Object.entries(draft).map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
    const done = await post("/api/account-tokens", { accountId: account.id, ...sent });
    setDraft({ name: "", token: "", group: "" });
    return done;
  });
  const sync = html`<${Action} act=${then(() => post(`/api/account-tokens/sync/${account.id}`))}
    done=${(told) => t("{created} new, {updated} known", { created: told.created, updated: told.updated })}>${t("Sync with the site")}<//>`;
  return html`<${Section} class="plain" read=${read} actions=${sync} isEmpty=${(rows) => !rows.length} empty=${t("No token yet.")}>${(rows) => html`
    <ul class="plain">${rows.map((token) => html`<${Token} key=${token.id} token=${token} then=${then} />`)}</ul>`}<//>
  <${Form} act=${add} verb=${t("Add a token")}>
    <div class="filters">
      <${Field} label=${t("Name")} value=${draft.name} onChange=${set("name")} />
      <${Field} kind="password" label=${t("Token")} hint=${t("Left empty, the site makes one.")} value=${draft.token} onChange=${set("token")} />
      <${Field} kind="select" label=${t("Group")} value=${draft.group} onChange=${set("group")} choices=${[["", "–"], ...(groups.value?.groups ?? []).map((name) => [name, name])]} />
    </div><//>`;
}

function Token({ token, then }) {
  const [whole, setWhole] = useState("");
  const path = `/api/account-tokens/${token.id}`;
  const isReady = token.valueStatus === "ready";
  return html`<li>
    <strong><bdi>${token.name}</bdi></strong> <code>${token.tokenMasked}</code> ${token.tokenGroup && html`<${Badge}><bdi>${token.tokenGroup}</bdi><//>`}
    ${token.isDefault && html`<${Badge} kind="good">${t("default")}<//>`} ${!token.enabled && html`<${Badge}>${t("off")}<//>`}
    <span class="actions">
      ${isReady && html`
        ${!token.isDefault && token.enabled && html`<${Action} class="quiet" act=${then(() => post(`${path}/default`))}>${t("Make it the default")}<//>`}
        <${Action} class="quiet" act=${then(() => put(path, { enabled: !token.enabled }))}>${token.enabled ? t("Switch off") : t("Switch on")}<//>`}
      <${Removal} label=${t("Delete")} title=${t("Delete this token?")} name=${html`<bdi>${token.name}</bdi>`}
        consequence=${t("It is deleted at the site, too.")} act=${then(() => remove(path))} />
    </span>
    ${!isReady && html`<${Form} act=${then(() => put(path, { token: whole }))} verb=${t("Save")} disabled=${!whole.trim()}>
      <${Field} kind="password" label=${t("The whole token")} hint=${t("The site tells only a part of it.")} value=${whole} onChange=${setWhole} /><//>`}
  </li>`;
}

// === check-ins, settings ===

const Checkins = ({ account }) => html`<${Section} class="plain" read=${useRead(`/api/checkin/logs?limit=30&accountId=${account.id}`)}
  isEmpty=${(rows) => !rows.length} empty=${t("Nobody checked in yet.")}>${(rows) => html`
  <ul class="plain">${rows.map(({ checkin_logs: one }) => html`<li key=${one.id}>
    <${Badge} kind=${{ success: "good", failed: "bad" }[one.status]}>${{ success: t("done"), failed: t("failed"), skipped: t("skipped") }[one.status] ?? one.status}<//>
    <${Time} at=${one.createdAt} /> <bdi>${one.message}</bdi> ${one.reward && html`<span class="good-text">+${one.reward}</span>`}</li>`)}</ul>`}<//>`;

function Edit({ account, reload }) {
  const draft = useDraft(account);
  const [key, setKey] = useState("");
  const [proxy, setProxy] = useState("");
  const config = JSON.parse(account.extraConfig ?? "{}");
  const body = { ...draft.changes };
  if ("unitCost" in body) body.unitCost = body.unitCost === "" ? null : Number(body.unitCost);
  if (key.trim()) body.apiToken = key.trim();
  if (proxy !== "") body.proxyUrl = proxy;
  const save = async () => {
    await put(`/api/accounts/${account.id}`, body);
    draft.clear(); setKey(""); setProxy("");
    reload();
  };
  const field = (name, label, more) => html`<${Field} label=${label} value=${draft.value(name) ?? ""} onChange=${draft.set(name)} ...${more} />`;
  return html`<${Form} act=${save} verb=${t("Save")} disabled=${!Object.keys(body).length}>
    ${field("username", t("Name"))}
    ${!account.oauthProvider && html`<${Field} kind="password" label=${t("API key")} placeholder=${t("unchanged")} value=${key} onChange=${setKey} />`}
    ${account.capabilities.canCheckin && field("checkinEnabled", t("Check in by itself"), { kind: "switch" })}
    ${field("unitCost", t("Cost of a request, in US dollars"), { kind: "number", min: 0, step: "any", hint: t("For routes that choose the cheapest; empty means not known.") })}
    <${SecretField} label=${t("Proxy")} masked=${config.proxyUrl} value=${proxy} onChange=${setProxy} />
    ${field("isPinned", t("Keep at the top"), { kind: "switch" })}
  <//>`;
}
