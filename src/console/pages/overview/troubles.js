// What needs a hand: accounts that are expired or unwell, channels that cool, low balances, tasks that failed; and unread events.

import { post } from "../../api.js";
import { useNow, useRead } from "../../data.js";
import { money } from "../../format.js";
import { Action, Badge, Countdown, Section, TaskAction, Time, html } from "../../parts.js";
import { t } from "../../words.js";
import { isInTrouble, nameOf, recheck, StateBadge } from "../sites/account.js";

// So many routes are looked through for channels that cool.
const LOOKED = 1000;
const SHOWN = 50;
const NEWS = 6;

// How a task that failed is started again.
const AGAIN = { "checkin-all": "/api/checkin/trigger", "sync-all-account-tokens": "/api/account-tokens/sync-all", "site-announcements:all": "/api/site-announcements/sync",
  "refresh-models-and-rebuild-routes": "/api/routes/rebuild", "refresh-all-account-runtime-health": "/api/accounts/health/refresh", "model-availability-probe-all": "/api/models/probe" };

// Channels that rest, by account: many models of one account are one trouble.
function coolingOf(routes, now) {
  const found = new Map();
  const seen = new Set();
  for (const channel of routes.flatMap((route) => route.channels)) {
    const until = [channel.cooldownUntil, channel.limitedUntil].filter((at) => at && Date.parse(at) > now).sort().at(-1);
    if (!until || seen.has(channel.id)) continue;
    seen.add(channel.id);
    const one = found.get(channel.accountId) ?? { ...channel, models: [], until };
    found.set(channel.accountId, { ...one, models: [...one.models, channel.sourceModel], until: until > one.until ? until : one.until });
  }
  return [...found.values()];
}

// Failed tasks that did not succeed since.
const failedOf = (tasks) => tasks.filter((one, index) => one.status === "failed"
  && !tasks.slice(0, index).some((later) => later.status === "succeeded" && (later.dedupeKey ?? later.type) === (one.dedupeKey ?? one.type)));

const Row = ({ badge, title, about, children }) => html`<li class="trouble">${badge}<div><strong><bdi>${title}</bdi></strong><br />${about}</div><span class="actions">${children}</span></li>`;

export function Troubles({ accounts }) {
  const routes = useRead(`/api/routes?limit=${LOOKED}`, { every: 30 });
  const tasks = useRead("/api/tasks?limit=100", { every: 15 });
  const settings = useRead("/api/settings/runtime");
  const now = useNow();
  const { accounts: rows = [], sites = [] } = accounts.value ?? {};
  const siteOf = new Map(sites.map((site) => [site.id, site.name]));
  const titleOf = (one) => `${siteOf.get(one.siteId) ?? one.site?.name} · ${nameOf(one)}`;
  const low = settings.value?.lowBalanceThreshold ?? 0;
  const check = (one) => html`<${Action} act=${async () => { try { await recheck(one); } finally { accounts.reload(); } }}>${t("Check again")}<//>`;
  const items = [
    ...rows.filter(isInTrouble).map((one) => html`<${Row} key=${`a${one.id}`} badge=${html`<${StateBadge} account=${one} />`} title=${titleOf(one)}
      about=${html`<bdi>${one.runtimeHealth.reason}</bdi>`}>${check(one)}<a class="button" href=${`/sites?open=a${one.id}`}>${t("Open")}</a><//>`),
    ...coolingOf(routes.value ?? [], now).map((one) => html`<${Row} key=${`c${one.accountId}`} title=${titleOf({ ...one.account, site: one.site })}
      badge=${html`<${Badge} kind="warn">${t("cooling")} <${Countdown} until=${one.until} /><//>`} about=${html`<bdi>${one.models.slice(0, 5).join(", ")}${one.models.length > 5 ? " …" : ""}</bdi>`}>
      <${Action} act=${async () => { await post(`/api/accounts/${one.accountId}/clear-cooldown`); await routes.reload(); }}>${t("End cooling")}<//><//>`),
    ...rows.filter((one) => one.status === "active" && one.capabilities.canRefreshBalance && one.lastBalanceRefresh && one.balance <= low)
      .map((one) => html`<${Row} key=${`b${one.id}`} badge=${html`<${Badge} kind="warn">${t("low balance")}<//>`} title=${titleOf(one)} about=${money(one.balance)}>${check(one)}<//>`),
    ...failedOf(tasks.value?.tasks ?? []).map((one) => html`<${Row} key=${one.id} badge=${html`<${Badge} kind="bad">${t("task failed")}<//>`} title=${one.title}
      about=${html`<bdi>${one.error ?? one.message}</bdi> <span class="quiet"><${Time} at=${one.finishedAt} /></span>`}>
      ${AGAIN[one.dedupeKey] && html`<${TaskAction} start=${() => post(AGAIN[one.dedupeKey])} after=${tasks.reload}>${t("Start again")}<//>`}<//>`),
  ];
  const reads = [accounts, routes, tasks];
  const isRead = reads.every((read) => read.value);
  const read = { ...(reads.find((one) => one.failure) ?? accounts), value: isRead || items.length ? items : undefined };
  return html`<${Section} title=${t("Needs attention")} read=${read}>${() => html`<ul class="plain">${items.slice(0, SHOWN)}</ul>
    ${items.length > SHOWN && html`<a href="/sites?show=trouble">${t("{count} more", { count: items.length - SHOWN })}</a>`}
    ${isRead && !items.length && html`<p class="good-text">✓ ${t("All is well.")}</p>`}`}<//>`;
}

// Warnings and errors stand before what only informs.
export function Events() {
  const read = useRead("/api/events?read=false&limit=100", { every: 15 });
  const after = (path) => async () => { await post(path); await read.reload(); };
  const links = { account: "/sites?open=a", site: "/sites?open=s" };
  const words = { warning: t("warning"), error: t("error"), info: t("info") };
  const actions = read.value?.length > 0 && html`<${Action} act=${after("/api/events/read-all")}>${t("Mark all as read")}<//>`;
  return html`<${Section} title=${t("Unread events")} read=${read} actions=${actions} isEmpty=${(rows) => !rows.length} empty=${t("Nothing is unread.")}>${(rows) => html`
    <ul class="plain">${[...rows].sort((one, other) => (one.level === "info") - (other.level === "info")).slice(0, NEWS).map((one) => html`<${Row} key=${one.id}
      badge=${html`<${Badge} kind=${{ warning: "warn", error: "bad" }[one.level]}>${words[one.level]}<//>`} title=${one.title} about=${html`<bdi>${one.message}</bdi> <span class="quiet"><${Time} at=${one.createdAt} /></span>`}>
      ${links[one.relatedType] && html`<a class="button" href=${links[one.relatedType] + one.relatedId}>${t("Open")}</a>`}
      <${Action} class="quiet" act=${after(`/api/events/${one.id}/read`)}>${t("Mark as read")}<//><//>`)}</ul>
    ${rows.length > NEWS && html`<p class="quiet">${t("{count} more", { count: rows.length - NEWS })}</p>`}`}<//>`;
}
