// Accounts that are connected by a login in a browser: the login, and the connections with what is left of their limits.

import { useState } from "../../vendor/htm-preact.js";
import { get, good, post, remove } from "../../api.js";
import { useAction, useRead, useTicks } from "../../data.js";
import { Action, Badge, Copyable, Dialog, Failed, Field, Form, Note, Removal, Section, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { Windows } from "./account.js";

// The windows of an account as it is listed, or those of the snapshot of its limits.
function windowsOf(quota, account) {
  const names = { fiveHour: t("5 hours"), sevenDay: t("7 days") };
  if (account?.limitWindows?.length) return account.limitWindows;
  return Object.entries(quota?.windows ?? {}).filter(([, one]) => one.supported && one.used !== undefined)
    .map(([name, one]) => ({ name: names[name] ?? name, usedPercent: (100 * one.used) / (one.limit || 100), resetAt: one.resetAt }));
}

export function Connections({ accounts, reload, onLogin }) {
  const read = useRead("/api/oauth/connections?limit=200", { every: 30 });
  const after = () => { read.reload(); reload(); };
  return html`<${Section} title=${t("Connected by login")} read=${read}>${({ items }) => html`<div class="columns">${items.map((one) => {
    const name = html`<bdi>${one.email ?? one.username ?? one.accountId}</bdi>`;
    const path = `/api/oauth/connections/${one.accountId}`;
    return html`<article key=${one.accountId}>
      <h3>${name} <span class="quiet">${one.provider} ${one.planType}</span> <${Badge} kind=${one.status === "healthy" ? "good" : "bad"}>${one.status === "healthy" ? t("healthy") : t("unhealthy")}<//></h3>
      <p class="quiet">${count(one.modelCount, "{count} model", "{count} models")} <${Time} at=${one.lastModelSyncAt} /> <bdi class="bad-text">${one.lastModelSyncError}</bdi></p>
      <${Windows} windows=${windowsOf(one.quota, accounts.find(({ id }) => id === one.accountId))} />
      <div class="actions">
        <${Action} act=${async () => { good(await post(`${path}/quota/refresh`)); after(); }}>${t("Read the limits")}<//>
        <button onClick=${() => onLogin(one)}>${t("Log in again")}</button>
        <${Removal} label=${t("Disconnect")} title=${t("Disconnect this account?")} name=${name} consequence=${t("Their tokens and channels go with them.")} act=${() => remove(path)} after=${after} />
      </div></article>`;
  })}</div>`}<//>`;
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
    return html`<${Form} act=${start} verb=${t("Go on")} disabled=${!provider.enabled}>
      ${!connection && html`<${Field} kind="select" label=${t("Provider")} value=${provider.provider} onChange=${choose} choices=${providers.map((one) => [one.provider, one.label])} />`}
      ${provider.notice && html`<${Note} kind="warn"><bdi>${provider.notice}</bdi><//>`}
      ${!provider.enabled && html`<${Note} kind="bad">${t("Not set up at this server.")} ${missing && t("Set in its environment: {missing}", { missing })}<//>`}
      ${provider.requiresProjectId && !connection && html`<${Field} label=${t("Project of Google Cloud, if you have one")} value=${projectId} onChange=${setProject} />`}<//>`;
  };
  return html`<${Dialog} title=${t("Connect by login")} onClose=${onClose}>
    ${started ? html`<${Waiting} started=${started} onClose=${onClose} onAgain=${() => setStarted(null)} />`
      : read.failure?.status === 404 ? html`<${Note} kind="warn">${t("This server has no logins in a browser.")}<//>` : html`<${Section} class="plain" read=${read}>${body}<//>`}<//>`;
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
  if (session.status === "success") return end("good", t("Connected. Its models and routes are there."), t("Close"), onClose);
  if (isOver) return end("bad", session.error ?? t("This login is over: it took longer than ten minutes, or the server was started anew."), t("Begin anew"), onAgain);
  return html`
    ${instructions.sshTunnelCommand && html`<p>${t("If this browser is not on the server's computer, run this here first:")}</p><${Copyable} text=${instructions.sshTunnelCommand} label="SSH" />`}
    <p><a class="button first" href=${authorizationUrl} target="_blank" rel="noopener noreferrer">${t("Open the provider's page in a new tab")}</a> <span role="status">${t("Waiting until you agreed there …")}</span></p>
    <${Failed} failure=${poll.failure} />
    <${Form} act=${paste} verb=${t("Hand it in")} disabled=${!callbackUrl.trim()}>
      <${Field} label=${t("Or paste the address at which the tab ended")} placeholder=${instructions.redirectUri} value=${callbackUrl} onChange=${setPasted} /><//>`;
}
