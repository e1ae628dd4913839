// From an address to models and routes in one path: the site is detected, then keys are added or a session is opened.

import { useEffect, useState } from "../../vendor/htm-preact.js";
import { Failure, good, post, task } from "../../api.js";
import { useRead } from "../../data.js";
import { money } from "../../format.js";
import { Action, Dialog, Field, Form, Note, Tabs, html } from "../../parts.js";
import { explain, t } from "../../words.js";

const HUBS = ["new-api", "one-api", "one-hub", "done-hub", "veloera", "anyrouter", "sub2api"];
export const PLATFORMS = [...HUBS, "openai", "claude", "gemini", "codex", "gemini-cli", "antigravity", "cliproxyapi"].map((id) => [id, id]);
export const hasSessions = (platform) => HUBS.includes(platform);
// More verifications a minute the server refuses.
const VERIFIED = 20;

const partsOf = (text, between) => [...new Set(text.split(between).map((part) => part.trim()).filter(Boolean))];
const masked = (key) => (key.length > 12 ? `${key.slice(0, 4)}…${key.slice(-4)}` : "…");

// === the site ===

export function AddSite({ onClose, reload }) {
  const presets = useRead("/api/sites/presets").value?.presets ?? [];
  const blank = { url: "", name: "", platform: "", preset: "" };
  const [draft, setDraft] = useState(blank);
  const [found, setFound] = useState(null);
  const [site, setSite] = useState(null);
  const field = (name, label, more) => html`<${Field} label=${label} value=${draft[name]} onChange=${(value) => setDraft({ ...draft, [name]: value })} ...${more} />`;
  const preset = presets.find((one) => one.id === draft.preset);
  const choose = (id) => {
    const one = presets.find((known) => known.id === id);
    setFound(one && "preset");
    setDraft(one ? { url: one.defaultUrl, name: one.label, platform: one.platform, preset: id } : blank);
  };
  const detect = async () => {
    const { url = draft.url, platform = "", initializationPresetId: id = "" } = await post("/api/sites/detect", { url: draft.url });
    setFound(platform ? "detected" : "unknown");
    const name = draft.name || presets.find((one) => one.id === id)?.label || url.replace(/^\w+:\/\//, "").replace(/\/.*/, "");
    setDraft({ url, platform, preset: id, name });
  };
  const create = async () => {
    const { preset: initializationPresetId, ...body } = draft;
    setSite(good(await post("/api/sites", initializationPresetId ? { ...body, initializationPresetId } : body)));
    reload();
  };
  return html`<${Dialog} wide=${!!site} title=${site ? t("Add accounts to {name}", { name: site.name }) : t("Add a site")} onClose=${onClose}>
    ${site ? html`<${AddAccount} site=${site} preset=${preset} reload=${reload} />` : html`
      <${Field} kind="select" label=${t("Known provider")} value=${draft.preset} onChange=${choose}
        choices=${[["", t("none: by its address")], ...presets.map((one) => [one.id, one.label])]} />
      <${Form} act=${found ? create : detect} verb=${found ? t("Create the site") : t("Detect")}
        disabled=${!draft.url.trim() || (found && (!draft.name.trim() || !draft.platform))}>
        ${field("url", t("Address"), { autofocus: true, placeholder: "https://", onInput: (event) => { setFound(null); setDraft({ ...draft, url: event.target.value, preset: "" }); } })}
        ${found === "unknown" && html`<${Note} kind="warn">${t("What runs there did not tell: choose. Most hubs are new-api, most vendors speak as openai does.")}<//>`}
        ${found === "detected" && html`<${Note} kind="good">${t("Detected: {platform}", draft)}<//>`}
        ${found && html`${field("platform", t("Platform"), { kind: "select", choices: [["", "–"], ...PLATFORMS] })} ${field("name", t("Name"))}`}
      <//>`}
  <//>`;
}

// === accounts ===

// `account` is the one whose session is to be renewed; without it new accounts are made.
export function AddAccount({ site, preset, account, reload }) {
  const ways = [!account && ["keys", t("API keys")], ...(hasSessions(site.platform) ? [["login", t("Log in")], ["session", t("Session token")]] : [])].filter(Boolean);
  const [way, setWay] = useState(ways[0][0]);
  const [made, setMade] = useState(null);
  const Way = { keys: Keys, login: Login, session: Session }[way];
  if (made) {
    return html`<ul class="plain">${made.map((item, index) => html`<li key=${index}><bdi>${item.label}</bdi> ${item.status === "failed"
      ? html`<span class="bad-text">✗ <bdi>${item.message}</bdi></span>` : html`<${Progress} item=${item} onEnd=${reload} />`}</li>`)}</ul>
      <footer>${!account && html`<button onClick=${() => setMade(null)}>${t("Add more")}</button>`}
        <a class="button" href="/routes">${t("See the models")}</a> <a class="button first" href="/playground">${t("Try a model")}</a></footer>`;
  }
  return html`
    <${Tabs} label=${t("How")} items=${ways} value=${way} onChange=${setWay} />
    <${Way} key=${way} site=${site} preset=${preset} account=${account} onMade=${(items) => { setMade(items); reload(); }} />`;
}

// Several keys, one a line; each becomes an account of its own.
function Keys({ site, preset, onMade }) {
  const [text, setText] = useState("");
  const [username, setUsername] = useState("");
  const [skipModelFetch, setSkips] = useState(!!preset?.recommendedSkipModelFetch);
  const [models, setModels] = useState((preset?.recommendedModels ?? []).join("\n"));
  const [verdicts, setVerdicts] = useState([]);
  const keys = partsOf(text, /[\s,;，；]+/);
  const verify = async () => {
    setVerdicts([]);
    for (const key of keys.slice(0, VERIFIED)) {
      const answer = await post("/api/accounts/verify-token", { siteId: site.id, accessToken: key, credentialMode: "apikey" });
      setVerdicts((before) => [...before, { key, answer }]);
    }
  };
  const save = async () => {
    const answer = await post("/api/accounts", { siteId: site.id, credentialMode: "apikey", skipModelFetch, ...(username.trim() ? { username } : {}),
      ...(keys.length > 1 ? { accessTokens: keys } : { accessToken: keys[0] }) }, { timeoutMs: 300_000 }).catch((failure) => {
      // When every key was refused the answer is a refusal that names each.
      if (failure.value?.items) return failure.value;
      throw failure;
    });
    const items = (answer.items ?? [{ ...answer, index: 0, status: "created" }]).map((item) => ({ ...item, label: masked(keys[item.index]) }));
    const byHand = skipModelFetch ? partsOf(models, "\n") : [];
    for (const { id } of byHand.length ? items.filter(({ status }) => status === "created") : []) await post(`/api/accounts/${id}/models/manual`, { models: byHand });
    onMade(items);
  };
  return html`<${Form} act=${save} verb=${keys.length > 1 ? t("Add {count} accounts", { count: keys.length }) : t("Add the account")} disabled=${!keys.length}>
    <${Field} kind="area" label=${t("API keys")} hint=${t("One a line. Each becomes an account.")} value=${text} onChange=${setText} autocomplete="off" />
    <${Field} label=${t("Name, if you like")} value=${username} onChange=${setUsername} />
    <${Field} kind="switch" label=${t("Do not ask the site for its models")} hint=${t("For sites without a list of them. Nothing is verified then.")} value=${skipModelFetch} onChange=${setSkips} />
    ${skipModelFetch && html`<${Field} kind="area" label=${t("Models, one a line")} value=${models} onChange=${setModels} />`}
    <p><${Action} act=${verify} disabled=${!keys.length}>${t("Verify without saving")}<//></p>
    <ul class="plain">${verdicts.map(({ key, answer }) => html`<li key=${key}><code>${masked(key)}</code> <${Verdict} answer=${answer} /></li>`)}</ul>
  <//>`;
}

const SHIELD = () => t("A protection page answered in the site's place. Use an API key, or the session of a browser that passed it.");

// What the server found of a credential, in words for each case.
function Verdict({ answer: { success, tokenType, modelCount, models = [], userInfo, balance, needsUserId, invalidUserId, shieldBlocked, message } }) {
  const told = success ? tokenType === "apikey" ? t("Works: {count} models, such as {names}", { count: modelCount, names: models.slice(0, 3).join(", ") })
    : t("A session of {name}. Balance: {balance}", { name: userInfo?.username, balance: money(balance) })
    : needsUserId ? t("The site wants the number of the user as well. It stands in the site's personal settings.")
      : invalidUserId ? t("That number of the user does not belong to this credential.") : shieldBlocked ? SHIELD() : message;
  return html`<span class=${success ? "good-text" : "bad-text"} role="status">${success ? "✓" : "✗"} <bdi>${told}</bdi></span>`;
}

function Login({ site, account, onMade }) {
  const [username, setUsername] = useState(account?.username ?? "");
  const [password, setPassword] = useState("");
  const login = async () => {
    const answer = await post("/api/accounts/login", { siteId: site.id, username, password }, { timeoutMs: 120_000 });
    if (answer.shieldBlocked) throw new Failure("refused", SHIELD());
    onMade([{ label: good(answer).account.username }]);
  };
  return html`<${Form} act=${login} verb=${t("Log in")} disabled=${!username.trim() || !password}>
    <${Field} label=${t("Name or e-mail at the site")} value=${username} onChange=${setUsername} />
    <${Field} kind="password" label=${t("Password")} hint=${t("Kept encrypted, to log in again when the session ends.")} value=${password} onChange=${setPassword} />
  <//>`;
}

function Session({ site, account, onMade }) {
  const [draft, setDraft] = useState({ accessToken: "", platformUserId: "", refreshToken: "" });
  const [verdict, setVerdict] = useState(null);
  const field = (name, label, more) => html`<${Field} label=${label} value=${draft[name]} onChange=${(value) => setDraft({ ...draft, [name]: value })} ...${more} />`;
  const body = Object.fromEntries(Object.entries(draft).filter(([, value]) => value.trim()));
  if (body.platformUserId) body.platformUserId = Number(body.platformUserId);
  const asked = { ...body, siteId: site.id, credentialMode: "session" };
  const save = async () => {
    const answer = good(account ? await post(`/api/accounts/${account.id}/rebind-session`, body) : await post("/api/accounts", asked));
    onMade([{ label: (answer.account ?? answer).username, jobId: answer.jobId }]);
  };
  return html`<${Form} act=${save} verb=${account ? t("Renew the session") : t("Add the account")} disabled=${!body.accessToken}>
    ${field("accessToken", t("Session token or cookie"), { kind: "password" })}
    ${field("platformUserId", t("Number of the user, where the site wants it"), { inputmode: "numeric" })}
    ${site.platform === "sub2api" && field("refreshToken", t("Refresh token"), { kind: "password" })}
    <p><${Action} act=${async () => setVerdict(await post("/api/accounts/verify-token", asked))} disabled=${!body.accessToken}>${t("Verify without saving")}<//></p>
    ${verdict && html`<p><${Verdict} answer=${verdict} /></p>`}
  <//>`;
}

// Follows the task of a new account until its models and routes are there.
function Progress({ item: { jobId }, onEnd }) {
  const [state, setState] = useState(null);
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (!jobId) return undefined;
    const stop = new AbortController();
    task(jobId, setState, stop.signal).then(onEnd, (error) => { if (!stop.signal.aborted) setFailure(error); });
    return () => stop.abort();
  }, [jobId]);
  const { refresh, rebuild } = state?.result ?? {};
  const has = ["succeeded", "failed"].includes(state?.status);
  const why = failure ? explain(failure) : has && (state.status === "failed" ? state.error ?? state.message : refresh?.status === "failed" && refresh.errorMessage);
  if (why) return html`<span class="bad-text" role="status">✗ ${t("Stored, but its models could not be read:")} <bdi>${why}</bdi></span>`;
  if (jobId && !has) return html`<span role="status">${t("Stored. Its models are being read …")}</span>`;
  return html`<span class="good-text" role="status">✓ ${refresh
    ? t("{models} models, {routes} new routes", { models: refresh.modelCount, routes: rebuild?.createdRoutes ?? 0 }) : t("Stored.")}</span>`;
}
