// The page Playground: a conversation with a model, or with one channel of it, and beside it what was sent and what came back.
// It is kept for this tab and this token alone.

import { useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { go, href, useAddress } from "../address.js";
import { events, send, token } from "../api.js";
import { useRead, useSettled } from "../data.js";
import { duration } from "../format.js";
import { Bar, Copyable, Field, Note, Section, html } from "../parts.js";
import { explain, t } from "../words.js";
import { DIALECTS, readEvent } from "./playground/dialects.js";

// Of a long answer so much is shown as it came.
const MOST = 100_000;
const STEPS = { sent: "Sent", begun: "Answer begins", first: "First text", ended: "End" };

let kept = { as: null };
const remembered = () => (kept.as === token.get() ? kept : { as: token.get(), messages: [], exchange: null, draft: "", options: {} });

// The body of an answer, which is also told as text to `hear`.
function heard(answer, hear) {
  const decoder = new TextDecoder();
  const tap = new TransformStream({ transform(chunk, out) { hear(decoder.decode(chunk, { stream: true })); out.enqueue(chunk); } });
  return { body: answer.body.pipeThrough(tap) };
}

// Sends a conversation. `tell` hears of the exchange whenever it has changed: `{request, status, raw, text, at, failure, isRunning}`.
async function converse({ dialect, isStreamed, channel, ...conversation }, signal, tell) {
  const api = DIALECTS[dialect];
  const jsonBody = { ...api.body(conversation), ...(dialect !== "gemini" && { stream: isStreamed }) };
  const path = api.path(conversation.model, isStreamed);
  const began = performance.now();
  const since = () => performance.now() - began;
  const exchange = { request: `POST ${path}${channel ? `\n# ${t("through channel {id} alone", { id: channel })}` : ""}\n\n${JSON.stringify(jsonBody, null, 2)}`, status: null, raw: "", text: "",
    at: { sent: 0 }, failure: null, isRunning: true };
  let drawn = 0;
  const draw = (isNow) => { if (isNow || performance.now() - drawn > 50 + exchange.raw.length / 500) { drawn = performance.now(); tell({ ...exchange, at: { ...exchange.at } }); } };
  const hear = (text) => { if (exchange.raw.length < MOST) exchange.raw = (exchange.raw + text).slice(0, MOST); };
  draw(true);
  try {
    const answer = await send("POST", isStreamed ? "/api/test/proxy/stream" : "/api/test/proxy", { signal, timeoutMs: 0,
      body: { path, jsonBody, ...(channel && { forcedChannelId: Number(channel) }) } });
    exchange.status = answer.status;
    exchange.at.begun = since();
    if (isStreamed) {
      for await (const event of events(heard(answer, hear))) {
        const { text, failure } = readEvent(dialect, event);
        if (text) { exchange.at.first ??= since(); exchange.text += text; }
        if (failure) exchange.failure = failure;
        draw();
      }
    } else {
      const text = await answer.text();
      let value = null;
      try { value = JSON.parse(text); } catch { /* shown as it came */ }
      hear(value ? JSON.stringify(value, null, 2) : text);
      exchange.text = (value && api.whole(value)) ?? "";
    }
  } catch (failure) {
    if (signal.aborted) exchange.isStopped = true;
    else {
      exchange.status = failure.status ?? exchange.status;
      exchange.failure = failure.kind ? explain(failure) : t("The answer broke off: {why}", { why: failure.message });
      if (failure.value) hear(JSON.stringify(failure.value, null, 2));
    }
  }
  exchange.at.ended = since();
  exchange.isRunning = false;
  draw(true);
  return exchange;
}

function Exchange({ exchange }) {
  const whole = exchange.at.ended ?? Math.max(...Object.values(exchange.at));
  return html`
    <${Section} title=${t("Timeline")}><ol class="timeline">${Object.entries(STEPS).filter(([key]) => exchange.at[key] !== undefined).map(([key, label]) => html`<li key=${key}>
      <span>${t(label)}</span><span class="number">${duration(Math.round(exchange.at[key]))}</span>
      <${Bar} value=${whole ? (exchange.at[key] / whole) * 100 : 0} label=${`${t(label)}: ${duration(Math.round(exchange.at[key]))}`} /></li>`)}</ol><//>
    <${Section} title=${t("Request")}><${Copyable} label=${t("Request")} text=${exchange.request} /><//>
    <${Section} title=${exchange.status ? t("Answer, HTTP {status}", { status: exchange.status }) : t("Answer")}>
      ${exchange.raw ? html`<${Copyable} label=${t("Answer")} text=${exchange.raw} />` : html`<p class="quiet">${exchange.isRunning ? t("Waiting …") : t("Nothing came.")}</p>`}
      ${exchange.raw.length >= MOST && html`<p class="hint">${t("The rest is not shown.")}</p>`}<//>`;
}

// Which channels serve the model, to choose one alone.
function ChannelField({ model, value, onChange }) {
  const settled = useSettled(model);
  const read = useRead(settled ? `/api/routes/decision?model=${encodeURIComponent(settled)}` : null);
  const known = read.value?.decision.candidates ?? [];
  const choices = known.map((one) => [String(one.channelId), `${one.siteName} / ${one.username} / ${one.tokenName}`]);
  if (value && !known.some((one) => String(one.channelId) === value)) choices.push([value, t("channel {id}", { id: value })]);
  return html`<${Field} kind="select" label=${t("Channel")} value=${value} onChange=${onChange} choices=${[["", t("As routed")], ...choices]}
    failure=${read.failure ? explain(read.failure) : settled && read.value && !read.value.decision.matched ? t("No enabled route matches.") : undefined} />`;
}

export function Playground() {
  const { path, query } = useAddress();
  const { model: asked = "", channel = "" } = query;
  const address = (more) => go(path, { ...query, ...more }, { replace: true });
  const [state, setState] = useState(remembered);
  const { messages, exchange, draft, options } = state;
  const { dialect = "chat", isStreamed = true, system = "", temperature = "", limit = "" } = options;
  const routes = useRead("/api/routes/lite");
  const stop = useRef(null);
  const isHere = useRef(true);
  const change = (more) => { kept = { ...kept, ...more, as: token.get() }; if (isHere.current) setState(kept); };
  useEffect(() => { kept = state; isHere.current = true; return () => { isHere.current = false; stop.current?.abort(); }; }, []);
  const option = (name) => (value) => change({ options: { ...kept.options, [name]: value } });
  const model = asked.trim();
  const isRunning = exchange?.isRunning === true;
  const names = (routes.value ?? []).filter((route) => route.enabled).map((route) => route.displayName || route.modelPattern);
  const offered = [...new Set(names.filter((name) => !/[*?]|^re:/i.test(name) && name.toLowerCase().includes(model.toLowerCase())))].slice(0, 50);
  const ask = async (conversation) => {
    change({ messages: conversation, draft: "" });
    stop.current = new AbortController();
    const wish = { dialect, isStreamed, channel, model, system: system.trim(), messages: conversation,
      temperature: temperature === "" ? null : Number(temperature), limit: Number(limit) || null };
    const ended = await converse(wish, stop.current.signal, (seen) => change({ exchange: seen }));
    if (ended.text) change({ messages: [...conversation, { role: "assistant", content: ended.text, isCut: Boolean(ended.isStopped || ended.failure) }] });
  };
  const submit = (event) => { event?.preventDefault(); if (model && draft.trim() && !isRunning) ask([...messages, { role: "user", content: draft }]); };
  const waits = messages.at(-1)?.role === "user" && !isRunning;
  const isAnswering = isRunning && exchange.text;
  return html`<div class="columns">
    <div>
      <${Section} title=${t("Conversation")} actions=${messages.length > 0 && html`<button class="quiet" disabled=${isRunning} onClick=${() => change({ messages: [], exchange: null })}>${t("Begin anew")}</button>`}>
        <div class="filters">
          <${Field} label=${t("Model")} value=${asked} onChange=${(name) => address({ model: name, channel: "" })} list="models-known" />
          <datalist id="models-known">${offered.map((name) => html`<option value=${name} />`)}</datalist>
          <${ChannelField} model=${model} value=${channel} onChange=${(id) => address({ channel: id })} />
          <${Field} kind="select" label=${t("Dialect")} value=${dialect} onChange=${option("dialect")} choices=${Object.entries(DIALECTS).map(([key, { label }]) => [key, label])} />
        </div>
        <details><summary>${t("More")}</summary>
          <${Field} kind="switch" label=${t("Streamed")} value=${isStreamed} onChange=${option("isStreamed")} />
          <${Field} kind="area" label=${t("System prompt")} value=${system} onChange=${option("system")} />
          <div class="filters"><${Field} kind="number" step="0.1" min="0" max="2" label=${t("Temperature")} value=${temperature} onChange=${option("temperature")} />
            <${Field} kind="number" min="1" label=${t("Most tokens")} value=${limit} onChange=${option("limit")} /></div>
        </details>
        <div aria-live="polite" aria-busy=${isRunning ? "true" : "false"}>
          ${messages.map((message, index) => html`<div class="turn ${message.role}" key=${index}><b>${message.role === "user" ? t("You") : t("Model")}</b>
            <p dir="auto">${message.content}</p>${message.isCut && html`<p class="quiet">${t("It was cut short.")}</p>`}</div>`)}
          ${isAnswering && html`<div class="turn assistant"><b>${t("Model")}</b><p dir="auto">${exchange.text}</p></div>`}
        </div>
        ${exchange?.failure && html`<${Note} kind="bad"><bdi>${exchange.failure}</bdi><//>`}
        ${exchange && !exchange.isRunning && !exchange.failure && !exchange.text && !exchange.isStopped && html`<${Note} kind="warn">${t("The answer has no text.")}<//>`}
        <form onSubmit=${submit}>
          <${Field} kind="area" label=${t("Your message")} hint=${t("Ctrl and Enter send it.")} value=${draft} onChange=${(text) => change({ draft: text })}
            onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); }} />
          <footer>
            ${waits && html`<button type="button" disabled=${!model} onClick=${() => ask(messages)}>${t("Try again")}</button>`}
            ${isRunning ? html`<button type="button" class="danger" onClick=${() => stop.current?.abort()}>${t("Stop")}</button>`
              : html`<button class="first" disabled=${!model || !draft.trim()}>${t("Send")}</button>`}
          </footer>
        </form>
      <//>
    </div>
    <div>${exchange ? html`<${Exchange} exchange=${exchange} /><p><a href=${href("/log", { search: model })}>${t("Requests of this model in the log")}</a></p>`
      : html`<${Section}><div class="empty">${t("What is sent and what comes back is shown here. Nothing of it is stored; the request counts and is logged like any other.")}</div><//>`}</div>
  </div>`;
}
