// The playground: a streamed conversation, its requests and answers, and errors.

import assert from "node:assert/strict";
import http from "node:http";

async function start(world) {
  const gateway = await world.start();
  const [good, broken] = [await world.site({ models: ["gpt-4o"] }), await world.site({ models: ["gpt-4o"], fails: { type: "server_error" } })];
  await gateway.addSite("Main line", good.url, "sk-one");
  await gateway.addSite("Branch line", broken.url, "sk-two");
  const channels = (await gateway.api("GET", "/api/routes/1/channels")).map(({ id, site }) => [site.name, id]);
  return { gateway, good, channels: Object.fromEntries(channels) };
}
async function ask(one, text) {
  await one.page.getByLabel("Your message").fill(text);
  await one.page.getByRole("button", { name: "Send" }).click();
}
const turns = (one) => one.page.locator(".turn p");

// Starts a site whose answer begins and then waits until the test releases it.
async function slowSite() {
  const site = { closed: false };
  const server = http.createServer((request, response) => {
    if (request.url === "/v1/models") return response.setHeader("content-type", "application/json").end(JSON.stringify({ object: "list", data: [{ id: "slow", object: "model" }] }));
    response.on("close", () => (site.closed = true));
    response.writeHead(200, { "content-type": "text/event-stream" });
    return response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "slow", choices: [{ index: 0, delta: { role: "assistant", content: "It begins" }, finish_reason: null }] })}\n\n`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(site, { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } });
}

export default {
  async "a conversation goes on, with the raw request, the answer and the time beside it"(world) {
    const { good, channels } = await start(world);
    const one = await world.open();
    await one.goto(`/playground?model=gpt-4o&channel=${channels["Main line"]}`);
    await one.isAccessible("an empty playground");
    await ask(one, "Which <b>way</b>?");
    await turns(one).getByText("An answer of gpt-4o.").waitFor();
    await one.page.getByText("Answer, HTTP 200").waitFor();
    await one.page.getByLabel("Request", { exact: true }).getByText('"content": "Which <b>way</b>?"').waitFor();
    await one.page.getByLabel("Answer", { exact: true }).getByText("data: [DONE]").waitFor();
    await one.page.getByText("First text").waitFor();
    await one.isAccessible("an answered playground");
    await ask(one, "And then?");
    await turns(one).nth(3).waitFor();
    const { body } = good.state.requests.filter(({ path }) => path === "/v1/chat/completions").at(-1);
    assert.deepEqual([body.messages.length, body.messages[1].content, body.stream], [3, "An answer of gpt-4o.", true]);
    await one.page.getByRole("link", { name: "Keys" }).click();
    await one.page.getByRole("heading", { name: "Keys", level: 1, exact: true }).waitFor();
    await one.page.getByRole("link", { name: "Playground" }).click();
    await turns(one).nth(3).waitFor();
    const stored = await one.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.equal(stored.includes("way"), false);
    await one.page.getByRole("button", { name: "Start over" }).click();
    await turns(one).first().waitFor({ state: "hidden" });
  },

  async "each dialect, a system prompt and further fields reach the site"(world) {
    const { channels } = await start(world);
    const one = await world.open();
    await one.goto(`/playground?model=gpt-4o&channel=${channels["Main line"]}`);
    await one.page.getByText("System prompt").first().click();
    await one.page.getByLabel("System prompt", { exact: true }).fill("Be short.");
    const further = one.page.getByLabel("Further fields of the request, as JSON");
    await further.fill("[1]");
    await one.page.getByText("This is not a JSON object.").waitFor();
    await one.page.getByLabel("Your message").fill("Which way?");
    assert.equal(await one.page.getByRole("button", { name: "Send" }).isDisabled(), true);
    await further.fill('{"temperature": 0.25}');
    await one.isAccessible("further fields");
    for (const [label, path] of [["Messages", "/v1/messages"], ["Responses", "/v1/responses"]]) {
      await one.page.getByLabel("Dialect").selectOption({ label });
      await ask(one, "Which way?");
      await one.page.getByLabel("Request", { exact: true }).getByText(`POST ${path}`).waitFor();
      await one.page.getByText("Answer, HTTP 200").waitFor();
      await turns(one).nth(path === "/v1/messages" ? 1 : 3).getByText("An answer of gpt-4o.").waitFor();
      await one.page.getByLabel("Request", { exact: true }).getByText("Be short.").waitFor();
      await one.page.getByLabel("Request", { exact: true }).getByText('"temperature": 0.25').waitFor();
    }
  },

  async "a failure is shown as it is, and may be tried again"(world) {
    const { channels } = await start(world);
    const one = await world.open({ width: 375 });
    one.expected.push("500");
    await one.goto("/playground?model=gpt-4o");
    await one.page.getByLabel("Channel").selectOption(String(channels["Branch line"]));
    await ask(one, "Which way?");
    await one.page.getByRole("alert").getByText("The site failed, HTTP 500: The engine is out of steam").waitFor();
    await one.page.getByText("Answer, HTTP 500").waitFor();
    await one.isAccessible("a failed answer");
    await one.page.getByLabel("Channel").selectOption(String(channels["Main line"]));
    await one.page.getByRole("button", { name: "Try again" }).click();
    await turns(one).getByText("An answer of gpt-4o.").waitFor();
    await one.page.getByLabel("Model", { exact: true }).fill("nobody-has-it");
    await one.page.getByText("No enabled route matches.").waitFor();
    // That no channel can be used is told as this server's own.
    one.expected.push("503");
    await ask(one, "Which way?");
    await one.page.getByRole("alert").getByText("Not possible now: No available channels for this model").waitFor();
  },

  async "an answer is stopped, and the site hears of it"(world) {
    const gateway = await world.start();
    const slow = await slowSite();
    world.sites.push(slow);
    await gateway.addSite("Slow line", slow.url, "sk-slow");
    const one = await world.open({ locale: "zh-CN", dark: true });
    await one.goto("/playground?model=slow");
    await one.page.getByLabel("你的消息").fill("Go");
    await one.page.getByRole("button", { name: "发送" }).click();
    await turns(one).getByText("It begins").waitFor();
    await one.page.getByRole("button", { name: "停止" }).click();
    await turns(one).getByText("未完成").waitFor();
    await gateway.eventually("the site's connection ends", () => slow.closed);
    await one.isAccessible("a stopped answer");
  },
};
