// Lines to paste that connect a client. A model's name and a key come from outside: each is quoted for the language of its
// line, and a name that could hide something is not offered.

// Whether a text has no invisible characters and none that change the text direction.
export const isPastable = (text) => !/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/.test(text);

const word = (text) => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const quoted = JSON.stringify;

export const CLIENTS = [["claude", "Claude Code"], ["codex", "Codex"], ["gemini", "Gemini CLI"], ["openai", "OpenAI SDK"],
  ["anthropic", "Anthropic SDK"], ["openwebui", "Open WebUI"], ["cline", "Cline"], ["curl", "curl"]];

export const keyLine = (key) => `export SWITCHYARD_KEY=${key ? word(key) : "$PROXY_TOKEN"}`;

// Builds the blocks of lines, as `[title, text]`.
export function lines(client, base, model) {
  const api = `${base}/v1`;
  const said = [{ role: "user", content: "Say hello" }];
  const ask = (path, header, body) => `curl -s ${word(api + path)} -H ${header} -H 'Content-Type: application/json' \\\n  -d ${word(quoted(body))}`;
  switch (client) {
    case "claude": return [["", `export ANTHROPIC_BASE_URL=${word(base)} ANTHROPIC_AUTH_TOKEN=$SWITCHYARD_KEY
export ANTHROPIC_MODEL=${word(model)} ANTHROPIC_SMALL_FAST_MODEL=${word(model)}\nclaude`]];
    case "codex": return [["~/.codex/config.toml", `model = ${quoted(model)}\nmodel_provider = "switchyard"\n
[model_providers.switchyard]\nname = "Switchyard"\nbase_url = ${quoted(api)}\nenv_key = "SWITCHYARD_KEY"\nwire_api = "responses"\nsupports_websockets = true`]];
    case "gemini": return [["", `export GOOGLE_GEMINI_BASE_URL=${word(base)} GEMINI_API_KEY=$SWITCHYARD_KEY\ngemini --model ${word(model)}`]];
    case "openai": return [["Python", `import os\nfrom openai import OpenAI
client = OpenAI(base_url=${quoted(api)}, api_key=os.environ["SWITCHYARD_KEY"])
print(client.responses.create(model=${quoted(model)}, input="Say hello").output_text)`],
    ["JavaScript", `import OpenAI from "openai";\nconst client = new OpenAI({ baseURL: ${quoted(api)}, apiKey: process.env.SWITCHYARD_KEY });
console.log((await client.responses.create({ model: ${quoted(model)}, input: "Say hello" })).output_text);`]];
    case "anthropic": return [["Python", `import os\nfrom anthropic import Anthropic
client = Anthropic(base_url=${quoted(base)}, auth_token=os.environ["SWITCHYARD_KEY"])
print(client.messages.create(model=${quoted(model)}, max_tokens=100, messages=${quoted(said)}).content)`],
    ["JavaScript", `import Anthropic from "@anthropic-ai/sdk";\nconst client = new Anthropic({ baseURL: ${quoted(base)}, authToken: process.env.SWITCHYARD_KEY });
console.log((await client.messages.create({ model: ${quoted(model)}, max_tokens: 100, messages: ${quoted(said)} })).content);`]];
    case "openwebui": return [["", `export OPENAI_API_BASE_URL=${word(api)} OPENAI_API_KEY=$SWITCHYARD_KEY`]];
    case "cline": return [["API Provider: OpenAI Compatible · Base URL", api], ["Model ID", model]];
    default: return [["", `curl -s ${word(`${api}/models`)} -H "Authorization: Bearer $SWITCHYARD_KEY"`],
      ["", ask("/chat/completions", '"Authorization: Bearer $SWITCHYARD_KEY"', { model, messages: said })],
      ["", ask("/messages", "\"x-api-key: $SWITCHYARD_KEY\" -H 'anthropic-version: 2023-06-01'", { model, max_tokens: 100, messages: said })]];
  }
}
