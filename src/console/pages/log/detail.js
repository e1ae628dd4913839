// A row of the log opened: its attempts, why it went where it went, tokens, cost, and the trace when one was recorded.

import { useState } from "../../vendor/htm-preact.js";
import { get } from "../../api.js";
import { href } from "../../address.js";
import { useRead } from "../../data.js";
import { clock, duration, moment, money, number } from "../../format.js";
import { Badge, Copyable, Fold, Section, html } from "../../parts.js";
import { t } from "../../words.js";

export const statusOf = (row) => ({ success: ["good", t("Good")], retried: ["warn", t("Tried again")] })[row.status] ?? ["bad", t("Failed")];

// All rows of one request. They were written within its time, next to one another.
async function attemptsOf(row) {
  if (!row.requestId) return [row];
  const around = (seconds) => new Date(new Date(row.createdAt).getTime() + seconds * 1000).toISOString();
  const { items } = await get(href("/api/stats/proxy-logs", { view: "query", limit: 100, search: row.modelRequested, from: around(-300), to: around(300) }));
  const own = items.filter((one) => one.requestId === row.requestId);
  return (own.length ? own : [row]).sort((one, other) => one.id - other.id);
}

// The trace of the request, if one was recorded: the list does not name the request, each trace does.
async function traceOf(row) {
  const { items } = await get("/api/stats/proxy-debug/traces?limit=100");
  const near = items.filter((one) => one.requestedModel === row.modelRequested
    && Math.abs(new Date(one.createdAt) - new Date(row.createdAt)) < 600_000)
    .sort((one, other) => Math.abs(new Date(one.createdAt) - new Date(row.createdAt)) - Math.abs(new Date(other.createdAt) - new Date(row.createdAt)));
  for (const { id } of near.slice(0, 10)) {
    const found = await get(`/api/stats/proxy-debug/traces/${id}`);
    if (found.trace.traceHint === row.requestId) return found;
  }
  return null;
}

const Pair = ({ name, children }) => html`<dt>${name}</dt><dd><bdi>${children}</bdi></dd>`;
const Part = ({ name, tokens, price, cost }) => (tokens || cost) ? html`<tr><td>${name}</td><td class="end">${number(tokens)}</td><td class="end">${money(price)}</td><td class="end">${money(cost)}</td></tr>` : null;

function Cost({ row }) {
  const { billingDetails: bill } = row;
  if (!bill) return html`<p>${money(row.estimatedCost)} <span class="quiet">${t("No parts were recorded: it was charged by the call, or estimated from all tokens because no price was known.")}</span></p>`;
  const { usage, pricing, breakdown } = bill;
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${t("Cost")}><table>
    <thead><tr><th>${t("Part")}</th><th class="end">${t("Tokens")}</th><th class="end">${t("Per million")}</th><th class="end">${t("Cost")}</th></tr></thead>
    <tbody><${Part} name=${t("In")} tokens=${usage.billablePromptTokens} price=${breakdown.inputPerMillion} cost=${breakdown.inputCost} />
      <${Part} name=${t("From the cache")} tokens=${usage.cacheReadTokens} price=${breakdown.cacheReadPerMillion} cost=${breakdown.cacheReadCost} />
      <${Part} name=${t("Into the cache")} tokens=${usage.cacheCreationTokens} price=${breakdown.cacheCreationPerMillion} cost=${breakdown.cacheCreationCost} />
      <${Part} name=${t("Out")} tokens=${usage.completionTokens} price=${breakdown.outputPerMillion} cost=${breakdown.outputCost} />
      <tr><th>${t("Sum")}</th><td class="end">${number(usage.totalTokens)}</td><td></td><th class="end">${money(breakdown.totalCost)}</th></tr></tbody></table></div>
    <p class="quiet">${t("Ratios: model {model}, out {out}, cache read {read}, cache write {write}, group {group}", { model: pricing.modelRatio, out: pricing.completionRatio,
      read: pricing.cacheRatio, write: pricing.cacheCreationRatio, group: pricing.groupRatio })}</p>`;
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
const Text = ({ name, text }) => text ? html`<h4>${name}</h4><${Copyable} label=${name} text=${pretty(text)} />` : null;

function Trace({ row }) {
  const read = useRead(`trace of ${row.requestId}`, { read: () => traceOf(row) });
  return html`<${Section} read=${read} class="plain" isEmpty=${(value) => !value} empty=${html`${t("No trace of it was recorded.")} <a href="/settings">${t("Traces are switched on in the settings.")}</a>`}>
    ${({ trace, attempts }) => html`
      <p class="quiet">${t("A trace holds what was asked and answered: treat it as private.")}</p>
      <${Text} name=${t("Request: headers")} text=${trace.requestHeadersJson} /><${Text} name=${t("Request: body")} text=${trace.requestBodyJson} />
      <${Text} name=${t("Decision")} text=${trace.decisionSummaryJson} />
      ${attempts.map((one) => html`<h3>${t("Attempt {number}", { number: one.attemptIndex + 1 })} <bdi class="mono">${one.targetUrl}</bdi> ${one.responseStatus && html`<${Badge}>${one.responseStatus}<//>`}</h3>
        ${one.downgradeReason && html`<p><bdi>${one.downgradeReason}</bdi></p>`}
        <${Text} name=${t("Sent: headers")} text=${one.requestHeadersJson} /><${Text} name=${t("Sent: body")} text=${one.requestBodyJson} />
        <${Text} name=${t("Came back: headers")} text=${one.responseHeadersJson} /><${Text} name=${t("Came back: body")} text=${one.responseBodyJson} />
        <${Text} name=${t("Error")} text=${one.rawErrorText} />`)}
      <${Text} name=${t("Answer: headers")} text=${trace.finalResponseHeadersJson} /><${Text} name=${t("Answer: body")} text=${trace.finalResponseBodyJson} />`}<//>`;
}

export function LogDetail({ row: listed }) {
  const read = useRead(`/api/stats/proxy-logs/${listed.id}`);
  const attempts = useRead(`attempts of ${listed.id}`, { read: () => attemptsOf(listed) });
  const [traces, setTraces] = useState(false);
  const site = (row) => html`${row.siteName ?? "–"}${row.username && ` / ${row.username}`}`;
  return html`<${Section} read=${read} class="plain">${(row) => {
    const usage = row.billingDetails?.usage;
    return html`<div class="columns">
      <dl class="pairs">
        <${Pair} name=${t("Request")}><span class="mono">${row.requestId ?? "–"}</span><//>
        <${Pair} name=${t("Time")}>${moment(row.createdAt)}<//>
        <${Pair} name=${t("Model")}>${row.modelRequested ?? "–"}${row.modelActual && row.modelActual !== row.modelRequested && ` → ${row.modelActual}`}
          ${row.routeId && row.modelRequested && html` <a href=${href("/routes", { q: row.modelRequested, open: row.routeId })}>${t("Route")}</a>`}<//>
        <${Pair} name=${t("Went to")}>${row.siteName ? html`<a href=${href("/sites", { q: row.siteName })}>${site(row)}</a>` : "–"}${row.channelId && ` (${t("channel {id}", { id: row.channelId })})`}<//>
        <${Pair} name=${t("Because")}>${row.decisionReason ?? "–"}<//>
        <${Pair} name=${t("Key")}>${row.downstreamKeyName ?? (row.downstreamApiKeyId ? `#${row.downstreamApiKeyId}` : t("the global token"))}${row.downstreamKeyGroupName && ` · ${row.downstreamKeyGroupName}`}<//>
        <${Pair} name=${t("Client")}>${row.clientAppName ?? row.clientFamily ?? "–"}<//>
      </dl>
      <dl class="pairs">
        <${Pair} name=${t("Tokens in / out")}>${number(row.promptTokens)} / ${number(row.completionTokens)}<//>
        <${Pair} name=${t("of these cached")}>${usage ? number(usage.cacheReadTokens) : "–"}<//>
        <${Pair} name=${t("Counted by")}>${{ upstream: t("the site"), "self-log": t("the site's own log") }[row.usageSource] ?? t("nobody")}<//>
        <${Pair} name=${t("First byte")}>${duration(row.firstByteLatencyMs)}<//>
        <${Pair} name=${t("Took")}>${duration(row.latencyMs)} ${row.isStream && html`<${Badge}>${t("streamed")}<//>`}<//>
        <${Pair} name=${t("Status")}>${row.httpStatus ?? "–"}<//>
      </dl></div>
      ${row.errorMessage && row.status !== "success" && html`<pre tabindex="0" aria-label=${t("Error")}><bdi>${row.errorMessage}</bdi></pre>`}
      <h3>${t("Cost")}</h3><${Cost} row=${row} />`;
  }}<//>
  <h3>${t("Attempts")}</h3>
  <${Section} read=${attempts} class="plain">${(rows) => html`<div class="scrolls" tabindex="0" role="region" aria-label=${t("Attempts")}><table>
    <thead><tr><th>${t("Time")}</th><th>${t("Site")}</th><th>${t("Status")}</th><th>${t("Took")}</th><th>${t("What was said")}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.id} aria-current=${row.id === listed.id ? "true" : undefined}><td class="number">${clock(row.createdAt)}</td><td><bdi>${site(row)}</bdi></td>
      <td><${Badge} kind=${statusOf(row)[0]}>${statusOf(row)[1]} ${row.httpStatus}<//></td><td class="number">${duration(row.latencyMs)}</td><td><bdi>${row.errorMessage ?? ""}</bdi></td></tr>`)}</tbody></table></div>`}<//>
  <${Fold} label=${t("Trace")} open=${traces} onToggle=${() => setTraces(!traces)}><${Trace} row=${listed} /><//>`;
}
