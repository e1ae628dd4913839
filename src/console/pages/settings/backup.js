// Backups: everything that was set up, out as a file and in again, from here or over WebDAV.

import { useState } from "../../vendor/htm-preact.js";
import { href } from "../../address.js";
import { put, post, send } from "../../api.js";
import { useRead } from "../../data.js";
import { Action, Badge, Field, Form, Note, Removal, Section, Time, html, useDraft } from "../../parts.js";
import { t } from "../../words.js";

const PARTS = () => [["all", t("Everything")], ["accounts", t("Sites, accounts, routes and keys")], ["preferences", t("Settings")]];
const ACTIONS = { created: "good", updated: "", skipped: "", deleted: "warn", refused: "bad" };
const PATH = "/api/settings/backup";

function Export() {
  const [type, setType] = useState("all");
  const save = async () => {
    const answer = await send("GET", href(`${PATH}/export`, { type }), { timeoutMs: 0 });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition"))?.[1] ?? "switchyard-backup.json";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<${Section} title=${t("Export")}>
    <p>${t("The file has every credential in clear, so that another server can use it: keep it safe.")}</p>
    <${Field} kind="select" label=${t("What")} value=${type} onChange=${setType} choices=${PARTS()} />
    <${Action} class="first" act=${save} done=${t("Saved")}>${t("Save a backup")}<//><//>`;
}

// What an import did, or would do: how many rows by what becomes of them, and each row with the reason.
function Outcome({ report }) {
  return html`<${Note} kind=${report.counts?.refused ? "bad" : "good"}><bdi>${report.message}</bdi><//>
    ${report.counts && html`<p>${Object.entries(report.counts).map(([action, count]) => html`<${Badge} key=${action} kind=${count ? ACTIONS[action] : ""}>${t(action)}: ${count}<//> `)}</p>`}
    ${report.warnings?.length > 0 && html`<ul>${report.warnings.map((words) => html`<li key=${words}><bdi>${words}</bdi></li>`)}</ul>`}
    ${report.rows?.length > 0 && html`<details><summary>${t("Row by row")}</summary><table><tbody>${report.rows.map((row, at) => html`<tr key=${at}>
      <td><${Badge} kind=${ACTIONS[row.action]}>${t(row.action)}<//></td><td>${row.section}</td><td><bdi>${row.name}</bdi></td><td><bdi>${row.reason}</bdi></td></tr>`)}</tbody></table>
      ${report.rowsOmitted > 0 && html`<p class="quiet">${t("and {count} more", { count: report.rowsOmitted })}</p>`}</details>`}`;
}

// The file is tried first: only what a dry run took can be imported, and the button says what it does.
function Import() {
  const [file, setFile] = useState(null);
  const [mode, setMode] = useState("merge");
  const [conflict, setConflict] = useState("overwrite");
  const [tried, setTried] = useState(null);
  const [done, setDone] = useState(null);
  const isTried = tried !== null && tried.file === file && tried.mode === mode && tried.conflict === conflict;
  const ask = async (dryRun) => {
    const query = { mode, conflict: mode === "merge" ? conflict : "", dryRun: dryRun ? "1" : "" };
    const answer = await send("POST", href(`${PATH}/import`, query), { body: new Blob(['{"data":', file, "}"]), timeoutMs: 0 });
    return answer.json();
  };
  const act = async () => {
    setDone(null);
    if (!isTried) return setTried({ file, mode, conflict, report: await ask(true) });
    setDone(await ask(false));
    return setTried(null);
  };
  const isRefused = isTried && tried.report.counts?.refused > 0;
  const verb = !isTried ? t("See what it would change") : mode === "replace" ? t("Replace what is here") : t("Import");
  return html`<${Section} title=${t("Import")}>
    <p>${t("A backup of Switchyard, or the JSON backup of another gateway. All of it is imported, or nothing.")}</p>
    <${Form} act=${act} verb=${verb} disabled=${!file || isRefused}>
      <div class="field"><label for="backup-file">${t("File")}</label><input id="backup-file" type="file" accept=".json,application/json" onChange=${(event) => setFile(event.target.files[0] ?? null)} /></div>
      <${Field} kind="select" label=${t("How")} value=${mode} onChange=${setMode} choices=${[["merge", t("Add to what is here")], ["replace", t("Replace what is here")]]}
        hint=${mode === "replace" ? t("What the file does not have is deleted; counters, the log and found models stay.") : undefined} />
      ${mode === "merge" && html`<${Field} kind="select" label=${t("Where both have it")} value=${conflict} onChange=${setConflict}
        choices=${[["overwrite", t("the file's holds")], ["fill", t("only what is empty here is filled")], ["skip", t("what is here stays")]]} />`}
      ${isTried && html`<${Outcome} report=${tried.report} />`}
      ${done && html`<${Outcome} report=${done} />`}
    <//><//>`;
}

function WebDav() {
  const read = useRead(`${PATH}/webdav`);
  const [report, setReport] = useState(null);
  return html`<${Section} title="WebDAV" read=${read}>${(value) => html`<${WebDavForm} key=${read.at} value=${value} read=${read} setReport=${setReport} />
    ${report && html`<${Outcome} report=${report} />`}`}<//>`;
}

function WebDavForm({ value: { config, state }, read, setReport }) {
  const { values, changes, set, field, clear } = useDraft({ ...config, password: "" });
  const save = async () => { read.set(await put(`${PATH}/webdav`, changes)); clear(); };
  const run = (what) => async () => { const answer = await post(`${PATH}/webdav/${what}`, {}, { timeoutMs: 0 }); if (what === "import") setReport(answer); await read.reload(); };
  const isSaved = !Object.keys(changes).length;
  const toggle = (name, label) => html`<${Field} kind="switch" label=${label} value=${values[name]} onChange=${(is) => set(name, is)} />`;
  return html`
    <${Form} act=${save} verb=${t("Save")} disabled=${isSaved} onCancel=${isSaved ? undefined : clear}>
      ${toggle("enabled", t("Use it"))}
      ${field("fileUrl", t("Address of the file"), { kind: "url", placeholder: "https://dav.example.com/backups/switchyard.json" })}
      ${field("username", t("User"))}
      ${field("password", t("Password"), { kind: "password", placeholder: config.hasPassword ? t("unchanged") : "" })}
      ${field("exportType", t("What"), { kind: "select", choices: PARTS() })}
      ${toggle("autoSyncEnabled", t("Export by the schedule"))}
      ${field("autoSyncCron", t("Schedule"), { class: "mono" })}
    <//>
    <p class="quiet">${state.lastSyncAt ? html`${t("Last export or import")}: <${Time} at=${state.lastSyncAt} />` : t("Not used yet.")}</p>
    ${state.lastError && html`<${Note} kind="bad"><bdi>${state.lastError}</bdi><//>`}
    ${config.enabled && isSaved && html`<p><${Action} act=${run("export")} done=${t("Done")}>${t("Export now")}<//>
      <${Removal} label=${t("Import now")} title=${t("Replace what is here")} name=${config.fileUrl} act=${run("import")}
        consequence=${t("What the file does not have is deleted; counters, the log and found models stay.")} /></p>`}`;
}

export const Backup = () => html`<div class="columns"><${Export} /><${Import} /><${WebDav} /></div>`;
