// Who may use the server: the admin token, the allow-list, the global token; and the way out by the system proxy.

import { useState } from "../../vendor/htm-preact.js";
import { Failure, post, token } from "../../api.js";
import { duration } from "../../format.js";
import { Action, Copyable, Field, Form, Note, Section, html } from "../../parts.js";
import { t } from "../../words.js";
import { newKey } from "../keys/form.js";

export function AdminToken({ value }) {
  const [old, setOld] = useState("");
  const [fresh, setFresh] = useState("");
  const [again, setAgain] = useState("");
  const [isDone, setDone] = useState(false);
  const change = async () => {
    if (fresh !== again) throw new Failure("refused", t("The two new tokens differ."));
    await post("/api/settings/auth/change", { oldToken: old, newToken: fresh });
    token.set(fresh, token.isKept());
    [setOld, setFresh, setAgain].forEach((set) => set(""));
    setDone(true);
  };
  const field = (label, held, set, hint) => html`<${Field} kind="password" label=${label} value=${held} onChange=${(typed) => { setDone(false); set(typed); }} hint=${hint} />`;
  return html`<${Section} title=${t("Admin token")}>
    ${value.usingDefaultAdminToken && html`<${Note} kind="warn">${t("The built-in admin token holds. It works from this machine only.")}<//>`}
    ${value.credentialSecretWeak && html`<${Note} kind="warn">${t("ACCOUNT_CREDENTIAL_SECRET, which seals stored credentials, is weak or not set.")}<//>`}
    <${Form} act=${change} verb=${t("Change the token")} disabled=${!old || !fresh}>
      ${field(t("Present token"), old, setOld)}
      ${field(t("New token"), fresh, setFresh, t("6 to 512 visible ASCII characters without blanks. It holds at once, everywhere."))}
      ${field(t("New token again"), again, setAgain)}
      ${isDone && html`<p class="said good" role="status">${t("The new token is in force.")}</p>`}
    <//><//>`;
}

function ProxyTest({ typed }) {
  const test = () => post("/api/settings/system-proxy/test", typed ? { proxyUrl: typed } : {});
  return html`<${Action} act=${test} done=${(answer) => t("It gives a way out: {status} in {time}", { status: answer.statusCode, time: duration(answer.latencyMs) })}>${t("Test the proxy")}<//>`;
}

// Shows a token that was made up here, so that it can be taken away; one that was typed stays hidden.
function MadeUp({ typed, edit }) {
  const [made, setMade] = useState(null);
  return typed && typed === made ? html`<${Copyable} text=${made} label=${t("New token")} />`
    : html`<button type="button" onClick=${() => { const fresh = newKey(); setMade(fresh); edit(fresh); }}>${t("Make one up")}</button>`;
}

const linesOf = (typed, held) => (typed === undefined ? held : typed.split(/[\n,]/).map((line) => line.trim()).filter(Boolean));

export const besideAccess = (value) => ({
  adminIpAllowlist: (typed, held, edit) => {
    const list = linesOf(typed, held);
    return html`<p class="hint">${t("Your address: {address}", { address: value.currentAdminIp })}</p>
      ${typed !== undefined && list.length > 0 && !list.includes(value.currentAdminIp) && html`<${Note} kind="warn">${t("Unless one of these networks holds it, this list would shut you out, and is refused.")}
        ${" "}<button type="button" class="link" onClick=${() => edit([...list, value.currentAdminIp].join("\n"))}>${t("Add {address}", { address: value.currentAdminIp })}</button><//>`}`;
  },
  proxyToken: (typed, held, edit) => html`${value.usingDefaultProxyToken && html`<${Note} kind="warn">${t("The built-in token of clients holds. It works from this machine only.")}<//>`}
    <${MadeUp} typed=${typed} edit=${edit} />`,
  systemProxyUrl: (typed, held) => (typed || held) && html`<${ProxyTest} typed=${typed} />`,
});
