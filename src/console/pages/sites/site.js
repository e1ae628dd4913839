// A site that was opened: its settings, which of its models are used, what it announces, and a probe now.

import { useState } from "../../vendor/htm-preact.js";
import { events, get, post, put, remove, send } from "../../api.js";
import { useRead } from "../../data.js";
import { Action, Badge, Field, Form, Note, Removal, Section, Tabs, html, useDraft } from "../../parts.js";
import { count, t } from "../../words.js";
import { PLATFORMS } from "./add.js";
import { Announcements } from "./announcements.js";

// More models than this are found by searching.
const SHOWN = 200;

// A proxy is shown masked: its field is empty until something is typed; null takes away what is stored.
export const ProxyField = ({ masked, value, onChange }) => html`
  <${Field} label=${t("Proxy")} value=${value ?? ""} onChange=${onChange} placeholder=${masked ? t("unchanged") : "socks5://host:1080"} hint=${value === null ? t("Removed when saved.") : masked} />
  ${masked && value !== null && html`<button type="button" class="link" onClick=${() => onChange(null)}>${t("Remove")}</button>`}`;

export function SiteDetail({ site, reload, onAdd }) {
  const [tab, setTab] = useState("settings");
  const Tab = { settings: Edit, models: Models, announcements: Announcements, probe: Probe }[tab];
  const isOn = site.status === "active";
  return html`<p><bdi>${site.url}</bdi></p>
    <div class="actions">
      <button class="first" onClick=${onAdd}>${t("Add accounts")}</button>
      <${Action} act=${async () => { await put(`/api/sites/${site.id}`, { status: isOn ? "disabled" : "active" }); reload(); }}>${isOn ? t("Switch off") : t("Switch on")}<//>
      <${Removal} label=${t("Delete")} title=${t("Delete this site?")} name=${html`<bdi>${site.name}</bdi>`}
        consequence=${t("Its accounts, tokens and channels go with it.")} act=${() => remove(`/api/sites/${site.id}`)} after=${reload} />
    </div>
    <${Tabs} label=${site.name} value=${tab} onChange=${setTab}
      items=${[["settings", t("Settings")], ["models", t("Models")], ["announcements", t("Announcements")], ["probe", t("Probe")]]} />
    <${Tab} key=${tab} site=${site} reload=${reload} />`;
}

function Edit({ site, reload }) {
  const { changes, values, field, set, clear } = useDraft({ ...site, pool: site.apiEndpoints.map((one) => one.url).join("\n"), proxyUrl: "", customHeaders: "", header: "", content: "" });
  const shown = JSON.parse(values.customHeaders || site.customHeaders || "{}");
  const { pool, header, content, ...body } = changes;
  if (pool !== undefined) {
    body.apiEndpoints = pool.split("\n").map((url) => url.trim()).filter(Boolean)
      .map((url) => ({ url, enabled: site.apiEndpoints.find((one) => one.url === url)?.enabled ?? true }));
  }
  for (const name of ["maxConcurrency", "globalWeight"]) if (name in body) body[name] = body[name] === "" ? null : Number(body[name]);
  if (header?.trim() && content) body.customHeaders = JSON.stringify({ ...shown, [header.trim()]: content });
  const save = async () => { await put(`/api/sites/${site.id}`, body); clear(); await reload(); };
  const without = (name) => set("customHeaders", JSON.stringify(Object.fromEntries(Object.entries(shown).filter(([one]) => one !== name))));
  return html`<${Form} act=${save} verb=${t("Save")} disabled=${!Object.keys(body).length}>
    <div class="columns"><div>
      ${field("name", t("Name"))}
      ${field("url", t("Address"))}
      ${field("platform", t("Platform"), { kind: "select", choices: PLATFORMS })}
      ${field("pool", t("Further addresses, one a line"), { kind: "area", hint: t("Tried in this order; one that fails rests for five minutes.") })}
      ${field("isPinned", t("Keep at the top"), { kind: "switch" })}
    </div><div>
      ${field("globalWeight", t("Weight"), { kind: "number", min: 0.01, max: 100, step: "any" })}
      ${field("maxConcurrency", t("Requests at a time"), { kind: "number", min: 0, hint: t("Empty: no bound") })}
      <${ProxyField} masked=${site.proxyUrl} value=${values.proxyUrl} onChange=${(value) => set("proxyUrl", value)} />
      ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}
      ${field("externalCheckinUrl", t("Page for checking in"))}
      ${Object.entries(shown).map(([name, value]) => html`<p key=${name}><code>${name}: ${value}</code> <button type="button" class="link" onClick=${() => without(name)}>${t("Remove {name}", { name })}</button></p>`)}
      <div class="filters">${field("header", t("Header of every request"))} ${field("content", t("Its value"))}</div>
    </div></div><//>`;
}

// The models of an account, or all of a site with those that are off there. What is switched off is off at the whole site.
export function Models({ site, account }) {
  const off = `/api/sites/${site.id}/disabled-models`;
  const read = useRead(account ? `/api/accounts/${account.id}/models` : `/api/sites/${site.id}/available-models`);
  const disabled = useRead(off);
  const [text, setText] = useState("");
  const [added, setAdded] = useState("");
  const flip = async (name) => {
    const { models } = await get(off);
    disabled.set(await put(off, { models: models.includes(name) ? models.filter((one) => one !== name) : [...models, name] }));
  };
  const add = async () => {
    await post(`/api/accounts/${account.id}/models/manual`, { models: added.split(/[\n,]+/).map((one) => one.trim()).filter(Boolean) });
    setAdded("");
    await read.reload();
  };
  return html`<${Section} class="plain" read=${read}>${({ models }) => html`<${Section} class="plain" read=${disabled}>${({ models: out }) => {
    const known = account ? models : [...new Set([...models, ...out])].map((name) => ({ name }));
    const fitting = known.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()));
    return html`
      ${known.length > 12 && html`<${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} />`}
      ${!known.length && html`<p class="quiet">${t("No model is known.")}</p>`}
      <ul class="plain models">${fitting.slice(0, SHOWN).map(({ name, isManual, latencyMs }) => html`<li key=${name}>
        <bdi>${name}</bdi> ${isManual && html`<${Badge}>${t("by hand")}<//>`} ${out.includes(name) && html`<${Badge} kind="warn">${t("off")}<//>`}
        ${latencyMs > 0 && html`<span class="quiet">${latencyMs} ms </span>`}
        <${Action} class="link" act=${() => flip(name)}>${out.includes(name) ? t("Switch on") : t("Switch off at this site")}<//></li>`)}</ul>
      ${fitting.length > SHOWN && html`<p class="quiet">${t("{count} more: search for them.", { count: fitting.length - SHOWN })}</p>`}`;
  }}<//>`}<//>
  ${account && html`<${Form} act=${add} verb=${t("Add by hand")} disabled=${!added.trim()}>
    <${Field} label=${t("Models the site does not list")} hint=${t("Several with commas between.")} value=${added} onChange=${setAdded} /><//>`}`;
}

// Asks the models of a site now and tells each as it answers.
function Probe({ site }) {
  const [told, setTold] = useState([]);
  const run = (scope) => async () => {
    setTold([]);
    for await (const { event, data } of events(await send("GET", `/api/sites/${site.id}/probe-stream?scope=${scope}`, { timeoutMs: 600_000 }))) {
      const said = JSON.parse(data);
      if (event === "error") throw new Error(said.message);
      if (event === "model") setTold((before) => [...before, said]);
    }
  };
  const words = { supported: t("answers"), unsupported: t("does not answer; switched off"), inconclusive: t("not clear") };
  return html`
    <${Note} kind="warn">${t("Models are asked with tiny requests, which may cost something. What is not served is switched off at this site.")}<//>
    <div class="actions"><${Action} act=${run("single")}>${t("Probe one model")}<//><${Action} act=${run("all")}>${t("Probe all models")}<//></div>
    <div role="status"><ul class="plain">${told.map((one) => html`<li key=${one.modelName}><bdi>${one.modelName}</bdi>
      <span class=${{ supported: "good-text", unsupported: "bad-text" }[one.status]}>${words[one.status]}</span> ${one.latencyMs > 0 && `${one.latencyMs} ms`} <bdi>${one.reason}</bdi></li>`)}</ul></div>`;
}
