// The upkeep of the server: backups, database, updates, tasks, events, maintenance, and what it is built on.

import { href, useFilter } from "../../address.js";
import { events, forHeader, get, post, put, remove, send } from "../../api.js";
import { useRead } from "../../data.js";
import { clock, number } from "../../format.js";
import { List } from "../../list.js";
import {
  Action, Badge, Copyable, Field, Filter, Fold, Form, Healthy, Kept, Level, Newest, Note, Pairs, Removal, Section, Table, Time, eventTitle, html, saveFile, taskTitle, useDraft, useEffect, useState
} from "../../parts.js";
import { coded, t } from "../../words.js";

// === backups ===

const PARTS = () => [["all", t("All")], ["accounts", t("Sites, accounts, routes and keys", "站点、账号、路由和密钥")], ["preferences", t("Settings")]];
const ACTIONS = { created: "good", updated: "", skipped: "", deleted: "warn", refused: "bad" };
const BACKUP = "/api/settings/backup";
const LOST = () => t("What the file does not have is deleted; counters, the log and discovered models stay.", "文件中没有的将被删除；计数、日志和已发现的模型保留。");
const SEALED = '{"format":"switchyard-sealed"';

const withPassphrase = (text) => (text ? { "x-backup-passphrase": forHeader(text) } : {});

function Export() {
  const { values: { type, passphrase }, field } = useDraft({ type: "all", passphrase: "" });
  const save = async () => {
    const answer = await send("GET", href(`${BACKUP}/export`, { type }), { timeoutMs: 0, headers: withPassphrase(passphrase) });
    saveFile(await answer.blob(), /filename="([^"]+)"/.exec(answer.headers.get("content-disposition"))?.[1] ?? "switchyard-backup.json");
  };
  return html`<${Section} title=${t("Export", "导出")}>
    <p>${t("It holds every credential: in clear, or sealed with a passphrase.", "文件含有全部凭据：明文，或用口令加密。")}</p>
    ${field("type", t("What"), { choices: PARTS() })}
    ${field("passphrase", t("Passphrase"), { kind: "password", hint: passphrase ? t("The file can be opened only with it.", "只有它能打开此文件。") : t("Empty: everything is in clear. Keep the file safe.", "留空：全部为明文，请妥善保管文件。") })}
    <${Action} class="first" act=${save} done=${t("Saved")}>${t("Save a backup", "保存备份")}<//><//>`;
}

function Outcome({ report }) {
  const title = t("Row by row", "逐行");
  return html`<${Note} kind=${report.counts?.refused ? "bad" : "good"}><bdi>${report.message}</bdi><//>
    ${report.counts && html`<p>${Object.entries(report.counts).map(([action, count]) => html`<${Badge} key=${action} kind=${count ? ACTIONS[action] : ""}>${t(action)}: ${count}<//> `)}</p>`}
    ${report.warnings?.length > 0 && html`<ul>${report.warnings.map((words) => html`<li key=${words}><bdi>${words}</bdi></li>`)}</ul>`}
    ${report.rows?.length > 0 && html`<details><summary>${title}</summary><${Table} label=${title}
        rows=${report.rows.map((row) => [html`<${Badge} kind=${ACTIONS[row.action]}>${t(row.action)}<//>`, row.section, row.name, row.reason])} />
      ${report.rowsOmitted > 0 && html`<p class="quiet">${t("{count} more", { count: report.rowsOmitted })}</p>`}</details>`}`;
}

// A file can be imported only after a dry run with the same options.
function Import() {
  const [file, setFile] = useState(null);
  const [form, setForm] = useState("json");
  const { values: { passphrase, mode, conflict }, field } = useDraft({ passphrase: "", mode: "merge", conflict: "overwrite" });
  const [tried, setTried] = useState(null);
  const [done, setDone] = useState(null);
  const isTried = tried !== null && tried.file === file && tried.mode === mode && tried.conflict === conflict;
  const ask = async (dryRun) => {
    const query = { mode, conflict: mode === "merge" ? conflict : "", dryRun: dryRun ? "1" : "" };
    const answer = await send("POST", href(`${BACKUP}/import`, query), form === "json"
      // A byte order mark, whose text is empty, is left out.
      ? { body: new Blob(['{"data":', file.slice(await file.slice(0, 3).text() ? 0 : 3), "}"]), timeoutMs: 0 }
      : { body: file, timeoutMs: 0, headers: { "content-type": "application/octet-stream", ...withPassphrase(form === "sealed" ? passphrase : "") } });
    return answer.json();
  };
  const act = async () => {
    setDone(null);
    if (!isTried) return setTried({ file, mode, conflict, report: await ask(true) });
    setDone(await ask(false));
    return setTried(null);
  };
  const choose = async (chosen) => {
    const beginning = await chosen?.slice(0, 64).text() ?? "";
    setForm(beginning.startsWith(SEALED) ? "sealed" : /^\s*{/.test(beginning) ? "json" : "other");
    setFile(chosen ?? null);
  };
  const isRefused = isTried && tried.report.counts?.refused > 0;
  const verb = !isTried ? t("See what it would change", "查看将有哪些改动") : mode === "replace" ? t("Replace what is here") : t("Import");
  return html`<${Section} title=${t("Import")}>
    <p>${t("A backup of Switchyard, or another gateway's JSON, YAML or SQLite database. Everything is imported, or nothing.", "Switchyard 的备份，或其他网关的 JSON、YAML、SQLite 数据库。全部导入，或不导入。")}</p>
    <${Form} act=${act} verb=${verb} disabled=${!file || isRefused}>
      <div class="field"><label for="backup-file">${t("File", "文件")}</label><input id="backup-file" type="file" accept=".json,.sealed,.yaml,.yml,.db,.sqlite,.sqlite3" onChange=${(event) => choose(event.target.files[0])} /></div>
      ${form === "sealed" && field("passphrase", t("Passphrase"), { kind: "password", hint: t("The file is sealed. Empty: BACKUP_PASSPHRASE of this server is tried.", "文件已加密。留空则尝试此服务器的 BACKUP_PASSPHRASE。") })}
      ${field("mode", t("How", "方式"), { choices: [["merge", t("Add to what is here", "并入现有数据")], ["replace", t("Replace what is here")]],
        hint: mode === "replace" ? LOST() : undefined })}
      ${mode === "merge" && field("conflict", t("If both have it", "两边都有时"), { choices: [["overwrite", t("use the file's", "以文件为准")],
        ["fill", t("fill only what is empty here", "只填补空缺")], ["skip", t("keep what is here", "保留现有")]] })}
      ${isTried && html`<${Outcome} report=${tried.report} />`}
      ${done && html`<${Outcome} report=${done} />`}
    <//><//>`;
}

function WebDav() {
  const read = useRead(`${BACKUP}/webdav`, { every: 60 });
  const [report, setReport] = useState(null);
  return html`<${Section} title="WebDAV" read=${read}>${(value) => html`<${WebDavForm} value=${value} read=${read} setReport=${setReport} />
    ${report && html`<${Outcome} report=${report} />`}`}<//>`;
}

function WebDavForm({ value: { config, state }, read, setReport }) {
  const draft = useDraft({ ...config, password: "" });
  const { changes, values, field, set, isSame } = draft;
  const [passphrase, setPassphrase] = useState("");
  const { password, ...rest } = changes;
  const body = { ...rest, ...(password === null ? { clearPassword: true } : password && { password }) };
  const run = (what) => async () => { const answer = await post(`${BACKUP}/webdav/${what}`, {}, { timeoutMs: 0, headers: withPassphrase(passphrase) }); if (what === "import") setReport(answer); await read.reload(); };
  return html`
    <${Form} draft=${draft} act=${async () => read.set(await put(`${BACKUP}/webdav`, body))}>
      ${field("enabled", t("Use it", "启用"), { kind: "switch" })}
      ${field("fileUrl", t("Address of the file", "文件地址"), { kind: "url", placeholder: "https://dav.example.com/backups/switchyard.json" })}
      ${field("username", t("User"))}
      <${Kept} kind="password" label=${t("Password")} stored=${config.hasPassword} value=${values.password} onChange=${(value) => set("password", value)} />
      ${field("exportType", t("What"), { choices: PARTS() })}
      ${field("autoSyncEnabled", t("Export by the schedule", "按计划导出"), { kind: "switch" })}
      ${field("autoSyncCron", t("Schedule", "计划"), { class: "mono" })}
    <//>
    <p class="quiet">${state.lastSyncAt ? html`${t("Last export or import", "上次导出或导入")}: <${Time} at=${state.lastSyncAt} />` : t("Not used yet.", "尚未使用。")}</p>
    ${state.lastError && html`<${Note} kind="bad"><bdi>${state.lastError}</bdi><//>`}
    ${state.lastWarning && html`<${Note} kind="warn"><bdi>${state.lastWarning}</bdi><//>`}
    ${config.enabled && isSame && html`<${Field} kind="password" label=${t("Passphrase")} value=${passphrase} onChange=${setPassphrase} hint=${t("To import a file that is sealed.", "用于导入已加密的文件。")} />
      <p><${Action} act=${run("export")} done=${t("Done")}>${t("Export now", "立即导出")}<//>
      <${Removal} label=${t("Import now", "立即导入")} title=${t("Replace what is here")} name=${config.fileUrl} act=${run("import")}
        consequence=${LOST()} /></p>`}`;
}

export const Backup = () => html`<div class="columns"><${Export} /><${Import} /><${WebDav} /></div>
  <p class="hint">${t("BACKUP_CRON writes backups into a directory of the server; BACKUP_PASSPHRASE seals them.", "BACKUP_CRON 定期把备份写入服务器目录，BACKUP_PASSPHRASE 将其加密。")}</p>`;

// === the database ===

const DATABASE = "/api/settings/database";
const NAMES = { sqlite: "SQLite", postgres: "PostgreSQL", mysql: "MySQL" };
const Name = ({ of: { dialect, connection, ssl } }) => html`<strong>${NAMES[dialect] ?? dialect}</strong> <bdi class="mono">${connection}</bdi> ${ssl && html`<${Badge}>TLS<//>`}`;

export function Database() {
  const read = useRead(`${DATABASE}/runtime`, { every: 60 });
  if (read.failure?.status === 404) {
    return html`<${Section} title=${t("Database")}><p>${t("The database is chosen in the environment of this server.", "数据库由此服务器的环境变量选定。")}</p><//>`;
  }
  return html`<div class="columns">
    <${Section} title=${t("Database")} read=${read}>${({ active, saved, restartRequired }) => html`
      <p>${t("In use")}: <${Name} of=${active} /></p>
      ${saved && html`<p>${t("Saved")}: <${Name} of=${saved} /></p>`}
      ${restartRequired && html`<${Note} kind="warn">${t("What is saved takes effect when the server restarts.", "已保存的设置在服务器重启后生效。")}<//>`}`}<//>
    ${read.value && html`<${Another} read=${read} />`}</div>`;
}

// The address has a password: the user types it, the server never sends it.
function Another({ read }) {
  const { dialects = ["postgres", "mysql", "sqlite"] } = read.value;
  const { values, field } = useDraft({ dialect: dialects[0], connectionString: "", ssl: false, overwrite: false });
  const [copied, setCopied] = useState(null);
  const { overwrite, ...rest } = values;
  const body = { ...rest, connectionString: rest.connectionString.trim() };
  const copy = async () => setCopied(await post(`${DATABASE}/migrate`, { ...body, overwrite }, { timeoutMs: 0 }));
  return html`<${Section} title=${t("Another database", "另一个数据库")}>
    <${Form} act=${async () => read.set(await put(`${DATABASE}/runtime`, body))} verb=${t("Use it from the next start on", "下次启动起使用")} disabled=${!body.connectionString}>
      ${field("dialect", t("Kind"), { choices: dialects.map((one) => [one, NAMES[one]]) })}
      ${field("connectionString", t("Address"), { kind: "password", class: "mono", placeholder: "postgres://user:password@host/name" })}
      ${body.dialect !== "sqlite" && field("ssl", t("Over TLS", "通过 TLS"), { kind: "switch" })}
      ${field("overwrite", t("Empty the other one before copying", "复制前清空目标"), { kind: "switch", hint: t("Otherwise one that is not empty is refused.", "否则拒绝非空的数据库。") })}
      ${body.connectionString && html`<div class="actions">
        <${Action} act=${() => post(`${DATABASE}/test-connection`, body)} done=${t("It answers.", "连接正常。")}>${t("Test the connection", "测试连接")}<//>
        <${Removal} label=${t("Copy everything there", "全部复制过去")} title=${t("Copy everything there?", "全部复制过去？")} name=${NAMES[body.dialect]} act=${copy}
          consequence=${overwrite ? t("What the other database holds is deleted first.", "先删除目标数据库中的内容。") : t("This one stays as it is.", "当前数据库保持不变。")} /></div>`}
      ${copied && html`<${Note} kind="good"><bdi>${copied.message}</bdi><//>
        <${Table} label=${t("Copied")} head=${[t("What"), t("Rows", "行数")]} rows=${Object.entries(copied.rows).map(([name, rows]) => [name, number(rows)])} />`}
    <//><//>`;
}

// === the update center ===

const UPDATES = "/api/update-center";
const imageOf = (one) => [one.imageRepository, one.imageTag].filter(Boolean).join(":") || "–";

function Progress({ task, after }) {
  const [lines, setLines] = useState([]);
  useEffect(() => {
    const stop = new AbortController();
    const follow = async () => {
      setLines([]);
      for await (const { event, data } of events(await send("GET", `${UPDATES}/tasks/${task.id}/stream`, { signal: stop.signal, timeoutMs: 0 }))) {
        if (event === "log") setLines((before) => [...before, JSON.parse(data)]);
        if (event === "done") after();
      }
    };
    // If the stream breaks off, the list of tasks has the rest.
    follow().catch(() => {});
    return () => stop.abort();
  }, [task.id]);
  return html`<${Section} title=${task.title}><pre tabindex="0" aria-label=${task.title}>${lines.map((line) => `${clock(line.createdAt)} ${line.message}\n`)}</pre>
    ${task.error && html`<${Note} kind="bad"><bdi>${task.error}</bdi><//>`}<//>`;
}

function Found({ status, reload }) {
  const { config, helper, runtime } = status;
  const change = (label, title, name, path, body) => config.enabled && !status.runningTask && html`<${Removal} class="quiet" label=${label} title=${title} name=${name}
    consequence=${t("The server restarts; requests in progress are finished first.", "服务器将重启；先完成进行中的请求。")} act=${() => post(`${UPDATES}/${path}`, body)} after=${reload} />`;
  // If no release or image is looked for, `source` names the setting to make.
  const row = (name, version, source) => {
    const text = version && html`<bdi>${version.displayVersion ?? version.rawVersion}</bdi>`;
    return html`<li key=${name}>${name}: ${!version ? html`<span class="quiet">${source ? `${t("not set up")} (${source})` : t("nothing found", "未找到")}</span>`
      : html`${version.url ? html`<a href=${version.url} target="_blank" rel="noopener noreferrer">${text}</a>` : text} <span class="quiet">${version.publishedAt && html`<${Time} at=${version.publishedAt} />`}</span>
        ${change(t("Deploy", "部署"), t("Deploy this version?", "部署此版本？"), text, "deploy", { source: version.source, targetTag: version.tagName ?? version.rawVersion, targetDigest: version.digest })}`}</li>`;
  };
  const earlier = (one) => html`<li key=${one.revision}><bdi>${one.revision} · ${imageOf(one)} · ${one.status}</bdi> <span class="quiet">${one.updatedAt && html`<${Time} at=${one.updatedAt} />`}</span>
    ${one.revision !== helper.revision && change(t("Roll back", "回退"), t("Roll back to this revision?", "回退到此版本？"), `${one.revision} · ${imageOf(one)}`, "rollback", { targetRevision: one.revision })}</li>`;
  return html`
    <p>${t("This server is {version}.", "当前版本 {version}。", { version: status.currentVersion })} <span class="quiet">${runtime.lastCheckedAt ? html`${t("Checked", "查询于")} <${Time} at=${runtime.lastCheckedAt} />` : t("Not checked yet.", "尚未查询。")}</span></p>
    ${runtime.lastCheckError && html`<${Note} kind="warn"><bdi>${runtime.lastCheckError}</bdi><//>`}
    <ul class="plain">${row(t("Release"), status.githubRelease, !status.releaseRepository && "UPDATE_CENTER_RELEASE_REPOSITORY")}${row(t("Image"), status.dockerHubTag, !config.imageRepository && t("Repository of the image"))}${status.dockerHubRecentTags.map((one) => row(one.tagName, one))}</ul>
    <p>${t("Helper in the cluster", "集群助手")}: ${helper.ok ? html`<${Healthy} is=${helper.healthy} /> <bdi>${imageOf(helper)}</bdi>`
      : html`<span class="quiet">${(config.helperBaseUrl && helper.error) || t("not set up")}</span>`}</p>
    ${helper.history.length > 0 && html`<h3>${t("Earlier versions", "历史版本")}</h3><ul class="plain">${helper.history.map(earlier)}</ul>`}`;
}

function Config({ read }) {
  const draft = useDraft(read.value.config);
  const { changes, field } = draft;
  return html`<${Section} title=${t("Where updates come from", "更新来源")}>
    <${Form} draft=${draft} act=${() => put(`${UPDATES}/config`, changes)} after=${read.reload} disabled=${read.failure !== null}>
      ${field("enabled", t("Allow deployments", "允许部署"), { kind: "switch" })}
      ${field("githubReleasesEnabled", t("Check releases", "查询发布版"), { kind: "switch" })}
      ${field("dockerHubTagsEnabled", t("Check images", "查询镜像"), { kind: "switch" })}
      ${field("imageRepository", t("Repository of the image"), { class: "mono" })}
      ${field("defaultDeploySource", t("Deployed by default", "默认部署来源"), { choices: [["github-release", t("Release")], ["docker-hub-tag", t("Image")]] })}
      ${field("helperBaseUrl", t("Address of the helper in the cluster", "集群助手地址"), { kind: "url", hint: t("Its token is DEPLOY_HELPER_TOKEN, at both ends.", "两端的令牌均为 DEPLOY_HELPER_TOKEN。") })}
      ${field("namespace", t("Namespace", "命名空间"))}
      ${field("releaseName", t("Name of the release in the cluster", "集群中的发布名称"))}
      ${field("chartRef", "Helm chart", { class: "mono" })}
    <//><//>`;
}

export function Updates() {
  const read = useRead(`${UPDATES}/status`, { every: 60 });
  const task = read.value?.runningTask ?? read.value?.lastFinishedTask;
  const check = async () => read.set(await post(`${UPDATES}/check`));
  return html`<div class="columns">
    <${Section} title=${t("Updates")} read=${read} actions=${html`<${Action} act=${check}>${t("Check now")}<//>`}>${(status) => html`<${Found} status=${status} reload=${read.reload} />`}<//>
    ${read.value && html`<${Config} read=${read} />`}</div>
    ${task && html`<${Progress} key=${task.id} task=${task} after=${() => read.value.runningTask && read.reload()} />`}`;
}

// === tasks, events, maintenance, about ===

const TASK = () => ({ pending: ["", t("waiting", "等待中")], running: ["warn", t("running", "进行中")], succeeded: ["good", t("done")], failed: ["bad", t("failed")] });

export function Tasks() {
  const read = useRead(`/api/tasks?limit=${MOST_TASKS}`, { every: 5 });
  const columns = [
    [t("Task", "任务"), taskTitle],
    [t("State"), (task) => html`<${Badge} kind=${TASK()[task.status][0]}>${TASK()[task.status][1]}<//>`],
    [t("Progress", "进度"), (task) => task.error ?? task.message],
    [t("Started"), (task) => html`<${Time} at=${task.startedAt ?? task.createdAt} />`, "less"],
  ];
  const instances = t("Instances on this database", "共用此数据库的实例");
  const result = t("Result", "结果");
  const detail = (task) => html`<p class=${task.error ? "bad-text" : ""}><bdi>${task.error ?? task.message}</bdi></p>
    <${Table} label=${t("Log")} rows=${task.logs.map((line) => [clock(line.createdAt), line.message])} />
    ${task.result !== null && html`<${Fold} label=${result}><${Copyable} label=${result} text=${JSON.stringify(task.result, null, 2)} /><//>`}`;
  return html`<${Section} title=${t("Tasks")} read=${read} isEmpty=${(value) => !value.tasks.length} empty=${t("No task since the server was started.", "服务器启动以来没有任务。")}>
    ${(value) => html`<${List} label=${t("Tasks")} rows=${value.tasks} columns=${columns} detail=${detail} /><${Newest} rows=${value.tasks} most=${MOST_TASKS} />`}<//>
    ${read.value && html`<${Section} title=${instances}><${Table} label=${instances} head=${[t("Name"), t("Version", "版本"), t("Started"), t("Last seen", "最近在线")]}
      rows=${read.value.instances.map((one) => [html`${one.name} ${one.isThis && html`<${Badge} kind="good">${t("this one", "当前")}<//>`}`, one.version, html`<${Time} at=${one.startedAt} />`, html`<${Time} at=${one.lastSeenAt} />`])} /><//>`}`;
}

const EVENTS = ["checkin", "balance", "token", "proxy", "status", "site_notice"];
const MOST_EVENTS = 500;
const MOST_TASKS = 200;

export function Events() {
  const [unread, setUnread] = useFilter("unread");
  const [type] = useFilter("type");
  const read = useRead(href("/api/events", { limit: MOST_EVENTS, read: unread && "false", type }), { every: unread ? 0 : 15, keeps: true });
  // An event that is open stays in the list of unread ones.
  const open = async (event) => { if (!event.read) { await post(`/api/events/${event.id}/read`).catch(() => {}); if (!unread) read.reload(); } };
  const columns = [
    [t("Event", "事件"), (event) => html`<span style=${{ fontWeight: event.read ? 400 : 700 }}>${eventTitle(event)}</span>`],
    [t("Level", "级别"), (event) => html`<${Level} of=${event.level} /> ${!event.read && html`<span class="quiet">${t("new")}</span>`}`],
    [t("Message", "内容"), (event) => event.message, "less"],
    [t("Time"), (event) => html`<${Time} at=${event.createdAt} />`],
  ];
  const detail = (event) => html`<p><bdi>${eventTitle(event)}</bdi></p><p><bdi>${event.message}</bdi></p><p class="quiet">${event.type} · <${Time} at=${event.createdAt} plain /></p>`;
  return html`<${Section} title=${t("Events")} read=${read} actions=${html`
      <${Action} act=${() => post("/api/events/read-all")} after=${read.reload}>${t("Mark all as read")}<//>
      <${Removal} label=${t("Delete all")} title=${t("Delete all events?", "删除全部事件？")} name=${t("Every event, read and unread", "所有事件，无论是否已读")} act=${() => remove("/api/events")} after=${read.reload} />`}>
    ${(events) => html`<div class="filters"><${Filter} name="type" label=${t("Kind")} choices=${[["", t("All")], ...EVENTS.map((one) => [one, coded(one, one.replace("_", " "))])]} />
        <${Field} kind="switch" label=${t("Unread only", "仅未读")} value=${unread === "1"} onChange=${(is) => setUnread(is ? "1" : "")} /></div>
      <${List} label=${t("Events")} rows=${events} columns=${columns} onOpen=${open} detail=${detail} empty=${t("No events.", "没有事件。")} />
      <${Newest} rows=${events} most=${MOST_EVENTS} />`}<//>`;
}

const WORK = () => [
  ["clear-usage", t("Clear usage", "清除用量"), t("The log, all sums, counters and cooldowns are deleted.", "清除全部请求日志、统计、计数和冷却。")],
  ["clear-cache", t("Forget discovered models", "清除已发现的模型"), t("Discovered models are deleted with their channels and routes, then models are discovered again. What was added by hand stays.", "删除已发现的模型及其通道和路由，然后重新查询；手工建立的保留。")],
  ["rotate-seal-key", t("New seal key"), t("A new key seals every stored credential; a task seals the existing ones again.", "用新密钥加密所有凭据；由任务重新加密旧数据。")],
  ["replace-index-key", t("New index key"), t("A new key is used for the look-up hashes; a task computes the existing ones again.", "用新密钥生成查找用的散列；由任务重新生成旧数据。")],
  ["factory-reset", t("Factory reset", "恢复出厂"), t("Everything is deleted, including the log and the settings. The admin token becomes the built-in one again, which works on the server's machine only.", "全部删除，包括日志和设置；管理令牌恢复为内置值，仅限服务器本机。"), "RESET"],
];

export function Maintenance() {
  const [answer, setAnswer] = useState(null);
  const run = async (name, phrase) => {
    setAnswer({ name, ...await post(`/api/settings/maintenance/${name}`, phrase && { confirm: phrase }) });
    // The token is no longer valid: the answer to this request leads to the sign-in.
    if (phrase) get("/api/events/count").catch(() => {});
  };
  return html`<div class="columns">${WORK().map(([name, title, words, phrase]) => html`<${Section} title=${title} key=${name}><p>${words}</p>
    <${Removal} label=${title} title=${t("Continue?", "继续？")} name=${`${title} · ${location.host}`} consequence=${words} phrase=${phrase} act=${() => run(name, phrase)} />
    ${answer?.name === name && html`<p class="said good" role="status">${answer.jobId ? html`<a href=${`/settings?tab=tasks&open=${answer.jobId}`}>${t("A task is doing it: see its progress", "已由任务执行：查看进度")}</a>` : t("Done")}</p>`}<//>`)}</div>`;
}

// The direct dependencies of this version by licence; `.ci/dependencies` compares them with the build.
const LICENCES = [
  ["MIT", "bytes, http-body, http-body-util, hyper, hyper-util, mimalloc, Preact, rusqlite, ruzstd, thread-priority, tokio, tokio-tungstenite, tower-service"],
  ["MIT OR Apache-2.0", "arc-swap, argon2, base64, flate2, futures-util, http, httparse, ipnet, itoa, log, mail-send, mysql_async, percent-encoding, regex-lite, saphyr-parser, serde, serde_json, smtp-proto, socket2, tokio-postgres, tokio-rustls"],
  ["Apache-2.0 OR ISC OR MIT", "rustls"], ["Apache-2.0 AND ISC", "ring"], ["Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", "rustix"], ["Apache-2.0", "htm"], ["BSD-3-Clause", "subtle"], ["BSD-3-Clause OR MIT", "brotli-decompressor"],
  ["CDLA-Permissive-2.0", "webpki-roots"], ["Unlicense OR MIT", "jiff, memchr"], ["Zlib", "foldhash"],
];

export function About() {
  const read = useRead("/api/tasks?limit=1");
  const save = async () => saveFile(await (await send("GET", "/api/openapi.json")).blob(), "switchyard-openapi.json");
  return html`<${Section} title=${t("About")} read=${read}>${({ instances }) => html`<p>Switchyard <bdi>${instances.find((one) => one.isThis)?.version}</bdi> (MIT)</p>
      <${Action} act=${save}>${t("Save the description of the API (OpenAPI)", "保存接口描述（OpenAPI）")}<//>`}<//>
    <${Section} title=${t("Third-party components", "第三方组件")}><${Pairs} of=${LICENCES} /><//>`;
}
