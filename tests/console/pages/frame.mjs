// The frame: sign-in, languages, colours, a server that is away.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { ADMIN } from "../gateway.mjs";

const CONSOLE = new URL("../../../src/console/", import.meta.url);
const sources = () => readdirSync(CONSOLE, { recursive: true }).filter((name) => name.endsWith(".js") && !/vendor|chinese/.test(name))
  .map((name) => readFileSync(new URL(name, CONSOLE), "utf8")).join("\n");

export default {
  async "every text has its Chinese, with the same values in it"() {
    const code = sources();
    const { CHINESE } = await import(new URL("chinese.js", CONSOLE));
    const values = (text) => [...text.matchAll(/\{\w+\}/g)].map(([name]) => name).sort().join();
    const beside = [...code.matchAll(/\bt\(\s*"([^"]+)"(?:,\s+"([^"]+)")?/g)].map(([, english, chinese]) => [english, chinese ?? CHINESE[english]]);
    assert.deepEqual(beside.filter(([english, chinese]) => !chinese || values(english) !== values(chinese)), []);
    // Some texts are keyed by words of the server: codes, and the results of an import.
    const fromServer = /^[a-z]+([_.-][a-z]+)+$|^(updated|deleted|unauthorized|checkin|balance|token|proxy|status|task|settings|warning|auth|system|none|maintenance)$/;
    assert.deepEqual(Object.keys(CHINESE).filter((english) => !fromServer.test(english) && !code.includes(`"${english}"`)), []);
  },

  async "who has no token is asked for one, and a wrong one is told in words"(world) {
    await world.start();
    const one = await world.open({ signedIn: false });
    one.expected.push("403");
    await one.goto("/");
    await one.isAccessible("sign-in");
    for (const wrong of ["not-the-token", "管理令牌"]) {
      await one.page.goto(`${world.gateway.url}/`);
      await one.page.getByLabel("Admin token").fill(wrong);
      await one.page.getByRole("button", { name: "Sign in" }).click();
      await one.page.getByText("This is not the admin token.").waitFor();
    }
    await one.page.getByLabel("Admin token").fill(ADMIN);
    await one.page.getByLabel("Admin token").press("Enter");
    await one.page.getByRole("heading", { name: "Overview" }).waitFor();
    assert.equal(await one.page.evaluate(() => localStorage.getItem("switchyard.token")), null);
    await one.page.getByRole("button", { name: "Sign out" }).click();
    await one.page.getByLabel("Admin token").waitFor();
    assert.equal(await one.page.evaluate(() => sessionStorage.getItem("switchyard.token")), null);
  },

  async "who may not come from where they are is told why"(world) {
    await world.start();
    const one = await world.open({ signedIn: false });
    one.expected.push("403");
    await one.goto("/");
    for (const [code, words] of [["builtin_token", "The built-in token works on that machine only. Change it there, or set AUTH_TOKEN and restart."], ["address_not_allowed", "This address may not use the admin API: 192.0.2.7 is not on the list"]]) {
      await one.page.route("**/api/settings/auth/info", (route) => route.fulfill({ status: 403, json: { success: false, code, message: "192.0.2.7 is not on the list" } }));
      await one.page.getByLabel("Admin token").fill(ADMIN);
      await one.page.getByRole("button", { name: "Sign in" }).click();
      await one.page.getByText(words).waitFor();
    }
  },

  async "an answer that breaks off is told, and read again"(world) {
    await world.start();
    const one = await world.open();
    let isBroken = true;
    await one.page.route("**/api/accounts", (route) => isBroken ? route.fulfill({ status: 200, body: "<html>a page in between" }) : route.continue());
    await one.goto("/sites");
    await one.page.getByText("The server cannot be reached.").first().waitFor();
    isBroken = false;
    await one.page.getByText("The server cannot be reached.").first().waitFor({ state: "hidden" });
  },

  async "every page opens in both languages, on a phone and on a desk, and axe finds nothing serious"(world) {
    await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    await world.gateway.addSite("Main line", stub.url, "sk-one");
    for (const [locale, width, dark] of [["en", 1280, false], ["en", 320, false], ["zh-CN", 375, true], ["en", 375, false], ["zh-CN", 1280, true]]) {
      const one = await world.open({ locale, width, dark });
      for (const path of ["/", "/sites", "/routes", "/log", "/keys", "/playground", "/settings"]) {
        await one.goto(path);
        await one.isAccessible(`${path} ${locale} ${width}`);
      }
      const title = await one.page.title();
      assert.equal(title.startsWith(locale === "en" ? "Settings" : "设置"), true, title);
    }
  },

  async "every page is in sight of a phone's navigation"(world) {
    await world.start();
    for (const locale of ["en", "zh-CN"]) {
      const one = await world.open({ width: 375, locale });
      await one.goto("/");
      for (const link of await one.page.locator("header nav a").all()) {
        const { x, width } = await link.boundingBox();
        assert.ok(x >= 0 && x + width <= 375, await link.innerText());
      }
    }
  },

  async "a site, an account, a model, a key or a page is found by its name with the keyboard alone"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const hostile = `<img src=x onerror=alert(1)>\u202Eevil ${"long ".repeat(90)}`;
    const { site } = await gateway.addSite(hostile, stub.url, "sk-one");
    const { item } = await gateway.api("POST", "/api/downstream-keys", { name: "Kitchen", key: "sk-kitchen-key-1" });
    for (const [locale, width] of [["en", 1280], ["zh-CN", 375]]) {
      const one = await world.open({ locale, width });
      const dialog = one.page.getByRole("dialog");
      const find = async (text, keys, address) => {
        await one.page.keyboard.press("Control+k");
        await dialog.getByRole("combobox").fill(text);
        await dialog.getByRole("option").first().waitFor();
        await one.isAccessible(`the search for ${text} ${locale}`);
        for (const key of keys) await one.page.keyboard.press(key);
        await one.page.waitForURL(gateway.url + address);
        await dialog.waitFor({ state: "hidden" });
      };
      await one.goto("/log");
      await find("onerror", ["Enter"], `/sites?open=s${site.id}`);
      await find("kitchen", ["Enter"], `/keys?open=${item.id}`);
      await find("gpt-4", ["Enter"], "/routes?q=gpt-4o&open=1");
      // Pages come first; one step up from the first result is the last.
      await find(locale === "en" ? "o" : "日", ["ArrowDown", "ArrowUp", "Enter"], locale === "en" ? "/" : "/log");
      await one.page.locator("h1").click();
      await one.page.keyboard.press("/");
      await dialog.getByRole("combobox").fill("nothing like it");
      await dialog.getByText(locale === "en" ? "0 found" : "找到 0 项").waitFor();
      await one.page.keyboard.press("Enter");
      await one.page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      assert.equal(await one.page.locator("img").count(), 0);
    }
  },

  async "the shortcut of a single character can be turned off"(world) {
    await world.start();
    const one = await world.open();
    const dialog = one.page.getByRole("dialog");
    const slash = one.page.getByRole("switch", { name: "The / key opens this search" });
    const isTaken = () => one.page.evaluate(() => !document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true })));
    await one.goto("/log");
    assert.equal(await isTaken(), true);
    await slash.uncheck();
    await one.page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await isTaken(), false);
    await one.goto("/keys");
    assert.equal(await isTaken(), false);
    await one.page.keyboard.press("Control+k");
    await slash.check();
    await one.page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await isTaken(), true);
  },

  async "the focus goes on at the new page when its link is gone"(world) {
    await world.start();
    const one = await world.open();
    await one.goto("/");
    assert.equal(await one.page.evaluate(() => document.activeElement.tagName), "BODY");
    await one.page.getByRole("link", { name: "Add a site" }).press("Enter");
    await one.page.getByRole("dialog").waitFor();
    await one.page.getByRole("button", { name: "Close" }).click();
    await one.goto("/routes");
    await one.page.getByRole("link", { name: "No models yet." }).press("Enter");
    await one.page.getByRole("heading", { name: "Sites", exact: true }).waitFor();
    await one.page.waitForFunction(() => document.activeElement.id === "page");
    await one.page.getByRole("link", { name: "Log", exact: true }).press("Enter");
    await one.page.getByRole("heading", { name: "Log", exact: true }).waitFor();
    assert.equal(await one.page.evaluate(() => document.activeElement.textContent.trim()), "Log");
  },

  async "a server that is away is told, and comes back by itself"(world) {
    const gateway = await world.start();
    const one = await world.open();
    one.expected.push("Failed to load resource", "ERR_CONNECTION");
    await one.goto("/log");
    await gateway.stop();
    await one.page.getByRole("link", { name: "Keys" }).click();
    await one.page.getByText("The server cannot be reached; retrying").waitFor();
    await gateway.run();
    await one.page.getByText("The server cannot be reached; retrying").waitFor({ state: "hidden" });
  },

  async "what is typed stays while the server is away, and what was not read then is read once it is back"(world) {
    const gateway = await world.start();
    const one = await world.open();
    one.expected.push("Failed to load resource", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE");
    const away = one.page.getByText("What is shown may be out of date");
    for (const path of ["/log", "/keys"]) await one.goto(path);
    await one.page.getByRole("link", { name: "Log" }).click();
    await one.page.getByRole("link", { name: "Keys" }).click();
    await one.page.getByRole("button", { name: "New key" }).click();
    const name = one.page.getByRole("dialog").getByLabel("Name", { exact: true });
    await name.fill("Half typed");
    await gateway.stop();
    await away.waitFor({ timeout: 20_000 });
    await gateway.api("GET", "/api/events/count").then(() => assert.fail("it is away"), () => {});
    await gateway.run();
    await away.waitFor({ state: "hidden" });
    assert.equal(await name.inputValue(), "Half typed");
    await one.page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await gateway.stop();
    await one.page.getByRole("link", { name: "Log" }).click();
    await one.page.locator("main").getByText("The server cannot be reached.").first().waitFor();
    await gateway.run();
    await one.page.getByText("No requests yet.").waitFor();
    assert.equal(await one.page.getByText("The server cannot be reached.").count(), 0);
  },

  async "whoever leaves what is not saved is asked, wherever they go"(world) {
    const gateway = await world.start();
    const stub = await world.site({ models: ["gpt-4o"] });
    const { site } = await gateway.addSite("Main line", stub.url, "sk-one");
    const one = await world.open();
    const link = (name) => one.page.getByRole("link", { name, exact: true });
    const asks = async (many) => assert.equal(one.asked.length, many, one.asked.join(" / "));
    await one.goto("/keys");
    await link("Sites").click();
    await one.page.getByRole("button", { name: "Main line openai" }).click();
    const weight = one.page.locator(".detail").getByLabel("Weight");
    await weight.fill("2.5");
    // With the answer no everything stays.
    one.answer = false;
    await link("Keys").click();
    await one.page.getByRole("button", { name: "Main line openai" }).click();
    await one.page.getByRole("tab", { name: "Probe" }).click();
    await one.page.getByRole("button", { name: "Sign out" }).click();
    await one.page.evaluate(() => history.back());
    await gateway.eventually("the way back is asked about", () => one.asked.length === 5);
    await one.page.waitForURL(`${gateway.url}/sites?open=s${site.id}`);
    assert.equal(await weight.inputValue(), "2.5");
    // What was taken back is no change.
    await weight.fill("1");
    assert.equal(await one.page.locator(".unsaved").count(), 0);
    await weight.fill("2.5");
    const mayClose = () => one.page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
    assert.equal(await mayClose(), false);
    // A filter and saved changes cause no question.
    await one.page.getByLabel("Search").fill("main");
    await one.page.locator(".detail").getByRole("button", { name: "Save" }).click();
    await gateway.eventually("the weight is saved", async () => (await gateway.api("GET", "/api/sites"))[0].globalWeight === 2.5);
    await one.page.waitForFunction(() => !document.querySelector(".unsaved"));
    assert.equal(await mayClose(), true);
    await one.page.getByRole("tab", { name: "Probe" }).click();
    await link("Keys").click();
    await asks(5);

    // A dialog with changes stays, too; Cancel closes it without a question.
    await one.page.getByRole("button", { name: "New key" }).click();
    const dialog = one.page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("Laptop");
    for (let turn = 0; turn < 3; turn++) await one.page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Close" }).click();
    await asks(9);
    assert.equal(await dialog.getByLabel("Name", { exact: true }).inputValue(), "Laptop");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "hidden" });
    await asks(9);

    // Changed settings are kept when the tab changes, and asked about when the page is left; priorities when their row is
    // closed.
    await link("Settings").click();
    await one.page.getByLabel("Factor of the base weight").fill("0.7");
    await one.page.getByRole("tab", { name: "Limits" }).click();
    await one.page.getByRole("tab", { name: "Routing" }).click();
    await asks(9);
    await link("Models").click();
    await asks(10);
    one.answer = true;
    await link("Models").click();
    await one.page.getByRole("button", { name: "gpt-4o" }).click();
    await one.page.getByLabel("Weight: Main line / Account 1").fill("25");
    await one.page.getByRole("button", { name: "gpt-4o" }).click();
    await one.page.locator(".detail").waitFor({ state: "hidden" });
    await asks(12);
  },

  async "a token that was changed elsewhere leads back to the sign-in"(world) {
    const gateway = await world.start();
    const one = await world.open();
    one.expected.push("403");
    await one.goto("/keys");
    await gateway.api("POST", "/api/settings/auth/change", { oldToken: ADMIN, newToken: "another-admin-token-1234" });
    await one.page.getByRole("link", { name: "Log" }).click();
    await one.page.getByText("The token is not accepted any more.").waitFor();
  },

  async "what is typed stays while a token that was changed elsewhere is asked for"(world) {
    const gateway = await world.start();
    const one = await world.open();
    one.expected.push("403");
    await one.goto("/settings");
    const factor = one.page.getByLabel("Factor of the base weight");
    await factor.fill("0.7");
    const fresh = "another-admin-token-1234";
    await gateway.api("POST", "/api/settings/auth/change", { oldToken: ADMIN, newToken: fresh });
    await one.look(true);
    await one.look(false);
    const dialog = one.page.getByRole("dialog");
    await dialog.getByText("The token is not accepted any more.").waitFor();
    await one.isAccessible("the sign-in over a page");
    await dialog.getByLabel("Admin token").fill(fresh);
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await dialog.waitFor({ state: "hidden" });
    assert.equal(await factor.inputValue(), "0.7");
    await one.page.locator("form").filter({ has: factor }).getByRole("button", { name: "Save" }).click();
    await one.page.getByText("Saved", { exact: true }).waitFor();
    const { routingWeights } = await (await fetch(`${gateway.url}/api/settings/runtime`, { headers: { authorization: `Bearer ${fresh}` } })).json();
    assert.equal(routingWeights.baseWeightFactor, 0.7);
  },

  async "a sign-out in one tab is told in another"(world) {
    await world.start();
    const one = await world.open({ signedIn: false });
    await one.goto("/");
    await one.page.getByLabel("Admin token").fill(ADMIN);
    await one.page.getByLabel("Keep it in this browser").check();
    await one.page.getByLabel("Admin token").press("Enter");
    await one.page.getByRole("heading", { name: "Overview" }).waitFor();
    const other = await one.context.newPage();
    await other.goto(`${world.gateway.url}/sites/`);
    await other.getByRole("heading", { name: "Sites", exact: true }).waitFor();
    await other.getByRole("button", { name: "Sign out" }).click();
    await other.getByLabel("Admin token").waitFor();
    await one.page.getByRole("link", { name: "Log", exact: true }).click();
    await one.page.getByText("Signed out in another tab.").waitFor();
  },
};
