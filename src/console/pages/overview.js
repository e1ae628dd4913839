// The page Overview: the first steps until somebody was answered, then figures, what needs attention, news, and each site's day.

import { useFilter } from "../address.js";
import { post, send } from "../api.js";
import { Curve, Strip } from "../chart.js";
import { useRead, useTicks } from "../data.js";
import { clock, duration, money, number, percent, short } from "../format.js";
import { List } from "../list.js";
import { Action, Badge, Note, Section, Time, html } from "../parts.js";
import { t } from "../words.js";
import { useEffect, useState } from "../vendor/htm-preact.js";
import { Troubles } from "./overview/troubles.js";

// What the server counts of itself: `name{label="value"} number` in lines.
function useMetrics() {
  const [metrics, setMetrics] = useState({});
  const read = async () => {
    const text = await (await send("GET", "/metrics")).text();
    setMetrics(Object.fromEntries(text.split("\n").filter((line) => line.startsWith("switchyard_")).map((line) => {
      const at = line.lastIndexOf(" ");
      return [line.slice(11, at), Number(line.slice(at + 1))];
    })));
  };
  const quietly = () => read().catch(() => {});
  useEffect(() => { quietly(); }, []);
  useTicks(10, quietly);
  return metrics;
}

export function Overview() {
  const accounts = useRead("/api/accounts", { every: 20 });
  const answered = useRead("/api/stats/proxy-logs?status=success&pageSize=1", { every: 15 });
  const isNew = answered.value && !(answered.value.total > 0 || answered.value.items.length);
  if (answered.value === undefined) return html`<${Section} read=${answered} />`;
  return html`
    ${isNew ? html`<${Guide} accounts=${accounts} />` : html`<${Figures} />`}
    <${Troubles} accounts=${accounts} />
    <${Events} />
    ${!isNew && html`<${Availability} />`}`;
}

// === the first steps ===

function Guide({ accounts }) {
  const routes = useRead("/api/routes/lite?limit=1", { every: 5 });
  const keys = useRead("/api/downstream-keys", { every: 15 });
  const { sites = [], accounts: known = [] } = accounts.value ?? {};
  const steps = [
    [sites.length > 0, t("Add a site"), t("A vendor's API or a hub: paste its address, the rest is detected."), "/sites?add=site"],
    [known.length > 0 && routes.value?.length > 0, t("Add a key, or log in"), t("It is verified before it is saved. Its models and routes follow by themselves."),
      sites.length === 1 ? `/sites?add=${sites[0].id}` : "/sites"],
    [false, t("Try a model"), t("Ask something in the playground and see the answer stream."), "/playground"],
    [(keys.value?.items ?? keys.value ?? []).length > 0, t("Connect a client"), t("Make a key and paste a few lines into Claude Code, Codex, an SDK or curl."), "/keys"],
  ];
  const next = steps.findIndex(([isDone]) => !isDone);
  return html`<${Section} title=${t("Four steps to the first answer")} read=${accounts}>${() => html`<ol class="steps">
    ${steps.map(([isDone, title, about, link], index) => html`<li key=${link} class=${isDone ? "done" : ""}>
      <strong><span aria-hidden="true">${isDone ? "✓" : index + 1}</span> ${title}${isDone && html` <span class="unseen">${t("done")}</span>`}</strong>
      <p class="quiet">${about}</p><a class=${index === next ? "button first" : "button"} href=${link}>${title}</a></li>`)}
  </ol>`}<//>`;
}

// === figures ===

// Calls and spend of each of the last 30 days, from what is told of days on which something happened.
function daysOf(trend) {
  const told = new Map(trend.map(({ date, sites }) => [date, Object.values(sites)]));
  const last = trend.at(-1)?.date;
  if (!last) return [];
  return Array.from({ length: 30 }, (_, back) => {
    const day = new Date(Date.parse(last) - (29 - back) * 86_400_000).toISOString().slice(0, 10);
    return (told.get(day) ?? []).reduce((sum, site) => sum + site.spend, 0);
  });
}

function Figures() {
  const read = useRead("/api/stats/dashboard", { every: 15 });
  const trend = useRead("/api/stats/site-trend?days=30", { every: 60 });
  const metrics = useMetrics();
  const prompt = metrics['tokens_total{kind="prompt"}'];
  const cached = metrics['tokens_total{kind="cached"}'] ?? metrics['tokens_total{kind="cache_read"}'];
  const inFlight = metrics.requests_in_flight;
  return html`<${Section} read=${read} class="plain">${({ totalBalance, todaySpend, proxy24h, performance, siteAvailability }) => {
    const hours = (name) => Array.from({ length: 24 }, (_, hour) => siteAvailability.reduce((sum, { buckets }) => sum + buckets[hour][name], 0));
    const days = trend.value ? daysOf(trend.value.trend) : [];
    const figure = (label, value, curve, about, bad) => html`<div class="figure"><dt>${label}</dt>
      <dd class=${bad ? "bad-text" : ""}>${value}${about && html` <small class="quiet">${about}</small>`}
        ${curve?.length > 1 && html`<${Curve} values=${curve} label=${t("{what} over time", { what: label })} height=${32} />`}</dd></div>`;
    const failed = proxy24h.total ? percent((100 * proxy24h.failed) / proxy24h.total, 1) : "";
    return html`<dl class="figures">
      ${figure(t("Balance"), money(totalBalance))}
      ${figure(t("Spent today"), money(todaySpend), days, t("30 days"))}
      ${figure(t("Requests"), number(proxy24h.total), hours("totalRequests"), t("24 h"))}
      ${figure(t("Errors"), number(proxy24h.failed), hours("failedCount"), failed, proxy24h.failed > 0)}
      ${figure(t("Tokens"), short(proxy24h.totalTokens), null, t("24 h"))}
      ${figure(t("Just now"), number(performance.requestsPerMinute), null, t("requests a minute"))}
      ${inFlight !== undefined && figure(t("In flight"), number(inFlight))}
      ${cached !== undefined && prompt > 0 && figure(t("Cache hits"), percent((100 * cached) / prompt, 1), null, t("of prompt tokens since the start"))}
    </dl>`;
  }}<//>`;
}

// === events ===

const LINKS = { account: (id) => `/sites?open=a${id}`, site: (id) => `/sites?open=s${id}`, route: (id) => `/routes?open=${id}`,
  settings: () => "/settings", site_announcement: () => "/sites", update_center: () => "/settings" };

function Events() {
  const read = useRead("/api/events?read=false&limit=100", { every: 15 });
  const [kind, setKind] = useFilter("events", "important");
  const after = (path) => async () => { await post(path); await read.reload(); };
  const rows = (read.value ?? []).filter(({ level }) => kind === "all" || level !== "info");
  const actions = html`
    <select aria-label=${t("Which events")} value=${kind} onChange=${(event) => setKind(event.target.value)}>
      <option value="important">${t("warnings and errors")}</option><option value="all">${t("all")}</option></select>
    ${read.value?.length > 0 && html`<${Action} act=${after("/api/events/read-all")}>${t("Mark all as read")}<//>`}`;
  return html`<${Section} title=${t("Unread events")} read=${read} actions=${actions}>${() => (rows.length
    ? html`<ul class="plain">${rows.map((one) => html`<li key=${one.id} class="trouble">
        <${Badge} kind=${{ warning: "warn", error: "bad" }[one.level]}>${{ warning: t("warning"), error: t("error"), info: t("info") }[one.level] ?? one.level}<//>
        <div><strong><bdi>${one.title}</bdi></strong> <span class="quiet"><${Time} at=${one.createdAt} /></span><br /><bdi>${one.message}</bdi></div>
        <span class="actions">${LINKS[one.relatedType] && html`<a href=${LINKS[one.relatedType](one.relatedId)}>${t("Open")}</a>`}
          <${Action} class="quiet" act=${after(`/api/events/${one.id}/read`)}>${t("Mark as read")}<//></span></li>`)}</ul>`
    : html`<p class="quiet">${read.value.length ? t("No warning. {count} others are unread.", { count: read.value.length }) : t("Nothing is unread.")}</p>`)}<//>`;
}

// === the day of each site ===

function Availability() {
  const read = useRead("/api/stats/dashboard?view=insights", { every: 60 });
  const cellOf = (hour) => ({
    kind: !hour.totalRequests ? "" : hour.availabilityPercent >= 99 ? "good" : hour.availabilityPercent >= 80 ? "warn" : "bad",
    label: `${clock(hour.startUtc)}: ${hour.totalRequests ? t("{good} of {all} answered", { good: hour.successCount, all: hour.totalRequests }) : t("no requests")}`,
  });
  const columns = [
    { name: "site", label: t("Site"), cell: (row) => html`<a href=${`/sites?open=s${row.siteId}`}><bdi>${row.siteName}</bdi></a>` },
    { name: "strip", label: t("The last 24 hours"), cell: (row) => html`<${Strip} cells=${row.buckets.map(cellOf)}
      label=${t("{name}: {percent} answered in 24 hours", { name: row.siteName, percent: percent(row.availabilityPercent, 1) })} />` },
    { name: "answered", label: t("Answered"), class: "end", cell: (row) => percent(row.availabilityPercent, 1) },
    { name: "latency", label: t("Latency"), class: "end less", cell: (row) => duration(row.averageLatencyMs) },
    { name: "requests", label: t("Requests"), class: "end less", cell: (row) => number(row.totalRequests) },
  ];
  return html`<${Section} title=${t("Sites, hour by hour")} read=${read} isEmpty=${({ siteAvailability }) => !siteAvailability.length} empty=${t("No site yet.")}>
    ${({ siteAvailability }) => html`<div class="hours"><${List} label=${t("Sites, hour by hour")} rows=${siteAvailability} columns=${columns} keyOf=${(row) => row.siteId} /></div>`}<//>`;
}
