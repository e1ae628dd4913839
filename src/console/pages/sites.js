// The page Sites: one tree of sites, their accounts and their tokens, and what can be done with each or with many.

import { useMemo, useState } from "../vendor/htm-preact.js";
import { useFilter } from "../address.js";
import { Failure, post } from "../api.js";
import { useRead } from "../data.js";
import { money } from "../format.js";
import { List } from "../list.js";
import { Action, Badge, Dialog, Field, Fold, Note, Removal, Section, TaskAction, html } from "../parts.js";
import { count, t } from "../words.js";
import { AccountDetail, isInTrouble, nameOf, StateBadge } from "./sites/account.js";
import { AddAccount, AddSite } from "./sites/add.js";
import { Announcements } from "./sites/announcements.js";
import { Connections, Login } from "./sites/oauth.js";
import { SiteDetail } from "./sites/site.js";

// Sites in their order, each with its accounts and with the text that a filter looks at.
function treeOf({ sites, accounts }) {
  const nodes = new Map(sites.map((site) => [site.id, { key: `s${site.id}`, site, accounts: [],
    text: `${site.name} ${site.url} ${site.platform}`.toLowerCase() }]));
  for (const account of accounts) {
    nodes.get(account.siteId)?.accounts.push({ key: `a${account.id}`, account, site: nodes.get(account.siteId).site,
      text: `${nameOf(account)} ${account.oauthProvider ?? ""}`.toLowerCase() });
  }
  const order = (one, other) => other.isPinned - one.isPinned || one.sortOrder - other.sortOrder || one.id - other.id;
  for (const node of nodes.values()) node.accounts.sort((one, other) => order(one.account, other.account));
  return [...nodes.values()].sort((one, other) => order(one.site, other.site));
}

function rowsOf(tree, text, show, folded) {
  const wanted = text.trim().toLowerCase();
  return tree.flatMap((node) => {
    const hasAll = show === "all" || show === "sites";
    const mine = node.accounts.filter((row) => (hasAll || isInTrouble(row.account))
      && (node.text.includes(wanted) || row.text.includes(wanted)));
    if (!mine.length && (!node.text.includes(wanted) || !hasAll)) return [];
    return show === "sites" || (folded.has(node.key) && !wanted) ? [node] : [node, ...mine];
  });
}

// What is done with all that is ticked; who it failed for is told until the next attempt.
function Batch({ chosen, after, clear }) {
  const ids = (kind) => [...chosen].filter((key) => key[0] === kind).map((key) => Number(key.slice(1)));
  const run = (path, of, action) => async () => {
    const { failedItems: failed } = await post(`/api/${path}/batch`, { ids: of, action }, { timeoutMs: 300_000 });
    after();
    if (failed.length) throw new Failure("refused", t("{count} failed. The first: {why}", { count: failed.length, why: failed[0].message }));
    if (action === "delete") clear();
  };
  const bar = (path, of, label, actions) => of.length > 0 && html`<div class="actions" role="group" aria-label=${label}>
    <strong>${label}</strong>
    ${actions.map(([action, text]) => html`<${Action} key=${action} act=${run(path, of, action)} done=${t("Done")}>${text}<//>`)}
    <${Removal} label=${t("Delete")} title=${t("Delete all that is ticked?")} name=${label}
      consequence=${t("Their tokens, channels and counts go with them.")} act=${run(path, of, "delete")} /></div>`;
  const switches = [["enable", t("Switch on")], ["disable", t("Switch off")]];
  const [sites, accounts] = [ids("s"), ids("a")];
  return html`
    ${bar("sites", sites, count(sites.length, "{count} site", "{count} sites"),
      [...switches, ["enableSystemProxy", t("Use the system's proxy")], ["disableSystemProxy", t("Without the system's proxy")]])}
    ${bar("accounts", accounts, count(accounts.length, "{count} account", "{count} accounts"), [...switches, ["refreshBalance", t("Read balances")]])}`;
}

export function Sites() {
  const read = useRead("/api/accounts", { every: 15 });
  const [text, setText] = useFilter("q");
  const [show, setShow] = useFilter("show", "all");
  const [opened, setOpened] = useFilter("open");
  const [adding, setAdding] = useFilter("add");
  const [folded, setFolded] = useState(new Set());
  const [chosen, setChosen] = useState(new Set());
  const [more, setMore] = useState(false);
  const [login, setLogin] = useState(null);
  const tree = useMemo(() => (read.value ? treeOf(read.value) : []), [read.value]);
  const rows = useMemo(() => rowsOf(tree, text, show, folded), [tree, text, show, folded]);
  const flip = (set, change) => (key) => change((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  const fold = flip(folded, setFolded);
  const choose = flip(chosen, setChosen);
  const ticked = new Set(rows.map((row) => row.key).filter((key) => chosen.has(key)));

  const columns = [
    { name: "name", label: t("Site and account"), cell: ({ site, account }) => (account
      ? html`<span class="child"><bdi>${nameOf(account)}</bdi></span>`
      : html`<bdi>${site.name}</bdi> <span class="quiet">${site.platform}</span>`) },
    { name: "state", label: t("State"), cell: ({ site, account }) => (account ? html`<${StateBadge} account=${account} />`
      : site.status === "active" ? html`<${Badge} kind="good">${t("on")}<//>` : html`<${Badge}>${t("off")}<//>`) },
    { name: "balance", label: t("Balance"), class: "end", cell: ({ account, accounts }) => {
      const told = (account ? [account] : accounts.map((row) => row.account)).filter((one) => one.capabilities.canRefreshBalance);
      return told.length ? money(told.reduce((sum, one) => sum + one.balance, 0)) : "–";
    } },
    { name: "spend", label: t("Spent today"), class: "end less", cell: ({ account, accounts }) =>
      money((account ? [account] : accounts.map((row) => row.account)).reduce((sum, one) => sum + one.todaySpend, 0)) },
    { name: "accounts", label: t("Accounts"), class: "end less", cell: ({ key, site, accounts }) => accounts
      && html`<button class="quiet" aria-expanded=${folded.has(key) ? "false" : "true"}
        onClick=${() => fold(key)}><span class="unseen">${t("Accounts of {name}", { name: site.name })}</span> ${accounts.length} <span aria-hidden="true">${folded.has(key) ? "▸" : "▾"}</span></button>` },
    { name: "tick", label: html`<span class="unseen">${t("Tick")}</span>`, class: "end", cell: ({ key, site, account }) => html`<input type="checkbox"
      aria-label=${t("Tick {name}", { name: account ? nameOf(account) : site.name })} checked=${chosen.has(key)} onChange=${() => choose(key)} />` },
  ];
  const addingTo = read.value?.sites.find((site) => String(site.id) === adding);

  return html`
    <div class="filters">
      <${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} placeholder=${t("Name, address, platform")} />
      <${Field} kind="select" label=${t("Show")} value=${show} onChange=${setShow}
        choices=${[["all", t("Sites and accounts")], ["sites", t("Sites alone")], ["trouble", t("What needs attention")]]} />
      <button class="first" onClick=${() => setAdding("site")}>${t("Add a site")}</button>
      <button onClick=${() => setLogin({})}>${t("Connect by login")}</button>
    </div>
    <${Section} read=${read}>
      ${() => html`
        ${ticked.size > 0 && html`<${Note}><${Batch} chosen=${ticked} after=${read.reload} clear=${() => setChosen(new Set())} /><//>`}
        ${!tree.length && html`<div class="empty">${t("No site yet. A site is where models are answered: a vendor's API, or a hub of the new-api family.")}</div>`}
        ${tree.length > 0 && !rows.length && html`<div class="empty">${t("Nothing fits the filter.")}</div>`}
        ${rows.length > 0 && html`<div class="tree"><${List} label=${t("Sites and accounts")} rows=${rows} columns=${columns} keyOf=${(row) => row.key}
          opened=${opened} onOpen=${setOpened} detail=${(row) => (row.account
            ? html`<${AccountDetail} key=${row.key} account=${row.account} site=${row.site} reload=${read.reload} />`
            : html`<${SiteDetail} key=${row.key} site=${row.site} reload=${read.reload} onAdd=${() => setAdding(String(row.site.id))} />`)} /></div>`}`}
    <//>
    ${read.value?.accounts.some((one) => one.oauthProvider)
      && html`<${Connections} accounts=${read.value.accounts} reload=${read.reload} onLogin=${setLogin} />`}
    <${Section} title=${t("For all sites")}>
      <div class="actions">
        <${TaskAction} start=${() => post("/api/accounts/health/refresh")} after=${read.reload}>${t("Read all balances")}<//>
        <${TaskAction} start=${() => post("/api/checkin/trigger")} after=${read.reload}>${t("Check in everywhere")}<//>
        <${TaskAction} start=${() => post("/api/account-tokens/sync-all")} after=${read.reload}>${t("Sync all tokens")}<//>
        <${TaskAction} start=${() => post("/api/models/probe")} after=${read.reload}>${t("Probe all models")}<//>
      </div>
      <${Fold} label=${t("Announcements")} open=${more} onToggle=${() => setMore(!more)}><${Announcements} sites=${read.value?.sites} /><//>
    <//>
    ${login && html`<${Login} connection=${login.accountId ? login : null} onClose=${() => { setLogin(null); read.reload(); }} />`}
    ${adding === "site" && html`<${AddSite} onClose=${() => setAdding("")} reload=${read.reload} />`}
    ${addingTo && html`<${Dialog} wide title=${t("Add accounts to {name}", { name: addingTo.name })} onClose=${() => setAdding("")}>
      <${AddAccount} site=${addingTo} reload=${read.reload} /><//>`}`;
}
