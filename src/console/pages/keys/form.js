// What may be said of a key: to make one, or to change one. Only what was changed is sent.

import { useState } from "../../vendor/htm-preact.js";
import { Failure, post, put } from "../../api.js";
import { useRead } from "../../data.js";
import { Copyable, Dialog, Failed, Field, Fold, Form, Note, Pick, html } from "../../parts.js";
import { t } from "../../words.js";
import { LIMITS, Limits, UNLIMITED } from "./limits.js";

// `sk-` and 192 random bits.
export const newKey = () => `sk-${Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// === a key as fields, and fields as what is sent ===

const local = (iso) => {
  if (!iso) return "";
  const at = new Date(iso);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};
const text = (value) => (value === null ? "" : String(value));
const refKey = ({ kind, siteId, accountId, tokenId }) => [kind, siteId, accountId, tokenId].filter((part) => part !== undefined).join(":");

const same = (value) => value;
const orNull = (typed) => typed.trim() || null;
const listed = (mark) => (typed) => typed.split(mark).map((part) => part.trim()).filter(Boolean);

// For each member of a key: how it is shown, and how what is shown is sent.
const FIELDS = {
  name: [same, (typed) => typed.trim()], description: [text, orNull], groupName: [text, orNull],
  tags: [(tags) => tags.join(", "), listed(/[,，\n]/)], enabled: [same, same],
  expiresAt: [local, (typed) => (typed ? new Date(typed).toISOString() : null)], maxCost: [text, orNull], maxRequests: [text, orNull],
  supportedModels: [(models) => models.join("\n"), listed("\n")], allowedRouteIds: [same, same], excludedSiteIds: [same, same],
  excludedCredentialRefs: [(refs) => refs.map(refKey), (keys) => keys.map((key) => {
    const [kind, siteId, accountId, tokenId] = key.split(":");
    return { kind, siteId: Number(siteId), accountId: Number(accountId), ...(tokenId && { tokenId: Number(tokenId) }) };
  })],
  siteWeightMultipliers: [same, (weights) => Object.fromEntries(Object.entries(weights).map(([site, weight]) => [site, weightOf(weight)]))],
  ...LIMITS,
};

function weightOf(typed) {
  const weight = Number(typed);
  if (!(weight > 0 && Number.isFinite(weight))) throw new Failure("refused", t("A weight is a number above 0."));
  return weight;
}

const BLANK = { name: "", description: null, groupName: null, tags: [], enabled: true, expiresAt: null, maxCost: null, maxRequests: null,
  supportedModels: ["*"], allowedRouteIds: [], excludedSiteIds: [], excludedCredentialRefs: [], siteWeightMultipliers: {}, ...UNLIMITED };
const draftOf = (key) => Object.fromEntries(Object.entries(FIELDS).map(([name, [read]]) => [name, read(key[name])]));

function changes(before, after) {
  const changed = Object.entries(FIELDS).filter(([name]) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return Object.fromEntries(changed.map(([name, [, write]]) => [name, write(after[name])]));
}

// === the fields ===

// What can be picked is read when the operator looks at it.
function Policies({ draft, set, field }) {
  const [routes, sites, accounts, tokens] = ["routes/lite", "sites", "accounts", "account-tokens"].map((name) => useRead(`/api/${name}`));
  const ofSites = (sites.value ?? []).map((site) => ({ key: site.id, text: site.name }));
  const named = (...parts) => parts.filter(Boolean).join(" / ");
  const credentials = [
    ...(tokens.value ?? []).map(({ id, accountId, account, site, name }) => ({
      key: refKey({ kind: "account_token", siteId: site.id, accountId, tokenId: id }), text: named(site.name, account?.username, name) })),
    ...(accounts.value?.accounts ?? []).filter((account) => account.apiToken).map(({ id, siteId, site, username }) => ({
      key: refKey({ kind: "default_api_key", siteId, accountId: id }), text: named(site?.name, username ?? `#${id}`, t("API key of the account")) })),
  ];
  const weights = draft.siteWeightMultipliers;
  const pick = (name) => ({ chosen: draft[name], onChange: (value) => set({ [name]: value }) });
  return html`
    <${Failed} failure=${routes.failure ?? sites.failure ?? accounts.failure ?? tokens.failure} />
    <${Field} kind="area" label=${t("Models")} ...${field("supportedModels")} hint=${t("One a line: a name, a pattern with * or ?, or re: and a regular expression. * alone is every model.")} />
    <${Pick} label=${t("Routes")} hint=${t("Allowed besides those models, by name. With no model and no route the key allows nothing.")} ...${pick("allowedRouteIds")}
      options=${(routes.value ?? []).map((route) => ({ key: route.id, text: route.displayName || route.modelPattern }))} />
    <${Pick} label=${t("Sites left out")} options=${ofSites} ...${pick("excludedSiteIds")} />
    <${Pick} label=${t("Credentials left out")} options=${credentials} ...${pick("excludedCredentialRefs")} />
    <${Pick} label=${t("Weights of sites")} hint=${t("2 makes a site twice as likely for this key.")} options=${ofSites} chosen=${Object.keys(weights).map(Number)}
      onChange=${(ids) => set({ siteWeightMultipliers: Object.fromEntries(ids.map((id) => [id, weights[id] ?? 1])) })}
      beside=${(id, name) => html`<input class="short" inputmode="decimal" aria-label=${t("Weight of {name}", { name })} value=${weights[id]}
        onInput=${(event) => set({ siteWeightMultipliers: { ...weights, [id]: event.target.value } })} />`} />`;
}

function KeyFields({ draft, setDraft }) {
  const [isOpen, setOpen] = useState(false);
  const [isLimited, setLimited] = useState(false);
  const set = (more) => setDraft((held) => ({ ...held, ...more }));
  const field = (name) => ({ value: draft[name], onChange: (value) => set({ [name]: value }) });
  return html`
    <${Field} label=${t("Name")} required ...${field("name")} />
    <div class="columns">
      <${Field} label=${t("Most cost, USD")} hint=${t("Empty is no limit, 0 blocks at once.")} inputmode="decimal" ...${field("maxCost")} />
      <${Field} label=${t("Most requests")} inputmode="numeric" ...${field("maxRequests")} />
      <${Field} kind="datetime-local" label=${t("Expires")} hint=${t("In this browser's time zone. Empty is never.")} ...${field("expiresAt")} />
      <${Field} label=${t("Group")} maxlength="64" ...${field("groupName")} />
      <${Field} label=${t("Tags")} hint=${t("With commas between them.")} ...${field("tags")} />
      <${Field} label=${t("Description")} ...${field("description")} />
    </div>
    <${Field} kind="switch" label=${t("Turned on")} ...${field("enabled")} />
    <${Fold} label=${t("Budgets, pace, addresses")} open=${isLimited} onToggle=${() => setLimited(!isLimited)}><${Limits} draft=${draft} set=${set} field=${field} /><//>
    <${Fold} label=${t("Models, routes, sites")} open=${isOpen} onToggle=${() => setOpen(!isOpen)}><${Policies} draft=${draft} set=${set} field=${field} /><//>`;
}

export function EditKey({ item, onClose, onDone }) {
  // What was shown when the dialog opened: a renewed list changes nothing under the operator's hands.
  const [before] = useState(() => draftOf(item));
  const [draft, setDraft] = useState(before);
  const save = async () => {
    const body = changes(before, draft);
    if (Object.keys(body).length) await put(`/api/downstream-keys/${item.id}`, body);
    onDone();
  };
  return html`<${Dialog} wide title=${t("Change a key")} onClose=${onClose}>
    <p class="name"><bdi>${item.name}</bdi></p>
    <${Form} act=${save} verb=${t("Save")} onCancel=${onClose}><${KeyFields} draft=${draft} setDraft=${setDraft} /><//>
  <//>`;
}

export function NewKey({ onClose, onDone }) {
  const [before] = useState(() => draftOf(BLANK));
  const [draft, setDraft] = useState(before);
  const [way, setWay] = useState("generated");
  const [own, setOwn] = useState("");
  const [made, setMade] = useState(null);
  const create = async () => {
    const { item } = await post("/api/downstream-keys", { ...changes(before, draft), name: draft.name, key: way === "own" ? own.trim() : newKey() });
    setMade(item);
    onDone();
  };
  if (made) {
    return html`<${Dialog} title=${t("The key is made")} onClose=${onClose}>
      <p class="name"><bdi>${made.name}</bdi></p>
      <${Note} kind="good">${t("Copy it now: from here on it is masked.")}<//>
      <${Copyable} label=${t("The new key")} text=${made.key} />
      <footer><a href=${`/keys?connect=1&key=${made.id}`} onClick=${onClose}>${t("Connect a client")}</a> <button class="first" onClick=${onClose}>${t("Done")}</button></footer>
    <//>`;
  }
  return html`<${Dialog} wide title=${t("New key")} onClose=${onClose}>
    <${Form} act=${create} verb=${t("Make the key")} onCancel=${onClose}>
      <${KeyFields} draft=${draft} setDraft=${setDraft} />
      <${Field} kind="select" label=${t("Value")} value=${way} onChange=${setWay}
        choices=${[["generated", t("Made up by this browser")], ["own", t("One of my own")]]} />
      ${way === "own" && html`<${Field} label=${t("Own value")} required value=${own} onChange=${setOwn} class="mono"
        hint=${t("6 to 512 visible ASCII characters that begin with sk-.")} />`}
    <//><//>`;
}
