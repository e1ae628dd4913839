// The page Keys: what clients authenticate with, what each has used and may use, and how a client is connected.

import { useMemo, useState } from "../vendor/htm-preact.js";
import { useAddress, useFilter } from "../address.js";
import { get, post, put, remove } from "../api.js";
import { Bars } from "../chart.js";
import { CLIENTS, isPastable, keyLine, lines } from "../clients.js";
import { useRead } from "../data.js";
import { ago, moment, money, number, percent, short } from "../format.js";
import { List } from "../list.js";
import {
  Action, Badge, Bound, Confirm, Copyable, Dialog, Failed, Field, Filter, Form, Note, Pairs, Removal, Reveal, Section, Switch, Tabs, Time, html
} from "../parts.js";
import { count, t } from "../words.js";
import { BudgetsUsed, EditKey, NewKey } from "./keys/form.js";

// === what a key may do now ===

const isExpired = (key, now = Date.now()) => key.expiresAt !== null && Date.parse(key.expiresAt) <= now;

// `[kind of badge, words, name for the filter]`.
function stateOf(key) {
  if (!key.enabled) return ["", t("Off"), "off"];
  if (isExpired(key)) return ["bad", t("Expired", "已过期"), "blocked"];
  if (key.maxCost !== null && key.usedCost >= key.maxCost) return ["bad", t("Budget spent", "预算用尽"), "blocked"];
  if (key.maxRequests !== null && key.usedRequests >= key.maxRequests) return ["bad", t("Requests used up", "次数用尽"), "blocked"];
  if (!key.supportedModels.length && !key.allowedRouteIds.length) return ["warn", t("Allows no model", "未允许任何模型"), "blocked"];
  return ["good", t("On"), "on"];
}

// === a key opened ===

// Every hour or day of the range, also those without a request, which the answer leaves out.
function bars({ range, bucketSeconds, buckets }) {
  const step = bucketSeconds * 1000;
  const now = new Date();
  const latest = range === "all" ? now.setHours(0, 0, 0, 0) : now.setMinutes(0, 0, 0);
  const found = new Map(buckets.map((bucket) => [Math.max(0, Math.round((latest - Date.parse(bucket.startUtc)) / step)), bucket]));
  const length = { "24h": 25, "7d": 169 }[range] ?? Math.min(366, 1 + Math.max(13, ...found.keys()));
  return Array.from({ length }, (_, index) => {
    const { totalRequests = 0, failedRequests = 0, totalCost = 0, startUtc } = found.get(length - 1 - index) ?? {};
    const at = moment(startUtc ?? new Date(latest - (length - 1 - index) * step).toISOString());
    return { label: `${at}: ${count(totalRequests, "{count} request", "{count} requests")}, ${money(totalCost)}`,
      parts: [{ value: totalRequests - failedRequests, kind: "" }, { value: failedRequests, kind: "bad" }] };
  });
}

const RANGES = [["24h", "24 hours", "last24h"], ["7d", "7 days", "last7d"], ["all", "All", "all"]];

function Usage({ id }) {
  const [range, setRange] = useFilter("trend", "7d");
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const overview = useRead(`/api/downstream-keys/${id}/overview`, { every: 20 });
  const trend = useRead(`/api/downstream-keys/${id}/trend?range=${range}&timeZone=${zone}`, { every: 60 });
  const used = overview.value?.usage[RANGES.find(([name]) => name === range)?.[2]];
  const figures = used && [[t("Requests"), number(used.totalRequests)], [t("Failed"), number(used.failedRequests)], [t("Successful", "成功率"), percent(used.successRate, 1)],
    [t("Tokens"), short(used.totalTokens)], [t("Cost"), money(used.totalCost)]];
  return html`<div>
    <${Tabs} label=${t("Usage of", "用量范围")} value=${range} onChange=${setRange} items=${RANGES.map(([name, label]) => [name, t(label)])} />
    <${Failed} failure=${overview.failure ?? trend.failure} retry=${() => { overview.reload(); trend.reload(); }} />
    ${figures && html`<${Pairs} of=${figures} />`}
    ${trend.value && (trend.value.buckets.length ? html`<${Bars} bars=${bars(trend.value)} label=${t("Requests over time", "请求随时间变化")} /><p class="hint">${t("Requests; failed ones in red.", "请求次数，红色为失败。")}</p>`
      : html`<p class="quiet">${t("No requests in this time.")}</p>`)}
  </div>`;
}

function Detail({ item, onDone }) {
  const [isEdited, setEdited] = useState(false);
  const path = `/api/downstream-keys/${item.id}`;
  const name = html`<bdi>${item.name}</bdi>`;
  const amount = (list) => list.length || null;
  const pairs = [[t("Key"), html`<${Reveal} masked=${item.keyMasked} label=${t("Key")} read=${async () => (await get(`${path}/value`)).key} />`],
    [t("Cost"), html`<${Bound} used=${item.usedCost} most=${item.maxCost} show=${money} label=${t("Cost")} />`],
    [t("Requests"), html`<${Bound} used=${item.usedRequests} most=${item.maxRequests} show=${number} label=${t("Requests")} />`],
    [t("Calls at once"), item.maxConcurrency], [t("Requests a minute"), item.requestsPerMinute && number(item.requestsPerMinute)],
    [t("Tokens a minute"), item.tokensPerMinute && number(item.tokensPerMinute)], [t("Addresses"), item.allowedIps?.join(", ")],
    [t("Budgets", "预算"), item.budgets && html`<${BudgetsUsed} budgets=${item.budgets} />`],
    [t("Expires"), item.expiresAt ? html`<${Time} at=${item.expiresAt} plain />` : t("never")], [t("Made", "创建于"), html`<${Time} at=${item.createdAt} plain />`],
    [t("Description"), item.description], [t("Group"), item.groupName], [t("Tags"), item.tags.join(", ")], [t("Models"), item.supportedModels.join(", ") || "–"],
    [t("Routes"), amount(item.allowedRouteIds)], [t("Sites left out"), amount(item.excludedSiteIds)], [t("Credentials left out"), amount(item.excludedCredentialRefs)],
    [t("Weights of sites"), amount(Object.keys(item.siteWeightMultipliers))]];
  return html`
    <div class="actions">
      <button onClick=${() => setEdited(true)}>${t("Edit")}</button>
      <${Switch} isOn=${item.enabled} act=${(enabled) => put(path, { enabled })} after=${onDone} />
      <a href=${`/keys?connect=1&key=${item.id}`}>${t("Connect a client")}</a>
      <${Removal} class="quiet" label=${t("Reset usage")} title=${t("Reset usage")} name=${name} consequence=${t("Used cost and requests count from 0 again. The log stays.", "已用费用和次数从 0 重新计，日志保留。")}
        act=${() => post(`${path}/reset-usage`)} after=${onDone} />
      <${Removal} label=${t("Delete")} title=${t("Delete this key?", "删除此密钥？")} name=${name} consequence=${t("Clients that use it are refused at once. The log stays.")} act=${() => remove(path)} after=${onDone} />
    </div>
    <div class="columns"><${Pairs} of=${pairs.filter(([, value]) => value)} /><${Usage} id=${item.id} /></div>
    ${isEdited && html`<${EditKey} item=${item} onClose=${() => setEdited(false)} onDone=${() => { setEdited(false); onDone(); }} />`}`;
}

// === lines to paste; the key stands in them only when it is revealed ===

// The names under which routes are asked for; a pattern without one only matches names.
const namesOf = (routes) => [...new Set(routes.filter((route) => route.enabled)
  .map((route) => route.displayName || (/^re:|[*?]/.test(route.modelPattern) ? "" : route.modelPattern)).filter(Boolean))];

function Connect({ keys, reload, onNew }) {
  const [chosen, choose] = useFilter("key");
  const [model, setModel] = useFilter("model");
  const [client, setClient] = useFilter("client", "claude");
  // The revealed key with its id, so that another choice never shows it.
  const [revealed, setRevealed] = useState({});
  const routes = useRead("/api/routes/lite");
  const names = namesOf(routes.value ?? []);
  const found = names.filter((name) => name.toLowerCase().includes(model.toLowerCase())).slice(0, 50);
  const key = keys.find((one) => String(one.id) === chosen);
  const value = key && revealed.id === key.id ? revealed.key : null;
  const [kind, state] = key ? stateOf(key) : ["good"];
  const base = location.origin;
  const name = model || "gpt-4o-mini";
  return html`<${Section} title=${t("Connect a client")} actions=${html`<button onClick=${onNew}>${t("New key")}</button>`}>
    <div class="columns">
      <${Field} kind="select" label=${t("Key")} value=${key ? chosen : ""} onChange=${choose}
        choices=${[["", t("The global token (PROXY_TOKEN)", "全局令牌（PROXY_TOKEN）")], ...keys.map((one) => [String(one.id), `\u2068${one.name}\u2069 (${one.keyMasked})`])]} />
      <${Field} label=${t("Model")} value=${model} onChange=${setModel} list="models-to-ask" />
      <datalist id="models-to-ask">${found.map((one) => html`<option value=${one} key=${one}></option>`)}</datalist>
    </div>
    <${Failed} failure=${routes.failure} retry=${routes.reload} />
    ${kind !== "good" && html`<${Note} kind="warn">${t("This key cannot be used now: {state}", "此密钥目前不可用：{state}", { state })}<//>`}
    ${/^(localhost|127\.|\[::1\])/.test(location.hostname) && html`<${Note}>${t("{address} is this machine only. For clients elsewhere open the console at the address they reach.", "{address} 仅指本机。若客户端在别处，请用它们能访问的地址打开控制台。", { address: base })}<//>`}
    <h3>${t("1. The key", "1. 密钥")}</h3>
    <${Copyable} label=${t("The line with the key", "密钥行")} text=${keyLine(key && (value ?? key.keyMasked))} />
    ${!key ? html`<p class="hint">${t("PROXY_TOKEN is what the server was started with, or what the settings changed it to. A key of its own for each client can be limited and switched off by itself.", "PROXY_TOKEN 是服务器启动时的值，或在设置中修改后的值。为每个客户端单独建密钥，可分别限额和停用。")}</p>`
      : value ? html`<button onClick=${() => setRevealed({})}>${t("Hide the key", "隐藏密钥")}</button>`
        : html`<${Action} act=${async () => setRevealed(await get(`/api/downstream-keys/${key.id}/value`))}>${t("Reveal the key", "显示密钥")}<//> <span class="hint">${t("It is masked here.", "此处已遮盖。")}</span>`}
    <h3>${t("2. The client", "2. 客户端")}</h3>
    <${Tabs} label=${t("Client")} items=${CLIENTS} value=${client} onChange=${setClient} />
    ${!model && html`<p class="hint">${t("Choose a model; {name} stands for it until then.", "请选择模型；在此之前以 {name} 代替。", { name })}</p>`}
    ${isPastable(model) ? lines(client, base, name).map(([title, text]) => html`<div key=${text}><p class="hint">${title}</p><${Copyable} label=${title || t("Lines to paste", "可粘贴的内容")} text=${text} /></div>`)
      : html`<${Note} kind="bad">${t("The name of this model holds characters that are not seen or end a line: it is not put into lines to paste.", "此模型名含有不可见或换行字符，不会放入可粘贴的内容。")}<//>`}
    ${client === "claude" && html`<p class="hint">${t("With a route that renames models, have answers name the model as asked (Settings, Routing): Claude Code drops the thinking of an answer of another model.", "若路由会改模型名，请在“设置—路由”中让回答使用请求的模型名：否则 Claude Code 会丢弃思考内容。")}</p>`}
    ${client === "codex" && html`<p class="hint">${t("Leave supports_websockets out behind a reverse proxy that does not pass upgrades.", "若反向代理不转发升级，请去掉 supports_websockets。")}</p>`}
    ${key && html`<h3>${t("3. Does it work?", "3. 是否可用？")}</h3><p>${key.lastUsedAt ? html`<${Badge} kind="good">${t("It was used", "已使用")}<//> <${Time} at=${key.lastUsedAt} />` : t("This key was not used yet.", "此密钥尚未使用。")}
      ${" "}<button class="link" onClick=${reload}>${t("Read again")}</button></p>`}
  <//>`;
}

// === the page ===

const SHOWN_NAMES = 8;

// The names of what a batch touches, not more than one can read.
const Names = ({ keys }) => html`<ul>${keys.slice(0, SHOWN_NAMES).map((key) => html`<li key=${key.id}><bdi>${key.name}</bdi></li>`)}</ul>
  ${keys.length > SHOWN_NAMES && html`<p>${t("{count} more", { count: keys.length - SHOWN_NAMES })}</p>`}`;

function Labels({ keys, act, onClose }) {
  const [group, setGroup] = useState("");
  const [tags, setTags] = useState("");
  const send = () => act({ action: "updateMetadata", ...(group.trim() && { groupOperation: "set", groupName: group }), ...(tags.trim() && { tagOperation: "append", tags }) });
  return html`<${Dialog} title=${t("Group and tags")} onClose=${onClose}><${Names} keys=${keys} />
    <${Form} act=${send} verb=${t("Save")} onCancel=${onClose} disabled=${!group.trim() && !tags.trim()}>
      <${Field} label=${t("Group")} hint=${t("Empty leaves it as it is.", "留空则保持不变。")} value=${group} onChange=${setGroup} />
      <${Field} label=${t("Tags to add", "要添加的标签")} hint=${t("With commas between them.")} value=${tags} onChange=${setTags} />
    <//><//>`;
}

// What is done with several keys at once. Some of them may fail: those are named until the next try.
function Batch({ chosen, all, onChoose, onDone }) {
  const [asks, setAsks] = useState(null);
  const [failed, setFailed] = useState([]);
  const act = async (body) => {
    const names = new Map(chosen.map((key) => [key.id, key.name]));
    const { failedItems } = await post("/api/downstream-keys/batch", { ids: chosen.map((key) => key.id), ...body });
    setFailed(failedItems.map((item) => ({ ...item, name: names.get(item.id) })));
    setAsks(null);
    onDone();
  };
  const close = () => setAsks(null);
  const names = html`<${Names} keys=${chosen} />`;
  return html`
    ${failed.length > 0 && html`<${Note} kind="bad">${t("This did not work for some keys:", "以下密钥操作失败：")}
      <ul>${failed.map((item) => html`<li key=${item.id}><bdi>${item.name}</bdi>: <bdi>${item.message}</bdi></li>`)}</ul>
      <button class="link" onClick=${() => setFailed([])}>${t("Close")}</button><//>`}
    ${chosen.length > 0 && html`<div class="filters" role="group" aria-label=${t("With the chosen keys", "对所选密钥")}>
      <strong>${count(chosen.length, "{count} key chosen", "{count} keys chosen", "已选 {count} 个密钥")}</strong>
      ${chosen.length < all.length && html`<button class="quiet" onClick=${() => onChoose(all)}>${t("Choose all {count}", "全选 {count} 个", { count: all.length })}</button>`}
      <${Action} act=${() => act({ action: "enable" })}>${t("Switch on")}<//>
      <${Action} act=${() => act({ action: "disable" })}>${t("Switch off")}<//>
      <button onClick=${() => setAsks("labels")}>${t("Group and tags")}</button>
      <button onClick=${() => setAsks("resetUsage")}>${t("Reset usage")}</button>
      <button class="danger quiet" onClick=${() => setAsks("delete")}>${t("Delete")}</button></div>`}
    ${asks === "labels" && html`<${Labels} keys=${chosen} act=${act} onClose=${close} />`}
    ${asks === "resetUsage" && html`<${Confirm} title=${t("Reset usage")} name=${names} verb=${t("Reset usage")} act=${() => act({ action: "resetUsage" })} onClose=${close} />`}
    ${asks === "delete" && html`<${Confirm} title=${t("Delete these keys?", "删除这些密钥？")} name=${names} verb=${t("Delete")}
      consequence=${t("Clients that use it are refused at once. The log stays.")} act=${() => act({ action: "delete" })} onClose=${close} />`}`;
}

export function Keys() {
  const [connects, setConnects] = useFilter("connect");
  const { q: search = "", state, group } = useAddress().query;
  const [opened, setOpened] = useFilter("open");
  const [chosen, setChosen] = useState(new Set());
  const [isMaking, setMaking] = useState(false);
  const read = useRead("/api/downstream-keys/summary?range=24h", { every: 10 });
  const prepared = useMemo(() => (read.value?.items ?? []).map((key) => ({ key,
    text: [key.name, key.description, key.keyMasked, key.groupName, ...key.tags, ...key.supportedModels].join("\n").toLowerCase() })), [read.value]);
  const keys = prepared.map(({ key }) => key);
  const wanted = search.trim().toLowerCase();
  const shown = prepared.filter(({ key, text }) => (!wanted || text.includes(wanted)) && (!state || stateOf(key)[2] === state)
    && (!group || key.groupName === group)).map(({ key }) => key);
  const picked = keys.filter((key) => chosen.has(key.id));
  const any = [["", t("All")]];
  const groups = [...new Set(keys.map((key) => key.groupName).filter(Boolean))].sort();
  const toggle = (id) => setChosen((before) => {
    const after = new Set(before);
    if (!after.delete(id)) after.add(id);
    return after;
  });
  const columns = [
    { label: t("Name"), cell: (key) => html`<bdi>${key.name}</bdi>` },
    { label: t("State"), cell: (key) => {
      const [kind, words] = stateOf(key);
      return html`<input type="checkbox" aria-label=${t("Choose {name}", "选择 {name}", { name: key.name })} checked=${chosen.has(key.id)} onChange=${() => toggle(key.id)} /> <${Badge} kind=${kind}>${words}<//>`;
    } },
    { label: t("Cost"), cell: (key) => html`<${Bound} used=${key.usedCost} most=${key.maxCost} show=${money} label=${t("Cost")} />` },
    { label: t("Requests"), cell: (key) => html`<${Bound} used=${key.usedRequests} most=${key.maxRequests} show=${number} label=${t("Requests")} />` },
    { label: t("24 hours"), class: "less", cell: (key) => html`<span class="bound number">${money(key.rangeUsage.totalCost)}
      <br /><span class="quiet">${count(key.rangeUsage.totalRequests, "{count} request", "{count} requests")}</span></span>` },
    { label: t("Group and tags"), class: "less", cell: (key) => html`${[key.groupName, ...key.tags].filter(Boolean).map((name) => html`<${Badge} key=${name}><bdi>${name}</bdi><//> `)}` },
    { label: t("Expires"), class: "less", cell: (key) => (key.expiresAt ? html`<${Time} at=${key.expiresAt} />` : html`<span class="quiet">${t("never")}</span>`) },
    { label: t("Last used", "上次使用"), class: "less", cell: (key) => html`<span class=${key.lastUsedAt ? "" : "quiet"}>${ago(key.lastUsedAt)}</span>` },
  ];
  return html`
    <${Tabs} label=${t("Keys")} value=${connects} onChange=${setConnects} items=${[["", t("Keys")], ["1", t("Connect a client")]]} />
    ${connects ? html`${(read.failure || !read.value) && html`<${Section} read=${read} />`}<${Connect} keys=${keys} reload=${read.reload} onNew=${() => setMaking(true)} />`
      : html`<${Section} title=${t("Keys of clients")} read=${read} actions=${html`<button class="first" onClick=${() => setMaking(true)}>${t("New key")}</button>`}
          empty=${t("There is no key yet. Until there is one, clients use the global token, PROXY_TOKEN.", "还没有密钥。在此之前，客户端使用全局令牌 PROXY_TOKEN。")}>
        ${() => html`
          <div class="filters">
            <${Filter} name="q" kind="search" label=${t("Search")} />
            <${Filter} name="state" label=${t("State")} choices=${[...any, ["on", t("On")], ["blocked", t("Cannot be used", "不可用")], ["off", t("Off")]]} />
            <${Filter} name="group" label=${t("Group")} choices=${[...any, ...groups.map((name) => [name, `\u2068${name}\u2069`])]} />
          </div>
          <${Batch} chosen=${picked} all=${shown} onChoose=${(some) => setChosen(new Set(some.map((key) => key.id)))} onDone=${read.reload} />
          <${List} label=${t("Keys of clients")} rows=${shown} columns=${columns} opened=${opened} onOpen=${setOpened} empty=${t("Nothing matches the filter.")}
            detail=${(key) => html`<${Detail} item=${key} onDone=${read.reload} key=${key.id} />`} />`}
      <//>`}
    ${isMaking && html`<${NewKey} onClose=${() => setMaking(false)} onDone=${read.reload} />`}`;
}
