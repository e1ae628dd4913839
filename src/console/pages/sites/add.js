// Adding sites and accounts.

import { Failure, get, good, post, remove, send, task } from "../../api.js";
import { useAction, useRead, useTicks } from "../../data.js";
import { money, number, percent } from "../../format.js";
import {
  Action, Badge, Bar, Copyable, Countdown, Dialog, Failed, Field, Fold, Form, Healthy, InDialog, Kept, Note, Pairs, Pick, Removal, Section, Tabs, Time, html, partsOf, portions,
  useDraft, useEffect, useState
} from "../../parts.js";
import { coded, count, explain, t } from "../../words.js";

const HUBS = ["new-api", "one-api", "one-hub", "done-hub", "veloera", "anyrouter", "sub2api"];
export const PLATFORMS = [...HUBS, "openai", "claude", "gemini", "codex", "gemini-cli", "antigravity", "cliproxyapi"].map((id) => [id, id]);
export const hasSessions = (platform) => HUBS.includes(platform);
// The number of keys to verify; the server refuses more in a minute.
const VERIFIED = 20;

const masked = (key) => (key.length > 12 ? `${key.slice(0, 4)}…${key.slice(-4)}` : "…");

export function AddSite({ onClose, reload }) {
  const read = useRead("/api/sites/presets");
  const presets = read.value?.presets ?? [];
  const { values, field, replace } = useDraft({ url: "", name: "", platform: "", initializationPresetId: "" });
  const [found, setFound] = useState(null);
  const [site, setSite] = useState(null);
  const preset = presets.find((one) => one.id === values.initializationPresetId);
  const choose = (id) => {
    const one = presets.find((known) => known.id === id);
    setFound(one && "preset");
    replace(one ? { url: one.defaultUrl, name: one.label, platform: one.platform, initializationPresetId: id } : {});
  };
  const detect = async () => {
    const { url = values.url, platform = "", initializationPresetId = "" } = await post("/api/sites/detect", { url: values.url });
    setFound(platform ? "detected" : "unknown");
    replace({ url, platform, initializationPresetId, name: values.name || url.replace(/^\w+:\/\//, "").replace(/\/.*/, "") });
  };
  const create = async () => { setSite(good(await post("/api/sites", values))); reload(); };
  return html`<${Dialog} wide=${!!site} title=${site ? t("Add accounts to {name}", site) : t("Add a site")} onClose=${onClose}>
    ${site ? html`<${AddAccount} site=${site} preset=${preset} reload=${reload} />` : html`
      <${Field} label=${t("Known provider", "已知厂商")} value=${preset?.id ?? ""} onChange=${choose} from=${[read]} choices=${[["", "–"], ...presets.map((one) => [one.id, one.label])]}
        hint=${preset && html`<bdi>${preset.description}</bdi> ${preset.docsUrl && html`<a href=${preset.docsUrl} target="_blank" rel="noopener noreferrer">${t("Documentation", "文档")}</a>`}`} />
      <${Form} act=${found ? create : detect} verb=${found ? t("Create the site", "创建站点") : t("Detect", "识别")} disabled=${!values.url.trim() || (found && !(values.name.trim() && values.platform))}>
        ${field("url", t("Address"), { autofocus: true, placeholder: "https://", onInput: (event) => { setFound(null); replace({ url: event.target.value }); } })}
        ${found === "unknown" && html`<${Note} kind="warn">${t("Not recognised, or no answer: correct the address, or choose. Most hubs are new-api, most vendors openai.", "未能识别或无人应答：请检查地址或自行选择。多数中转站是 new-api，多数厂商兼容 openai。")}<//>`}
        ${found === "detected" && html`<${Note} kind="good">${t("Detected: {platform}", "已识别：{platform}", values)}<//>`}
        ${found && [field("platform", t("Platform"), { choices: [["", "–"], ...PLATFORMS] }), field("name", t("Name"))]}
      <//>`}<//>`;
}

// Adds accounts to `site`; if `account` is given, renews its session instead.
export function AddAccount({ site, preset, account, reload }) {
  const ways = [...(account ? [] : [["keys", t("API keys")]]), ...(hasSessions(site.platform) ? [["login", t("Log in")], ["session", t("Session token", "会话令牌")]] : [])];
  const [way, setWay] = useState(ways[0][0]);
  const [made, setMade] = useState(null);
  const Way = { keys: Keys, login: PasswordLogin, session: Session }[way];
  if (!made) {
    return html`<${Tabs} label=${t("Credential", "凭据")} items=${ways} value=${way} onChange=${setWay} />
      <${Way} key=${way} site=${site} preset=${preset} account=${account} onMade=${(items) => { setMade(items); reload(); }} />`;
  }
  return html`<ul class="plain">${made.map((item, index) => html`<li key=${index}><bdi>${item.label}</bdi> ${item.status === "failed"
    ? html`<${Mark}>${item.message}<//>` : html`<${Progress} ...${item} onEnd=${reload} />`}</li>`)}</ul>
    <footer>${!account && html`<button onClick=${() => setMade(null)}>${t("Add accounts")}</button>`}
      <a class="button" href="/routes">${t("Models")}</a><a class="button first" href="/playground">${t("Try a model")}</a></footer>`;
}

function Keys({ site, preset, onMade }) {
  const { values, field } = useDraft({ text: "", username: "", skipModelFetch: !!preset?.recommendedSkipModelFetch, models: (preset?.recommendedModels ?? []).join("\n") });
  const [verdicts, setVerdicts] = useState([]);
  const { username, skipModelFetch } = values;
  const keys = [...new Set(partsOf(values.text, /[\s,;，；]+/))];
  const body = { siteId: site.id, credentialMode: "apikey" };
  const verify = async () => {
    setVerdicts([]);
    for (const key of keys.slice(0, VERIFIED)) {
      const answer = await post("/api/accounts/verify-token", { ...body, accessToken: key });
      setVerdicts((before) => [...before, { key, answer }]);
    }
  };
  const save = async () => {
    const sent = { ...body, skipModelFetch, username, ...(keys.length > 1 ? { accessTokens: keys } : { accessToken: keys[0] }) };
    const answer = await post("/api/accounts", sent, { timeoutMs: 300_000 }).catch((failure) => {
      // If every key was refused, the failure has the result of each.
      if (failure.value?.items) return failure.value;
      throw failure;
    });
    const items = answer.items ?? [{ ...answer, index: 0, status: "created" }];
    const models = skipModelFetch ? partsOf(values.models, "\n") : [];
    // The accounts exist by now, so a failure is told with its account.
    for (const item of models.length ? items.filter(({ status }) => status === "created") : []) {
      await post(`/api/accounts/${item.id}/models/manual`, { models }).catch((failure) => { item.read = { errorMessage: explain(failure) }; });
    }
    onMade(items.map((item) => ({ ...item, label: masked(keys[item.index]) })));
  };
  return html`<${Form} act=${save} verb=${keys.length > 1 ? t("Add {count} accounts", "添加 {count} 个账号", { count: keys.length }) : t("Add the account")} disabled=${!keys.length}>
    ${field("text", t("API keys"), { kind: "area", hint: t("One per line. Each becomes an account.", "每行一个，各成一个账号。"), autocomplete: "off" })}
    ${field("username", t("Name, if you like"))}
    ${field("skipModelFetch", t("Do not ask the site for its models", "不向站点查询模型"), { kind: "switch", hint: t("Then nothing is verified.", "此时不做验证。") })}
    ${skipModelFetch && field("models", t("Models, one per line", "模型，每行一个"), { kind: "area" })}
    <${Action} act=${verify} disabled=${!keys.length}>${t("Verify without saving")}<//>
    <ul class="plain">${verdicts.map(({ key, answer }) => html`<li key=${key}><code>${masked(key)}</code> <${Verdict} answer=${answer} /></li>`)}
      ${verdicts[VERIFIED - 1] && keys[VERIFIED] && html`<li>${t("{count} more, not verified", "另有 {count} 个未验证", { count: keys.length - VERIFIED })}</li>`}</ul>
  <//>`;
}

const SHIELD = () => t("A protection page answered instead of the site. Use an API key, or the session of a browser that passed it.", "回应的是防护页面而不是站点。请使用 API 密钥，或已通过防护的浏览器会话。");

const Mark = ({ good: isGood, children }) => html`<span class=${isGood ? "good-text" : "bad-text"} role="status">${isGood ? "✓" : "✗"} <bdi>${children}</bdi></span>`;

function Verdict({ answer: { success, tokenType, modelCount, models = [], userInfo, balance, needsUserId, invalidUserId, shieldBlocked, message } }) {
  return html`<${Mark} good=${success}>${success ? tokenType === "apikey" ? t("Works: {count} models, such as {names}", "可用：{count} 个模型，如 {names}", { count: modelCount, names: models.slice(0, 3).join(", ") })
    : t("A session of {name}. Balance: {balance}", "{name} 的会话，余额：{balance}", { name: userInfo?.username, balance: money(balance) })
    : needsUserId ? t("The site also needs the user id: see its personal settings.", "站点还需要用户编号，见其个人设置。")
      : invalidUserId ? t("This user id does not belong to this credential.", "该用户编号与此凭据不符。") : shieldBlocked ? SHIELD() : message}<//>`;
}

// A login, and the renewal of a session, read the models before they answer.
async function readOf({ id, username }) {
  const { length: modelCount } = (await get(`/api/accounts/${id}/models`)).models;
  return { id, label: username, read: modelCount ? { modelCount, status: "success" } : { errorCode: "empty_models", errorMessage: "the site gave no models" } };
}

function PasswordLogin({ site, account, onMade }) {
  const { values, field } = useDraft({ username: account?.username ?? "", password: "" });
  const login = async () => {
    const answer = await post("/api/accounts/login", { siteId: site.id, ...values }, { timeoutMs: 120_000 });
    if (answer.shieldBlocked) throw new Failure("refused", SHIELD());
    onMade([await readOf(good(answer).account)]);
  };
  return html`<${Form} act=${login} verb=${t("Log in")} disabled=${!values.username.trim() || !values.password}>
    ${field("username", t("Name or e-mail at the site", "站点用户名或邮箱"))}
    ${field("password", t("Password"), { kind: "password", hint: t("Kept encrypted, to log in again when the session ends.", "加密保存，会话失效时用于重新登录。") })}<//>`;
}

function Session({ site, account, onMade }) {
  const { changes: { platformUserId: number, tokenExpiresAt: end, ...typed }, field } = useDraft({});
  const [verdict, setVerdict] = useState(null);
  const body = { ...typed, ...(number && { platformUserId: Number(number) }), ...(end && { tokenExpiresAt: new Date(end).toISOString() }) };
  const asked = { ...body, siteId: site.id, credentialMode: "session" };
  const save = async () => {
    const answer = good(account ? await post(`/api/accounts/${account.id}/rebind-session`, body) : await post("/api/accounts", asked));
    onMade([account ? await readOf(answer.account) : { ...answer, label: answer.username }]);
  };
  return html`<${Form} act=${save} verb=${account ? t("Renew the session", "更新会话") : t("Add the account")} disabled=${!body.accessToken}>
    ${field("accessToken", t("Session token or cookie", "会话令牌或 Cookie"), { kind: "password" })}
    ${field("platformUserId", t("User id, if the site needs it", "用户编号（站点需要时）"), { inputmode: "numeric" })}
    ${site.platform === "sub2api" && [field("refreshToken", t("Refresh token", "刷新令牌"), { kind: "password" }), field("tokenExpiresAt", t("Expires"), { kind: "datetime-local" })]}
    ${!account && html`<${Fold} label=${t("What the site does not tell", "站点未给出的内容")}>
      ${field("username", t("Name, if you like"))} ${field("apiToken", t("API key"), { kind: "password", hint: t("Optional") })}<//>`}
    <${Action} act=${async () => setVerdict(await post("/api/accounts/verify-token", asked))} disabled=${!body.accessToken}>${t("Verify without saving")}<//>
    ${verdict && html`<p><${Verdict} answer=${verdict} /></p>`}<//>`;
}

function Progress({ id, jobId, read, onEnd }) {
  const [state, setState] = useState(jobId ? null : { status: "succeeded" });
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (!jobId) return undefined;
    const stop = new AbortController();
    task(jobId, setState, stop.signal).then(onEnd, (error) => { if (!stop.signal.aborted) setFailure(error); });
    return () => stop.abort();
  }, [jobId]);
  const { coverage, refresh = coverage?.refresh[0] ?? read } = state?.result ?? {};
  const why = failure ? explain(failure) : state?.status === "failed" ? state.error ?? state.message : refresh && refresh.status !== "success" && coded(refresh.errorCode, refresh.errorMessage, refresh.errorMessage);
  if (why) {
    return html`<${Mark}>${t("Stored, but its models could not be read:", "已保存，但无法读取模型：")} ${why}<//>
      <p class="hint">${t("Log in again, or read them again or add them by hand:", "请重新登录、重新读取或手动添加：")} <a href=${`/sites?open=a${id}`}>${t("Open")}</a></p>`;
  }
  if (state?.status !== "succeeded") return html`<span role="status">${t("Stored. Its models are being read …", "已保存，正在读取模型…")}</span>`;
  return html`<${Mark} good>${refresh ? count(refresh.modelCount, "{count} model", "{count} models") : t("Stored.", "已保存。")}<//>`;
}

// === connections by login ===

// The number of accounts in one request; the server refuses more.
const ASKED = 100;

// The number of connections that are drawn at first: each has counting clocks.
const DRAWN = 30;

const titleOf = (one) => one.email ?? one.username ?? String(one.accountId);

export const Windows = ({ windows }) => html`<${Pairs} of=${windows.map(({ name, usedPercent: used, limit, remaining, resetAt }) => [name,
  html`<${Bar} value=${used} kind=${used >= 90 ? "bad" : used >= 70 ? "warn" : ""} label=${`${name}: ${percent(used)}`} /> ${percent(used)} ${remaining !== undefined && limit !== undefined && `· ${t("{remaining} of {limit} left", "剩余 {remaining} / {limit}", { remaining: number(remaining, 2), limit: number(limit, 2) })}`}
    ${" "}${resetAt && html`· ${t("resets in", "重置倒计时")} <${Countdown} until=${resetAt} />`}`])} />`;

function windowsOf(quota, account) {
  const names = { fiveHour: t("5 hours", "5 小时"), sevenDay: t("7 days") };
  if (account?.limitWindows?.length) return account.limitWindows;
  return Object.entries(quota?.windows ?? {}).filter(([, one]) => one.supported && one.used !== undefined)
    .map(([name, one]) => ({ name: names[name] ?? name, usedPercent: (100 * one.used) / (one.limit || 100), resetAt: one.resetAt }));
}

// Reads all connections, as many at once as the server gives.
async function allConnections(path) {
  const items = [];
  for (;;) {
    const page = await get(`${path}?limit=200&offset=${items.length}`);
    items.push(...page.items);
    if (!page.items.length || items.length >= page.total) return { items };
  }
}

// `text` is what is searched for on the page.
export function Connections({ accounts, text, reload, onLogin }) {
  const [most, setMost] = useState(DRAWN);
  const wanted = text.trim().toLowerCase();
  const read = useRead("/api/oauth/connections", { every: 30, read: allConnections });
  const after = () => { read.reload(); reload(); };
  // Why a reading failed stands at the connection.
  const limits = (accounts, label) => html`<${Action} done=${t("Done")} act=${async () => {
    let failed = 0;
    for (const some of portions(accounts, ASKED)) {
      failed += (await post("/api/oauth/connections/quota/refresh-batch", { accountIds: some.map((one) => one.accountId) }, { timeoutMs: 300_000 })).failed;
    }
    after();
    if (failed) throw new Failure("refused", t("{count} failed", { count: failed }));
  }}>${label}<//>`;
  const actions = read.value && limits(read.value.items, t("Read all limits", "读取全部限额"));
  const statuses = { expired: t("expired"), disabled: t("off"), unhealthy: t("unhealthy") };
  const draw = (one) => {
    const name = html`<bdi>${titleOf(one)}</bdi>`;
    const path = `/api/oauth/connections/${one.accountId}`;
    return html`<article key=${one.accountId}>
      <h3>${name} <span class="quiet">${one.provider} ${one.planType}</span> <${Healthy} is=${one.status === "healthy"} /> ${statuses[one.accountStatus] && html`<${Badge} kind="warn">${statuses[one.accountStatus]}<//>`}</h3>
      <p class="quiet"><bdi>${[one.accountKey, one.projectId].filter(Boolean).join(" · ")}</bdi></p>
      <p class="quiet">${count(one.modelCount, "{count} model", "{count} models")} ${one.lastModelSyncAt && html`<${Time} at=${one.lastModelSyncAt} />`} · ${count(one.routeChannelCount, "{count} channel", "{count} channels", "{count} 个通道")}
        ${[[t("Plan until", "套餐至"), one.quota?.subscription?.activeUntil], [t("Token until", "令牌有效至"), one.tokenExpiresAt], [t("Limits reset", "限额重置于"), one.quota?.lastLimitResetAt]]
          .map(([label, at]) => at && html` · ${label} <${Time} at=${at} />`)} ${one.routeUnit && html`<${Badge}><bdi>${one.routeUnit.name}</bdi><//>`} <bdi>${one.quota?.providerMessage}</bdi> <bdi class="bad-text">${one.lastModelSyncError} ${one.quota?.lastError}</bdi></p>
      <${Windows} windows=${windowsOf(one.quota, accounts.find(({ id }) => id === one.accountId))} />
      <div class="actions">
        ${limits([one], t("Read the limits", "读取限额"))}
        <button onClick=${() => onLogin(one)}>${t("Log in again")}</button>
        <${Removal} label=${t("Disconnect", "断开")} title=${t("Disconnect this account?", "断开此账号？")} name=${name} consequence=${t("Their tokens and channels are deleted, too.")} act=${() => remove(path)} after=${after} />
      </div>
      <${Fold} label=${t("Settings")}><${OwnProxy} connection=${one} path=${path} after=${after} /><//></article>`;
  };
  const fits = (one) => [titleOf(one), one.provider, one.site?.name, one.accountKey].join("\n").toLowerCase().includes(wanted);
  const fitting = read.value?.items.filter(fits) ?? [];
  return html`<${Section} title=${t("Connected by login", "通过登录连接的账号")} read=${read} actions=${actions}>${({ items }) => html`
    <div class="columns">${fitting.slice(0, most).map(draw)}</div>
    ${fitting.length > most && html`<button onClick=${() => setMost(most + 100)}>${t("Show more")}</button>`}
    <${Fold} label=${t("Several accounts as one", "多账号合一")}><${Units} items=${items} after=${after} /><//>`}<//>`;
}

export const ProxyField = ({ stored, values, set }) => html`<${Kept} label=${t("Proxy", "代理")} stored=${stored} empty="socks5://host:1080"
  value=${values.proxyUrl} onChange=${(value) => set("proxyUrl", value)} />`;

function OwnProxy({ connection, path, after }) {
  const draft = useDraft({ proxyUrl: "", useSystemProxy: connection.useSystemProxy });
  const { changes, values, field, set } = draft;
  return html`<${Form} draft=${draft} act=${() => send("PATCH", `${path}/proxy`, { body: changes })} after=${after}>
    <${ProxyField} stored=${connection.proxyUrl} values=${values} set=${set} />
    ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}<//>`;
}

function EditUnit({ unit: { id, name, strategy }, ways, onDone }) {
  const draft = useDraft({ name, strategy });
  return html`<${Form} draft=${draft} act=${() => send("PATCH", `/api/oauth/route-units/${id}`, { body: draft.changes })} after=${onDone}>
    ${draft.field("name", t("Name"))} ${draft.field("strategy", t("Strategy"), { choices: ways })}<//>`;
}

// Route units: accounts of one provider that share one channel in each route, and how the next account is chosen.
function Units({ items, after }) {
  const draft = useDraft({ accountIds: [], name: "", strategy: "round_robin" });
  const { values, field, set } = draft;
  const units = [...new Map(items.filter((one) => one.routeUnit).map((one) => [one.routeUnit.id, { ...one.routeUnit, provider: one.provider }])).values()];
  const ways = [["round_robin", t("In turn", "轮流")], ["stick_until_unavailable", t("One until it fails", "用到失效为止")]];
  return html`<p class="hint">${t("A model then has one channel for all of them, with one probability.", "模型对它们只有一个通道，概率合一。")}</p>
    <ul class="plain">${units.map((unit) => html`<li key=${unit.id}><strong><bdi>${unit.name}</bdi></strong> <span class="quiet">${unit.provider} · ${count(unit.memberCount, "{count} account", "{count} accounts")} · ${new Map(ways).get(unit.strategy)}</span>
      <div class="actions"><${InDialog} class="quiet" label=${t("Edit")} title=${unit.name} after=${after}>${(done) => html`<${EditUnit} unit=${unit} ways=${ways} onDone=${done} />`}<//>
        <${Removal} label=${t("Separate them", "拆开")} title=${t("Separate these accounts?", "拆开这些账号？")} name=${unit.name}
          consequence=${t("Each gets channels of its own again.", "各自重新有自己的通道。")} act=${() => remove(`/api/oauth/route-units/${unit.id}`)} after=${after} /></div></li>`)}</ul>
    <${Form} draft=${draft} act=${() => post("/api/oauth/route-units", values)} after=${after} verb=${t("Create")} disabled=${values.accountIds.length < 2 || !values.name.trim()}>
      <${Pick} label=${t("Accounts")} chosen=${values.accountIds} onChange=${(ids) => set("accountIds", ids)}
        options=${items.filter((one) => !one.routeUnit).map((one) => ({ key: one.accountId, text: `${one.provider} / ${titleOf(one)}` }))} />
      ${field("name", t("Name"))} ${field("strategy", t("Strategy"), { choices: ways })}<//>`;
}

export function ImportConnections({ onClose, reload }) {
  const { values, changes: { text = "", ...proxy }, field, set } = useDraft({ text: "", proxyUrl: "", useSystemProxy: false });
  const [items, setItems] = useState([]);
  const act = async () => {
    const data = [].concat(JSON.parse(text));
    setItems([]);
    try {
      for (const some of portions(data, ASKED)) {
        const { items: more } = await post("/api/oauth/import", { items: some, ...proxy }, { timeoutMs: 300_000 });
        setItems((before) => [...before, ...more]);
      }
    } finally { reload(); }
  };
  return html`<${Dialog} title=${t("Import connections")} onClose=${onClose}>
    <${Form} act=${act} verb=${t("Import")} disabled=${!text.trim()}>
      ${field("text", "JSON", { kind: "area", class: "mono", hint: t("One exported connection, or a list of them.", "导出的一个连接，或其列表。") })}
      <${ProxyField} values=${values} set=${set} />
      ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}
      <div role="status"><ul class="plain">${items.map((one, at) => html`<li key=${at}><span class=${one.status === "failed" ? "bad-text" : "good-text"}>${one.status === "failed" ? "✗" : "✓"} <bdi>${one.name}</bdi></span> ${one.provider} <bdi>${one.message}</bdi></li>`)}</ul></div>
    <//><//>`;
}

export function Login({ connection, onClose }) {
  const read = useRead("/api/oauth/providers");
  const [chosen, choose] = useState(connection?.provider);
  const { values, changes, field, set } = useDraft({ projectId: "", proxyUrl: "", useSystemProxy: false });
  const [started, setStarted] = useState(null);
  const body = ({ providers, defaults }) => {
    const provider = providers.find((one) => one.provider === chosen) ?? providers.find((one) => one.enabled) ?? providers[0];
    const missing = (provider.missingVariables ?? []).join(", ");
    const start = async () => setStarted(await (connection ? post(`/api/oauth/connections/${connection.accountId}/rebind`)
      : post(`/api/oauth/providers/${provider.provider}/start`, changes)));
    return html`<${Form} act=${start} verb=${t("Continue", "继续")} disabled=${!provider.enabled}>
      ${!connection && html`<${Field} label=${t("Provider", "提供商")} value=${provider.provider} onChange=${choose} choices=${providers.map((one) => [one.provider, one.label])} />`}
      ${provider.notice && html`<${Note} kind="warn"><bdi>${provider.notice}</bdi><//>`}
      ${!provider.enabled && html`<${Note} kind="bad">${t("Not set up at this server.", "此服务器尚未配置。")} ${missing && t("Set in the server's environment: {missing}", "需设置环境变量：{missing}", { missing })}<//>`}
      ${!connection && html`${provider.requiresProjectId && field("projectId", t("Project of Google Cloud, if you have one", "Google Cloud 项目（如有）"))} <${ProxyField} values=${values} set=${set} />
        ${defaults?.systemProxyConfigured && field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}`}<//>`;
  };
  return html`<${Dialog} title=${t("Connect by login")} onClose=${onClose}>
    ${started ? html`<${Waiting} started=${started} onClose=${onClose} onAgain=${() => setStarted(null)} />`
      : read.failure?.status === 404 ? html`<${Note} kind="warn">${t("This server does not support logins in a browser.", "此服务器不支持浏览器登录。")}<//>` : html`<${Section} class="plain" read=${read}>${body}<//>`}<//>`;
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
  if (session.status === "success") return end("good", t("Connected. Its models and routes are ready.", "已连接，模型和路由已就绪。"), t("Close"), onClose);
  if (isOver) return end("bad", session.error ?? t("This login has expired: ten minutes have passed, or the server was restarted.", "此次登录已失效：超过十分钟，或服务器已重启。"), t("Start over"), onAgain);
  return html`
    ${instructions.sshTunnelCommand && html`<p>${t("If the server is another computer, run this here first:", "如果服务器在另一台电脑，请先在这里运行：")}</p><${Copyable} text=${instructions.sshTunnelCommand} label="SSH" />`}
    <p><a class="button first" href=${authorizationUrl} target="_blank" rel="noopener noreferrer">${t("Open the provider's page in a new tab", "在新标签页打开提供商页面")}</a> <span role="status">${t("Waiting for your consent there …", "等待您在那里同意…")}</span></p>
    <${Failed} of=${poll} />
    <${Form} act=${paste} verb=${t("Submit", "提交")} disabled=${!callbackUrl.trim()}>
      <${Field} label=${t("Or paste the address where the tab ended", "或粘贴标签页最后停留的地址")} placeholder=${instructions.redirectUri} value=${callbackUrl} onChange=${setPasted} /><//>`;
}
