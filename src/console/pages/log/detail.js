// A row of the log opened: its attempts, why it went where it went, tokens, cost, and the trace when one was recorded.

import { useState } from "../../vendor/htm-preact.js";
import { get } from "../../api.js";
import { href } from "../../address.js";
import { useRead } from "../../data.js";
import { clock, duration, moment, money, number } from "../../format.js";
import { Badge, Copyable, Fold, Section, Table, html } from "../../parts.js";
import { t } from "../../words.js";

export function Status({ row }) {
  const [kind, word] = { success: ["good", t("Good")], retried: ["warn", t("Tried again")] }[row.status] ?? ["bad", t("Failed")];
  return html`<${Badge} kind=${kind}>${word}${row.status !== "success" && row.httpStatus ? ` ${row.httpStatus}` : ""}<//>`;
}

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
  const gap = (one) => Math.abs(new Date(one.createdAt) - new Date(row.createdAt));
  const near = items.filter((one) => one.requestedModel === row.modelRequested && gap(one) < 600_000).sort((one, other) => gap(one) - gap(other));
  for (const { id } of near.slice(0, 10)) {
    const found = await get(`/api/stats/proxy-debug/traces/${id}`);
    if (found.trace.traceHint === row.requestId) return found;
  }
  return null;
}

const Pairs = ({ of }) => html`<dl class="pairs">${of.map(([name, value]) => html`<dt>${name}</dt><dd><bdi>${value ?? "–"}</bdi></dd>`)}</dl>`;
function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function Cost({ row }) {
  if (!row.billingDetails) return html`<p>${money(row.estimatedCost)} <span class="quiet">${t("Charged by the call, or estimated from all tokens: no parts are recorded.")}</span></p>`;
  const { usage, breakdown: by } = row.billingDetails;
  const parts = [[t("In"), usage.billablePromptTokens, by.inputPerMillion, by.inputCost], [t("From the cache"), usage.cacheReadTokens, by.cacheReadPerMillion, by.cacheReadCost],
    [t("Into the cache"), usage.cacheCreationTokens, by.cacheCreationPerMillion, by.cacheCreationCost], [t("Out"), usage.completionTokens, by.outputPerMillion, by.outputCost]];
  return html`<${Table} label=${t("Cost")} head=${["", t("Tokens"), t("Per million"), t("Cost")]}
    rows=${[...parts, [t("Sum"), usage.totalTokens, null, by.totalCost]].map(([name, tokens, price, cost]) => [name, number(tokens), price === null ? "" : money(price), money(cost)])} />`;
}

// Whatever texts a trace or an attempt has, under the names that the API gives them.
const Texts = ({ of }) => Object.entries(of).filter(([name, text]) => text && /Json$|Text$|Reason$|Url$/.test(name))
  .map(([name, text]) => html`<p class="quiet mono">${name}</p><${Copyable} label=${name} text=${pretty(text)} />`);

function Trace({ row }) {
  const read = useRead(`trace of ${row.requestId}`, { read: () => traceOf(row) });
  return html`<${Section} read=${read} class="plain" isEmpty=${(value) => !value} empty=${html`<a href="/settings?tab=traces">${t("No trace was recorded. Traces are switched on in the settings.")}</a>`}>
    ${({ trace, attempts }) => html`<${Texts} of=${trace} />
      ${attempts.map((one) => html`<h3>${t("Attempt {number}", { number: one.attemptIndex + 1 })} <${Badge}>${one.responseStatus ?? "–"}<//></h3><${Texts} of=${one} />`)}`}<//>`;
}

export function LogDetail({ row: listed }) {
  const read = useRead(`/api/stats/proxy-logs/${listed.id}`);
  const attempts = useRead(`attempts of ${listed.id}`, { read: () => attemptsOf(listed) });
  const [traces, setTraces] = useState(false);
  const site = (row) => [row.siteName ?? "–", row.username].filter(Boolean).join(" / ");
  return html`<${Section} read=${read} class="plain">${(row) => html`
    <div class="columns">
      <${Pairs} of=${[
        [t("Request"), html`<span class="mono">${row.requestId ?? "–"}</span>`],
        [t("Time"), moment(row.createdAt)],
        [t("Model"), html`<a href=${href("/routes", { q: row.modelRequested, open: row.routeId })}>${row.modelRequested}</a>${row.modelActual !== row.modelRequested && ` → ${row.modelActual ?? "–"}`}`],
        [t("Site"), html`<a href=${href("/sites", { q: row.siteName })}>${site(row)}</a>${row.channelId && ` (${t("channel {id}", { id: row.channelId })})`}`],
        [t("Because"), row.decisionReason],
        [t("Key"), row.downstreamKeyName ?? (row.downstreamApiKeyId ? `#${row.downstreamApiKeyId}` : t("the global token"))],
        [t("Client"), row.clientAppName ?? row.clientFamily],
      ]} />
      <${Pairs} of=${[
        [t("Tokens in / out"), `${number(row.promptTokens)} / ${number(row.completionTokens)}`],
        [t("From the cache"), number(row.cacheReadTokens)],
        [t("Counted by"), { upstream: t("the site"), "self-log": t("the site's own log") }[row.usageSource]],
        [t("First byte"), duration(row.firstByteLatencyMs)],
        [t("Took"), html`${duration(row.latencyMs)} ${row.isStream && html`<${Badge}>${t("streamed")}<//>`}`],
        [t("Status"), row.httpStatus],
      ]} /></div>
    ${row.status !== "success" && row.errorMessage && html`<pre tabindex="0" aria-label=${t("Error")}><bdi>${row.errorMessage}</bdi></pre>`}
    <h3>${t("Cost")}</h3><${Cost} row=${row} />`}<//>
  <h3>${t("Attempts")}</h3>
  <${Section} read=${attempts} class="plain">${(rows) => html`<${Table} label=${t("Attempts")} head=${[t("Time"), t("Site"), t("Status"), t("Took"), t("Error")]}
    rows=${rows.map((row) => [clock(row.createdAt), site(row), html`<${Status} row=${row} />`, duration(row.latencyMs), row.status === "success" ? "" : row.errorMessage])} />`}<//>
  <${Fold} label=${t("Trace")} open=${traces} onToggle=${() => setTraces(!traces)}><${Trace} row=${listed} /><//>`;
}
