// Runs the tests of `pages/`, file by file. A test is a function of a `World` and starts a gateway of its own; it fails by
// throwing. Its name is a sentence that is true of the product.

import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { launch, Watched } from "./browser.mjs";
import { Gateway } from "./gateway.mjs";
import { fromDisk } from "./serve.mjs";
import { site } from "./stubs.mjs";

const binary = resolve(process.env.SWITCHYARD_BINARY);
const wanted = process.argv.slice(2);
const files = readdirSync(new URL("pages/", import.meta.url)).filter((name) => name.endsWith(".mjs"))
  .filter((name) => !wanted.length || wanted.some((part) => name.includes(part))).sort();

// The resources of a test: a gateway, stub sites and watched pages. All of them end with it.
class World {
  constructor(browser) { this.browser = browser; this.sites = []; this.opened = []; }
  async start(variables) {
    this.gateway = await Gateway.start(binary, variables);
    // For work on a page its files come from the disk, so that nothing has to be built.
    if (process.env.FROM_DISK) {
      this.disk = await fromDisk(this.gateway);
      this.gateway.url = this.disk.url;
    }
    return this.gateway;
  }
  async site(options) { const one = await site(options); this.sites.push(one); return one; }
  async open(options) { const page = await Watched.open(this.browser, this.gateway, options); this.opened.push(page); return page; }
  async end() {
    const faults = [];
    for (const page of this.opened) await page.close().catch((error) => faults.push(error));
    this.sites.forEach((one) => one.close());
    this.disk?.close();
    await this.gateway?.remove();
    if (faults.length) throw faults[0];
  }
}

const browser = await launch();
let failed = 0, passed = 0;
for (const file of files) {
  const { default: tests } = await import(`./pages/${file}`);
  for (const [name, test] of Object.entries(tests)) {
    const world = new World(browser);
    const began = Date.now();
    try {
      try { await test(world); } catch (error) {
        for (const page of world.opened) console.log(`    was at ${page.page.url()}: ${(await page.text().catch(() => "")).slice(0, 600).replace(/\n+/g, " | ")}`);
        await world.end().catch((more) => console.log(`    also: ${more.message}`));
        throw error;
      }
      await world.end();
      passed += 1;
      console.log(`ok    ${file} ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL  ${file} ${name}\n      ${error.stack ?? error}`);
    }
  }
}
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
