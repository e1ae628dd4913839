// Keys: making, changing and revealing them, batches, and the lines that connect a client.

import assert from "node:assert/strict";
import { PROXY } from "../gateway.mjs";
import { isPastable, keyLine, lines } from "../../../src/console/clients.js";

const HOSTILE = `<img src=x onerror=alert(1)> \u202eevil ${"long ".repeat(80)}`;

const makeKey = (world, name, more = {}) => world.gateway.api("POST", "/api/downstream-keys", { name, key: `sk-${name.replace(/\W/g, "").slice(0, 20)}-000000`, ...more }).then((answer) => answer.item);
const keysOf = async (world) => (await world.gateway.api("GET", "/api/downstream-keys")).items;
const row = (one, name) => one.page.getByRole("row").filter({ hasText: name }).first();

// Runs `act` and returns the bodies of the requests with this method that the page sent meanwhile.
async function bodies(one, method, act) {
  const seen = [];
  const note = (request) => { if (request.method() === method) seen.push(request.postDataJSON()); };
  one.page.on("request", note);
  await act();
  one.page.off("request", note);
  return seen;
}

export default {
  async "a key that is opened shows its requests, cost and tokens by day"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await makeKey(world, "Busy");
    for (let turn = 0; turn < 2; turn++) await (await gateway.chat("gpt-4o", {}, "sk-Busy-000000")).text();
    const [{ id }] = await keysOf(world);
    const { buckets: [{ totalTokens }] } = await gateway.eventually("the key has a day", async () => {
      const trend = await gateway.api("GET", `/api/downstream-keys/${id}/trend?range=all`);
      return trend.buckets[0]?.totalRequests === 2 && trend;
    });
    for (const width of [1280, 375]) {
      const one = await world.open({ width });
      await one.goto(`/keys?open=${id}`);
      await one.page.getByText("2 in total").waitFor();
      await one.page.getByText(`${totalTokens} in total`).waitFor();
      assert.equal(await one.page.locator(".detail svg.bars").count(), 3);
      const totals = one.page.getByRole("region", { name: "Costs and counts" }).locator("tbody tr");
      assert.match((await totals.nth(1).innerText()).replace(/\s+/g, " "), new RegExp(`^7 days 2 0 ${totalTokens} 200 0 \\$`));
      await one.isAccessible("a key with its days");
    }
  },

  async "Enter takes what a choice has found, and a choice does not lose the focus"(world) {
    await world.start();
    const stub = await world.site({ models: Array.from({ length: 14 }, (_, at) => `model-${at}`) });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.goto("/keys");
    await one.page.getByRole("button", { name: "New key" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("team");
    await dialog.getByRole("button", { name: "Models, routes, sites" }).click();
    await dialog.getByLabel("Find: Routes").fill("model-13");
    await dialog.getByLabel("Find: Routes").press("Enter");
    await dialog.getByRole("button", { name: "Remove model-13" }).waitFor();
    assert.deepEqual(await keysOf(world), []);
    await dialog.getByLabel("Find: Routes").fill("model-12");
    for (const name of ["+ model-12", "Remove model-12"]) {
      await dialog.getByRole("button", { name }).press("Enter");
      await one.page.waitForFunction(() => document.activeElement !== document.body);
    }
  },

  async "a key is made, shown in full once, and lets a client in"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.goto("/keys");
    await one.page.getByText("No key yet").waitFor();
    await one.page.getByRole("button", { name: "New key" }).click();
    const dialog = one.page.getByRole("dialog");
    await one.isAccessible("new key");
    await dialog.getByLabel("Name", { exact: true }).fill("Laptop");
    await dialog.getByLabel("Cost limit, USD").fill("2.5");
    await dialog.getByLabel("Tags").fill("home, blue");
    await dialog.getByLabel("Tags").press("Enter");
    const value = await dialog.getByLabel("The new key").innerText();
    await one.page.waitForFunction(() => document.activeElement.getAttribute("aria-label") === "The new key");
    assert.match(value, /^sk-[0-9a-f]{48}$/);
    await one.isAccessible("the new key");
    const [item] = await keysOf(world);
    assert.deepEqual([item.name, item.maxCost, item.tags, item.supportedModels], ["Laptop", 2.5, ["home", "blue"], ["*"]]);
    const answer = await fetch(`${world.gateway.url}/v1/chat/completions`, { method: "POST", headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Which way?" }] }) });
    assert.equal(answer.status, 200);
    await dialog.getByRole("button", { name: "Done" }).click();
    await row(one, "Laptop").waitFor();
    assert.equal((await one.text()).includes(value), false);
  },

  async "a value of one's own is taken, and one that cannot be a key is told and kept in the form"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/keys");
    await one.page.getByRole("button", { name: "New key" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("Own");
    await dialog.getByLabel("Own value").fill("no-key");
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Own value").fill("sk-of-my-own");
    await dialog.getByRole("button", { name: "Create" }).click();
    assert.equal(await dialog.getByLabel("The new key").innerText(), "sk-of-my-own");
    await dialog.getByRole("link", { name: "Connect a client" }).click();
    await dialog.waitFor({ state: "hidden" });
    await one.page.getByLabel("The line with the key").waitFor();
    const [{ id }] = await keysOf(world);
    assert.equal(await one.page.getByLabel("Key", { exact: true }).inputValue(), String(id));
  },

  async "only what was changed of a key is sent"(world) {
    await world.start();
    const { id } = await makeKey(world, "Before", { maxCost: 1, expiresAt: "2030-01-02T03:04:05.678Z", tags: ["a"] });
    const one = await world.open();
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("After");
    await dialog.getByLabel("Cost limit, USD").fill("");
    const sent = await bodies(one, "PUT", async () => {
      await dialog.getByRole("button", { name: "Save" }).click();
      await row(one, "After").waitFor();
    });
    assert.deepEqual(sent, [{ name: "After", maxCost: null }]);
    const [item] = await keysOf(world);
    assert.deepEqual([item.name, item.maxCost, item.expiresAt, item.tags], ["After", null, "2030-01-02T03:04:05.678Z", ["a"]]);
  },

  async "what two tabs do to the lists of a key holds from both, and nothing is saved while the list cannot be read"(world) {
    await world.start();
    const { id } = await makeKey(world, "Shared", { supportedModels: ["gpt-4o", "o3"], tags: ["a"] });
    const one = await world.open();
    one.expected.push("500");
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Models, routes, sites" }).click();
    await dialog.getByLabel("Models", { exact: true }).fill("gpt-4o\nmine");
    await dialog.getByLabel("Tags").fill("a, b");
    await world.gateway.api("PUT", `/api/downstream-keys/${id}`, { supportedModels: ["gpt-4o", "o3", "theirs"], tags: ["c"] });
    await one.page.route("**/api/downstream-keys/summary*", (route) => route.fulfill({ status: 500, json: { message: "The shelf is away" } }));
    await one.look(true);
    await one.look(false);
    await dialog.getByText("The shelf is away").waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Save" }).isDisabled(), true);
    await one.page.unroute("**/api/downstream-keys/summary*");
    await dialog.getByRole("button", { name: "Try again" }).click();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    const [item] = await keysOf(world);
    assert.deepEqual([item.supportedModels, item.tags], [["gpt-4o", "mine", "theirs"], ["b", "c"]]);
  },

  async "budgets, pace and addresses are set in the form and shown with what is used of them"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const { id } = await makeKey(world, "Children", { key: "sk-children-key-1" });
    const one = await world.open();
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Budgets, pace, addresses" }).click();
    await dialog.getByLabel("Calls at once").fill("2");
    await dialog.getByLabel("Addresses").fill("127.0.0.0/8\n::1");
    await dialog.getByRole("button", { name: "Add a budget" }).click();
    const budget = dialog.getByRole("group", { name: "Budget 1" });
    await budget.getByLabel("Period", { exact: true }).selectOption("total");
    await budget.getByLabel("Requests of the period").fill("4");
    await budget.getByLabel("Models counted").fill("gpt-*");
    await one.isAccessible("limits");
    const sent = await bodies(one, "PUT", async () => {
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "hidden" });
    });
    assert.deepEqual(sent, [{ maxConcurrency: "2", allowedIps: ["127.0.0.0/8", "::1"],
      budgets: [{ period: "total", maxCost: null, maxRequests: "4", maxTokens: null, models: ["gpt-*"] }] }]);
    await fetch(`${world.gateway.url}/v1/chat/completions`, { method: "POST", headers: { authorization: "Bearer sk-children-key-1", "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Which way?" }] }) });
    await one.page.reload();
    await one.page.getByRole("img", { name: "Total, Requests: 1 of 4" }).waitFor();
    await one.isAccessible("budgets shown");
    await one.page.getByRole("button", { name: "Edit" }).click();
    await dialog.getByRole("button", { name: "Budgets, pace, addresses" }).click();
    await dialog.getByRole("button", { name: "Remove budget 1" }).click();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    const [item] = await keysOf(world);
    assert.deepEqual([item.budgets, item.maxConcurrency], [null, 2]);
  },

  async "routes, sites, credentials and weights are picked by their names"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o", "o4-mini"] });
    const { site, account } = await world.gateway.addSite("Main line", stub.url, "sk-one");
    const routes = await world.gateway.api("GET", "/api/routes/lite");
    const { id } = await makeKey(world, "Picky");
    const one = await world.open();
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Models, routes, sites" }).click();
    await dialog.getByLabel("Models", { exact: true }).fill("o4-*\nre:^gpt-(4|5){1,2}");
    await dialog.getByRole("group", { name: "Routes" }).getByRole("button", { name: "gpt-4o" }).click();
    await dialog.getByRole("group", { name: "Credentials left out" }).getByRole("button", { name: "Main line" }).click();
    await dialog.getByRole("group", { name: "Weights of sites" }).getByRole("button", { name: "Main line" }).click();
    await dialog.getByLabel("Weight of Main line").fill("much");
    await one.isAccessible("policies");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("A weight is a number above 0.").waitFor();
    await dialog.getByLabel("Weight of Main line").fill("0.5");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    const [item] = await keysOf(world);
    assert.deepEqual(item.supportedModels, ["o4-*", "re:^gpt-(4|5){1,2}"]);
    assert.deepEqual(item.allowedRouteIds, [routes.find((route) => route.modelPattern === "gpt-4o").id]);
    assert.deepEqual(item.siteWeightMultipliers, { [site.id]: 0.5 });
    assert.deepEqual(item.excludedCredentialRefs, [{ kind: "default_api_key", siteId: site.id, accountId: account.id }]);
    assert.deepEqual(item.excludedSiteIds, []);
  },

  async "a key is revealed when asked for, hidden again, turned off, reset and deleted by its name"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const { id } = await makeKey(world, "Kitchen", { key: "sk-kitchen-key-1", maxRequests: 4 });
    await fetch(`${world.gateway.url}/v1/chat/completions`, { method: "POST", headers: { authorization: "Bearer sk-kitchen-key-1", "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Which way?" }] }) });
    const one = await world.open();
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("img", { name: "Requests: 1 of 4" }).first().waitFor();
    await one.page.getByRole("link", { name: "Costs and counts" }).waitFor();
    await one.isAccessible("one key");
    assert.equal((await one.text()).includes("sk-kitchen-key-1"), false);
    await one.page.getByRole("button", { name: "Reveal" }).click();
    await one.page.getByText("sk-kitchen-key-1").waitFor();
    await one.page.getByRole("button", { name: "Hide" }).click();
    await one.page.getByText("sk-kitchen-key-1").waitFor({ state: "hidden" });
    await one.page.getByRole("button", { name: "Switch off" }).click();
    await one.page.getByRole("button", { name: "Switch on" }).waitFor();
    assert.equal((await keysOf(world))[0].enabled, false);
    await one.page.getByRole("button", { name: "Reset usage" }).click();
    await one.page.getByRole("dialog").getByRole("button", { name: "Reset usage" }).click();
    await one.page.getByRole("img", { name: "Requests: 0 of 4" }).first().waitFor();
    assert.equal((await keysOf(world))[0].usedRequests, 0);
    await one.page.getByRole("button", { name: "Delete" }).click();
    await one.page.getByRole("dialog").getByText("Kitchen").waitFor();
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await one.page.getByText("No key yet").waitFor();
    assert.deepEqual(await keysOf(world), []);
  },

  async "the focus stays where a key was revealed, and goes to the next one when a key is deleted"(world) {
    await world.start();
    const [, second, third] = [await makeKey(world, "One"), await makeKey(world, "Two"), await makeKey(world, "Three")];
    const one = await world.open();
    const focused = (what) => one.page.waitForFunction((text) => document.activeElement.textContent.includes(text), what);
    await one.goto(`/keys?open=${second.id}`);
    await one.page.getByRole("button", { name: "Reveal" }).focus();
    await one.page.keyboard.press("Enter");
    await focused("Hide");
    await one.page.keyboard.press("Enter");
    await focused("Reveal");
    const names = await one.page.locator(".row:not(.head) .opener").allTextContents();
    const next = names[names.findIndex((name) => name.includes("Two")) + 1] ?? names.at(-2);
    await one.page.getByRole("button", { name: "Delete" }).focus();
    await one.page.keyboard.press("Enter");
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete" }).focus();
    await one.page.keyboard.press("Enter");
    await one.page.locator(".detail").waitFor({ state: "hidden" });
    await focused(next);
    assert.ok((await keysOf(world)).some(({ id }) => id === third.id));
  },

  async "a key gets another value, and the old one lets nobody in"(world) {
    await world.start();
    const { id } = await makeKey(world, "Worn", { key: "sk-worn-key-1" });
    const one = await world.open();
    await one.goto(`/keys?open=${id}`);
    await one.page.getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("New value").fill("sk-fresh-key-1");
    const sent = await bodies(one, "PUT", async () => {
      await dialog.getByRole("button", { name: "Save" }).click();
      await dialog.waitFor({ state: "hidden" });
    });
    assert.deepEqual(sent, [{ key: "sk-fresh-key-1" }]);
    const status = async (key) => (await fetch(`${world.gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status;
    assert.notEqual(await status("sk-worn-key-1"), 200);
    assert.equal(await status("sk-fresh-key-1"), 200);
  },

  async "of more keys than fit in one request all are changed"(world) {
    await world.start();
    const key = await makeKey(world, "One");
    const one = await world.open();
    const { items: [item], ...summary } = await world.gateway.api("GET", "/api/downstream-keys/summary?range=24h");
    await one.page.route("**/api/downstream-keys/summary?*", (route) => route.fulfill({ json: { ...summary, items: Array.from({ length: 1001 }, (_, at) => ({ ...item, id: key.id + at, name: `Key ${at}` })) } }));
    const sent = [];
    await one.page.route("**/api/downstream-keys/batch", (route) => { sent.push(route.request().postDataJSON()); return route.fulfill({ json: { success: true, successIds: [], failedItems: [] } }); });
    await one.goto("/keys");
    await one.page.getByLabel("Select Key 0").check();
    await one.page.getByRole("button", { name: "Choose all 1001" }).click();
    await one.page.getByRole("group", { name: "1001 keys chosen" }).getByRole("button", { name: "Switch on" }).click();
    await one.page.getByRole("status").getByText("Done", { exact: true }).waitFor();
    assert.deepEqual(sent.map(({ action, ids }) => [action, ids.length]), [["enable", 500], ["enable", 500], ["enable", 1]]);
    assert.equal(new Set(sent.flatMap(({ ids }) => ids)).size, 1001);
  },

  async "several keys are changed at once, and those that fail are named"(world) {
    await world.start();
    const keys = [];
    for (const name of ["One", "Two", "Three"]) keys.push(await makeKey(world, name));
    const one = await world.open();
    await one.goto("/keys");
    await one.page.getByLabel("Select One").check();
    await one.page.getByRole("button", { name: "Choose all 3" }).click();
    const bar = one.page.getByRole("group", { name: /keys? chosen/ });
    await bar.getByRole("button", { name: "Group and tags" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Group", { exact: true }).fill("family");
    await dialog.getByLabel("Tags to add").fill("new, blue");
    await one.isAccessible("group and tags");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    for (const item of await keysOf(world)) assert.deepEqual([item.groupName, item.tags], ["family", ["new", "blue"]]);
    await bar.getByRole("button", { name: "Group and tags" }).click();
    await dialog.getByLabel("Remove the group").check();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "hidden" });
    for (const item of await keysOf(world)) assert.deepEqual([item.groupName, item.tags], [null, ["new", "blue"]]);
    await one.page.getByLabel("Select Three").uncheck();
    // One key is deleted elsewhere: the batch reports it.
    await world.gateway.api("DELETE", `/api/downstream-keys/${keys[0].id}`);
    // A batch leaves out rows that a filter hides.
    await one.page.getByLabel("Search").fill("two");
    await one.page.getByRole("group", { name: "1 key chosen" }).waitFor();
    await one.page.getByLabel("Search").fill("three");
    await bar.waitFor({ state: "hidden" });
    await one.page.getByLabel("Search").fill("");
    one.answer = true;
    await bar.getByRole("button", { name: "Switch off" }).click();
    await one.page.getByText("Some of these failed:").waitFor();
    assert.deepEqual(one.asked.map((text) => text.split("\n").sort().join()), [",One,Switch off: 2 keys chosen,Two"]);
    assert.deepEqual((await keysOf(world)).map((item) => [item.name, item.enabled]), [["Three", true], ["Two", false]]);
    await bar.getByRole("button", { name: "Delete" }).click();
    await one.page.getByRole("dialog").getByText("Two").waitFor();
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await row(one, "Two").waitFor({ state: "detached" });
    assert.deepEqual((await keysOf(world)).map((item) => item.name), ["Three"]);
  },

  async "filters live in the address, and states are told in words"(world) {
    await world.start();
    await makeKey(world, "Spent", { maxCost: 0 });
    await makeKey(world, "Late", { expiresAt: "2020-01-01T00:00:00Z", groupName: "old" });
    await makeKey(world, "Fresh", { tags: ["blue"] });
    await makeKey(world, "Closed", { enabled: false });
    const one = await world.open();
    await one.goto("/keys?state=blocked");
    await row(one, "Budget spent").waitFor();
    await row(one, "Expired").waitFor();
    assert.equal((await one.text()).includes("Fresh"), false);
    await one.page.getByLabel("State").selectOption("");
    await one.page.getByLabel("Search").fill("BLUE");
    await row(one, "Closed").waitFor({ state: "detached" });
    assert.equal(new URL(one.page.url()).search, "?q=BLUE");
    await one.page.getByLabel("Search").fill("nothing like it");
    await one.page.getByText("Nothing matches the filter.").waitFor();
  },

  async "hostile names are text on a phone and on a desk, in both languages"(world) {
    await world.start();
    const { id } = await makeKey(world, HOSTILE, { description: HOSTILE, tags: ["<b>tag</b>", "\u202egat"], groupName: "\u202epuorg", key: "sk-'\"`$(x)\\" });
    for (const [locale, width, dark] of [["en", 375, true], ["zh-CN", 1280, false]]) {
      const one = await world.open({ locale, width, dark });
      for (const path of [`/keys?open=${id}`, `/keys?connect=1&key=${id}`]) {
        await one.goto(path);
        await one.isAccessible(`${path} ${locale} ${width}`);
        assert.equal(await one.page.locator("main img[src], main b").count(), 0);
      }
    }
  },

  async "lines to paste hold the address, the model, and the key only while it is revealed"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const { id } = await makeKey(world, "Desk", { key: "sk-desk-key-1" });
    const one = await world.open();
    await one.goto("/keys?connect=1");
    assert.equal(await one.page.getByLabel("The line with the key").innerText(), "export SWITCHYARD_KEY=$PROXY_TOKEN");
    await one.page.getByLabel("Key", { exact: true }).selectOption(String(id));
    await one.page.getByLabel("Model", { exact: true }).fill("gpt-4o");
    await one.page.getByText("This key has not been used yet.").waitFor();
    assert.equal((await one.text()).includes("sk-desk-key-1"), false);
    await one.page.getByRole("button", { name: "Reveal the key" }).click();
    await one.page.getByText("export SWITCHYARD_KEY=sk-desk-key-1").waitFor();
    for (const [tab, part] of [["Claude Code", `ANTHROPIC_BASE_URL=${world.gateway.url} `], ["Codex", `base_url = "${world.gateway.url}/v1"`], ["Gemini CLI", `GOOGLE_GEMINI_BASE_URL=${world.gateway.url} `],
      ["OpenAI SDK", "OpenAI({ baseURL"], ["Anthropic SDK", "auth_token="], ["Open WebUI", "OPENAI_API_BASE_URL"], ["Cline", `${world.gateway.url}/v1`], ["curl", "/v1/messages"]]) {
      await one.page.getByRole("tab", { name: tab }).click();
      await one.page.locator("pre").filter({ hasText: part }).first().waitFor();
      await one.isAccessible(tab);
    }
    await one.page.getByRole("button", { name: "Hide the key" }).click();
    await one.page.getByText("export SWITCHYARD_KEY=sk-desk-key-1").waitFor({ state: "hidden" });
    await fetch(`${world.gateway.url}/v1/chat/completions`, { method: "POST", headers: { authorization: "Bearer sk-desk-key-1", "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "Which way?" }] }) });
    await one.page.getByRole("button", { name: "Read again" }).click();
    await one.page.getByText("It was used").waitFor();
    await one.page.getByLabel("Model", { exact: true }).fill("gpt\u202e4o");
    await one.page.getByText("there is nothing to paste").waitFor();
    assert.equal(PROXY.length > 0 && (await one.text()).includes(PROXY), false);
  },

  async "what is put into lines to paste cannot end its quotes"() {
    const model = `m'"; rm -rf ~; $(x) \`y\` \\`;
    const { execFileSync } = await import("node:child_process");
    const said = execFileSync("sh", ["-c", `${keyLine("sk-'\"$(x)`")}\nprintf %s "$SWITCHYARD_KEY"`], { encoding: "utf8" });
    assert.equal(said, "sk-'\"$(x)`");
    const [[, claude]] = lines("claude", "http://x", model);
    const held = execFileSync("sh", ["-c", `${claude.replace(/\nclaude$/, "")}\nprintf %s "$ANTHROPIC_MODEL"`], { encoding: "utf8" });
    assert.equal(held, model);
    const [, [, chat]] = lines("curl", "http://x", model);
    const body = execFileSync("sh", ["-c", `curl() { for last; do :; done; printf %s "$last"; }\n${chat}`], { encoding: "utf8" });
    assert.equal(JSON.parse(body).model, model);
    assert.equal(lines("codex", "http://x", model)[0][1].includes(`model = ${JSON.stringify(model)}`), true);
    for (const text of ["a\nb", "a\u202eb", "a\u200bb", "a\u0000b", "a\u001b[2Jb"]) assert.equal(isPastable(text), false);
    assert.equal(isPastable("deepseek/R1:free 中文"), true);
  },

  async "a list that cannot be read is told, and comes back when it can"(world) {
    await world.start();
    await makeKey(world, "Kept");
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/api/downstream-keys/summary*", (route) => route.fulfill({ status: 500, json: { message: "The disk is full" } }));
    await one.goto("/keys");
    await one.page.getByText("The disk is full").waitFor();
    await one.page.unroute("**/api/downstream-keys/summary*");
    await one.page.getByRole("button", { name: "Try again" }).click();
    await row(one, "Kept").waitFor();
  },
};
