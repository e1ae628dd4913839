// For work on the console: serves a gateway with stub sites, and the console's files from the disk, at one address:
// `node tests/console/serve.mjs target/debug/switchyard`. Prints the address and the token.

import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { ADMIN, Gateway } from "./gateway.mjs";
import { site } from "./stubs.mjs";

const ROOT = new URL("../../src/console/", import.meta.url);
const KINDS = { js: "text/javascript", css: "text/css", html: "text/html", svg: "image/svg+xml" };

// Serves the gateway at another address, at which the console's files come from the disk.
export async function fromDisk(gateway, port = 0) {
  const behind = gateway.url;
  const server = http.createServer((request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    const name = path.startsWith("/console/") ? path.split("/").slice(3).join("/") : /^\/(sites|routes|log|keys|playground|settings)?$/.test(path) ? "index.html" : null;
    if (name && existsSync(new URL(name, ROOT))) {
      const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
      response.writeHead(200, { "content-type": `${KINDS[name.split(".").pop()]}; charset=utf-8`, "cache-control": "no-store", "content-security-policy": policy });
      return response.end(readFileSync(new URL(name, ROOT), "utf8").replaceAll("{digest}", "disk"));
    }
    const onward = http.request(behind + request.url, { method: request.method, headers: { ...request.headers, host: `127.0.0.1:${gateway.port}` } },
      (answer) => { response.writeHead(answer.statusCode, answer.headers); answer.pipe(response); });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const gateway = await Gateway.start(process.argv[2]);
  const good = await site({ models: ["gpt-4o", "gpt-4o-mini", "o4-mini"] });
  const broken = await site({ models: ["gpt-4o"], fails: true });
  const hub = await site({ models: ["claude-sonnet-5", "gpt-4o"], hub: true });
  await gateway.addSite("Main line", good.url, "sk-one");
  await gateway.addSite("Branch line", broken.url, "sk-two");
  const { id } = await gateway.api("POST", "/api/sites", { name: "Hub", url: hub.url, platform: "new-api" });
  await gateway.api("POST", "/api/accounts/login", { siteId: id, username: "ann", password: "a-password" });
  for (let turn = 0; turn < 12; turn++) await gateway.chat(turn % 3 ? "gpt-4o" : "gpt-4o-mini").then((answer) => answer.text());
  await gateway.api("POST", "/api/downstream-keys", { name: "Family", key: "sk-family-1234567890" });
  console.log(`the console: ${(await fromDisk(gateway, Number(process.env.PORT ?? 0))).url}\nthe token:   ${ADMIN}\nthe gateway: ${gateway.url}`);
}
