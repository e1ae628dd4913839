// A site that was opened: its settings, which of its models are used, what it announces, and a probe now.

import { useState } from "../../vendor/htm-preact.js";
import { events, post, put, remove, send } from "../../api.js";
import { useDraft, useRead } from "../../data.js";
import { Action, Field, Form, Note, Removal, Section, Tabs, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { PLATFORMS } from "./add.js";
import { Announcements } from "./announcements.js";

// A field for what is shown masked: empty until something is typed; null takes away what is stored.
export function SecretField({ label, masked, value, onChange }) {
  return html`<${Field} label=${label} value=${value ?? ""} onChange=${onChange} placeholder=${masked ? t("unchanged") : "socks5://host:1080"}
      hint=${value === null ? t("Is taken away when saved.") : masked ? t("Now: {value}", { value: masked }) : undefined} />
    ${masked && value !== null && html`<button type="button" class="link" onClick=${() => onChange(null)}>${t("Take it away")}</button>`}`;
}

export function SiteDetail({ site, reload, onAdd }) {
  const [tab, setTab] = useState("settings");
  const Tab = { settings: Edit, models: Models, announcements: () => html`<${Announcements} siteId=${site.id} />`, probe: Probe }[tab];
  const isOn = site.status === "active";
  return html`
    <p><bdi>${site.url}</bdi></p>
    <div class="actions">
      <button class="first" onClick=${onAdd}>${t("Add accounts")}</button>
      <${Action} act=${async () => { await put(`/api/sites/${site.id}`, { status: isOn ? "disabled" : "active" }); reload(); }}>${isOn ? t("Switch off") : t("Switch on")}<//>
      <${Removal} label=${t("Delete")} title=${t("Delete this site?")} name=${html`<bdi>${site.name}</bdi>`}
        consequence=${t("Its accounts, tokens, channels and counts go with it.")} act=${() => remove(`/api/sites/${site.id}`)} after=${reload} />
    </div>
    <${Tabs} label=${t("About the site")} value=${tab} onChange=${setTab}
      items=${[["settings", t("Settings")], ["models", t("Models")], ["announcements", t("Announcements")], ["probe", t("Probe")]]} />
    <${Tab} site=${site} reload=${reload} />`;
}

function Edit({ site, reload }) {
  const pool = site.apiEndpoints.map((one) => one.url).join("\n");
  const draft = useDraft({ ...site, pool, maxConcurrency: site.maxConcurrency ?? "", externalCheckinUrl: site.externalCheckinUrl ?? "" });
  const [proxy, setProxy] = useState("");
  const [headers, setHeaders] = useState(null);
  const [header, setHeader] = useState({ name: "", value: "" });
  const shown = headers ?? JSON.parse(site.customHeaders ?? "{}");
  const { pool: addresses, ...body } = draft.changes;
  if (addresses !== undefined) {
    body.apiEndpoints = addresses.split("\n").map((url) => url.trim()).filter(Boolean)
      .map((url) => ({ url, enabled: site.apiEndpoints.find((one) => one.url === url)?.enabled ?? true }));
  }
  for (const name of ["maxConcurrency", "globalWeight", "postRefreshProbeLatencyThresholdMs"]) {
    if (name in body) body[name] = body[name] === "" ? null : Number(body[name]);
  }
  if (proxy !== "") body.proxyUrl = proxy;
  const all = header.name.trim() && header.value ? { ...shown, [header.name.trim()]: header.value } : headers;
  if (all) body.customHeaders = JSON.stringify(all);
  const save = async () => {
    await put(`/api/sites/${site.id}`, body);
    draft.clear(); setProxy(""); setHeaders(null); setHeader({ name: "", value: "" });
    reload();
  };
  const field = (name, label, more) => html`<${Field} label=${label} value=${draft.value(name)} onChange=${draft.set(name)} ...${more} />`;
  return html`<${Form} act=${save} verb=${t("Save")} disabled=${!Object.keys(body).length}>
    <div class="columns"><div>
      ${field("name", t("Name"))}
      ${field("url", t("Address"), { inputmode: "url" })}
      ${field("platform", t("Platform"), { kind: "select", choices: PLATFORMS })}
      ${field("pool", t("Further addresses of its API, one a line"), { kind: "area", hint: t("Tried in this order; one that fails rests for five minutes.") })}
      ${field("isPinned", t("Keep at the top"), { kind: "switch" })}
    </div><div>
      ${field("globalWeight", t("Weight"), { kind: "number", min: 0.01, max: 100, step: "any", hint: t("2 is chosen twice as often as 1.") })}
      ${field("maxConcurrency", t("Requests at a time"), { kind: "number", min: 0, hint: t("Empty: as many as come.") })}
      <${SecretField} label=${t("Proxy")} masked=${site.proxyUrl} value=${proxy} onChange=${setProxy} />
      ${field("useSystemProxy", t("Use the system's proxy"), { kind: "switch" })}
      ${field("externalCheckinUrl", t("Page for checking in"))}
      ${field("postRefreshProbeEnabled", t("Probe when models were read"), { kind: "switch", hint: t("What does not answer is switched off at this site.") })}
      ${draft.value("postRefreshProbeEnabled") && html`
        ${field("postRefreshProbeScope", t("Which models"), { kind: "select", choices: [["single", t("one")], ["all", t("all")]] })}
        ${field("postRefreshProbeModel", t("The one"))}
        ${field("postRefreshProbeLatencyThresholdMs", t("Slower than this counts as failed, in ms; 0: never"), { kind: "number", min: 0 })}`}
    </div></div>
    <fieldset><legend>${t("Headers sent with every request")}</legend>
      <ul class="plain">${Object.entries(shown).map(([name, value]) => html`<li key=${name}><code>${name}: ${value}</code>
        <button type="button" class="link" aria-label=${t("Take away {name}", { name })} onClick=${() => setHeaders(Object.fromEntries(Object.entries(shown).filter(([one]) => one !== name)))}>${t("Take it away")}</button></li>`)}</ul>
      <div class="filters">
        <${Field} label=${t("Name of a header")} value=${header.name} onChange=${(name) => setHeader({ ...header, name })} />
        <${Field} label=${t("Its value")} value=${header.value} onChange=${(value) => setHeader({ ...header, value })} />
      </div></fieldset>
  <//>`;
}

// Which of the site's models are not to be used.
function Models({ site }) {
  const [all, off] = ["available-models", "disabled-models"].map((what) => useRead(`/api/sites/${site.id}/${what}`));
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(null);
  const disabled = new Set(chosen ?? off.value?.models);
  const flip = (name) => setChosen(disabled.has(name) ? [...disabled].filter((one) => one !== name) : [...disabled, name]);
  const save = async () => { off.set(await put(`/api/sites/${site.id}/disabled-models`, { models: [...disabled] })); setChosen(null); };
  return html`<${Section} class="plain" read=${all}>${({ models }) => html`<${Section} class="inner" read=${off}>${() => {
    const known = [...new Set([...models, ...disabled])];
    const fitting = known.filter((name) => name.toLowerCase().includes(text.trim().toLowerCase()));
    return html`<${Form} act=${save} verb=${t("Save")} disabled=${!chosen}>
      <p class="quiet">${t("What is ticked is used. {count} of {all} are off.", { count: disabled.size, all: known.length })}</p>
      ${known.length > 12 && html`<${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} />`}
      <ul class="plain models">${fitting.slice(0, 300).map((name) => html`<li key=${name}><label><input type="checkbox" checked=${!disabled.has(name)} onChange=${() => flip(name)} /> <bdi>${name}</bdi></label></li>`)}</ul>
      ${fitting.length > 300 && html`<p class="quiet">${t("{count} more: search for them.", { count: fitting.length - 300 })}</p>`}
    <//>`;
  }}<//>`}<//>`;
}

// Asks the models of a site now and tells each as it answers.
function Probe({ site }) {
  const [scope, setScope] = useState("single");
  const [model, setModel] = useState("");
  const [told, setTold] = useState([]);
  const run = async () => {
    setTold([]);
    const query = new URLSearchParams({ scope, ...(scope === "single" && model.trim() ? { modelName: model.trim() } : {}) });
    for await (const { event, data } of events(await send("GET", `/api/sites/${site.id}/probe-stream?${query}`, { timeoutMs: 600_000 }))) {
      const said = JSON.parse(data);
      if (event === "error") throw new Error(said.message);
      if (event === "model") setTold((before) => [...before, said]);
      if (event === "complete") return said;
    }
    return undefined;
  };
  const words = { supported: t("answers"), unsupported: t("does not answer; switched off"), inconclusive: t("not clear") };
  return html`
    <${Note} kind="warn">${t("Each model is asked with a tiny request, which may cost something. What is not served is switched off at this site.")}<//>
    <div class="filters">
      <${Field} kind="select" label=${t("Which models")} value=${scope} onChange=${setScope} choices=${[["single", t("one")], ["all", t("all")]]} />
      ${scope === "single" && html`<${Field} label=${t("The one")} hint=${t("Empty: the first")} value=${model} onChange=${setModel} />`}
    </div>
    <${Action} class="first" act=${run} done=${(end) => count(end.probed ?? told.length, "{count} model was asked", "{count} models were asked")}>${t("Probe now")}<//>
    <ul class="plain">${told.map((one) => html`<li key=${one.modelName}><bdi>${one.modelName}</bdi>
      <span class=${{ supported: "good-text", unsupported: "bad-text" }[one.status] ?? "warn-text"}>${words[one.status] ?? one.status}</span>
      ${one.latencyMs !== null && one.latencyMs !== undefined && `${one.latencyMs} ms`} <bdi class="quiet">${one.reason ?? ""}</bdi></li>`)}</ul>`;
}
