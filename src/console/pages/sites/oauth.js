// Accounts that are connected by a login in a browser: the login, and the connections with what is left of their limits.

import { useState } from "../../vendor/htm-preact.js";
import { get, good, post, remove } from "../../api.js";
import { useAction, useRead, useTicks } from "../../data.js";
import { Action, Badge, Copyable, Dialog, Failed, Field, Form, Note, Removal, Section, Time, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { Windows } from "./account.js";

// The windows of an account as it is listed, or those of the snapshot of its limits.
function windowsOf(connection, account) {
  if (account?.limitWindows?.length) return account.limitWindows;
  const names = { fiveHour: t("5 hours"), sevenDay: t("7 days") };
  return Object.entries(connection.quota?.windows ?? {}).filter(([, one]) => one.supported && one.used !== undefined)
    .map(([name, one]) => ({ name: names[name] ?? name, usedPercent: (100 * one.used) / (one.limit || 100), resetAt: one.resetAt }));
}

export function Connections({ accounts, reload, onLogin }) {
  const read = useRead("/api/oauth/connections?limit=200", { every: 30 });
  const after = () => { read.reload(); reload(); };
  return html`<${Section} title=${t("Connected by login")} read=${read}>
    ${({ items }) => html`<div class="columns">${items.map((one) => {
      const account = accounts?.find((row) => row.id === one.accountId);
      return html`<article key=${one.accountId}>
        <h3><bdi>${one.email ?? one.username ?? one.accountId}</bdi> <span class="quiet">${one.provider} ${one.planType ?? ""}</span>
          <${Badge} kind=${one.status === "healthy" ? "good" : "bad"}>${one.status === "healthy" ? t("healthy") : t("needs a new login")}<//></h3>
        <p class="quiet">${count(one.modelCount, "{count} model", "{count} models")} · ${count(one.routeChannelCount, "{count} channel", "{count} channels")} · <${Time} at=${one.lastModelSyncAt} /></p>
        ${one.lastModelSyncError && html`<p class="bad-text"><bdi>${one.lastModelSyncError}</bdi></p>`}
        <${Windows} windows=${windowsOf(one, account)} />
        <div class="actions">
          <${Action} act=${async () => { good(await post(`/api/oauth/connections/${one.accountId}/quota/refresh`)); after(); }}>${t("Read the limits")}<//>
          <button onClick=${() => onLogin(one)}>${t("Log in again")}</button>
          <a class="button" href="/sites?open=a${one.accountId}">${t("Open")}</a>
          <${Removal} label=${t("Disconnect")} title=${t("Disconnect this account?")} name=${html`<bdi>${one.email ?? one.username}</bdi>`}
            consequence=${t("Its tokens and channels go with it.")} act=${() => remove(`/api/oauth/connections/${one.accountId}`)} after=${after} />
        </div></article>`;
    })}</div>`}<//>`;
}

// One login: the provider is chosen, its page opened in a tab of its own, and its answer awaited or pasted.
export function Login({ connection, onClose }) {
  const read = useRead("/api/oauth/providers");
  const providers = read.value?.providers ?? [];
  const [chosen, setId] = useState(connection?.provider);
  const id = chosen ?? (providers.find((one) => one.enabled) ?? providers[0])?.provider;
  const [project, setProject] = useState("");
  const [started, setStarted] = useState(null);
  const provider = providers.find((one) => one.provider === id);
  const missing = [provider?.missing ?? provider?.missingVariables ?? []].flat();
  const start = async () => setStarted(await (connection ? post(`/api/oauth/connections/${connection.accountId}/rebind`)
    : post(`/api/oauth/providers/${encodeURIComponent(id)}/start`, project.trim() ? { projectId: project.trim() } : {})));
  const body = () => (started ? html`<${Waiting} started=${started} onClose=${onClose} onAgain=${() => setStarted(null)} />` : html`<${Form} act=${start} verb=${t("Go on")} disabled=${!provider?.enabled}>
      ${!connection && html`<${Field} kind="select" label=${t("Provider")} value=${id} onChange=${setId} choices=${providers.map((one) => [one.provider, one.label])} />`}
      ${provider?.notice && html`<${Note} kind="warn"><bdi>${provider.notice}</bdi><//>`}
      ${provider && !provider.enabled && html`<${Note} kind="bad">${missing.length
        ? t("Not set up: {names} must be set in the server's environment.", { names: missing.join(", ") }) : t("Not set up at this server.")}<//>`}
      ${provider?.requiresProjectId && !connection && html`<${Field} label=${t("Project of Google Cloud, if you have one")} value=${project} onChange=${setProject} />`}
    <//>`);
  return html`<${Dialog} title=${connection ? t("Log in again") : t("Connect by login")} onClose=${onClose}>
    ${read.failure?.status === 404 ? html`<${Note} kind="warn">${t("This server has no logins in a browser.")}<//>` : html`<${Section} class="plain" read=${read}>${body}<//>`}<//>`;
}

function Waiting({ started, onClose, onAgain }) {
  const { state, authorizationUrl, instructions = {} } = started;
  const [session, setSession] = useState({ status: "pending" });
  const [pasted, setPasted] = useState("");
  const poll = useAction(async () => setSession(await get(`/api/oauth/sessions/${encodeURIComponent(state)}`)));
  const isOver = session.status !== "pending" || poll.failure?.status === 404;
  useTicks(isOver ? 0 : 2, poll.run);
  const paste = async () => {
    await post(`/api/oauth/sessions/${encodeURIComponent(state)}/manual-callback`, { callbackUrl: pasted.trim() }, { timeoutMs: 120_000 });
    await poll.run();
  };
  if (session.status === "success") {
    return html`<${Note} kind="good">${t("Connected. Its models and routes are there.")}<//><footer><button class="first" onClick=${onClose}>${t("Close")}</button></footer>`;
  }
  if (isOver) {
    return html`<${Note} kind="bad">${session.status === "error" ? html`<bdi>${session.error}</bdi>` : t("This login is over: it took longer than ten minutes, or the server was started anew.")}<//>
      <footer><button class="first" onClick=${onAgain}>${t("Begin anew")}</button></footer>`;
  }
  return html`
    <ol>
      <li><a href=${authorizationUrl} target="_blank" rel="noopener noreferrer">${t("Open the provider's page in a new tab")}</a> ${t("and agree there.")}</li>
      <li>${t("The tab then shows that it worked, and this dialog goes on by itself.")} <span role="status">${t("Waiting …")}</span></li>
    </ol>
    <${Failed} failure=${poll.failure} />
    ${instructions.sshTunnelCommand && html`<p>${t("The browser is on another computer than the server: before you agree, run this there, so that {port} leads here.", { port: instructions.redirectUri })}</p>
      <${Copyable} text=${instructions.sshTunnelCommand} label=${t("Command")} />`}
    <${Form} act=${paste} verb=${t("Hand it in")} disabled=${!pasted.trim()}>
      <${Field} label=${t("Or paste the address at which the tab ended")} hint=${t("It begins with {address}, even when the page could not be opened.", { address: instructions.redirectUri })}
        value=${pasted} onChange=${setPasted} /><//>`;
}
