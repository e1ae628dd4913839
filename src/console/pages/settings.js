// The page Settings: the runtime settings by theme, and the upkeep of the server.

import { go, useAddress } from "../address.js";
import { Failure, get, post, put, token } from "../api.js";
import { useRead } from "../data.js";
import { duration } from "../format.js";
import {
  Action, Badge, Copyable, Failed, Field, Form, Kept, Link, Note, Pick, Section, Tabs, html, merged, newKey, partsOf, useDraft, useRef,
  useState, without,
} from "../parts.js";
import { currentLanguage, t } from "../words.js";
import { FORMS } from "./settings/table.js";
import { About, Backup, Database, Events, Maintenance, Tasks, Updates } from "./settings/upkeep.js";

// === a schedule in words ===

const NUMBERS = /^\d+(,\d+)*$/;
const two = (text) => text.padStart(2, "0");

function time(minute, hour) {
  const [, step] = /^\*\/(\d+)$/.exec(minute) ?? (minute === "*" ? [0, "1"] : []);
  if (step && hour === "*") return t("every {step} minutes", "每 {step} 分钟", { step });
  if (!NUMBERS.test(minute)) return null;
  if (hour === "*") return t("every hour at minute {minute}", "每小时第 {minute} 分", { minute });
  const [, hours] = /^\*\/(\d+)$/.exec(hour) ?? [];
  if (hours) return t("every {hours} hours at minute {minute}", "每 {hours} 小时第 {minute} 分", { hours, minute });
  if (!NUMBERS.test(hour)) return null;
  const times = hour.split(",").flatMap((one) => minute.split(",").map((other) => `${two(one)}:${two(other)}`));
  return t("at {times}", "{times}", { times: times.join(", ") });
}

function cronWords(text) {
  const parts = text.trim().split(/\s+/);
  if (parts.length === 6 && parts[0] === "0") parts.shift();
  const [minute, hour, day, month, week] = parts;
  const at = parts.length === 5 && month === "*" && time(minute, hour);
  if (!at) return null;
  if (day === "*" && week === "*") return hour === "*" ? at : t("every day {at}", "每天 {at}", { at });
  if (week === "*" && NUMBERS.test(day)) return t("on day {day} of the month {at}", "每月 {day} 日 {at}", { day, at });
  if (day !== "*" || !/^[0-7](,[0-7])*$/.test(week)) return null;
  const names = new Intl.DateTimeFormat(currentLanguage() === "zh" ? "zh-CN" : "en", { weekday: "long" });
  return t("on {days} {at}", "{days} {at}", { days: week.split(",").map((one) => names.format(new Date(2023, 0, 1 + Number(one)))).join(", "), at });
}

// === a form: it shows what was read, sends what was changed, and cannot be saved while the last read failed ===

const kindOf = ([, usual, , , kind]) => kind ?? { boolean: "switch", number: "number" }[typeof usual];
const valueAt = (values, field) => field.split(".").reduce((held, name) => held?.[name], values);

function shown(kind, value) {
  switch (kind) {
    case "switch": case "brands": return value;
    case "list": return value.join("\n");
    case "json": return JSON.stringify(value, null, 2);
    default: return String(value);
  }
}

// Returns what is wrong with a typed value, or null. The server checks the rest.
function fault(kind, typed) {
  if (kind === "number" && (typed.trim() === "" || !Number.isFinite(Number(typed)))) return t("This must be a number.", "须为数字。");
  if (kind !== "json") return null;
  try { JSON.parse(typed); return null; } catch (error) { return t("This is not JSON: {why}", "不是 JSON：{why}", { why: error.message }); }
}

function sent(kind, typed) {
  switch (kind) {
    case "number": return Number(typed);
    case "list": return partsOf(typed, "\n");
    case "json": return JSON.parse(typed);
    default: return typed ?? "";
  }
}

function usualWords(kind, usual, choices) {
  if (usual === null) return null;
  const value = kind === "switch" ? t(usual ? "on" : "off") : choices ? t(choices.find(([name]) => name === usual)[1]) : usual;
  return t("Default: {value}", "默认：{value}", { value });
}

function Brands({ label, value, onChange }) {
  const list = useRead("/api/settings/brand-list");
  const options = (list.value?.brands ?? []).map((name) => ({ key: name, text: name }));
  return html`<${Pick} label=${label} from=${[list]} options=${options} chosen=${value} onChange=${onChange} />`;
}

function Setting({ row, held, edit, onEdit, zone }) {
  const [field, usual, english, chinese, , choices] = row;
  const kind = kindOf(row);
  const label = t(english, chinese);
  const value = edit === undefined ? shown(kind, held) : edit;
  const failure = edit === undefined || edit === null ? null : fault(kind, value);
  const hint = [kind === "cron" && cronWords(value) && `${cronWords(value)} (${zone})`, usualWords(kind, usual, choices)].filter(Boolean).join(" · ");
  const shared = { label, value, failure, hint, onChange: onEdit };
  switch (kind) {
    case "secret": return html`<${Kept} label=${label} kind=${field.endsWith("Url") ? "text" : "password"} stored=${held}
      mayGo=${field !== "proxyToken"} value=${edit} onChange=${(typed) => onEdit(typed === "" ? undefined : typed)} />`;
    case "brands": return html`<${Brands} ...${shared} />`;
    case "choice": return html`<${Field} ...${shared} choices=${choices.map(([name, words]) => [name, t(words)])} />`;
    case "list": case "json": return html`<${Field} ...${shared} kind="area" class="mono" rows=${kind === "json" ? 14 : 4} />`;
    case "number": return html`<${Field} ...${shared} inputmode="decimal" />`;
    default: return html`<${Field} ...${shared} kind=${kind === "switch" ? "switch" : "text"} />`;
  }
}

// `edits` are the changes of the whole page by field, kept when the tab changes, and `before` what was held when they began;
// `beside` draws parts under fields: `{field: (typed, held) => part}`.
function SettingsForm({ form: [title, chineseTitle, rows], read, edits, setEdits, before, beside = {} }) {
  const [limited, setLimited] = useState([]);
  const heldOf = ([field]) => read.value[`${field}Masked`] ?? valueAt(read.value, field);
  const known = rows.filter((row) => heldOf(row) !== undefined);
  const changed = known.filter(([field]) => edits[field] !== undefined);
  const edit = (row) => (value) => {
    const isSame = JSON.stringify(value) === JSON.stringify(shown(kindOf(row), heldOf(row)));
    if (edits[row[0]] === undefined) before[row[0]] = heldOf(row);
    setEdits(({ [row[0]]: _, ...rest }) => (isSame || value === undefined ? rest : { ...rest, [row[0]]: value }));
  };
  const draft = { isSame: !changed.length, clear: () => changed.forEach((row) => edit(row)()),
    saved: () => setEdits((now) => without(now, Object.fromEntries(changed.map(([field]) => [field, edits[field]])))) };
  const save = async () => {
    const body = {};
    const now = await get("/api/settings/runtime");
    for (const row of changed) {
      const [field, , english, chinese] = row;
      const kind = kindOf(row);
      const wrong = edits[field] === null ? null : fault(kind, edits[field]);
      if (wrong) throw new Failure("refused", `${t(english, chinese)}: ${wrong}`);
      const [name, member] = field.split(".");
      const typed = sent(kind, edits[field]);
      const value = /list|brands/.test(kind) ? merged(before[field], typed, now[field]) : typed;
      body[name] = member ? { ...body[name], [member]: value } : value;
    }
    const stored = await put("/api/settings/runtime", body);
    read.set(stored);
    const moved = changed.filter((row) => kindOf(row) === "number" && valueAt(stored, row[0]) !== valueAt(body, row[0]));
    setLimited(moved.map(([field, , english, chinese]) => [t(english, chinese), valueAt(stored, field)]));
  };
  return html`<${Section} title=${t(title, chineseTitle)}>
    <${Form} keeps draft=${draft} act=${save} disabled=${read.failure !== null}>
      ${known.map((row) => html`<${Setting} key=${row[0]} row=${row} held=${heldOf(row)} edit=${edits[row[0]]} onEdit=${edit(row)}
          zone=${read.value.serverTimeZone} />
        ${beside[row[0]]?.(edits[row[0]], heldOf(row), edit(row))}`)}
      ${limited.map(([name, value]) => html`<${Note} kind="warn">${t("{name}: {value} was saved instead, the nearest allowed.",
        "{name}：已改存最接近的允许值 {value}。", { name, value })}<//>`)}
    <//><//>`;
}

// === who may use the server ===

const BUILT_IN = () => t("The built-in token is in use. It works on this machine only.", "正在使用内置令牌，仅限本机。");

function AdminToken({ value }) {
  const draft = useDraft({});
  const { values: { old, fresh = "", again }, field } = draft;
  const change = async () => {
    if (fresh !== again) throw new Failure("refused", t("The two new tokens differ.", "两次输入的新令牌不同。"));
    await post("/api/settings/auth/change", { oldToken: old, newToken: fresh });
    token.set(fresh, token.isKept());
  };
  const secret = (name, label, hint) => field(name, label, { kind: "password", hint });
  return html`<${Section} title=${t("Admin token")}>
    ${value.usingDefaultAdminToken && html`<${Note} kind="warn">${BUILT_IN()}<//>`}
    ${value.credentialSecretWeak && html`<${Note} kind="warn">${t("ACCOUNT_CREDENTIAL_SECRET, which seals stored credentials, is weak or not set.",
      "用于加密凭据的 ACCOUNT_CREDENTIAL_SECRET 过弱或未设置。")}<//>`}
    <${Form} draft=${draft} act=${change} verb=${t("Change the token", "修改令牌")}
      done=${t("The new token is in use.", "新令牌已生效。")} disabled=${!old || !fresh}>
      ${secret("old", t("Current token", "当前令牌"))}
      ${secret("fresh", t("New token"), t("6 to 512 ASCII characters, blanks only inside. It applies at once, everywhere.",
        "6 至 512 个 ASCII 字符，首尾不含空格，立即在各处生效。"))}
      ${secret("again", t("New token again", "再次输入新令牌"))}
    <//><//>`;
}

function ProxyTest({ typed }) {
  const test = () => post("/api/settings/system-proxy/test", typed ? { proxyUrl: typed } : {});
  return html`<${Action} act=${test} done=${(answer) => t("The proxy works: {status} in {time}",
    "可以出站：{status}，{time}", { status: answer.statusCode, time: duration(answer.latencyMs) })}>${t("Test the proxy", "测试代理")}<//>`;
}

// Shows a token that was generated here; a typed one stays hidden.
function MadeUp({ typed, edit }) {
  const [made, setMade] = useState(null);
  return typed && typed === made ? html`<${Copyable} text=${made} label=${t("New token")} />`
    : html`<button type="button" onClick=${() => { const fresh = newKey(); setMade(fresh); edit(fresh); }}>${t("Generate one", "生成一个")}</button>`;
}

const besideAccess = (value) => ({
  adminIpAllowlist: (typed, held, edit) => {
    const list = typed === undefined ? held : partsOf(typed);
    const locksOut = typed !== undefined && list.length > 0 && !list.includes(value.currentAdminIp);
    return html`<p class="hint">${t("Your address: {address}", "您的地址：{address}", { address: value.currentAdminIp })}</p>
      ${locksOut && html`<${Note} kind="warn">${t("If none of these networks contains it, this list would lock you out and is refused.",
        "除非其中某个网段包含它，否则此列表会把您挡在外面，将被拒绝。")}
        ${" "}<${Link} act=${() => edit([...list, value.currentAdminIp].join("\n"))}>${
          t("Add {address}", "添加 {address}", { address: value.currentAdminIp })}<//><//>`}`;
  },
  proxyToken: (typed, held, edit) => html`${value.usingDefaultProxyToken && html`<${Note} kind="warn">${BUILT_IN()}<//>`}
    <${MadeUp} typed=${typed} edit=${edit} />`,
  systemProxyUrl: (typed, held) => (typed || held) && html`<${ProxyTest} typed=${typed} />`,
});

// === the page ===

const TABS = () => [
  ["routing", t("Routing", "路由")], ["limits", t("Limits", "限制")], ["jobs", t("Schedules", "计划")],
  ["notices", t("Notices", "通知")], ["models", t("Models")], ["traces", t("Traces")], ["rewriting", t("Rewriting", "改写")],
  ["access", t("Access", "访问")], ["backup", t("Backup", "备份")], ["tasks", t("Tasks")], ["events", t("Events")],
  ["maintenance", t("Maintenance", "维护")], ["database", t("Database")], ["updates", t("Updates")], ["about", t("About")],
];
const PARTS = { backup: Backup, tasks: Tasks, events: Events, maintenance: Maintenance, database: Database, updates: Updates, about: About };

// Shows the result of each channel, even if all failed.
function NoticeTest() {
  const [channels, setChannels] = useState([]);
  const test = async () => {
    setChannels([]);
    try { setChannels((await post("/api/settings/notify/test")).channels); } catch (failure) {
      if (!failure.value?.channels) throw failure;
      setChannels(failure.value.channels);
    }
  };
  return html`<${Section} title=${t("Test", "测试")} actions=${html`<${Action} act=${test}>${t("Send a test notice", "发送测试通知")}<//>`}>
    <p class="quiet">${t("The saved settings are tested.", "测试使用已保存的设置。")}</p>
    <ul aria-live="polite">${channels.map((one) => html`<li key=${one.channel}>
      <${Badge} kind=${one.success ? "good" : "bad"}>${one.success ? t("sent", "已发送") : t("failed")}<//>
      ${" "}${one.channel} <bdi>${one.message}</bdi></li>`)}</ul><//>`;
}

export function Page() {
  const { query } = useAddress();
  const tabs = TABS();
  const tab = tabs.some(([name]) => name === query.tab) ? query.tab : "routing";
  const read = useRead("/api/settings/runtime", { every: 60 });
  const [edits, setEdits] = useState({});
  const before = useRef({});
  const Part = PARTS[tab];
  const beside = tab === "access" && read.value ? besideAccess(read.value) : undefined;
  return html`<div class=${Object.keys(edits).length ? "unsaved" : ""}>
    <${Tabs} label=${t("Settings")} value=${tab} onChange=${(name) => go("/settings", { tab: name }, { replace: true })} items=${tabs} />
    ${Part ? html`<${Part} />` : !read.value ? html`<${Section} read=${read} />` : html`
      <${Failed} of=${read} />
      ${tab === "notices" && html`<${NoticeTest} />`}
      <div class="columns">${tab === "access" && html`<${AdminToken} value=${read.value} />`}
        ${FORMS[tab].map((form) => html`<${SettingsForm} key=${form[0]} form=${form} read=${read} edits=${edits} setEdits=${setEdits}
          before=${before.current} beside=${beside} />`)}</div>`}</div>`;
}
