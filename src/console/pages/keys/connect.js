// Connect a client: a key, a model, a client, and the lines to paste. The key itself stands in them only when it is revealed.

import { useState } from "../../vendor/htm-preact.js";
import { useFilter } from "../../address.js";
import { get } from "../../api.js";
import { CLIENTS, isPastable, keyLine, lines } from "../../clients.js";
import { useRead } from "../../data.js";
import { Action, Badge, Copyable, Failed, Field, Note, Section, Tabs, Time, html, useId } from "../../parts.js";
import { t } from "../../words.js";
import { stateOf } from "./state.js";

// The names under which routes are asked for; those that only match names have none of their own.
const namesOf = (routes) => [...new Set(routes.filter((route) => route.enabled)
  .map((route) => route.displayName || (/^re:|[*?]/.test(route.modelPattern) ? "" : route.modelPattern)).filter(Boolean))];

function Model({ value, onChange }) {
  const routes = useRead("/api/routes/lite");
  const id = useId();
  const wanted = value.toLowerCase();
  const names = namesOf(routes.value ?? []);
  const found = names.filter((name) => name.toLowerCase().includes(wanted)).slice(0, 50);
  return html`<div>
    <${Field} label=${t("Model")} value=${value} onChange=${onChange} list=${id} placeholder=${names[0] ?? ""} />
    <datalist id=${id}>${found.map((name) => html`<option value=${name} key=${name}></option>`)}</datalist>
    <${Failed} failure=${routes.failure} retry=${routes.reload} /></div>`;
}

const About = ({ client }) => {
  switch (client) {
    case "claude": return html`<p class="hint">${t("With a route that renames models, turn on “Answers name the model as asked” in the settings: Claude Code drops the thinking of an answer whose model is not the one it asked for.")}</p>`;
    case "codex": return html`<p class="hint">${t("supports_websockets keeps one connection open for a conversation. Leave it out behind a reverse proxy that does not pass upgrades.")}</p>`;
    default: return null;
  }
};

export function Connect({ keys, reload }) {
  const [chosen, choose] = useFilter("key");
  const [model, setModel] = useFilter("model");
  const [client, setClient] = useFilter("client", CLIENTS[0][0]);
  // The revealed key with its id, so that another choice never shows it.
  const [revealed, setRevealed] = useState(null);
  const key = keys.find((one) => String(one.id) === chosen);
  const value = revealed?.id === key?.id ? revealed?.value : undefined;
  const [kind, state] = key ? stateOf(key) : [];
  const base = location.origin;
  const isSafe = isPastable(model);
  const name = model || "gpt-4o-mini";
  const isLoopback = /^(localhost|127\.|\[::1\])/.test(location.hostname);
  return html`<${Section} title=${t("Connect a client")}>
    <div class="columns">
      <${Field} kind="select" label=${t("Key")} value=${key ? chosen : ""} onChange=${choose}
        choices=${[["", t("The global token (PROXY_TOKEN)")], ...keys.map((one) => [String(one.id), `\u2068${one.name}\u2069 (${one.keyMasked})`])]} />
      <${Model} value=${model} onChange=${setModel} />
    </div>
    ${key && kind !== "good" && html`<${Note} kind="warn">${t("This key cannot be used now: {state}", { state })}<//>`}
    ${isLoopback && html`<${Note}>${t("These lines hold the address {address}, which is this machine. For clients elsewhere open the console at the address they reach, and copy from there.", { address: base })}<//>`}
    <h3>${t("1. The key")}</h3>
    ${key ? html`<${Copyable} label=${t("The line with the key")} text=${keyLine(value ?? key.keyMasked)} />
      ${value ? html`<button onClick=${() => setRevealed(null)}>${t("Hide the key")}</button>`
        : html`<p class="hint">${t("The key is masked here: reveal it before you copy.")}</p>
          <${Action} act=${async () => setRevealed({ id: key.id, value: (await get(`/api/downstream-keys/${key.id}/value`)).key })}>${t("Reveal the key")}<//>`}`
      : html`<${Copyable} label=${t("The line with the key")} text=${keyLine("")} />
        <p class="hint">${t("PROXY_TOKEN is the variable the server was started with, or what it was changed to in the settings. A key of its own for each client can be limited, counted and switched off by itself.")}</p>`}
    <h3>${t("2. The client")}</h3>
    <${Tabs} label=${t("Client")} items=${CLIENTS} value=${client} onChange=${setClient} />
    ${!model && html`<p class="hint">${t("Choose a model; {name} stands for it until then.", { name })}</p>`}
    ${!isSafe ? html`<${Note} kind="bad">${t("The name of this model holds characters that cannot be seen or end a line. It is not put into lines to paste.")}<//>`
      : client === "cline" ? html`<dl class="pairs"><dt>API Provider</dt><dd>OpenAI Compatible</dd><dt>Base URL</dt><dd><${Copyable} label="Base URL" text=${`${base}/v1`} /></dd>
          <dt>API Key</dt><dd>${value ? html`<${Copyable} label="API Key" text=${value} />` : t("the key from above")}</dd>
          <dt>Model ID</dt><dd><${Copyable} label="Model ID" text=${name} /></dd></dl>`
        : lines(client, base, name).map(({ text, where }) => html`<div key=${text}>${where && html`<p class="mono">${where}</p>`}<${Copyable} label=${t("Lines to paste")} text=${text} /></div>`)}
    <${About} client=${client} />
    ${key && html`<h3>${t("3. Does it work?")}</h3><p>${key.lastUsedAt
      ? html`<${Badge} kind="good">${t("It was used")}<//> <${Time} at=${key.lastUsedAt} />`
      : html`<span class="quiet">${t("This key has not been used yet. This line changes when a request arrives.")}</span>`} <button class="link" onClick=${reload}>${t("Look again")}</button></p>`}
  <//>`;
}
