// Takes a screenshot of each page with data on it. With SCREENSHOTS=1 they are written to docs/console.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

const PAGES = [["overview", "/"], ["sites", "/sites"], ["models", "/routes"], ["log", "/log"], ["keys", "/keys"],
  ["playground", "/playground"], ["settings", "/settings"]];

// The steps on a page before its screenshot.
const ACTS = {
  models: async (page) => {
    await page.locator(".opener").filter({ hasText: /gpt-4o$/ }).click();
    await page.locator(".channel").first().waitFor();
  },
  playground: async (page) => {
    await page.getByLabel("Model").fill("gpt-4o");
    await page.getByLabel("Your message").fill("Which way?");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("HTTP 200").waitFor();
    await page.getByRole("button", { name: "Start over" }).waitFor();
  },
};

export default {
  async "every page with something on it is a picture of some size"(world) {
    const gateway = await world.start();
    const good = await world.site({ models: ["gpt-4o", "gpt-4o-mini", "o4-mini"] });
    const broken = await world.site({ models: ["gpt-4o"], fails: true });
    const hub = await world.site({ models: ["claude-sonnet-5", "gpt-4o"], hub: true });
    await gateway.addSite("Main line", good.url, "sk-one");
    await gateway.addSite("Branch line", broken.url, "sk-two");
    const { id } = await gateway.api("POST", "/api/sites", { name: "Hub", url: hub.url, platform: "new-api" });
    await gateway.api("POST", "/api/accounts/login", { siteId: id, username: "ann", password: "a-password" });
    await gateway.api("POST", "/api/downstream-keys", { name: "Family", key: "sk-family-1234567890", maxRequests: 1000 });
    for (let turn = 0; turn < 24; turn++) await gateway.chat(turn % 3 ? "gpt-4o" : "gpt-4o-mini").then((answer) => answer.text());
    for (const [width, dark, ending] of [[1280, false, ""], [375, true, "-phone"]]) {
      const one = await world.open({ width, dark });
      for (const [name, path] of ending ? PAGES.slice(0, 3) : PAGES) {
        await one.goto(path);
        await ACTS[name]?.(one.page);
        const picture = await one.page.screenshot({ type: "png" });
        assert.ok(picture.length > 8000, `${name}: ${picture.length} bytes`);
        if (process.env.SCREENSHOTS) writeFileSync(new URL(`../../../docs/console/${name}${ending}.png`, import.meta.url), picture);
      }
    }
  },
};
