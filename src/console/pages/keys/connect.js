// Connect a client: a key, a model, a client, and the lines to paste. The key stands in them only when it is revealed.

import { useState } from "../../vendor/htm-preact.js";
import { useFilter } from "../../address.js";
import { get } from "../../api.js";
import { CLIENTS, isPastable, keyLine, lines } from "../../clients.js";
import { useRead } from "../../data.js";
import { Action, Badge, Copyable, Failed, Field, Note, Section, Tabs, Time, html } from "../../parts.js";
import { t } from "../../words.js";
import { stateOf } from "./state.js";

// The names under which routes are asked for; a pattern without one only matches names.
const namesOf = (routes) => [...new Set(routes.filter((route) => route.enabled)
  .map((route) => route.displayName || (/^re:|[*?]/.test(route.modelPattern) ? "" : route.modelPattern)).filter(Boolean))];

export function Connect({ keys, reload, onNew }) {
  const [chosen, choose] = useFilter("key");
  const [model, setModel] = useFilter("model");
  const [client, setClient] = useFilter("client", "claude");
  // The revealed key with its id, so that another choice never shows it.
  const [revealed, setRevealed] = useState({});
  const routes = useRead("/api/routes/lite");
  const names = namesOf(routes.value ?? []);
  const found = names.filter((name) => name.toLowerCase().includes(model.toLowerCase())).slice(0, 50);
  const key = keys.find((one) => String(one.id) === chosen);
  const value = key && revealed.id === key.id ? revealed.key : null;
  const [kind, state] = key ? stateOf(key) : ["good"];
  const base = location.origin;
  const name = model || "gpt-4o-mini";
  return html`<${Section} title=${t("Connect a client")} actions=${html`<button onClick=${onNew}>${t("New key")}</button>`}>
    <div class="columns">
      <${Field} kind="select" label=${t("Key")} value=${key ? chosen : ""} onChange=${choose}
        choices=${[["", t("The global token (PROXY_TOKEN)")], ...keys.map((one) => [String(one.id), `\u2068${one.name}\u2069 (${one.keyMasked})`])]} />
      <${Field} label=${t("Model")} value=${model} onChange=${setModel} list="models-to-ask" />
      <datalist id="models-to-ask">${found.map((one) => html`<option value=${one} key=${one}></option>`)}</datalist>
    </div>
    <${Failed} failure=${routes.failure} retry=${routes.reload} />
    ${kind !== "good" && html`<${Note} kind="warn">${t("This key cannot be used now: {state}", { state })}<//>`}
    ${/^(localhost|127\.|\[::1\])/.test(location.hostname) && html`<${Note}>${t("{address} is this machine only. For clients elsewhere open the console at the address they reach.", { address: base })}<//>`}
    <h3>${t("1. The key")}</h3>
    <${Copyable} label=${t("The line with the key")} text=${keyLine(key && (value ?? key.keyMasked))} />
    ${!key ? html`<p class="hint">${t("PROXY_TOKEN is what the server was started with, or what the settings changed it to. A key of its own for each client can be limited and switched off by itself.")}</p>`
      : value ? html`<button onClick=${() => setRevealed({})}>${t("Hide the key")}</button>`
        : html`<${Action} act=${async () => setRevealed(await get(`/api/downstream-keys/${key.id}/value`))}>${t("Reveal the key")}<//> <span class="hint">${t("It is masked here.")}</span>`}
    <h3>${t("2. The client")}</h3>
    <${Tabs} label=${t("Client")} items=${CLIENTS} value=${client} onChange=${setClient} />
    ${!model && html`<p class="hint">${t("Choose a model; {name} stands for it until then.", { name })}</p>`}
    ${isPastable(model) ? lines(client, base, name).map(([title, text]) => html`<div key=${text}><p class="hint">${title}</p><${Copyable} label=${title || t("Lines to paste")} text=${text} /></div>`)
      : html`<${Note} kind="bad">${t("The name of this model holds characters that are not seen or end a line: it is not put into lines to paste.")}<//>`}
    ${client === "claude" && html`<p class="hint">${t("With a route that renames models, have answers name the model as asked (Settings, Routing): Claude Code drops the thinking of an answer of another model.")}</p>`}
    ${client === "codex" && html`<p class="hint">${t("Leave supports_websockets out behind a reverse proxy that does not pass upgrades.")}</p>`}
    ${key && html`<h3>${t("3. Does it work?")}</h3><p>${key.lastUsedAt ? html`<${Badge} kind="good">${t("It was used")}<//> <${Time} at=${key.lastUsedAt} />` : t("This key was not used yet.")}
      ${" "}<button class="link" onClick=${reload}>${t("Look again")}</button></p>`}
  <//>`;
}
