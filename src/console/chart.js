// Small pictures of numbers: a curve, bars, a strip of cells. Drawn as SVG; each says in words what it shows.

import { html } from "./vendor/htm-preact.js";

const WIDTH = 300;

export function Curve({ values, label, height = 32 }) {
  const most = Math.max(1e-9, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`);
  return html`<svg class="curve" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none" role="img" aria-label=${label}><polyline points=${points.join(" ")} /></svg>`;
}

// Bars side by side: `bars` are `{label, value}`.
export function Bars({ bars, label }) {
  const most = Math.max(1e-9, ...bars.map(({ value }) => value));
  return html`<svg class="bars" viewBox="0 0 ${bars.length} 1" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${bars.map((bar, at) => html`<g key=${at}><title>${bar.label}</title><rect class="behind" x=${at} width="1" height="1" />
      <rect x=${at + 0.1} y=${1 - bar.value / most} width="0.8" height=${bar.value / most} /></g>`)}</svg>`;
}

// A strip of cells, such as the last 24 hours: `cells` are `{kind, label}` with kind good, warn, bad or none.
export const Strip = ({ cells, label }) => html`
  <span class="strip" role="img" aria-label=${label}>${cells.map((cell, index) => html`<i class=${cell.kind} title=${cell.label} key=${index}></i>`)}</span>`;
