// From an address to models and routes in one path: the site is detected, then keys are added or a session is opened.

import { useEffect, useState } from "../../vendor/htm-preact.js";
import { Failure, good, post, task } from "../../api.js";
import { useRead } from "../../data.js";
import { money } from "../../format.js";
import { Action, Dialog, Field, Form, Note, Tabs, html, useDraft } from "../../parts.js";
import { coded, explain, t } from "../../words.js";

const HUBS = ["new-api", "one-api", "one-hub", "done-hub", "veloera", "anyrouter", "sub2api"];
export const PLATFORMS = [...HUBS, "openai", "claude", "gemini", "codex", "gemini-cli", "antigravity", "cliproxyapi"].map((id) => [id, id]);
export const hasSessions = (platform) => HUBS.includes(platform);
// More verifications a minute the server refuses.
const VERIFIED = 20;

const partsOf = (text, between) => [...new Set(text.split(between).map((part) => part.trim()).filter(Boolean))];
const masked = (key) => (key.length > 12 ? `${key.slice(0, 4)}…${key.slice(-4)}` : "…");

export function AddSite({ onClose, reload }) {
  const presets = useRead("/api/sites/presets").value?.presets ?? [];
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
      <${Field} kind="select" label=${t("Known provider", "已知厂商")} value=${preset?.id ?? ""} onChange=${choose} choices=${[["", "–"], ...presets.map((one) => [one.id, one.label])]} />
      <${Form} act=${found ? create : detect} verb=${found ? t("Create the site", "创建站点") : t("Detect", "识别")} disabled=${!values.url.trim() || (found && !(values.name.trim() && values.platform))}>
        ${field("url", t("Address"), { autofocus: true, placeholder: "https://", onInput: (event) => { setFound(null); replace({ url: event.target.value }); } })}
        ${found === "unknown" && html`<${Note} kind="warn">${t("What runs there did not tell: choose. Most hubs are new-api, most vendors speak as openai does.", "未能识别，请选择：多数中转站是 new-api，多数厂商兼容 openai。")}<//>`}
        ${found === "detected" && html`<${Note} kind="good">${t("Detected: {platform}", "已识别：{platform}", values)}<//>`}
        ${found && [field("platform", t("Platform"), { kind: "select", choices: [["", "–"], ...PLATFORMS] }), field("name", t("Name"))]}
      <//>`}<//>`;
}

// `account` is the one whose session is to be renewed; without it new accounts are made.
export function AddAccount({ site, preset, account, reload }) {
  const ways = [...(account ? [] : [["keys", t("API keys")]]), ...(hasSessions(site.platform) ? [["login", t("Log in")], ["session", t("Session token", "会话令牌")]] : [])];
  const [way, setWay] = useState(ways[0][0]);
  const [made, setMade] = useState(null);
  const Way = { keys: Keys, login: Login, session: Session }[way];
  if (!made) {
    return html`<${Tabs} label=${t("Credential", "凭据")} items=${ways} value=${way} onChange=${setWay} />
      <${Way} key=${way} site=${site} preset=${preset} account=${account} onMade=${(items) => { setMade(items); reload(); }} />`;
  }
  return html`<ul class="plain">${made.map((item, index) => html`<li key=${index}><bdi>${item.label}</bdi> ${item.status === "failed"
    ? html`<${Mark}>${item.message}<//>` : html`<${Progress} jobId=${item.jobId} onEnd=${reload} />`}</li>`)}</ul>
    <footer>${!account && html`<button onClick=${() => setMade(null)}>${t("Add accounts")}</button>`}
      <a class="button" href="/routes">${t("Models")}</a><a class="button first" href="/playground">${t("Try a model")}</a></footer>`;
}

// Several keys, one a line; each becomes an account of its own.
function Keys({ site, preset, onMade }) {
  const { values, field } = useDraft({ text: "", username: "", skipModelFetch: !!preset?.recommendedSkipModelFetch, models: (preset?.recommendedModels ?? []).join("\n") });
  const [verdicts, setVerdicts] = useState([]);
  const { username, skipModelFetch } = values;
  const keys = partsOf(values.text, /[\s,;，；]+/);
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
      // When every key was refused the refusal names each.
      if (failure.value?.items) return failure.value;
      throw failure;
    });
    const items = answer.items ?? [{ ...answer, index: 0, status: "created" }];
    const models = skipModelFetch ? partsOf(values.models, "\n") : [];
    for (const { id } of models.length ? items.filter(({ status }) => status === "created") : []) await post(`/api/accounts/${id}/models/manual`, { models });
    onMade(items.map((item) => ({ ...item, label: masked(keys[item.index]) })));
  };
  return html`<${Form} act=${save} verb=${keys.length > 1 ? t("Add {count} accounts", "添加 {count} 个账号", { count: keys.length }) : t("Add the account")} disabled=${!keys.length}>
    ${field("text", t("API keys"), { kind: "area", hint: t("One a line. Each becomes an account.", "每行一个，各成一个账号。"), autocomplete: "off" })}
    ${field("username", t("Name, if you like", "名称（可不填）"))}
    ${field("skipModelFetch", t("Do not ask the site for its models", "不向站点查询模型"), { kind: "switch", hint: t("Nothing is verified then.", "此时不做验证。") })}
    ${skipModelFetch && field("models", t("Models, one a line", "模型，每行一个"), { kind: "area" })}
    <${Action} act=${verify} disabled=${!keys.length}>${t("Verify without saving")}<//>
    <ul class="plain">${verdicts.map(({ key, answer }) => html`<li key=${key}><code>${masked(key)}</code> <${Verdict} answer=${answer} /></li>`)}</ul>
  <//>`;
}

const SHIELD = () => t("A protection page answered in the site's place. Use an API key, or the session of a browser that passed it.", "回应的是防护页面而不是站点。请使用 API 密钥，或已通过防护的浏览器会话。");

const Mark = ({ good: isGood, children }) => html`<span class=${isGood ? "good-text" : "bad-text"} role="status">${isGood ? "✓" : "✗"} <bdi>${children}</bdi></span>`;

// What the server found of a credential, in words for each case.
function Verdict({ answer: { success, tokenType, modelCount, models = [], userInfo, balance, needsUserId, invalidUserId, shieldBlocked, message } }) {
  return html`<${Mark} good=${success}>${success ? tokenType === "apikey" ? t("Works: {count} models, such as {names}", "可用：{count} 个模型，如 {names}", { count: modelCount, names: models.slice(0, 3).join(", ") })
    : t("A session of {name}. Balance: {balance}", "{name} 的会话，余额：{balance}", { name: userInfo?.username, balance: money(balance) })
    : needsUserId ? t("The site wants the number of the user as well. It stands in the site's personal settings.", "站点还需要用户编号，可在站点的个人设置中找到。")
      : invalidUserId ? t("That number of the user does not belong to this credential.", "该用户编号与此凭据不符。") : shieldBlocked ? SHIELD() : message}<//>`;
}

function Login({ site, account, onMade }) {
  const { values, field } = useDraft({ username: account?.username ?? "", password: "" });
  const login = async () => {
    const answer = await post("/api/accounts/login", { siteId: site.id, ...values }, { timeoutMs: 120_000 });
    if (answer.shieldBlocked) throw new Failure("refused", SHIELD());
    onMade([{ label: good(answer).account.username }]);
  };
  return html`<${Form} act=${login} verb=${t("Log in")} disabled=${!values.username.trim() || !values.password}>
    ${field("username", t("Name or e-mail at the site", "站点用户名或邮箱"))}
    ${field("password", t("Password"), { kind: "password", hint: t("Kept encrypted, to log in again when the session ends.", "加密保存，会话失效时用于重新登录。") })}<//>`;
}

function Session({ site, account, onMade }) {
  const { changes: { platformUserId: number, ...typed }, field } = useDraft({});
  const [verdict, setVerdict] = useState(null);
  const body = { ...typed, ...(number ? { platformUserId: Number(number) } : {}) };
  const asked = { ...body, siteId: site.id, credentialMode: "session" };
  const save = async () => {
    const answer = good(account ? await post(`/api/accounts/${account.id}/rebind-session`, body) : await post("/api/accounts", asked));
    onMade([{ label: (answer.account ?? answer).username, jobId: answer.jobId }]);
  };
  return html`<${Form} act=${save} verb=${account ? t("Renew the session", "更新会话") : t("Add the account")} disabled=${!body.accessToken}>
    ${field("accessToken", t("Session token or cookie", "会话令牌或 Cookie"), { kind: "password" })}
    ${field("platformUserId", t("Number of the user, where the site wants it", "用户编号（站点需要时）"), { inputmode: "numeric" })}
    ${site.platform === "sub2api" && field("refreshToken", t("Refresh token", "刷新令牌"), { kind: "password" })}
    <${Action} act=${async () => setVerdict(await post("/api/accounts/verify-token", asked))} disabled=${!body.accessToken}>${t("Verify without saving")}<//>
    ${verdict && html`<p><${Verdict} answer=${verdict} /></p>`}<//>`;
}

// Follows the task of a new account until its models and routes are there.
function Progress({ jobId, onEnd }) {
  const [state, setState] = useState(jobId ? null : { status: "succeeded" });
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (!jobId) return undefined;
    const stop = new AbortController();
    task(jobId, setState, stop.signal).then(onEnd, (error) => { if (!stop.signal.aborted) setFailure(error); });
    return () => stop.abort();
  }, [jobId]);
  const { refresh, rebuild } = state?.result ?? {};
  const why = failure ? explain(failure) : state?.status === "failed" ? state.error ?? state.message : refresh?.status === "failed" && coded(refresh.errorCode, refresh.errorMessage, refresh.errorMessage);
  if (why) return html`<${Mark}>${t("Stored, but its models could not be read:", "已保存，但无法读取模型：")} ${why}<//>`;
  if (state?.status !== "succeeded") return html`<span role="status">${t("Stored. Its models are being read …", "已保存，正在读取模型…")}</span>`;
  return html`<${Mark} good>${refresh ? t("{models} models, {routes} new routes", "{models} 个模型，新增 {routes} 条路由", { models: refresh.modelCount, routes: rebuild?.createdRoutes ?? 0 }) : t("Stored.", "已保存。")}<//>`;
}
