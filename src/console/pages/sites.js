// The page Sites: one tree of sites and their accounts, and what can be done with each or with many.

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
  const order = (one, other) => other.isPinned - one.isPinned || one.sortOrder - other.sortOrder || one.id - other.id;
  const nodes = new Map([...sites].sort(order).map((site) => [site.id, { key: `s${site.id}`, site, accounts: [], text: `${site.name} ${site.url} ${site.platform}`.toLowerCase() }]));
  for (const account of [...accounts].sort(order)) {
    const node = nodes.get(account.siteId);
    node?.accounts.push({ key: `a${account.id}`, account, site: node.site, text: `${node.text} ${nameOf(account)}`.toLowerCase() });
  }
  return [...nodes.values()];
}

function rowsOf(tree, text, show, folded) {
  const wanted = text.trim().toLowerCase();
  return tree.flatMap((node) => {
    const mine = node.accounts.filter((row) => (show !== "trouble" || isInTrouble(row.account)) && row.text.includes(wanted));
    if (!mine.length && (show === "trouble" || !node.text.includes(wanted))) return [];
    return show === "sites" || folded.has(node.key) ? [node] : [node, ...mine];
  });
}

// What is done with all of one kind that are ticked; who it failed for is told.
function Batch({ path, ids, label, actions, after }) {
  const run = (action) => async () => {
    const { failedItems: failed } = await post(`/api/${path}/batch`, { ids, action }, { timeoutMs: 300_000 });
    after();
    if (failed.length) throw new Failure("refused", t("{count} failed. The first: {why}", { count: failed.length, why: failed[0].message }));
  };
  return ids.length > 0 && html`<div class="actions" role="group" aria-label=${label}><strong>${label}</strong>
    ${[["enable", t("Switch on")], ["disable", t("Switch off")], ...actions].map(([action, text]) => html`<${Action} key=${action} act=${run(action)} done=${t("Done")}>${text}<//>`)}
    <${Removal} label=${t("Delete")} title=${t("Delete all that is ticked?")} name=${label} consequence=${t("Their tokens and channels go with them.")} act=${run("delete")} /></div>`;
}

const accountsOf = ({ account, accounts }) => (account ? [account] : accounts.map((row) => row.account));

export function Sites() {
  const read = useRead("/api/accounts", { every: 15 });
  const [text, setText] = useFilter("q");
  const [show, setShow] = useFilter("show", "all");
  const [opened, setOpened] = useFilter("open");
  const [adding, setAdding] = useFilter("add");
  const [folded, setFolded] = useState(new Set());
  const [chosen, setChosen] = useState(new Set());
  const [isNews, setNews] = useState(false);
  const [login, setLogin] = useState(null);
  const tree = useMemo(() => (read.value ? treeOf(read.value) : []), [read.value]);
  const rows = useMemo(() => rowsOf(tree, text, show, folded), [tree, text, show, folded]);
  const flip = (set, key) => new Set(set.has(key) ? [...set].filter((one) => one !== key) : [...set, key]);
  const ticked = (kind) => rows.filter(({ key }) => key[0] === kind && chosen.has(key)).map(({ key }) => Number(key.slice(1)));
  const [sites, accounts] = [ticked("s"), ticked("a")];
  const columns = [
    { name: "name", label: t("Site and account"), cell: ({ site, account }) => (account ? html`<span class="child"><bdi>${nameOf(account)}</bdi></span>`
      : html`<bdi>${site.name}</bdi> <span class="quiet">${site.platform}</span>`) },
    { name: "state", label: t("State"), cell: ({ site, account }) => (account ? html`<${StateBadge} account=${account} />`
      : site.status === "active" ? html`<${Badge} kind="good">${t("on")}<//>` : html`<${Badge}>${t("off")}<//>`) },
    { name: "balance", label: t("Balance"), class: "end", cell: (row) => {
      const told = accountsOf(row).filter((one) => one.capabilities.canRefreshBalance);
      return told.length ? money(told.reduce((sum, one) => sum + one.balance, 0)) : "–";
    } },
    { name: "spend", label: t("Spent today"), class: "end less", cell: (row) => money(accountsOf(row).reduce((sum, one) => sum + one.todaySpend, 0)) },
    { name: "accounts", label: t("Accounts"), class: "end less", cell: ({ key, site, accounts: mine }) => mine && html`<button class="quiet"
      aria-expanded=${folded.has(key) ? "false" : "true"} onClick=${() => setFolded(flip(folded, key))}><span class="unseen">${site.name}</span> ${mine.length} ${folded.has(key) ? "▸" : "▾"}</button>` },
    { name: "tick", label: html`<span class="unseen">${t("Tick")}</span>`, class: "end", cell: ({ key, site, account }) => html`<input type="checkbox"
      aria-label=${t("Tick {name}", { name: account ? nameOf(account) : site.name })} checked=${chosen.has(key)} onChange=${() => setChosen(flip(chosen, key))} />` },
  ];
  const detail = ({ key, site, account }) => (account ? html`<${AccountDetail} key=${key} account=${account} site=${site} reload=${read.reload} />`
    : html`<${SiteDetail} key=${key} site=${site} reload=${read.reload} onAdd=${() => setAdding(String(site.id))} />`);
  const addingTo = read.value?.sites.find((site) => String(site.id) === adding);
  const everywhere = [["accounts/health/refresh", t("Read balances")], ["checkin/trigger", t("Check in")], ["account-tokens/sync-all", t("Sync tokens")], ["models/probe", t("Probe all models")]];
  return html`
    <div class="filters">
      <${Field} kind="search" label=${t("Search")} value=${text} onChange=${setText} />
      <${Field} kind="select" label=${t("Show")} value=${show} onChange=${setShow}
        choices=${[["all", t("Sites and accounts")], ["sites", t("Sites alone")], ["trouble", t("Needs attention")]]} />
      <button class="first" onClick=${() => setAdding("site")}>${t("Add a site")}</button>
      <button onClick=${() => setLogin({})}>${t("Connect by login")}</button>
    </div>
    <${Section} read=${read}>${() => html`
      ${sites.length + accounts.length > 0 && html`<${Note}>
        <${Batch} path="sites" ids=${sites} after=${read.reload} label=${count(sites.length, "{count} site", "{count} sites")}
          actions=${[["enableSystemProxy", t("Use the system's proxy")], ["disableSystemProxy", t("Without the system's proxy")]]} />
        <${Batch} path="accounts" ids=${accounts} after=${read.reload} label=${count(accounts.length, "{count} account", "{count} accounts")} actions=${[["refreshBalance", t("Read balances")]]} /><//>`}
      ${rows.length ? html`<div class="tree"><${List} label=${t("Sites and accounts")} rows=${rows} columns=${columns} keyOf=${(row) => row.key}
          opened=${opened} onOpen=${setOpened} detail=${detail} /></div>`
        : html`<div class="empty">${tree.length ? t("Nothing fits the filter.") : t("No site yet. A site is where models are answered: a vendor's API, or a hub of the new-api family.")}</div>`}`}<//>
    ${read.value?.accounts.some((one) => one.oauthProvider) && html`<${Connections} accounts=${read.value.accounts} reload=${read.reload} onLogin=${setLogin} />`}
    <${Section} title=${t("For all sites")}>
      <div class="actions">${everywhere.map(([path, label]) => html`<${TaskAction} key=${path} start=${() => post(`/api/${path}`)} after=${read.reload}>${label}<//>`)}</div>
      <${Fold} label=${t("Announcements")} open=${isNews} onToggle=${() => setNews(!isNews)}><${Announcements} sites=${read.value?.sites} /><//>
    <//>
    ${login && html`<${Login} connection=${login.accountId && login} onClose=${() => { setLogin(null); read.reload(); }} />`}
    ${adding === "site" && html`<${AddSite} onClose=${() => setAdding("")} reload=${read.reload} />`}
    ${addingTo && html`<${Dialog} wide title=${t("Add accounts to {name}", addingTo)} onClose=${() => setAdding("")}><${AddAccount} site=${addingTo} reload=${read.reload} /><//>`}`;
}
