// Tests the official SDKs for Node through the gateway, with upstreams that speak one dialect each: their
// helpers that assemble streams, run tools and keep conversations. Prints for each case
// a line of JSON: its name, and what went wrong in it.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { CLIENT_TESTS_GATEWAY: gateway, CLIENT_TESTS_TOKEN: apiKey, CLIENT_TESTS_MODULES: modules } = process.env;
const require = createRequire(`${modules}/`);
const { OpenAI } = require("openai");
const { Anthropic } = require("@anthropic-ai/sdk");
const { betaTool } = require("@anthropic-ai/sdk/helpers/beta/json-schema");
const { GoogleGenAI } = require("@google/genai");

const openai = new OpenAI({ apiKey, baseURL: `${gateway}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey, baseURL: gateway, maxRetries: 0 });
const google = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: gateway } });

const GREETING = "Grüße aus Köln 😀, one word after the other, until the sentence is complete.";
const FORECAST = "It is sunny in Oslo.";
const REFUSAL = /maximum context length/;
const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const weather = ({ city }) => `sunny, 21 degrees in ${city}`;
const said = (content) => [{ role: "user", content }];
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

const CASES = {
  async "chat: a stream is put together"(model) {
    const request = { model, messages: said("greet"), stream_options: { include_usage: true } };
    const answer = await openai.chat.completions.stream(request).finalChatCompletion();
    const { prompt_tokens, completion_tokens } = answer.usage;
    assert.deepEqual([answer.choices[0].message.content, prompt_tokens, completion_tokens], [GREETING, 11, 7]);
  },
  async "chat: tools are run"(model) {
    const tool = { name: "get_weather", description: "Tells it", parameters: SCHEMA, parse: JSON.parse, function: weather };
    const tools = [{ type: "function", function: tool }];
    for (const stream of [false, true]) {
      const runner = openai.chat.completions.runTools({ model, stream, messages: said("weather"), tools });
      assert.equal(await runner.finalContent(), FORECAST);
    }
  },
  async "chat: a refusal is raised"(model) {
    const asked = openai.chat.completions.create({ model, messages: said("refuse") });
    await assert.rejects(asked, { name: "Error", constructor: OpenAI.BadRequestError, message: REFUSAL });
  },
  async "responses: a stream is put together"(model) {
    const answer = await openai.responses.stream({ model, input: "greet" }).finalResponse();
    const { input_tokens, output_tokens } = answer.usage;
    assert.deepEqual([answer.output_text, input_tokens, output_tokens], [GREETING, 11, 7]);
  },
  async "responses: a result goes on from the answer before"(model) {
    const tools = [{ type: "function", name: "get_weather", parameters: SCHEMA, strict: true }];
    const asked = await openai.responses.stream({ model, tools, input: "weather" }).finalResponse();
    const call = asked.output.find((item) => item.type === "function_call");
    const output = weather(call.parsed_arguments);
    const input = [...said("weather"), { ...call, parsed_arguments: undefined }];
    input.push({ type: "function_call_output", call_id: call.call_id, output });
    assert.equal((await openai.responses.create({ model, tools, input })).output_text, FORECAST);
  },
  async "messages: a stream is put together"(model) {
    const answer = await anthropic.messages.stream({ model, max_tokens: 100, messages: said("greet") }).finalMessage();
    assert.equal(textOf(answer), GREETING);
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [11, 7]);
  },
  async "messages: tools are run in a thread"(model) {
    const tools = [betaTool({ name: "get_weather", description: "Tells it", inputSchema: SCHEMA, run: weather })];
    for (const stream of [false, true]) {
      const runner = anthropic.beta.messages.toolRunner({ model, max_tokens: 100, stream, messages: said("weather"), tools });
      assert.equal(textOf(await runner.runUntilDone()), FORECAST);
    }
  },
  async "messages: a thread goes on"(model) {
    const thread = anthropic.beta.messages.thread({ model, max_tokens: 100 });
    for (const turns of [2, 4, 6]) {
      assert.equal(textOf(await thread.send({ role: "user", content: "greet" })), GREETING);
      assert.equal(thread.messages.length, turns);
    }
  },
  async "messages: a refusal is raised"(model) {
    const asked = anthropic.messages.create({ model, max_tokens: 100, messages: said("refuse") });
    await assert.rejects(asked, { constructor: Anthropic.BadRequestError, message: REFUSAL });
  },
  async "gemini: a stream is put together"(model) {
    let text = "";
    let usage;
    for await (const chunk of await google.models.generateContentStream({ model, contents: "greet" })) {
      text += chunk.text ?? "";
      usage = chunk.usageMetadata ?? usage;
    }
    assert.deepEqual([text, usage.promptTokenCount, usage.totalTokenCount], [GREETING, 11, 18]);
  },
  async "gemini: tools are run"(model) {
    const tool = async () => ({ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: SCHEMA }] });
    const callTool = async (calls) =>
      calls.map(({ id, name, args }) => ({ functionResponse: { id, name, response: { result: weather(args) } } }));
    const config = { tools: [{ tool, callTool }] };
    assert.equal((await google.models.generateContent({ model, contents: "weather", config })).text, FORECAST);
  },
  async "gemini: a refusal is raised"(model) {
    await assert.rejects(google.models.generateContent({ model, contents: "refuse" }), { status: 400, message: REFUSAL });
  },
};

const run = async (model, [name, check]) => {
  const problem = await check(model).then(() => null, (error) => String(error.stack ?? error));
  console.log(JSON.stringify({ name: `${name} (${model})`, problem }));
};
const models = process.argv.slice(2);
const silent = models.filter((model) => model.startsWith("silent-"));
for (const model of models.filter((model) => !silent.includes(model))) {
  for (const named of Object.entries(CASES)) await run(model, named);
}
// Silent upstreams give the same answers: only their streams may differ.
const streams = Object.entries(CASES).filter(([name]) => name.endsWith("a stream is put together"));
await Promise.all(silent.flatMap((model) => streams.map((named) => run(model, named))));
