// A conversation in the words of each API, and what its answers say.

const said = (messages) => messages.map(({ role, content }) => ({ role, content }));
const json = (text) => { try { return JSON.parse(text); } catch { return null; } };

// Each: `path(model, isStreamed)`, `body(conversation)`, `delta(event)` the text in an event, `whole(answer)` the text of an answer.
export const DIALECTS = {
  chat: {
    label: "Chat Completions", path: () => "/v1/chat/completions",
    body: ({ model, system, messages, temperature, limit }) => ({ model, messages: [...(system ? [{ role: "system", content: system }] : []), ...said(messages)],
      ...(temperature !== null && { temperature }), ...(limit && { max_tokens: limit }) }),
    delta: (event) => event.choices?.[0]?.delta?.content, whole: (answer) => answer.choices?.[0]?.message?.content,
  },
  messages: {
    label: "Messages", path: () => "/v1/messages",
    body: ({ model, system, messages, temperature, limit }) => ({ model, ...(system && { system }), messages: said(messages),
      ...(temperature !== null && { temperature }), max_tokens: limit || 4096 }),
    delta: (event) => (event.type === "content_block_delta" ? event.delta?.text : undefined),
    whole: (answer) => answer.content?.map((part) => part.text ?? "").join(""),
  },
  responses: {
    label: "Responses", path: () => "/v1/responses",
    body: ({ model, system, messages, temperature, limit }) => ({ model, ...(system && { instructions: system }), input: said(messages),
      ...(temperature !== null && { temperature }), ...(limit && { max_output_tokens: limit }) }),
    delta: (event) => (event.type === "response.output_text.delta" ? event.delta : undefined),
    whole: (answer) => answer.output?.flatMap((item) => item.content ?? []).map((part) => part.text ?? "").join(""),
  },
  gemini: {
    label: "Gemini", path: (model, isStreamed) => `/v1beta/models/${encodeURIComponent(model)}:${isStreamed ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    body: ({ system, messages, temperature, limit }) => ({ ...(system && { systemInstruction: { parts: [{ text: system }] } }),
      contents: messages.map(({ role, content }) => ({ role: role === "user" ? "user" : "model", parts: [{ text: content }] })),
      ...((temperature !== null || limit) && { generationConfig: { ...(temperature !== null && { temperature }), ...(limit && { maxOutputTokens: limit }) } }) }),
    delta: (event) => DIALECTS.gemini.whole(event),
    whole: (answer) => answer.candidates?.[0]?.content?.parts?.map((part) => part.text ?? "").join(""),
  },
};

// The text of one event's data, and the failure that it tells, if it tells one.
export function readEvent(dialect, { event, data }) {
  const value = json(data);
  if (!value) return {};
  const error = value.error ?? value.response?.error;
  return { text: DIALECTS[dialect].delta(value) ?? undefined, failure: error ? error.message ?? JSON.stringify(error) : event === "error" ? data : undefined };
}
