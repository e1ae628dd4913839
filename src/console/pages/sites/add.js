// From an address to models and routes in one path: the site is detected, then keys are added or a session is opened.

import { useEffect, useState } from "../../vendor/htm-preact.js";
import { good, post, task } from "../../api.js";
import { useAction, useRead } from "../../data.js";
import { money } from "../../format.js";
import { Action, Dialog, Failed, Field, Form, Note, Tabs, html } from "../../parts.js";
import { count, explain, t } from "../../words.js";

const HUBS = ["new-api", "one-api", "one-hub", "done-hub", "veloera", "anyrouter", "sub2api"];
export const PLATFORMS = [...HUBS, "openai", "claude", "gemini", "codex", "gemini-cli", "antigravity", "cliproxyapi"].map((id) => [id, id]);
export const hasSessions = (platform) => HUBS.includes(platform);
// More verifications a minute the server refuses.
const VERIFIED = 20;

const keysOf = (text) => [...new Set(text.split(/[\s,;，；]+/).filter(Boolean))];
const linesOf = (text) => [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))];
const masked = (key) => (key.length > 12 ? `${key.slice(0, 4)}…${key.slice(-4)}` : "…");

// === the site ===

export function AddSite({ onClose, reload }) {
  const presets = useRead("/api/sites/presets").value?.presets ?? [];
  const [draft, setDraft] = useState({ url: "", name: "", platform: "", preset: "" });
  const [found, setFound] = useState(null);
  const [site, setSite] = useState(null);
  const set = (name) => (value) => setDraft((before) => ({ ...before, [name]: value }));
  const preset = presets.find((one) => one.id === draft.preset);
  const hostOf = (url) => { try { return new URL(url).hostname; } catch { return url; } };
  const choose = (id) => {
    const one = presets.find((known) => known.id === id);
    setFound(one ? "preset" : null);
    setDraft(one ? { url: one.defaultUrl, name: one.label, platform: one.platform, preset: id } : { url: "", name: "", platform: "", preset: "" });
  };
  const detect = async () => {
    const said = await post("/api/sites/detect", { url: draft.url });
    const known = presets.find((one) => one.id === said.initializationPresetId);
    setFound(said.platform ? "detected" : "unknown");
    setDraft((before) => ({ ...before, url: said.url ?? before.url, platform: said.platform ?? before.platform, preset: known?.id ?? "",
      name: before.name || known?.label || hostOf(said.url ?? before.url) }));
  };
  const create = async () => {
    const body = { name: draft.name, url: draft.url, platform: draft.platform };
    if (draft.preset) body.initializationPresetId = draft.preset;
    setSite(good(await post("/api/sites", body)));
    reload();
  };
  if (site) {
    return html`<${Dialog} wide title=${t("Add accounts to {name}", { name: site.name })} onClose=${onClose}>
      <${AddAccount} site=${site} preset=${preset} reload=${reload} /><//>`;
  }
  return html`<${Dialog} title=${t("Add a site")} onClose=${onClose}>
    <${Field} kind="select" label=${t("Known provider")} value=${draft.preset} onChange=${choose}
      choices=${[["", t("none: by its address")], ...presets.map((one) => [one.id, one.label])]} />
    <${Form} act=${found ? create : detect} verb=${found ? t("Create the site") : t("Detect")} onCancel=${onClose}
      disabled=${!draft.url.trim() || (found && (!draft.name.trim() || !draft.platform))}>
      <${Field} label=${t("Address")} hint=${t("As a browser or a client would be told, such as https://api.example.com/v1.")} value=${draft.url}
        onChange=${(url) => { setFound(null); set("url")(url); }} autofocus inputmode="url" />
      ${found === "unknown" && html`<${Note} kind="warn">${t("What runs there did not tell. Choose the platform; most hubs are new-api, most vendors speak as openai does.")}<//>`}
      ${found === "detected" && html`<${Note} kind="good">${t("Detected: {platform}", { platform: draft.platform })}<//>`}
      ${found && html`
        <${Field} kind="select" label=${t("Platform")} value=${draft.platform} onChange=${set("platform")} choices=${[["", t("choose …")], ...PLATFORMS]} />
        <${Field} label=${t("Name")} value=${draft.name} onChange=${set("name")} />`}
    <//>
  <//>`;
}

// === accounts ===

// `account` is the one whose session is to be renewed; without it new accounts are made.
export function AddAccount({ site, preset, account, reload }) {
  const ways = account ? [] : [["keys", t("API keys")]];
  if (hasSessions(site.platform)) ways.push(["login", t("Log in")], ["session", t("Session token")]);
  const [way, setWay] = useState(ways[0][0]);
  const [made, setMade] = useState(null);
  const finish = (items) => { setMade(items); reload(); };
  if (made) return html`<${Made} items=${made} reload=${reload} onMore=${account ? null : () => setMade(null)} />`;
  const Way = { keys: Keys, login: Login, session: Session }[way];
  return html`
    ${ways.length > 1 && html`<${Tabs} label=${t("How")} items=${ways} value=${way} onChange=${setWay} />`}
    <${Way} key=${way} site=${site} preset=${preset} account=${account} onMade=${finish} />`;
}

// Several keys, one a line; each becomes an account of its own.
function Keys({ site, preset, onMade }) {
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [isBlind, setBlind] = useState(!!preset?.recommendedSkipModelFetch);
  const [models, setModels] = useState((preset?.recommendedModels ?? []).join("\n"));
  const [verdicts, setVerdicts] = useState([]);
  const keys = keysOf(text);
  const verify = async () => {
    setVerdicts([]);
    for (const key of keys.slice(0, VERIFIED)) {
      const answer = await post("/api/accounts/verify-token", { siteId: site.id, accessToken: key, credentialMode: "apikey" });
      setVerdicts((before) => [...before, { key, answer }]);
    }
  };
  const save = async () => {
    const body = { siteId: site.id, credentialMode: "apikey", skipModelFetch: isBlind };
    if (name.trim()) body.username = name.trim();
    const sent = keys.length > 1 ? { ...body, accessTokens: keys } : { ...body, accessToken: keys[0] };
    const answer = await post("/api/accounts", sent, { timeoutMs: 300_000 }).catch((failure) => {
      if (failure.value?.items) return failure.value;
      throw failure;
    });
    const items = (answer.items ?? [{ ...answer, index: 0, status: "created" }]).map((item) => ({ ...item, label: masked(keys[item.index]) }));
    const by_hand = linesOf(models);
    if (isBlind && by_hand.length) {
      for (const item of items.filter(({ status }) => status === "created")) {
        await post(`/api/accounts/${item.id}/models/manual`, { models: by_hand });
        item.byHand = by_hand.length;
      }
    }
    onMade(items);
  };
  const area = { autocomplete: "off", autocapitalize: "off" };
  return html`<${Form} act=${save} verb=${keys.length > 1 ? t("Add {count} accounts", { count: keys.length }) : t("Add the account")} disabled=${!keys.length}>
    <${Field} kind="area" class="secret" label=${t("API keys")} hint=${t("One a line. Each becomes an account.")} value=${text} onChange=${setText} ...${area} />
    <${Field} label=${t("Name, if you like")} value=${name} onChange=${setName} />
    <${Field} kind="switch" label=${t("Do not ask the site which models it has")} hint=${t("For sites without a list of models. Nothing is verified then.")}
      value=${isBlind} onChange=${setBlind} />
    ${isBlind && html`<${Field} kind="area" label=${t("Models, one a line")} value=${models} onChange=${setModels} />`}
    <p><${Action} act=${verify} disabled=${!keys.length}>${t("Verify without saving")}<//></p>
    <ul class="plain">${verdicts.map(({ key, answer }) => html`<li key=${key}><code>${masked(key)}</code> <${Verdict} answer=${answer} /></li>`)}</ul>
    ${keys.length > VERIFIED && html`<p class="hint">${t("The first {count} are verified here; saving verifies them all.", { count: VERIFIED })}</p>`}
  <//>`;
}

// What the server found of a credential, in words for each case.
function Verdict({ answer }) {
  const said = answer.success
    ? answer.tokenType === "apikey"
      ? t("Works: {count} models, such as {names}", { count: answer.modelCount, names: (answer.models ?? []).slice(0, 3).join(", ") })
      : t("A session of {name}. Balance: {balance}", { name: answer.userInfo?.username ?? "–", balance: money(answer.balance) })
    : answer.needsUserId ? t("The site wants the number of the user as well. It stands in the site's personal settings.")
      : answer.invalidUserId ? t("That number of the user does not belong to this credential.")
        : answer.shieldBlocked ? t("A protection page answered in the site's place. Use an API key, or the session of a browser that passed it.")
          : answer.message;
  return html`<span class=${answer.success ? "good-text" : "bad-text"} role="status"><span aria-hidden="true">${answer.success ? "✓" : "✗"}</span> <bdi>${said}</bdi></span>`;
}

function Login({ site, account, onMade }) {
  const [username, setUsername] = useState(account?.username ?? "");
  const [password, setPassword] = useState("");
  const login = async () => {
    const answer = await post("/api/accounts/login", { siteId: site.id, username, password }, { timeoutMs: 120_000 });
    if (answer.shieldBlocked) return { answer };
    const { account: row, tokenCount } = good(answer);
    return onMade([{ status: "created", id: row.id, label: row.username, tokenCount }]);
  };
  const action = useAction(login);
  return html`<form onSubmit=${(event) => { event.preventDefault(); action.run(); }}>
    <${Field} label=${t("Name or e-mail at the site")} value=${username} onChange=${setUsername} />
    <${Field} kind="password" label=${t("Password")} hint=${t("Kept encrypted, to log in again when the session ends.")} value=${password} onChange=${setPassword} />
    <${Failed} failure=${action.failure} />
    ${action.done?.answer && html`<p><${Verdict} answer=${action.done.answer} /></p>`}
    <footer><button class="first" disabled=${!username.trim() || !password || action.isRunning} aria-busy=${action.isRunning ? "true" : "false"}>${t("Log in")}</button></footer>
  </form>`;
}

function Session({ site, account, onMade }) {
  const [token, setToken] = useState("");
  const [number, setNumber] = useState("");
  const [refresh, setRefresh] = useState("");
  const [verdict, setVerdict] = useState(null);
  const body = { accessToken: token.trim() };
  if (number.trim()) body.platformUserId = Number(number);
  if (refresh.trim()) body.refreshToken = refresh.trim();
  const verify = async () => setVerdict(await post("/api/accounts/verify-token", { ...body, siteId: site.id, credentialMode: "session" }));
  const save = async () => {
    const answer = good(account ? await post(`/api/accounts/${account.id}/rebind-session`, body)
      : await post("/api/accounts", { ...body, siteId: site.id, credentialMode: "session" }));
    onMade([{ status: "created", id: answer.account?.id ?? answer.id, label: answer.account?.username ?? answer.username, jobId: answer.jobId }]);
  };
  return html`<${Form} act=${save} verb=${account ? t("Renew the session") : t("Add the account")} disabled=${!token.trim()}>
    <${Field} kind="password" label=${t("Session token or cookie")} hint=${t("From the site's settings (“access token”), or from the browser that is signed in there.")}
      value=${token} onChange=${setToken} />
    <${Field} label=${t("Number of the user, where the site wants it")} inputmode="numeric" value=${number} onChange=${setNumber} />
    ${site.platform === "sub2api" && html`<${Field} kind="password" label=${t("Refresh token")} value=${refresh} onChange=${setRefresh} />`}
    <p><${Action} act=${verify} disabled=${!token.trim()}>${t("Verify without saving")}<//></p>
    ${verdict && html`<p><${Verdict} answer=${verdict} /></p>`}
  <//>`;
}

// === what became of it ===

function Made({ items, reload, onMore }) {
  return html`
    <ul class="plain">${items.map((item) => html`<li key=${item.index ?? 0}><bdi>${item.label ?? ""}</bdi> ${item.status === "failed"
      ? html`<span class="bad-text">✗ <bdi>${item.message}</bdi></span>` : html`<${Progress} item=${item} onEnd=${reload} />`}</li>`)}</ul>
    <footer>
      ${onMore && html`<button onClick=${onMore}>${t("Add more")}</button>`}
      <a class="button" href="/routes">${t("See the models")}</a>
      <a class="button first" href="/playground">${t("Try one")}</a>
    </footer>`;
}

// Follows the task of a new account until its models and routes are there.
function Progress({ item, onEnd }) {
  const [state, setState] = useState(null);
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (!item.jobId) return undefined;
    const stop = new AbortController();
    task(item.jobId, setState, stop.signal).then(onEnd, (error) => { if (!stop.signal.aborted) setFailure(error); });
    return () => stop.abort();
  }, [item.jobId]);
  if (failure) return html`<span class="bad-text">${explain(failure)}</span>`;
  if (!item.jobId) {
    const told = item.tokenCount !== undefined ? count(item.tokenCount, "{count} token found", "{count} tokens found")
      : count(item.byHand ?? 0, "{count} model added by hand", "{count} models added by hand");
    return html`<span class="good-text" role="status">✓ ${t("Stored.")} ${told}</span>`;
  }
  if (!state || !["succeeded", "failed"].includes(state.status)) return html`<span role="status">${t("Stored. Its models are being read …")}</span>`;
  const { refresh, rebuild } = state.result ?? {};
  if (state.status === "failed" || refresh?.status === "failed") {
    return html`<span class="bad-text" role="status">✗ ${t("Stored, but its models could not be read:")} <bdi>${refresh?.errorMessage || state.error || state.message}</bdi></span>`;
  }
  return html`<span class="good-text" role="status">✓ ${refresh
    ? t("{models} models, {routes} new routes", { models: refresh.modelCount, routes: rebuild?.createdRoutes ?? 0 }) : html`<bdi>${state.message}</bdi>`}</span>`;
}
