// The page Overview: the first steps until a request has been answered, then figures, troubles, news, and each site's day.

import { get, post } from "../api.js";
import { Curve, Strip, dateOf, datesUntil } from "../chart.js";
import { useNow, useRead } from "../data.js";
import { clock, duration, money, number, percent, short } from "../format.js";
import { List } from "../list.js";
import {
  Action, Badge, Countdown, Failed, Level, Section, StartTask, StateBadge, TASKS, Time, Unread, eventTitle, healthReason, html, isInTrouble, nameOf, recheck,
  taskTitle
} from "../parts.js";
import { joined, t } from "../words.js";

const SHOWN = 50;
const NEWS = 6;

// Failed tasks without a later success. Dry runs of imports are left out, since the caller sees their result. So are new
// accounts, since the account's own row says what is wrong.
const failedOf = (tasks) => tasks.filter((one, index) => one.status === "failed" && !/^(backup-dry-run|account-init)$/.test(one.type)
  && !tasks.slice(0, index).some((later) => later.status === "succeeded" && (later.dedupeKey ?? later.type) === (one.dedupeKey ?? one.type)));

const Row = ({ badge, title, about, children }) => html`<li class="trouble">${badge}<div><strong><bdi>${title}</bdi></strong><br />${about}</div><span class="actions">${children}</span></li>`;

function Troubles({ accounts, settings }) {
  const cooling = useRead("/api/accounts/cooling", { every: 15 });
  const tasks = useRead("/api/tasks?limit=100", { every: 15 });
  const health = useRead("/api/desktop/health", { every: 15 });
  const now = useNow();
  const { accounts: rows = [], sites = [] } = accounts.value ?? {};
  const siteOf = new Map(sites.map((site) => [site.id, site.name]));
  const titleOf = (one) => joined(siteOf.get(one.siteId) ?? one.site?.name, nameOf(one));
  const low = settings.value?.lowBalanceThreshold;
  const check = (one) => html`<${Action} act=${async () => { try { await recheck(one); } finally { accounts.reload(); } }}>${t("Check again", "重新检查")}<//>`;
  const items = [
    health.value?.storage && html`<${Row} key="storage" badge=${html`<${Badge} kind="bad">${t("storage", "存储")}<//>`} title=${t("Changes cannot be saved", "无法保存修改")} about=${health.value.message} />`,
    ...rows.filter(isInTrouble).map((one) => html`<${Row} key=${`a${one.id}`} badge=${html`<${StateBadge} account=${one} />`} title=${titleOf(one)}
      about=${html`<bdi>${healthReason(one.runtimeHealth)}</bdi>`}>${check(one)}<a class="button" href=${`/sites?open=a${one.id}`}>${t("Open")}</a><//>`),
    ...(cooling.value ?? []).filter(({ until }) => Date.parse(until) > now).map((one) => html`<${Row} key=${`c${one.accountId}`} title=${joined(one.siteName, nameOf({ ...one, id: one.accountId }))}
      badge=${html`<${Badge} kind="warn">${t("cooling", "冷却中")} <${Countdown} until=${one.until} /><//>`} about=${html`<bdi>${one.models.join(", ")}${one.modelCount > one.models.length ? " …" : ""}</bdi>`}>
      <${Action} act=${() => post(`/api/accounts/${one.accountId}/clear-cooldown`)} after=${cooling.reload}>${t("End cooling")}<//><//>`),
    ...rows.filter((one) => one.status === "active" && one.lastBalanceRefresh && low > 0 && one.balance < low)
      .map((one) => html`<${Row} key=${`b${one.id}`} badge=${html`<${Badge} kind="warn">${t("low balance", "余额不足")}<//>`} title=${titleOf(one)} about=${money(one.balance)}>${check(one)}<//>`),
    ...failedOf(tasks.value?.tasks ?? []).map((one) => html`<${Row} key=${one.id} badge=${html`<${Badge} kind="bad">${t("task failed", "任务失败")}<//>`} title=${taskTitle(one)}
      about=${html`<bdi>${one.error ?? one.message}</bdi> <span class="quiet"><${Time} at=${one.finishedAt} /></span>`}>
      ${TASKS[one.dedupeKey]?.[1] && html`<${StartTask} kind=${one.dedupeKey} accounts=${rows} label=${t("Start again", "重新开始")} after=${tasks.reload} />`}
      <a class="button" href=${`/settings?tab=tasks&open=${one.id}`}>${t("Open")}</a><//>`),
  ].filter(Boolean);
  const reads = [accounts, cooling, tasks, settings, health];
  const isRead = reads.every((read) => read.value);
  const read = { ...(reads.find((one) => one.failure) ?? accounts), value: isRead || items.length ? items : undefined };
  return html`<${Section} title=${t("Needs attention")} read=${read}>${() => html`<ul class="plain">${items.slice(0, SHOWN)}</ul>
    ${items.length > SHOWN && html`<a href="/sites?show=trouble">${t("{count} more", { count: items.length - SHOWN })}</a>`}
    ${isRead && !items.length && html`<p class="good-text">✓ ${t("All is well.", "一切正常。")}</p>`}`}<//>`;
}

export function Events() {
  const read = useRead("/api/events?read=false&limit=100", { every: 15 });
  const after = (path) => async () => { await post(path); await read.reload(); };
  const links = { account: "/sites?open=a", site: "/sites?open=s" };
  const actions = read.value?.length > 0 && html`<${Action} act=${after("/api/events/read-all")}>${t("Mark all as read")}<//>`;
  return html`<${Section} title=${t("Unread events")} read=${read} actions=${actions} empty=${t("Nothing is unread.", "没有未读事件。")}>${(rows) => html`
    <ul class="plain">${[...rows].sort((one, other) => (one.level === "info") - (other.level === "info")).slice(0, NEWS).map((one) => html`<${Row} key=${one.id}
      badge=${html`<${Level} of=${one.level} />`} title=${eventTitle(one)} about=${html`<bdi>${one.message}</bdi> <span class="quiet"><${Time} at=${one.createdAt} /></span>`}>
      ${links[one.relatedType] && html`<a class="button" href=${links[one.relatedType] + one.relatedId}>${t("Open")}</a>`}
      <${Action} class="quiet" act=${after(`/api/events/${one.id}/read`)}>${t("Mark as read")}<//><//>`)}</ul>
    ${rows.length > NEWS && html`<a href="/settings?tab=events">${t("{count} more", { count: rows.length - NEWS })}</a>`}`}<//>`;
}

// === the page ===

// Whether any request has been answered, if none was in the last 24 hours: from the log, else from the sums, which stay when
// the log is cleared.
const wasAnswered = async () => (await get("/api/stats/proxy-logs?view=query&status=success&limit=1")).items.length > 0
  || (await get("/api/stats/model-by-site?days=90")).models.some(({ tokens }) => tokens > 0);

export function Page() {
  const accounts = useRead("/api/accounts", { every: 20 });
  const day = useRead("/api/stats/dashboard", { every: 15 });
  const wasToday = day.value?.proxy24h.success > 0;
  const answered = useRead(!wasToday && (day.value || day.failure) ? "answered" : null, { every: 15, read: wasAnswered });
  const settings = useRead("/api/settings/runtime");
  const today = dateOf(Date.now(), settings.value?.serverTimeZone);
  const isAnswered = wasToday || answered.value;
  // If it cannot be known whether a request has been answered, the figures are shown.
  const beginning = isAnswered === false ? html`<${Guide} accounts=${accounts} />`
    : isAnswered || answered.failure ? html`<${Failed} of=${answered} /><${Figures} day=${day} accounts=${accounts} today=${today} />` : html`<${Section} read=${day.value ? answered : day} />`;
  return html`${beginning}<${Troubles} accounts=${accounts} settings=${settings} />${isAnswered !== false && html`<${Hours} day=${day} />`}<${Events} />`;
}

function Guide({ accounts }) {
  const routes = useRead("/api/routes/lite?limit=1", { every: 5 });
  const keys = useRead("/api/downstream-keys", { every: 15 });
  return html`<${Section} title=${t("Four steps to the first answer", "四步得到第一个回答")} read=${accounts} also=${[routes, keys]}>${({ sites, accounts: known }) => {
    const steps = [
      [sites.length, t("Add a site"), "/sites?add=site"],
      [known.length && routes.value?.length, t("Add a key, or log in", "添加密钥或登录"), sites.length === 1 ? `/sites?add=${sites[0].id}` : "/sites"],
      [0, t("Try a model"), "/playground"],
      [keys.value?.items.length, t("Connect a client"), "/keys?connect=1"],
    ];
    const next = steps.findIndex(([isDone]) => !isDone);
    return html`<ol class="steps">${steps.map(([isDone, title, link], index) => html`<li key=${link} class=${isDone ? "done" : ""}>
      <span aria-hidden="true">${isDone ? "✓" : index + 1}</span> <a class=${index === next ? "button first" : "button"} href=${link}>${title}</a>
      ${isDone ? html` <span class="unseen">${t("done")}</span>` : ""}</li>`)}</ol>`;
  }}<//>`;
}

// The trend has only days with usage; the others are 0.
function spendOf(trend, today) {
  const told = new Map(trend.map(({ date, sites }) => [date, Object.values(sites).reduce((sum, site) => sum + site.spend, 0)]));
  return datesUntil(today, 30).map((date) => told.get(date) ?? 0);
}

function Figures({ day, accounts, today }) {
  const trend = useRead("/api/stats/site-trend?days=30", { every: 60 });
  return html`<${Section} read=${day} class="plain">${({ totalBalance, totalUsed, todaySpend, todayReward, todayCheckin, activeAccounts, totalAccounts, proxy24h, performance, inFlight, cacheHitRatio, siteAvailability }) => {
    const hours = (name) => Array.from({ length: 24 }, (_, hour) => siteAvailability.reduce((sum, { buckets }) => sum + buckets[hour][name], 0));
    const figure = (label, value, curve, about, read) => html`<div class="figure"><dt>${label} <${Unread} read=${read} /></dt><dd>${value} <small>${about}</small>
      ${curve && html`<${Curve} values=${curve} label=${label} />`}</dd></div>`;
    return html`<dl class="figures">
      ${figure(t("Balance"), money(accounts.value?.accounts.some((one) => one.lastBalanceRefresh) ? totalBalance : null), null, totalUsed > 0 && t("{used} used in all", "共用 {used}", { used: money(totalUsed) }))}
      ${figure(t("Spent today"), money(todaySpend), trend.value && spendOf(trend.value.trend, today), t("30 days", "30 天"), trend)}
      ${figure(t("Attempts"), number(proxy24h.total), hours("totalRequests"), t("24 hours"))}
      ${figure(t("Failed attempts", "失败的尝试"), html`<span class=${proxy24h.failed ? "bad-text" : ""}>${number(proxy24h.failed)}</span>`, hours("failedCount"), proxy24h.total > 0 && percent((100 * proxy24h.failed) / proxy24h.total, 1))}
      ${figure(t("Tokens"), short(proxy24h.totalTokens), null, t("24 hours"))}
      ${figure(t("Attempts a minute", "每分钟尝试数"), number(performance.requestsPerMinute), null, t("{count} tokens", "{count} 令牌", { count: short(performance.tokensPerMinute) }))}
      ${figure(t("In flight", "处理中"), number(inFlight))}
      ${figure(t("Accounts in use", "启用的账号"), `${number(activeAccounts)} / ${number(totalAccounts)}`)}
      ${todayCheckin.total > 0 && figure(t("Check-ins"), html`<span class=${todayCheckin.failed ? "bad-text" : ""}>${number(todayCheckin.success)} / ${number(todayCheckin.total)}</span>`, null, t("{reward} gained today", "今日获得 {reward}", { reward: money(todayReward) }))}
      ${cacheHitRatio !== null && figure(t("Cache hits"), percent(100 * cacheHitRatio, 1), null, t("24 hours"))}
    </dl>`;
  }}<//>`;
}

function Hours({ day }) {
  const cell = (hour) => ({
    kind: !hour.totalRequests ? "" : hour.availabilityPercent >= 99 ? "good" : hour.availabilityPercent >= 80 ? "warn" : "bad",
    label: `${clock(hour.startUtc)}: ${hour.successCount} / ${hour.totalRequests}`,
  });
  const columns = [
    [t("Site"), (row) => html`<a href=${`/sites?open=s${row.siteId}`}>${row.siteName}</a>`],
    [t("The last 24 hours", "最近 24 小时"), (row) => html`<${Strip} cells=${row.buckets.map(cell)} label=${`${row.siteName}: ${percent(row.availabilityPercent, 1)}`} />`],
    [t("Answered", "成功率"), (row) => percent(row.availabilityPercent, 1), "end"],
    [t("Latency"), (row) => duration(row.averageLatencyMs), "end less"],
    [t("Attempts"), (row) => number(row.totalRequests), "end less"],
  ];
  const title = t("Sites, hour by hour", "各站点逐时状况");
  return day.value && html`<${Section} title=${title}><div class="hours"><${List} label=${title} rows=${day.value.siteAvailability} columns=${columns} keyOf=${(row) => row.siteId} empty=${t("No requests yet.")} /></div><//>`;
}
