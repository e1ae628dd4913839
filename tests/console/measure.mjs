// Measures how soon the first page can be used, on a processor that Chromium slows down four times, and the size of each file:
// `node tests/console/measure.mjs target/release/switchyard`. Prints the tables of docs/performance.md; asserts nothing.
// Each figure is the lowest and the median of several rounds: other work on the machine makes a round longer, never shorter.

import { readFileSync, readdirSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { launch } from "./browser.mjs";
import { ADMIN, Gateway } from "./gateway.mjs";
import { fromDisk } from "./serve.mjs";
import { site } from "./stubs.mjs";

const SLOWER = 4;
const ROUNDS = Number(process.env.ROUNDS ?? 9);

// Records in the page when its heading appears, when the data appears, and when the last long task ends.
const watch = () => {
  const seen = { drawn: 0, filled: 0, busy: 0, longest: 0 };
  globalThis.measured = seen;
  new PerformanceObserver((list) => list.getEntries().forEach(({ startTime, duration }) => {
    seen.busy = startTime + duration;
    seen.longest = Math.max(seen.longest, duration);
  })).observe({ type: "longtask", buffered: true });
  const look = () => {
    if (!seen.drawn && document.querySelector("h1")) seen.drawn = performance.now();
    if (!seen.filled && document.querySelector(".figures, .steps, input[type=password], .blank")) seen.filled = performance.now();
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
};

async function once(browser, gateway, { locale, signedIn, isBlank }) {
  const context = await browser.newContext({ locale, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const debug = await context.newCDPSession(page);
  await debug.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
  await page.addInitScript(watch);
  if (signedIn) await page.addInitScript((token) => sessionStorage.setItem("switchyard.token", token), ADMIN);
  if (isBlank) await page.route("**/*", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><h1 class=blank>Nothing</h1>" }));
  await page.goto(`${gateway.url}/`);
  await page.waitForFunction(() => globalThis.measured.filled);
  // Long tasks are reported some time after they ended.
  await page.waitForTimeout(300);
  const seen = await page.evaluate(() => ({ ...globalThis.measured, files: performance.getEntriesByType("resource").filter((one) => one.name.includes("/console/"))
    .map(({ name, encodedBodySize, startTime, responseEnd }) => ({ name: name.split("/").slice(5).join("/"), encodedBodySize, startTime, responseEnd })) }));
  await context.close();
  return seen;
}

const lowestAndMiddle = (numbers) => {
  const sorted = numbers.map(Math.round).sort((one, other) => one - other);
  return `${sorted[0]} / ${sorted[Math.floor(sorted.length / 2)]}`;
};

const gateway = await Gateway.start(process.argv[2]);
if (process.env.FROM_DISK) gateway.url = (await fromDisk(gateway)).url;
const good = await site({ models: ["gpt-4o", "o4-mini"] });
await gateway.addSite("Main line", good.url, "sk-one");
for (let turn = 0; turn < 6; turn++) await gateway.chat("gpt-4o").then((answer) => answer.text());
const browser = await launch();
console.log("| first page, ms at a quarter of the speed | drawn | with what was read | last long task ended | longest task | files | bytes |\n|---|---:|---:|---:|---:|---:|---:|");
for (const [name, options] of [["a heading and nothing else", { isBlank: true }], ["sign-in, English", { locale: "en" }], ["overview, English", { locale: "en", signedIn: true }],
  ["overview, Chinese", { locale: "zh-CN", signedIn: true }]]) {
  await once(browser, gateway, options);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await once(browser, gateway, options));
  const of = (key) => lowestAndMiddle(rounds.map((one) => one[key]));
  const { files } = rounds[0];
  console.log(`| ${name} | ${of("drawn")} | ${of("filled")} | ${of("busy")} | ${of("longest")} | ${files.length} | ${files.reduce((sum, one) => sum + one.encodedBodySize, 0)} |`);
  if (process.env.FILES) files.forEach((file) => console.log(`    ${Math.round(file.startTime)}–${Math.round(file.responseEnd)} ${file.encodedBodySize} ${file.name}`));
}
await browser.close();
good.close();
await gateway.remove();

const ROOT = new URL("../../src/console/", import.meta.url);
const sums = [0, 0, 0];
console.log("\n| file | bytes | gzip | brotli |\n|---|---:|---:|---:|");
for (const name of readdirSync(ROOT, { recursive: true }).filter((one) => /\.(js|css|svg|html)$/.test(one)).sort()) {
  const text = readFileSync(new URL(name, ROOT));
  const sizes = [text.length, gzipSync(text, { level: 9 }).length, brotliCompressSync(text).length];
  sizes.forEach((size, at) => (sums[at] += size));
  console.log(`| \`${name}\` | ${sizes.join(" | ")} |`);
}
console.log(`| all | ${sums.join(" | ")} |`);
process.exit(0);
