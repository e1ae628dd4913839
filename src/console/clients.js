// Lines to paste that connect a client to this server. A model's name and a key come from outside: each is quoted for the
// language it stands in, and what could not be seen or could end a line is not offered at all (`isPastable`).

// Without control characters, and without those that change the direction of what is seen.
export const isPastable = (text) => !/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/.test(text);

// One word of a shell.
const word = (text) => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
// A string of Python, JavaScript, TOML or JSON.
const quoted = (text) => JSON.stringify(text);

export const CLIENTS = [["claude", "Claude Code"], ["codex", "Codex"], ["gemini", "Gemini CLI"], ["openai-python", "OpenAI SDK, Python"],
  ["openai-js", "OpenAI SDK, JavaScript"], ["anthropic-python", "Anthropic SDK, Python"], ["anthropic-js", "Anthropic SDK, JavaScript"],
  ["openwebui", "Open WebUI"], ["cline", "Cline"], ["curl", "curl"]];

// The line that puts the key where the others look for it. Without `key` it names what has to stand there.
export const keyLine = (key) => `export SWITCHYARD_KEY=${key ? word(key) : "$PROXY_TOKEN"}`;

// The blocks of one client: `{text, where?}`, `where` the file it goes to.
export function lines(client, base, model) {
  const ask = (path, headers, body) => `curl -s ${word(base + path)} ${headers.map((header) => `-H ${header}`).join(" ")} \\\n  -H 'Content-Type: application/json' \\\n  -d ${word(JSON.stringify(body))}`;
  const said = [{ role: "user", content: "Say hello" }];
  switch (client) {
    case "claude": return [{ text: `export ANTHROPIC_BASE_URL=${word(base)} ANTHROPIC_AUTH_TOKEN=$SWITCHYARD_KEY\nexport ANTHROPIC_MODEL=${word(model)} ANTHROPIC_SMALL_FAST_MODEL=${word(model)}\nclaude` }];
    case "codex": return [{ where: "~/.codex/config.toml", text: `model = ${quoted(model)}\nmodel_provider = "switchyard"\n\n[model_providers.switchyard]\nname = "Switchyard"\nbase_url = ${quoted(`${base}/v1`)}\nenv_key = "SWITCHYARD_KEY"\nwire_api = "responses"\nsupports_websockets = true` }];
    case "gemini": return [{ text: `export GOOGLE_GEMINI_BASE_URL=${word(base)} GEMINI_API_KEY=$SWITCHYARD_KEY\ngemini --model ${word(model)}` }];
    case "openai-python": return [{ text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url=${quoted(`${base}/v1`)}, api_key=os.environ["SWITCHYARD_KEY"])\nanswer = client.chat.completions.create(\n    model=${quoted(model)}, messages=[{"role": "user", "content": "Say hello"}])\nprint(answer.choices[0].message.content)` }];
    case "openai-js": return [{ text: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${quoted(`${base}/v1`)}, apiKey: process.env.SWITCHYARD_KEY });\nconst answer = await client.chat.completions.create({\n  model: ${quoted(model)}, messages: [{ role: "user", content: "Say hello" }] });\nconsole.log(answer.choices[0].message.content);` }];
    case "anthropic-python": return [{ text: `import os\nfrom anthropic import Anthropic\n\nclient = Anthropic(base_url=${quoted(base)}, auth_token=os.environ["SWITCHYARD_KEY"])\nanswer = client.messages.create(\n    model=${quoted(model)}, max_tokens=100, messages=[{"role": "user", "content": "Say hello"}])\nprint(answer.content)` }];
    case "anthropic-js": return [{ text: `import Anthropic from "@anthropic-ai/sdk";\n\nconst client = new Anthropic({ baseURL: ${quoted(base)}, authToken: process.env.SWITCHYARD_KEY });\nconst answer = await client.messages.create({\n  model: ${quoted(model)}, max_tokens: 100, messages: [{ role: "user", content: "Say hello" }] });\nconsole.log(answer.content);` }];
    case "openwebui": return [{ text: `export OPENAI_API_BASE_URL=${word(`${base}/v1`)} OPENAI_API_KEY=$SWITCHYARD_KEY` }];
    case "curl": return [
      { text: `curl -s ${word(`${base}/v1/models`)} -H "Authorization: Bearer $SWITCHYARD_KEY"` },
      { text: ask("/v1/chat/completions", ['"Authorization: Bearer $SWITCHYARD_KEY"'], { model, messages: said }) },
      { text: ask("/v1/messages", ['"x-api-key: $SWITCHYARD_KEY"', "'anthropic-version: 2023-06-01'"], { model, max_tokens: 100, messages: said }) }];
    default: return [];
  }
}
