// What needs a hand: accounts that are expired or unwell, channels that cool, low balances, tasks that failed.

import { useState } from "../../vendor/htm-preact.js";
import { post } from "../../api.js";
import { useNow, useRead } from "../../data.js";
import { money } from "../../format.js";
import { Action, Badge, Countdown, Section, TaskAction, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { isInTrouble, nameOf, recheck, StateBadge } from "../sites/account.js";

// So many routes are looked through for channels that cool.
const LOOKED = 1000;
const SHOWN = 50;

// How a task that failed is started again.
const AGAIN = { "checkin-all": "/api/checkin/trigger", "sync-all-account-tokens": "/api/account-tokens/sync-all", "site-announcements:all": "/api/site-announcements/sync",
  "refresh-models-and-rebuild-routes": "/api/routes/rebuild", "refresh-all-account-runtime-health": "/api/accounts/health/refresh",
  "model-availability-probe-all": "/api/models/probe" };

// Channels that rest, by account: many models of one account are one trouble.
function coolingOf(routes, now) {
  const found = new Map();
  const seen = new Set();
  for (const { modelPattern, channels } of routes) {
    for (const { id, accountId, site, account, sourceModel, cooldownUntil, limitedUntil } of channels) {
      const until = [cooldownUntil, limitedUntil].filter((at) => at && Date.parse(at) > now).sort().at(-1);
      if (!until || seen.has(id)) continue;
      seen.add(id);
      const one = found.get(accountId) ?? { accountId, site, account, models: [], until };
      one.models.push(sourceModel ?? modelPattern);
      if (until > one.until) one.until = until;
      found.set(accountId, one);
    }
  }
  return [...found.values()];
}

// Failed tasks that did not succeed since.
const failedOf = (tasks) => tasks.filter((one, index) => one.status === "failed"
  && !tasks.slice(0, index).some((later) => later.status === "succeeded" && (later.dedupeKey ?? later.type) === (one.dedupeKey ?? one.type)));

export function Troubles({ accounts }) {
  const routes = useRead(`/api/routes?limit=${LOOKED}`, { every: 30 });
  const tasks = useRead("/api/tasks?limit=100", { every: 15 });
  const settings = useRead("/api/settings/runtime");
  const [hidden, setHidden] = useState([]);
  const now = useNow();
  const { accounts: rows = [], sites = [] } = accounts.value ?? {};
  const siteOf = new Map(sites.map((site) => [site.id, site.name]));
  const low = settings.value?.lowBalanceThreshold ?? 0;
  const items = [
    ...rows.filter(isInTrouble).map((one) => ({ key: `a${one.id}`, badge: html`<${StateBadge} account=${one} />`,
      title: `${siteOf.get(one.siteId)} · ${nameOf(one)}`, about: html`<bdi>${one.runtimeHealth.reason}</bdi>`,
      actions: html`<${Action} act=${async () => { try { await recheck(one); } finally { accounts.reload(); } }}>${t("Check again")}<//>
        <a class="button" href=${`/sites?open=a${one.id}`}>${one.credentialMode === "session" ? t("Log in again") : t("Open")}</a>` })),
    ...coolingOf(routes.value ?? [], now).map((one) => ({ key: `c${one.accountId}`, badge: html`<${Badge} kind="warn">${t("cooling")} <${Countdown} until=${one.until} /><//>`,
      title: `${one.site.name} · ${nameOf(one.account)}`,
      about: html`${count(one.models.length, "{count} channel", "{count} channels")}: <bdi>${one.models.slice(0, 5).join(", ")}</bdi>`,
      actions: html`<${Action} act=${async () => { await post(`/api/accounts/${one.accountId}/clear-cooldown`); await routes.reload(); }}>${t("End cooling")}<//>` })),
    ...rows.filter((one) => one.status === "active" && one.capabilities.canRefreshBalance && one.lastBalanceRefresh && one.balance <= low && one.quota + one.balanceUsed > 0)
      .map((one) => ({ key: `b${one.id}`, badge: html`<${Badge} kind="warn">${t("low balance")}<//>`, title: `${siteOf.get(one.siteId)} · ${nameOf(one)}`,
        about: t("{balance} left", { balance: money(one.balance) }), actions: html`<${Action} act=${async () => { await recheck(one); accounts.reload(); }}>${t("Read it again")}<//>` })),
    ...failedOf(tasks.value?.tasks ?? []).filter(({ id }) => !hidden.includes(id)).map((one) => ({ key: one.id, badge: html`<${Badge} kind="bad">${t("task failed")}<//>`,
      title: one.title, about: html`<bdi>${one.error ?? one.message}</bdi> <span class="quiet"><${Time} at=${one.finishedAt} /></span>`,
      actions: html`${AGAIN[one.dedupeKey] && html`<${TaskAction} start=${() => post(AGAIN[one.dedupeKey])} after=${tasks.reload}>${t("Start again")}<//>`}
        <button class="quiet" onClick=${() => setHidden([...hidden, one.id])}>${t("Set aside")}</button>` })),
  ];
  const reads = [accounts, routes, tasks];
  const isRead = reads.every((read) => read.value);
  const read = { ...(reads.find((one) => one.failure) ?? accounts), value: isRead || items.length ? items : undefined };
  return html`<${Section} title=${t("Needs attention")} read=${read}>${() => html`
    ${items.length ? html`<ul class="plain">${items.slice(0, SHOWN).map((one) => html`<li key=${one.key} class="trouble">${one.badge}
      <div><strong><bdi>${one.title}</bdi></strong><br />${one.about}</div><span class="actions">${one.actions}</span></li>`)}</ul>
      ${items.length > SHOWN && html`<p><a href="/sites?show=trouble">${t("{count} more", { count: items.length - SHOWN })}</a></p>`}`
    : isRead && html`<p class="good-text"><span aria-hidden="true">✓</span> ${t("All is well.")}</p>`}`}
  <//>`;
}
