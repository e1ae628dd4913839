//! Streams that break after the client has begun to read: it is too late for another channel, so the client gets an error
//! in its own dialect, and the log has it.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, COMPLETIONS, MESSAGES, RESPONSES};
use crate::support::{Caller, Gate, Gateway, Pair, Reply, Request, Upstream, eventually, wire};

#[test]
fn a_stream_that_breaks_after_content_ends_with_an_error_of_its_dialect() {
    let (chat, responses, messages) = (
        wire::chat_events(Pair::MODEL),
        wire::response_events(Pair::MODEL),
        wire::message_events(Pair::MODEL),
    );
    let messages_list = json!([{"role": "user", "content": "x"}]);
    for (path, body, events, kept) in [
        (CHAT, json!({"messages": messages_list}), chat, 3),
        ("/v1/responses", json!({"input": "x"}), responses, 6),
        ("/v1/messages", json!({"max_tokens": 9, "messages": messages_list}), messages, 5),
    ] {
        let pair = Pair::on("new-api", &[]);
        pair.first.answer(path, Reply::events(&events).cut_after(kept));
        let mut body = body;
        (body["model"], body["stream"]) = (json!(Pair::MODEL), json!(true));
        let answer = pair.gateway.client().stream(Request::post(path).json(&body)).whole();
        let text = answer.text();
        let sent = events[..kept].concat();
        let last = text.strip_prefix(&sent).unwrap_or_else(|| panic!("{path}: {text}"));
        let last = match path {
            "/v1/messages" => {
                let stop =
                    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
                last.strip_prefix(stop).unwrap_or_else(|| panic!("the open block is closed: {last}"))
            }
            _ => last,
        };
        let data = last.lines().find_map(|line| line.strip_prefix("data: ")).expect("one more event");
        let error: Value = serde_json::from_str(data).expect("JSON");
        let message = match path {
            CHAT => &error["error"]["message"],
            "/v1/responses" => {
                assert!(last.starts_with("event: response.failed\n"), "{last}");
                assert_eq!(error["type"], "response.failed");
                assert_eq!(error["response"]["id"], "resp_stub", "the response that broke");
                assert_eq!(error["response"]["model"], Pair::MODEL, "with all that is known of it");
                assert_eq!(error["response"]["status"], "failed");
                &error["response"]["error"]["message"]
            }
            _ => {
                assert!(last.starts_with("event: error\n"), "{last}");
                assert_eq!(error["type"], "error");
                assert_eq!(error["error"]["type"], "api_error");
                &error["error"]["message"]
            }
        };
        let known_by = match path {
            "/v1/responses" => "stream closed before response.completed: ",
            _ => "Upstream stream broke: ",
        };
        assert!(message.as_str().is_some_and(|text| text.starts_with(known_by)), "{path}: {last}");
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{path}: no invented end");
        assert!(pair.second.asked_for(path).is_empty(), "{path}: too late for another upstream");
        let row = &pair.gateway.wait_for_logs(1)[0];
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(200)), "{row}");
        assert!(pair.channel("first")["cooldownUntil"].is_string(), "{path}");
    }
}

#[test]
fn a_stream_that_a_stop_cuts_off_ends_with_an_error_of_its_dialect() {
    let upstream = Upstream::start(&[Pair::MODEL]);
    let variables = [("SHUTDOWN_GRACE_SEC", "1"), ("STREAM_FIRST_HEARTBEAT_SEC", "1")];
    let mut gateway = Gateway::with(&variables).in_front_of("new-api", &upstream);
    let open = |path, mut body: Value, reply| {
        upstream.answer(path, reply);
        (body["model"], body["stream"]) = (json!(Pair::MODEL), json!(true));
        let mut stream = gateway.client().stream(Request::post(path).json(&body));
        stream.next_event().expect("no break").expect("not the end");
        stream
    };
    let (chat, responses, messages) = (
        wire::chat_events(Pair::MODEL),
        wire::response_events(Pair::MODEL),
        wire::message_events(Pair::MODEL),
    );
    let said = json!([{"role": "user", "content": "x"}]);
    let ask = json!({"messages": said, "max_tokens": 9});
    let streams = [
        (CHAT, open(CHAT, ask.clone(), Reply::events(chat).stalls_after(3))),
        (RESPONSES, open(RESPONSES, json!({"input": "x"}), Reply::events(responses).stalls_after(6))),
        (MESSAGES, open(MESSAGES, ask.clone(), Reply::events(messages).stalls_after(5))),
        // These have got no more than a heartbeat.
        (RESPONSES, open(RESPONSES, json!({"input": "x"}), Reply::stall())),
        (CHAT, open(CHAT, ask, Reply::stall())),
    ];
    gateway.signal("TERM");
    for (path, stream) in streams {
        let (rest, end) = stream.rest();
        end.unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = String::from_utf8_lossy(&rest);
        let told = wire::data_of(&text).pop().unwrap_or_else(|| panic!("{path}: {text}"));
        let error = told["response"].get("error").unwrap_or(&told["error"]);
        assert!(
            error["message"].as_str().is_some_and(|why| why.contains("service stopped")),
            "{path}: {text}"
        );
        assert!(!text.contains("[DONE]") && !text.contains("message_stop"), "{path}: no invented end");
    }
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn an_error_event_after_content_is_passed_on_and_counted() {
    let pair = Pair::start();
    let error =
        wire::data(&json!({"error": {"message": "overloaded", "type": "server_error", "code": "busy"}}));
    let mut events = wire::chat_events(Pair::MODEL)[..3].to_vec();
    events.push(error.clone());
    let gate = Gate::new();
    pair.first.answer(CHAT, Reply::events(&events).waits_for(3, &gate));
    let mut stream = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, true));
    // Once the client has content, nothing may be tried again.
    let begun: String =
        (0..3).map(|_| stream.next_event().expect("no break").expect("not the end")).collect();
    assert_eq!(begun, events[..3].concat());
    gate.open();
    let text = stream.whole().text();
    let last = text.trim_end().rsplit("data: ").next().unwrap_or_default();
    let told: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(told["error"]["message"], "overloaded", "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    assert_eq!(pair.gateway.wait_for_logs(1)[0]["status"], "failed");
    assert!(pair.channel("first")["cooldownUntil"].is_string());
}

#[test]
fn an_upstreams_own_failed_response_keeps_its_output_and_usage() {
    let pair = Pair::on("new-api", &[]);
    let mut failed = wire::response(Pair::MODEL);
    failed["status"] = json!("failed");
    failed["error"] = json!({"code": "rate_limit_exceeded", "message": "Slow down"});
    let mut events = wire::response_events(Pair::MODEL)[..6].to_vec();
    events.push(wire::named(&json!({"type": "response.failed", "sequence_number": 6, "response": failed})));
    pair.first.answer("/v1/responses", Reply::events(&events));
    let ask = json!({"model": Pair::MODEL, "input": "x", "stream": true});
    let text = pair.gateway.client().stream(Request::post("/v1/responses").json(&ask)).whole().text();
    assert!(text.starts_with(&events[..6].concat()), "{text}");
    let told = wire::data_of(&text).pop().expect("an event");
    assert_eq!(told, json!({"type": "response.failed", "sequence_number": 6, "response": failed}));
}

#[test]
fn an_event_that_breaks_in_the_middle_is_kept_from_the_client() {
    let content = wire::chat_content(Pair::MODEL, "x");
    let half = "data: {\"choices\":[{\"del".to_owned();
    let error = "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\"}}".to_owned();
    for last in [half, error] {
        let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
        upstream.answer(CHAT, Reply::events([content.clone(), last.clone()]));
        let text = gateway.client().chat_streamed(Pair::MODEL).text();
        let rest = text.strip_prefix(&content).unwrap_or_else(|| panic!("{text}"));
        let told = rest.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n"));
        let told: Value = serde_json::from_str(told.unwrap_or_default()).expect("one event of JSON");
        assert_eq!(told["error"]["message"] == "gone", last.contains("gone"), "{text}");
    }
}

#[test]
fn half_an_event_behind_the_finish_is_kept_from_the_client() {
    let half = "data: {\"id\":\"c1\",\"usa".to_owned();
    let (chat, completions) = (wire::chat_events(Pair::MODEL), wire::completion_events(Pair::MODEL));
    let is_finish = |event: &String| event.contains("\"finish_reason\":\"");
    let chat = &chat[..=chat.iter().position(is_finish).expect("a finish")];
    let completions = &completions[..=completions.iter().position(is_finish).expect("a finish")];
    for (path, events, is_cut) in [(CHAT, chat, false), (CHAT, chat, true), (COMPLETIONS, completions, false)]
    {
        let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
        let mut sent = events.to_vec();
        sent.push(half.clone());
        let reply = Reply::events(&sent);
        upstream.answer(path, if is_cut { reply.cut_after(sent.len()) } else { reply });
        let body = json!({"model": Pair::MODEL, "stream": true, "prompt": "x",
            "messages": [{"role": "user", "content": "x"}]});
        let text = gateway.client().stream(Request::post(path).json(&body)).whole().text();
        assert_eq!(text, events.concat(), "{path} {is_cut}");
        assert_eq!(gateway.wait_for_logs(1)[0]["status"], "success");
    }
}

#[test]
fn nothing_behind_the_end_reaches_the_client_however_the_bytes_are_cut() {
    for (path, events) in
        [(CHAT, wire::chat_events(Pair::MODEL)), (MESSAGES, wire::message_events(Pair::MODEL))]
    {
        let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
        let ghost = events.iter().find(|event| event.contains("delta")).expect("a delta");
        let sent = [events.concat(), ghost.clone(), "data: {\"id\":\"half".to_owned()].concat();
        upstream.answer(path, Reply::events(&[sent]));
        let body = json!({"model": Pair::MODEL, "stream": true, "max_tokens": 9,
            "messages": [{"role": "user", "content": "x"}]});
        let text = gateway.client().stream(Request::post(path).json(&body)).whole().text();
        assert_eq!(text, events.concat(), "{path}");
    }
}

#[test]
fn a_break_behind_the_end_event_takes_nothing_from_a_gathered_answer() {
    for kept in [wire::chat_events(Pair::MODEL).len(), wire::chat_events(Pair::MODEL).len() - 1] {
        let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
        upstream.answer(CHAT, Reply::events(wire::chat_events(Pair::MODEL)).cut_after(kept));
        let answer = gateway.client().chat(Pair::MODEL).expect(200);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    }
}

#[test]
fn a_gathered_stream_that_ends_without_its_last_event_is_asked_for_elsewhere() {
    let (chat, messages) = (wire::chat_events(Pair::MODEL), wire::message_events(Pair::MODEL));
    let responses = wire::response_events(Pair::MODEL);
    let said = json!([{"role": "user", "content": "x"}]);
    for (platform, asked, path, events, missing) in [
        // Without a finish reason and without [DONE].
        ("new-api", CHAT, CHAT, &chat, 3),
        ("new-api", MESSAGES, MESSAGES, &messages, 1),
        ("new-api", RESPONSES, RESPONSES, &responses, 1),
        ("claude", MESSAGES, CHAT, &messages, 1),
    ] {
        let pair = Pair::on(platform, &[]);
        pair.first.answer(asked, Reply::events(&events[..events.len() - missing]));
        pair.second.answer(asked, Reply::events(events));
        let body = match path {
            RESPONSES => json!({"model": Pair::MODEL, "input": "x"}),
            _ => json!({"model": Pair::MODEL, "max_tokens": 9, "messages": said}),
        };
        let answer = pair.gateway.client().post(path, &body).expect(200);
        assert!(answer.to_string().contains("Signals are set."), "{platform} {path}: {answer}");
        let log = pair.gateway.wait_for_logs(2);
        let failed = log.iter().find(|row| row["status"] != "success").expect("a failed row").to_string();
        assert!(failed.contains("before its end"), "{platform} {path}: {failed}");
    }
}

#[test]
fn an_event_of_broken_json_is_no_content() {
    let broken = "data: {\"choices\":[{\"del\n\n".to_owned();
    let pair = Pair::start();
    pair.first.answer(CHAT, Reply::events([broken.clone()]).cut_after(1));
    let text = pair.gateway.client().chat_streamed(Pair::MODEL).text();
    assert_eq!(text, wire::chat_events(Pair::MODEL).concat(), "another channel can still answer");

    // After content, it is a gap in the answer, which no conversion hides.
    let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
    let mut events = wire::chat_events(Pair::MODEL);
    events.insert(3, broken);
    upstream.answer("/v1/messages", Reply::error(404, "Not found"));
    upstream.answer("/v1/responses", Reply::error(404, "Not found"));
    upstream.answer(CHAT, Reply::events(&events));
    let body = json!({"model": Pair::MODEL, "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": "x"}]});
    let text = gateway.client().send(Request::post("/v1/messages").json(&body)).text();
    assert!(text.contains("event: error\n") && text.contains("not valid JSON"), "{text}");
    assert!(!text.contains("message_stop"), "{text}");
}

#[test]
fn a_stream_that_falls_silent_after_content_is_ended_with_an_error() {
    let pair = Pair::with(&[("PROXY_STREAM_IDLE_TIMEOUT_SEC", "1")]);
    let events = wire::chat_events(Pair::MODEL);
    pair.first.answer(CHAT, Reply::events(&events).stalls_after(3));
    let text = pair.gateway.client().chat_streamed(Pair::MODEL).text();
    assert!(text.starts_with(&events[..3].concat()), "{text}");
    assert!(text.contains("\"error\"") && !text.contains("[DONE]"), "{text}");
    let asked = pair.first.last(CHAT);
    eventually("the upstream is free again", || asked.hung_up().then_some(()));
}

#[test]
fn a_last_error_without_its_blank_line_leaves_no_credential_in_the_log() {
    const KEY: &str = "site-key-of-no-usual-form";
    let told = wire::data(&json!({"error": {"message": format!("user {KEY} may not"), "type": "denied"}}));
    let upstream = Upstream::start(&[Pair::MODEL]);
    let gateway = Gateway::start();
    let site = json!({"name": "talkative", "url": upstream.url(), "platform": "openai"});
    let account = gateway.create_account(&gateway.create_site(&site), KEY);
    gateway.wait_for_task(&account);
    let gate = Gate::new();
    let events = [wire::chat_content(Pair::MODEL, "x"), told.trim_end().to_owned()];
    upstream.answer(CHAT, Reply::events(events).waits_for(1, &gate));
    let mut stream = gateway.client().stream(Caller::chat_ask(Pair::MODEL, true));
    stream.next_event().expect("no break").expect("content");
    gate.open();
    stream.whole();
    let log = json!(gateway.wait_for_logs(1)).to_string();
    assert!(log.contains("may not") && !log.contains(KEY), "{log}");
    assert!(!gateway.output().contains(KEY), "{}", gateway.output());
}
