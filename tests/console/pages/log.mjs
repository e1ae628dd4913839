// The log: rows, filters, the details of a row, sums.

import assert from "node:assert/strict";

const HOSTILE = `<img src=x onerror=alert(1)>\u202Eevil ${"x".repeat(150)}`;

async function start(world) {
  const gateway = await world.start();
  const [good, broken] = [await world.site({ models: ["gpt-4o", "o4-mini"] }), await world.site({ models: ["lost"], fails: true })];
  await gateway.addSite("Main line", good.url, "sk-one");
  await gateway.addSite("Branch line", broken.url, "sk-two");
  for (const model of ["gpt-4o", "o4-mini", "lost"]) await (await gateway.chat(model)).text();
  return { gateway, good };
}
const rows = (one) => one.page.locator(".list .row:not(.head)");

export default {
  async "requests are filtered by status, name and site, and the filter is in the address"(world) {
    await start(world);
    const one = await world.open();
    await one.goto("/log");
    await one.page.getByText("3 attempts, 1 failed").waitFor();
    await one.page.getByLabel("Status").selectOption("failed");
    await one.page.getByText("lost", { exact: true }).waitFor();
    await rows(one).nth(1).waitFor({ state: "hidden" });
    await one.page.getByRole("button", { name: "No filter" }).click();
    await one.page.getByLabel("Search").fill("MINI");
    await rows(one).nth(1).waitFor({ state: "hidden" });
    await one.page.getByText("o4-mini", { exact: true }).waitFor();
    assert.equal(new URL(one.page.url()).searchParams.get("search"), "MINI");
    // Rows of the former filter are marked until the answer comes.
    let answer;
    await one.page.route("**/api/stats/proxy-logs?*search=4o*", (route) => { answer ??= () => route.continue(); });
    await one.page.getByLabel("Search").fill("4o");
    await one.page.locator("[aria-busy='true'] > .list").waitFor();
    answer();
    await one.page.unroute("**/api/stats/proxy-logs?*search=4o*");
    await one.page.getByLabel("Search").fill("MINI");
    await one.settle();
    await one.page.getByLabel("Site").selectOption({ label: "Branch line" });
    await one.page.getByText("Nothing matches the filter.").waitFor();
    await one.isAccessible("a filtered log");
  },

  async "a live log shows what comes although each answer is slower than the news"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    let answered = 0;
    await one.page.route("**/api/stats/proxy-logs?*", async (route) => {
      const response = await route.fetch();
      await new Promise((resolve) => setTimeout(resolve, 700));
      answered += 1;
      await route.fulfill({ response });
    });
    await one.goto("/log?live=1");
    await rows(one).first().waitFor();
    const before = await rows(one).count();
    const isOver = { value: false };
    const traffic = (async () => { while (!isOver.value) await (await gateway.chat("gpt-4o")).text(); })();
    await one.page.waitForFunction((many) => document.querySelectorAll(".list .row").length > many, before);
    isOver.value = true;
    await traffic;
    assert.ok(answered > 1);
  },

  async "a row opens into its attempts, its reason, its tokens and its cost"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/log");
    await rows(one).first().click();
    await one.page.getByText("The engine is out of steam").first().waitFor();
    await one.page.getByRole("region", { name: "Attempts" }).getByText("Failed 500").first().waitFor();
    await one.isAccessible("an opened failure");
    const { items } = await gateway.api("GET", "/api/stats/proxy-logs");
    const { requestId, decisionReason } = items[0];
    await one.page.getByText(requestId).waitFor();
    await one.page.getByText(decisionReason).waitFor();
    await one.page.route("**/api/stats/proxy-logs/1", async (route) => {
      const answer = await (await route.fetch()).json();
      const usage = { promptTokens: 120, completionTokens: 12, totalTokens: 132, cacheReadTokens: 100, cacheCreationTokens: 0, billablePromptTokens: 20 };
      const breakdown = { inputPerMillion: 2.5, outputPerMillion: 10, cacheReadPerMillion: 1.25, cacheCreationPerMillion: 0, inputCost: 0.00005, outputCost: 0.00012, cacheReadCost: 0.000125, cacheCreationCost: 0, totalCost: 0.000295 };
      await route.fulfill({ json: { ...answer, billingDetails: { usage, breakdown, pricing: {} } } });
    });
    await rows(one).last().click();
    await one.page.getByRole("region", { name: "Cost" }).getByText("$0.000295").waitFor();
    await one.page.getByRole("region", { name: "Cost" }).getByText("$1.25").waitFor();
    await one.isAccessible("an opened cost");
  },

  async "a recorded trace is shown with what was sent and came back"(world) {
    const { gateway } = await start(world);
    await gateway.api("PUT", "/api/settings/runtime", { proxyDebugTraceEnabled: true, proxyDebugCaptureBodies: true });
    await (await gateway.chat("gpt-4o")).text();
    const one = await world.open();
    await one.goto("/log");
    await rows(one).first().click();
    await one.page.getByRole("button", { name: "Trace" }).click();
    await one.page.getByText("Attempt 1").waitFor();
    await one.page.getByLabel("requestBodyJson").first().getByText("Which way?").waitFor();
    const { trace, attempts: [attempt] } = await gateway.api("GET", "/api/stats/proxy-debug/traces/1");
    for (const [name, value] of [["selectedChannelId", trace.selectedChannelId], ["selectedSitePlatform", "openai"], ["endpoint", attempt.endpoint], ["recoverApplied", attempt.recoverApplied]]) {
      assert.equal(await one.page.locator("dt").filter({ hasText: new RegExp(`^${name}$`) }).locator("+ dd").first().innerText(), String(value));
    }
    await one.isAccessible("a trace");
    await rows(one).last().click();
    await one.page.getByRole("button", { name: "Trace" }).click();
    await one.page.getByText("No trace was recorded").waitFor();
  },

  async "recorded traces are listed, and each opens"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/log?tab=traces");
    await one.page.getByRole("link", { name: "No trace was recorded" }).waitFor();
    await one.isAccessible("no traces");
    await gateway.api("PUT", "/api/settings/runtime", { proxyDebugTraceEnabled: true, proxyDebugCaptureBodies: true });
    for (const model of ["lost", "gpt-4o"]) await (await gateway.chat(model)).text();
    await one.goto("/log");
    await rows(one).first().click();
    await one.page.getByRole("tab", { name: "Traces" }).click();
    assert.equal(new URL(one.page.url()).search, "?tab=traces");
    await rows(one).nth(1).getByText("lost").waitFor();
    await rows(one).nth(1).getByText("503").waitFor();
    await rows(one).first().getByText("gpt-4o").click();
    await one.page.getByText("Attempt 1").waitFor();
    await one.page.getByLabel("requestBodyJson").first().getByText("Which way?").waitFor();
    await one.isAccessible("a trace of the list");
    const phone = await world.open({ locale: "zh-CN", width: 375 });
    await phone.goto("/log?tab=traces");
    await rows(phone).nth(1).waitFor();
    await phone.isAccessible("traces on a phone");
  },

  async "a live log shows what comes, marks it, and rests while a row is open"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/log?live=1");
    await one.page.getByText("3 attempts").waitFor();
    await (await gateway.chat("gpt-4o")).text();
    await one.page.getByText("new", { exact: true }).waitFor();
    assert.equal(await rows(one).count(), 4);
    await rows(one).first().click();
    await one.page.getByText("paused while a row is open").waitFor();
  },

  async "a live log asks for rows when something came, and now and then where it cannot hear of that"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    let asked = 0;
    one.page.on("request", (request) => { if (request.url().includes("view=query")) asked += 1; });
    await one.goto("/log?live=1");
    await one.page.getByText("3 attempts").waitFor();
    await one.page.waitForTimeout(1500);
    const before = asked;
    await one.page.waitForTimeout(4500);
    assert.equal(asked, before, "nothing came, so nothing is asked for");
    await (await gateway.chat("gpt-4o")).text();
    await one.page.getByText("new", { exact: true }).waitFor();
    one.expected.push("503");
    await one.page.route("**/api/stats/live", (route) => route.fulfill({ status: 503, json: { message: "not now" } }));
    await one.goto("/log?live=1");
    await one.page.getByText("4 attempts").waitFor();
    await (await gateway.chat("gpt-4o")).text();
    await one.page.getByText("new", { exact: true }).waitFor();
  },

  async "the log is turned page by page, and cleared once the word is typed"(world) {
    const { gateway } = await start(world);
    for (let turn = 0; turn < 50; turn++) await (await gateway.chat("gpt-4o")).text();
    const one = await world.open();
    await one.goto("/log");
    await one.page.getByText("Page 1 of 2").waitFor();
    await one.page.getByRole("button", { name: "Older" }).click();
    await one.page.getByText("Page 2 of 2").waitFor();
    await one.page.getByText("lost", { exact: true }).waitFor();
    assert.equal(new URL(one.page.url()).searchParams.get("page"), "2");
    await one.page.goBack();
    await one.page.getByText("Page 1 of 2").waitFor();
    // From a page beyond the end the buttons lead back.
    await one.goto("/log?page=99");
    await one.page.getByText("The list ends before this page.").waitFor();
    await one.page.getByRole("button", { name: "Newer" }).click();
    await one.page.getByText("Page 2 of 2").waitFor();
    await one.page.getByText("lost", { exact: true }).waitFor();
    await one.goto("/log?page=7&status=failed");
    await one.page.getByRole("button", { name: "Newer" }).click();
    await one.page.getByText("lost", { exact: true }).waitFor();
    await one.goto("/log");
    await one.page.getByRole("button", { name: "Clear the log" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Type clear to continue").fill("clear");
    await one.isAccessible("the question whether the log goes");
    await dialog.getByRole("button", { name: "Clear the log" }).click();
    await one.page.getByText("No requests yet.").waitFor();
    assert.equal((await gateway.api("GET", "/api/stats/proxy-logs")).total, 0);
  },

  async "costs and counts are shown by day, site, model and key, and day by day of each"(world) {
    const { gateway } = await start(world);
    await gateway.api("POST", "/api/downstream-keys", { name: "Family", key: "sk-family-1234567890" });
    for (let turn = 0; turn < 2; turn++) await (await gateway.chat("gpt-4o", {}, "sk-family-1234567890")).text();
    const one = await world.open();
    await one.goto("/log");
    await one.page.getByRole("tab", { name: "Costs and counts" }).click();
    const by = (name) => one.page.getByRole("region", { name });
    await by("By site").getByText("Main line").waitFor();
    await by("By model").getByText("o4-mini").waitFor();
    await one.page.getByLabel("Show").selectOption("calls");
    await by("By site").getByLabel("Main line: 4").first().waitFor();
    for (const [name, row, cached] of [["By site", "Main line", "400"], ["By model", "o4-mini", "100"], ["By key", "Family", "200"]]) {
      assert.equal(await by(name).locator("tr").filter({ hasText: row }).locator("td").nth(3).innerText(), cached);
    }
    await one.page.getByLabel("Site", { exact: true }).selectOption({ label: "Main line" });
    await by("By model").getByText("lost").waitFor({ state: "hidden" });
    await one.isAccessible("sums");
    await one.page.getByLabel("Site", { exact: true }).selectOption("");
    await one.page.getByText("5 in total").waitFor();
    await by("By model").getByRole("link", { name: "o4-mini: 1" }).click();
    await one.page.getByText("1 in total").waitFor();
    assert.equal(await one.page.getByLabel("Model", { exact: true }).inputValue(), "o4-mini");
    await by("By site").getByLabel("Main line: 1").first().waitFor();
    assert.equal(await by("By model").getByText("gpt-4o").count() + await by("By key").count(), 0, "what the filter leaves out");
    await one.page.getByLabel("Key", { exact: true }).selectOption({ label: "Family" });
    await one.page.getByText("2 in total").waitFor();
    assert.equal(await one.page.getByLabel("Model", { exact: true }).inputValue(), "");
    await one.goto("/log?tab=sums&what=calls&key=1&days=some");
    await one.page.getByText("2 in total").waitFor();
    await one.page.getByLabel("Key", { exact: true }).selectOption("");
    await by("By site").getByRole("link", { name: "Main line", exact: true }).click();
    await one.page.getByText("4 attempts, 0 failed").waitFor();
  },

  async "sums that are cut say how many there are"(world) {
    await start(world);
    const one = await world.open();
    await one.page.route("**/api/stats/model-by-site?*", (route) => route.fulfill({ json: { models: Array.from({ length: 60 }, (_, at) => ({ model: `model-${at}`, calls: 1, spend: 60 - at, tokens: 1, cacheReadTokens: 0 })) } }));
    await one.goto("/log?tab=sums");
    await one.page.locator("section").filter({ hasText: "By model" }).getByText("10 more").waitFor();
  },

  async "hostile names are text, on a phone and in Chinese; a failed read is told"(world) {
    const { gateway } = await start(world);
    await gateway.api("PUT", "/api/sites/1", { name: HOSTILE.slice(0, 100) });
    await gateway.chat(HOSTILE).then((answer) => answer.text());
    for (const options of [{ width: 375, dark: true }, { locale: "zh-CN" }]) {
      const one = await world.open(options);
      one.expected.push("500");
      for (const path of ["/log?open=1", "/log?tab=sums"]) {
        await one.goto(path);
        await one.page.getByText("<img src=x onerror=alert(1)>").first().waitFor({ state: "attached" });
        assert.equal(await one.page.locator("main img").count(), 0);
        await one.isAccessible(`${path} with hostile names`);
      }
      await one.page.route("**/api/stats/model-by-site*", (route) => route.fulfill({ status: 500, json: { message: "the store is away" } }));
      await one.page.reload();
      await one.page.getByText("the store is away").waitFor();
    }
  },

  async "the last day of a chart is today where the server is"(world) {
    // From Kiribati to Hawaii it is always a day back.
    const gateway = await world.start({ TZ: "Pacific/Honolulu" });
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await (await gateway.chat("gpt-4o")).text();
    const one = await world.open({ timezoneId: "Pacific/Kiritimati" });
    await one.goto("/log?tab=sums&days=1&what=calls");
    await one.page.getByText("1 in total").waitFor();
  },
};
