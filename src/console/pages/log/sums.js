// Costs and counts: over days for a site, and by site, model and key.

import { href, useFilter } from "../../address.js";
import { Bars } from "../../chart.js";
import { useRead } from "../../data.js";
import { money, number } from "../../format.js";
import { Bar, Field, Section, Table, html } from "../../parts.js";
import { t } from "../../words.js";

const DAY = 86_400_000;
const total = (list) => list.reduce((sum, one) => sum + one, 0);

// Rows `{name, link, calls, spend}`, those with the most first, each with its share as a bar.
function Shares({ title, read, rowsOf, what, shown }) {
  return html`<${Section} title=${title} read=${read} isEmpty=${(value) => !rowsOf(value).length} empty=${t("No requests yet.")}>${(value) => {
    const rows = rowsOf(value).sort((one, other) => other[what] - one[what]).slice(0, 50);
    const most = Math.max(1e-9, rows[0]?.[what]);
    return html`<${Table} label=${title} head=${[t("Name"), t("Requests"), t("Cost"), t("Share")]} rows=${rows.map((row) => [html`<a href=${row.link}>${row.name}</a>`, number(row.calls), money(row.spend),
      html`<${Bar} value=${(row[what] / most) * 100} label=${`${row.name}: ${shown(row[what])}`} />`])} />`;
  }}<//>`;
}

export function Sums() {
  const [days, setDays] = useFilter("days", "7");
  const [what, setWhat] = useFilter("what", "spend");
  const [site, setSite] = useFilter("site");
  const trend = useRead(`/api/stats/site-trend?days=${days}`, { every: 30 });
  const models = useRead(href("/api/stats/model-by-site", { days, siteId: site }), { every: 30 });
  const range = { 1: "24h", 7: "7d" }[days] ?? "all";
  const keys = useRead(`/api/downstream-keys/summary?range=${range}`, { every: 30 });
  const shown = what === "spend" ? money : number;
  const sites = new Map();
  for (const day of trend.value?.trend ?? []) for (const [id, one] of Object.entries(day.sitesById)) {
    const sum = sites.get(id) ?? { name: one.siteName, calls: 0, spend: 0, link: href("/log", { site: id }) };
    sites.set(id, { ...sum, calls: sum.calls + one.calls, spend: sum.spend + one.spend });
  }
  // One bar a day, days without requests included.
  const bars = (list) => {
    const at = new Map(list.map((day) => [day.date, Object.entries(day.sitesById).filter(([id]) => !site || id === site).map(([, one]) => one[what])]));
    const end = Date.parse(list.at(-1).date);
    return Array.from({ length: Number(days) }, (_, index) => new Date(end - (days - 1 - index) * DAY).toISOString().slice(0, 10))
      .map((date) => ({ date, value: total(at.get(date) ?? []) })).map(({ date, value }) => ({ label: `${date}: ${shown(value)}`, parts: [{ value }] }));
  };
  const common = { what, shown };
  return html`
    <div class="filters">
      <${Field} kind="select" label=${t("Days")} value=${days} onChange=${setDays} choices=${["1", "7", "30", "90"].map((some) => [some, some])} />
      <${Field} kind="select" label=${t("Show")} value=${what} onChange=${setWhat} choices=${[["spend", t("Cost")], ["calls", t("Requests")]]} />
      <${Field} kind="select" label=${t("Site")} value=${site} onChange=${setSite} choices=${[["", t("All")], ...[...sites].map(([id, one]) => [id, one.name])]} />
    </div>
    <${Section} title=${t("By day")} read=${trend} isEmpty=${(value) => !value.trend.length} empty=${t("No requests yet.")}>${({ trend: list }) => {
      const drawn = bars(list);
      return html`<${Bars} bars=${drawn} label=${drawn.map((bar) => bar.label).join("; ")} /><p class="axis quiet"><span>${drawn[0].label}</span><span>${drawn.at(-1).label}</span></p>`;
    }}<//>
    <div class="columns">
      <${Shares} title=${t("By site")} read=${trend} rowsOf=${() => [...sites.values()]} ...${common} />
      <${Shares} title=${t("By model")} read=${models} rowsOf=${(value) => value.models.map((one) => ({ ...one, name: one.model, link: href("/log", { search: one.model }) }))} ...${common} />
      <${Shares} title=${`${t("By key")} (${{ "24h": t("24 hours"), "7d": t("7 days"), all: t("ever") }[range]})`} read=${keys} ...${common} rowsOf=${(value) => value.items.map((one) => ({ name: one.name,
        calls: one.rangeUsage.totalRequests, spend: one.rangeUsage.totalCost, link: href("/log", { search: one.name }) }))} />
    </div>`;
}
