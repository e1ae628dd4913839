// Accounts that are connected by a login in a browser: their limits, the login itself, several as one, and what was exported elsewhere.

import { useState } from "../../vendor/htm-preact.js";
import { get, good, post, remove, send } from "../../api.js";
import { useAction, useRead, useTicks } from "../../data.js";
import { percent } from "../../format.js";
import {
  Action, Badge, Bar, Copyable, Countdown, Dialog, Failed, Field, Fold, Form, Kept, Note, Pairs, Pick, Removal, Section, Time, html, useDraft
} from "../../parts.js";
import { count, t } from "../../words.js";

const nameOf = (one) => one.email ?? one.username ?? String(one.accountId);

// How much of a provider's limits is used, and when they begin anew.
export const Windows = ({ windows }) => html`<${Pairs} of=${windows.map(({ name, usedPercent: used, resetAt }) => [name,
  html`<${Bar} value=${used} kind=${used >= 90 ? "bad" : used >= 70 ? "warn" : ""} label=${`${name}: ${percent(used)}`} /> ${percent(used)} ${resetAt && html`· ${t("anew in", "重置倒计时")} <${Countdown} until=${resetAt} />`}`])} />`;

// The windows of an account as it is listed, or those of the snapshot of its limits.
function windowsOf(quota, account) {
  const names = { fiveHour: t("5 hours", "5 小时"), sevenDay: t("7 days") };
  if (account?.limitWindows?.length) return account.limitWindows;
  return Object.entries(quota?.windows ?? {}).filter(([, one]) => one.supported && one.used !== undefined)
    .map(([name, one]) => ({ name: names[name] ?? name, usedPercent: (100 * one.used) / (one.limit || 100), resetAt: one.resetAt }));
}

export function Connections({ accounts, reload, onLogin }) {
  const read = useRead("/api/oauth/connections?limit=200", { every: 30 });
  const after = () => { read.reload(); reload(); };
  const all = async () => {
    const { items } = await post("/api/oauth/connections/quota/refresh-batch", { accountIds: read.value.items.map((one) => one.accountId) }, { timeoutMs: 300_000 });
    after();
    return items.filter((one) => !one.success).length;
  };
  const actions = html`<${Action} act=${all} done=${(failed) => (failed > 0 ? count(failed, "{count} failed", "{count} failed") : t("Done"))}>${t("Read all limits", "读取全部限额")}<//>`;
  return html`<${Section} title=${t("Connected by login", "通过登录连接的账号")} read=${read} actions=${actions}>${({ items }) => html`<div class="columns">${items.map((one) => {
    const name = html`<bdi>${nameOf(one)}</bdi>`;
    const path = `/api/oauth/connections/${one.accountId}`;
    return html`<article key=${one.accountId}>
      <h3>${name} <span class="quiet">${one.provider} ${one.planType}</span> <${Badge} kind=${one.status === "healthy" ? "good" : "bad"}>${one.status === "healthy" ? t("healthy") : t("unhealthy")}<//></h3>
      <p class="quiet">${count(one.modelCount, "{count} model", "{count} models")} ${one.lastModelSyncAt && html`<${Time} at=${one.lastModelSyncAt} />`} ${one.routeUnit && html`<${Badge}><bdi>${one.routeUnit.name}</bdi><//>`} <bdi class="bad-text">${one.lastModelSyncError}</bdi></p>
      <${Windows} windows=${windowsOf(one.quota, accounts.find(({ id }) => id === one.accountId))} />
      <div class="actions">
        <${Action} act=${async () => { good(await post(`${path}/quota/refresh`)); after(); }}>${t("Read the limits", "读取限额")}<//>
        <button onClick=${() => onLogin(one)}>${t("Log in again")}</button>
        <${Removal} label=${t("Disconnect", "断开")} title=${t("Disconnect this account?", "断开此账号？")} name=${name} consequence=${t("Their tokens and channels go with them.")} act=${() => remove(path)} after=${after} />
      </div>
      <${Fold} label=${t("Settings")}><${OwnProxy} connection=${one} path=${path} after=${after} /><//></article>`;
  })}</div><${Fold} label=${t("Several accounts as one", "多账号合一")}><${Units} items=${items} after=${after} /><//>`}<//>`;
}

export const ProxyField = ({ stored, values, set }) => html`<${Kept} label=${t("Proxy", "代理")} stored=${stored} masked=${stored} empty="socks5://host:1080"
  value=${values.proxyUrl} onChange=${(value) => set("proxyUrl", value)} />`;

function OwnProxy({ connection, path, after }) {
  const { changes, values, field, set, clear } = useDraft({ proxyUrl: "", useSystemProxy: connection.useSystemProxy });
  const save = async () => { await send("PATCH", `${path}/proxy`, { body: changes }); clear(); after(); };
  return html`<${Form} act=${save} verb=${t("Save")} disabled=${!Object.keys(changes).length}>
    <${ProxyField} stored=${connection.proxyUrl} values=${values} set=${set} />
    ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}<//>`;
}

// Accounts of one provider that are one channel of each route: what they have in common, and how the next one is picked.
function Units({ items, after }) {
  const { values, field, set, clear } = useDraft({ accountIds: [], name: "", strategy: "round_robin" });
  const units = [...new Map(items.filter((one) => one.routeUnit).map((one) => [one.routeUnit.id, { ...one.routeUnit, provider: one.provider }])).values()];
  const ways = [["round_robin", t("In turn", "轮流")], ["stick_until_unavailable", t("One until it fails", "用到失效为止")]];
  const make = async () => { await post("/api/oauth/route-units", values); clear(); after(); };
  const change = async (id, strategy) => { await send("PATCH", `/api/oauth/route-units/${id}`, { body: { strategy } }); after(); };
  return html`<p class="hint">${t("A model then has one channel for all of them, with one probability.", "模型对它们只有一个通道，概率合一。")}</p>
    <ul class="plain">${units.map((unit) => html`<li key=${unit.id}><strong><bdi>${unit.name}</bdi></strong> <span class="quiet">${unit.provider} · ${count(unit.memberCount, "{count} account", "{count} accounts")}</span>
      <div class="actions">${ways.map(([way, label]) => html`<${Action} key=${way} class=${way === unit.strategy ? "first" : "quiet"} disabled=${way === unit.strategy} act=${() => change(unit.id, way)}>${label}<//>`)}
        <${Removal} label=${t("Part them", "拆开")} title=${t("Part these accounts?", "拆开这些账号？")} name=${unit.name}
          consequence=${t("Each gets channels of its own again.", "各自重新有自己的通道。")} act=${() => remove(`/api/oauth/route-units/${unit.id}`)} after=${after} /></div></li>`)}</ul>
    <${Form} act=${make} verb=${t("Create")} disabled=${values.accountIds.length < 2 || !values.name.trim()}>
      <${Pick} label=${t("Accounts")} chosen=${values.accountIds} onChange=${(ids) => set("accountIds", ids)}
        options=${items.filter((one) => !one.routeUnit).map((one) => ({ key: one.accountId, text: `${one.provider} / ${nameOf(one)}` }))} />
      ${field("name", t("Name"))} ${field("strategy", t("Strategy"), { kind: "select", choices: ways })}<//>`;
}

// One exported connection, or several.
export function ImportConnections({ onClose, reload }) {
  const [text, setText] = useState("");
  const [items, setItems] = useState([]);
  const act = async () => {
    const data = JSON.parse(text);
    setItems((await post("/api/oauth/import", Array.isArray(data) ? { items: data } : { data }, { timeoutMs: 300_000 })).items);
    reload();
  };
  return html`<${Dialog} title=${t("Import connections")} onClose=${onClose}>
    <${Form} act=${act} verb=${t("Import")} disabled=${!text.trim()}>
      <${Field} kind="area" class="mono" label="JSON" hint=${t("What was exported of one connection, or a list of such.", "导出的一个连接，或其列表。")} value=${text} onChange=${setText} />
      <div role="status"><ul class="plain">${items.map((one, at) => html`<li key=${at}><span class=${one.status === "failed" ? "bad-text" : "good-text"}>${one.status === "failed" ? "✗" : "✓"} <bdi>${one.name}</bdi></span> ${one.provider} <bdi>${one.message}</bdi></li>`)}</ul></div>
    <//><//>`;
}

// One login: the provider is chosen, its page opened in a tab of its own, and its answer awaited or pasted.
export function Login({ connection, onClose }) {
  const read = useRead("/api/oauth/providers");
  const [chosen, choose] = useState(connection?.provider);
  const [projectId, setProject] = useState("");
  const [started, setStarted] = useState(null);
  const body = ({ providers }) => {
    const provider = providers.find((one) => one.provider === chosen) ?? providers.find((one) => one.enabled) ?? providers[0];
    const missing = (provider.missingVariables ?? []).join(", ");
    const start = async () => setStarted(await (connection ? post(`/api/oauth/connections/${connection.accountId}/rebind`)
      : post(`/api/oauth/providers/${provider.provider}/start`, projectId.trim() ? { projectId } : {})));
    return html`<${Form} act=${start} verb=${t("Go on", "继续")} disabled=${!provider.enabled}>
      ${!connection && html`<${Field} kind="select" label=${t("Provider", "提供商")} value=${provider.provider} onChange=${choose} choices=${providers.map((one) => [one.provider, one.label])} />`}
      ${provider.notice && html`<${Note} kind="warn"><bdi>${provider.notice}</bdi><//>`}
      ${!provider.enabled && html`<${Note} kind="bad">${t("Not set up at this server.", "此服务器尚未配置。")} ${missing && t("Set in its environment: {missing}", "需设置环境变量：{missing}", { missing })}<//>`}
      ${provider.requiresProjectId && !connection && html`<${Field} label=${t("Project of Google Cloud, if you have one", "Google Cloud 项目（如有）")} value=${projectId} onChange=${setProject} />`}<//>`;
  };
  return html`<${Dialog} title=${t("Connect by login")} onClose=${onClose}>
    ${started ? html`<${Waiting} started=${started} onClose=${onClose} onAgain=${() => setStarted(null)} />`
      : read.failure?.status === 404 ? html`<${Note} kind="warn">${t("This server has no logins in a browser.", "此服务器不支持浏览器登录。")}<//>` : html`<${Section} class="plain" read=${read}>${body}<//>`}<//>`;
}

function Waiting({ started: { state, authorizationUrl, instructions = {} }, onClose, onAgain }) {
  const path = `/api/oauth/sessions/${encodeURIComponent(state)}`;
  const [session, setSession] = useState({ status: "pending" });
  const [callbackUrl, setPasted] = useState("");
  const poll = useAction(async () => setSession(await get(path)));
  const isOver = session.status === "error" || poll.failure?.status === 404;
  useTicks(isOver || session.status === "success" ? 0 : 2, poll.run);
  const paste = async () => { await post(`${path}/manual-callback`, { callbackUrl }, { timeoutMs: 120_000 }); await poll.run(); };
  const end = (kind, text, label, then) => html`<${Note} kind=${kind}><bdi>${text}</bdi><//><footer><button class="first" onClick=${then}>${label}</button></footer>`;
  if (session.status === "success") return end("good", t("Connected. Its models and routes are there.", "已连接，模型和路由已就绪。"), t("Close"), onClose);
  if (isOver) return end("bad", session.error ?? t("This login is over: it took longer than ten minutes, or the server was started anew.", "此次登录已失效：超过十分钟，或服务器已重启。"), t("Begin anew"), onAgain);
  return html`
    ${instructions.sshTunnelCommand && html`<p>${t("If this browser is not on the server's computer, run this here first:", "如果浏览器不在服务器所在的电脑，请先在这里运行：")}</p><${Copyable} text=${instructions.sshTunnelCommand} label="SSH" />`}
    <p><a class="button first" href=${authorizationUrl} target="_blank" rel="noopener noreferrer">${t("Open the provider's page in a new tab", "在新标签页打开提供商页面")}</a> <span role="status">${t("Waiting until you agreed there …", "等待您在那里同意…")}</span></p>
    <${Failed} failure=${poll.failure} />
    <${Form} act=${paste} verb=${t("Hand it in", "提交")} disabled=${!callbackUrl.trim()}>
      <${Field} label=${t("Or paste the address at which the tab ended", "或粘贴标签页最后停留的地址")} placeholder=${instructions.redirectUri} value=${callbackUrl} onChange=${setPasted} /><//>`;
}
