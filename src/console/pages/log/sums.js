// Costs and counts over days, by site, by model and by key.

import { href, useFilter } from "../../address.js";
import { Bars } from "../../chart.js";
import { useRead } from "../../data.js";
import { money, number, short } from "../../format.js";
import { Bar, Field, Section, html } from "../../parts.js";
import { t } from "../../words.js";

const KINDS = ["", "second", "third", "rest"];

// One entry a day, days without requests included; `sitesById` of each.
function everyDay(trend, days) {
  const known = new Map(trend.map((day) => [day.date, day.sitesById]));
  const last = trend.at(-1)?.date;
  if (!last) return [];
  const end = Math.max(new Date(`${last}T00:00:00Z`), 0);
  return Array.from({ length: days }, (_, index) => new Date(end - (days - 1 - index) * 86_400_000).toISOString().slice(0, 10))
    .map((date) => ({ date, sites: known.get(date) ?? {} }));
}

function ranked(entries, of) {
  const most = Math.max(1e-9, ...entries.map(of));
  return entries.sort((one, other) => of(other) - of(one)).map((entry) => ({ ...entry, share: (of(entry) / most) * 100 }));
}

const Table = ({ name, rows, of, shown, mark }) => html`<div class="scrolls" tabindex="0" role="region" aria-label=${name}><table>
  <thead><tr><th>${name}</th><th class="end">${t("Requests")}</th><th class="end">${t("Cost")}</th><th>${t("Share")}</th></tr></thead>
  <tbody>${ranked(rows, of).slice(0, 50).map((row, index) => html`<tr key=${row.key}><td>${mark && html`<i class="mark ${KINDS[Math.min(index, 3)]}"></i> `}<a href=${row.link}><bdi>${row.name}</bdi></a></td>
    <td class="end">${number(row.calls)}</td><td class="end">${money(row.spend)}</td><td><${Bar} value=${row.share} label=${`${row.name}: ${shown(of(row))}`} /></td></tr>`)}</tbody></table></div>`;

export function Sums() {
  const [days, setDays] = useFilter("days", "7");
  const [what, setWhat] = useFilter("what", "spend");
  const [site, setSite] = useFilter("site");
  const trend = useRead(`/api/stats/site-trend?days=${days}`, { every: 30 });
  const models = useRead(href("/api/stats/model-by-site", { days, siteId: site }), { every: 30 });
  const range = days === "1" ? "24h" : days === "7" ? "7d" : "all";
  const keys = useRead(`/api/downstream-keys/summary?range=${range}`, { every: 30 });
  const of = (entry) => entry[what];
  const shown = (value) => (what === "spend" ? money(value) : number(value));
  const total = (list) => list.reduce((sum, one) => sum + one, 0);
  return html`
    <div class="filters">
      <${Field} kind="select" label=${t("Time")} value=${days} onChange=${setDays} choices=${[["1", t("Today")], ["7", t("7 days")], ["30", t("30 days")], ["90", t("90 days")]]} />
      <${Field} kind="select" label=${t("Show")} value=${what} onChange=${setWhat} choices=${[["spend", t("Cost")], ["calls", t("Requests")]]} />
    </div>
    <${Section} title=${t("By day and site")} read=${trend} isEmpty=${(value) => !value.trend.length} empty=${t("No requests in this time.")}>
      ${({ trend: list }) => {
        const sites = new Map();
        for (const day of list) for (const [id, one] of Object.entries(day.sitesById)) {
          const sum = sites.get(id) ?? { key: id, name: one.siteName, calls: 0, spend: 0, link: href("/log", { site: id }) };
          sum.calls += one.calls; sum.spend += one.spend;
          sites.set(id, sum);
        }
        const order = ranked([...sites.values()], of).map((one) => one.key);
        const bars = everyDay(list, Number(days)).map(({ date, sites: on }) => ({
          label: `${date}: ${shown(total(Object.values(on).map(of)))}`,
          parts: KINDS.map((kind, index) => ({ kind, value: total(order.filter((_, at) => Math.min(at, 3) === index).map((id) => of(on[id] ?? { spend: 0, calls: 0 }))) })),
        }));
        const all = total([...sites.values()].map(of));
        return html`<${Bars} bars=${bars} label=${t("{what} by day: {all} together", { what: what === "spend" ? t("Cost") : t("Requests"), all: shown(all) })} />
          <p class="axis quiet"><span>${bars[0].label}</span><span>${bars.at(-1).label}</span></p>
          <${Table} name=${t("Site")} rows=${[...sites.values()]} of=${of} shown=${shown} mark />`;
      }}
    <//>
    <div class="columns">
      <${Section} title=${t("By model")} read=${models} isEmpty=${(value) => !value.models.length} empty=${t("No requests in this time.")}
        actions=${trend.value && html`<select aria-label=${t("Site")} value=${site} onChange=${(event) => setSite(event.target.value)}><option value="">${t("All sites")}</option>
          ${[...new Map(trend.value.trend.flatMap((day) => Object.entries(day.sitesById))).entries()].map(([id, one]) => html`<option value=${id}>${one.siteName}</option>`)}</select>`}>
        ${(value) => html`<${Table} name=${t("Model")} of=${of} shown=${shown} rows=${value.models.map((one) => ({ ...one, key: one.model, name: one.model, link: href("/log", { search: one.model }) }))} />
          <p class="quiet">${t("{tokens} tokens", { tokens: short(total(value.models.map((one) => one.tokens))) })}</p>`}<//>
      <${Section} title=${t("By key")} read=${keys} isEmpty=${(value) => !value.items.length} empty=${t("No keys yet.")}>
        ${(value) => html`<${Table} name=${t("Key")} of=${of} shown=${shown} rows=${value.items.map((one) => ({ key: one.id, name: one.name, calls: one.rangeUsage.totalRequests,
          spend: one.rangeUsage.totalCost, link: href("/log", { search: one.name }) }))} />
          <p class="quiet">${{ "24h": t("The last 24 hours."), "7d": t("The last 7 days."), all: t("Since each key was made.") }[range]}</p>`}<//>
    </div>`;
}
