// The page Overview: the first steps, the figures, what needs attention.

import assert from "node:assert/strict";

const HOSTILE = `<img src=x onerror=alert(1)>\u202Eevil ${"long ".repeat(90)}`;

export default {
  async "the first steps tick themselves off and give way to figures when somebody was answered"(world) {
    const gateway = await world.start();
    const one = await world.open();
    await one.goto("/");
    await one.page.getByText("Four steps to the first answer").waitFor();
    await one.isAccessible("the first steps");
    const stub = await world.site({ models: ["gpt-4o"] });
    const before = await one.page.locator(".steps .done").count();
    await gateway.addSite("Main line", stub.url, "sk-one");
    await gateway.api("POST", "/api/downstream-keys", { name: "Family", key: "sk-family-1234567890" });
    await one.goto("/");
    await one.page.waitForFunction(() => document.querySelectorAll(".steps .done").length === 3);
    assert.ok(before < 3);
    assert.equal((await gateway.chat("gpt-4o")).status, 200);
    await gateway.eventually("the answer is in the log", async () => (await gateway.api("GET", "/api/stats/proxy-logs?status=success")).items.length);
    await gateway.api("GET", "/api/stats/dashboard?refresh=1");
    await one.goto("/");
    await one.page.getByText("Spent today").waitFor();
    assert.equal(await one.page.getByText("Four steps").count(), 0);
    await one.page.getByRole("rowheader", { name: "Main line" }).waitFor();
    // The first steps stay away after the log is cleared, also in a browser that never showed them.
    await gateway.api("DELETE", "/api/stats/proxy-logs");
    const other = await world.open();
    await other.goto("/");
    await other.page.getByText("Spent today").waitFor();
    assert.equal(await other.page.getByText("Four steps").count(), 0);
  },

  async "an import that was only tried is no trouble"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await gateway.api("POST", "/api/settings/backup/import?dryRun=1", { data: { format: "nobody knows" } }).then(() => assert.fail("it is no backup"), () => {});
    const { tasks } = await gateway.api("GET", "/api/tasks");
    assert.ok(tasks.some(({ status }) => status === "failed"));
    await one.goto("/");
    await one.page.getByText("All is well.").waitFor();
  },

  async "what is wrong stands in the red list with its remedy beside it"(world) {
    const gateway = await world.start();
    const broken = await world.site({ models: ["gpt-4o"], fails: true });
    const good = await world.site({ models: ["gpt-4o", "gpt-4o-mini"] });
    const { account: cooling } = await gateway.addSite("Branch line", broken.url, "sk-two");
    const { account: expired } = await gateway.addSite(HOSTILE, good.url, "sk-one");
    await gateway.eventually("the broken one cools", async () => {
      await (await gateway.chat("gpt-4o")).text();
      return (await gateway.api("GET", "/api/routes")).some((route) => route.channels.some((channel) => channel.accountId === cooling.id && channel.cooldownUntil));
    });
    await gateway.api("PUT", `/api/accounts/${expired.id}`, { status: "expired" });
    const one = await world.open();
    await one.goto("/");
    const row = one.page.locator("li.trouble").filter({ hasText: "Branch line" }).filter({ hasText: "cooling" });
    await row.waitFor();
    const other = one.page.locator("li.trouble").filter({ hasText: "onerror" }).first();
    await other.getByText("expired", { exact: true }).waitFor();
    assert.equal(await one.page.locator("img").count(), 0);
    await one.isAccessible("the red list");
    await row.getByRole("button", { name: "End cooling" }).click();
    await row.waitFor({ state: "detached" });
    const channels = (await gateway.api("GET", "/api/routes")).flatMap((route) => route.channels);
    assert.ok(channels.every((channel) => channel.accountId !== cooling.id || channel.cooldownUntil === null));
    await other.getByRole("link", { name: "Open" }).click();
    await one.page.getByRole("tab", { name: "Settings" }).waitFor();
    const phone = await world.open({ width: 375, locale: "zh-CN", dark: true });
    await phone.goto("/");
    await phone.page.getByText("需要处理").waitFor();
    await phone.isAccessible("the red list on a phone");
  },

  async "a failed probe of all models asks before it is started again, as it does elsewhere"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const now = new Date().toISOString();
    await one.page.route("**/api/tasks?*", (route) => route.fulfill({ json: { tasks: [{ id: "t1", type: "model-probe", dedupeKey: "model-availability-probe-all", title: "Probe", status: "failed",
      message: "", error: "The network is away", createdAt: now, startedAt: now, finishedAt: now, logs: [] }], instances: [] } }));
    let probed = 0;
    await one.page.route("**/api/models/probe", (route) => { probed += 1; return route.fulfill({ status: 409, json: { message: "One runs" } }); });
    one.expected.push("409");
    await one.goto("/");
    const again = one.page.locator(".trouble").filter({ hasText: "The network is away" }).getByRole("button", { name: "Start again" });
    one.answer = false;
    await again.click();
    assert.deepEqual([one.asked, probed], [["Probe all models of 1 account?"], 0]);
    one.answer = true;
    await again.click();
    await one.page.getByText("One runs").waitFor();
    assert.equal(probed, 1);
  },

  async "the figures tell what is used, which accounts are on, and how check-ins went"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await (await gateway.chat("gpt-4o")).text();
    await gateway.eventually("the answer is counted", async () => (await gateway.api("GET", "/api/stats/dashboard?refresh=1")).proxy24h.success);
    const one = await world.open();
    await one.page.route("**/api/stats/dashboard", async (route) => {
      const told = await (await route.fetch()).json();
      return route.fulfill({ json: { ...told, totalUsed: 12.5, todayReward: 0.25, todayCheckin: { success: 1, failed: 1, total: 2 } } });
    });
    await one.goto("/");
    for (const [label, words] of [["Balance", /\$12\.50 used in all/], ["Tokens", /132/], ["Accounts in use", /1 \/ 1/], ["In flight", /\d/], ["Check-ins", /1 \/ 2\s+\$0\.25 gained today/], ["Attempts a minute", /\d+ tokens/]]) {
      assert.match(await one.page.locator(".figure").filter({ hasText: new RegExp(`^${label}`) }).innerText(), words);
    }
    await one.isAccessible("the figures");
  },

  async "amounts are drawn where the system imposes its colours, too"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await (await gateway.chat("gpt-4o")).text();
    await gateway.eventually("the answer is counted", async () => (await gateway.api("GET", "/api/stats/dashboard?refresh=1")).siteAvailability[0]?.totalRequests);
    const one = await world.open();
    await one.page.emulateMedia({ forcedColors: "active" });
    await one.goto("/");
    const [hour, page] = await one.page.locator(".strip i.good").first().evaluate((cell) => [cell, document.body].map((place) => getComputedStyle(place).backgroundColor));
    assert.notEqual(hour, page);
    assert.ok(await one.page.locator(".strip").first().evaluate((strip) => strip.getBoundingClientRect().right <= strip.parentElement.getBoundingClientRect().right), "the last hour is whole");
  },

  async "a full disk is in the red list"(world) {
    await world.start();
    const one = await world.open();
    await one.page.route("**/api/desktop/health", (route) => route.fulfill({ json: { ok: true, storage: "full", message: "The disk is full: free some space" } }));
    await one.goto("/");
    await one.page.locator("li.trouble").filter({ hasText: "Changes cannot be saved" }).getByText("The disk is full: free some space").waitFor();
  },

  async "events are marked as read one by one and all together"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const { count } = await gateway.api("GET", "/api/events/count");
    assert.ok(count > 1);
    const one = await world.open();
    await one.goto("/");
    const section = one.page.locator("section").filter({ hasText: "Unread events" });
    await section.getByRole("button", { name: "Mark as read" }).first().click();
    await gateway.eventually("one event less is unread", async () => (await gateway.api("GET", "/api/events/count")).count === count - 1);
    await section.getByRole("button", { name: "Mark all as read" }).click();
    await section.getByText("Nothing is unread.").waitFor();
    assert.equal((await gateway.api("GET", "/api/events/count")).count, 0);
  },

  async "a section that cannot be read says so and leaves the others"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await (await gateway.chat("gpt-4o")).text();
    await gateway.eventually("the answer is in the log", async () => (await gateway.api("GET", "/api/stats/proxy-logs?status=success")).items.length);
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/api/stats/dashboard**", (route) => route.fulfill({ status: 500, json: { success: false, message: "The disk is away" } }));
    await one.goto("/");
    await one.page.getByText("The disk is away").first().waitFor();
    await one.page.getByText("All is well.").waitFor();
    await one.page.unroute("**/api/stats/dashboard**");
    await one.page.getByRole("button", { name: "Try again" }).first().click();
    await one.page.getByText("Spent today").waitFor();
    // Failures are also shown for the reads of whether a request was answered, if none was today, and of the lowest balance.
    await one.page.route("**/api/stats/dashboard", async (route) => {
      const told = await (await route.fetch()).json();
      return route.fulfill({ json: { ...told, proxy24h: { ...told.proxy24h, success: 0 } } });
    });
    for (const [path, words] of [["**/api/stats/proxy-logs?*", "All is well."], ["**/api/settings/runtime", "Spent today"]]) {
      await one.page.route(path, (route) => route.fulfill({ status: 500, json: { success: false, message: "The index is away" } }));
      await one.goto("/");
      await one.page.getByText("The index is away").first().waitFor();
      await one.page.getByText(words).waitFor();
      assert.equal(await one.page.getByText("All is well.").count(), path.includes("settings") ? 0 : 1);
      await one.page.unroute(path);
    }
  },

  async "what fills no section of its own says where it was not read"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await (await gateway.chat("gpt-4o")).text();
    await gateway.eventually("the answer is in the log", async () => (await gateway.api("GET", "/api/stats/proxy-logs?status=success")).items.length);
    const one = await world.open();
    one.expected.push("500");
    for (const [path, page, within] of [
      ["**/api/events/count", "/", "nav"], ["**/api/stats/site-trend?*", "/", ".figures"],
    ]) {
      await one.page.route(path, (route) => route.fulfill({ status: 500, json: { success: false, message: "The shelf is away" } }));
      await one.goto(page);
      const mark = one.page.locator(within).getByText("not read", { exact: true });
      await mark.waitFor();
      assert.match(await mark.getAttribute("title"), /The shelf is away/);
      await one.page.unroute(path);
    }
    // A failed read that fills the choices of a field, or adds to a section, is shown there.
    for (const [path, page, within] of [
      ["**/api/routes/lite", "/playground", ".field"], ["**/api/routes/lite", "/keys?connect=1", ".field"], ["**/api/sites/presets", "/sites?add=site", "dialog .field"],
      ["**/api/settings/brand-list", "/settings?tab=models", "fieldset"], ["**/decision/by-route/batch", "/routes?open=1", ".detail"],
    ]) {
      await one.page.route(path, (route) => route.fulfill({ status: 500, json: { success: false, message: "The shelf is away" } }));
      await one.goto(page);
      const told = one.page.locator(within).getByRole("alert").filter({ hasText: "The shelf is away" });
      await told.first().waitFor();
      await one.page.unroute(path);
      await told.first().getByRole("button", { name: "Try again" }).click();
      await told.first().waitFor({ state: "detached" });
    }
  },

  async "the first steps say when what they tick off by cannot be read"(world) {
    await world.start();
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/api/downstream-keys", (route) => route.fulfill({ status: 500, json: { success: false, message: "The shelf is away" } }));
    await one.goto("/");
    await one.page.locator("section").filter({ hasText: "Four steps" }).getByText("The shelf is away").waitFor();
  },

  async "a channel that cools is in the red list however many models there are"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: Array.from({ length: 2050 }, (_, index) => `model-${index}`), fails: true });
    await gateway.addSite("Long line", stub.url, "sk-one");
    const [last] = await gateway.api("GET", "/api/routes?limit=1&offset=2049");
    await gateway.eventually("the last model's channel cools", async () => {
      await (await gateway.chat(last.modelPattern)).text();
      return (await gateway.api("GET", `/api/routes/${last.id}/channels`))[0].cooldownUntil;
    });
    const one = await world.open();
    await one.goto("/");
    await one.page.locator("li.trouble").filter({ hasText: "cooling" }).getByText(last.modelPattern, { exact: true }).waitFor();
  },

  async "what was never read has no time of its last reading"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await gateway.addSite("Main line", stub.url, "sk-one");
    await gateway.api("PUT", `/api/accounts/${account.id}`, { status: "expired" });
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/api/tasks?*", (route) => route.fulfill({ status: 500, json: { message: "The shelf is away" } }));
    await one.goto("/");
    const section = one.page.locator("section").filter({ hasText: "Needs attention" });
    await section.getByText("The shelf is away").waitFor();
    await section.getByText("expired", { exact: true }).waitFor();
    assert.equal(await section.getByText("Last read").count(), 0);
  },

  async "a read that does not end holds up no other section"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.page.route("**/api/stats/proxy-logs?*", () => {});
    await one.page.goto(`${gateway.url}/`);
    await one.page.getByText("All is well.").waitFor();
    await one.page.locator("section").filter({ hasText: "Unread events" }).getByRole("button", { name: "Mark all as read" }).waitFor();
    // Once the figures tell of an answer, they are shown.
    await (await gateway.chat("gpt-4o")).text();
    await gateway.eventually("the answer is counted", async () => (await gateway.api("GET", "/api/stats/dashboard?refresh=1")).proxy24h.success);
    await one.page.goto(`${gateway.url}/`);
    const balance = one.page.locator(".figure").filter({ hasText: "Balance" });
    await balance.waitFor();
    assert.match(await balance.innerText(), /–/, "a balance that was never read");
  },
};
