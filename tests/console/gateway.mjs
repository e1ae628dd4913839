// The real binary as a process of its own, on a free port with an empty directory.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const ADMIN = "an-admin-token-for-the-console";
export const PROXY = "sk-a-proxy-token-for-the-console";

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Gateway {
  static async start(binary, variables = {}) {
    const gateway = new Gateway();
    gateway.binary = binary;
    gateway.directory = mkdtempSync(join(tmpdir(), "switchyard-console-"));
    gateway.port = await freePort();
    gateway.url = `http://127.0.0.1:${gateway.port}`;
    gateway.variables = { AUTH_TOKEN: ADMIN, PROXY_TOKEN: PROXY, ACCOUNT_CREDENTIAL_SECRET: "a-secret-for-tests-of-the-console",
      HOST: "127.0.0.1", PORT: String(gateway.port), DATA_DIR: join(gateway.directory, "data"), TZ: "UTC", ...variables };
    await gateway.run();
    return gateway;
  }

  async run() {
    this.process = spawn(this.binary, ["serve"], { cwd: this.directory, env: { PATH: process.env.PATH, ...this.variables },
      stdio: ["ignore", "pipe", "pipe"] });
    this.said = "";
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (text) => (this.said += text));
    this.ended = new Promise((resolve) => this.process.on("exit", resolve));
    for (let turn = 0; turn < 400; turn++) {
      try { if ((await fetch(`${this.url}/api/desktop/health`)).ok) return; } catch { /* not yet */ }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the gateway does not answer: ${this.said}`);
  }

  async stop() { this.process.kill("SIGTERM"); await this.ended; }
  async remove() { await this.stop(); rmSync(this.directory, { recursive: true, force: true }); }

  async api(method, path, body) {
    const answer = await fetch(this.url + path, { method, headers: { authorization: `Bearer ${ADMIN}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  // Waits until `look` returns something, and returns that.
  async eventually(what, look) {
    for (let turn = 0; turn < 200; turn++) {
      const seen = await look();
      if (seen) return seen;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`not within ten seconds: ${what}`);
  }

  async addSite(name, url, key, more = {}) {
    const site = await this.api("POST", "/api/sites", { name, url, platform: "openai", ...more });
    const account = await this.api("POST", "/api/accounts", { siteId: site.id, accessToken: key, credentialMode: "apikey" });
    await this.eventually("the models are found", async () => (await this.api("GET", `/api/tasks/${account.jobId}`)).task.status !== "pending"
      && ["succeeded", "failed"].includes((await this.api("GET", `/api/tasks/${account.jobId}`)).task.status));
    return { site, account };
  }

  chat(model, more = {}, key = PROXY) {
    return fetch(`${this.url}/v1/chat/completions`, { method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Which way?" }], ...more }) });
  }
}
