// The limits of a key at each moment and by period: as fields, as what is sent, and as what is shown of them.

import { money, number } from "../../format.js";
import { Bar, Field, Time, html } from "../../parts.js";
import { t } from "../../words.js";

const MOST_BUDGETS = 8;
const PERIODS = () => [["5h", t("Five hours")], ["day", t("Day")], ["week", t("Week")], ["month", t("Month")], ["total", t("In all")]];

const text = (value) => (value === null ? "" : String(value));
const orNull = (typed) => typed.trim() || null;
const listed = (mark) => (typed) => typed.split(mark).map((part) => part.trim()).filter(Boolean);
const models = listed(/[,，\n]/);

const shownBudget = ({ period, maxCost, maxRequests, maxTokens, models: named }) => ({ period, maxCost: text(maxCost), maxRequests: text(maxRequests),
  maxTokens: text(maxTokens), models: (named ?? []).join(", ") });
const sentBudget = ({ period, maxCost, maxRequests, maxTokens, models: named }) => ({ period, maxCost: orNull(maxCost), maxRequests: orNull(maxRequests),
  maxTokens: orNull(maxTokens), models: models(named) });

// For each member of a key: how it is shown, and how what is shown is sent.
export const LIMITS = {
  maxConcurrency: [text, orNull], requestsPerMinute: [text, orNull], tokensPerMinute: [text, orNull],
  allowedIps: [(addresses) => (addresses ?? []).join("\n"), listed(/[,\n]/)],
  budgets: [(budgets) => (budgets ?? []).map(shownBudget), (rows) => rows.map(sentBudget)],
};
export const UNLIMITED = { maxConcurrency: null, requestsPerMinute: null, tokensPerMinute: null, allowedIps: null, budgets: null };

function Budgets({ rows, onChange }) {
  const change = (at, more) => onChange(rows.map((row, index) => (index === at ? { ...row, ...more } : row)));
  const add = () => onChange([...rows, { period: "month", maxCost: "", maxRequests: "", maxTokens: "", models: "" }]);
  return html`
    ${rows.map((row, at) => {
      const field = (name) => ({ value: row[name], onChange: (value) => change(at, { [name]: value }) });
      return html`<fieldset key=${at}><legend>${t("Budget {number}", { number: at + 1 })}</legend>
        <div class="columns">
          <${Field} kind="select" label=${t("Period")} choices=${PERIODS()} ...${field("period")} />
          <${Field} label=${t("Cost of the period, USD")} inputmode="decimal" ...${field("maxCost")} />
          <${Field} label=${t("Requests of the period")} inputmode="numeric" ...${field("maxRequests")} />
          <${Field} label=${t("Tokens of the period")} inputmode="numeric" ...${field("maxTokens")} />
          <${Field} label=${t("Models counted")} hint=${t("Names and patterns with commas between them. Empty is every model.")} ...${field("models")} />
        </div>
        <button type="button" class="quiet" onClick=${() => onChange(rows.filter((_, index) => index !== at))}>${t("Remove budget {number}", { number: at + 1 })}</button>
      </fieldset>`;
    })}
    ${rows.length < MOST_BUDGETS && html`<button type="button" onClick=${add}>${t("Add a budget")}</button>`}`;
}

export const Limits = ({ draft, set, field }) => html`
  <div class="columns">
    <${Field} label=${t("Calls at once")} inputmode="numeric" ...${field("maxConcurrency")} />
    <${Field} label=${t("Requests a minute")} inputmode="numeric" ...${field("requestsPerMinute")} />
    <${Field} label=${t("Tokens a minute")} inputmode="numeric" ...${field("tokensPerMinute")} />
  </div>
  <${Field} kind="area" label=${t("Addresses")} hint=${t("One a line, such as 192.0.2.7 or 10.0.0.0/8. Empty is from everywhere.")} ...${field("allowedIps")} />
  <${Budgets} rows=${draft.budgets} onChange=${(budgets) => set({ budgets })} />`;

// The budgets of a key with how much of each is used.
export function BudgetsUsed({ budgets }) {
  const names = Object.fromEntries(PERIODS());
  const bounds = ({ maxCost, maxRequests, maxTokens, used }) => [[t("Cost"), used.cost, maxCost, money], [t("Requests"), used.requests, maxRequests, number],
    [t("Tokens"), used.tokens, maxTokens, number]].filter(([, , most]) => most !== null);
  return html`<ul>${budgets.map((budget, at) => html`<li key=${at}>
    <strong>${names[budget.period] ?? budget.period}</strong>${budget.models && html` <bdi class="quiet">${budget.models.join(", ")}</bdi>`}
    ${bounds(budget).map(([label, used, most, show]) => {
      const part = most === 0 ? 100 : (used / most) * 100;
      const words = t("{used} of {most}", { used: show(used), most: show(most) });
      return html`<span class="bound number" key=${label}>${label}: ${words}<${Bar} value=${part} label=${`${names[budget.period]}, ${label}: ${words}`}
        kind=${part >= 100 ? "bad" : part >= 80 ? "warn" : ""} /></span>`;
    })}
    ${budget.resetsAt && html`<span class="quiet">${t("Resets")} <${Time} at=${budget.resetsAt} plain /></span>`}
  </li>`)}</ul>`;
}
