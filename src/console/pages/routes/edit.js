// The form of a route: a name, a pattern with a preview of what it names, or a group of other routes.

import { useMemo, useState } from "../../vendor/htm-preact.js";
import { post, put } from "../../api.js";
import { Field, Form, Note, Pick, Tabs, html } from "../../parts.js";
import { count, t } from "../../words.js";
import { matcher } from "./pattern.js";

const MOST = 30;

export const strategies = () => [
  ["weighted", t("Weighted")], ["round_robin", t("In turn, without priorities")], ["stable_first", t("Stable first")],
];

// The rules of a mapping as lines, `asked for => sent`; null if it is no such thing.
function lines(mapping) {
  if (!mapping) return "";
  try {
    return Object.entries(JSON.parse(mapping)).map(([from, to]) => `${from} => ${to}`).join("\n");
  } catch { return null; }
}
function mappingOf(text) {
  const rules = text.split("\n").filter((line) => line.trim()).map((line) => line.split("=>").map((part) => part.trim()));
  if (rules.some((rule) => rule.length !== 2 || !rule[0] || !rule[1])) return undefined;
  return rules.length ? JSON.stringify(Object.fromEntries(rules)) : null;
}

// Which known models a pattern names, while it is typed.
function Preview({ pattern, exact }) {
  const found = useMemo(() => {
    const matches = matcher(pattern);
    return typeof matches === "string" ? matches : exact.map((row) => row.modelPattern).filter(matches);
  }, [pattern, exact]);
  if (found === "blank") return html`<p class="hint">${t("An exact name; or * for any text and ? for one character; or re: and a regular expression.")}</p>`;
  if (typeof found === "string") {
    return html`<${Note} kind="warn">${found === "refused" ? t("Looking around, back-references and more than 256 characters are not accepted.")
      : t("This expression cannot be shown here; the server checks it when it is saved.")}<//>`;
  }
  return html`<div role="status" class="hint">
    <p>${count(found.length, "Matches {count} known model", "Matches {count} known models")}</p>
    <p>${found.slice(0, MOST).map((name) => html`<span class="badge name"><bdi>${name}</bdi></span> `)}${found.length > MOST && "…"}</p></div>`;
}

// `route` is what is edited; without it a new one is made. `onDone` hears the id, or nothing when it was given up.
export function RouteForm({ route, rows, onDone }) {
  const [mode, setMode] = useState(route?.routeMode ?? "pattern");
  const isGroup = mode === "explicit_group";
  const exact = useMemo(() => rows.filter((row) => row.kind === "model"), [rows]);
  const was = useMemo(() => ({
    modelPattern: route?.modelPattern ?? "", displayName: route?.displayName ?? "", routingStrategy: route?.routingStrategy ?? "weighted",
    sourceRouteIds: route?.sourceRouteIds ?? [], mapping: lines(route?.modelMapping),
  }), [route]);
  const [is, setIs] = useState({ ...was, mapping: was.mapping ?? "" });
  const set = (name) => (value) => setIs((before) => ({ ...before, [name]: value }));
  const mapping = mappingOf(is.mapping);
  const isMappingNew = is.mapping !== (was.mapping ?? "");
  const save = async () => {
    const body = {};
    for (const name of ["displayName", "routingStrategy", ...(isGroup ? ["sourceRouteIds"] : ["modelPattern"])]) {
      if (JSON.stringify(is[name]) !== JSON.stringify(was[name])) body[name] = is[name] === "" ? null : is[name];
    }
    if (isMappingNew) body.modelMapping = mapping;
    if (!route && isGroup) body.routeMode = mode;
    const saved = route ? await put(`/api/routes/${route.id}`, body) : await post("/api/routes", body);
    onDone(saved.id);
  };
  const lacks = isGroup ? !is.displayName.trim() || !is.sourceRouteIds.length : !is.modelPattern.trim();
  return html`
    ${!route && html`<${Tabs} label=${t("Kind")} value=${mode} onChange=${setMode} items=${[["pattern", t("Model or pattern")], ["explicit_group", t("Group")]]} />`}
    <${Form} act=${save} verb=${route ? t("Save") : t("Create")} onCancel=${() => onDone()} disabled=${lacks || (isMappingNew && mapping === undefined)}>
      ${!isGroup && html`<${Field} label=${t("Model or pattern")} value=${is.modelPattern} onChange=${set("modelPattern")} class="mono" />
        <${Preview} pattern=${is.modelPattern} exact=${exact} />`}
      ${route && !isGroup && is.modelPattern.trim() !== was.modelPattern
        && html`<${Note} kind="warn">${t("Channels are found anew for the new pattern; only those made by hand stay.")}<//>`}
      <${Field} label=${isGroup ? t("Name of the group") : t("Another name for clients")} value=${is.displayName} onChange=${set("displayName")}
        hint=${isGroup ? t("It goes before a model of the same name.") : t("Optional")} />
      ${isGroup && html`<${Pick} label=${t("Models of the group")} chosen=${is.sourceRouteIds} onChange=${set("sourceRouteIds")}
        options=${exact.map((row) => ({ key: row.id, text: row.modelPattern }))} />`}
      <${Field} kind="select" label=${t("Strategy")} value=${is.routingStrategy} onChange=${set("routingStrategy")} choices=${strategies()} />
      <${Field} kind="area" label=${t("Model mapping")} value=${is.mapping} onChange=${set("mapping")} class="mono" placeholder="gpt-4 => gpt-4o"
        hint=${t("A rule a line: name or pattern => name sent upstream. The first that matches counts.")}
        failure=${isMappingNew && mapping === undefined ? t("A line is not of the form: name => name") : was.mapping === null && !isMappingNew ? t("What is stored cannot be read as rules; it stays unless you write new ones.") : undefined} />
    <//>`;
}
