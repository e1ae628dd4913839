// One key opened: what it did, what it may do, and what can be done with it.

import { useState } from "../../vendor/htm-preact.js";
import { useFilter } from "../../address.js";
import { get, post, put, remove } from "../../api.js";
import { Bars } from "../../chart.js";
import { useRead } from "../../data.js";
import { moment, money, number, percent, short } from "../../format.js";
import { Action, Bar, Copyable, Failed, Removal, Tabs, Time, html } from "../../parts.js";
import { t } from "../../words.js";
import { EditKey } from "./form.js";

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
  const back = (bucket) => Math.max(0, Math.round((latest - Date.parse(bucket.startUtc)) / step));
  const count = { "24h": 25, "7d": 169 }[range] ?? Math.min(366, 1 + Math.max(13, ...buckets.map(back)));
  const found = new Map(buckets.map((bucket) => [back(bucket), bucket]));
  return Array.from({ length: count }, (_, index) => {
    const bucket = found.get(count - 1 - index);
    const at = moment(bucket?.startUtc ?? new Date(latest - (count - 1 - index) * step).toISOString());
    return { label: bucket ? t("{at}: {requests} requests, {failed} failed, {cost}", { at, requests: bucket.totalRequests, failed: bucket.failedRequests, cost: money(bucket.totalCost) }) : at,
      parts: [{ value: bucket?.successRequests ?? 0, kind: "" }, { value: bucket?.failedRequests ?? 0, kind: "bad" }] };
  });
}

function Trend({ id }) {
  const [range, setRange] = useFilter("trend", "7d");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const trend = useRead(`/api/downstream-keys/${id}/trend?range=${range}&timeZone=${encodeURIComponent(zone)}`, { every: 60 });
  const most = Math.max(0, ...(trend.value?.buckets ?? []).map((bucket) => bucket.totalRequests));
  return html`<div>
    <${Tabs} label=${t("Time")} value=${range} onChange=${setRange} items=${[["24h", t("24 hours")], ["7d", t("7 days")], ["all", t("All")]]} />
    <${Failed} failure=${trend.failure} retry=${trend.reload} />
    ${!trend.value ? !trend.failure && html`<p class="quiet" role="status">${t("Loading …")}</p>`
      : !most ? html`<p class="empty">${t("No requests in this time.")}</p>`
        : html`<${Bars} bars=${bars(trend.value)} label=${t("Requests over time, failed ones in another colour; at most {most} at once", { most })} />
          <p class="hint">${t("Requests; failed ones in red. The highest bar is {most}.", { most: number(most) })}</p>`}
  </div>`;
}

const SPANS = [["last24h", "24 hours"], ["last7d", "7 days"], ["all", "All"]];

function Usage({ id }) {
  const overview = useRead(`/api/downstream-keys/${id}/overview`, { every: 20 });
  if (!overview.value) {
    return overview.failure ? html`<${Failed} failure=${overview.failure} retry=${overview.reload} />` : html`<p class="quiet" role="status">${t("Loading …")}</p>`;
  }
  return html`<${Failed} failure=${overview.failure} retry=${overview.reload} /><div class="scrolls"><table>
    <thead><tr><th scope="col">${t("Time")}</th><th scope="col">${t("Requests")}</th><th scope="col">${t("Failed")}</th><th scope="col">${t("Successful")}</th><th scope="col">${t("Tokens")}</th><th scope="col">${t("Cost")}</th></tr></thead>
    <tbody>${SPANS.map(([name, label]) => {
      const used = overview.value.usage[name];
      return html`<tr key=${name} class="number"><th scope="row">${t(label)}</th><td>${number(used.totalRequests)}</td><td>${number(used.failedRequests)}</td>
        <td>${percent(used.successRate, 1)}</td><td>${short(used.totalTokens)}</td><td>${money(used.totalCost)}</td></tr>`;
    })}</tbody></table></div>`;
}

function Policy({ item }) {
  const pairs = [
    [t("Description"), item.description], [t("Group"), item.groupName], [t("Tags"), item.tags.join(", ")],
    [t("Models"), item.supportedModels.join(", ") || t("none by name")],
    [t("Routes"), item.allowedRouteIds.length], [t("Sites left out"), item.excludedSiteIds.length],
    [t("Credentials left out"), item.excludedCredentialRefs.length], [t("Weights of sites"), Object.keys(item.siteWeightMultipliers).length],
  ].filter(([, value]) => value);
  return html`${pairs.map(([label, value]) => html`<dt key=${label}>${label}</dt><dd><bdi>${value}</bdi></dd>`)}`;
}

export function Detail({ item, onDone }) {
  const [isEdited, setEdited] = useState(false);
  const path = `/api/downstream-keys/${item.id}`;
  return html`
    <div class="actions">
      <button onClick=${() => setEdited(true)}>${t("Change …")}</button>
      <${Action} act=${async () => { await put(path, { enabled: !item.enabled }); onDone(); }}>${item.enabled ? t("Turn off") : t("Turn on")}<//>
      <a href=${`/keys?connect=1&key=${item.id}`}>${t("Connect a client")}</a>
      <a href=${`/log?key=${item.id}`}>${t("Log")}</a>
      <${Removal} class="quiet" label=${t("Reset usage")} title=${t("Reset the usage of this key?")} name=${html`<bdi>${item.name}</bdi>`}
        consequence=${t("Its used cost and its used requests count from 0 again. The log stays.")} act=${() => post(`${path}/reset-usage`)} after=${onDone} />
      <${Removal} label=${t("Delete")} title=${t("Delete this key?")} name=${html`<bdi>${item.name}</bdi>`}
        consequence=${t("Clients that use it are refused at once. Its requests stay in the log.")} act=${() => remove(path)} after=${onDone} />
    </div>
    <dl class="pairs">
      <dt>${t("Key")}</dt><dd><${Value} item=${item} /></dd>
      <dt>${t("Cost")}</dt><dd><${Bound} used=${item.usedCost} most=${item.maxCost} show=${money} label=${t("Cost")} /></dd>
      <dt>${t("Requests")}</dt><dd><${Bound} used=${item.usedRequests} most=${item.maxRequests} show=${number} label=${t("Requests")} /></dd>
      <dt>${t("Expires")}</dt><dd>${item.expiresAt ? html`<${Time} at=${item.expiresAt} plain />` : t("never")}</dd>
      <dt>${t("Last used")}</dt><dd>${item.lastUsedAt ? html`<${Time} at=${item.lastUsedAt} />` : t("never")}</dd>
      <dt>${t("Made")}</dt><dd><${Time} at=${item.createdAt} plain /></dd>
      <${Policy} item=${item} />
    </dl>
    <div class="columns"><${Usage} id=${item.id} /><${Trend} id=${item.id} /></div>
    ${isEdited && html`<${EditKey} item=${item} onClose=${() => setEdited(false)} onDone=${() => { setEdited(false); onDone(); }} />`}`;
}
