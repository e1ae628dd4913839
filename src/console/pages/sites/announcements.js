// What sites announce: of one site, or of all.

import { post } from "../../api.js";
import { useRead } from "../../data.js";
import { Action, Badge, Section, TaskAction, Time, html } from "../../parts.js";
import { t } from "../../words.js";

export function Announcements({ siteId, sites }) {
  const read = useRead(`/api/site-announcements?limit=100${siteId ? `&siteId=${siteId}` : ""}`);
  const nameOf = (id) => sites?.find((site) => site.id === id)?.name;
  const actions = html`
    <${TaskAction} start=${() => post("/api/site-announcements/sync", siteId ? { siteId } : {})} after=${read.reload}>${t("Ask now")}<//>
    ${!siteId && read.value?.some((one) => !one.readAt)
      && html`<${Action} act=${async () => { await post("/api/site-announcements/read-all"); read.reload(); }}>${t("Mark all as read")}<//>`}`;
  return html`<${Section} read=${read} actions=${actions} class="plain" isEmpty=${(rows) => !rows.length} empty=${t("Nothing is announced.")}>
    ${(rows) => rows.map((one) => html`<article key=${one.id}>
      <h3>${!one.readAt && html`<${Badge} kind="warn">${t("new")}<//> `}<bdi>${one.title}</bdi></h3>
      <p class="quiet">${nameOf(one.siteId) && html`<bdi>${nameOf(one.siteId)}</bdi> · `}<${Time} at=${one.firstSeenAt} />
        ${!one.readAt && html` · <${Action} class="link" act=${async () => { await post(`/api/site-announcements/${one.id}/read`); read.reload(); }}>${t("Mark as read")}<//>`}</p>
      <p class="prose"><bdi>${one.content}</bdi></p>
    </article>`)}
  <//>`;
}
