// The page Playground: a conversation with a model or one of its channels, kept only for this tab and this token.

import { href, useAddress } from "../address.js";
import { events, send, token } from "../api.js";
import { useRead, useSettled } from "../data.js";
import { duration } from "../format.js";
import { Bar, Copyable, Field, Note, Section, html, useEffect, useRef, useState } from "../parts.js";
import { explain, t } from "../words.js";
import { namesLike } from "./routes/pattern.js";

// === a conversation in the words of each API ===

const said = (messages) => messages.map(({ role, content }) => ({ role, content }));

const DIALECTS = {
  chat: {
    label: "Chat Completions", path: "/v1/chat/completions",
    body: ({ system, messages }) => ({ messages: [...(system ? [{ role: "system", content: system }] : []), ...said(messages)] }),
    delta: (event) => event.choices?.[0]?.delta?.content,
  },
  messages: {
    label: "Messages", path: "/v1/messages",
    body: ({ system, messages }) => ({ ...(system && { system }), messages: said(messages), max_tokens: 4096 }),
    delta: (event) => (event.type === "content_block_delta" ? event.delta?.text : undefined),
  },
  responses: {
    label: "Responses", path: "/v1/responses",
    body: ({ system, messages }) => ({ ...(system && { instructions: system }), input: said(messages) }),
    delta: (event) => (event.type === "response.output_text.delta" ? event.delta : undefined),
  },
};

function readEvent(delta, { event, data }) {
  let value;
  try { value = JSON.parse(data); } catch { return event === "error" ? { failure: data } : {}; }
  const error = value?.error ?? value?.response?.error;
  return { text: value && delta(value), failure: error && (error.message ?? JSON.stringify(error)) };
}

function furtherOf(text) {
  try {
    const value = JSON.parse(text.trim() || "{}");
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch { return null; }
}

// === the page ===

const MOST = 100_000;
const STEPS = () => ({ sent: t("Sent", "已发送"), begun: t("Answer begins", "开始回应"), first: t("First text", "首段文本"), ended: t("End", "结束") });

let kept = { as: null };
const remembered = () => (kept.as === token.get() ? kept : { as: token.get(), messages: [], exchange: null, draft: "", options: {} });

function heard(answer, hear) {
  const decoder = new TextDecoder();
  const tap = new TransformStream({ transform(chunk, out) { hear(decoder.decode(chunk, { stream: true })); out.enqueue(chunk); } });
  return { body: answer.body.pipeThrough(tap) };
}

// Sends the conversation; calls `tell` with each change of the exchange:
// `{request, status, raw, text, at, failure, isRunning}`.
async function converse({ dialect, channel, model, further, ...conversation }, signal, tell) {
  const { path, body, delta } = DIALECTS[dialect];
  const jsonBody = { model, ...body(conversation), ...further, stream: true };
  const began = performance.now();
  const since = () => performance.now() - began;
  const note = channel ? `\n# ${t("through channel {id} only", "只经通道 {id}", { id: channel })}` : "";
  const exchange = {
    request: `POST ${path}${note}\n\n${JSON.stringify(jsonBody, null, 2)}`, status: null,
    raw: "", text: "", at: { sent: 0 }, failure: null, isRunning: true,
  };
  // The longer the answer is, the less often it is drawn.
  let timer = null;
  const show = () => { clearTimeout(timer); timer = null; tell({ ...exchange, at: { ...exchange.at } }); };
  const draw = () => { timer ??= setTimeout(show, 40 + exchange.raw.length / 500); };
  const hear = (text) => { if (exchange.raw.length < MOST) exchange.raw = (exchange.raw + text).slice(0, MOST); };
  show();
  try {
    const requested = { path, jsonBody, ...(channel && { forcedChannelId: Number(channel) }) };
    const answer = await send("POST", "/api/test/proxy/stream", { signal, timeoutMs: 0, body: requested });
    exchange.status = answer.status;
    exchange.at.begun = since();
    for await (const event of events(heard(answer, hear))) {
      const { text, failure } = readEvent(delta, event);
      if (text) { exchange.at.first ??= since(); exchange.text += text; }
      if (failure) exchange.failure = failure;
      draw();
    }
  } catch (failure) {
    if (signal.aborted) exchange.isStopped = true;
    else {
      exchange.status = failure.status ?? exchange.status;
      exchange.failure = failure.kind ? explain(failure) : t("The answer was cut off: {why}", "回应中断：{why}", { why: failure.message });
      if (failure.value) hear(JSON.stringify(failure.value, null, 2));
    }
  }
  exchange.at.ended = since();
  exchange.isRunning = false;
  show();
  return exchange;
}

function Exchange({ exchange }) {
  const whole = exchange.at.ended ?? Math.max(...Object.values(exchange.at));
  const steps = Object.entries(STEPS()).filter(([key]) => exchange.at[key] !== undefined);
  return html`
    <${Section} title=${t("Timeline", "时间线")}><ol class="timeline">${steps.map(([key, label]) => html`<li key=${key}>
      <span>${label}</span><span class="number">${duration(Math.round(exchange.at[key]))}</span>
      <${Bar} value=${whole ? (exchange.at[key] / whole) * 100 : 0} label=${`${label}: ${duration(Math.round(exchange.at[key]))}`} /></li>`)}</ol><//>
    <${Section} title=${t("Request")}><${Copyable} label=${t("Request")} text=${exchange.request} /><//>
    <${Section} title=${exchange.status ? t("Answer, HTTP {status}", "回应，HTTP {status}", { status: exchange.status }) : t("Answer")}>
      <${Copyable} label=${t("Answer")} text=${exchange.raw.length < MOST ? exchange.raw : `${exchange.raw}…`} /><//>`;
}

function ChannelField({ model, value, onChange }) {
  const settled = useSettled(model);
  const read = useRead(settled ? `/api/routes/decision?model=${encodeURIComponent(settled)}` : null);
  const known = read.value?.decision.candidates ?? [];
  const choices = known.map((one) => [String(one.channelId), `${one.siteName} / ${one.username} / ${one.tokenName}`]);
  if (value && !known.some((one) => String(one.channelId) === value)) choices.push([value, t("channel {id}", { id: value })]);
  return html`<${Field} label=${t("Channel", "通道")} value=${value} onChange=${onChange} choices=${[["", t("As routed", "按路由选择")], ...choices]}
    from=${[read]} failure=${settled && read.value && !read.value.decision.matched ? t("No enabled route matches.", "没有已启用的路由匹配。") : undefined} />`;
}

export function Page() {
  const { query: { model: asked = "", channel = "" }, setQuery } = useAddress();
  const [state, setState] = useState(remembered);
  const { messages, exchange, draft, options } = state;
  const { dialect = "chat", system = "", fields = "" } = options;
  const further = furtherOf(fields);
  const routes = useRead("/api/routes/lite");
  const stop = useRef(null);
  const change = (more) => setState(kept = { ...kept, ...more, as: token.get() });
  useEffect(() => { kept = state; return () => stop.current?.abort(); }, []);
  const option = (name) => (value) => change({ options: { ...kept.options, [name]: value } });
  const model = asked.trim();
  const isRunning = exchange?.isRunning === true;
  const ask = async (conversation) => {
    change({ messages: conversation, draft: "" });
    stop.current = new AbortController();
    const request = { dialect, channel, model, system: system.trim(), messages: conversation, further };
    const ended = await converse(request, stop.current.signal, (seen) => change({ exchange: seen }));
    if (ended.text) change({ messages: [...conversation, { role: "assistant", content: ended.text, isCut: Boolean(ended.isStopped || ended.failure) }] });
  };
  const submit = (event) => {
    event?.preventDefault();
    if (model && draft.trim() && further && !isRunning) ask([...messages, { role: "user", content: draft }]);
  };
  const waits = messages.at(-1)?.role === "user" && !isRunning;
  const said = [...messages, ...(isRunning && exchange.text ? [{ content: exchange.text }] : [])];
  return html`<div class="columns">
    <div>
      <${Section} title=${t("Conversation", "对话")} actions=${messages.length > 0 && html`
        <button class="quiet" disabled=${isRunning} onClick=${() => change({ messages: [], exchange: null })}>${t("Start over")}</button>`}>
        <div class="filters many">
          <${Field} label=${t("Model")} value=${asked} onChange=${(name) => setQuery({ model: name, channel: "" })} list="models-known" from=${[routes]} />
          <datalist id="models-known">${namesLike(model, routes.value).map((name) => html`<option value=${name} />`)}</datalist>
          <${ChannelField} model=${model} value=${channel} onChange=${(id) => setQuery({ channel: id })} />
          <${Field} label=${t("Dialect", "接口")} value=${dialect} onChange=${option("dialect")}
            choices=${Object.entries(DIALECTS).map(([key, { label }]) => [key, label])} />
        </div>
        <details open=${system + fields !== ""}><summary>${t("System prompt, further fields", "系统提示、其他字段")}</summary>
          <${Field} kind="area" label=${t("System prompt", "系统提示")} value=${system} onChange=${option("system")} />
          <${Field} kind="area" class="mono" label=${t("Further fields of the request, as JSON", "请求的其他字段，JSON")}
            placeholder='{"temperature": 0.2}' value=${fields} onChange=${option("fields")}
            failure=${further ? undefined : t("This is not a JSON object.", "不是 JSON 对象。")} /></details>
        <div aria-live="polite" aria-busy=${isRunning}>
          ${said.map((message, index) => html`<div class="turn ${message.role}" key=${index}><b>${message.role === "user" ? t("You", "你") : t("Model")}</b>
            <p dir="auto">${message.content}${message.isCut && ` [${t("cut short", "未完成")}]`}</p></div>`)}
        </div>
        ${exchange?.failure && html`<${Note} kind="bad"><bdi>${exchange.failure}</bdi><//>`}
        <form onSubmit=${submit}>
          <${Field} kind="area" label=${t("Your message", "你的消息")} hint="Ctrl + Enter" value=${draft} onChange=${(text) => change({ draft: text })}
            onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); }} />
          <footer>
            ${waits && html`<button type="button" disabled=${!model || !further} onClick=${() => ask(messages)}>${t("Try again")}</button>`}
            ${isRunning ? html`<button type="button" class="danger" onClick=${() => stop.current?.abort()}>${t("Stop", "停止")}</button>`
              : html`<button class="first" disabled=${!model || !draft.trim() || !further}>${t("Send", "发送")}</button>`}
          </footer>
        </form>
      <//>
    </div>
    <div>${exchange ? html`<${Exchange} exchange=${exchange} /><a href=${href("/log", { search: model })}>${t("Log")}</a>`
      : html`<${Section}><div class="empty">${t("What is sent and what comes back. It counts and is logged like any request.",
        "发出和收到的内容。请求照常计数并记入日志。")}</div><//>`}</div>
  </div>`;
}
