// Models: routes with their channels, changes of them, and long lists.

import assert from "node:assert/strict";

const HOSTILE = `<img src=x onerror=alert(1)>\u202Eevil "quoted" ${"long ".repeat(80)}end`;

// Starts a gateway with a site that answers and one that fails, which share a model.
async function start(world) {
  const gateway = await world.start();
  const [good, broken] = [await world.site({ models: ["gpt-4o", "gpt-4o-mini"] }), await world.site({ models: ["gpt-4o"], fails: true })];
  await gateway.addSite("Main line", good.url, "sk-one");
  await gateway.addSite("Branch line", broken.url, "sk-two");
  return { gateway, good, broken };
}
const routeOf = async (gateway, name) => (await gateway.api("GET", "/api/routes")).find((route) => route.modelPattern === name);
const opened = async (one, name) => {
  await one.page.getByRole("button", { name, exact: false }).filter({ hasText: new RegExp(`${name}$`) }).click();
  await one.page.locator(".channel").first().waitFor();
};

export default {
  async "a model opens into its channels, whose priority and weight are edited in place"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/routes");
    await opened(one, "gpt-4o");
    await one.page.getByText("Takes part").first().waitFor();
    assert.equal(await one.page.locator(".channel").count(), 2);
    await one.isAccessible("an opened route");
    await one.page.getByLabel("Priority: Branch line / Account 2").fill("3");
    await one.page.getByLabel("Weight: Main line / Account 1").fill("25");
    await one.page.getByText("2 changes are not saved").waitFor();
    await one.page.getByLabel("Weight: Main line / Account 1").fill("2.5");
    assert.equal(await one.page.getByRole("button", { name: "Save" }).isDisabled(), true);
    await one.page.getByLabel("Weight: Main line / Account 1").fill("25");
    await one.page.getByRole("button", { name: "Save" }).click();
    await one.page.getByRole("heading", { name: "Priority 3" }).waitFor();
    await one.page.getByText("Waits behind a better priority").waitFor();
    await one.page.getByRole("button", { name: "How a channel is chosen" }).click();
    const { decision: { summary } } = await gateway.api("GET", "/api/routes/decision?model=gpt-4o");
    await one.page.locator(".detail ol").getByText(summary[0]).waitFor();
    const { channels } = await routeOf(gateway, "gpt-4o");
    assert.deepEqual(channels.map(({ priority, weight }) => [priority, weight]), [[0, 25], [3, 10]]);
  },

  async "a channel tells its cache hits and when it was last used and last failed"(world) {
    const { gateway } = await start(world);
    await gateway.eventually("both channels were asked", async () => {
      await (await gateway.chat("gpt-4o")).text();
      return (await routeOf(gateway, "gpt-4o")).channels.every(({ lastUsedAt, lastFailAt }) => lastUsedAt ?? lastFailAt);
    });
    const one = await world.open();
    await one.goto("/routes");
    await opened(one, "gpt-4o");
    await one.page.locator(".channel").filter({ hasText: "Main line" }).getByText("Cache hits: 83.3 %").waitFor();
    await one.page.locator(".channel").filter({ hasText: "Main line" }).getByText("Last used:").waitFor();
    await one.page.locator(".channel").filter({ hasText: "Branch line" }).getByText("Last failure:").waitFor();
  },

  async "a channel gets another name by which its site is asked"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/routes");
    await opened(one, "gpt-4o-mini");
    await one.page.locator(".channel").getByRole("button", { name: "Edit" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByText("Main line / Account 1").waitFor();
    const sent = one.page.waitForRequest((request) => request.method() === "PUT");
    await dialog.getByLabel("Name at the site").fill("gpt-4o-mini-2024");
    await one.isAccessible("the form of a channel");
    await dialog.getByRole("button", { name: "Save" }).click();
    assert.deepEqual((await sent).postDataJSON(), { sourceModel: "gpt-4o-mini-2024" });
    await one.page.locator(".channel").getByText("gpt-4o-mini-2024").waitFor();
    assert.equal((await routeOf(gateway, "gpt-4o-mini")).channels[0].sourceModel, "gpt-4o-mini-2024");
  },

  async "a channel is tried, switched off and deleted; a cooldown counts down and is cleared"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    one.expected.push("500");
    await one.goto("/routes");
    await opened(one, "gpt-4o");
    const [main, branch] = [one.page.locator(".channel", { hasText: "Main line" }), one.page.locator(".channel", { hasText: "Branch line" })];
    await main.getByRole("button", { name: "Try" }).click();
    await main.getByText(/Answered in/).waitFor();
    await branch.getByRole("button", { name: "Try" }).click();
    await branch.getByText("The site failed, HTTP 500: The engine is out of steam").waitFor();
    // A try counts like any request: the channel cools now.
    await one.page.reload();
    await one.page.getByText(/Cooling down \d+:\d\d/).waitFor();
    await one.page.getByRole("button", { name: "End cooling" }).click();
    await one.page.getByText(/Cooling down/).waitFor({ state: "hidden" });
    assert.equal((await routeOf(gateway, "gpt-4o")).channels[1].cooldownUntil, null);
    await branch.getByRole("button", { name: "Switch off" }).click();
    await branch.getByText("Switched off").waitFor();
    assert.equal((await routeOf(gateway, "gpt-4o")).channels[1].enabled, false);
    await branch.getByRole("button", { name: "Delete" }).click();
    await one.page.getByRole("dialog").getByText("Branch line / Account 2").waitFor();
    await one.isAccessible("the question whether a channel goes");
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await branch.waitFor({ state: "hidden" });
    assert.equal((await routeOf(gateway, "gpt-4o")).channels.length, 1);
    await one.page.getByRole("button", { name: "Add a channel" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByRole("button", { name: "+ Branch line / Account 2" }).click();
    await one.isAccessible("the form of a channel");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await branch.getByText("By hand").waitFor();
    assert.equal((await routeOf(gateway, "gpt-4o")).channels.length, 2);
  },

  async "what a filter leaves is switched off, on and deleted together"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/routes");
    assert.equal(await one.page.getByRole("button", { name: /With all/ }).count(), 0);
    const before = await gateway.api("GET", "/api/routes/summary");
    await one.page.getByLabel("Search").fill("gpt");
    await one.page.getByRole("button", { name: "With all 2 that are shown" }).click();
    one.answer = false;
    await one.page.getByRole("button", { name: "Switch off" }).click();
    assert.deepEqual(one.asked, ["Switch off: 2 routes\n\ngpt-4o\ngpt-4o-mini"]);
    assert.ok((await gateway.api("GET", "/api/routes/summary")).every((route) => route.enabled), "who says no changes nothing");
    one.answer = true;
    await one.page.getByRole("button", { name: "Switch off" }).click();
    await one.page.getByRole("row").filter({ hasText: "gpt" }).filter({ hasText: "Off" }).nth(1).waitFor();
    const off = (await gateway.api("GET", "/api/routes/summary")).filter((route) => !route.enabled).map((route) => route.modelPattern).sort();
    assert.deepEqual(off, ["gpt-4o", "gpt-4o-mini"]);
    await one.page.getByRole("button", { name: "Delete" }).click();
    await one.page.getByRole("dialog").getByText("2 routes").getByText("gpt-4o-mini").waitFor();
    await one.page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await one.page.getByText("No models yet.").waitFor();
    assert.equal((await gateway.api("GET", "/api/routes/summary")).length, before.length - 2);
  },

  async "a pattern is made with a preview of what it names, changed, switched off and deleted"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/routes");
    await one.page.getByRole("button", { name: "New route" }).click();
    const dialog = one.page.getByRole("dialog");
    const pattern = dialog.getByLabel("Model or pattern");
    for (const [text, seen] of [["gpt-*", "Matches 2 known models"], ["re:mini$", "Matches 1 known model"], ["re:^gpt-4o|x$", "Matches 1 known model"], ["GPT-*", "Matches 0 known models"],
      ["re:(?=gpt)", "are refused"], ["re:(g+)+", "No preview of this expression"]]) {
      await pattern.fill(text);
      await dialog.getByText(seen, { exact: false }).waitFor();
    }
    await pattern.fill("gpt-*");
    await dialog.getByLabel("Another name for clients").fill("any-gpt");
    await dialog.getByLabel("Icon for clients").fill("openai");
    await dialog.getByLabel("Model mapping").fill("no rule");
    await dialog.getByText("A line is not of the form").waitFor();
    await dialog.getByLabel("Model mapping").fill("any-gpt => gpt-4o");
    await one.isAccessible("the form of a route");
    await dialog.getByRole("button", { name: "Create" }).click();
    await one.page.getByRole("button", { name: "any-gpt" }).waitFor();
    let made = await routeOf(gateway, "gpt-*");
    assert.deepEqual([made.displayName, made.displayIcon, made.modelMapping, made.channels.length], ["any-gpt", "openai", '{"any-gpt":"gpt-4o"}', 3]);
    await opened(one, "any-gpt");
    await one.page.locator(".detail > div > .actions").getByRole("button", { name: "Edit" }).click();
    await dialog.getByLabel("Strategy").selectOption("stable_first");
    const sent = one.page.waitForRequest((request) => request.method() === "PUT");
    await dialog.getByRole("button", { name: "Save" }).click();
    assert.deepEqual((await sent).postDataJSON(), { routingStrategy: "stable_first" });
    await dialog.waitFor({ state: "hidden" });
    await one.page.locator(".detail > div > .actions").getByRole("button", { name: "Switch off" }).click();
    await one.page.getByText("The route is off").waitFor();
    made = await routeOf(gateway, "gpt-*");
    assert.deepEqual([made.routingStrategy, made.enabled], ["stable_first", false]);
    await one.page.locator(".detail > div > .actions").getByRole("button", { name: "Delete" }).click();
    await dialog.getByText("any-gpt").waitFor();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await one.page.getByRole("button", { name: "any-gpt" }).waitFor({ state: "hidden" });
    assert.equal(await routeOf(gateway, "gpt-*"), undefined);
  },

  async "a group is made of models, and a rebuild tells what it did"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.goto("/routes");
    await one.page.getByRole("button", { name: "New route" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByRole("tab", { name: "Group" }).click();
    await dialog.getByLabel("Name of the group").fill("crew");
    await dialog.getByRole("button", { name: "+ gpt-4o-mini" }).click();
    await one.isAccessible("the form of a group");
    await dialog.getByRole("button", { name: "Create" }).click();
    await opened(one, "crew");
    await one.page.getByRole("link", { name: "gpt-4o-mini" }).waitFor();
    assert.deepEqual((await routeOf(gateway, "crew")).sourceRouteIds, [(await routeOf(gateway, "gpt-4o-mini")).id]);
    await one.page.getByRole("button", { name: "Rebuild" }).click();
    await one.page.getByText("2 models; routes +0").waitFor();
    await one.page.getByRole("button", { name: "Refresh models" }).click();
    await one.page.getByText("2 account(s) refreshed").waitFor();
  },

  async "models without a token, and groups without one, are listed with their account"(world) {
    await start(world);
    const one = await world.open();
    const owner = { accountId: 1, siteId: 1, siteName: "Main line", username: "ann" };
    await one.page.route("**/api/models/token-candidates", (route) => route.fulfill({ json: { models: {}, endpointTypesByModel: {}, modelsWithoutToken: { "claude-x": [owner] },
      modelsMissingTokenGroups: { "claude-x": [{ ...owner, missingGroups: ["vip"], requiredGroups: ["vip"], availableGroups: [] }], "gpt-4o": [{ ...owner, missingGroups: ["pro"], requiredGroups: ["pro"],
        availableGroups: ["default"], groupCoverageUncertain: true }] } } }));
    await one.goto("/routes");
    await one.page.getByRole("button", { name: "Models and groups without a token" }).click();
    const rows = one.page.getByRole("region", { name: "Groups without a token" }).locator("tbody tr");
    await rows.first().waitFor();
    assert.deepEqual((await rows.allInnerTexts()).map((text) => text.split("\t")), [["claude-x", "Main line / ann", "no token", "vip"], ["gpt-4o", "Main line / ann", "served", "pro ?"]]);
    await one.isAccessible("models without a token");
    await rows.first().getByRole("link").click();
    await one.page.locator(".detail").getByText("End cooling").waitFor();
  },

  async "prices are shown where a site tells them"(world) {
    await start(world);
    const one = await world.open();
    await one.page.route("**/api/models/marketplace*", (route) => route.fulfill({ json: { models: [{ name: "gpt-4o", description: "It sees and hears", supportedEndpointTypes: ["openai"], tags: ["vision"], successRate: 97.5, avgLatency: 1200, pricingSources: [{ siteName: HOSTILE, username: "ann",
      groupPricing: { vip: { quotaType: 0, inputPerMillion: 2.5, outputPerMillion: 0.075 } } }] }] } }));
    await one.goto("/routes");
    await opened(one, "gpt-4o");
    await one.page.getByRole("button", { name: "Prices" }).click();
    for (const words of ["$2.50", "It sees and hears", "openai, vision", "97.5 % answered in 7 days Latency: 1.2 s"]) await one.page.getByText(words).waitFor();
    await one.page.getByText("$0.075").waitFor();
    await one.page.getByText("<img src=x onerror").waitFor();
    await one.isAccessible("prices");
  },

  async "hostile names are text, on a phone and in Chinese"(world) {
    const { gateway } = await start(world);
    const { id } = await gateway.api("POST", "/api/routes", { modelPattern: "gpt-*", displayName: HOSTILE });
    await gateway.api("PUT", "/api/sites/1", { name: HOSTILE.slice(0, 100) });
    for (const options of [{ width: 375, dark: true }, { locale: "zh-CN" }]) {
      const one = await world.open(options);
      await one.goto(`/routes?open=${id}`);
      await one.page.locator(".channel").first().waitFor();
      await one.settle();
      assert.equal(await one.page.locator("main img").count(), 0);
      assert.equal((await one.text()).includes("<img src=x onerror=alert(1)>"), true);
      await one.isAccessible("hostile names");
    }
  },

  async "without models the page leads to the sites, and a failed read keeps what was read"(world) {
    const gateway = await world.start();
    const one = await world.open();
    one.expected.push("500");
    await one.goto("/routes");
    await one.page.getByRole("link", { name: "No models yet." }).waitFor();
    const stub = await world.site({ models: ["m-1"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    await one.page.reload();
    await opened(one, "m-1");
    await one.page.route("**/api/routes/1/channels", (route) => route.fulfill({ status: 500, json: { message: "the store is away" } }));
    await one.page.locator(".detail > div > .actions").getByRole("button", { name: "Switch off" }).click();
    await one.page.getByText("the store is away").waitFor();
    assert.equal(await one.page.locator(".channel").count(), 1);
  },

  async "a task is followed only while its button is seen"(world) {
    const { gateway } = await start(world);
    const one = await world.open();
    await one.page.route("**/api/routes/rebuild", (route) => route.fulfill({ json: { success: true, jobId: "t1" } }));
    let asked = 0;
    await one.page.route("**/api/tasks/t1", (route) => { asked += 1; return route.fulfill({ json: { task: { id: "t1", status: "running", message: "Half way" } } }); });
    const rests = async (what) => {
      await one.page.waitForTimeout(500);
      const before = asked;
      await one.page.waitForTimeout(1000);
      assert.equal(asked, before, what);
    };
    await one.goto("/routes");
    await one.page.getByRole("button", { name: "Refresh models" }).click();
    await one.page.getByText("Half way").waitFor();
    await one.look(true);
    await rests("in a hidden tab");
    await one.look(false);
    const before = asked;
    await gateway.eventually("the task is followed again", () => asked > before + 1);
    await one.page.getByRole("link", { name: "Keys" }).click();
    await rests("on another page");
    await one.page.getByRole("link", { name: "Models" }).click();
    await one.page.getByRole("button", { name: "Refresh models" }).click();
    await one.page.getByText("Half way").waitFor();
    await one.page.getByRole("button", { name: "Sign out" }).click();
    await rests("after a sign-out");
    assert.equal(await one.page.getByText("not accepted").count(), 0);
  },
};
