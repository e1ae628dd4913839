// Stub sites: an OpenAI-like one, and one of the new-api family with sessions, balances and check-ins.
import http from "node:http";

function reply(response, status, value) {
  const body = typeof value === "string" ? value : JSON.stringify(value);
  response.writeHead(status, { "content-type": typeof value === "string" ? "text/html" : "application/json" });
  response.end(body);
}

function chat(response, body) {
  const id = `chatcmpl-${Math.floor(body.messages?.length ?? 0)}`;
  const usage = { prompt_tokens: 120, completion_tokens: 12, total_tokens: 132, prompt_tokens_details: { cached_tokens: 100 } };
  if (!body.stream) {
    const message = { role: "assistant", content: `An answer of ${body.model}.` };
    return reply(response, 200, { id, object: "chat.completion", created: 1, model: body.model,
      choices: [{ index: 0, message, finish_reason: "stop" }], usage });
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const chunk = (delta, finish, more = {}) => response.write(`data: ${JSON.stringify({ id, object: "chat.completion.chunk",
    created: 1, model: body.model, choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`);
  chunk({ role: "assistant", content: "" }, null);
  for (const word of ["An ", "answer ", "of ", `${body.model}.`]) chunk({ content: word }, null);
  chunk({}, "stop", { usage });
  response.end("data: [DONE]\n\n");
}

function read(request) {
  return new Promise((resolve) => {
    let text = "";
    request.on("data", (data) => (text += data));
    request.on("end", () => { try { resolve(JSON.parse(text)); } catch { resolve({}); } });
  });
}

// Starts a site; with `fails` it answers 500 to every model call, with the members of `fails` in the error; with `hub` it is of
// the new-api family.
export async function site({ models, hub = false, fails = false }) {
  const state = { models, fails, requests: [], checkedIn: 0 };
  const server = http.createServer(async (request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    const body = request.method === "GET" ? {} : await read(request);
    state.requests.push({ path, body });
    if (path === "/v1/models") {
      if (!/sk-/.test(request.headers.authorization ?? "")) return reply(response, 401, { error: { message: "Invalid token" } });
      return reply(response, 200, { object: "list", data: state.models.map((id) => ({ id, object: "model" })) });
    }
    if (path === "/v1/chat/completions") {
      if (state.fails) return reply(response, 500, { error: { message: "The engine is out of steam", ...state.fails } });
      return chat(response, body);
    }
    if (hub) {
      const good = (data) => reply(response, 200, { success: true, message: "", data });
      if (path === "/api/status") return good({ system_name: "Hub", checkin_enabled: true, quota_per_unit: 500000, setup: true });
      if (path === "/api/user/login") {
        if (body.password !== "a-password") return reply(response, 200, { success: false, message: "wrong password" });
        return good({ id: 7, username: body.username, access_token: "session-token-of-the-hub" });
      }
      if (path === "/api/user/self") return good({ id: 7, username: "ann", quota: 5_000_000, used_quota: 500_000 });
      if (path === "/api/user/models") return good(state.models);
      if (path === "/api/user/checkin") { state.checkedIn += 1; return good({ quota_awarded: 1000 }); }
      if (path.startsWith("/api/token")) return good({ items: [{ id: 1, name: "default", key: "hub-key", status: 1, group: "default" }], total: 1 });
      if (path === "/api/notice") return good("Maintenance on Sunday");
      if (path === "/") return reply(response, 200, "<title>New API</title>");
    }
    reply(response, 404, { error: { message: "no such page" } });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { ...state, state, url: `http://127.0.0.1:${server.address().port}`, close: () => server.close(), fail: (is) => (state.fails = is) };
}
