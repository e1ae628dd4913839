// What sites announce: of one site, or of all.

import { post } from "../../api.js";
import { useRead } from "../../data.js";
import { Action, Section, TaskAction, Time, html } from "../../parts.js";
import { t } from "../../words.js";

export function Announcements({ site, sites = [site] }) {
  const read = useRead(`/api/site-announcements?limit=100${site ? `&siteId=${site.id}` : ""}`);
  const mark = (which, label) => html`<${Action} class="quiet" act=${async () => { await post(`/api/site-announcements/${which}`); read.reload(); }}>${label}<//>`;
  const actions = html`<${TaskAction} start=${() => post("/api/site-announcements/sync", site ? { siteId: site.id } : {})} after=${read.reload}>${t("Ask now")}<//>
    ${!site && mark("read-all", t("Mark all as read"))}`;
  return html`<${Section} read=${read} actions=${actions} class="plain" isEmpty=${(rows) => !rows.length} empty=${t("Nothing is announced.")}>
    ${(rows) => rows.map((one) => html`<article key=${one.id}>
      <h3><bdi>${one.title}</bdi></h3>
      <p class="quiet"><bdi>${sites.find(({ id }) => id === one.siteId)?.name}</bdi> · <${Time} at=${one.firstSeenAt} /> ${!one.readAt && mark(`${one.id}/read`, t("Mark as read"))}</p>
      <p class="prose"><bdi>${one.content}</bdi></p></article>`)}<//>`;
}
