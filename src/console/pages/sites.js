// The page Sites: one tree of sites and their accounts.

import { href, useAddress, useFilter } from "../address.js";
import { events, get, good, post, put, remove, send } from "../api.js";
import { useRead } from "../data.js";
import { money } from "../format.js";
import { List } from "../list.js";
import {
  Action, Badge, Batch, Countdown, Dialog, Field, Filter, Fold, Form, InDialog, Level, Link, Newest, Note, Removal, Reveal, Section, StartTask, StateBadge, Switch, Tabs, TaskAction,
  Time, healthReason, html, isInTrouble, merged, nameOf, partsOf, probes, recheck, useDraft, useMarks, useMemo, useRef, useState
} from "../parts.js";
import { coded, count, joined, t } from "../words.js";
import { AddAccount, AddSite, Connections, ImportConnections, Login, PLATFORMS, ProxyField, Windows, hasSessions } from "./sites/add.js";

function Announcements({ site, sites = [site] }) {
  const read = useRead(href("/api/site-announcements", { limit: RECENT, siteId: site?.id }));
  const mark = (which, label) => html`<${Action} class="quiet" act=${async () => { await post(`/api/site-announcements/${which}`); read.reload(); }}>${label}<//>`;
  const actions = html`<${TaskAction} start=${() => post("/api/site-announcements/sync", site ? { siteId: site.id } : {})} after=${read.reload}>${t("Check now")}<//>
    ${!site && html`${mark("read-all", t("Mark all as read"))}
      <${Removal} label=${t("Delete all")} title=${t("Delete all announcements?", "删除全部公告？")} name=${t("Announcements")} act=${() => remove("/api/site-announcements")} after=${read.reload} />`}`;
  return html`<${Section} read=${read} actions=${actions} class="plain" empty=${t("Nothing is announced.", "没有公告。")}>
    ${(rows) => html`${rows.map((one) => html`<article key=${one.id}>
      <h3><bdi>${one.title}</bdi> ${one.level !== "info" && html`<${Level} of=${one.level} />`}</h3>
      <p class="quiet"><bdi>${sites.find(({ id }) => id === one.siteId)?.name}</bdi> · <${Time} at=${one.firstSeenAt} /> ${one.endsAt && html`· ${t("Ends", "结束于")} <${Time} at=${one.endsAt} plain /> `}
        ${/^https?:/.test(one.sourceUrl) && html`<a href=${one.sourceUrl} target="_blank" rel="noopener noreferrer">${t("Source", "来源")}</a> `}${!one.readAt && mark(`${one.id}/read`, t("Mark as read"))}</p>
      <p class="prose"><bdi>${one.content}</bdi></p></article>`)}<${Newest} rows=${rows} most=${RECENT} />`}<//>`;
}

// === a site opened ===

const placeOf = (field) => [field("isPinned", t("Keep at the top", "置顶"), { kind: "switch" }), field("sortOrder", t("Place in the order", "排序位置"), { kind: "number", min: 0 })];
// Converts the named fields to numbers, and empty ones to null.
const numbered = (body, names) => { for (const name of names) if (name in body) body[name] = body[name] === "" ? null : Number(body[name]); return body; };

const SHOWN = 200;
// The number of check-ins and of announcements that are read.
const RECENT = 100;

function SiteDetail({ site, reload, onAdd }) {
  const [tab, setTab] = useState("settings");
  const Tab = { settings: EditSite, models: Models, announcements: Announcements, probe: Probe }[tab];
  return html`<p><bdi>${site.url}</bdi></p>
    <div class="actions">
      <button class="first" onClick=${onAdd}>${t("Add accounts")}</button>
      <${Switch} isOn=${site.status === "active"} act=${(isOn) => put(`/api/sites/${site.id}`, { status: isOn ? "active" : "disabled" })} after=${reload} />
      ${site.externalCheckinUrl && html`<a class="button" href=${site.externalCheckinUrl} target="_blank" rel="noopener noreferrer">${t("Page for checking in")}</a>`}
      <${Removal} title=${t("Delete this site?", "删除此站点？")} name=${site.name}
        consequence=${t("Its accounts, tokens and channels are deleted, too.", "其账号、令牌和通道会一并删除。")} act=${() => remove(`/api/sites/${site.id}`)} after=${reload} />
    </div>
    <${Tabs} label=${site.name} value=${tab} onChange=${setTab}
      items=${[["settings", t("Settings")], ["models", t("Models")], ["announcements", t("Announcements")], ["probe", t("Probe", "探测")]]} />
    <${Tab} key=${tab} site=${site} reload=${reload} />`;
}

// Writes the pool of addresses as lines; those that are switched off begin with #.
const poolOf = ({ apiEndpoints }) => apiEndpoints.map(({ url, enabled }) => (enabled ? url : `# ${url}`)).join("\n");

function EditSite({ site, reload }) {
  const draft = useDraft({ ...site, pool: poolOf(site), proxyUrl: "", gone: [], header: "", content: "" });
  const { changes, values, shown, field, set } = draft;
  const { gone } = values;
  const headersOf = (one) => Object.entries(JSON.parse(one.customHeaders || "{}")).filter(([name]) => !gone.includes(name));
  const save = async () => {
    const { pool, gone: _, header, content, ...body } = changes;
    numbered(body, ["maxConcurrency", "globalWeight", "postRefreshProbeLatencyThresholdMs", "sortOrder"]);
    const now = (await get("/api/sites")).find(({ id }) => id === site.id) ?? site;
    if (gone.length || header) body.customHeaders = JSON.stringify(Object.fromEntries([...headersOf(now), ...(header ? [[header.trim(), content]] : [])]));
    if (pool !== undefined) body.apiEndpoints = merged(...[shown.pool, pool, poolOf(now)].map((text) => partsOf(text, "\n"))).map((line) => ({ url: line.replace(/^#\s*/, ""), enabled: line[0] !== "#" }));
    await put(`/api/sites/${site.id}`, body);
  };
  return html`<${Form} draft=${draft} act=${save} after=${reload} disabled=${!values.header.trim() !== !values.content}>
    <div class="columns"><div>
      ${field("name", t("Name"))}
      ${field("url", t("Address"))}
      ${field("platform", t("Platform"), { choices: PLATFORMS })}
      ${field("pool", t("Further addresses, one per line", "其他地址，每行一个"), { kind: "area", hint: t("Tried in order; one that fails is skipped for five minutes. A # in front switches one off.", "按此顺序尝试，失败的休息五分钟；前加 # 即停用。") })}
      ${site.apiEndpoints.filter((one) => one.lastFailureReason).map((one) => html`<p key=${one.url} class="hint bad"><bdi>${one.url}</bdi>: <bdi>${one.lastFailureReason}</bdi>
        <${Time} at=${one.lastFailedAt} /> <${Countdown} until=${one.cooldownUntil} /></p>`)}
      ${placeOf(field)}
      ${field("postRefreshProbeEnabled", t("Probe after the models were read", "读取模型后探测"), { kind: "switch" })}
      ${String(values.postRefreshProbeEnabled) === "true" && html`<div class="filters">
        ${field("postRefreshProbeScope", t("What"), { choices: [["single", t("One model", "一个模型")], ["all", t("All")]] })}
        ${values.postRefreshProbeScope === "single" && field("postRefreshProbeModel", t("Model"), { placeholder: t("the first one") })}
        ${field("postRefreshProbeLatencyThresholdMs", t("Slower is a failure, ms", "慢于此算失败，毫秒"), { kind: "number", min: 0, hint: t("0 is no limit.", "0 为不限。") })}</div>`}
    </div><div>
      ${field("globalWeight", t("Weight"), { kind: "number", min: 0.01, max: 100, step: "any" })}
      ${field("maxConcurrency", t("Requests at a time", "并发请求数"), { kind: "number", min: 0, hint: t("Empty: no limit", "留空则不限") })}
      <${ProxyField} stored=${site.proxyUrl} values=${values} set=${set} />
      ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}
      ${field("externalCheckinUrl", t("Page for checking in"))}
      ${headersOf(site).map(([name, value]) => html`<p key=${name}><code>${name}: ${value}</code> <${Link} act=${() => set("gone", [...gone, name])}>${t("Remove {name}", { name })}<//></p>`)}
      <div class="filters">${field("header", t("Header of every request", "每个请求附带的标头"))} ${field("content", t("Its value", "值"))}</div>
    </div></div><//>`;
}

// The models of an account, or of a whole site. Switching a model off applies to the whole site.
function Models({ site, account }) {
  const off = `/api/sites/${site.id}/disabled-models`;
  const read = useRead(account ? `/api/accounts/${account.id}/models` : `/api/sites/${site.id}/available-models`);
  const disabled = useRead(off);
  const [text, setText] = useState("");
  const [added, setAdded] = useState("");
  // A list is sent as a whole, so one change waits for the one before it.
  const last = useRef(Promise.resolve());
  const flip = (name) => {
    const change = async () => {
      const { models } = await get(off);
      disabled.set(await put(off, { models: models.includes(name) ? models.filter((one) => one !== name) : [...models, name] }));
    };
    last.current = last.current.then(change, change);
    return last.current;
  };
  const add = async () => {
    await post(`/api/accounts/${account.id}/models/manual`, { models: partsOf(added) });
    setAdded("");
    await read.reload();
  };
  return html`<${Section} class="plain" read=${read}>${({ models }) => html`<${Section} class="plain" read=${disabled}>${({ models: out }) => {
    const known = account ? models : [...new Set([...models, ...out])].map((name) => ({ name }));
    const fitting = known.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()));
    return html`
      ${known.length > 12 && html`<${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} />`}
      ${!known.length && html`<p class="quiet">${t("No model is known.", "还没有已知模型。")}</p>`}
      <ul class="plain models">${fitting.slice(0, SHOWN).map(({ name, isManual, latencyMs }) => html`<li key=${name}>
        <bdi>${name}</bdi> ${isManual && html`<${Badge}>${t("by hand")}<//>`} ${out.includes(name) && html`<${Badge} kind="warn">${t("off")}<//>`}
        ${latencyMs > 0 && html`<span class="quiet">${latencyMs} ms </span>`}
        <${Action} class="link" act=${() => flip(name)}>${out.includes(name) ? t("Switch on") : t("Switch off at this site", "在此站点停用")}<//></li>`)}</ul>
      ${fitting.length > SHOWN && html`<p class="quiet">${t("{count} more: search for them.", "还有 {count} 个，请搜索。", { count: fitting.length - SHOWN })}</p>`}`;
  }}<//>`}<//>
  ${account && html`<${Form} act=${add} verb=${t("Add by hand", "手动添加")} disabled=${!added.trim()}>
    <${Field} label=${t("Models the site does not list", "站点未列出的模型")} hint=${t("Separated by commas.")} value=${added} onChange=${setAdded} /><//>`}`;
}

function Probe({ site }) {
  const known = useRead(`/api/sites/${site.id}/available-models`);
  const [told, setTold] = useState([]);
  const [modelName, setModelName] = useState("");
  const models = known.value?.models ?? [];
  const run = (query) => async () => {
    setTold([]);
    let isWhole = false;
    for await (const { event, data } of events(await send("GET", href(`/api/sites/${site.id}/probe-stream`, query), { timeoutMs: 600_000 }))) {
      const said = JSON.parse(data);
      if (event === "error") throw new Error(said.message);
      if (event === "model") setTold((before) => [...before, said]);
      isWhole ||= event === "complete";
    }
    if (!isWhole) throw new Error(t("The probe was cut off.", "探测中断。"));
  };
  const words = { supported: t("answers", "有回答"), unsupported: t("does not answer; switched off", "无回答，已停用"), inconclusive: t("inconclusive", "不确定") };
  return html`
    <${Note} kind="warn">${t("Tiny requests, which may cost something. What is not served is switched off at this site.", "极小的请求，可能产生费用。不提供的模型会在此站点停用。")}<//>
    <div class="filters"><${Field} label=${t("Model")} value=${modelName} onChange=${setModelName} from=${[known]} choices=${[["", t("the first one")], ...models.map((name) => [name, name])]} /></div>
    <div class="actions"><${Action} act=${run({ scope: "single", modelName })}>${t("Probe one model", "探测一个模型")}<//><${Action} asks=${probes(`${site.name} (${known.value?.models.length ?? "?"})`)} act=${run({ scope: "all" })}>${t("Probe all models")}<//></div>
    <div role="status"><ul class="plain">${told.map((one) => html`<li key=${one.modelName}><bdi>${one.modelName}</bdi>
      <span class=${{ supported: "good-text", unsupported: "bad-text" }[one.status]}>${words[one.status]}</span> ${one.latencyMs > 0 && `${one.latencyMs} ms`} <bdi>${one.reason}</bdi></li>`)}</ul></div>`;
}

// === an account opened ===

const PERIODS = () => ({ daily: t(" a day", " / 天"), weekly: t(" a week", " / 周"), monthly: t(" a month", " / 月") });
// The plans of an account at a site that sells such.
const plansOf = ({ extraConfig }) => JSON.parse(extraConfig || "{}").sub2apiSubscription?.subscriptions ?? [];

function AccountDetail({ account, site, reload }) {
  const [tab, setTab] = useState("models");
  const { id, capabilities: can, runtimeHealth: health } = account;
  const isSession = account.credentialMode === "session" && !account.oauthProvider;
  const path = `/api/accounts/${id}`;
  const action = (label, work, done = t("Done")) => html`<${Action} act=${async () => { try { return await work(); } finally { reload(); } }} done=${done}>${label}<//>`;
  const tabs = [["models", t("Models")], ...(isSession ? [["tokens", t("Site tokens", "站点令牌")]] : []), ...(can.canCheckin ? [["checkins", t("Check-ins")]] : []), ["settings", t("Settings")]];
  const Tab = { models: Models, tokens: Tokens, checkins: Checkins, settings: EditAccount }[tab];
  return html`
    <p><${StateBadge} account=${account} /> <bdi>${healthReason(health)}</bdi> ${health.checkedAt && html`<${Time} at=${health.checkedAt} />`}${" · "}
      ${account.oauthProvider ?? (isSession ? t("session") : t("API key"))} <code>${account.apiToken ?? account.accessToken}</code></p>
    <p>${account.lastBalanceRefresh && html`${t("{balance} left, {used} used", "剩余 {balance}，已用 {used}", { balance: money(account.balance), used: money(account.balanceUsed) })} (<${Time} at=${account.lastBalanceRefresh} />) · `}
      ${t("Today", "今天")}: ${t("{spend} spent, {reward} gained", "花费 {spend}，获得 {reward}", { spend: money(account.todaySpend), reward: money(account.todayReward) })}
      ${account.lastCheckinAt && html` · ${t("Last check-in", "上次签到")}: <${Time} at=${account.lastCheckinAt} />`}</p>
    ${account.limitWindows?.length > 0 && html`<${Windows} windows=${account.limitWindows} />`}
    ${plansOf(account).map((one) => html`<p><bdi>${one.groupName}</bdi> ${one.expiresAt && html`<span class="quiet">${t("Expires")} <${Time} at=${one.expiresAt} plain /></span>`}</p>
      <${Windows} windows=${["daily", "weekly", "monthly"].filter((period) => one[`${period}LimitUsd`] > 0)
        .map((period) => ({ name: money(one[`${period}LimitUsd`]) + PERIODS()[period], usedPercent: (100 * (one[`${period}UsedUsd`] ?? 0)) / one[`${period}LimitUsd`] }))} />`)}
    <div class="actions">
      ${can.canRefreshBalance && action(t("Read the balance", "读取余额"), () => recheck(account))}
      ${action(t("Read the models", "读取模型"), () => recheck({ id }), ({ modelCount }) => count(modelCount, "{count} model", "{count} models"))}
      <${TaskAction} start=${() => post("/api/models/probe", { accountId: id })} after=${reload} asks=${probes(nameOf(account))}>${t("Probe all models")}<//>
      ${can.canCheckin && action(t("Check in"), async () => good(await post(`/api/checkin/trigger/${id}`)), ({ message }) => html`<bdi>${message}</bdi>`)}
      ${action(t("End cooling"), () => post(`${path}/clear-cooldown`))}
      ${isSession && hasSessions(site.platform) && html`<${InDialog} label=${t("Log in again")}>${() => html`<${AddAccount} site=${site} account=${account} reload=${reload} />`}<//>`}
      <${Switch} isOn=${account.status !== "disabled"} act=${(isOn) => put(path, { status: isOn ? "active" : "disabled" })} after=${reload} done=${t("Done")} />
      <${Removal} title=${t("Delete this account?", "删除此账号？")} name=${nameOf(account)}
        consequence=${t("Their tokens and channels are deleted, too.")} act=${() => remove(path)} after=${reload} />
    </div>
    <${Tabs} label=${nameOf(account)} items=${tabs} value=${tab} onChange=${setTab} />
    <${Tab} account=${account} site=${site} reload=${reload} />`;
}

const LOST = () => t("It is deleted at the site, too.", "站点上的也会删除。");

function Tokens({ account, reload }) {
  const read = useRead(`/api/account-tokens?accountId=${account.id}`);
  const groups = useRead(`/api/account-tokens/groups/${account.id}`);
  const draft = useDraft({});
  const { changes, values, field } = draft;
  const { keys, tick } = useMarks();
  const after = async () => { await read.reload(); reload(); };
  const then = (work) => async () => { const done = good(await work()); await after(); return done; };
  const add = then(async () => {
    const { token, remainQuota, expiredTime, allowIps, modelLimits, ...rest } = changes;
    // Limits are sent only for a token that the site makes: the site enforces them.
    const options = { ...(remainQuota && { remainQuota: Number(remainQuota) }), ...(expiredTime && { expiredTime: new Date(expiredTime).toISOString() }),
      ...(allowIps && { allowIps }), ...(modelLimits && { modelLimitsEnabled: true, modelLimits: partsOf(modelLimits).join(",") }) };
    return post("/api/account-tokens", { accountId: account.id, ...rest, ...(token ? { token } : options) });
  });
  const group = (draw, now = "") => draw("group", t("Group"), { choices: [...new Set(["", now, ...groups.value?.groups ?? []])].map((name) => [name, name || "–"]) });
  const sync = html`<${Action} act=${then(() => post(`/api/account-tokens/sync/${account.id}`))} done=${(told) => t("{created} new, {updated} known", "新增 {created}，已有 {updated}", told)}>${t("Sync tokens")}<//>`;
  return html`<${Section} class="plain" read=${read} also=${[groups]} actions=${sync}>${(rows) => html`
    <${Batch} path="account-tokens" rows=${rows.filter(({ id }) => keys.has(id))} after=${after} label=${(many) => count(many, "{count} token", "{count} tokens", "{count} 个令牌")}
      consequence=${LOST()} />
    <ul class="plain">${rows.map((token) => html`<${Token} key=${token.id} token=${token} then=${then} group=${group} tick=${tick} />`)}</ul>`}<//>
  <${Form} draft=${draft} act=${add} verb=${t("Add a token", "添加令牌")}><div class="columns">
    ${field("name", t("Name"))}
    ${field("token", t("Token", "令牌"), { kind: "password", hint: t("If empty, the site creates one.", "留空则由站点创建。") })}
    ${group(field)} ${field("isDefault", t("Make it the default"), { kind: "switch" })}</div>
    ${!values.token && html`<${Fold} label=${t("What the site lets it do", "站点对它的限制")}><div class="columns">
      ${field("remainQuota", t("Quota in the site's units", "额度（站点单位）"), { kind: "number", min: 1, hint: t("Most hubs: 500,000 per dollar. Empty: no limit.", "多数中转站 500,000 为一美元；留空不限。") })}
      ${field("expiredTime", t("Expires"), { kind: "datetime-local" })}
      ${field("modelLimits", t("Models"), { hint: t("Separated by commas.") })}
      ${field("allowIps", t("Addresses, one per line", "地址，每行一个"), { kind: "area" })}</div><//>`}<//>`;
}

function Token({ token, then, group, tick }) {
  const draft = useDraft({ name: token.name, group: token.tokenGroup ?? "", token: "" });
  const { changes, field } = draft;
  const path = `/api/account-tokens/${token.id}`;
  const isReady = token.valueStatus === "ready";
  const edit = html`<${Form} draft=${draft} act=${then(() => put(path, changes))}><div class="columns">${field("name", t("Name"))} ${group(field, token.tokenGroup ?? "")}
    ${field("token", t("The whole token", "完整令牌"), { kind: "password", ...(isReady ? { placeholder: t("unchanged") } : { hint: t("The site shows only a part of it.", "站点只给出其中一部分。") }) })}</div><//>`;
  return html`<li>${tick(token.id, token.name)} <strong><bdi>${token.name}</bdi></strong>${" "}
    ${isReady ? html`<${Reveal} masked=${token.tokenMasked} label=${token.name} read=${async () => (await get(`${path}/value`)).token} />` : html`<code>${token.tokenMasked}</code>`} <bdi class="quiet">${token.tokenGroup}</bdi>
    ${token.isDefault && html` <${Badge} kind="good">${t("default", "默认")}<//>`} ${!token.enabled && html` <${Badge}>${t("off")}<//>`}
    <div class="actions">
      ${isReady && token.enabled && !token.isDefault && html`<${Action} class="quiet" act=${then(() => post(`${path}/default`))}>${t("Make it the default")}<//>`}
      ${isReady && html`<${Switch} class="quiet" isOn=${token.enabled} act=${(enabled) => then(() => put(path, { enabled }))()} />`}
      <${Removal} title=${t("Delete this token?", "删除此令牌？")} name=${token.name} consequence=${LOST()} act=${then(() => remove(path))} /></div>
    ${isReady ? html`<${Fold} label=${t("Edit")}>${edit}<//>` : edit}</li>`;
}

// The check-ins of an account, or of all.
function Checkins({ account }) {
  const words = { success: t("done"), failed: t("failed"), skipped: t("skipped", "跳过") };
  return html`<${Section} class="plain" read=${useRead(href("/api/checkin/logs", { limit: RECENT, accountId: account?.id }))} empty="–">${(rows) => html`
    <ul class="plain">${rows.map(({ checkin_logs: one, accounts: of, sites: site, failureReason }) => html`<li key=${one.id}><${Badge} kind=${{ success: "good", failed: "bad" }[one.status]}>${words[one.status]}<//>
      <${Time} at=${one.createdAt} /> ${!account && html`<a href=${`/sites?open=a${of.id}`}>${joined(site.name, nameOf(of))}</a> `}<bdi>${one.message}</bdi> <span class="good-text">${one.reward}</span> ${one.status === "failed" && html`<span class="quiet">${coded(failureReason.code, `${failureReason.title}. ${failureReason.actionHint}.`)}</span>`}</li>`)}</ul>
    <${Newest} rows=${rows} most=${RECENT} />`}<//>`;
}

function EditAccount({ account, reload }) {
  const draft = useDraft({ ...account, apiToken: "", proxyUrl: "" });
  const { changes, field, values, set } = draft;
  return html`<${Form} draft=${draft} act=${() => put(`/api/accounts/${account.id}`, numbered({ ...changes }, ["unitCost", "sortOrder"]))} after=${reload}>
    ${field("username", t("Name"))}
    ${!account.oauthProvider && field("apiToken", t("API key"), { kind: "password", placeholder: t("unchanged") })}
    ${account.capabilities.canCheckin && field("checkinEnabled", t("Check in automatically", "自动签到"), { kind: "switch" })}
    ${field("unitCost", t("Cost of a request, in US dollars", "每次请求成本（美元）"), { kind: "number", min: 0, step: "any" })}
    <${ProxyField} stored=${JSON.parse(account.extraConfig ?? "{}").proxyUrl} values=${values} set=${set} />
    ${placeOf(field)}<//>`;
}

// === the page ===

function treeOf({ sites, accounts }) {
  const order = (one, other) => other.isPinned - one.isPinned || one.sortOrder - other.sortOrder || one.id - other.id;
  const nodes = new Map([...sites].sort(order).map((site) => [site.id, { key: `s${site.id}`, site, accounts: [], text: `${site.name} ${site.url} ${site.platform}`.toLowerCase() }]));
  for (const account of [...accounts].sort(order)) {
    const node = nodes.get(account.siteId);
    node?.accounts.push({ key: `a${account.id}`, account, site: node.site, text: `${node.text} ${nameOf(account)}`.toLowerCase() });
  }
  return [...nodes.values()];
}

function rowsOf(tree, text, show, folded) {
  const wanted = text.trim().toLowerCase();
  return tree.flatMap((node) => {
    const mine = node.accounts.filter((row) => (show !== "trouble" || isInTrouble(row.account)) && row.text.includes(wanted));
    if (!mine.length && (show === "trouble" || !node.text.includes(wanted))) return [];
    return show === "sites" || folded.has(node.key) ? [node] : [node, ...mine];
  });
}

const EVERYWHERE = ["refresh-all-account-runtime-health", "checkin-all", "sync-all-account-tokens", "model-availability-probe-all"];

const accountsOf = ({ account, accounts }) => (account ? [account] : accounts.map((row) => row.account));

export function Page() {
  const read = useRead("/api/accounts", { every: 15 });
  const { q: text = "", show } = useAddress().query;
  const [adding, setAdding] = useFilter("add");
  const { keys: folded, flip: fold } = useMarks();
  const { keys, setKeys, tick } = useMarks();
  const [login, setLogin] = useState(null);
  const tree = useMemo(() => (read.value ? treeOf(read.value) : []), [read.value]);
  const rows = useMemo(() => rowsOf(tree, text, show, folded), [tree, text, show, folded]);
  // Rows whose keys begin with `kind`: those that are ticked, all, and how to tick others of the kind.
  const marked = (kind) => {
    const all = rows.filter(({ key }) => key[0] === kind).map(({ key, site, account }) => ({ key, id: (account ?? site).id, name: account ? joined(site.name, nameOf(account)) : site.name }));
    return { all, after: read.reload, consequence: t("Their tokens and channels are deleted, too."), rows: all.filter(({ key }) => keys.has(key)), onAll: (some) => setKeys(new Set([...[...keys].filter((key) => key[0] !== kind), ...some.map(({ key }) => key)])) };
  };
  const columns = [
    [t("Site"), ({ site, account }) => (account ? html`<span class="child">${nameOf(account)}</span>`
      : html`<bdi>${site.name}</bdi> <span class="quiet less">${site.platform}</span>`)],
    [t("State"), ({ site, account }) => (account ? html`<${StateBadge} account=${account} />`
      : site.status === "active" ? html`<${Badge} kind="good">${t("on")}<//>` : html`<${Badge}>${t("off")}<//>`)],
    [t("Balance"), (row) => {
      const told = accountsOf(row).filter((one) => one.lastBalanceRefresh);
      return told.length ? money(told.reduce((sum, one) => sum + one.balance, 0)) : "–";
    }, "end"],
    [t("Spent today"), (row) => money(accountsOf(row).reduce((sum, one) => sum + one.todaySpend, 0)), "end less"],
    [t("Accounts"), ({ key, site, accounts: mine }) => mine && html`<button class="quiet"
      aria-expanded=${!folded.has(key)} onClick=${() => fold(key)}><span class="unseen">${site.name}</span> ${mine.length} ${folded.has(key) ? "▸" : "▾"}</button>`, "end less"],
    [html`<span class="unseen">${t("Select", "勾选")}</span>`, ({ key, site, account }) => tick(key, account ? nameOf(account) : site.name), "end"],
  ];
  const detail = ({ key, site, account }) => (account ? html`<${AccountDetail} key=${key} account=${account} site=${site} reload=${read.reload} />`
    : html`<${SiteDetail} key=${key} site=${site} reload=${read.reload} onAdd=${() => setAdding(String(site.id))} />`);
  const addingTo = read.value?.sites.find((site) => String(site.id) === adding);
  const opened = { onClose: () => setAdding(""), reload: read.reload };
  return html`
    <div class="filters">
      <${Filter} name="q" kind="search" label=${t("Search")} />
      <${Filter} name="show" label=${t("Show")} choices=${[["", t("Sites and accounts")], ["sites", t("Sites alone", "仅站点")], ["trouble", t("Needs attention")]]} />
      <button class="first" onClick=${() => setAdding("site")}>${t("Add a site")}</button>
      <button onClick=${() => setLogin({})}>${t("Connect by login")}</button>
      <button onClick=${() => setAdding("import")}>${t("Import connections")}</button>
    </div>
    <${Section} read=${read}>${() => html`
      <div class="tree"><${List} label=${t("Sites and accounts")} rows=${rows} all=${tree.flatMap((node) => [node, ...node.accounts])} columns=${columns} keyOf=${(row) => row.key} detail=${detail}
        empty=${tree.length ? t("Nothing matches the filter.") : t("No site yet. A site is a vendor's API, or a hub of the new-api family.", "还没有站点。站点是厂商接口，或 new-api 系列的中转站。")} /></div>
      <div class="stays"><${Batch} path="sites" ...${marked("s")} label=${(many) => count(many, "{count} site", "{count} sites", "{count} 个站点")}
        actions=${[["enableSystemProxy", t("Use the system's proxy")], ["disableSystemProxy", t("Without the system's proxy", "不用系统代理")]]} />
      <${Batch} path="accounts" ...${marked("a")} label=${(many) => count(many, "{count} account", "{count} accounts")}
        actions=${[["refreshBalance", t("Read balances")]]} /></div>`}<//>
    ${read.value?.accounts.some((one) => one.oauthProvider) && html`<${Connections} accounts=${read.value.accounts} text=${text} reload=${read.reload} onLogin=${setLogin} />`}
    <${Section} title=${t("For all sites", "所有站点")}>
      <div class="actions">${EVERYWHERE.map((kind) => html`<${StartTask} key=${kind} kind=${kind} accounts=${read.value?.accounts} after=${read.reload} />`)}</div>
      <${Fold} label=${t("Check-ins of all accounts", "所有账号的签到")}><${Checkins} /><//>
      <${Fold} label=${t("Announcements")}><${Announcements} sites=${read.value?.sites} /><//>
    <//>
    ${login && html`<${Login} connection=${login.accountId && login} onClose=${() => { setLogin(null); read.reload(); }} />`}
    ${adding === "import" && html`<${ImportConnections} ...${opened} />`}
    ${adding === "site" && html`<${AddSite} ...${opened} />`}
    ${addingTo && html`<${Dialog} wide title=${t("Add accounts to {name}", addingTo)} ...${opened}><${AddAccount} site=${addingTo} reload=${read.reload} /><//>`}`;
}
