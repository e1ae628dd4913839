// The page Models: one row for each model, pattern or group, with its channels.

import { href, useAddress } from "../address.js";
import { get, post, put, remove } from "../api.js";
import { useRead } from "../data.js";
import { duration, money, number, percent, price } from "../format.js";
import { List } from "../list.js";
import {
  Action, Badge, Bar, Batch, Countdown, Failed, Filter, Fold, Form, Going, InDialog, Note, Pick, Removal, Section, Switch, Table, Tabs, TaskAction, Time, html, merged, nameOf, useDraft,
  useMemo, useState, without
} from "../parts.js";
import { count, joined, t } from "../words.js";
import { isExact, matcher } from "./routes/pattern.js";

// === the form of a route ===

const LOST = () => t("Its channels are deleted, too. A rebuild creates the routes of known models again.", "其通道会一并删除。重建会重新生成已知模型的路由。");

const NAMED = 30;
const UNCOVERED = 200;

const strategies = () => [
  ["weighted", t("Weighted", "加权")], ["round_robin", t("In turn, without priorities", "轮流，不看优先级")], ["stable_first", t("Stable first", "稳定优先")],
];

// Writes a mapping as lines `requested => sent`; null if it is not valid JSON.
function lines(mapping) {
  if (!mapping) return "";
  try {
    return Object.entries(JSON.parse(mapping)).map(([from, to]) => `${from} => ${to}`).join("\n");
  } catch { return null; }
}
function mappingOf(text) {
  const rules = text.split("\n").filter((line) => line.trim()).map((line) => line.split("=>").map((part) => part.trim()));
  if (rules.some((rule) => rule.length !== 2 || !rule[0] || !rule[1])) return undefined;
  return rules.length ? JSON.stringify(Object.fromEntries(rules)) : null;
}

function Preview({ pattern, exact }) {
  const found = useMemo(() => {
    const matches = matcher(pattern);
    return typeof matches === "string" ? matches : exact.map((row) => row.modelPattern).filter(matches);
  }, [pattern, exact]);
  if (found === "blank") return html`<p class="hint">${t("An exact name; or * for any text and ? for one character; or re: and a regular expression.", "填写准确名称；或用 * 代表任意文本、? 代表一个字符；或以 re: 开头填写正则表达式。")}</p>`;
  if (typeof found === "string") {
    return html`<${Note} kind="warn">${found === "refused" ? t("Look-around, back-references and more than 256 characters are refused.", "不接受环视、反向引用和超过 256 个字符的表达式。")
      : t("No preview of this expression; the server checks it when it is saved.", "此表达式无法在此预览，保存时由服务器检查。")}<//>`;
  }
  return html`<div role="status" class="hint">
    <p>${count(found.length, "Matches {count} known model", "Matches {count} known models", "匹配 {count} 个已知模型")}</p>
    <p>${found.slice(0, NAMED).map((name) => html`<span class="badge name"><bdi>${name}</bdi></span> `)}${found.length > NAMED && "…"}</p></div>`;
}

// Edits `route`, or makes a new one without it. `onDone` gets the id, or nothing if the user cancelled.
function RouteForm({ route, rows, onDone }) {
  const [mode, setMode] = useState(route?.routeMode ?? "pattern");
  const isGroup = mode === "explicit_group";
  const exact = useMemo(() => rows.filter((row) => row.kind === "model"), [rows]);
  const stored = lines(route?.modelMapping);
  const { values: is, changes, field, set } = useDraft({ modelPattern: "", routingStrategy: "weighted", sourceRouteIds: [],
    ...route, displayName: route?.displayName ?? "", mapping: stored ?? "" });
  const isMappingNew = "mapping" in changes;
  const mapping = mappingOf(is.mapping);
  const save = async () => {
    const { mapping: _, ...body } = changes;
    // Fields of the other kind of route are not sent.
    delete body[isGroup ? "modelPattern" : "sourceRouteIds"];
    for (const name of ["displayName", "displayIcon"]) if (body[name] === "") body[name] = null;
    if (isMappingNew) body.modelMapping = mapping;
    if (body.sourceRouteIds && route) {
      const now = (await get("/api/routes/summary")).find(({ id }) => id === route.id) ?? route;
      body.sourceRouteIds = merged(route.sourceRouteIds, body.sourceRouteIds, now.sourceRouteIds);
    }
    if (!route && isGroup) body.routeMode = mode;
    const saved = route ? await put(`/api/routes/${route.id}`, body) : await post("/api/routes", body);
    onDone(saved.id);
  };
  const lacks = isGroup ? !is.displayName.trim() || !is.sourceRouteIds.length : !is.modelPattern.trim();
  return html`
    ${!route && html`<${Tabs} keeps label=${t("Kind")} value=${mode} onChange=${setMode} items=${[["pattern", t("Model or pattern")], ["explicit_group", t("Group")]]} />`}
    <${Form} act=${save} verb=${route ? t("Save") : t("Create")} onCancel=${() => onDone()} disabled=${lacks || (isMappingNew && mapping === undefined)}>
      ${!isGroup && html`${field("modelPattern", t("Model or pattern"), { class: "mono" })}
        <${Preview} pattern=${is.modelPattern} exact=${exact} />`}
      ${route && !isGroup && is.modelPattern.trim() !== route.modelPattern
        && html`<${Note} kind="warn">${t("Channels are searched again; only those added by hand stay.", "将重新查找通道，只保留手动添加的。")}<//>`}
      ${field("displayName", isGroup ? t("Name of the group", "分组名称") : t("Another name for clients", "供客户端使用的别名"), { hint: isGroup ? t("It takes precedence over a model of the same name.", "它优先于同名的模型。") : t("Optional") })}
      ${isGroup && html`<${Pick} label=${t("Models of the group")} chosen=${is.sourceRouteIds} onChange=${(ids) => set("sourceRouteIds", ids)}
        options=${exact.map((row) => ({ key: row.id, text: row.modelPattern }))} />`}
      ${field("displayIcon", t("Icon for clients", "供客户端使用的图标"), { hint: t("Optional") })}
      ${field("routingStrategy", t("Strategy"), { choices: strategies() })}
      ${field("mapping", t("Model mapping"), { kind: "area", class: "mono", placeholder: "gpt-4 => gpt-4o", hint: t("One rule per line: name or pattern => name upstream. The first match counts.", "每行一条：名称或通配 => 上游名称。以首个匹配为准。"),
        failure: isMappingNew && mapping === undefined ? t("A line is not of the form: name => name", "有一行不是“名称 => 名称”的形式") : stored === null && !isMappingNew ? t("The stored value is not a list of rules; it stays unless you write new ones.", "已保存的不是规则；不写新规则则不变。") : undefined })}
    <//>`;
}

// === a route opened ===

const MOST = 50;

const reasons = () => ({
  candidate: t("Takes part", "参与选择"), next: t("Is next", "轮到它"), observed: t("Gets a few requests, for observation", "分到少量请求以供观察"), waiting: t("Others have been unused for longer", "其他通道等待更久"),
  not_leading: t("Another one is more stable", "另有更稳定的通道"), lower_priority: t("Waits behind a better priority", "优先级更高的通道可用"), breaker_open: t("Its site or model keeps failing", "其站点或模型连续失败"),
  recent_failure: t("Failed recently; others go first", "最近失败，其他通道优先"), cooling: t("Cooling down", "冷却中"), half_open: t("Limited by its provider; tried now and then", "受上游限制，偶尔试用"), last_resort: t("The last resort", "最后尝试"), near_limit: t("Near a limit", "接近上限"),
  channel_disabled: t("Switched off", "已停用"), account_unusable: t("Its account cannot be used", "账号不可用"), site_disabled: t("Its site is switched off", "站点已停用"),
  token_unusable: t("No usable key", "没有可用的密钥"), other_model: t("Serves another model", "服务于其他模型"),
});

// A pattern is decided for all channels, each with its own model.
async function decide(row) {
  if (row.kind === "pattern") {
    const { decisions } = await post("/api/routes/decision/route-wide/batch", { routeIds: [row.id] });
    return decisions[row.id];
  }
  const { decisions } = await post("/api/routes/decision/by-route/batch", { items: [{ routeId: row.id, model: row.name }] });
  return decisions[row.id]?.[row.name];
}

// Returns the name under which a request reaches exactly this route; null if there is none.
function reachedBy(row, channel, rows) {
  if (row.displayName) return row.displayName;
  const name = row.kind === "model" ? row.modelPattern : channel.sourceModel;
  const isTaken = rows.some((other) => other.id !== row.id && other.enabled && other.kind !== "pattern" && other.name === name);
  return !row.enabled || !name || isTaken ? null : name;
}

async function tryOut(model, forcedChannelId) {
  const began = performance.now();
  await post("/api/test/chat", { model, forcedChannelId, max_tokens: 16, messages: [{ role: "user", content: "Say OK." }] }, { timeoutMs: 300_000 });
  return performance.now() - began;
}

function Channel({ channel, chance, row, rows, draft, onDraft, after }) {
  const { id, site, account, token, routeUnit } = channel;
  const name = joined(site.name, nameOf(account), token?.name);
  const asks = reachedBy(row, channel, rows);
  const code = channel.enabled ? chance?.reasonCode : "channel_disabled";
  const until = chance ? chance.cooldownUntil ?? chance.limitedUntil : channel.cooldownUntil ?? channel.limitedUntil;
  const edit = (field, label) => html`<label>${label} <input type="number" min="0" step="1" value=${draft?.[field] ?? channel[field]}
    aria-label=${`${label}: ${name}`} onInput=${(event) => onDraft(id, field, event.target.value.trim())} /></label>`;
  return html`<li class="channel">
    <div><a href=${href("/sites", { q: site.name })}><bdi>${site.name}</bdi></a>
      <div class="quiet"><bdi>${nameOf(account)}</bdi>${token && html` / <bdi>${token.name}</bdi>`}</div>
      ${channel.sourceModel && channel.sourceModel !== row.modelPattern && html`<div class="mono"><bdi>${channel.sourceModel}</bdi></div>`}
      ${routeUnit && html`<${Badge}><bdi title=${routeUnit.members.map((one) => one.username ?? `#${one.accountId}`).join(", ")}>${routeUnit.name}</bdi> ${number(routeUnit.memberCount)}<//>`}
      ${channel.manualOverride && html`<${Badge}>${t("by hand")}<//>`}</div>
    <div>${chance ? html`<span class="chance"><${Bar} value=${chance.probability} kind=${chance.eligible ? "" : "bad"} label=${t("Probability of {name}", "{name} 的概率", { name })} />
        <b class="number">${percent(chance.probability, 1)}</b></span>` : ""}
      ${code && html`<div class=${chance?.eligible === false || !channel.enabled ? "bad-text" : ""}>${reasons()[code] ?? code} ${until && html`<${Countdown} until=${until} />`}</div>
        ${chance && html`<div class="quiet raw"><bdi>${chance.reason}</bdi></div>`}`}</div>
    <div class="number">${t("{good} good, {bad} failed", "成功 {good}，失败 {bad}", { good: number(channel.successCount), bad: number(channel.failCount) })}
      <div class="quiet">${channel.successCount > 0 && duration(Math.round(channel.totalLatencyMs / channel.successCount))} ${money(channel.totalCost)}</div>
      ${[[t("Cache hits"), channel.cacheHitRatio !== null && percent(100 * channel.cacheHitRatio, 1)], [t("Last used"), channel.lastUsedAt && html`<${Time} at=${channel.lastUsedAt} />`],
        [t("Last failure", "上次失败"), channel.lastFailAt && html`<${Time} at=${channel.lastFailAt} />`]].map(([label, value]) => value && html`<div class="quiet">${label}: ${value}</div>`)}</div>
    <div class="edits">${edit("priority", t("Priority", "优先级"))}${edit("weight", t("Weight"))}</div>
    <div class="actions">
      <${Action} class="quiet" act=${() => tryOut(asks, id)} disabled=${!asks || !channel.enabled} done=${(took) => t("Answered in {time}", "{time} 内已回应", { time: duration(took) })}>${t("Try", "试用")}<//>
      ${asks && html`<a href=${href("/playground", { model: asks, channel: id })}>${t("Playground")}</a>`}
      <${InDialog} class="quiet" label=${t("Edit")} title=${t("Edit the channel", "编辑通道")} after=${after}>${(done) => html`<p class="name"><bdi>${name}</bdi></p>
        <${ChannelForm} channel=${channel} onDone=${done} />`}<//>
      <${Switch} class="quiet" isOn=${channel.enabled} act=${(enabled) => put(`/api/channels/${id}`, { enabled })} after=${after} />
      <${Removal} title=${t("Delete the channel", "删除通道")} name=${name} after=${after} act=${() => remove(`/api/channels/${id}`)} /></div>
  </li>`;
}

function Changes({ drafts, channels, onDone }) {
  const changed = (field) => channels.filter((one) => drafts[one.id]?.[field] !== undefined && drafts[one.id][field] !== String(one[field]))
    .map(({ id }) => ({ id, [field]: Number(drafts[id][field]), isValid: /^\d{1,9}$/.test(drafts[id][field]) }));
  const [priorities, weights] = [changed("priority"), changed("weight")];
  const all = [...priorities, ...weights];
  const save = async () => {
    if (priorities.length) await put("/api/channels/batch", { updates: priorities.map(({ id, priority }) => ({ id, priority })) });
    for (const { id, weight } of weights) await put(`/api/channels/${id}`, { weight });
    onDone();
  };
  return all.length > 0 && html`<div class="note actions stays unsaved"><span role="status">${count(all.length, "{count} change is not saved", "{count} changes are not saved", "{count} 处修改未保存")}</span>
    <${Action} class="first" act=${save} disabled=${!all.every((one) => one.isValid)}>${t("Save")}<//>
    <${Going} onClick=${onDone}>${t("Discard", "放弃")}<//></div>`;
}

function ChannelForm({ row, channel, onDone }) {
  const accounts = useRead(channel ? null : "/api/accounts");
  const [account, setAccount] = useState(channel ? [channel.accountId] : []);
  const { values, changes, field, set, isSame } = useDraft({ tokenId: channel?.tokenId ?? "", sourceModel: channel?.sourceModel ?? "" });
  const [accountId] = account;
  const tokens = useRead(accountId ? `/api/account-tokens?accountId=${accountId}` : null);
  const act = async () => {
    const body = { ...("tokenId" in changes && { tokenId: Number(values.tokenId) || null }), ...("sourceModel" in changes && { sourceModel: values.sourceModel.trim() || null }) };
    await (channel ? put(`/api/channels/${channel.id}`, body) : post(`/api/routes/${row.id}/channels`, { accountId, ...body }));
    onDone();
  };
  return html`<${Form} act=${act} verb=${channel ? t("Save") : t("Add", "添加")} disabled=${channel ? isSame : !accountId}>
    ${!channel && html`<${Section} read=${accounts} class="plain">${(value) => html`<${Pick} label=${t("Account")} chosen=${account} onChange=${(chosen) => { setAccount(chosen.slice(-1)); set("tokenId", ""); }}
      options=${value.accounts.map((one) => ({ key: one.id, text: joined(one.site.name, nameOf(one)) }))} />`}<//>`}
    <${Failed} of=${tokens} />
    ${tokens.value?.length > 0 && field("tokenId", t("Key"), { choices: [["", t("The default one", "默认密钥")], ...tokens.value.map((one) => [String(one.id), one.name])] })}
    ${field("sourceModel", t("Name at the site", "在站点上的名称"), { hint: t("Optional"), class: "mono" })}<//>`;
}

function Prices({ model }) {
  const read = useRead("/api/models/marketplace?includePricing=1", { read: async (path) => {
    const { models } = await get(path);
    return models.find((one) => one.name === model) ?? { pricingSources: [], supportedEndpointTypes: [], tags: [], successRate: null };
  } });
  return html`<${Section} read=${read}>${({ description, supportedEndpointTypes, tags, successRate, avgLatency, pricingSources }) => html`
    ${[description, [...supportedEndpointTypes, ...tags].join(", ")].map((words) => words && html`<p><bdi>${words}</bdi></p>`)}
    <p class="quiet">${successRate !== null && t("{rate} answered in 7 days", "7 天成功率 {rate}", { rate: percent(successRate, 1) })} ${avgLatency > 0 && `${t("Latency")}: ${duration(avgLatency)}`}</p>
    ${!pricingSources.length ? html`<p class="quiet">${t("No site gives a price for it.", "没有站点给出价格。")}</p>` : html`
    <${Table} label=${t("Prices")} head=${[t("Site"), t("Group"), t("In, per million", "输入（每百万）"), t("Out, per million", "输出（每百万）"), t("Per call", "每次调用")]}
      rows=${pricingSources.flatMap((source) => Object.entries(source.groupPricing).map(([group, of]) => [joined(source.siteName, source.username), group,
        price(of.inputPerMillion), price(of.outputPerMillion), price(of.perCallTotal)]))} />`}`}<//>`;
}

function RouteDetail({ row, rows, after }) {
  const channels = useRead(`/api/routes/${row.id}/channels`, { every: 10 });
  const decision = useRead(`decision ${row.id} ${row.name}`, { every: 10, read: () => decide(row) });
  const [drafts, setDrafts] = useState({});
  const [most, setMost] = useState(MOST);
  const reload = () => { channels.reload(); decision.reload(); after(); };
  const draw = (id, field, value) => setDrafts((before) => ({ ...before, [id]: { ...before[id], [field]: value } }));
  const chances = useMemo(() => new Map((decision.value?.candidates ?? []).map((one) => [one.channelId, one])), [decision.value]);
  const isResting = channels.value?.some((one) => one.cooldownUntil || one.limitedUntil || one.failCount > 0);
  const buckets = useMemo(() => {
    const made = {};
    for (const one of channels.value ?? []) (made[one.priority] ??= []).push(one);
    return Object.entries(made).sort(([one], [other]) => one - other);
  }, [channels.value]);
  const clear = async () => { await post(`/api/routes/${row.id}/cooldown/clear`); reload(); };
  const sources = rows.filter((other) => row.sourceRouteIds.includes(other.id));
  return html`
    <div class="actions">
      <${InDialog} wide label=${t("Edit")} title=${t("Edit the route", "编辑路由")} after=${reload}>${(done) => html`<${RouteForm} route=${row} rows=${rows} onDone=${done} />`}<//>
      <${Switch} isOn=${row.enabled} act=${(enabled) => put(`/api/routes/${row.id}`, { enabled })} after=${reload} />
      ${row.kind !== "group" && html`<${InDialog} label=${t("Add a channel", "添加通道")} after=${reload}>${(done) => html`<${ChannelForm} row=${row} onDone=${done} />`}<//>`}
      ${isResting && html`<${Action} act=${clear} title=${t("For all channels of the route; their failures are cleared, too", "解除该路由所有通道的冷却并清除失败记录")}>${t("End cooling")}<//>`}
      ${row.kind !== "pattern" && html`<a href=${href("/playground", { model: row.name })}>${t("Playground")}</a>
      <a href=${href("/log", { search: row.name })}>${t("Log")}</a>`}
      <${Removal} title=${t("Delete the route", "删除路由")} name=${row.name} after=${after}
        consequence=${row.kind !== "group" && LOST()} act=${() => remove(`/api/routes/${row.id}`)} />
    </div>
    ${row.modelMapping && html`<p class="quiet">${t("Model mapping")}: <bdi class="mono">${row.modelMapping}</bdi></p>`}
    ${row.kind === "group" && html`<p>${t("Models of the group")}: ${sources.map((one) => html`<a href=${href("/routes", { q: one.modelPattern, open: one.id })}><bdi>${one.modelPattern}</bdi></a> `)}</p>`}
    ${decision.value && !decision.value.matched && html`<p class="quiet">${t("The route is off: no request goes to it.", "路由已停用，不会收到请求。")}</p>`}
    <${Section} read=${channels} also=${[decision]} class="plain" empty=${t("No channel")}>
      ${(value) => html`${buckets.map(([priority, list]) => html`
        <h3>${t("Priority {priority}", { priority })} <span class="quiet">(${list.length})</span></h3>
        <ul class="channels" aria-label=${t("Priority {priority}", { priority })}>${list.slice(0, most).map((channel) => html`<${Channel} key=${channel.id} channel=${channel} chance=${chances.get(channel.id)}
          row=${row} rows=${rows} draft=${drafts[channel.id]} onDraft=${draw} after=${reload} />`)}</ul>
        ${list.length > most && html`<button onClick=${() => setMost(most + 200)}>${t("Show more")}</button>`}`)}
        <${Changes} drafts=${drafts} channels=${value} onDone=${() => { setDrafts((now) => without(now, drafts)); reload(); }} />`}
    <//>
    ${decision.value?.summary.length > 0 && html`<${Fold} label=${t("How a channel is chosen", "通道如何选出")}><ol>${decision.value.summary.map((step) => html`<li key=${step}><bdi>${step}</bdi></li>`)}</ol><//>`}
    ${row.kind === "model" && html`<${Fold} label=${t("Prices and details", "价格与详情")}><${Prices} model=${row.modelPattern} /><//>`}`;
}

// === the page ===

// The models that no token of a session account serves, and the groups in which a model costs something else and no token is.
function Uncovered() {
  const title = t("Groups without a token", "没有令牌的分组");
  const read = useRead("/api/models/token-candidates", { read: async (path) => {
    const { modelsWithoutToken: unserved, modelsMissingTokenGroups: ungrouped } = await get(path);
    return Object.keys({ ...unserved, ...ungrouped }).flatMap((model) => {
      const bare = new Set(unserved[model]?.map((one) => one.accountId));
      const owners = new Map([...unserved[model] ?? [], ...ungrouped[model] ?? []].map((one) => [one.accountId, one]));
      return [...owners.values()].map((one) => ({ ...one, model, isBare: bare.has(one.accountId) }));
    });
  } });
  const cells = ({ model, isBare, accountId, siteName, username, missingGroups = [], groupCoverageUncertain }) => [model,
    html`<a href=${`/sites?open=a${accountId}`}>${joined(siteName, username)}</a>`, isBare ? html`<${Badge} kind="bad">${t("no token", "无令牌")}<//>` : t("served", "可用"),
    `${missingGroups.join(", ") || "–"}${groupCoverageUncertain ? " ?" : ""}`];
  return html`<${Section} read=${read} class="plain" empty=${t("Nothing is missing.", "没有缺少的。")}>${(rows) => html`
    <${Table} label=${title} head=${[t("Model"), t("Account"), t("State"), title]} rows=${rows.slice(0, UNCOVERED).map(cells)} />
    ${rows.length > UNCOVERED && html`<p class="quiet">${t("{count} more", { count: rows.length - UNCOVERED })}</p>`}`}<//>`;
}

function prepared(routes) {
  const rows = routes.map((route) => ({
    ...route,
    name: route.displayName || route.modelPattern,
    kind: route.routeMode === "explicit_group" ? "group" : isExact(route.modelPattern) ? "model" : "pattern",
    state: !route.enabled ? "off" : route.enabledChannelCount ? "on" : "empty",
    text: [route.modelPattern, route.displayName ?? "", ...route.siteNames].join("\n").toLowerCase(),
  }));
  return rows.sort((one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : one.id - other.id));
}

const STATES = { on: ["good", "In use"], off: ["", "Off"], empty: ["bad", "No channel"] };
const KINDS = { model: "Model", pattern: "Pattern", group: "Group" };

const columns = () => [
  [t("Model"), (row) => row.name],
  [t("Kind"), (row) => html`${t(KINDS[row.kind])}${row.name !== row.modelPattern
    && html` <bdi class="quiet mono">${row.modelPattern}</bdi>`}`, "less"],
  [t("Channels", "通道"), (row) => row.enabledChannelCount === row.channelCount
    ? number(row.channelCount) : t("{on} of {all}", "{on} / {all}", { on: row.enabledChannelCount, all: row.channelCount }), "number"],
  [t("State"), (row) => html`<${Badge} kind=${STATES[row.state][0]}>${t(STATES[row.state][1])}<//>`],
  [t("Strategy"), (row) => strategies().find(([key]) => key === row.routingStrategy)?.[1] ?? row.routingStrategy, "less"],
  [t("Sites"), (row) => html`<span class="quiet">${row.siteNames.join(", ")}</span>`, "less"],
];

const said = (made) => t("{models} models; routes +{createdRoutes} −{removedRoutes}, channels +{createdChannels} −{removedChannels}.", "{models} 个模型；路由 +{createdRoutes} −{removedRoutes}，通道 +{createdChannels} −{removedChannels}。", made);

export function Page() {
  const read = useRead("/api/routes/summary", { every: 30 });
  const { q: text = "", kind, state } = useAddress().query;
  const rows = useMemo(() => prepared(read.value ?? []), [read.value]);
  const wanted = text.trim().toLowerCase();
  const shown = useMemo(() => rows.filter((row) => (!wanted || row.text.includes(wanted))
    && (!kind || row.kind === kind) && (!state || row.state === state)), [rows, wanted, kind, state]);
  const rebuild = async () => { const { rebuild: made } = await post("/api/routes/rebuild", { refreshModels: false }); read.reload(); return made; };
  return html`
    <${Section} title=${t("Models and routes")} read=${read}
      empty=${html`<a href="/sites">${t("No models yet. Add a site with an account.", "还没有模型。请添加站点和账号。")}</a>`}
      actions=${html`
        <${Action} act=${rebuild} done=${said}>${t("Rebuild", "重建路由")}<//>
        <${TaskAction} start=${() => post("/api/routes/rebuild")} after=${read.reload}>${t("Refresh models")}<//>
        <${InDialog} wide class="first" label=${t("New route", "新建路由")} after=${read.reload}>${(done) => html`<${RouteForm} rows=${rows} onDone=${done} />`}<//>`}>
      ${() => html`
        <div class="filters" role="search">
          <${Filter} name="q" kind="search" label=${t("Search")} placeholder=${t("Model or site", "模型或站点")} />
          <${Filter} name="kind" label=${t("Kind")} choices=${[["", t("All")], ...Object.entries(KINDS).map(([key, label]) => [key, t(label)])]} />
          <${Filter} name="state" label=${t("State")} choices=${[["", t("All")], ...Object.entries(STATES).map(([key, [, label]]) => [key, t(label)])]} />
        </div>
        ${(wanted || kind || state) && shown.length > 0 && html`<${Fold} label=${t("With all {count} that are shown", "对显示的全部 {count} 条", { count: shown.length })}>
          <${Batch} path="routes" rows=${shown} after=${read.reload} label=${(many) => count(many, "{count} route", "{count} routes", "{count} 条路由")}
            consequence=${LOST()} /><//>`}
        <${List} label=${t("Models and routes")} rows=${shown} all=${rows} columns=${columns()}
          detail=${(row) => html`<${RouteDetail} key=${row.id} row=${row} rows=${rows} after=${read.reload} />`} />`}
    <//>
    <${Section}><${Fold} label=${t("Models and groups without a token", "没有令牌的模型和分组")}><${Uncovered} /><//><//>`;
}
