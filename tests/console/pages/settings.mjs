// Settings: all of the API's are there, only changes are sent, secrets are never shown in fields; the upkeep of the server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import http from "node:http";
import { ADMIN } from "../gateway.mjs";
import { FORMS } from "../../../src/console/pages/settings/table.js";

const TABS = ["routing", "limits", "jobs", "notices", "models", "traces", "rewriting", "access", "backup", "tasks", "events", "maintenance", "database", "updates", "about"];
const runtime = (world) => world.gateway.api("GET", "/api/settings/runtime");
const form = (one, title) => one.page.locator("section").filter({ has: one.page.getByRole("heading", { name: title, exact: true }) });
const save = async (one, title) => {
  await form(one, title).getByRole("button", { name: "Save" }).click();
  await form(one, title).getByText("Saved", { exact: true }).waitFor();
};

// Records the bodies of the changes that the page sends.
function changes(one) {
  const seen = [];
  one.page.on("request", (request) => { if (request.method() === "PUT") seen.push(request.postDataJSON()); });
  return seen;
}

async function sink() {
  const seen = [];
  const server = http.createServer((request, response) => { request.resume(); seen.push(request.url); response.end("{}"); });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { seen, url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

export default {
  async "every runtime setting of the API stands in the table, with its built-in default"(world) {
    await world.start();
    const values = await runtime(world);
    const rows = Object.values(FORMS).flat().flatMap(([, , listed]) => listed);
    const told = ["currentAdminIp", "serverTimeZone", "credentialSecretWeak", "usingDefaultAdminToken", "usingDefaultProxyToken"];
    const fields = new Set(rows.map(([field]) => field.split(".")[0]));
    const missing = Object.keys(values).filter((name) => !told.includes(name) && !fields.has(name.replace(/Masked$/, "")));
    assert.deepEqual(missing, []);
    for (const [field, usual] of rows) {
      if (usual !== null) assert.deepEqual(field.split(".").reduce((held, name) => held[name], values), usual, field);
    }
    assert.deepEqual(Object.keys(values.routingWeights).filter((name) => !rows.some(([field]) => field === `routingWeights.${name}`)), []);
  },

  async "every tab opens in both languages, on a phone and on a desk"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("<b>Main</b> \u202eenil", stub.url, "sk-one");
    for (const [locale, width, dark] of [["en", 1280, false], ["zh-CN", 375, true]]) {
      const one = await world.open({ locale, width, dark });
      // A server whose database cannot be chosen in the console has no route for it.
      one.expected.push("404");
      for (const tab of TABS) {
        await one.goto(`/settings?tab=${tab}`);
        await one.isAccessible(`${tab} ${locale} ${width}`);
      }
    }
  },

  async "only what was changed is sent, and the answer is what is shown"(world) {
    await world.start();
    const one = await world.open();
    const sent = changes(one);
    await one.goto("/settings");
    const failures = form(one, "Failures and cooldowns");
    assert.equal(await failures.getByRole("button", { name: "Save" }).isDisabled(), true);
    await failures.getByLabel("Longest cooldown").fill("600");
    await failures.getByLabel("An answer without content").check();
    await failures.getByLabel("an answer with one of these").fill("quota exceeded\n\n no credit ");
    await save(one, "Failures and cooldowns");
    await form(one, "Choice of a channel").getByLabel("Weight of a low cost").fill("0.9");
    await save(one, "Choice of a channel");
    assert.deepEqual(sent, [{ tokenRouterFailureCooldownMaxSec: 600, proxyEmptyContentFailEnabled: true, proxyErrorKeywords: ["quota exceeded", "no credit"] },
      { routingWeights: { costWeight: 0.9 } }]);
    const values = await runtime(world);
    assert.deepEqual([values.tokenRouterFailureCooldownMaxSec, values.routingWeights.costWeight, values.routingWeights.usageWeight], [600, 0.9, 0.3]);
    await failures.getByLabel("Longest cooldown").fill("9999999");
    await save(one, "Failures and cooldowns");
    await failures.getByText("Longest cooldown of a channel, seconds (at most 30 days): 2592000 was saved instead").waitFor();
    assert.equal(await failures.getByLabel("Longest cooldown").inputValue(), "2592000");
    // When the page opens, it shows changes that were made elsewhere.
    await world.gateway.api("PUT", "/api/settings/runtime", { tokenRouterFailureCooldownMaxSec: 700 });
    await one.goto("/settings");
    assert.equal(await failures.getByLabel("Longest cooldown").inputValue(), "700");
  },

  async "what was changed elsewhere is shown when the tab is seen again, and what is typed stays"(world) {
    const gateway = await world.start();
    const one = await world.open();
    await one.goto("/settings");
    const [base, value] = ["Factor of the base weight", "Factor of the value"].map((label) => one.page.getByLabel(label));
    await base.fill("0.7");
    await gateway.api("PUT", "/api/settings/runtime", { routingWeights: { baseWeightFactor: 0.1, valueScoreFactor: 0.2 } });
    await one.look(true);
    await one.look(false);
    await gateway.eventually("the other value is shown", async () => await value.inputValue() === "0.2");
    assert.equal(await base.inputValue(), "0.7");
  },

  async "what was typed survives a look at another tab, and what is no number is not sent"(world) {
    await world.start();
    const one = await world.open();
    const sent = changes(one);
    await one.goto("/settings?tab=limits");
    await one.page.getByLabel("Longest wait for an answer's first byte").fill("soon");
    await one.page.getByRole("tab", { name: "Traces" }).click();
    await one.page.getByRole("tab", { name: "Limits" }).click();
    assert.equal(await one.page.getByLabel("Longest wait for an answer's first byte").inputValue(), "soon");
    await one.page.getByRole("button", { name: "Save" }).click();
    await one.page.getByRole("alert").filter({ hasText: "This must be a number." }).waitFor();
    assert.deepEqual(sent, []);
    await one.page.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await one.page.getByLabel("Longest wait for an answer's first byte").inputValue(), "0");
  },

  async "what was not read is not shown and cannot be saved"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/api/settings/runtime", (route) => route.fulfill({ status: 500, json: { message: "The disk is full" } }));
    await one.goto("/settings");
    await one.page.getByText("The disk is full").waitFor();
    assert.equal(await one.page.getByRole("button", { name: "Save" }).count(), 0);
    await one.page.unroute("**/api/settings/runtime");
    await one.page.getByRole("button", { name: "Try again" }).click();
    await one.page.getByLabel("Longest cooldown").waitFor();
  },

  async "what two tabs do to a list holds from both"(world) {
    await world.start();
    const put = (names) => world.gateway.api("PUT", "/api/settings/runtime", { globalAllowedModels: names });
    await put(["gpt-4o", "o3"]);
    const one = await world.open();
    await one.goto("/settings?tab=models");
    const list = one.page.getByLabel("Only these models");
    await list.fill("gpt-4o\nmine");
    await put(["gpt-4o", "o3", "theirs"]);
    await save(one, "Which models get routes");
    assert.deepEqual((await runtime(world)).globalAllowedModels, ["gpt-4o", "mine", "theirs"]);
    assert.equal(await list.inputValue(), "gpt-4o\nmine\ntheirs");
  },

  async "schedules are read out, and one that cannot be read is refused in words"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=jobs");
    const schedule = one.page.getByLabel("Schedule of check-ins");
    for (const [text, words] of [["30 7,19 * * *", "every day at 07:30, 19:30 (UTC)"], ["*/10 * * * *", "every 10 minutes (UTC)"], ["5 */6 * * *", "every 6 hours at minute 5"],
      ["0 9 * * 1,5", "on Monday, Friday at 09:00"], ["0 9 1,15 * *", "on day 1,15 of the month at 09:00"]]) {
      await schedule.fill(text);
      await one.page.getByText(words).waitFor();
    }
    await schedule.fill("whenever");
    await form(one, "Check-ins").getByRole("button", { name: "Save" }).click();
    await form(one, "Check-ins").getByRole("alert").waitFor();
    assert.equal(await schedule.inputValue(), "whenever");
    assert.equal((await runtime(world)).checkinCron, "0 8 * * *");
    await schedule.fill("0 9 * * 1,5");
    await save(one, "Check-ins");
    assert.equal((await runtime(world)).checkinCron, "0 9 * * 1,5");
    await form(one, "Balances and the daily summary").getByLabel("Send a daily summary").fill("");
    await save(one, "Balances and the daily summary");
    assert.equal((await runtime(world)).dailySummaryCron, "");
  },

  async "a secret is never in a field; it is sent when typed, and removed when asked"(world) {
    await world.start();
    const target = await sink();
    try {
      await world.gateway.api("PUT", "/api/settings/runtime", { webhookUrl: `${target.url}/a-secret-path`, smtpPass: "a-password-of-mail" });
      const one = await world.open();
      const sent = changes(one);
      await one.goto("/settings?tab=notices");
      const hook = form(one, "Webhook").getByLabel("Address; WeCom");
      assert.deepEqual([await hook.inputValue(), await hook.getAttribute("placeholder")], ["", "unchanged"]);
      await form(one, "Webhook").getByText(`${target.url}/****`).waitFor();
      await form(one, "Mail").getByLabel("Mail server").fill("mail.example");
      await save(one, "Mail");
      assert.deepEqual(sent.pop(), { smtpHost: "mail.example" });
      await one.page.getByRole("button", { name: "Send a test notice" }).click();
      await one.page.getByRole("listitem").filter({ hasText: "webhook" }).getByText("sent").waitFor();
      assert.deepEqual(target.seen, ["/a-secret-path"]);
      await hook.fill(`${target.url}/another`);
      await save(one, "Webhook");
      assert.deepEqual(sent.pop(), { webhookUrl: `${target.url}/another` });
      assert.equal(await hook.inputValue(), "");
      await form(one, "Mail").getByRole("button", { name: "Remove" }).click();
      await form(one, "Mail").getByText("Removed when saved.").waitFor();
      await form(one, "Mail").getByRole("button", { name: "Keep it" }).click();
      await form(one, "Mail").getByRole("button", { name: "Remove" }).click();
      await save(one, "Mail");
      assert.deepEqual(sent.pop(), { smtpPass: "" });
      assert.equal((await runtime(world)).smtpPassMasked, "");
    } finally { target.close(); }
  },

  async "each channel that fails is named, with its reason"(world) {
    await world.start();
    const target = await sink();
    await world.gateway.api("PUT", "/api/settings/runtime", { webhookUrl: `${target.url}/gone` });
    target.close();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=notices");
    await one.page.getByRole("button", { name: "Send a test notice" }).click();
    await one.page.getByRole("listitem").filter({ hasText: "webhook" }).getByText("failed").waitFor();
    await one.isAccessible("notices after a test");
  },

  async "models are listed, brands are picked"(world) {
    await world.start();
    const one = await world.open();
    const sent = changes(one);
    await one.goto("/settings?tab=models");
    await one.page.getByLabel("Only these models").fill("gpt-4o\nclaude-sonnet-5");
    await one.page.getByLabel("Find: Blocked brands").fill("mist");
    await one.page.getByRole("button", { name: "Mistral" }).click();
    await save(one, "Which models get routes");
    assert.deepEqual(sent, [{ globalAllowedModels: ["gpt-4o", "claude-sonnet-5"], globalBlockedBrands: ["Mistral"] }]);
    await one.page.getByRole("button", { name: "Remove Mistral" }).click();
    await save(one, "Which models get routes");
    assert.deepEqual((await runtime(world)).globalBlockedBrands, []);
  },

  async "payload rules are checked before they are sent, and refusals name the rule"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    const sent = changes(one);
    await one.goto("/settings?tab=rewriting");
    const rules = one.page.getByLabel("Fields to set");
    await rules.fill("{");
    await one.page.getByText("This is not JSON:").waitFor();
    await one.page.getByRole("button", { name: "Save" }).click();
    await one.page.getByRole("alert").waitFor();
    assert.deepEqual(sent, []);
    await rules.fill(JSON.stringify({ override: [{ models: [], params: { temperature: 0 } }] }));
    await one.page.getByRole("button", { name: "Save" }).click();
    await one.page.getByRole("alert").filter({ hasText: "override, rule 1" }).waitFor();
    await rules.fill(JSON.stringify({ override: [{ models: [{ name: "gpt-*" }], params: { temperature: 0 } }] }));
    await save(one, "Payload rules");
    assert.deepEqual((await runtime(world)).payloadRules.override[0].params, { temperature: 0 });
  },

  async "the admin token is changed, and this tab stays signed in"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=access");
    const token = form(one, "Admin token");
    await token.getByLabel("Current token").fill("not-this-one");
    await token.getByLabel("New token", { exact: true }).fill("another-admin-token-1");
    await token.getByLabel("New token again").fill("another-admin-token-2");
    await token.getByRole("button", { name: "Change the token" }).click();
    await token.getByText("The two new tokens differ.").waitFor();
    await token.getByLabel("New token again").fill("another-admin-token-1");
    await token.getByRole("button", { name: "Change the token" }).click();
    await token.getByRole("alert").filter({ hasText: "oldToken" }).waitFor();
    await token.getByLabel("Current token").fill(ADMIN);
    await token.getByRole("button", { name: "Change the token" }).click();
    await token.getByText("The new token is in use.").waitFor();
    await one.page.getByRole("tab", { name: "Tasks" }).click();
    await one.page.getByText("No task since the server was started.").waitFor();
    assert.equal(await one.page.evaluate(() => sessionStorage.getItem("switchyard.token")), "another-admin-token-1");
  },

  async "a list that would shut this address out is warned of and refused"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=access");
    const list = form(one, "Who may use the admin API");
    await list.getByLabel("Addresses and CIDR networks").fill("10.0.0.0/8");
    await list.getByText("would lock you out").waitFor();
    await list.getByRole("button", { name: "Save" }).click();
    await list.getByRole("alert").filter({ hasText: "127.0.0.1" }).waitFor();
    await list.getByRole("button", { name: "Add 127.0.0.1" }).click();
    await save(one, "Who may use the admin API");
    assert.deepEqual((await runtime(world)).adminIpAllowlist, ["10.0.0.0/8", "127.0.0.1"]);
  },

  async "a token for clients is made up, and the system proxy is tested"(world) {
    await world.start({ CONNECTIVITY_TEST_URL: "http://127.0.0.1:1/" });
    const proxy = await sink();
    try {
      const one = await world.open();
      const sent = changes(one);
      await one.goto("/settings?tab=access");
      const clients = form(one, "Token of clients");
      await clients.getByRole("button", { name: "Generate one" }).click();
      const value = await clients.locator("pre").innerText();
      await save(one, "Token of clients");
      assert.deepEqual(sent, [{ proxyToken: value }]);
      assert.equal((await fetch(`${world.gateway.url}/v1/models`, { headers: { authorization: `Bearer ${value}` } })).status, 200);
      const way = form(one, "System proxy");
      await way.getByLabel("Address of the proxy").fill(proxy.url);
      await way.getByRole("button", { name: "Test the proxy" }).click();
      await way.getByText("The proxy works: 200").waitFor();
      assert.equal(sent.length, 1);
      await save(one, "System proxy");
      assert.equal((await runtime(world)).systemProxyUrl, proxy.url);
    } finally { proxy.close(); }
  },

  async "tasks show their log, events are read and deleted"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.goto("/settings?tab=tasks");
    await one.page.getByRole("button", { name: "Initialise account 1" }).click();
    await one.page.getByRole("cell", { name: "Queued: Initialise account 1" }).first().waitFor();
    await one.page.getByRole("button", { name: "Result" }).click();
    const { tasks: [{ result }], instances: [me] } = await world.gateway.api("GET", "/api/tasks");
    await one.page.getByRole("region", { name: "Instances on this database" }).getByRole("row").filter({ hasText: me.version }).getByText("this one").waitFor();
    assert.deepEqual(JSON.parse(await one.page.getByLabel("Result", { exact: true }).innerText()), result);
    await one.isAccessible("a task");
    await one.page.getByRole("tab", { name: "Events" }).click();
    await one.page.getByLabel("Unread only").check();
    await one.page.getByRole("button", { name: "Initialise account 1" }).first().waitFor();
    await one.isAccessible("events");
    // One that is opened can be read although it is no longer unread.
    await one.page.getByRole("button", { name: "Initialise account 1" }).first().click();
    await one.page.locator(".detail").waitFor();
    await world.gateway.eventually("it is marked as read", async () => (await world.gateway.api("GET", "/api/events")).some((event) => event.read));
    await one.settle();
    assert.equal(await one.page.locator(".detail").count(), 1);
    await one.page.getByRole("button", { name: "Mark all as read" }).click();
    await one.page.getByText("No events.").waitFor();
    assert.equal((await world.gateway.api("GET", "/api/events/count")).count, 0);
    await one.page.getByLabel("Unread only").uncheck();
    await one.page.getByLabel("Kind").selectOption("balance");
    await one.page.getByText("No events.").waitFor();
    assert.equal(new URL(one.page.url()).searchParams.get("type"), "balance");
    await one.page.getByLabel("Kind").selectOption("status");
    await one.page.getByRole("button", { name: "Initialise account 1" }).first().waitFor();
    await one.page.getByRole("button", { name: "Delete all" }).click();
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete all" }).click();
    await one.page.getByText("No events.").waitFor();
    assert.deepEqual(await world.gateway.api("GET", "/api/events"), []);
  },

  async "events, tasks and health say in Chinese what they are of"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await world.gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open({ locale: "zh-CN" });
    await one.goto("/settings?tab=events");
    await one.page.getByRole("button", { name: "任务：Initialise account 1" }).first().waitFor();
    await one.goto("/settings?tab=tasks");
    await one.page.getByRole("button", { name: "新账号：Initialise account 1" }).waitFor();
    await one.goto(`/sites?open=a${account.id}`);
    await one.page.locator(".detail").getByText("查询模型：").first().waitFor();
  },

  async "usage is cleared and keys are rotated, after a question"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    await (await world.gateway.chat("gpt-4o")).text();
    const one = await world.open();
    await one.goto("/settings?tab=maintenance");
    await one.page.getByRole("button", { name: "Clear usage" }).click();
    await one.isAccessible("a question");
    await one.page.getByRole("dialog").getByRole("button", { name: "Clear usage" }).click();
    await one.page.getByText("Done", { exact: true }).waitFor();
    assert.equal((await world.gateway.api("GET", "/api/stats/proxy-logs")).total, 0);
    for (const title of ["New seal key", "New index key", "Forget discovered models"]) {
      await one.page.getByRole("button", { name: title }).click();
      await one.page.getByRole("dialog").getByRole("button", { name: title }).click();
      const link = form(one, title).getByRole("link", { name: "A task is doing it: see its progress" });
      const id = new URL(await link.getAttribute("href"), world.gateway.url).searchParams.get("open");
      await world.gateway.eventually("the task ends", async () => (await world.gateway.api("GET", `/api/tasks/${id}`)).task.status === "succeeded");
    }
  },

  async "the update center is set up, asked, and told to deploy or to go back after a question"(world) {
    const gateway = await world.start();
    const one = await world.open();
    await one.goto("/settings?tab=updates");
    const config = form(one, "Where updates come from");
    await config.getByLabel("Repository of the image").fill("example.org/switchyard");
    await config.getByLabel("Check images").uncheck();
    const sent = changes(one);
    await config.getByRole("button", { name: "Save" }).click();
    await config.getByRole("button", { name: "Cancel" }).waitFor({ state: "hidden" });
    assert.deepEqual(sent, [{ imageRepository: "example.org/switchyard", dockerHubTagsEnabled: false }]);
    const before = await gateway.api("GET", "/api/update-center/status");
    assert.deepEqual([before.config.imageRepository, before.config.dockerHubTagsEnabled], ["example.org/switchyard", false]);
    await one.page.getByRole("button", { name: "Check now" }).click();
    await gateway.eventually("it looked again", async () => (await gateway.api("GET", "/api/update-center/status")).runtime.lastCheckedAt !== before.runtime.lastCheckedAt);
    // The answers of a cluster, and the requests to it.
    const version = { source: "github-release", rawVersion: "9.9.9", tagName: "v9.9.9", displayVersion: "v9.9.9", digest: null, url: null, publishedAt: null };
    const revision = { revision: "3", imageRepository: "<b>image</b>", imageTag: "0.1.0", status: "superseded", updatedAt: null };
    await one.page.route("**/api/update-center/status", (route) => route.fulfill({ json: { ...before, config: { ...before.config, enabled: true }, githubRelease: version,
      helper: { ...before.helper, ok: true, healthy: true, revision: "4", error: null, history: [revision] } } }));
    const asked = [];
    for (const path of ["deploy", "rollback"]) await one.page.route(`**/api/update-center/${path}`, (route) => { asked.push(route.request().postDataJSON()); return route.fulfill({ status: 202, json: { success: true, reused: false, task: null } }); });
    await one.page.reload();
    await one.page.getByText("<b>image</b>:0.1.0").waitFor();
    await one.isAccessible("the update center");
    for (const [button, name] of [["Deploy", "v9.9.9"], ["Roll back", "3 · <b>image</b>:0.1.0"]]) {
      await one.page.getByRole("button", { name: button }).click();
      const dialog = one.page.getByRole("dialog");
      await dialog.getByText(name, { exact: true }).waitFor();
      await one.isAccessible(button);
      await dialog.getByRole("button", { name: button }).click();
      await dialog.waitFor({ state: "hidden" });
    }
    assert.deepEqual(asked, [{ source: "github-release", targetTag: "v9.9.9", targetDigest: null }, { targetRevision: "3" }]);
  },

  async "everything is copied into another database, which the next start uses"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("<b>Main</b>", stub.url, "sk-one");
    const one = await world.open();
    one.expected.push("400", "Failed to load resource", "ERR_");
    await one.goto("/settings?tab=database");
    const part = form(one, "Another database");
    // A build without the driver says so; with the driver, no server answers at that address.
    await part.getByLabel("Address").fill("postgres://ann:secret@127.0.0.1:1/one");
    await part.getByRole("button", { name: "Test the connection" }).click();
    await part.getByRole("alert").waitFor();
    assert.equal((await part.innerText()).includes("secret"), false);
    await part.getByLabel("Kind").selectOption("sqlite");
    await part.getByLabel("Address").fill(`${gateway.directory}/other.db`);
    await part.getByRole("button", { name: "Test the connection" }).click();
    await part.getByText("It answers.").waitFor();
    await part.getByRole("button", { name: "Copy everything there" }).click();
    await one.page.getByRole("dialog").getByRole("button", { name: "Copy everything there" }).click();
    await part.getByRole("row").filter({ hasText: "sites" }).getByText("1", { exact: true }).waitFor();
    await part.getByRole("button", { name: "Use it from the next start on" }).click();
    await one.page.getByText("What is saved takes effect when the server restarts.").waitFor();
    await gateway.stop();
    await gateway.run();
    await one.goto("/settings?tab=database");
    await form(one, "Database").getByText("other.db").first().waitFor();
    const { active, restartRequired } = await gateway.api("GET", "/api/settings/database/runtime");
    assert.match(active.connection, /other\.db$/);
    assert.equal(restartRequired, false);
    assert.deepEqual((await gateway.api("GET", "/api/sites")).map((site) => site.name), ["<b>Main</b>"]);
  },

  async "another database is tried, filled and chosen, and its address is sent but never shown"(world) {
    await world.start();
    const one = await world.open();
    const runtime = { success: true, active: { dialect: "sqlite", connection: "(default path)", ssl: false }, saved: null, restartRequired: false, dialects: ["postgres", "mysql", "sqlite"] };
    const saved = { ...runtime, saved: { dialect: "postgres", connection: "postgres://ann:***@db/one", ssl: true }, restartRequired: true };
    const asked = [];
    await one.page.route("**/api/settings/database/*", (route) => {
      const request = route.request();
      const [, what] = /database\/(.*)$/.exec(request.url());
      if (request.method() !== "GET") asked.push([what, request.postDataJSON()]);
      return route.fulfill({ json: { runtime: request.method() === "GET" ? runtime : saved, "test-connection": { success: true, message: "fine" },
        migrate: { success: true, message: "Copied", rows: { sites: 2, proxyLogs: 1500 } } }[what] });
    });
    await one.goto("/settings?tab=database");
    await one.page.getByText("(default path)").waitFor();
    await one.page.getByLabel("Address").fill("postgres://ann:secret@db/one");
    await one.page.getByLabel("Over TLS").check();
    await one.page.getByRole("button", { name: "Test the connection" }).click();
    await one.page.getByText("It answers.").waitFor();
    await one.page.getByRole("button", { name: "Copy everything there" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByText("PostgreSQL").waitFor();
    await dialog.getByRole("button", { name: "Copy everything there" }).click();
    await one.page.getByText("1,500").waitFor();
    await one.page.getByRole("button", { name: "Use it from the next start on" }).click();
    await one.page.getByText("postgres://ann:***@db/one").waitFor();
    await one.page.getByText("What is saved takes effect when the server restarts.").waitFor();
    await one.isAccessible("another database");
    const body = { dialect: "postgres", connectionString: "postgres://ann:secret@db/one", ssl: true };
    assert.deepEqual(asked, [["test-connection", body], ["migrate", { ...body, overwrite: false }], ["runtime", body]]);
    assert.equal((await one.text()).includes("secret"), false);
  },

  async "a factory reset asks for a phrase, and ends at the sign-in"(world) {
    await world.start();
    await world.gateway.api("POST", "/api/downstream-keys", { name: "Gone", key: "sk-gone-000001" });
    const one = await world.open();
    one.expected.push("403");
    await one.goto("/settings?tab=maintenance");
    await one.page.getByRole("button", { name: "Factory reset" }).click();
    const dialog = one.page.getByRole("dialog");
    const verb = dialog.getByRole("button", { name: "Factory reset" });
    assert.equal(await verb.isDisabled(), true);
    await dialog.getByLabel("Type RESET to continue").fill("reset");
    assert.equal(await verb.isDisabled(), true);
    await dialog.getByLabel("Type RESET to continue").fill("RESET");
    await verb.click();
    await one.page.getByLabel("Admin token").waitFor();
  },

  async "the version and the licences are told, and the description of the API is saved"(world) {
    await world.start();
    const one = await world.open();
    const asked = [];
    one.page.on("request", (request) => { if (request.url().includes("openapi")) asked.push(request.url()); });
    await one.goto("/settings?tab=about");
    const { info } = await world.gateway.api("GET", "/api/openapi.json");
    assert.deepEqual(asked, []);
    await one.page.getByText(info.version, { exact: true }).waitFor();
    const named = form(one, "Third-party components");
    await named.getByText("Apache-2.0", { exact: true }).waitFor();
    const locked = readFileSync(new URL("../../../Cargo.lock", import.meta.url), "utf8");
    const crates = (await named.locator("dd").allInnerTexts()).flatMap((list) => list.split(", ")).filter((name) => !["Preact", "htm"].includes(name));
    assert.deepEqual(crates.filter((name) => !locked.includes(`name = "${name}"`)), []);
    const saved = one.page.waitForEvent("download");
    await one.page.getByRole("button", { name: "Save the description of the API (OpenAPI)" }).click();
    assert.equal((await saved).suggestedFilename(), "switchyard-openapi.json");
  },

  async "a backup is saved, tried, and imported only after it was tried"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("<i>Main</i>", stub.url, "sk-one");
    const one = await world.open();
    await one.goto("/settings?tab=backup");
    const [download] = await Promise.all([one.page.waitForEvent("download"), one.page.getByRole("button", { name: "Save a backup" }).click()]);
    assert.match(download.suggestedFilename(), /^switchyard-backup-\d{4}-\d{2}-\d{2}\.json$/);
    const file = await download.path();
    await world.gateway.api("DELETE", `/api/sites/${(await world.gateway.api("GET", "/api/sites"))[0].id}`);
    const part = form(one, "Import");
    assert.equal(await part.getByRole("button", { name: "See what it would change" }).isDisabled(), true);
    await part.getByLabel("File").setInputFiles(file);
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByText("Dry run, nothing was written").waitFor();
    await part.getByText("Row by row").click();
    await part.getByText("<i>Main</i>").first().waitFor();
    assert.equal((await world.gateway.api("GET", "/api/sites")).length, 0);
    // After a change of the options a new dry run is needed.
    await part.getByLabel("If both have it").selectOption("skip");
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByRole("button", { name: "Import", exact: true }).click();
    await part.getByText("Import finished").waitFor();
    assert.deepEqual((await world.gateway.api("GET", "/api/sites")).map((site) => site.name), ["<i>Main</i>"]);
    // An editor may have put a byte order mark before it.
    await part.getByLabel("File").setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.concat([Buffer.from("\ufeff"), readFileSync(file)]) });
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByText("Dry run, nothing was written").waitFor();
  },

  async "a backup is sealed with a passphrase in any script, and opens with it alone"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main", stub.url, "sk-one");
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=backup");
    await form(one, "Export").getByLabel("Passphrase").fill("pässwort 口令");
    await form(one, "Export").getByText("The file can be opened only with it.").waitFor();
    const [download] = await Promise.all([one.page.waitForEvent("download"), one.page.getByRole("button", { name: "Save a backup" }).click()]);
    assert.match(download.suggestedFilename(), /\.json\.sealed$/);
    const file = await download.path();
    assert.equal(readFileSync(file, "latin1").includes("sk-one"), false);
    await world.gateway.api("DELETE", `/api/sites/${(await world.gateway.api("GET", "/api/sites"))[0].id}`);
    const part = form(one, "Import");
    assert.equal(await part.getByLabel("Passphrase").count(), 0);
    await part.getByLabel("File").setInputFiles(file);
    await part.getByLabel("Passphrase").fill("another one");
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByRole("alert").waitFor();
    await part.getByLabel("Passphrase").fill("pässwort 口令");
    await one.isAccessible("a sealed backup");
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByRole("button", { name: "Import", exact: true }).click();
    await part.getByText("Import finished").waitFor();
    assert.deepEqual((await world.gateway.api("GET", "/api/sites")).map((site) => site.name), ["Main"]);
  },

  async "a file of another gateway in YAML is tried and imported"(world) {
    await world.start();
    const one = await world.open();
    await one.goto("/settings?tab=backup");
    const part = form(one, "Import");
    const text = "model_list:\n  - model_name: gpt-4o\n    litellm_params:\n      model: openai/gpt-4o\n      api_base: http://127.0.0.1:9/v1\n      api_key: sk-of-litellm\n";
    await part.getByLabel("File").setInputFiles({ name: "config.yaml", mimeType: "application/yaml", buffer: Buffer.from(text) });
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByRole("button", { name: "Import", exact: true }).click();
    await part.getByText("Import finished").waitFor();
    assert.deepEqual((await world.gateway.api("GET", "/api/sites")).map((site) => site.url), ["http://127.0.0.1:9"]);
  },

  async "a file that is no backup is refused in words and changes nothing"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("400");
    await one.goto("/settings?tab=backup");
    const part = form(one, "Import");
    await part.getByLabel("File").setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from('{"a":') });
    await part.getByRole("button", { name: "See what it would change" }).click();
    await part.getByRole("alert").waitFor();
    assert.equal(await part.getByRole("button", { name: "Import", exact: true }).count(), 0);
  },

  async "a backup goes to a WebDAV server and comes back, after a question"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main", stub.url, "sk-one");
    let held = null;
    const server = http.createServer((request, response) => {
      const parts = [];
      request.on("data", (part) => parts.push(part)).on("end", () => {
        if (request.method === "PUT") held = Buffer.concat(parts);
        if (request.method === "GET" && !held) response.statusCode = 404;
        response.end(request.method === "GET" ? held : undefined);
      });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const one = await world.open();
      await one.goto("/settings?tab=backup");
      const part = form(one, "WebDAV");
      await part.getByText("Not used yet.").waitFor();
      await part.getByLabel("Use it").check();
      await part.getByLabel("Address of the file").fill(`http://127.0.0.1:${server.address().port}/switchyard.json`);
      await part.getByLabel("Password").fill("a password");
      await part.getByRole("button", { name: "Save" }).click();
      await part.getByRole("button", { name: "Export now" }).click();
      await part.getByText("Last export or import").waitFor();
      // While the section cannot be read, it cannot be saved.
      one.expected.push("500");
      await one.page.route("**/backup/webdav", (route) => route.fulfill({ status: 500, json: { message: "The shelf is away" } }));
      await one.look(true);
      await one.look(false);
      await part.getByText("The shelf is away").first().waitFor();
      await part.getByLabel("Schedule", { exact: true }).fill("0 5 * * *");
      assert.equal(await part.getByRole("button", { name: "Save" }).isDisabled(), true);
      await one.page.unroute("**/backup/webdav");
      await part.getByRole("button", { name: "Try again" }).first().click();
      await part.getByRole("button", { name: "Save" }).click();
      await part.getByText("Saved", { exact: true }).waitFor();
      assert.equal(JSON.parse(held).accounts.sites[0].name, "Main");
      assert.equal(await part.getByLabel("Password").inputValue(), "");
      await world.gateway.api("DELETE", `/api/sites/${(await world.gateway.api("GET", "/api/sites"))[0].id}`);
      await part.getByRole("button", { name: "Import now" }).click();
      await one.page.getByRole("dialog").getByRole("button", { name: "Import now" }).click();
      await part.getByText("Import finished").waitFor();
      assert.deepEqual((await world.gateway.api("GET", "/api/sites")).map((site) => site.name), ["Main"]);
      await part.getByRole("button", { name: "Remove" }).click();
      await part.getByRole("button", { name: "Save" }).click();
      await world.gateway.eventually("the password is gone", async () => !(await world.gateway.api("GET", "/api/settings/backup/webdav")).config.hasPassword);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  },
};
