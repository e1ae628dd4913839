// An account that was opened: how it is, its models, tokens, check-ins and settings.

import { useState } from "../../vendor/htm-preact.js";
import { good, post, put, remove } from "../../api.js";
import { useRead } from "../../data.js";
import { money, percent } from "../../format.js";
import { Action, Badge, Bar, Countdown, Dialog, Field, Form, Removal, Section, Tabs, Time, html, useDraft } from "../../parts.js";
import { count, t } from "../../words.js";
import { AddAccount, hasSessions } from "./add.js";
import { Models, ProxyField } from "./site.js";

export const nameOf = (account) => account.username || t("Account {id}", account);

export const isInTrouble = ({ status, runtimeHealth }) => ["expired", "unhealthy"].includes(status) || ["unhealthy", "degraded"].includes(runtimeHealth.state);

export function StateBadge({ account: { status, runtimeHealth: { state, reason } } }) {
  const words = { healthy: t("healthy"), degraded: t("degraded"), unhealthy: t("unhealthy"), disabled: t("off"), expired: t("expired"), unknown: t("not checked") };
  const told = status === "expired" ? status : state;
  return html`<${Badge} title=${reason} kind=${{ healthy: "good", degraded: "warn", unhealthy: "bad", expired: "bad" }[told]}>${words[told] ?? told}<//>`;
}

// How much of a provider's limits is used, and when they begin anew.
export const Windows = ({ windows }) => html`<dl class="pairs">${windows.map(({ name, usedPercent: used, resetAt }) => html`<dt key=${name}><bdi>${name}</bdi></dt>
  <dd><${Bar} value=${used} kind=${used >= 90 ? "bad" : used >= 70 ? "warn" : ""} label=${`${name}: ${percent(used)}`} /> ${percent(used)}
    ${resetAt && html`· ${t("anew in")} <${Countdown} until=${resetAt} />`}</dd>`)}</dl>`;

// Reads the balance, or the models where there is none.
export async function recheck({ id, capabilities }) {
  if (capabilities?.canRefreshBalance) return good(await post(`/api/accounts/${id}/balance`));
  const { refresh } = good(await post(`/api/models/check/${id}`));
  return good({ ...refresh, success: refresh.status !== "failed", message: refresh.errorMessage });
}

export function AccountDetail({ account, site, reload }) {
  const [tab, setTab] = useState("models");
  const [renews, setRenews] = useState(false);
  const { id, capabilities: can, runtimeHealth: health } = account;
  const isSession = account.credentialMode === "session" && !account.oauthProvider;
  const isOff = account.status === "disabled";
  const path = `/api/accounts/${id}`;
  const action = (label, work, done = t("Done")) => html`<${Action} act=${async () => { try { return await work(); } finally { reload(); } }} done=${done}>${label}<//>`;
  const tabs = [["models", t("Models")], ...(isSession ? [["tokens", t("Tokens")]] : []), ...(can.canCheckin ? [["checkins", t("Check-ins")]] : []), ["settings", t("Settings")]];
  const Tab = { models: Models, tokens: Tokens, checkins: Checkins, settings: Edit }[tab];
  return html`
    <p><${StateBadge} account=${account} /> <bdi>${health.reason}</bdi> ${health.checkedAt && html`<${Time} at=${health.checkedAt} />`}${" · "}
      ${account.oauthProvider ?? (isSession ? t("session") : t("API key"))} <code>${account.apiToken ?? account.accessToken}</code></p>
    <p>${can.canRefreshBalance && html`${t("{balance} left, {used} used", { balance: money(account.balance), used: money(account.balanceUsed) })} (<${Time} at=${account.lastBalanceRefresh} />) · `}
      ${t("Today")}: ${t("{spend} spent, {reward} gained", { spend: money(account.todaySpend), reward: money(account.todayReward) })}</p>
    ${account.limitWindows?.length > 0 && html`<${Windows} windows=${account.limitWindows} />`}
    <div class="actions">
      ${can.canRefreshBalance && action(t("Read the balance"), () => recheck(account))}
      ${action(t("Read the models"), () => recheck({ id }), ({ modelCount }) => count(modelCount, "{count} model", "{count} models"))}
      ${can.canCheckin && action(t("Check in"), async () => good(await post(`/api/checkin/trigger/${id}`)), ({ message }) => html`<bdi>${message}</bdi>`)}
      ${action(t("End cooling"), () => post(`${path}/clear-cooldown`))}
      ${isSession && hasSessions(site.platform) && html`<button onClick=${() => setRenews(true)}>${t("Log in again")}</button>`}
      ${action(isOff ? t("Switch on") : t("Switch off"), () => put(path, { status: isOff ? "active" : "disabled" }))}
      <${Removal} label=${t("Delete")} title=${t("Delete this account?")} name=${html`<bdi>${nameOf(account)}</bdi>`}
        consequence=${t("Their tokens and channels go with them.")} act=${() => remove(path)} after=${reload} />
    </div>
    <${Tabs} label=${nameOf(account)} items=${tabs} value=${tab} onChange=${setTab} />
    <${Tab} account=${account} site=${site} reload=${reload} />
    ${renews && html`<${Dialog} title=${t("Log in again")} onClose=${() => setRenews(false)}><${AddAccount} site=${site} account=${account} reload=${reload} /><//>`}`;
}

function Tokens({ account, reload }) {
  const read = useRead(`/api/account-tokens?accountId=${account.id}`);
  const groups = useRead(`/api/account-tokens/groups/${account.id}`).value?.groups ?? [];
  const { changes, field, clear } = useDraft({});
  const then = (work) => async () => { const done = good(await work()); await read.reload(); reload(); return done; };
  const add = then(async () => { const done = await post("/api/account-tokens", { accountId: account.id, ...changes }); clear(); return done; });
  const sync = html`<${Action} act=${then(() => post(`/api/account-tokens/sync/${account.id}`))} done=${(told) => t("{created} new, {updated} known", told)}>${t("Sync tokens")}<//>`;
  return html`<${Section} class="plain" read=${read} actions=${sync}>${(rows) => html`<ul class="plain">${rows.map((token) => html`<${Token} key=${token.id} token=${token} then=${then} />`)}</ul>`}<//>
  <${Form} act=${add} verb=${t("Add a token")}><div class="filters">
    ${field("name", t("Name"))}
    ${field("token", t("Token"), { kind: "password", hint: t("Left empty, the site makes one.") })}
    ${field("group", t("Group"), { kind: "select", choices: [["", "–"], ...groups.map((name) => [name, name])] })}
  </div><//>`;
}

function Token({ token, then }) {
  const [whole, setWhole] = useState("");
  const path = `/api/account-tokens/${token.id}`;
  const isReady = token.valueStatus === "ready";
  const action = (label, work) => html`<${Action} class="quiet" act=${then(work)}>${label}<//>`;
  return html`<li><strong><bdi>${token.name}</bdi></strong> <code>${token.tokenMasked}</code> <bdi class="quiet">${token.tokenGroup}</bdi>
    ${token.isDefault && html` <${Badge} kind="good">${t("default")}<//>`} ${!token.enabled && html` <${Badge}>${t("off")}<//>`}
    <div class="actions">
      ${isReady && token.enabled && !token.isDefault && action(t("Make it the default"), () => post(`${path}/default`))}
      ${isReady && action(token.enabled ? t("Switch off") : t("Switch on"), () => put(path, { enabled: !token.enabled }))}
      <${Removal} label=${t("Delete")} title=${t("Delete this token?")} name=${html`<bdi>${token.name}</bdi>`}
        consequence=${t("It is deleted at the site, too.")} act=${then(() => remove(path))} /></div>
    ${!isReady && html`<${Form} act=${then(() => put(path, { token: whole }))} verb=${t("Save")} disabled=${!whole.trim()}>
      <${Field} kind="password" label=${t("The whole token")} hint=${t("The site tells only a part of it.")} value=${whole} onChange=${setWhole} /><//>`}</li>`;
}

function Checkins({ account }) {
  const words = { success: t("done"), failed: t("failed"), skipped: t("skipped") };
  return html`<${Section} class="plain" read=${useRead(`/api/checkin/logs?limit=30&accountId=${account.id}`)} isEmpty=${(rows) => !rows.length} empty="–">${(rows) => html`
    <ul class="plain">${rows.map(({ checkin_logs: one }) => html`<li key=${one.id}><${Badge} kind=${{ success: "good", failed: "bad" }[one.status]}>${words[one.status]}<//>
      <${Time} at=${one.createdAt} /> <bdi>${one.message}</bdi> <span class="good-text">${one.reward}</span></li>`)}</ul>`}<//>`;
}

function Edit({ account, reload }) {
  const { changes, field, values, set, clear } = useDraft({ ...account, apiToken: "", proxyUrl: "" });
  const body = { ...changes };
  if ("unitCost" in body) body.unitCost = body.unitCost === "" ? null : Number(body.unitCost);
  const save = async () => { await put(`/api/accounts/${account.id}`, body); clear(); await reload(); };
  return html`<${Form} act=${save} verb=${t("Save")} disabled=${!Object.keys(body).length}>
    ${field("username", t("Name"))}
    ${!account.oauthProvider && field("apiToken", t("API key"), { kind: "password", placeholder: t("unchanged") })}
    ${account.capabilities.canCheckin && field("checkinEnabled", t("Check in by itself"), { kind: "switch" })}
    ${field("unitCost", t("Cost of a request, in US dollars"), { kind: "number", min: 0, step: "any" })}
    <${ProxyField} masked=${JSON.parse(account.extraConfig ?? "{}").proxyUrl} value=${values.proxyUrl} onChange=${(value) => set("proxyUrl", value)} />
    ${field("isPinned", t("Keep at the top"), { kind: "switch" })}<//>`;
}
