// The page Log: the requests of clients, live and past, and their costs.

import { go, href, useAddress } from "../address.js";
import { remove } from "../api.js";
import { Days, ZONE, dateOf } from "../chart.js";
import { useRead, useSettled, useStream } from "../data.js";
import { clock, duration, moment, money, number, price, short } from "../format.js";
import { List, Pages } from "../list.js";
import { Badge, Bar, Copyable, Field, Fold, Going, Newest, Pairs, Removal, Section, Table, Tabs, html, useMemo, useRef } from "../parts.js";
import { joined, t } from "../words.js";

// === costs and counts ===

const MOST = 50;

// A table of rows `{name, link, days, calls, spend, cacheReadTokens}`, the largest first. The name links to the requests, the
// bar to the days.
function Shares({ title, read, rowsOf, what, shown }) {
  return html`<${Section} title=${title} read=${read} isEmpty=${(value) => !rowsOf(value).length} empty=${t("No requests yet.")}>${(value) => {
    const all = rowsOf(value).sort((one, other) => other[what] - one[what]);
    const rows = all.slice(0, MOST);
    const most = Math.max(1e-9, rows[0]?.[what]);
    return html`<${Table} label=${title} head=${[t("Name"), t("Requests"), t("Cost"), t("From the cache"), t("Share", "占比")]} rows=${rows.map((row) => [html`<a href=${row.link}>${row.name}</a>`, number(row.calls), money(row.spend), short(row.cacheReadTokens),
      html`<a href=${row.days}><${Bar} value=${(row[what] / most) * 100} label=${`${row.name}: ${shown(row[what])}`} /></a>`])} />
      ${all.length > MOST && html`<p class="quiet">${t("{count} more", { count: all.length - MOST })}</p>`}`;
  }}<//>`;
}

const PERIODS = ["1", "7", "30", "90"];

function Sums() {
  const { path, query, setQuery } = useAddress();
  const { what = "spend", site = "", model = "", key = "" } = query;
  const days = PERIODS.includes(query.days) ? query.days : "7";
  const sites = useRead(`/api/stats/site-trend?days=${days}`, { every: 30 });
  const ofModel = useRead(model ? href("/api/stats/site-trend", { days, model }) : null, { every: 30 });
  const ofKey = useRead(key ? href(`/api/downstream-keys/${key}/trend`, { range: "all", timeZone: ZONE }) : null, { every: 30 });
  const models = useRead(href("/api/stats/model-by-site", { days, siteId: site }), { every: 30 });
  const range = { 1: "24h", 7: "7d" }[days] ?? "all";
  const keys = useRead(`/api/downstream-keys/summary?range=${range}`, { every: 30 });
  const settings = useRead("/api/settings/runtime");
  // The days of a key are those of the browser's time zone, all others those of the server's.
  const today = dateOf(Date.now(), key ? ZONE : settings.value?.serverTimeZone);
  const shown = what === "spend" ? money : number;
  const trend = model ? ofModel : sites;
  const bySite = new Map();
  for (const day of trend.value?.trend ?? []) for (const [id, one] of Object.entries(day.sitesById)) {
    const sum = bySite.get(id) ?? { name: one.siteName, calls: 0, spend: 0, cacheReadTokens: 0 };
    bySite.set(id, { ...sum, calls: sum.calls + one.calls, spend: sum.spend + one.spend, cacheReadTokens: sum.cacheReadTokens + (one.cacheReadTokens ?? 0) });
  }
  // The usage of a key cannot be split by site or model, so choosing a key clears these, and the other way round.
  const seen = (more) => ({ ...query, ...more, ...(more.key ? { site: "", model: "" } : "site" in more || "model" in more ? { key: "" } : {}) });
  const field = (name, label, value, choices) => html`<${Field} label=${label} value=${value} choices=${choices}
    onChange=${(chosen) => setQuery(seen({ [name]: chosen }))} />`;
  const all = (choices, chosen) => [["", t("All")], ...(chosen && !choices.some(([one]) => one === chosen) ? [[chosen, chosen]] : []), ...choices];
  const told = key ? ({ buckets }) => buckets.map((one) => [dateOf(one.startUtc), what === "spend" ? one.totalCost : one.totalRequests])
    : ({ trend }) => trend.flatMap(({ date, sitesById }) => Object.entries(sitesById).filter(([id]) => !site || id === site).map(([, one]) => [date, one[what]]));
  const row = (name, one, log, more) => ({ ...one, name, link: href("/log", log), days: href(path, seen(more)) });
  const common = { what, shown };
  return html`
    <div class="filters">
      ${field("days", t("Days", "天数"), days, PERIODS.map((some) => [some, some]))}
      ${field("what", t("Show"), what, [["spend", t("Cost")], ["calls", t("Requests")]])}
      ${field("site", t("Site"), site, all([...bySite].map(([id, one]) => [id, one.name]), site))}
      ${field("model", t("Model"), model, all((models.value?.models ?? []).slice(0, 500).map((one) => [one.model, one.model]), model))}
      ${field("key", t("Key"), key, all((keys.value?.items ?? []).slice(0, 500).map((one) => [String(one.id), one.name]), key))}
    </div>
    <${Section} title=${t("By day", "按天")} read=${key ? ofKey : trend} isEmpty=${(value) => !told(value).length} empty=${t("No requests in this time.", "这段时间没有请求。")}>
      ${(value) => html`<${Days} told=${told(value)} days=${days} shown=${shown} today=${today} />`}<//>
    <div class="columns">
      ${!key && html`<${Shares} title=${t("By site", "按站点")} read=${trend} rowsOf=${() => [...bySite].filter(([id]) => !site || id === site).map(([id, one]) => row(one.name, one, { site: id }, { site: id }))} ...${common} />
      <${Shares} title=${t("By model", "按模型")} read=${models} rowsOf=${(value) => value.models.filter((one) => !model || one.model === model).map((one) => row(one.model, one, { search: one.model }, { model: one.model }))} ...${common} />`}
      ${!site && !model && !key && html`<${Shares} title=${`${t("By key", "按密钥")} (${{ "24h": t("24 hours"), "7d": t("7 days"), all: t("All") }[range]})`} read=${keys} ...${common}
        rowsOf=${(value) => value.items.map((one) => row(one.name, { ...one.rangeUsage, calls: one.rangeUsage.totalRequests, spend: one.rangeUsage.totalCost }, { search: one.name }, { key: String(one.id) }))} />`}
    </div>
    <p class="hint">${t("Requests with PROXY_TOKEN belong to no key.", "使用 PROXY_TOKEN 的请求不属于任何密钥。")}</p>`;
}

// === a row opened ===

function Status({ row }) {
  const [kind, word] = { success: ["good", t("Good")], retried: ["warn", t("Tried again", "已重试")] }[row.status] ?? ["bad", t("Failed")];
  return html`<${Badge} kind=${kind}>${word}${row.status !== "success" && row.httpStatus ? ` ${row.httpStatus}` : ""}<//>`;
}

const keyOf = (row) => row.downstreamKeyName ?? (row.downstreamApiKeyId ? `#${row.downstreamApiKeyId}` : null);

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

function Cost({ row }) {
  if (!row.billingDetails) return html`<p>${price(row.estimatedCost)} <span class="quiet">${t("Charged per call, or estimated: no breakdown is recorded.", "按次计费或估算：没有明细。")}</span></p>`;
  const { usage, breakdown: by } = row.billingDetails;
  const parts = [[t("In", "输入"), usage.billablePromptTokens, by.inputPerMillion, by.inputCost], [t("From the cache"), usage.cacheReadTokens, by.cacheReadPerMillion, by.cacheReadCost],
    [t("Into the cache"), usage.cacheCreationTokens, by.cacheCreationPerMillion, by.cacheCreationCost], [t("Out", "输出"), usage.completionTokens, by.outputPerMillion, by.outputCost]];
  return html`<${Table} label=${t("Cost")} head=${["", t("Tokens"), t("Per million", "每百万"), t("Cost")]}
    rows=${[...parts, [t("Sum", "合计"), usage.totalTokens, null, by.totalCost]].map(([name, tokens, each, cost]) => [name, number(tokens), each === null ? "" : price(each), price(cost)])} />`;
}

// What was recorded, by the names of the API: first what is short, then documents and texts.
function Recorded({ of }) {
  const known = Object.entries(of).filter(([, value]) => value !== null && value !== "");
  const isLong = ([name]) => /Json$|Text$|Reason$|Url$/.test(name);
  return html`<${Pairs} of=${known.filter((one) => !isLong(one)).map(([name, value]) => [name, html`<span class="mono">${String(value)}</span>`])} />
    ${known.filter(isLong).map(([name, text]) => html`<p class="quiet mono">${name}</p><${Copyable} label=${name} text=${pretty(text)} />`)}`;
}

const NoTrace = () => html`<a href="/settings?tab=traces">${t("No trace was recorded: see the settings.", "没有跟踪记录：见设置。")}</a>`;

function Trace({ id }) {
  const read = useRead(id && `/api/stats/proxy-debug/traces/${id}`);
  if (!id) return NoTrace();
  return html`<${Section} read=${read} class="plain">
    ${({ trace, attempts }) => html`<${Recorded} of=${trace} />
      ${attempts.map((one) => html`<h3>${t("Attempt {number}", "第 {number} 次尝试", { number: one.attemptIndex + 1 })} <${Badge}>${one.responseStatus ?? "–"}<//></h3><${Recorded} of=${one} />`)}`}<//>`;
}

const MOST_TRACES = 100;

function Traces() {
  const read = useRead(`/api/stats/proxy-debug/traces?limit=${MOST_TRACES}`, { every: 15 });
  const columns = [
    [t("Time"), (row) => html`<span class="number">${moment(row.createdAt)}</span>`],
    [t("Model"), (row) => row.requestedModel ?? "–"],
    [t("Status"), (row) => html`<${Badge} kind=${row.finalStatus === "success" ? "good" : "bad"}>${row.finalHttpStatus ?? row.finalStatus ?? "–"}<//>`],
    [t("Client"), (row) => row.clientKind ?? "–", "less"],
    [t("Path", "路径"), (row) => html`<span class="mono">${row.downstreamPath}</span>`, "less"],
  ];
  return html`<${Section} title=${t("Traces")} read=${read} empty=${NoTrace()}>${({ items }) => html`
    <${List} label=${t("Traces")} rows=${items} columns=${columns} detail=${({ id }) => html`<${Trace} key=${id} id=${id} />`} />
    <${Newest} rows=${items} most=${MOST_TRACES} />`}<//>`;
}

function LogDetail({ id }) {
  const read = useRead(`/api/stats/proxy-logs/${id}`);
  const site = (row) => joined(row.siteName ?? "–", row.username);
  return html`<${Section} read=${read} class="plain">${(row) => html`
    <div class="columns">
      <${Pairs} of=${[
        [t("Request"), html`<span class="mono">${row.requestId ?? "–"}</span>`],
        [t("Time"), moment(row.createdAt)],
        [t("Model"), html`<a href=${href("/routes", { open: row.routeId })}>${row.modelRequested}</a>${row.modelActual !== row.modelRequested && ` → ${row.modelActual ?? "–"}`}`],
        [t("Site"), html`<a href=${href("/sites", { q: row.siteName })}>${site(row)}</a>${row.channelId && ` (${t("channel {id}", { id: row.channelId })})`}`],
        [t("Reason", "原因"), row.decisionReason],
        [t("Key"), keyOf(row) ?? t("the global token", "全局令牌")],
        [t("Client"), row.clientAppName ?? row.clientFamily],
      ]} />
      <${Pairs} of=${[
        [t("Tokens in / out"), `${number(row.promptTokens)} / ${number(row.completionTokens)}`],
        [t("From the cache"), number(row.cacheReadTokens)],
        [t("Into the cache"), number(row.cacheCreationTokens)],
        [t("Counted by", "计数来源"), { upstream: t("Site"), "self-log": t("the site's own log", "站点自己的日志") }[row.usageSource]],
        [t("First byte", "首字节"), duration(row.firstByteLatencyMs)],
        [t("Took"), html`${duration(row.latencyMs)} ${row.isStream && html`<${Badge}>${t("streamed", "流式")}<//>`}`],
        [t("Status"), row.httpStatus],
      ]} /></div>
    ${row.status !== "success" && row.errorMessage && html`<pre tabindex="0" aria-label=${t("Error")}><bdi>${row.errorMessage}</bdi></pre>`}
    <h3>${t("Cost")}</h3><${Cost} row=${row} />
    <h3>${t("Attempts")}</h3>
    <${Table} label=${t("Attempts")} head=${[t("Time"), t("Site"), t("Status"), t("Took"), t("Error")]}
      rows=${row.attempts.map((one) => [clock(one.createdAt), site(one), html`<${Status} row=${one} />`, duration(one.latencyMs), one.status === "success" ? "" : one.errorMessage])} />
    <${Fold} label=${t("Traces")}><${Trace} id=${row.traceId} /><//>`}<//>`;
}

// === the page ===

const PAGE = 50;
// Converts the value of a `datetime-local` field, which is in the browser's time zone, to UTC for the server.
const instant = (local) => { const at = new Date(local); return local && !Number.isNaN(at.getTime()) ? at.toISOString() : ""; };

const columns = (newest) => [
  [t("Time"), (row) => html`<span title=${moment(row.createdAt)} class="number">${new Date(row.createdAt).toDateString() === new Date().toDateString()
    ? clock(row.createdAt) : moment(row.createdAt)}</span>${row.id > newest && html` <${Badge} kind="good">${t("new")}<//>`}`],
  [t("Model"), (row) => row.modelRequested ?? "–"],
  [t("Status"), (row) => html`<${Status} row=${row} />`],
  [t("Site"), (row) => html`<bdi>${row.siteName ?? "–"}</bdi>${row.username && html` <bdi class="quiet">${row.username}</bdi>`}`, "less"],
  [t("Key"), (row) => keyOf(row) ?? "–", "less"],
  [t("Tokens in / out"), (row) => `${short(row.promptTokens)} / ${short(row.completionTokens)}`, "less end"],
  [t("Took"), (row) => duration(row.latencyMs), "less end"],
  [t("Cost"), (row) => price(row.estimatedCost), "less end"],
];

// The id of the newest row when the live view began.
function useNewest(items, isLive) {
  const newest = useRef(null);
  newest.current = isLive ? newest.current ?? items?.reduce((most, { id }) => Math.max(most, id), 0) : null;
  return newest.current ?? Infinity;
}

function Rows() {
  const { path, query, setQuery } = useAddress();
  const { live, open = "" } = query;
  const page = /^[1-9]\d{0,8}$/.test(query.page) ? Number(query.page) : 1;
  const isLive = live === "1" && page === 1;
  // Changing a filter goes back to the first page.
  const field = (name, label, more) => html`<${Field} label=${label} value=${query[name] ?? ""} ...${more}
    onChange=${(value) => setQuery({ [name]: value, page: "", open: "" })} />`;
  const all = (options) => ({ choices: [["", t("All")], ...options] });
  const search = useSettled(query.search ?? "");
  const asked = { status: query.status, search, client: query.client, siteId: query.site, from: instant(query.from), to: instant(query.to) };
  const follows = isLive && !open;
  const isHeard = useStream(follows ? "/api/stats/live" : null, () => read.reload());
  const read = useRead(href("/api/stats/proxy-logs", { ...asked, view: "query", limit: PAGE, offset: (page - 1) * PAGE }), { every: follows && !isHeard ? 2 : 0, keeps: true });
  const meta = useRead(href("/api/stats/proxy-logs", { ...asked, view: "meta" }), { every: isLive ? 15 : 60, keeps: true });
  const newest = useNewest(read.value?.items, isLive);
  const shape = useMemo(() => columns(newest), [newest, t("Time")]);
  const sums = meta.value?.summary;
  const isFiltered = Object.values(asked).some(Boolean);
  const reload = () => { read.reload(); meta.reload(); };
  return html`
    <${Section} title=${t("Requests")} read=${read} also=${[meta]} actions=${html`
      <${Field} kind="switch" label=${t("Live", "实时")} value=${live === "1"} onChange=${(is) => setQuery({ live: is ? "1" : "", page: "" })} />
      <button onClick=${reload}>${t("Read again")}</button>
      <${Removal} label=${t("Clear the log", "清空日志")} name=${t("All requests in the log", "日志中的所有请求")} phrase=${t("clear", "清空")} after=${reload}
        consequence=${t("The totals of sites and models stay; the details of each request are deleted.", "站点和模型的汇总会保留，每个请求的内容不会。")} act=${() => remove("/api/stats/proxy-logs")} />`}>
      ${(value) => html`
        <div class="filters many" role="search">
          ${field("search", t("Search"), { kind: "search", placeholder: t("Model or key", "模型或密钥") })}
          ${field("status", t("Status"), all([["success", t("Good")], ["failed", t("Failed")]]))}
          ${field("site", t("Site"), all((meta.value?.sites ?? []).map((site) => [String(site.id), site.name])))}
          ${field("client", t("Client"), all((meta.value?.clientOptions ?? []).map((one) => [one.value, one.label])))}
          ${field("from", t("From", "从"), { kind: "datetime-local" })}${field("to", t("Until", "到"), { kind: "datetime-local" })}
          ${isFiltered && html`<${Going} class="quiet" onClick=${() => go(path, { live }, { replace: true })}>${t("No filter", "清除筛选")}<//>`}
        </div>
        ${sums && html`<p class="quiet" role="status">${t("{total} attempts, {failed} failed; {tokens} tokens, {cost}", "{total} 次尝试，失败 {failed}；{tokens} 令牌，{cost}", { total: number(sums.totalCount),
          failed: number(sums.failedCount), tokens: short(sums.totalTokensAll), cost: money(sums.totalCost) })}
          ${live === "1" && open && html` <${Badge} kind="warn">${t("paused while a row is open", "展开时暂停")}<//>`}</p>`}
        <${List} label=${t("Requests")} rows=${value.items} columns=${shape}
          empty=${value.total > 0 ? t("The list ends before this page.", "列表没有这一页。") : isFiltered ? t("Nothing matches the filter.") : t("No requests yet.")} detail=${(row) => html`<${LogDetail} key=${row.id} id=${row.id} />`} />
        <${Pages} page=${page} pageSize=${PAGE} total=${value.total} onChange=${(next) => go(path, { ...query, page: next === 1 ? "" : next, open: "" })} />`}
    <//>`;
}

export function Page() {
  const { query: { tab = "" }, setQuery } = useAddress();
  return html`
    <${Tabs} label=${t("Log")} value=${tab} onChange=${(name) => setQuery({ tab: name, open: "" })}
      items=${[["", t("Requests")], ["sums", t("Costs and counts")], ["traces", t("Traces")]]} />
    <${{ sums: Sums, traces: Traces }[tab] ?? Rows} />`;
}
