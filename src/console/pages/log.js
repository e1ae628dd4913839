// The page Log: what clients asked, live and past, and what it cost.

import { useEffect, useMemo, useRef } from "../vendor/htm-preact.js";
import { go, href, useAddress, useFilter } from "../address.js";
import { remove } from "../api.js";
import { useRead, useSettled } from "../data.js";
import { clock, duration, moment, money, number, short } from "../format.js";
import { List, Pages } from "../list.js";
import { Badge, Field, Removal, Section, Tabs, html } from "../parts.js";
import { t } from "../words.js";
import { LogDetail, Status } from "./log/detail.js";
import { Sums } from "./log/sums.js";

const PAGE = 50;
const LIVE_SECONDS = 5;
// A field of the form `datetime-local` is in the browser's time zone; the server takes a moment.
const instant = (local) => { const at = new Date(local); return local && !Number.isNaN(at.getTime()) ? at.toISOString() : ""; };

const columns = (newest) => [
  { name: "time", label: t("Time"), cell: (row) => html`<span title=${moment(row.createdAt)} class="number">${new Date(row.createdAt).toDateString() === new Date().toDateString()
    ? clock(row.createdAt) : moment(row.createdAt)}</span>${row.id > newest && html` <${Badge} kind="good">${t("new")}<//>`}` },
  { name: "model", label: t("Model"), cell: (row) => html`<bdi>${row.modelRequested ?? "–"}</bdi>` },
  { name: "status", label: t("Status"), cell: (row) => html`<${Status} row=${row} />` },
  { name: "site", label: t("Site"), class: "less", cell: (row) => html`<bdi>${row.siteName ?? "–"}</bdi>${row.username && html` <bdi class="quiet">${row.username}</bdi>`}` },
  { name: "key", label: t("Key"), class: "less", cell: (row) => html`<bdi>${row.downstreamKeyName ?? (row.downstreamApiKeyId ? `#${row.downstreamApiKeyId}` : "–")}</bdi>` },
  { name: "tokens", label: t("Tokens in / out"), class: "less end", cell: (row) => `${short(row.promptTokens)} / ${short(row.completionTokens)}` },
  { name: "took", label: t("Took"), class: "less end", cell: (row) => duration(row.latencyMs) },
  { name: "cost", label: t("Cost"), class: "less end", cell: (row) => money(row.estimatedCost) },
];

// What is shown while a page or a filter is on its way: the rows before it, so that the list does not jump.
function useKept(read) {
  const kept = useRef(undefined);
  if (read.value !== undefined) kept.current = read.value;
  return read.failure || read.value !== undefined ? read : { ...read, value: kept.current };
}

// The number of the newest row that was there when one began to look.
function useNewest(items, isLive) {
  const newest = useRef(null);
  useEffect(() => { if (!isLive) newest.current = null; }, [isLive]);
  if (isLive && newest.current === null && items) newest.current = Math.max(0, ...items.map((row) => row.id));
  return isLive && newest.current !== null ? newest.current : Infinity;
}

function Rows() {
  const { path, query } = useAddress();
  const { live, open = "" } = query;
  const page = Math.max(1, Number(query.page) || 1);
  const isLive = live === "1" && page === 1;
  // Another filter begins at the first page.
  const field = (name, label, more) => html`<${Field} label=${label} value=${query[name] ?? ""} ...${more}
    onChange=${(value) => go(path, { ...query, [name]: value, page: "", open: "" }, { replace: true })} />`;
  const all = (options) => ({ kind: "select", choices: [["", t("All")], ...options] });
  // What is typed is asked for once typing pauses.
  const search = useSettled(query.search ?? "");
  const asked = { status: query.status, search, client: query.client, siteId: query.site, from: instant(query.from), to: instant(query.to) };
  const read = useKept(useRead(href("/api/stats/proxy-logs", { ...asked, view: "query", limit: PAGE, offset: (page - 1) * PAGE }), { every: isLive && !open ? LIVE_SECONDS : 0 }));
  const meta = useKept(useRead(href("/api/stats/proxy-logs", { ...asked, view: "meta" }), { every: isLive ? 15 : 60 }));
  const newest = useNewest(read.value?.items, isLive);
  const shape = useMemo(() => columns(newest), [newest, t("Time")]);
  const sums = meta.value?.summary;
  const isFiltered = Object.values(asked).some(Boolean);
  const reload = () => { read.reload(); meta.reload(); };
  return html`
    <${Section} title=${t("Requests")} read=${read} actions=${html`
      <${Field} kind="switch" label=${t("Live")} value=${live === "1"} onChange=${(is) => go(path, { ...query, live: is ? "1" : "", page: "" }, { replace: true })} />
      <button onClick=${reload}>${t("Read again")}</button>
      <${Removal} label=${t("Clear the log")} title=${t("Clear the log")} name=${t("All requests in the log")} phrase=${t("clear")} after=${reload}
        consequence=${t("The sums of sites and models stay; what each request was does not.")} act=${() => remove("/api/stats/proxy-logs")} />`}>
      ${(value) => html`
        <div class="filters many" role="search">
          ${field("search", t("Search"), { kind: "search", placeholder: t("Model or key") })}
          ${field("status", t("Status"), all([["success", t("Good")], ["failed", t("Failed")]]))}
          ${field("site", t("Site"), all((meta.value?.sites ?? []).map((site) => [String(site.id), site.name])))}
          ${field("client", t("Client"), all((meta.value?.clientOptions ?? []).map((one) => [one.value, one.label])))}
          ${field("from", t("From"), { kind: "datetime-local" })}${field("to", t("Until"), { kind: "datetime-local" })}
          ${isFiltered && html`<button class="quiet" onClick=${() => go(path, { live }, { replace: true })}>${t("No filter")}</button>`}
        </div>
        ${sums && html`<p class="quiet" role="status">${t("{total} requests, {failed} failed; {tokens} tokens, {cost}", { total: number(sums.totalCount),
          failed: number(sums.failedCount), tokens: short(sums.totalTokensAll), cost: money(sums.totalCost) })}
          ${live === "1" && open && html` <${Badge} kind="warn">${t("paused while a row is open")}<//>`}</p>`}
        ${value.items.length ? html`<${List} label=${t("Requests")} rows=${value.items} columns=${shape} keyOf=${(row) => String(row.id)} opened=${open || null}
          onOpen=${(key) => go(path, { ...query, open: key ?? "" }, { replace: true })} detail=${(row) => html`<${LogDetail} key=${row.id} row=${row} />`} />`
          : html`<div class="empty">${isFiltered ? t("Nothing matches the filter.") : t("No requests yet.")}</div>`}
        <${Pages} page=${page} pageSize=${PAGE} total=${value.total} onChange=${(next) => go(path, { ...query, page: next === 1 ? "" : next, open: "" })} />`}
    <//>`;
}

export function Log() {
  const [tab, setTab] = useFilter("tab");
  return html`
    <${Tabs} label=${t("Log")} value=${tab} onChange=${setTab} items=${[["", t("Requests")], ["sums", t("Costs and counts")]]} />
    ${tab === "sums" ? html`<${Sums} />` : html`<${Rows} />`}`;
}
