// The page Sites: adding and changing sites, accounts and tokens, and logins in a browser.

import assert from "node:assert/strict";

const HOSTILE = `<img src=x onerror=alert(1)>\u202Eevil ${"long ".repeat(90)}`;
const CONNECTION = { accountId: 1, siteId: 1, provider: "codex", email: "ann@example.com", planType: "plus", modelCount: 2, modelsPreview: [], routeChannelCount: 2,
  accountKey: "workspace-7", projectId: "a-project", tokenExpiresAt: new Date(Date.now() + 7_300_000).toISOString(),
  status: "abnormal", accountStatus: "expired", quota: { subscription: { activeUntil: new Date(Date.now() + 200_000_000).toISOString() }, providerMessage: "The plan is paid",  windows: { fiveHour: { supported: true, used: 37.5, limit: 100, resetAt: new Date(Date.now() + 3_600_000).toISOString() }, sevenDay: { supported: false } } } };

const dialogOf = (one) => one.page.getByRole("dialog");

export default {
  async "a site is added by its address, and each of several keys becomes an account or says why not"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o", "o4-mini"] });
    const one = await world.open();
    await one.goto("/sites");
    await one.page.getByRole("button", { name: "Add a site" }).click();
    const dialog = dialogOf(one);
    await one.isAccessible("the dialog of a new site");
    const hasFocus = (place) => place.evaluate((element) => element === document.activeElement);
    assert.ok(await hasFocus(dialog.getByLabel("Address")));
    await dialog.getByLabel("Address").fill(stub.url);
    await dialog.getByRole("button", { name: "Detect" }).click();
    await dialog.getByText("Not recognised").waitFor();
    await dialog.getByLabel("Platform").selectOption("openai");
    await dialog.getByLabel("Name", { exact: true }).fill(HOSTILE);
    await dialog.getByRole("button", { name: "Create the site" }).click();
    await one.page.waitForFunction(() => document.activeElement.closest("[role='tablist']"));
    await dialog.getByLabel("API keys").fill("sk-one-of-the-keys\nsk-two-of-the-keys\nnot-a-key-at-all");
    await one.isAccessible("the dialog of new accounts");
    await dialog.getByRole("button", { name: "Verify without saving" }).click();
    await dialog.getByText("Works: 2 models, such as gpt-4o, o4-mini").first().waitFor();
    await dialog.locator("li .bad-text").waitFor();
    const [site] = (await gateway.api("GET", "/api/sites")).filter((row) => row.url === stub.url);
    assert.equal(site.name, HOSTILE.trim());
    const accounts = async () => (await gateway.api("GET", "/api/accounts")).accounts.filter((row) => row.siteId === site.id);
    assert.equal((await accounts()).length, 0, "verifying stores nothing");
    await dialog.getByRole("button", { name: "Add 3 accounts" }).click();
    await dialog.getByText("2 models", { exact: true }).first().waitFor();
    assert.equal(await dialog.locator("li .bad-text").count(), 1);
    assert.equal((await accounts()).length, 2);
    assert.ok(await hasFocus(dialog.getByRole("button", { name: "Add accounts" })));
    assert.ok((await gateway.api("GET", "/api/routes/lite")).some((route) => route.modelPattern === "o4-mini"));
    await dialog.getByRole("button", { name: "Close" }).click();
    await one.page.getByText("onerror").first().waitFor();
    assert.equal(await one.page.locator("img").count(), 0);
    await one.isAccessible("the tree with a hostile name");
  },

  async "a known provider is described, and fills in the form of a site"(world) {
    const gateway = await world.start();
    const { presets: [preset] } = await gateway.api("GET", "/api/sites/presets");
    const one = await world.open();
    await one.goto("/sites?add=site");
    const dialog = dialogOf(one);
    await dialog.getByLabel("Known provider").selectOption(preset.id);
    await dialog.getByText(preset.description).waitFor();
    assert.equal(await dialog.getByRole("link", { name: "Documentation" }).getAttribute("href"), preset.docsUrl);
    assert.deepEqual(await Promise.all(["Address", "Platform"].map((label) => dialog.getByLabel(label).inputValue())), [preset.defaultUrl, preset.platform]);
    await one.isAccessible("a known provider");
  },

  async "the plans of an account are shown with what is used of them"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const subscriptions = [{ groupName: "Pro plan", expiresAt: "2030-12-03T00:00:00Z", dailyUsedUsd: 9.8, dailyLimitUsd: 10 }];
    await one.page.route("**/api/accounts", async (route) => {
      const body = await (await route.fetch()).json();
      body.accounts[0].extraConfig = JSON.stringify({ sub2apiSubscription: { subscriptions } });
      await route.fulfill({ json: body });
    });
    await one.goto(`/sites?open=a${account.id}`);
    await one.page.getByText("Pro plan").waitFor();
    await one.page.getByText("$10.00 a day").waitFor();
    await one.page.getByText("98 %").waitFor();
    await one.isAccessible("a plan");
  },

  async "what is typed while a form is being saved is not lost"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.goto(`/sites?open=s${site.id}`);
    const form = one.page.locator("form").filter({ has: one.page.getByLabel("Page for checking in") });
    let answer;
    await one.page.route(`**/api/sites/${site.id}`, async (route) => {
      if (!answer) await new Promise((resolve) => { answer = resolve; });
      await route.continue();
    });
    await form.getByLabel("Name", { exact: true }).fill("Main line 2");
    await form.getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the form is being sent", () => answer);
    await form.getByLabel("Name", { exact: true }).fill("Main line 3");
    await form.getByLabel("Page for checking in").fill("https://hub.example/checkin");
    answer();
    const stored = async () => (await gateway.api("GET", "/api/sites")).find((row) => row.id === site.id);
    await gateway.eventually("the first name is stored", async () => (await stored()).name === "Main line 2");
    await form.getByRole("button", { name: "Save", busy: false }).waitFor();
    assert.equal(await form.getByLabel("Name", { exact: true }).inputValue(), "Main line 3");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByText("Saved", { exact: true }).waitFor();
    const { name, externalCheckinUrl } = await stored();
    assert.deepEqual([name, externalCheckinUrl], ["Main line 3", "https://hub.example/checkin"]);
  },

  async "a hub is detected and logged in to, and its tokens, check-ins and announcements are at hand"(world) {
    const gateway = await world.start();
    const hub = await world.site({ models: ["claude-sonnet-5"], hub: true });
    const one = await world.open();
    await one.goto("/sites?add=site");
    const dialog = dialogOf(one);
    await dialog.getByLabel("Address").fill(hub.url);
    await dialog.getByRole("button", { name: "Detect" }).click();
    await dialog.getByText("Detected: new-api").waitFor();
    await dialog.getByRole("button", { name: "Create the site" }).click();
    await dialog.getByRole("tab", { name: "Log in" }).click();
    await dialog.getByLabel("Name or e-mail at the site").fill("ann");
    await dialog.getByLabel("Password").fill("wrong");
    await dialog.getByRole("button", { name: "Log in" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Password").fill("a-password");
    await dialog.getByRole("button", { name: "Log in" }).click();
    await dialog.getByText("1 model", { exact: true }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    const account = (await gateway.api("GET", "/api/accounts")).accounts.find((row) => row.username === "ann");
    assert.equal(account.balance, 10);

    await one.page.getByRole("button", { name: "ann", exact: true }).click();
    await one.page.getByText("$10.00 left, $1.00 used").waitFor();
    await one.page.locator(".detail").getByRole("button", { name: "Check in", exact: true }).click();
    await one.page.getByText("checked in", { exact: true }).waitFor();
    assert.equal(hub.state.checkedIn, 1);
    await one.page.getByText("Last check-in:").waitFor();
    await one.page.getByRole("tab", { name: "Check-ins" }).click();
    await one.page.locator("ul.plain li").filter({ hasText: "0.002" }).waitFor();
    await one.page.getByRole("tab", { name: "Site tokens" }).click();
    await one.page.getByLabel("Name", { exact: true }).fill("second");
    await one.page.getByLabel("Token", { exact: true }).fill("sk-another-token-1234");
    await one.page.getByRole("button", { name: "Add a token" }).click();
    const row = one.page.locator("ul.plain > li").filter({ hasText: "second" });
    await row.getByRole("button", { name: "Make it the default" }).click();
    await row.getByText("default", { exact: true }).waitFor();
    const tokens = await gateway.api("GET", `/api/account-tokens?accountId=${account.id}`);
    assert.equal(tokens.find((token) => token.isDefault).name, "second");
    await row.getByRole("button", { name: "Reveal" }).click();
    await row.getByText("sk-another-token-1234").waitFor();
    await one.isAccessible("tokens");
    await row.getByRole("button", { name: "Edit" }).click();
    await row.getByLabel("Name", { exact: true }).fill("renamed");
    await row.getByRole("button", { name: "Save" }).click();
    const list = one.page.locator("ul.plain > li");
    await list.filter({ hasText: "renamed" }).waitFor();
    // A token that the site makes gets its limits there.
    const form = one.page.locator("form").filter({ hasText: "If empty, the site creates one." });
    await form.getByLabel("Name", { exact: true }).fill("limited");
    await form.getByRole("button", { name: "What the site lets it do" }).click();
    await form.getByLabel("Quota in the site's units").fill("500000");
    await form.getByLabel("Expires").fill("2030-01-02T03:04");
    await form.getByLabel("Models").fill("gpt-4o, o4-mini");
    await form.getByLabel("Addresses, one per line").fill("192.0.2.7");
    await one.isAccessible("a token with limits");
    await form.getByRole("button", { name: "Add a token" }).click();
    const { body: wanted } = await gateway.eventually("the site is asked for a token", () => hub.state.requests.find(({ path, body }) => path.startsWith("/api/token") && body.name === "limited"));
    assert.deepEqual([wanted.remain_quota, wanted.unlimited_quota, wanted.expired_time, wanted.model_limits_enabled, wanted.model_limits, wanted.allow_ips],
      [500000, false, Date.parse("2030-01-02T03:04Z") / 1000, true, "gpt-4o,o4-mini", "192.0.2.7"]);
    await one.page.getByLabel("Select renamed").check();
    one.answer = true;
    await one.page.getByRole("group", { name: "1 token" }).getByRole("button", { name: "Switch off" }).click();
    await list.filter({ hasText: "renamed" }).getByText("off", { exact: true }).waitFor();
    await one.page.getByRole("group", { name: "1 token" }).getByRole("button", { name: "Delete" }).click();
    await dialogOf(one).getByText("renamed").waitFor();
    await dialogOf(one).getByRole("button", { name: "Delete" }).click();
    await list.filter({ hasText: "renamed" }).waitFor({ state: "detached" });
    assert.ok((await gateway.api("GET", `/api/account-tokens?accountId=${account.id}`)).every((token) => token.name !== "renamed"));
    await one.page.getByRole("tab", { name: "Models" }).click();
    await one.page.getByLabel("Models the site does not list").fill("house-model");
    await one.page.getByRole("button", { name: "Add by hand" }).click();
    await one.page.locator("ul.models li").filter({ hasText: "house-model" }).getByRole("button", { name: "Switch off at this site" }).click();
    await one.page.locator("ul.models li").filter({ hasText: "house-model" }).getByRole("button", { name: "Switch on" }).waitFor();
    assert.deepEqual((await gateway.api("GET", `/api/sites/${account.siteId}/disabled-models`)).models, ["house-model"]);

    await one.page.goto(`${gateway.url}/sites?open=s${account.siteId}`);
    await one.page.getByRole("tab", { name: "Announcements" }).click();
    await one.page.getByRole("button", { name: "Check now" }).click();
    await one.page.getByText("Maintenance on Sunday").waitFor();
    await one.page.getByRole("button", { name: "Mark as read" }).click();
    await gateway.eventually("the announcement is read", async () => (await gateway.api("GET", "/api/site-announcements"))[0].readAt);
    await one.page.getByRole("tab", { name: "Probe" }).click();
    await one.page.getByLabel("Model", { exact: true }).selectOption("claude-sonnet-5");
    await one.page.getByRole("button", { name: "Probe one model" }).click();
    await one.page.locator("ul.plain li").filter({ hasText: "claude-sonnet-5" }).getByText("answers", { exact: true }).waitFor();
    await one.page.route("**/probe-stream?*", (route) => route.fulfill({ contentType: "text/event-stream", body: "event: start\ndata: {}\n\n" }));
    await one.page.getByRole("button", { name: "Probe one model" }).click();
    await one.page.getByText("The probe was cut off.").waitFor();
    await one.page.unroute("**/probe-stream?*");
    await one.isAccessible("a probe");
    one.answer = false;
    await one.page.locator(".detail").getByRole("button", { name: "Probe all models" }).click();
    await one.page.getByRole("button", { name: "Probe all models" }).last().click();
    assert.deepEqual(one.asked.slice(-2), [`Probe all models of ${new URL(hub.url).host} (2)?`, "Probe all models of 1 account?"]);
    await one.page.goto(`${gateway.url}/sites`);
    await one.page.getByRole("button", { name: "Check-ins of all accounts" }).click();
    const checkin = one.page.locator("ul.plain li").filter({ hasText: "0.002" });
    assert.equal(await checkin.getByRole("link", { name: "ann" }).getAttribute("href"), `/sites?open=a${account.id}`);
    await one.page.getByRole("button", { name: "Announcements" }).last().click();
    await one.page.getByRole("button", { name: "Delete all" }).click();
    await dialogOf(one).getByRole("button", { name: "Delete all" }).click();
    await one.page.getByText("Nothing is announced.").waitFor();
    assert.deepEqual(await gateway.api("GET", "/api/site-announcements"), []);
  },

  async "an account tells what is left of its limits, and its models are probed after a question"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.page.route("**/api/accounts", async (route) => {
      const told = await (await route.fetch()).json();
      told.accounts[0].limitWindows = [{ name: "requests", usedPercent: 25, limit: 1000, remaining: 750, source: "headers", observedAt: new Date().toISOString() }];
      return route.fulfill({ json: told });
    });
    await one.goto(`/sites?open=a${account.id}`);
    await one.page.locator("dl.pairs").getByText("25 % · 750 of 1,000 left").waitFor();
    one.answer = true;
    await one.page.locator(".detail").getByRole("button", { name: "Probe all models" }).click();
    await gateway.eventually("the account is probed", async () => (await gateway.api("GET", "/api/tasks")).tasks.some(({ dedupeKey, status }) => dedupeKey === `model-availability-probe-${account.id}` && status === "succeeded"));
    assert.deepEqual(one.asked, [`Probe all models of Account ${account.id}?`]);
  },

  async "an announcement tells its level, its end and its source, and links to a web page only"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const announcement = (id, more) => ({ id, siteId: site.id, title: `Notice ${id}`, content: "…", level: "info", sourceUrl: null, endsAt: null, readAt: null, firstSeenAt: new Date().toISOString(), ...more });
    await one.page.route("**/api/site-announcements?*", (route) => route.fulfill({ json: [announcement(1, { level: "warning", sourceUrl: "https://example.com/notice", endsAt: "2030-01-02T03:04:05.000Z" }),
      announcement(2, { sourceUrl: "javascript:alert(1)" })] }));
    await one.goto("/sites");
    await one.page.getByRole("button", { name: "Announcements" }).click();
    const [first, second] = [0, 1].map((at) => one.page.locator("article").nth(at));
    for (const words of ["warning", "Ends Jan 2, 2030"]) await first.getByText(words).waitFor();
    assert.equal(await first.getByRole("link", { name: "Source" }).getAttribute("href"), "https://example.com/notice");
    assert.equal(await second.getByRole("link").count(), 0);
  },

  async "a session is added with its end, and with what its site does not tell"(world) {
    const gateway = await world.start();
    const { id } = await gateway.api("POST", "/api/sites", { name: "Hub", url: "http://127.0.0.1:9", platform: "sub2api" });
    const one = await world.open();
    let asked;
    await one.page.route("**/api/accounts", (route) => {
      if (route.request().method() !== "POST") return route.continue();
      asked = route.request().postDataJSON();
      return route.fulfill({ status: 400, json: { success: false, requiresVerification: true, message: "The session was refused" } });
    });
    one.expected.push("400");
    await one.goto(`/sites?add=${id}`);
    const dialog = dialogOf(one);
    await dialog.getByRole("tab", { name: "Session token" }).click();
    await dialog.getByLabel("Session token or cookie").fill("a-session");
    await dialog.getByLabel("Refresh token").fill("a-refresh-token");
    await dialog.getByLabel("Expires").fill("2030-01-02T03:04");
    await dialog.getByRole("button", { name: "What the site does not tell" }).click();
    await dialog.getByLabel("Name, if you like").fill("ann");
    await dialog.getByLabel("API key", { exact: true }).fill("sk-of-ann");
    await one.isAccessible("a session");
    await dialog.getByRole("button", { name: "Add the account" }).click();
    await dialog.getByText("The session was refused").waitFor();
    assert.deepEqual(asked, { siteId: id, credentialMode: "session", accessToken: "a-session", refreshToken: "a-refresh-token", tokenExpiresAt: "2030-01-02T03:04:00.000Z", username: "ann", apiToken: "sk-of-ann" });
    assert.equal(await dialog.getByLabel("Session token or cookie").inputValue(), "a-session");
  },

  async "an account whose models cannot be read is told as such, with what to do"(world) {
    const gateway = await world.start();
    const hub = await world.site({ models: [], hub: true });
    const { id } = await gateway.api("POST", "/api/sites", { name: "Hub", url: hub.url, platform: "new-api" });
    const one = await world.open();
    const dialog = dialogOf(one);
    const ways = { "Session token": async () => {
      await dialog.getByLabel("Session token or cookie").fill("session-token-of-the-hub");
      await dialog.getByLabel("User id").fill("7");
      await dialog.getByRole("button", { name: "Add the account" }).click();
    }, "Log in": async () => {
      await dialog.getByLabel("Name or e-mail at the site").fill("ann");
      await dialog.getByLabel("Password").fill("a-password");
      await dialog.getByRole("button", { name: "Log in" }).click();
    } };
    for (const [tab, add] of Object.entries(ways)) {
      await one.goto(`/sites?add=${id}`);
      await dialog.getByRole("tab", { name: tab }).click();
      await add();
      await dialog.getByText("Stored, but its models could not be read").waitFor();
      await one.isAccessible(tab);
    }
    await dialog.getByRole("link", { name: "Open" }).click();
    await one.page.locator(".row.open").getByText("ann").waitFor();
  },

  async "only what was changed is sent, and what others changed is shown"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site, account } = await gateway.addSite("Main line", stub.url, "sk-one");
    await gateway.api("PUT", `/api/sites/${site.id}`, { proxyUrl: "http://user:secret@127.0.0.1:9" });
    const one = await world.open();
    await one.goto(`/sites?open=s${site.id}`);
    const sent = [];
    one.page.on("request", (request) => { if (request.method() === "PUT") sent.push(request.postDataJSON()); });
    const form = one.page.locator(".detail form");
    assert.equal(await form.getByLabel("Proxy", { exact: true }).inputValue(), "");
    await form.getByLabel("Weight").fill("2.5");
    await form.getByLabel("Header of every request").fill("X-Line");
    await form.getByLabel("Its value").fill("main");
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByText("x-line: main").waitFor();
    await form.getByText("Saved", { exact: true }).waitFor();
    assert.deepEqual(sent, [{ globalWeight: 2.5, customHeaders: "{\"X-Line\":\"main\"}" }]);
    const stored = async () => (await gateway.api("GET", "/api/sites")).find((row) => row.id === site.id);
    assert.equal((await stored()).globalWeight, 2.5);
    assert.match((await stored()).proxyUrl, /127\.0\.0\.1:9/);
    await form.getByRole("button", { name: "Remove", exact: true }).click();
    await form.getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the proxy is gone", async () => (await stored()).proxyUrl === null);
    await form.getByLabel("Probe after the models were read").check();
    await form.getByLabel("Model", { exact: true }).fill("gpt-4o");
    await form.getByLabel("Slower is a failure, ms").fill("9000");
    await one.isAccessible("the settings of a site");
    await form.getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the probe is set", async () => (await stored()).postRefreshProbeLatencyThresholdMs === 9000);
    assert.deepEqual([(await stored()).postRefreshProbeEnabled, (await stored()).postRefreshProbeModel], [true, "gpt-4o"]);

    await gateway.api("PUT", `/api/accounts/${account.id}`, { username: "renamed elsewhere" });
    await one.goto("/sites");
    await one.page.getByRole("button", { name: "renamed elsewhere", exact: true }).click();
    await one.page.getByRole("tab", { name: "Settings" }).click();
    await one.page.getByLabel("Name", { exact: true }).fill("renamed here");
    await one.page.getByLabel("Place in the order").fill("3");
    await one.page.locator(".detail").getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the account is renamed", async () => (await gateway.api("GET", "/api/accounts")).accounts[0].username === "renamed here");
    assert.deepEqual(sent.at(-1), { username: "renamed here", sortOrder: 3 });
  },

  async "what two tabs do to the lists of a site holds from both"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one", { customHeaders: JSON.stringify({ "x-old": "1", "x-gone": "2" }) });
    const change = (body) => gateway.api("PUT", `/api/sites/${site.id}`, body);
    const urls = (...names) => names.map((name) => `https://${name}.example`);
    await change({ apiEndpoints: urls("a", "b").map((url) => ({ url })) });
    const one = await world.open();
    await one.goto(`/sites?open=s${site.id}`);
    const form = one.page.locator(".detail form");
    const pool = form.getByLabel("Further addresses, one per line");
    assert.equal(await pool.inputValue(), urls("a", "b").join("\n"));
    await pool.fill(`# ${urls("a")}\n${urls("b", "c").join("\n")}`);
    await form.getByRole("button", { name: "Remove x-gone" }).click();
    await form.getByLabel("Header of every request").fill("x-mine");
    await form.getByLabel("Its value").fill("3");
    // Another tab saved its changes first.
    await change({ apiEndpoints: urls("a", "d").map((url) => ({ url })), customHeaders: JSON.stringify({ "x-old": "1", "x-gone": "2", "x-theirs": "4" }) });
    await form.getByRole("button", { name: "Save" }).click();
    await form.getByText("x-theirs: 4").waitFor();
    const { customHeaders, apiEndpoints } = (await gateway.api("GET", "/api/sites"))[0];
    assert.deepEqual(JSON.parse(customHeaders), { "x-old": "1", "x-theirs": "4", "x-mine": "3" });
    assert.deepEqual(apiEndpoints.map(({ url, enabled }) => [url, enabled]), [[urls("a")[0], false], [urls("c")[0], true], [urls("d")[0], true]]);
  },

  async "what is ticked is switched off together, and a deletion names what goes"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const other = await world.site({ models: ["o4-mini"] });
    await gateway.addSite("Branch line", other.url, "sk-two");
    const one = await world.open();
    await one.goto("/sites?q=main");
    await one.page.getByRole("row").filter({ hasText: "Main line" }).waitFor();
    assert.equal(await one.page.getByRole("row").filter({ hasText: "Branch line" }).count(), 0);
    // What can be done with the chosen rows stands below them, so that no row moves.
    const place = () => one.page.getByLabel("Select Account 1").boundingBox();
    const before = await place();
    await one.page.getByLabel("Select Account 1").check();
    await one.page.getByRole("group", { name: "1 account" }).waitFor();
    assert.deepEqual(await place(), before);
    await one.page.getByRole("button", { name: "Choose none" }).click();
    await one.page.getByLabel("Search", { exact: true }).fill("");
    await one.page.getByLabel("Select Main line").check();
    await one.page.getByRole("button", { name: "Choose all 2" }).click();
    assert.ok(await one.page.getByLabel("Select Branch line").isChecked());
    await one.page.getByRole("button", { name: "Choose none" }).click();
    await one.page.getByLabel("Search", { exact: true }).fill("main");
    await one.page.getByLabel("Select Account 1").check();
    one.answer = true;
    await one.page.getByRole("group", { name: "1 account" }).getByRole("button", { name: "Switch off" }).click();
    assert.deepEqual(one.asked, ["Switch off: 1 account\n\nMain line / Account 1"]);
    await gateway.eventually("the account is off", async () => (await gateway.api("GET", "/api/accounts")).accounts[0].status === "disabled");
    await one.page.getByRole("button", { name: "Main line openai" }).click();
    await one.page.locator(".detail").getByRole("button", { name: "Delete" }).click();
    await dialogOf(one).getByText("Main line").waitFor();
    await one.isAccessible("the question before a deletion");
    await dialogOf(one).getByRole("button", { name: "Cancel" }).click();
    assert.ok((await gateway.api("GET", "/api/sites")).some((row) => row.id === site.id));
    await one.page.locator(".detail").getByRole("button", { name: "Delete" }).click();
    await dialogOf(one).getByRole("button", { name: "Delete" }).click();
    await one.page.getByText("Nothing matches the filter.").waitFor();
    assert.ok(!(await gateway.api("GET", "/api/sites")).some((row) => row.id === site.id));
  },

  async "an open row stays in spite of a filter until what is typed in it is saved"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.goto("/sites");
    const row = one.page.getByRole("button", { name: "Main line openai" });
    const search = one.page.getByLabel("Search", { exact: true });
    await row.click();
    await search.fill("no such site");
    await one.page.getByText("Nothing matches the filter.").waitFor();
    await search.fill("");
    const weight = one.page.locator(".detail").getByLabel("Weight");
    await weight.fill("2.5");
    await search.fill("no such site");
    assert.equal(await weight.inputValue(), "2.5");
    assert.equal(await one.page.getByRole("row").filter({ hasText: "Account 1" }).count(), 0);
    await one.isAccessible("a row that a filter would hide");
    await one.page.locator(".detail").getByRole("button", { name: "Save" }).click();
    await one.page.getByText("Nothing matches the filter.").waitFor();
    assert.equal((await gateway.api("GET", "/api/sites"))[0].globalWeight, 2.5);
    // A deleted row disappears, even with unsaved changes in it.
    await search.fill("");
    await weight.fill("3");
    await one.page.locator(".detail").getByRole("button", { name: "Delete" }).click();
    await dialogOf(one).getByRole("button", { name: "Delete" }).click();
    await row.waitFor({ state: "hidden" });
    assert.ok(!(await gateway.api("GET", "/api/sites")).some(({ id }) => id === site.id));
  },

  async "the page opens in Chinese on a phone, with an account and a dialog open, and tells of a failed read"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account, site } = await gateway.addSite(HOSTILE, stub.url, "sk-one");
    const one = await world.open({ width: 375, locale: "zh-CN", dark: true });
    one.expected.push("500");
    for (const path of [`/sites?open=a${account.id}`, `/sites?open=s${site.id}`, "/sites?add=site", `/sites?add=${site.id}`]) {
      await one.goto(path);
      await one.isAccessible(path);
    }
    await one.page.route("**/api/accounts", (route) => route.fulfill({ status: 500, json: { success: false, message: "The disk is away" } }));
    await one.goto("/sites");
    await one.page.getByText("The disk is away").waitFor();
    await one.page.unroute("**/api/accounts");
    await one.page.getByRole("button", { name: "重试" }).click();
    await one.page.getByText("onerror").first().waitFor();
  },

  async "accounts connected by a login become one channel, are parted again, get a proxy, and come from an export"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const asked = [];
    const routeUnit = { id: 4, kind: "route_unit", name: "<b>Both</b>", memberCount: 2, strategy: "round_robin" };
    let isUnited = false;
    await one.page.route("**/api/oauth/**", (route) => {
      const request = route.request();
      const path = new URL(request.url()).pathname;
      if (request.method() !== "GET") asked.push([request.method(), path, request.postDataJSON()]);
      if (path.endsWith("/connections")) {
        const items = ["ann@example.com", "bob@example.com"].map((email, at) => ({ ...CONNECTION, email, accountId: account.id + at, useSystemProxy: false,
          proxyUrl: null, routeUnit: isUnited ? routeUnit : null, ...(asked.length && { quota: { lastError: "The provider is out" } }) }));
        return route.fulfill({ json: { items, total: 2, limit: 200, offset: 0 } });
      }
      if (path.endsWith("/import")) return route.fulfill({ json: { success: false, imported: 1, failed: 1, skipped: 0,
        items: [{ name: "carl@example.com", provider: "codex", status: "imported" }, { name: "<i>dora</i>", status: "failed", message: "no refresh token" }] } });
      if (path.endsWith("/refresh-batch")) return route.fulfill({ json: { success: false, refreshed: 1, failed: 1, items: [{ success: true }, { success: false }] } });
      if (path.endsWith("/route-units")) isUnited = true;
      if (request.method() === "DELETE") isUnited = false;
      return route.fulfill({ json: { success: true } });
    });
    const listed = await gateway.api("GET", "/api/accounts");
    listed.accounts[0].oauthProvider = "codex";
    await one.page.route("**/api/accounts", (route) => route.fulfill({ json: listed }));
    await one.goto("/sites");
    await one.page.getByRole("button", { name: "Read all limits" }).click();
    await one.page.getByRole("alert").getByText("1 failed").waitFor();
    await one.page.getByText("The provider is out").first().waitFor();
    await one.page.getByRole("button", { name: "Several accounts as one" }).click();
    await one.page.getByRole("button", { name: "+ codex / ann@example.com" }).click();
    await one.page.getByRole("button", { name: "+ codex / bob@example.com" }).click();
    await one.page.getByLabel("Name", { exact: true }).fill("<b>Both</b>");
    await one.isAccessible("accounts as one");
    await one.page.getByRole("button", { name: "Create", exact: true }).click();
    const unit = one.page.locator("li").filter({ hasText: "<b>Both</b>" });
    await unit.getByText("2 accounts · In turn").waitFor();
    await unit.getByRole("button", { name: "Edit" }).click();
    await dialogOf(one).getByLabel("Name", { exact: true }).fill("<b>All</b>");
    await dialogOf(one).getByLabel("Strategy").selectOption({ label: "One until it fails" });
    await one.isAccessible("the form of a route unit");
    await dialogOf(one).getByRole("button", { name: "Save" }).click();
    await dialogOf(one).waitFor({ state: "hidden" });
    await one.page.getByRole("button", { name: "Separate them" }).click();
    await dialogOf(one).getByText("<b>Both</b>").waitFor();
    await dialogOf(one).getByRole("button", { name: "Separate them" }).click();
    await dialogOf(one).waitFor({ state: "hidden" });
    await one.page.getByRole("button", { name: "Separate them" }).waitFor({ state: "hidden" });
    const first = one.page.getByRole("article").filter({ hasText: "ann@example.com" });
    await first.getByRole("button", { name: "Settings" }).click();
    await first.getByLabel("Proxy", { exact: true }).fill("socks5://127.0.0.1:9");
    await first.getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the proxy is sent", () => asked.length === 5);
    assert.deepEqual(asked.slice(1), [
      ["POST", "/api/oauth/route-units", { accountIds: [account.id, account.id + 1], name: "<b>Both</b>", strategy: "round_robin" }],
      ["PATCH", "/api/oauth/route-units/4", { name: "<b>All</b>", strategy: "stick_until_unavailable" }],
      ["DELETE", "/api/oauth/route-units/4", null],
      ["PATCH", `/api/oauth/connections/${account.id}/proxy`, { proxyUrl: "socks5://127.0.0.1:9" }],
    ]);
    await one.page.getByRole("button", { name: "Import connections" }).click();
    await dialogOf(one).getByLabel("JSON").fill("{");
    await dialogOf(one).getByRole("button", { name: "Import" }).click();
    await dialogOf(one).getByRole("alert").waitFor();
    await dialogOf(one).getByLabel("JSON").fill('[{"type":"codex"},{}]');
    await dialogOf(one).getByLabel("Proxy", { exact: true }).fill("socks5://127.0.0.1:8");
    await dialogOf(one).getByRole("button", { name: "Import" }).click();
    await dialogOf(one).getByText("no refresh token").waitFor();
    assert.deepEqual(asked.at(-1), ["POST", "/api/oauth/import", { items: [{ type: "codex" }, {}], proxyUrl: "socks5://127.0.0.1:8" }]);
    await one.isAccessible("an import of connections");
    await dialogOf(one).getByLabel("JSON").fill(JSON.stringify(Array.from({ length: 250 }, (_, at) => ({ type: "codex", email: `${at}@example.com` }))));
    await dialogOf(one).getByRole("button", { name: "Import" }).click();
    await gateway.eventually("all are sent", () => asked.filter(([, path]) => path.endsWith("/import")).length === 4);
    assert.deepEqual(asked.slice(-3).map(([, , { items }]) => items.length), [100, 100, 50]);
  },

  async "of many connections some are drawn, and one is found by its name"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const items = Array.from({ length: 150 }, (_, at) => ({ ...CONNECTION, accountId: 1000 + at, email: `user-${at}@example.com` }));
    await one.page.route("**/api/oauth/connections?*", (route) => route.fulfill({ json: { items, total: 150, limit: 200, offset: 0 } }));
    const listed = await gateway.api("GET", "/api/accounts");
    listed.accounts[0].oauthProvider = "codex";
    await one.page.route("**/api/accounts", (route) => route.fulfill({ json: listed }));
    await one.goto("/sites");
    const shown = one.page.getByRole("article");
    await shown.first().waitFor();
    assert.equal(await shown.count(), 30);
    await one.page.getByRole("button", { name: "Show more" }).click();
    await shown.nth(129).waitFor();
    await one.page.getByLabel("Search").fill("user-149");
    await shown.nth(1).waitFor({ state: "detached" });
    await shown.filter({ hasText: "user-149@example.com" }).waitFor();
  },

  async "a login in the browser is begun, waited for, or finished by pasting the address"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { account } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    let pasted = null, begun = null;
    const providers = [
      { provider: "codex", label: "Codex", enabled: true, notice: "The vendor may not like this." },
      { provider: "gemini-cli", label: "Gemini CLI", enabled: false, requiresProjectId: true, missingVariables: ["PROVIDER_C_CLIENT_ID"] },
    ];
    await one.page.route("**/api/oauth/**", (route) => {
      const path = new URL(route.request().url()).pathname;
      if (path.endsWith("/providers")) return route.fulfill({ json: { providers, defaults: { systemProxyConfigured: true } } });
      if (path.endsWith("/connections")) return route.fulfill({ json: { items: [{ ...CONNECTION, accountId: account.id }], total: 1, limit: 200, offset: 0 } });
      if (path.endsWith("/start")) {
        begun = route.request().postDataJSON();
        return route.fulfill({ json: { provider: "codex", state: "a-state", authorizationUrl: "https://example.com/authorize",
          instructions: { redirectUri: "http://localhost:1455/auth/callback", sshTunnelCommand: "ssh -L 1455:127.0.0.1:1455 root@gw -p 22" } } });
      }
      if (path.endsWith("/manual-callback")) { pasted = route.request().postDataJSON(); return route.fulfill({ json: { success: true } }); }
      return route.fulfill({ json: { provider: "codex", state: "a-state", status: pasted ? "success" : "pending", accountId: account.id } });
    });
    const listed = await gateway.api("GET", "/api/accounts");
    listed.accounts[0].oauthProvider = "codex";
    await one.page.route("**/api/accounts", (route) => route.fulfill({ json: listed }));
    await one.goto("/sites");
    await one.page.getByText("ann@example.com").waitFor();
    await one.page.getByRole("img", { name: /37.5|38/ }).waitFor();
    for (const words of ["expired", "workspace-7 · a-project", "2 channels", "Plan until in 2 days · Token until in 2 hours", "The plan is paid"]) await one.page.getByRole("article").getByText(words).waitFor();
    await one.page.getByRole("button", { name: "Connect by login" }).click();
    const dialog = dialogOf(one);
    await dialog.getByText("The vendor may not like this.").waitFor();
    await dialog.getByLabel("Provider").selectOption("gemini-cli");
    await dialog.getByText("Set in the server's environment: PROVIDER_C_CLIENT_ID").waitFor();
    await dialog.getByLabel("Provider").selectOption("codex");
    await one.isAccessible("the choice of a provider");
    await dialog.getByLabel("Proxy", { exact: true }).fill("socks5://127.0.0.1:9");
    await dialog.getByLabel("Use the system's proxy").check();
    await dialog.getByRole("button", { name: "Continue" }).click();
    const link = dialog.getByRole("link", { name: /new tab/ });
    assert.equal(await link.getAttribute("target"), "_blank");
    await dialog.getByText("ssh -L 1455").waitFor();
    assert.deepEqual(begun, { proxyUrl: "socks5://127.0.0.1:9", useSystemProxy: true });
    await one.isAccessible("the wait for a login");
    await dialog.getByLabel("Or paste the address").fill("http://localhost:1455/auth/callback?code=c&state=a-state");
    await dialog.getByRole("button", { name: "Submit" }).click();
    await dialog.getByText("Connected.").waitFor();
    assert.equal(pasted.callbackUrl, "http://localhost:1455/auth/callback?code=c&state=a-state");
  },

  async "accounts whose models could not be added are stored once and told as such"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const site = await gateway.api("POST", "/api/sites", { name: "Main line", url: stub.url, platform: "openai" });
    const one = await world.open();
    one.expected.push("500");
    await one.page.route("**/models/manual", (route) => route.fulfill({ status: 500, json: { message: "The shelf is away" } }));
    await one.goto(`/sites?add=${site.id}`);
    const dialog = dialogOf(one);
    await dialog.getByLabel("API keys").fill("sk-one-of-the-keys\nsk-two-of-the-keys");
    await dialog.getByLabel("Do not ask the site for its models").check();
    await dialog.getByLabel("Models, one per line").fill("my-model");
    await dialog.getByRole("button", { name: "Add 2 accounts" }).click();
    await dialog.getByText("The shelf is away").nth(1).waitFor();
    assert.equal(await dialog.getByRole("button", { name: "Add 2 accounts" }).count(), 0);
    assert.equal((await gateway.api("GET", "/api/accounts")).accounts.length, 2);
  },

  async "models that are switched off one after the other are all off"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o", "o3", "o4-mini"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    await one.page.route("**/disabled-models", async (route) => { await new Promise((resolve) => setTimeout(resolve, 100)); await route.continue(); });
    await one.goto(`/sites?open=s${site.id}`);
    await one.page.getByRole("tab", { name: "Models" }).click();
    const buttons = one.page.getByRole("button", { name: "Switch off at this site" });
    for (const at of [2, 1, 0]) await buttons.nth(at).click();
    await one.page.locator(".models").getByText("off", { exact: true }).nth(2).waitFor();
    assert.equal((await gateway.api("GET", `/api/sites/${site.id}/disabled-models`)).models.length, 3);
  },

  async "a balance that was never read is not shown, and what was saved keeps the focus"(world) {
    const gateway = await world.start();
    const hub = await world.site({ models: ["gpt-4o"], hub: true });
    const { id } = await gateway.api("POST", "/api/sites", { name: "Hub", url: hub.url, platform: "new-api" });
    await gateway.api("POST", "/api/accounts/login", { siteId: id, username: "ann", password: "a-password" });
    const one = await world.open();
    await one.page.route("**/api/accounts", async (route) => {
      const answer = await (await route.fetch()).json();
      for (const account of answer.accounts) Object.assign(account, { balance: 0, lastBalanceRefresh: null });
      await route.fulfill({ json: answer });
    });
    await one.goto("/sites?open=a1");
    await one.page.getByRole("row").filter({ hasText: "ann" }).first().getByText("–").waitFor();
    assert.equal(await one.page.getByText("left,").count(), 0);
    await one.page.getByRole("tab", { name: "Settings" }).click();
    const save = one.page.locator(".detail").getByRole("button", { name: "Save" });
    await one.page.locator(".detail").getByLabel("Name", { exact: true }).fill("Ann");
    await save.press("Enter");
    await one.page.getByText("Saved", { exact: true }).waitFor();
    assert.ok(await save.evaluate((element) => element === document.activeElement));
  },
};
