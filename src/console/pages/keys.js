// The page Keys: the keys that clients authenticate with, and how to connect a client.

import { href, useAddress, useFilter } from "../address.js";
import { Failure, get, post, put, remove } from "../api.js";
import { Days, ZONE, dateOf } from "../chart.js";
import { useRead } from "../data.js";
import { ago, money, number, short } from "../format.js";
import { List } from "../list.js";
import {
  Badge, Batch, Bound, Copyable, Dialog, Filter, Fold, Form, Going, InDialog, Note, Opens, Pairs, Pick, Removal, Reveal, Section, Switch, Table, Tabs, Time, fieldsOf, html,
  merged, newKey, partsOf, useDraft, useMemo, useState, useMarks
} from "../parts.js";
import { count, joined, t } from "../words.js";
import { Connect } from "./keys/connect.js";

// === limits ===

const LOST = () => t("Clients that use it are refused at once. The log stays.", "使用它的客户端会立即被拒绝，日志保留。");

const MOST_BUDGETS = 8;
const NO_END = () => t("no end", "永不");
const PERIODS = () => [["5h", t("Five hours", "五小时")], ["day", t("Day", "日")], ["week", t("Week", "周")], ["month", t("Month", "月")], ["total", t("Total", "总计")]];

const text = (value) => (value === null ? "" : String(value));
const orNull = (typed) => typed.trim() || null;

const shownBudget = ({ period, maxCost, maxRequests, maxTokens, models: named }) => ({ period, maxCost: text(maxCost), maxRequests: text(maxRequests),
  maxTokens: text(maxTokens), models: (named ?? []).join(", ") });
const sentBudget = ({ period, maxCost, maxRequests, maxTokens, models: named }) => ({ period, maxCost: orNull(maxCost), maxRequests: orNull(maxRequests),
  maxTokens: orNull(maxTokens), models: partsOf(named) });

function Budgets({ rows, onChange }) {
  const change = (at, more) => onChange(rows.map((row, index) => (index === at ? { ...row, ...more } : row)));
  const add = () => onChange([...rows, { period: "month", maxCost: "", maxRequests: "", maxTokens: "", models: "" }]);
  return html`
    ${rows.map((row, at) => {
      const field = fieldsOf(row, (name, value) => change(at, { [name]: value }));
      return html`<fieldset key=${at}><legend>${t("Budget {number}", "预算 {number}", { number: at + 1 })}</legend>
        <div class="columns">
          ${field("period", t("Period", "周期"), { choices: PERIODS() })}
          ${field("maxCost", t("Cost of the period, USD", "周期费用上限，美元"), { inputmode: "decimal" })}
          ${field("maxRequests", t("Requests of the period", "周期次数上限"), { inputmode: "numeric" })}
          ${field("maxTokens", t("Tokens of the period", "周期令牌上限"), { inputmode: "numeric" })}
          ${field("models", t("Models counted", "计入的模型"), { hint: t("Names and patterns, separated by commas. Empty: every model.", "名称或通配，以逗号分隔；留空为全部模型。") })}
        </div>
        <${Going} class="quiet" onClick=${() => onChange(rows.filter((_, index) => index !== at))}>${t("Remove budget {number}", "移除预算 {number}", { number: at + 1 })}<//>
      </fieldset>`;
    })}
    ${rows.length < MOST_BUDGETS && html`<button type="button" onClick=${add}>${t("Add a budget", "添加预算")}</button>`}`;
}

const Limits = ({ draft, set, field }) => html`
  <div class="columns">
    ${field("maxConcurrency", t("Calls at once"), { inputmode: "numeric" })}
    ${field("requestsPerMinute", t("Requests a minute"), { inputmode: "numeric" })}
    ${field("tokensPerMinute", t("Tokens a minute"), { inputmode: "numeric" })}
  </div>
  ${field("allowedIps", t("Addresses"), { kind: "area", hint: t("One per line, such as 192.0.2.7 or 10.0.0.0/8. Empty: from everywhere.", "每行一个，如 192.0.2.7 或 10.0.0.0/8；留空为不限来源。") })}
  <${Budgets} rows=${draft.budgets} onChange=${(budgets) => set({ budgets })} />`;

const bounds = ({ maxCost, maxRequests, maxTokens, used }) => [[t("Cost"), used.cost, maxCost, money], [t("Requests"), used.requests, maxRequests, number],
  [t("Tokens"), used.tokens, maxTokens, number]].filter(([, , most]) => most !== null);

function BudgetsUsed({ budgets }) {
  const names = Object.fromEntries(PERIODS());
  return html`<ul class="plain">${budgets.map((budget, at) => html`<li key=${at}>
    <strong>${names[budget.period] ?? budget.period}</strong>${budget.models && html` <bdi class="quiet">${budget.models.join(", ")}</bdi>`}
    ${bounds(budget).map(([label, used, most, show]) => html`<${Bound} key=${label} label=${label} name=${`${names[budget.period]}, ${label}`} used=${used} most=${most} show=${show} />`)}
    ${budget.resetsAt && html`<span class="quiet">${t("Resets", "重置于")} <${Time} at=${budget.resetsAt} plain /></span>`}
  </li>`)}</ul>`;
}

const local = (iso) => {
  if (!iso) return "";
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};
const refKey = ({ kind, siteId, accountId, tokenId }) => [kind, siteId, accountId, tokenId].filter((part) => part !== undefined).join(":");

const same = (value) => value;
// For each member of a key: its value in a new key, a function for the shown value, and one for the value to send.
const TEXT = [null, text, orNull];
const PICKED = [[], same, same];
const FIELDS = {
  key: ["", same, (typed) => typed.trim() || undefined], name: ["", same, (typed) => typed.trim()], description: TEXT, groupName: TEXT, maxCost: TEXT, maxRequests: TEXT, maxConcurrency: TEXT, requestsPerMinute: TEXT, tokensPerMinute: TEXT,
  tags: [[], (tags) => tags.join(", "), (typed) => partsOf(typed)], enabled: [true, same, same],
  expiresAt: [null, local, (typed) => (typed ? new Date(typed).toISOString() : null)],
  allowedIps: [null, (addresses) => (addresses ?? []).join("\n"), (typed) => partsOf(typed)],
  budgets: [null, (budgets) => (budgets ?? []).map(shownBudget), (rows) => rows.map(sentBudget)],
  supportedModels: [["*"], (names) => names.join("\n"), (typed) => partsOf(typed, "\n")], allowedRouteIds: PICKED, excludedSiteIds: PICKED,
  excludedCredentialRefs: [[], (refs) => refs.map(refKey), (keys) => keys.map((key) => {
    const [kind, siteId, accountId, tokenId] = key.split(":");
    return { kind, siteId: Number(siteId), accountId: Number(accountId), ...(tokenId && { tokenId: Number(tokenId) }) };
  })],
  siteWeightMultipliers: [{}, same, (weights) => Object.fromEntries(Object.entries(weights).map(([site, weight]) => [site, weightOf(weight)]))],
};

function weightOf(typed) {
  const weight = Number(typed);
  if (!(weight > 0 && Number.isFinite(weight))) throw new Failure("refused", t("A weight is a number above 0.", "权重须为大于 0 的数。"));
  return weight;
}

const draftOf = (key = {}) => Object.fromEntries(Object.entries(FIELDS).map(([name, [blank, read]]) => [name, read(name in key ? key[name] : blank)]));

// `now` are the fields as they are stored.
function changes(before, after, now = before) {
  const changed = Object.entries(FIELDS).filter(([name]) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(changed.map(([name, [, , write]]) => {
    const values = [before, after, now].map((one) => write(one[name]));
    return [name, Array.isArray(values[1]) ? merged(...values) : values[1]];
  }));
}

// === the fields ===

function Policies({ draft, set, field }) {
  const [routes, sites, accounts, tokens] = ["routes/lite", "sites", "accounts", "account-tokens"].map((name) => useRead(`/api/${name}`));
  const ofSites = (sites.value ?? []).map((site) => ({ key: site.id, text: site.name }));
  const credentials = [
    ...(tokens.value ?? []).map(({ id, accountId, account, site, name }) => ({
      key: refKey({ kind: "account_token", siteId: site.id, accountId, tokenId: id }), text: joined(site.name, account?.username, name) })),
    ...(accounts.value?.accounts ?? []).filter((account) => account.apiToken).map(({ id, siteId, site, username }) => ({
      key: refKey({ kind: "default_api_key", siteId, accountId: id }), text: joined(site?.name, username ?? `#${id}`, t("API key of the account", "账号的 API 密钥")) })),
  ];
  const weights = draft.siteWeightMultipliers;
  const pick = (name) => ({ chosen: draft[name], onChange: (value) => set({ [name]: value }) });
  return html`
    ${field("supportedModels", t("Models"), { kind: "area", hint: t("One per line: a name, a pattern with * or ?, or re: and a regular expression. * alone means every model.", "每行一个：名称、含 * 或 ? 的通配、或 re: 加正则表达式；单独的 * 为全部模型。") })}
    <${Pick} label=${t("Routes")} hint=${t("Allowed in addition to those models. Without models and routes the key allows nothing.", "在上述模型之外允许；两者都为空则不允许任何请求。")} ...${pick("allowedRouteIds")} from=${[routes]}
      options=${(routes.value ?? []).map((route) => ({ key: route.id, text: route.displayName || route.modelPattern }))} />
    <${Pick} label=${t("Sites left out")} options=${ofSites} from=${[sites]} ...${pick("excludedSiteIds")} />
    <${Pick} label=${t("Credentials left out")} options=${credentials} from=${[tokens, accounts]} ...${pick("excludedCredentialRefs")} />
    <${Pick} label=${t("Weights of sites")} hint=${t("2 makes a site twice as likely for this key.", "对此密钥，2 使站点被选中的可能加倍。")} options=${ofSites} chosen=${Object.keys(weights).map(Number)}
      onChange=${(ids) => set({ siteWeightMultipliers: Object.fromEntries(ids.map((id) => [id, weights[id] ?? 1])) })}
      beside=${(id, name) => html`<input class="short" inputmode="decimal" aria-label=${t("Weight of {name}", "{name} 的权重", { name })} value=${weights[id]}
        onInput=${(event) => set({ siteWeightMultipliers: { ...weights, [id]: event.target.value } })} />`} />`;
}

function KeyFields({ draft, setDraft, label, placeholder }) {
  const set = (more) => setDraft((held) => ({ ...held, ...more }));
  const field = fieldsOf(draft, (name, value) => set({ [name]: value }));
  return html`
    ${field("name", t("Name"), { required: true })}
    <div class="columns">
      ${field("maxCost", t("Cost limit, USD", "费用上限，美元"), { inputmode: "decimal", hint: t("Empty: no limit. 0 blocks the key at once.", "留空为不限，0 为立即阻止。") })}
      ${field("maxRequests", t("Request limit", "次数上限"), { inputmode: "numeric" })}
      ${field("expiresAt", t("Expires"), { kind: "datetime-local", hint: t("In the browser's time zone. Empty: never.", "按此浏览器的时区，留空为永不。") })}
      ${field("groupName", t("Group"), { maxlength: "64" })}
      ${field("tags", t("Tags"), { hint: t("Separated by commas.") })}
      ${field("description", t("Description"))}
    </div>
    ${field("enabled", t("On"), { kind: "switch" })}
    <${Fold} label=${t("Budgets, pace, addresses", "预算、速率、地址")}><${Limits} draft=${draft} set=${set} field=${field} /><//>
    <${Fold} label=${t("Models, routes, sites", "模型、路由、站点")}><${Policies} draft=${draft} set=${set} field=${field} /><//>
    ${field("key", label, { placeholder, class: "mono", hint: t("6 to 512 visible ASCII characters that begin with sk-.", "以 sk- 开头的 6 至 512 个可见 ASCII 字符。") })}`;
}

function EditKey({ item, onDone }) {
  // The draft starts from the key as it was opened, so that a refresh of the list does not change the form.
  const [before] = useState(() => draftOf(item));
  const [draft, setDraft] = useState(before);
  const save = async () => {
    const now = (await get("/api/downstream-keys")).items.find(({ id }) => id === item.id) ?? item;
    await put(`/api/downstream-keys/${item.id}`, changes(before, draft, draftOf(now)));
  };
  const form = { isSame: JSON.stringify(before) === JSON.stringify(draft), saved: () => {} };
  return html`<p class="name"><bdi>${item.name}</bdi></p>
    <${Form} act=${save} after=${onDone} draft=${form} onCancel=${onDone}>
      <${KeyFields} draft=${draft} setDraft=${setDraft} label=${t("New value", "新值")} placeholder=${t("unchanged")} /><//>`;
}

function NewKey({ onClose, onDone }) {
  const [before] = useState(() => draftOf());
  const [draft, setDraft] = useState(before);
  const [made, setMade] = useState(null);
  const create = async () => {
    const { item } = await post("/api/downstream-keys", { ...changes(before, draft), name: draft.name, key: draft.key.trim() || newKey() });
    setMade(item);
    onDone();
  };
  if (made) {
    return html`<${Dialog} title=${t("The key was created", "密钥已创建")} onClose=${onClose}>
      <p class="name"><bdi>${made.name}</bdi></p>
      <${Note} kind="good">${t("Copy it now: it is masked from now on.", "请现在复制：此后它会被遮盖。")}<//>
      <${Copyable} label=${t("The new key", "新密钥")} text=${made.key} />
      <footer><a href=${`/keys?connect=1&key=${made.id}`} onClick=${onClose}>${t("Connect a client")}</a> <button class="first" onClick=${onClose}>${t("Done")}</button></footer>
    <//>`;
  }
  return html`<${Dialog} wide title=${t("New key")} onClose=${onClose}>
    <${Form} act=${create} verb=${t("Create")} onCancel=${onClose}>
      <${KeyFields} draft=${draft} setDraft=${setDraft} label=${t("Own value", "自定义值")} placeholder=${t("generated by this browser", "由浏览器生成")} />
    <//><//>`;
}

// === what a key may do now ===

// Returns the state of a key as `[kind of badge, words, filter]`.
function stateOf(key) {
  if (!key.enabled) return ["", t("Off"), "off"];
  if (key.expiresAt !== null && Date.parse(key.expiresAt) <= Date.now()) return ["bad", t("Expired", "已过期"), "blocked"];
  if (key.maxCost !== null && key.usedCost >= key.maxCost) return ["bad", t("Budget spent"), "blocked"];
  if (key.maxRequests !== null && key.usedRequests >= key.maxRequests) return ["bad", t("Used up", "次数用尽"), "blocked"];
  const spent = key.budgets?.filter((budget) => bounds(budget).some(([, used, most]) => used >= most));
  if (spent?.length) return spent.some(({ models }) => !models) ? ["bad", t("Budget spent"), "blocked"] : ["warn", t("Budget spent"), "on"];
  if (!key.supportedModels.length && !key.allowedRouteIds.length) return ["warn", t("Allows no model", "未允许任何模型"), "blocked"];
  return ["good", t("On"), "on"];
}

// === a key opened ===

function Usage({ id }) {
  const read = useRead(href(`/api/downstream-keys/${id}/trend`, { range: "all", timeZone: ZONE }), { every: 30 });
  const charts = [[t("Requests"), "totalRequests", number], [t("Cost"), "totalCost", money], [t("Tokens"), "totalTokens", short]];
  return html`<${Section} class="plain" read=${read} isEmpty=${({ buckets }) => !buckets.length} empty=${t("No requests yet.")}>${({ buckets }) => html`
    <div class="columns three">${charts.map(([title, member, shown]) => html`<div key=${member}><h3>${title}</h3>
      <${Days} told=${buckets.map((one) => [dateOf(one.startUtc), one[member]])} days="30" shown=${shown} /></div>`)}</div>`}<//>`;
}

function Totals({ id }) {
  const ranges = [["last24h", t("24 hours")], ["last7d", t("7 days")], ["all", t("All")]];
  return html`<${Section} class="plain" read=${useRead(`/api/downstream-keys/${id}/overview`, { every: 30 })}>${({ usage }) => html`
    <${Table} label=${t("Costs and counts")} head=${["", t("Requests"), t("Failed"), t("Tokens"), t("From the cache"), t("Into the cache"), t("Cost")]} rows=${ranges.map(([name, label]) => {
      const one = usage[name];
      return [label, number(one.totalRequests), number(one.failedRequests), ...[one.totalTokens, one.cacheReadTokens, one.cacheCreationTokens].map(short), money(one.totalCost)];
    })} />`}<//>`;
}

function Detail({ item, onDone }) {
  const path = `/api/downstream-keys/${item.id}`;
  const name = html`<bdi>${item.name}</bdi>`;
  const amount = (list) => list.length || null;
  const pairs = [[t("Key"), html`<${Reveal} masked=${item.keyMasked} label=${t("Key")} read=${async () => (await get(`${path}/value`)).key} />`],
    [t("Cost"), html`<${Bound} used=${item.usedCost} most=${item.maxCost} show=${money} label=${t("Cost")} />`],
    [t("Requests"), html`<${Bound} used=${item.usedRequests} most=${item.maxRequests} show=${number} label=${t("Requests")} />`],
    [t("Calls at once"), item.maxConcurrency], [t("Requests a minute"), item.requestsPerMinute && number(item.requestsPerMinute)],
    [t("Tokens a minute"), item.tokensPerMinute && number(item.tokensPerMinute)], [t("Addresses"), item.allowedIps?.join(", ")],
    [t("Budgets", "预算"), item.budgets && html`<${BudgetsUsed} budgets=${item.budgets} />`],
    [t("Expires"), item.expiresAt ? html`<${Time} at=${item.expiresAt} plain />` : NO_END()], [t("Created", "创建于"), html`<${Time} at=${item.createdAt} plain />`],
    [t("Description"), item.description], [t("Group"), item.groupName], [t("Tags"), item.tags.join(", ")], [t("Models"), item.supportedModels.join(", ") || "–"],
    [t("Routes"), amount(item.allowedRouteIds)], [t("Sites left out"), amount(item.excludedSiteIds)], [t("Credentials left out"), amount(item.excludedCredentialRefs)],
    [t("Weights of sites"), amount(Object.keys(item.siteWeightMultipliers))]];
  return html`
    <div class="actions">
      <${InDialog} wide label=${t("Edit")} title=${t("Change a key", "修改密钥")} after=${onDone}>${(done) => html`<${EditKey} item=${item} onDone=${done} />`}<//>
      <${Switch} isOn=${item.enabled} act=${(enabled) => put(path, { enabled })} after=${onDone} />
      <a href=${`/keys?connect=1&key=${item.id}`}>${t("Connect a client")}</a>
      <a href=${`/log?tab=sums&what=calls&key=${item.id}`}>${t("Costs and counts")}</a>
      <${Removal} class="quiet" label=${t("Reset usage")} name=${name} consequence=${t("Used cost and requests count from 0 again. The log stays.", "已用费用和次数从 0 重新计，日志保留。")}
        act=${() => post(`${path}/reset-usage`)} after=${onDone} />
      <${Removal} title=${t("Delete this key?", "删除此密钥？")} name=${name} consequence=${LOST()} act=${() => remove(path)} after=${onDone} />
    </div>
    <${Pairs} of=${pairs.filter(([, value]) => value)} />
    <${Totals} id=${item.id} /><${Usage} id=${item.id} />`;
}

// === the page ===

function Labels({ send }) {
  const draft = useDraft({ group: "", clears: false, tags: "" });
  const { values: { group, clears, tags }, field } = draft;
  const save = () => send("updateMetadata", { ...(clears ? { groupOperation: "clear" } : group.trim() && { groupOperation: "set", groupName: group }), ...(tags.trim() && { tagOperation: "append", tags }) });
  return html`<${InDialog} label=${t("Group and tags")}>${(done) => html`<${Form} draft=${draft} act=${save} after=${done} disabled=${!clears && !group.trim() && !tags.trim()}>
      ${!clears && field("group", t("Group"), { hint: t("Empty leaves it as it is.", "留空则保持不变。") })}
      ${field("clears", t("Remove the group", "移除分组"), { kind: "switch" })}
      ${field("tags", t("Tags to add", "要添加的标签"), { hint: t("Separated by commas.") })}<//>`}<//>`;
}

export function Page() {
  const [connects, setConnects] = useFilter("connect");
  const { q: search = "", state, group } = useAddress().query;
  const { keys: ticked, setKeys: setTicked, tick } = useMarks();
  const read = useRead("/api/downstream-keys/summary?range=24h", { every: 10 });
  const prepared = useMemo(() => (read.value?.items ?? []).map((key) => ({ key,
    text: [key.name, key.description, key.keyMasked, key.groupName, ...key.tags, ...key.supportedModels].join("\n").toLowerCase() })), [read.value]);
  const keys = prepared.map(({ key }) => key);
  const wanted = search.trim().toLowerCase();
  const shown = prepared.filter(({ key, text }) => (!wanted || text.includes(wanted)) && (!state || stateOf(key)[2] === state)
    && (!group || key.groupName === group)).map(({ key }) => key);
  const picked = shown.filter((key) => ticked.has(key.id));
  const any = [["", t("All")]];
  const groups = [...new Set(keys.map((key) => key.groupName).filter(Boolean))].sort();
  const columns = [
    [t("Name"), (key) => key.name],
    [t("State"), (key) => {
      const [kind, words] = stateOf(key);
      return html`${tick(key.id, key.name)} <${Badge} kind=${kind}>${words}<//>`;
    }],
    [t("Cost"), (key) => html`<${Bound} used=${key.usedCost} most=${key.maxCost} show=${money} label=${t("Cost")} />`],
    [t("Requests"), (key) => html`<${Bound} used=${key.usedRequests} most=${key.maxRequests} show=${number} label=${t("Requests")} />`, "less"],
    [t("24 hours"), (key) => html`<span class="bound number">${money(key.rangeUsage.totalCost)}
      <br /><span class="quiet">${count(key.rangeUsage.totalRequests, "{count} request", "{count} requests", "{count} 次请求")}</span></span>`, "less"],
    [t("Group and tags"), (key) => html`${[key.groupName, ...key.tags].filter(Boolean).map((name) => html`<${Badge} key=${name}><bdi>${name}</bdi><//> `)}`, "less"],
    [t("Expires"), (key) => (key.expiresAt ? html`<${Time} at=${key.expiresAt} />` : html`<span class="quiet">${NO_END()}</span>`), "less"],
    [t("Last used"), (key) => html`<span class=${key.lastUsedAt ? "" : "quiet"}>${ago(key.lastUsedAt)}</span>`, "less"],
  ];
  const fresh = html`<${Opens} class="first" label=${t("New key")}>${(close) => html`<${NewKey} onClose=${close} onDone=${read.reload} />`}<//>`;
  return html`
    <${Tabs} label=${t("Keys")} value=${connects} onChange=${setConnects} items=${[["", t("Keys")], ["1", t("Connect a client")]]} />
    ${connects ? html`${(read.failure || !read.value) && html`<${Section} read=${read} />`}<${Connect} keys=${keys} stateOf=${stateOf} reload=${read.reload} newKey=${fresh} />`
      : html`<${Section} title=${t("Keys of clients")} read=${read} actions=${fresh}
          empty=${t("No key yet: clients use the global token, PROXY_TOKEN.", "还没有密钥：客户端使用全局令牌 PROXY_TOKEN。")}>
        ${() => html`
          <div class="filters">
            <${Filter} name="q" kind="search" label=${t("Search")} />
            <${Filter} name="state" label=${t("State")} choices=${[...any, ["on", t("On")], ["blocked", t("Cannot be used", "不可用")], ["off", t("Off")]]} />
            <${Filter} name="group" label=${t("Group")} choices=${[...any, ...groups.map((name) => [name, `\u2068${name}\u2069`])]} />
          </div>
          <${List} label=${t("Keys of clients")} rows=${shown} all=${keys} columns=${columns}
            detail=${(key) => html`<${Detail} item=${key} onDone=${read.reload} key=${key.id} />`} />
          <div class="stays"><${Batch} path="downstream-keys" rows=${picked} all=${shown} onAll=${(some) => setTicked(new Set(some.map((key) => key.id)))}
            label=${(many) => count(many, "{count} key chosen", "{count} keys chosen", "已选 {count} 个密钥")} consequence=${LOST()} after=${read.reload}>${(send) => html`
            <${Labels} send=${send} />
            <${Removal} class="" label=${t("Reset usage")} name=${picked.map((key) => key.name).join(", ")} act=${() => send("resetUsage")} />`}<//></div>`}
      <//>`}`;
}
