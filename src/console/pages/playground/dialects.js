// A conversation in the words of each API, and the text that is in an event of its answer.

const said = (messages) => messages.map(({ role, content }) => ({ role, content }));

export const DIALECTS = {
  chat: {
    label: "Chat Completions", path: "/v1/chat/completions",
    body: ({ model, system, messages }) => ({ model, messages: [...(system ? [{ role: "system", content: system }] : []), ...said(messages)] }),
    delta: (event) => event.choices?.[0]?.delta?.content,
  },
  messages: {
    label: "Messages", path: "/v1/messages",
    body: ({ model, system, messages }) => ({ model, ...(system && { system }), messages: said(messages), max_tokens: 4096 }),
    delta: (event) => (event.type === "content_block_delta" ? event.delta?.text : undefined),
  },
  responses: {
    label: "Responses", path: "/v1/responses",
    body: ({ model, system, messages }) => ({ model, ...(system && { instructions: system }), input: said(messages) }),
    delta: (event) => (event.type === "response.output_text.delta" ? event.delta : undefined),
  },
};

// The text of an event, and the failure that it tells, if it tells one.
export function readEvent(delta, { event, data }) {
  let value;
  try { value = JSON.parse(data); } catch { return event === "error" ? { failure: data } : {}; }
  const error = value?.error ?? value?.response?.error;
  return { text: value && delta(value), failure: error && (error.message ?? JSON.stringify(error)) };
}
