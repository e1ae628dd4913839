// Connecting a client: lines to paste, with the key once it is revealed.

import { useFilter } from "../../address.js";
import { get } from "../../api.js";
import { CLIENTS, isPastable, keyLine, lines } from "../../clients.js";
import { useRead } from "../../data.js";
import { Action, Badge, Copyable, Field, Link, Note, Section, Tabs, Time, html, useState } from "../../parts.js";
import { t } from "../../words.js";
import { namesLike } from "../routes/pattern.js";

// `stateOf` returns the state of a key as `[kind, words]`; `newKey` is the button that makes a key.
export function Connect({ keys, stateOf, reload, newKey }) {
  const [chosen, choose] = useFilter("key");
  const [model, setModel] = useFilter("model");
  const [client, setClient] = useFilter("client", "claude");
  // The revealed key with its id, so that it is never shown for another chosen key.
  const [revealed, setRevealed] = useState({});
  const routes = useRead("/api/routes/lite");
  const key = keys.find((one) => String(one.id) === chosen);
  const value = key && revealed.id === key.id ? revealed.key : null;
  const [kind, state] = key ? stateOf(key) : ["good"];
  const base = location.origin;
  const name = model || "gpt-4o-mini";
  return html`<${Section} title=${t("Connect a client")} actions=${newKey}>
    <div class="columns">
      <${Field} label=${t("Key")} value=${key ? chosen : ""} onChange=${choose}
        choices=${[["", t("The global token (PROXY_TOKEN)", "全局令牌（PROXY_TOKEN）")],
          ...keys.map((one) => [String(one.id), `\u2068${one.name}\u2069 (${one.keyMasked})`])]} />
      <${Field} label=${t("Model")} value=${model} onChange=${setModel} list="models-to-ask" from=${[routes]} />
      <datalist id="models-to-ask">${namesLike(model, routes.value).map((one) => html`<option value=${one} key=${one}></option>`)}</datalist>
    </div>
    ${kind !== "good" && html`<${Note} kind="warn">${t("This key cannot be used now: {state}", "此密钥目前不可用：{state}", { state })}<//>`}
    ${/^(localhost|127\.|\[::1\])/.test(location.hostname) && html`<${Note}>${t(
      "{address} works on this machine only. For clients elsewhere, open the console at an address that they can reach.",
      "{address} 仅指本机。客户端在别处时，请用它们能访问的地址打开控制台。", { address: base })}<//>`}
    <h3>${t("1. The key", "1. 密钥")}</h3>
    <${Copyable} label=${t("The line with the key", "密钥行")} text=${keyLine(key && (value ?? key.keyMasked))} />
    ${!key ? html`<p class="hint">${t("PROXY_TOKEN is set in the environment or the settings. A key for each client can be limited and switched off by itself.",
      "PROXY_TOKEN 在环境变量或设置中指定。每个客户端的密钥可分别限额和停用。")}</p>`
      : html`<${Action} act=${async () => setRevealed(value ? {} : await get(`/api/downstream-keys/${key.id}/value`))}>${
        value ? t("Hide the key", "隐藏密钥") : t("Reveal the key", "显示密钥")}<//>
        ${!value && html`<span class="hint">${t("It is masked here.", "此处已遮盖。")}</span>`}`}
    <h3>${t("2. The client", "2. 客户端")}</h3>
    <${Tabs} label=${t("Client")} items=${CLIENTS} value=${client} onChange=${setClient} />
    ${!model && html`<p class="hint">${t("Choose a model; {name} stands for it until then.", "请选择模型；在此之前以 {name} 代替。", { name })}</p>`}
    ${isPastable(model) ? lines(client, base, name).map(([title, text]) => html`
        <div key=${text}><p class="hint">${title}</p>
          <${Copyable} label=${title || t("Lines to paste", "可粘贴的内容")} text=${text} /></div>`)
      : html`<${Note} kind="bad">${t("The model's name holds characters that are invisible or end a line: there is nothing to paste.",
        "模型名含有不可见或换行字符，不提供可粘贴的内容。")}<//>`}
    ${client === "claude" && html`<p class="hint">${t(
      "Where a route renames models, have answers name the model as asked (Settings, Routing), or Claude Code drops their thinking.",
      "若路由改模型名，请在“设置—路由”中让回答使用请求的模型名，否则 Claude Code 会丢弃思考内容。")}</p>`}
    ${client === "codex" && html`<p class="hint">${t("Leave supports_websockets out behind a proxy that passes no upgrades.",
      "若反向代理不转发升级，请去掉 supports_websockets。")}</p>`}
    ${key && html`<h3>${t("3. Does it work?", "3. 是否可用？")}</h3><p>${key.lastUsedAt
      ? html`<${Badge} kind="good">${t("It was used", "已使用")}<//> <${Time} at=${key.lastUsedAt} />`
      : t("This key has not been used yet.", "此密钥尚未使用。")}
      ${" "}<${Link} act=${reload}>${t("Read again")}<//></p>`}
  <//>`;
}
