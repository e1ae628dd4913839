// Finds pages, sites, accounts, models and keys by name. Arrow keys choose, Enter opens.

import { go } from "../address.js";
import { useRead } from "../data.js";
import { Dialog, Failed, Field, html, nameOf, useEffect, useMemo, useState } from "../parts.js";
import { count, joined, t } from "../words.js";

const MOST = 20;

export function Search({ pages, onClose, hasSlash, onSlash }) {
  const reads = ["accounts", "routes/lite", "downstream-keys"].map((name) => useRead(`/api/${name}`));
  const [typed, setTyped] = useState("");
  const [chosen, choose] = useState(0);
  const [tree, routes, keys] = reads.map((read) => read.value);
  const known = useMemo(() => {
    const { sites = [], accounts = [] } = tree ?? {};
    const siteOf = new Map(sites.map((site) => [site.id, site.name]));
    return [
      ...pages.map(([path, name]) => ["", t(name), path]),
      ...sites.map((site) => [t("Site"), site.name, "/sites", { open: `s${site.id}` }]),
      ...accounts.map((one) => [t("Account"), joined(siteOf.get(one.siteId), nameOf(one)), "/sites", { open: `a${one.id}` }]),
      ...(routes ?? []).map(({ id, displayName, modelPattern }) => {
        const name = displayName || modelPattern;
        return [t("Model"), name, "/routes", { q: name, open: id }];
      }),
      ...(keys?.items ?? []).map(({ id, name }) => [t("Key"), name, "/keys", { open: id }]),
    ].map((one) => ({ one, text: one[1].toLowerCase() }));
  }, [tree, routes, keys]);
  const wanted = typed.trim().toLowerCase();
  const found = useMemo(() => known.filter(({ text }) => text.includes(wanted)), [known, wanted]);
  const shown = found.slice(0, MOST);
  const at = Math.min(chosen, shown.length - 1);
  useEffect(() => document.getElementById(`found-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const open = ({ one: [, , path, query] }) => { onClose(); go(path, query); };
  const press = (event) => {
    if (event.isComposing) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) choose((at + by + shown.length) % shown.length);
    if (event.key === "Enter" && shown[at]) open(shown[at]);
    if (by || event.key === "Enter") event.preventDefault();
  };
  return html`<${Dialog} title=${t("Search")} onClose=${onClose}>
    <input role="combobox" aria-label=${t("Search")} aria-expanded="true" aria-controls="found"
      aria-activedescendant=${shown.length ? `found-${at}` : undefined} autocomplete="off" autofocus
      placeholder=${t("Page, site, account, model or key", "页面、站点、账号、模型或密钥")} value=${typed}
      onInput=${(event) => { setTyped(event.target.value); choose(0); }} onKeyDown=${press} />
    ${reads.map((read) => html`<${Failed} of=${read} />`)}
    <ul class="found" id="found" role="listbox" aria-label=${t("Search")}>${shown.map((row, index) => html`
      <li id=${`found-${index}`} role="option" aria-selected=${index === at} onClick=${() => open(row)}>
      <bdi>${row.one[1]}</bdi> <span class="quiet">${row.one[0]}</span></li>`)}</ul>
    <p class="hint" role="status">${count(found.length, "{count} found", "{count} found", "找到 {count} 项")}</p>
    <${Field} kind="switch" label=${t("The / key opens this search", "按 / 键打开搜索")} value=${hasSlash} onChange=${onSlash} /><//>`;
}
