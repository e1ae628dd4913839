// A watched page of the console in Chromium: a console message, an uncaught error, a violation of its policy or a request to
// another host is a failure.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { ADMIN } from "./gateway.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"] });

export class Watched {
  // `width` is in pixels; `locale` is en or zh-CN.
  static async open(browser, gateway, { width = 1280, locale = "en", dark = false, signedIn = true, timezoneId = "UTC" } = {}) {
    const watched = new Watched();
    watched.gateway = gateway;
    watched.context = await browser.newContext({ viewport: { width, height: 800 }, locale, colorScheme: dark ? "dark" : "light",
      bypassCSP: false, timezoneId });
    watched.page = await watched.context.newPage();
    watched.complaints = [];
    watched.expected = [];
    const complain = (text) => { if (!watched.expected.some((part) => text.includes(part))) watched.complaints.push(text); };
    watched.page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complain(`console: ${message.text()}`); });
    watched.page.on("pageerror", (error) => complain(`uncaught: ${error.message}`));
    watched.page.on("request", (request) => { if (new URL(request.url()).origin !== new URL(gateway.url).origin
      && !request.url().startsWith("data:")) complain(`asked elsewhere: ${request.url()}`); });
    // Questions of the page are answered by `answer`, yes or no, if a test expects them; a tab may always be closed.
    watched.asked = [];
    watched.page.on("dialog", (dialog) => {
      watched.asked.push(dialog.message());
      if (watched.answer === undefined && dialog.type() !== "beforeunload") complain(`asked: ${dialog.message()}`);
      return watched.answer || dialog.type() === "beforeunload" ? dialog.accept() : dialog.dismiss();
    });
    await watched.page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
      addEventListener("unhandledrejection", (event) => console.error(`unhandled: ${event.reason}`));
    });
    if (signedIn) await watched.page.addInitScript((token) => sessionStorage.setItem("switchyard.token", token), ADMIN);
    return watched;
  }

  async goto(path) {
    await this.page.goto(this.gateway.url + path);
    await this.settle();
  }

  // Waits until nothing loads any more.
  async settle() {
    await this.page.waitForFunction(() => document.querySelector("h1") && !document.querySelector("[aria-busy='true']"));
  }

  // Hides the tab, as behind another one, or shows it again.
  async look(away) {
    await this.page.evaluate((hidden) => { Object.defineProperty(document, "hidden", { value: hidden, configurable: true }); document.dispatchEvent(new Event("visibilitychange")); }, away);
  }

  text() { return this.page.locator("body").innerText(); }

  // Fails on a serious finding of axe-core, or if something is wider than the window.
  async isAccessible(what) {
    // An expression of the debugger is exempt from the page's policy.
    if (!await this.page.evaluate("typeof axe === 'object'")) await this.page.evaluate(axe);
    const found = await this.page.evaluate(async () => {
      const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return violations.filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")} (${one.help})`);
    });
    if (found.length) throw new Error(`${what}: ${found.join("; ")}`);
    const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 1) throw new Error(`${what}: ${wide} px wider than the window`);
  }

  async close() {
    await this.context.close();
    if (this.complaints.length) throw new Error(this.complaints.join("\n"));
  }
}
