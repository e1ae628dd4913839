// Long lists: scrolling and filtering never hold up the page.

import assert from "node:assert/strict";

// Scrolls a list from end to end and types a filter. Each step is measured in processor time, all of its tasks together, so
// that other work on the machine does not count.
async function isSteady(one, label, text, filter = "q") {
  const debug = await one.context.newCDPSession(one.page);
  await debug.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await debug.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  const steps = [];
  const step = async (act) => {
    const before = await spent();
    await act();
    await one.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    steps.push(Math.round(await spent() - before));
  };
  for (let turn = 0; turn < 15; turn++) await step(() => one.page.mouse.wheel(0, 20_000));
  await one.page.evaluate(() => scrollTo(0, 0));
  await one.page.getByLabel(label, { exact: true }).focus();
  for (const letter of text) await step(() => one.page.keyboard.type(letter));
  assert.equal(new URL(one.page.url()).searchParams.get(filter), text);
  assert.equal(steps.filter((took) => took > 100).length, 0, `steps of ${steps} ms`);
}

export default {
  async "a list that is cut says so"(world) {
    await world.start();
    const one = await world.open();
    const event = (id) => ({ id, type: "status", title: `Event ${id}`, message: "", level: "info", read: true, relatedType: null, createdAt: new Date().toISOString() });
    await one.page.route("**/api/events?*", (route) => route.fulfill({ json: Array.from({ length: 500 }, (_, at) => event(500 - at)) }));
    await one.goto("/settings?tab=events");
    await one.page.getByText("Only the newest 500 are shown.").waitFor();
  },

  async "no cell of a list is cut on a small tablet"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o", "gpt-4o-mini"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await gateway.api("POST", "/api/downstream-keys", { name: "Family", key: "sk-family-1234567890", groupName: "private", maxCost: "5" });
    for (const model of ["gpt-4o", "gpt-4o-mini"]) await (await gateway.chat(model)).text();
    for (const locale of ["en", "zh-CN"]) {
      const one = await world.open({ width: 768, locale });
      for (const path of ["/sites", "/routes", "/log", "/keys", "/settings?tab=tasks"]) {
        await one.goto(path);
        await one.page.locator(".list").waitFor();
        const cut = await one.page.locator(".list .row > div").evaluateAll((cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText));
        assert.deepEqual(cut, [], path);
      }
    }
  },

  async "ten thousand routes scroll and filter without holding up the page"(world) {
    await world.start();
    const one = await world.open();
    const routes = Array.from({ length: 10_000 }, (_, index) => ({ id: index + 1, modelPattern: `vendor-${index % 7}/model-${index}`, displayName: null, displayIcon: null, routeMode: "pattern",
      sourceRouteIds: [], routingStrategy: "weighted", enabled: true, modelMapping: null, decisionSnapshot: null, decisionRefreshedAt: null, channelCount: 3, enabledChannelCount: 3, siteNames: ["Main line", "Branch line"] }));
    await one.page.route("**/api/routes/summary", (route) => route.fulfill({ json: routes }));
    await one.goto("/routes");
    await one.page.getByText("vendor-0/model-0", { exact: true }).waitFor();
    await isSteady(one, "Search", "model-99");
    await one.page.getByText("vendor-0/model-994", { exact: true }).waitFor();
    // A row that the address opens is in view, with the focus. The server has no such route, hence the 404.
    one.expected.push("404");
    await one.goto("/routes?open=7001");
    await one.page.waitForFunction(() => document.activeElement.closest(".row.open"));
    const opener = one.page.locator(".row.open .opener");
    await opener.getByText("vendor-0/model-7000").waitFor();
    const { y } = await opener.boundingBox();
    assert.ok(y > 0 && y < 800, `at ${y}`);
  },

  async "a hundred thousand rows of the log are turned, scrolled and filtered without holding up the page"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await gateway.chat("gpt-4o").then((answer) => answer.text());
    const [row] = await gateway.eventually("the request is logged", async () => {
      const { items } = await gateway.api("GET", "/api/stats/proxy-logs?view=query&limit=1");
      return items.length && items;
    });
    const one = await world.open();
    await one.page.route("**/api/stats/proxy-logs?*", async (route) => {
      const { searchParams } = new URL(route.request().url());
      if (searchParams.get("view") !== "query") return route.fallback();
      const [limit, offset] = ["limit", "offset"].map((name) => Number(searchParams.get(name)));
      const items = Array.from({ length: limit }, (_, index) => ({ ...row, id: 100_000 - offset - index, modelRequested: `${searchParams.get("search") ?? "model"}-${offset + index}` }));
      return route.fulfill({ json: { items, total: 100_000, page: 1, pageSize: limit } });
    });
    await one.goto("/log");
    await one.page.getByText("model-0", { exact: true }).waitFor();
    await one.page.getByText("Page 1 of 2,000").or(one.page.getByText("Page 1 of 2000")).waitFor();
    await one.page.getByRole("button", { name: "Older" }).click();
    await one.page.getByText("model-50", { exact: true }).waitFor();
    await isSteady(one, "Search", "gpt-4o", "search");
    await one.page.getByText("gpt-4o-0", { exact: true }).waitFor();
    await one.page.goto(`${gateway.url}/log?page=2000`);
    await one.page.getByText("model-99950", { exact: true }).waitFor();
  },

  async "two thousand accounts scroll and filter without holding up the page"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const { sites: [site], accounts: [account], ...rest } = await gateway.api("GET", "/api/accounts");
    const sites = Array.from({ length: 100 }, (_, index) => ({ ...site, id: index + 1, name: `Site ${index}` }));
    const accounts = Array.from({ length: 2000 }, (_, index) => ({ ...account, id: index + 1, siteId: 1 + (index % 100), username: `account-${index}@example.com` }));
    await one.page.route("**/api/accounts", (route) => route.fulfill({ json: { ...rest, sites, accounts } }));
    await one.goto("/sites");
    await one.page.getByText("account-0@example.com").waitFor();
    await isSteady(one, "Search", "account-99");
    await one.page.getByText("account-1991@example.com").waitFor({ state: "hidden" });
    await one.page.getByText("account-993@example.com").waitFor({ state: "attached" });
    // Text typed in an open row stays while the user scrolls.
    await one.goto("/sites?open=s1");
    await one.page.locator(".detail").getByLabel("Weight").fill("2.5");
    await one.page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await one.page.getByText("account-1999@example.com").waitFor();
    await one.page.evaluate(() => scrollTo(0, 0));
    await one.page.getByText("account-0@example.com").waitFor();
    assert.equal(await one.page.locator(".detail").getByLabel("Weight").inputValue(), "2.5");
  },
};
