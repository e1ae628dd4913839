// Who may use the server: the admin token, the allow-list, the global token; and the way out by the system proxy.

import { useState } from "../../vendor/htm-preact.js";
import { Failure, post, token } from "../../api.js";
import { duration } from "../../format.js";
import { Action, Copyable, Field, Form, Note, Section, html } from "../../parts.js";
import { t } from "../../words.js";
import { newKey } from "../keys/form.js";

// An address or network as `[bits of the address, length of the prefix]`, IPv4 as IPv6; null when it cannot be read.
function network(text) {
  const [, address, length] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text.trim()) ?? [];
  if (!address) return null;
  const four = address.replace(/^::ffff:(?=\d+\.)/i, "");
  const bits = (parts, size, base) => parts.map((part) => {
    const value = parseInt(part, base);
    return value < 2 ** size ? value.toString(2).padStart(size, "0") : "";
  }).join("");
  if (/^\d+(\.\d+){3}$/.test(four)) return [`${"0".repeat(80)}${"1".repeat(16)}${bits(four.split("."), 8, 10)}`, Math.min(128, 96 + Number(length ?? 32))];
  const [head, tail] = address.split("::").map((half) => half.split(":").filter(Boolean));
  if (!/^[\da-f:]+$/i.test(address)) return null;
  const parts = tail ? [...head, ...Array(Math.max(0, 8 - head.length - tail.length)).fill("0"), ...tail] : head;
  return parts.length === 8 ? [bits(parts, 16, 16), Number(length ?? 128)] : null;
}
const isLoopback = ([bits]) => bits.startsWith(`${"0".repeat(80)}${"1".repeat(16)}01111111`) || /^0{127}1$/.test(bits);

// Whether a list admits an address. Both spellings of this machine are one.
export function admits(list, address) {
  const own = network(address);
  return !list.length || !own || list.some((entry) => {
    const net = network(entry);
    return net && (own[0].startsWith(net[0].slice(0, net[1])) || (isLoopback(own) && isLoopback(net)));
  });
}

function AdminToken({ value }) {
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

const linesOf = (typed, held) => (typed === undefined ? held : typed.split(/[\n,]/).map((line) => line.trim()).filter(Boolean));

export const besideAccess = (value) => ({
  adminIpAllowlist: (typed, held, edit) => {
    const list = linesOf(typed, held);
    return html`<p class="hint">${t("Your address: {address}", { address: value.currentAdminIp })}</p>
      ${!admits(list, value.currentAdminIp) && html`<${Note} kind="warn">${t("This list shuts you out.")} <button type="button" class="link"
        onClick=${() => edit([...list, value.currentAdminIp].join("\n"))}>${t("Add {address}", { address: value.currentAdminIp })}</button><//>`}`;
  },
  proxyToken: (typed, held, edit) => html`${value.usingDefaultProxyToken && html`<${Note} kind="warn">${t("The built-in token of clients holds. It works from this machine only.")}<//>`}
    ${typed ? html`<${Copyable} text=${typed} label=${t("New token")} />` : html`<button type="button" onClick=${() => edit(newKey())}>${t("Make one up")}</button>`}`,
  systemProxyUrl: (typed, held) => (typed || held) && html`<${ProxyTest} typed=${typed} />`,
});

export { AdminToken };
