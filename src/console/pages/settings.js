// Settings: what holds while the server runs, by theme; and what the server did, its upkeep, and what it is.

import { useState } from "../vendor/htm-preact.js";
import { go, useAddress } from "../address.js";
import { post } from "../api.js";
import { useRead } from "../data.js";
import { Action, Badge, Failed, Section, Tabs, html } from "../parts.js";
import { t } from "../words.js";
import { AdminToken, besideAccess } from "./settings/access.js";
import { Backup } from "./settings/backup.js";
import { SettingsForm } from "./settings/form.js";
import { FORMS } from "./settings/table.js";
import { About, Events, Maintenance, Tasks } from "./settings/upkeep.js";

const TABS = [["routing", "Routing"], ["limits", "Limits"], ["jobs", "Schedules"], ["notices", "Notices"], ["models", "Models"], ["traces", "Traces"],
  ["rewriting", "Rewriting"], ["access", "Access"], ["backup", "Backup"], ["tasks", "Tasks"], ["events", "Events"], ["maintenance", "Maintenance"], ["about", "About"]];
const PARTS = { backup: Backup, tasks: Tasks, events: Events, maintenance: Maintenance, about: About };

// One message on every channel that is used; each tells how it went, also when all failed.
function NoticeTest() {
  const [channels, setChannels] = useState([]);
  const test = async () => {
    setChannels([]);
    try { setChannels((await post("/api/settings/notify/test")).channels); } catch (failure) {
      if (!failure.value?.channels) throw failure;
      setChannels(failure.value.channels);
    }
  };
  return html`<${Section} title=${t("Test")} actions=${html`<${Action} act=${test}>${t("Send a test notice")}<//>`}>
    <p class="quiet">${t("What is saved is tested.")}</p>
    <ul aria-live="polite">${channels.map((one) => html`<li key=${one.channel}><${Badge} kind=${one.success ? "good" : "bad"}>${one.success ? t("sent") : t("failed")}<//> ${one.channel} <bdi>${one.message}</bdi></li>`)}</ul><//>`;
}

export function Settings() {
  const { query } = useAddress();
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : "routing";
  const read = useRead("/api/settings/runtime");
  const [edits, setEdits] = useState({});
  const Part = PARTS[tab];
  const beside = tab === "access" && read.value ? besideAccess(read.value) : undefined;
  return html`
    <${Tabs} label=${t("Settings")} value=${tab} onChange=${(name) => go("/settings", { tab: name }, { replace: true })} items=${TABS.map(([name, label]) => [name, t(label)])} />
    ${Part ? html`<${Part} />` : !read.value ? html`<${Section} read=${read} />` : html`
      <${Failed} failure=${read.failure} retry=${read.reload} />
      ${tab === "notices" && html`<${NoticeTest} />`}
      <div class="columns">${tab === "access" && html`<${AdminToken} value=${read.value} />`}
        ${FORMS[tab].map((form) => html`<${SettingsForm} key=${form[0]} form=${form} read=${read} edits=${edits} setEdits=${setEdits} beside=${beside} />`)}</div>`}`;
}
