//! An operator tries out the proxy through the admin API.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Gateway, Reply, Request, Upstream, eventually};

const MODEL: &str = "test-model";

fn chat(more: Value) -> Value {
    let mut body =
        json!({ "model": MODEL, "messages": [{ "role": "user", "content": "x" }], "odd": { "a": [1] } });
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    json!({ "path": CHAT, "jsonBody": body })
}

#[test]
fn a_try_goes_the_proxys_way_and_uses_up_no_limit() {
    let gateway = Gateway::with(&[("AUTHENTICATED_RATE_LIMIT_MAX", "100")]);
    let upstream = Upstream::start(&[MODEL]);
    gateway.add("Relay", &upstream);
    // More calls than the limit of the global token would allow.
    for _ in 0..3 {
        let answer = gateway.admin().post("/api/test/proxy", &chat(json!({ "stream": true }))).expect(200);
        assert_eq!(answer["object"], "chat.completion", "{answer}");
    }
    let sent = upstream.last(CHAT).json();
    assert_eq!((&sent["stream"], &sent["odd"]), (&json!(false), &json!({ "a": [1] })));
    let left = (0..200).filter(|_| gateway.client().get("/v1/models").status == 200).count();
    assert_eq!(left, 100, "all that the global token may ask is still there");
    gateway.admin().post("/api/test/proxy", &chat(json!({}))).expect(200);
}

#[test]
fn what_is_no_path_of_the_proxy_is_refused_by_name() {
    let gateway = Gateway::start();
    for path in ["/api/accounts", "/v1/files/..", "/metrics"] {
        let error =
            gateway.admin().post("/api/test/proxy", &json!({ "path": path })).expect(400)["error"].clone();
        assert_eq!(error["type"], "validation_error");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(path)), "{error}");
    }
    let missing = json!({ "path": "/v1/files/none", "method": "GET", "requestKind": "empty" });
    let error = gateway.admin().post("/api/test/proxy", &missing).expect(404)["error"].clone();
    assert_eq!(error["type"], "not_found_error");
    let error = gateway.admin().post("/api/test/chat", &json!({ "model": "m" })).expect(400)["error"].clone();
    assert!(error.is_string(), "{error}");
}

#[test]
fn a_failure_comes_as_it_is_but_never_as_a_lost_login() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    upstream.answer(CHAT, Reply::json(422, &json!({ "error": { "message": "odd", "type": "x" } })));
    for path in ["/api/test/proxy", "/api/test/proxy/stream"] {
        let error = gateway.admin().post(path, &chat(json!({}))).expect(422)["error"].clone();
        assert_eq!(error["message"], "odd");
    }
    upstream.answer(CHAT, Reply::json(403, &json!({ "error": { "message": "no", "type": "x" } })));
    gateway.admin().post("/api/test/proxy", &chat(json!({}))).expect(502);
}

#[test]
fn a_forced_channel_answers_alone_or_not_at_all() {
    let gateway = Gateway::start();
    let (first, second) = (Upstream::start(&[MODEL]), Upstream::start(&[MODEL]));
    gateway.add("First", &first);
    gateway.add("Second", &second);
    let routes = gateway.admin().get("/api/routes").expect(200);
    let channels = routes[0]["channels"].as_array().expect("channels").clone();
    let of = |site: &str| {
        channels.iter().find(|channel| channel["site"]["name"] == site).expect("a channel")["id"].clone()
    };
    let forced = |channel: &Value| {
        let mut asked = chat(json!({}));
        asked["forcedChannelId"] = channel.clone();
        gateway.admin().post("/api/test/proxy", &asked)
    };
    for _ in 0..4 {
        forced(&of("Second")).expect(200);
    }
    assert_eq!((first.asked_for(CHAT).len(), second.asked_for(CHAT).len()), (0, 4));
    second.answer(CHAT, Reply::json(500, &json!({ "error": { "message": "down" } })));
    forced(&of("Second")).expect(500);
    let error = forced(&of("Second")).expect(503)["error"].clone();
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains(&of("Second").to_string())),
        "{error}"
    );
    forced(&json!(999_999)).expect(503);
    assert!(first.asked_for(CHAT).is_empty(), "nobody else was asked");
    // A failure for all clients becomes an event; one of a forced channel must not, because it would be untrue.
    gateway
        .client()
        .post(CHAT, &json!({ "model": "none", "messages": [{ "role": "user", "content": "x" }] }));
    let events = eventually("the failure of a client's request is told", || {
        let events = gateway.admin().get("/api/events").expect(200).to_string();
        events.contains("No available channel").then_some(events)
    });
    assert!(!events.contains("All channels failed"), "{events}");
}

#[test]
fn a_streamed_try_is_told_as_events() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let asked = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "x" }] });
    let answer = gateway.admin().send(Request::post("/api/test/chat/stream").json(&asked));
    assert_eq!((answer.status, answer.header("x-accel-buffering")), (200, Some("no")));
    assert!(answer.text().trim_end().ends_with("data: [DONE]"), "{}", answer.text());
    assert_eq!(upstream.last(CHAT).json()["stream"], true);
    // A file is not a stream of events: it is returned as a file.
    let file = gateway.admin().post(
        "/api/test/proxy",
        &json!({
            "path": "/v1/files", "requestKind": "multipart", "multipartFields": { "purpose": "assistants" },
            "multipartFiles": [{ "name": "a.txt", "mimeType": "text/plain", "dataUrl": "data:text/plain;base64,bGluZSBvbmUKbGluZSB0d28K" }],
        }),
    );
    let id = file.expect(200)["id"].as_str().expect("an id").to_owned();
    let content =
        json!({ "path": format!("/v1/files/{id}/content"), "method": "GET", "requestKind": "empty" });
    let whole = gateway.admin().post("/api/test/proxy", &content).expect(200);
    assert_eq!(whole, json!({ "raw": "line one\nline two\n" }));
    let events = gateway.admin().post("/api/test/proxy/stream", &content);
    assert_eq!(events.text(), "data: line one\ndata: line two\ndata: \n\ndata: [DONE]\n\n");
}

#[test]
fn a_job_whose_stream_breaks_off_has_failed() {
    let piece = json!({"id": "c", "object": "chat.completion.chunk", "model": MODEL,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi there"}, "finish_reason": null}]});
    let piece = format!("data: {piece}\n\n");
    let talk = json!([{ "role": "user", "content": "x" }]);
    for (path, body) in [
        (CHAT, json!({ "model": MODEL, "messages": talk })),
        ("/v1/messages", json!({ "model": MODEL, "max_tokens": 9, "messages": talk })),
        ("/v1/responses", json!({ "model": MODEL, "input": "x" })),
    ] {
        // A broken stream rests its channel, so each is the first one of its gateway.
        let (gateway, upstream) = Gateway::serving(&[MODEL]);
        upstream.answer(path, Reply::events([piece.as_str(), "data: [DONE]\n\n"]).cut_after(1));
        let begun = json!({ "path": path, "stream": true, "jsonBody": body });
        let begun = gateway.admin().post("/api/test/proxy/jobs", &begun).expect(202);
        let job = format!("/api/test/proxy/jobs/{}", begun["jobId"].as_str().expect("an id"));
        let ended = eventually("the job ends", || {
            let job = gateway.admin().get(&job).expect(200);
            (job["status"] != "pending").then_some(job)
        });
        assert_eq!(
            (&ended["status"], &ended["error"]["type"]),
            (&json!("failed"), &json!("stream_error")),
            "{ended}"
        );
        assert!(ended["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{ended}");
        assert!(ended["result"]["raw"].as_str().is_some_and(|text| text.contains("hi there")), "{ended}");
    }
}

#[test]
fn a_job_is_begun_looked_at_and_cancelled() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let jobs = "/api/test/proxy/jobs";
    let begin = || gateway.admin().post(jobs, &chat(json!({}))).expect(202);
    let look =
        |job: &Value| gateway.admin().get(&format!("{jobs}/{}", job["jobId"].as_str().expect("an id")));
    let begun = begin();
    assert_eq!(begun["status"], "pending");
    assert!(begun["expiresAt"].as_str() > begun["createdAt"].as_str(), "{begun}");
    let ended = eventually("the job ends", || {
        let job = look(&begun).expect(200);
        (job["status"] != "pending").then_some(job)
    });
    assert_eq!(
        (&ended["status"], &ended["result"]["object"]),
        (&json!("succeeded"), &json!("chat.completion"))
    );
    upstream.answer(CHAT, Reply::json(400, &json!({ "error": { "message": "odd", "type": "x" } })));
    let begun = begin();
    let ended = eventually("the job fails", || {
        let job = look(&begun).expect(200);
        (job["status"] != "pending").then_some(job)
    });
    assert_eq!((&ended["status"], &ended["error"]["message"]), (&json!("failed"), &json!("odd")));
    upstream.answer(CHAT, Reply::stall());
    let before = upstream.asked_for(CHAT).len();
    let begun = begin();
    eventually("it is asked", || (upstream.asked_for(CHAT).len() > before).then_some(()));
    let path = format!("{jobs}/{}", begun["jobId"].as_str().expect("an id"));
    assert_eq!(gateway.admin().delete(&path).expect(200), json!({ "success": true }));
    assert_eq!(look(&begun).expect(200)["status"], "cancelled");
    eventually("its call is given up", || upstream.last(CHAT).hung_up().then_some(()));
    assert_eq!(gateway.admin().delete(&format!("{jobs}/none")).expect(404)["error"]["type"], "not_found");
    for answer in
        [gateway.admin().get("/api/test/chat/jobs/none"), gateway.admin().delete("/api/test/chat/jobs/none")]
    {
        assert_eq!(answer.expect(404), json!({ "error": "Job not found" }));
    }
}
