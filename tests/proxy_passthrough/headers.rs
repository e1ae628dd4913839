//! Which headers are sent upstream, which are returned, and which credentials go with them.

use super::*;

#[test]
fn only_listed_headers_go_upstream() {
    let (gateway, upstream) = through();
    let kept = [
        ("accept-language", "de"),
        ("user-agent", "a-client/1.0"),
        ("openai-beta", "assistants=v2"),
        ("session_id", "s-1"),
        ("originator", "a-client"),
    ];
    let dropped = [
        ("cookie", "a=b"),
        ("x-api-key", "sk-other"),
        ("x-goog-api-key", "other"),
        ("x-forwarded-for", "203.0.113.1"),
        ("x-forwarded-proto", "https"),
        ("forwarded", "for=203.0.113.1"),
        ("cf-connecting-ip", "203.0.113.1"),
        ("x-switchyard-tester-request", "1"),
        ("openai-organization", "org-1"),
        ("openai-project", "proj-1"),
        ("chatgpt-account-id", "acc-1"),
        ("te", "trailers"),
        ("keep-alive", "timeout=5"),
        ("proxy-authorization", "Basic eA=="),
        ("x-anything", "else"),
        ("origin", "https://console.example"),
        ("referer", "https://console.example/x"),
    ];
    for (path, body) in surfaces().into_iter().take(3) {
        let mut request = ask(path, &body);
        for (name, value) in kept.iter().chain(&dropped) {
            request = request.header(name, value);
        }
        let answer = gateway.client().send(request);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let asked = upstream.last(path);
        for (name, value) in kept {
            assert_eq!(asked.header(name), Some(value), "{path}: {name}");
        }
        for (name, value) in dropped {
            if path == "/v1/messages" && name == "x-api-key" {
                continue; // carries the upstream's own credential there
            }
            assert_ne!(asked.header(name), Some(value), "{path}: {name}");
        }
        assert!(!format!("{:?}", asked.headers).contains(PROXY_TOKEN), "{path}");
        assert_eq!(asked.header("host"), Some(upstream.url().trim_start_matches("http://")));
        let encodings = asked.header("accept-encoding").unwrap_or("identity");
        assert_eq!(encodings, "identity", "{path}");
    }
}

#[test]
fn headers_that_connection_names_go_no_further() {
    let (gateway, upstream) = through();
    let chat = "/v1/chat/completions";
    let reply = Reply::json(200, &wire::chat(MODEL))
        .header("x-ratelimit-hop", "1")
        .header("x-ratelimit-limit", "2")
        .header("connection", "keep-alive, X-RateLimit-Hop");
    upstream.answer(chat, reply);
    let request =
        ask(chat, &surfaces()[0].1).header("session_id", "of-this-hop").header("originator", "mine");
    let answer = gateway.client().send(request.header("connection", "keep-alive, Session_Id"));
    answer.expect(200);
    let asked = upstream.last(chat);
    assert_eq!((asked.header("session_id"), asked.header("originator")), (None, Some("mine")));
    assert_eq!((answer.header("x-ratelimit-hop"), answer.header("x-ratelimit-limit")), (None, Some("2")));
}

#[test]
fn credentials_go_upstream_as_the_dialect_wants_them() {
    let (gateway, upstream) = through();
    for (path, body) in surfaces() {
        gateway.client().send(ask(path, &body)).expect(200);
        let asked = upstream.last(path);
        if path == "/v1/messages" {
            assert_eq!(asked.header("x-api-key"), Some("sk-upstream-key"));
            assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"), "the default");
        } else {
            assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"), "{path}");
        }
    }
    let (_, body) = surfaces().remove(2);
    let versioned = ask("/v1/messages", &body)
        .header("anthropic-version", "2024-10-22")
        .header("anthropic-beta", "one,two")
        .header("x-stainless-lang", "rust");
    gateway.client().send(versioned).expect(200);
    let asked = upstream.last("/v1/messages");
    assert_eq!(asked.header("anthropic-version"), Some("2024-10-22"));
    assert_eq!(asked.header("anthropic-beta"), Some("one,two"));
    assert_eq!(asked.header("x-stainless-lang"), Some("rust"));
}

#[test]
fn a_sites_headers_add_and_may_name_an_agent_but_replace_no_credential() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let headers = json!({"x-tenant": "blue", "user-agent": "site-agent/2", "authorization": "Bearer stolen"});
    gateway.add_as(
        &json!({"name": "site", "platform": "openai", "customHeaders": headers.to_string()}),
        &upstream,
    );
    gateway.client().chat(MODEL).expect(200);
    let asked = upstream.last("/v1/chat/completions");
    assert_eq!(asked.header("x-tenant"), Some("blue"));
    assert_eq!(asked.header("user-agent"), Some("site-agent/2"));
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
}

#[test]
fn a_sites_headers_add_no_second_credential() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::start();
    let headers =
        json!({"Authorization": "Bearer stolen", "X-Api-Key": "stolen", "x-goog-api-key": "stolen"});
    gateway.add_as(&json!({"name": "site", "platform": "claude", "customHeaders": headers}), &upstream);
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
    gateway.client().post("/v1/messages", &body).expect(200);
    let asked = upstream.last("/v1/messages");
    assert_eq!(asked.header("x-api-key"), Some("sk-upstream-key"));
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("x-goog-api-key"), None);
}

#[test]
fn only_listed_headers_come_back() {
    let (gateway, upstream) = through();
    let kept = [
        ("retry-after", "7"),
        ("x-ratelimit-remaining-requests", "99"),
        ("anthropic-ratelimit-tokens-remaining", "5"),
        ("openai-processing-ms", "12"),
    ];
    let dropped = [
        ("set-cookie", "session=stolen"),
        ("server", "secret-upstream/1.0"),
        ("via", "1.1 upstream"),
        ("x-powered-by", "something"),
        ("x-oneapi-request-id", "internal"),
        ("access-control-allow-origin", "https://upstream.example"),
        ("keep-alive", "timeout=5"),
        ("alt-svc", "h3=\":443\""),
    ];
    let decorate = |reply: Reply| {
        let all = kept.iter().chain(&dropped).chain(&[("x-request-id", "upstream-id-1")]);
        all.fold(reply, |reply, (name, value)| reply.header(name, value))
    };
    for streamed in [false, true] {
        let reply = if streamed {
            Reply::events(wire::chat_events(MODEL))
        } else {
            Reply::json(200, &wire::chat(MODEL))
        };
        upstream.answer("/v1/chat/completions", decorate(reply));
        let answer = gateway.client().stream(Caller::chat_ask(MODEL, streamed)).whole();
        for (name, value) in kept {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
        for (name, value) in dropped {
            assert_ne!(answer.header(name), Some(value), "{name}");
        }
        assert_eq!(answer.header("x-upstream-request-id"), Some("upstream-id-1"));
        assert_ne!(answer.header("x-request-id"), Some("upstream-id-1"), "that one is ours");
    }
}
