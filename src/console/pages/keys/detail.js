// One key opened: what it did, what it may do, and what can be done with it.

import { useState } from "../../vendor/htm-preact.js";
import { useFilter } from "../../address.js";
import { get, post, put, remove } from "../../api.js";
import { Bars } from "../../chart.js";
import { useRead } from "../../data.js";
import { moment, money, number, percent, short } from "../../format.js";
import { Action, Bar, Copyable, Failed, Removal, Tabs, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { EditKey } from "./form.js";
import { BudgetsUsed } from "./limits.js";

// How much of a bound is used.
export function Bound({ used, most, show, label }) {
  if (most === null) return html`<span class="number">${show(used)}</span>`;
  const part = most === 0 ? 100 : (used / most) * 100;
  const words = t("{used} of {most}", { used: show(used), most: show(most) });
  return html`<span class="bound number">${words}<${Bar} value=${part} label=${`${label}: ${words}`} kind=${part >= 100 ? "bad" : part >= 80 ? "warn" : ""} /></span>`;
}

function Value({ item }) {
  const [value, setValue] = useState(null);
  return value === null
    ? html`<span class="mono">${item.keyMasked}</span> <${Action} class="quiet" act=${async () => setValue((await get(`/api/downstream-keys/${item.id}/value`)).key)}>${t("Reveal")}<//>`
    : html`<${Copyable} text=${value} label=${t("Key")} /> <button class="quiet" onClick=${() => setValue(null)}>${t("Hide")}</button>`;
}

// Every hour or day of the range, also those without a request, which the answer leaves out.
function bars({ range, bucketSeconds, buckets }) {
  const step = bucketSeconds * 1000;
  const now = new Date();
  const latest = range === "all" ? now.setHours(0, 0, 0, 0) : now.setMinutes(0, 0, 0);
  const found = new Map(buckets.map((bucket) => [Math.max(0, Math.round((latest - Date.parse(bucket.startUtc)) / step)), bucket]));
  const length = { "24h": 25, "7d": 169 }[range] ?? Math.min(366, 1 + Math.max(13, ...found.keys()));
  return Array.from({ length }, (_, index) => {
    const { totalRequests = 0, failedRequests = 0, totalCost = 0, startUtc } = found.get(length - 1 - index) ?? {};
    const at = moment(startUtc ?? new Date(latest - (length - 1 - index) * step).toISOString());
    return { label: `${at}: ${count(totalRequests, "{count} request", "{count} requests")}, ${money(totalCost)}`,
      parts: [{ value: totalRequests - failedRequests, kind: "" }, { value: failedRequests, kind: "bad" }] };
  });
}

const RANGES = [["24h", "24 hours", "last24h"], ["7d", "7 days", "last7d"], ["all", "All", "all"]];

function Usage({ id }) {
  const [range, setRange] = useFilter("trend", "7d");
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const overview = useRead(`/api/downstream-keys/${id}/overview`, { every: 20 });
  const trend = useRead(`/api/downstream-keys/${id}/trend?range=${range}&timeZone=${zone}`, { every: 60 });
  const used = overview.value?.usage[RANGES.find(([name]) => name === range)?.[2]];
  const figures = used && [[t("Requests"), number(used.totalRequests)], [t("Failed"), number(used.failedRequests)], [t("Successful"), percent(used.successRate, 1)],
    [t("Tokens"), short(used.totalTokens)], [t("Cost"), money(used.totalCost)]];
  return html`<div>
    <${Tabs} label=${t("Usage of")} value=${range} onChange=${setRange} items=${RANGES.map(([name, label]) => [name, t(label)])} />
    <${Failed} failure=${overview.failure ?? trend.failure} retry=${() => { overview.reload(); trend.reload(); }} />
    ${figures && html`<dl class="pairs">${figures.map(([label, value]) => html`<dt key=${label}>${label}</dt><dd class="number">${value}</dd>`)}</dl>`}
    ${trend.value && (trend.value.buckets.length ? html`<${Bars} bars=${bars(trend.value)} label=${t("Requests over time")} /><p class="hint">${t("Requests; failed ones in red.")}</p>`
      : html`<p class="quiet">${t("No requests in this time.")}</p>`)}
  </div>`;
}

export function Detail({ item, onDone }) {
  const [isEdited, setEdited] = useState(false);
  const path = `/api/downstream-keys/${item.id}`;
  const name = html`<bdi>${item.name}</bdi>`;
  const amount = (list) => list.length || null;
  const pairs = [[t("Key"), html`<${Value} item=${item} />`],
    [t("Cost"), html`<${Bound} used=${item.usedCost} most=${item.maxCost} show=${money} label=${t("Cost")} />`],
    [t("Requests"), html`<${Bound} used=${item.usedRequests} most=${item.maxRequests} show=${number} label=${t("Requests")} />`],
    [t("Calls at once"), item.maxConcurrency], [t("Requests a minute"), item.requestsPerMinute && number(item.requestsPerMinute)],
    [t("Tokens a minute"), item.tokensPerMinute && number(item.tokensPerMinute)], [t("Addresses"), item.allowedIps?.join(", ")],
    [t("Budgets"), item.budgets && html`<${BudgetsUsed} budgets=${item.budgets} />`],
    [t("Expires"), item.expiresAt ? html`<${Time} at=${item.expiresAt} plain />` : t("never")], [t("Made"), html`<${Time} at=${item.createdAt} plain />`],
    [t("Description"), item.description], [t("Group"), item.groupName], [t("Tags"), item.tags.join(", ")], [t("Models"), item.supportedModels.join(", ") || "–"],
    [t("Routes"), amount(item.allowedRouteIds)], [t("Sites left out"), amount(item.excludedSiteIds)], [t("Credentials left out"), amount(item.excludedCredentialRefs)],
    [t("Weights of sites"), amount(Object.keys(item.siteWeightMultipliers))]];
  return html`
    <div class="actions">
      <button onClick=${() => setEdited(true)}>${t("Change …")}</button>
      <${Action} act=${async () => { await put(path, { enabled: !item.enabled }); onDone(); }}>${item.enabled ? t("Turn off") : t("Turn on")}<//>
      <a href=${`/keys?connect=1&key=${item.id}`}>${t("Connect a client")}</a>
      <${Removal} class="quiet" label=${t("Reset usage")} title=${t("Reset usage")} name=${name} consequence=${t("Used cost and requests count from 0 again. The log stays.")}
        act=${() => post(`${path}/reset-usage`)} after=${onDone} />
      <${Removal} label=${t("Delete")} title=${t("Delete this key?")} name=${name} consequence=${t("Clients that use it are refused at once. The log stays.")} act=${() => remove(path)} after=${onDone} />
    </div>
    <div class="columns"><dl class="pairs">${pairs.filter(([, value]) => value).map(([label, value]) => html`<dt key=${label}>${label}</dt><dd><bdi>${value}</bdi></dd>`)}</dl><${Usage} id=${item.id} /></div>
    ${isEdited && html`<${EditKey} item=${item} onClose=${() => setEdited(false)} onDone=${() => { setEdited(false); onDone(); }} />`}`;
}
