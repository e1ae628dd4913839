// A form of runtime settings. It shows what was read, sends what was changed, and cannot be saved while the last read failed.

import { useState } from "../../vendor/htm-preact.js";
import { Failure, put } from "../../api.js";
import { useRead } from "../../data.js";
import { Failed, Field, Form, Pick, Section, html } from "../../parts.js";
import { t } from "../../words.js";
import { cronWords } from "./cron.js";

const kindOf = ([, usual, , , kind]) => kind ?? { boolean: "switch", number: "number" }[typeof usual] ?? "text";
const valueAt = (values, field) => field.split(".").reduce((held, name) => held?.[name], values);

// A value as the field shows it.
function shown(kind, value) {
  switch (kind) {
    case "switch": case "brands": return value;
    case "list": return value.join("\n");
    case "json": return JSON.stringify(value, null, 2);
    case "secret": return "";
    default: return String(value);
  }
}

// What is wrong with what was typed, or nothing. The rest is the server's to say.
function fault(kind, typed) {
  if (kind === "number" && (typed.trim() === "" || !Number.isFinite(Number(typed)))) return t("This has to be a number.");
  if (kind !== "json") return null;
  try { JSON.parse(typed); return null; } catch (error) { return t("This is not JSON: {why}", { why: error.message }); }
}

function sent(kind, typed) {
  switch (kind) {
    case "number": return Number(typed);
    case "list": return typed.split("\n").map((line) => line.trim()).filter(Boolean);
    case "json": return JSON.parse(typed);
    default: return typed ?? "";
  }
}

function usualWords(kind, usual, choices) {
  if (usual === null) return null;
  const value = kind === "switch" ? t(usual ? "on" : "off") : choices ? t(choices.find(([name]) => name === usual)[1]) : usual;
  return t("Default: {value}", { value });
}

function Brands({ label, value, onChange }) {
  const list = useRead("/api/settings/brand-list");
  return html`<${Failed} failure=${list.failure} retry=${list.reload} />
    <${Pick} label=${label} options=${(list.value?.brands ?? []).map((name) => ({ key: name, text: name }))} chosen=${value} onChange=${onChange} />`;
}

function Setting({ row, held, edit, onEdit, zone }) {
  const [field, usual, english, , , choices] = row;
  const kind = kindOf(row);
  const label = t(english);
  const value = edit === undefined ? shown(kind, held) : edit;
  const failure = edit === undefined || edit === null ? null : fault(kind, value);
  const hint = [kind === "cron" && cronWords(value) && `${cronWords(value)} (${zone})`, usualWords(kind, usual, choices)].filter(Boolean).join(" · ");
  const shared = { label, value, failure, hint, onChange: onEdit };
  if (kind === "secret") {
    return edit === null ? html`<p>${label}: ${t("what is saved is removed.")} <button type="button" class="link" onClick=${() => onEdit(undefined)}>${t("Keep it")}</button></p>`
      : html`<${Field} ...${shared} kind=${field.endsWith("Url") ? "text" : "password"} placeholder=${held ? t("unchanged") : ""} onChange=${(typed) => onEdit(typed || undefined)}
        hint=${held ? html`${t("Saved:")} <bdi class="mono">${held}</bdi> ${field !== "proxyToken" && html`<button type="button" class="link" onClick=${() => onEdit(null)}>${t("Remove")}</button>`}` : t("Nothing is saved.")} />`;
  }
  switch (kind) {
    case "brands": return html`<${Brands} ...${shared} />`;
    case "choice": return html`<${Field} ...${shared} kind="select" choices=${choices.map(([name, words]) => [name, t(words)])} />`;
    case "list": case "json": return html`<${Field} ...${shared} kind="area" class="mono" rows=${kind === "json" ? 14 : 4} />`;
    case "number": return html`<${Field} ...${shared} inputmode="decimal" />`;
    default: return html`<${Field} ...${shared} kind=${kind === "switch" ? "switch" : "text"} />`;
  }
}

// `edits` are the changes of the whole page by field, so that they survive a look at another tab; `beside` are parts that stand
// under a field: `{field: (typed, held) => part}`.
export function SettingsForm({ form: [title, , rows], read, edits, setEdits, beside = {} }) {
  const [isSaved, setSaved] = useState(false);
  const heldOf = ([field]) => read.value[`${field}Masked`] ?? valueAt(read.value, field);
  const known = rows.filter((row) => heldOf(row) !== undefined);
  const isChanged = (row) => edits[row[0]] !== undefined && JSON.stringify(edits[row[0]]) !== JSON.stringify(shown(kindOf(row), heldOf(row)));
  const changed = known.filter(isChanged);
  const edit = (field) => (value) => { setSaved(false); setEdits((before) => ({ ...before, [field]: value })); };
  const save = async () => {
    const body = {};
    for (const row of changed) {
      const [field, , english] = row;
      const kind = kindOf(row);
      const wrong = edits[field] === null ? null : fault(kind, edits[field]);
      if (wrong) throw new Failure("refused", `${t(english)}: ${wrong}`);
      const [name, member] = field.split(".");
      const value = sent(kind, edits[field]);
      body[name] = member ? { ...body[name], [member]: value } : value;
    }
    read.set(await put("/api/settings/runtime", body));
    setEdits((before) => Object.fromEntries(Object.entries(before).filter(([field]) => !changed.some((row) => row[0] === field))));
    setSaved(true);
  };
  return html`<${Section} title=${t(title)}>
    <${Form} act=${save} verb=${t("Save")} disabled=${!changed.length || read.failure !== null}
      onCancel=${changed.length ? () => setEdits((before) => ({ ...before, ...Object.fromEntries(changed.map(([field]) => [field, undefined])) })) : undefined}>
      ${known.map((row) => html`<${Setting} key=${row[0]} row=${row} held=${heldOf(row)} edit=${edits[row[0]]} onEdit=${edit(row[0])} zone=${read.value.serverTimeZone} />
        ${beside[row[0]]?.(edits[row[0]], heldOf(row), edit(row[0]))}`)}
      ${isSaved && html`<p class="said good" role="status">${t("Saved")}</p>`}
    <//><//>`;
}
