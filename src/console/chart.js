// Small charts; each has a text that says what it shows.

import { html } from "./vendor/htm-preact.js";
import { t } from "./words.js";

export function Curve({ values, label }) {
  const most = Math.max(1e-9, ...values);
  const points = values.map((value, index) => `${index},${1 - value / most}`);
  return html`<svg class="curve" viewBox="0 0 ${values.length - 1} 1" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} /></svg>`;
}

function Bars({ bars, label }) {
  const most = Math.max(1e-9, ...bars.map(({ value }) => value));
  return html`<svg class="bars" viewBox="0 0 ${bars.length} 1" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${bars.map((bar, at) => html`<g key=${at}><title>${bar.label}</title><rect class="behind" x=${at} width="1" height="1" />
      <rect x=${at + 0.1} y=${1 - bar.value / most} width="0.8" height=${bar.value / most} /></g>`)}</svg>`;
}

export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const DAY = 86_400_000;

// The date of a moment, by default in the browser's time zone; the Swedish format is that of ISO 8601.
export const dateOf = (moment, timeZone) => new Date(moment).toLocaleDateString("sv", { timeZone });

// The `many` dates that end with `last`.
export const datesUntil = (last, many) => Array.from({ length: many }, (_, at) => {
  const date = new Date(Date.parse(last) - (many - 1 - at) * DAY);
  return date.toISOString().slice(0, 10);
});

// A chart of the days until `today`; `told` are the known `[date, value]`, other days are 0.
export function Days({ told, days, shown, today = dateOf(Date.now()) }) {
  const sums = new Map();
  for (const [date, value] of told) sums.set(date, (sums.get(date) ?? 0) + value);
  const all = datesUntil([today, ...sums.keys()].sort().at(-1), Number(days)).map((date) => ({ date, value: sums.get(date) ?? 0 }));
  const most = all.reduce((one, other) => (other.value > one.value ? other : one));
  const bars = all.map(({ date, value }) => ({ label: `${date}: ${shown(value)}`, value }));
  const words = { sum: shown(all.reduce((sum, { value }) => sum + value, 0)), date: most.date, most: shown(most.value) };
  return html`<p class="quiet">${t("{sum} in total; most on {date}: {most}", "合计 {sum}；最多在 {date}：{most}", words)}</p>
    <${Bars} bars=${bars} label=${bars.map((bar) => bar.label).join("; ")} />
    <p class="axis quiet"><span>${all[0].date}</span><span>${all.at(-1).date}</span></p>`;
}

export const Strip = ({ cells, label }) => html`
  <span class="strip" role="img" aria-label=${label}>${cells.map((cell, index) => html`<i class=${cell.kind} title=${cell.label} key=${index}></i>`)}</span>`;
