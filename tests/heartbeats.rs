//! Heartbeats: a stream that is silent for a while, before or within its output, is kept open for its reader, and its
//! content does not change.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{
    Caller, Gate, Gateway, Home, PROXY_TOKEN, Pair, Reply, Request, Stream, Upstream, eventually, wire,
};

const MODEL: &str = "model-silent";
const GEMINI: &str = "/v1beta/models/model-silent:streamGenerateContent";

const COMMENT: &str = ": keep-alive\n\n";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// Short enough for a test.
const EVERY_SECOND: [(&str, &str); 2] = [("STREAM_HEARTBEAT_SEC", "1"), ("STREAM_FIRST_HEARTBEAT_SEC", "1")];
const IN_THE_MIDDLE: [(&str, &str); 1] = [("STREAM_HEARTBEAT_SEC", "1")];

/// A dialect: its path, a request, and the form of its heartbeat.
struct Surface {
    path: &'static str,
    body: Value,
    events: Vec<String>,
    heartbeat: &'static str,
}

fn surfaces(model: &str) -> Vec<Surface> {
    let turns = json!([{"role": "user", "content": "x"}]);
    let ask = |more: Value| {
        let mut body = json!({"model": model, "stream": true});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let surface = |path, more, events, heartbeat| Surface { path, body: ask(more), events, heartbeat };
    vec![
        surface(CHAT, json!({"messages": turns}), wire::chat_events(model), COMMENT),
        surface("/v1/completions", json!({"prompt": "x"}), wire::completion_events(model), COMMENT),
        surface("/v1/responses", json!({"input": "x"}), wire::response_events(model), COMMENT),
        surface(MESSAGES, json!({"max_tokens": 9, "messages": turns}), wire::message_events(model), PING),
    ]
}

fn gemini_events() -> Vec<String> {
    let said = |text: &str| json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}]});
    let mut last = said("set.");
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({"promptTokenCount": 11, "candidatesTokenCount": 7});
    [said("Signals "), said("are "), last].iter().map(wire::data).collect()
}

fn gemini_body() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]})
}

fn gemini_site(gateway: &Gateway) -> Upstream {
    let upstream = Upstream::of_google(&[MODEL]);
    gateway.add_as(&json!({"name": "gemini", "platform": "gemini"}), &upstream);
    upstream
}

fn site(gateway: &Gateway) -> Upstream {
    let upstream = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    upstream
}

#[track_caller]
fn next(stream: &mut Stream) -> String {
    stream.next_event().expect("no break").expect("not the end")
}

/// Returns the rest of a stream, without its heartbeats.
#[track_caller]
fn rest(stream: Stream, heartbeat: &str) -> String {
    stream.whole().text().replace(heartbeat, "")
}

#[test]
fn a_stream_that_is_long_in_beginning_begins_with_heartbeats() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = site(&gateway);
    for Surface { path, body, events, heartbeat } in surfaces(MODEL) {
        // Before the head, and after events that are not output yet.
        for held in [false, true] {
            let gate = Gate::new();
            let reply = Reply::events(&events);
            let waits_in_body = held && path != "/v1/completions";
            let reply = if waits_in_body { reply.waits_for(1, &gate) } else { reply.head_waits_for(&gate) };
            upstream.answer(path, reply);
            let mut stream = gateway.client().stream(Request::post(path).json(&body));
            assert_eq!(stream.status, 200, "{path}");
            let kind = stream.header("content-type").unwrap_or_default();
            assert!(kind.starts_with("text/event-stream"), "{path}: {kind}");
            assert_eq!(
                (next(&mut stream), next(&mut stream)),
                (heartbeat.into(), heartbeat.into()),
                "{path}"
            );
            gate.open();
            assert_eq!(rest(stream, heartbeat), events.concat(), "{path}");
        }
    }
    for row in gateway.wait_for_logs(8) {
        assert_eq!((&row["status"], &row["promptTokens"]), (&json!("success"), &json!(11)), "{row}");
    }
}

#[test]
fn a_stream_of_gemini_is_kept_open_in_each_of_its_forms() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = gemini_site(&gateway);
    let events = gemini_events();
    let answers: Vec<Value> = wire::data_of(&events.concat());
    let held_back = |gate: &Gate| upstream.answer(GEMINI, Reply::events(&events).head_waits_for(gate));

    let gate = Gate::new();
    held_back(&gate);
    let ask = Request::post(&format!("{GEMINI}?alt=sse")).json(&gemini_body());
    let mut stream = gateway.client().stream(ask);
    assert_eq!(next(&mut stream), COMMENT);
    gate.open();
    assert_eq!(rest(stream, COMMENT), events.concat());

    // A blank means nothing between the items of an array.
    let gate = Gate::new();
    held_back(&gate);
    let mut stream = gateway.client().stream(Request::post(GEMINI).json(&gemini_body()));
    let first = stream.next_piece().expect("no break").expect("not the end");
    assert_eq!(first, b"\n");
    gate.open();
    let array: Value = serde_json::from_str(&stream.whole().text()).expect("JSON");
    assert_eq!(array, Value::from(answers.clone()));

    let gate = Gate::new();
    held_back(&gate);
    let sealed = json!({"model": MODEL, "request": gemini_body()});
    let path = "/v1internal:streamGenerateContent?alt=sse";
    let mut stream = gateway.client().stream(Request::post(path).json(&sealed));
    assert_eq!(next(&mut stream), COMMENT);
    gate.open();
    let told = wire::data_of(&rest(stream, COMMENT));
    let sealed: Vec<Value> = answers.iter().map(|answer| json!({"response": answer})).collect();
    assert_eq!(told, sealed);
}

#[test]
fn googles_sdk_for_javascript_reads_a_heartbeat_as_blanks_of_an_event() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = gemini_site(&gateway);
    let (events, before, within) = (gemini_events(), Gate::new(), Gate::new());
    upstream.answer(GEMINI, Reply::events(&events).waits_for(1, &within).head_waits_for(&before));
    let sdk = gateway.client().with("x-goog-api-client", "google-genai-sdk/1.30.0 gl-node/v20.20.2");
    let mut stream = sdk.stream(Request::post(&format!("{GEMINI}?alt=sse")).json(&gemini_body()));
    let piece = |stream: &mut Stream| {
        let piece = stream.next_piece().expect("no break").expect("not the end");
        String::from_utf8(piece).expect("text")
    };
    let mut sent = piece(&mut stream);
    assert_eq!(sent, "data: ", "nothing else may stand where its releases look for an event");
    before.open();
    while !sent.ends_with("\n\ndata: ") {
        sent += &piece(&mut stream);
    }
    within.open();
    sent += &stream.whole().text();
    assert!(sent.starts_with("data: ") && !sent.contains(": keep-alive"), "{sent}");
    assert!(sent.split_inclusive("\n\n").all(|event| event.starts_with("data: ")), "{sent}");
    assert_eq!(wire::data_of(&sent), wire::data_of(&events.concat()));
}

#[test]
fn failover_goes_on_behind_a_heartbeat() {
    let pair = Pair::with(&EVERY_SECOND);
    let (events, gate) = (wire::chat_events(Pair::MODEL), Gate::new());
    // It announces the role, and nothing more.
    pair.first.answer(CHAT, Reply::events(&events[..2]).waits_for(1, &gate).cut_after(2));
    let mut stream = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, true));
    assert_eq!(next(&mut stream), COMMENT);
    gate.open();
    assert_eq!(rest(stream, COMMENT), events.concat(), "all of it is the second's");
    let log = pair.gateway.wait_for_logs(2);
    let statuses: Vec<_> = log.iter().map(|row| row["status"].as_str().unwrap_or_default()).collect();
    assert!(statuses.contains(&"failed") && statuses.contains(&"success"), "{log:?}");
    assert!(pair.channel("first")["cooldownUntil"].is_string());
}

#[test]
fn when_all_fail_behind_a_heartbeat_an_event_of_the_clients_dialect_tells() {
    let gateway =
        Gateway::with(&[&EVERY_SECOND[..], &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "true")]].concat());
    let upstream = site(&gateway);
    for Surface { path, body, heartbeat, .. } in surfaces(MODEL) {
        let gate = Gate::new();
        upstream.answer(path, Reply::error(500, "out of order").head_waits_for(&gate));
        let mut stream = gateway.client().stream(Request::post(path).json(&body));
        assert_eq!(next(&mut stream), heartbeat, "{path}");
        gate.open();
        let told = rest(stream, heartbeat);
        let mut error = wire::data_of(&told);
        if path == "/v1/responses" {
            for kind in ["response.created", "response.in_progress"] {
                assert_eq!(error.remove(0)["type"], kind, "a response fails that has begun: {told}");
            }
        }
        assert_eq!(error.len(), 1, "{path}: nothing follows: {told}");
        let message = match path {
            "/v1/responses" => {
                assert_eq!(error[0]["type"], "response.failed", "{told}");
                &error[0]["response"]["error"]["message"]
            }
            MESSAGES => {
                assert!(told.starts_with("event: error\n"), "{told}");
                assert_eq!(error[0]["error"]["type"], "api_error", "{told}");
                &error[0]["error"]["message"]
            }
            _ => &error[0]["error"]["message"],
        };
        assert_eq!(message, "out of order", "{path}: {told}");
        let channel = gateway.channels(MODEL).remove(0);
        assert!(channel["cooldownUntil"].is_string(), "{path}: {channel}");
        let clear = format!("/api/routes/{}/cooldown/clear", channel["routeId"]);
        gateway.admin().post(&clear, &json!({})).expect(200);
    }
    for row in gateway.wait_for_logs(4) {
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(500)), "{row}");
    }
}

#[test]
fn a_response_that_fails_behind_a_heartbeat_repeats_its_request() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = site(&gateway);
    let gate = Gate::new();
    upstream.answer(RESPONSES, Reply::error(400, "no such thing").head_waits_for(&gate));
    let tool = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let body = json!({"model": MODEL, "stream": true, "input": "x", "tools": [tool], "metadata": {"a": "b"}});
    let mut stream = gateway.client().stream(Request::post(RESPONSES).json(&body));
    assert_eq!(next(&mut stream), COMMENT);
    gate.open();
    let events = wire::data_of(&rest(stream, COMMENT));
    let ids: Vec<_> =
        events.iter().map(|event| event["response"]["id"].as_str().unwrap_or_default()).collect();
    assert!(ids[0].starts_with("resp_") && ids[0] != "resp_unknown", "{ids:?}");
    let states = [("created", "in_progress"), ("in_progress", "in_progress"), ("failed", "failed")];
    assert_eq!(events.len(), states.len());
    for (number, (event, (kind, status))) in events.iter().zip(states).enumerate() {
        let response = &event["response"];
        assert_eq!(event["type"], format!("response.{kind}"));
        assert_eq!(event["sequence_number"], number, "{event}");
        assert_eq!((&response["id"], &response["status"]), (&json!(ids[0]), &json!(status)), "{event}");
        assert_eq!((&response["model"], &response["tools"]), (&json!(MODEL), &body["tools"]), "{event}");
        assert_eq!(response["metadata"], body["metadata"], "{event}");
        assert!(response["created_at"].as_u64().is_some_and(|time| time > 0), "{event}");
        for member in ["tool_choice", "parallel_tool_calls", "text", "temperature", "top_p", "truncation"] {
            assert!(!response[member].is_null(), "{member}: {event}");
        }
    }
    assert_eq!(events[2]["response"]["error"]["message"], "no such thing");
}

#[test]
fn a_failure_of_gemini_behind_a_heartbeat_is_told_in_each_of_its_forms() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = gemini_site(&gateway);
    let error = json!({"error": {"code": 400, "message": "no such thing", "status": "INVALID_ARGUMENT"}});
    for path in [GEMINI.to_owned(), format!("{GEMINI}?alt=sse")] {
        let gate = Gate::new();
        upstream.answer(GEMINI, Reply::json(400, &error).head_waits_for(&gate));
        let mut stream = gateway.client().stream(Request::post(&path).json(&gemini_body()));
        stream.next_piece().expect("no break").expect("a heartbeat");
        gate.open();
        let text = stream.whole().text();
        let told = if path.ends_with("sse") {
            wire::data_of(&text)
        } else {
            serde_json::from_str(&text).expect("an array")
        };
        let [Value::Object(told)] = &told[..] else { panic!("{path}: {text}") };
        assert_eq!(
            (&told["error"]["code"], &told["error"]["status"]),
            (&json!(400), &json!("INVALID_ARGUMENT")),
            "{text}"
        );
        assert_eq!(told["error"]["message"], "no such thing", "{text}");
    }
}

#[test]
fn in_the_middle_of_a_stream_heartbeats_stand_between_whole_events() {
    let gateway = Gateway::with(&IN_THE_MIDDLE);
    let upstream = site(&gateway);
    for Surface { path, body, events, heartbeat } in surfaces(MODEL) {
        // The silence falls into an event, the first half of which has come.
        let (gate, whole) = (Gate::new(), events.concat());
        let begun: usize = events[..events.len() - 3].iter().map(String::len).sum();
        let cut = begun + events[events.len() - 3].len() / 2;
        let pieces = [&whole.as_bytes()[..cut], &whole.as_bytes()[cut..]];
        upstream.answer(path, Reply::events(pieces).waits_for(1, &gate));
        let mut stream = gateway.client().stream(Request::post(path).json(&body));
        let mut got = String::new();
        for _ in 0..events.len() - 3 {
            got += &next(&mut stream);
        }
        assert_eq!(got, whole[..begun], "{path}");
        assert_eq!((next(&mut stream), next(&mut stream)), (heartbeat.into(), heartbeat.into()), "{path}");
        gate.open();
        assert_eq!(rest(stream, heartbeat), whole[begun..], "{path}");
    }
    for row in gateway.wait_for_logs(4) {
        assert_eq!((&row["status"], &row["promptTokens"]), (&json!("success"), &json!(11)), "{row}");
    }
}

/// The path of a response that is made in the background.
const ONE: &str = "/v1/responses/resp_up1";

/// Starts a gateway that was asked for that response.
fn with_response_in_background() -> (Gateway, Upstream) {
    let gateway = Gateway::with(&IN_THE_MIDDLE);
    let upstream = site(&gateway);
    let queued = json!({"id": "resp_up1", "object": "response", "status": "queued", "background": true,
        "model": MODEL, "output": [], "error": null, "usage": null});
    upstream.answer(RESPONSES, Reply::json(200, &queued));
    let ask = json!({"model": MODEL, "input": "x", "background": true});
    gateway.client().post(RESPONSES, &ask).expect(200);
    (gateway, upstream)
}

#[test]
fn a_response_whose_stream_is_taken_up_is_kept_open_too() {
    let (gateway, upstream) = with_response_in_background();
    let (gate, events) = (Gate::new(), wire::response_events(MODEL));
    // The silence falls into the second event.
    let (begun, whole) = (events[0].len(), events.concat());
    let pieces = [&whole.as_bytes()[..begun + 9], &whole.as_bytes()[begun + 9..]];
    upstream.answer(ONE, Reply::events(pieces).waits_for(1, &gate));
    let asked = Request::new("GET", &format!("{ONE}?stream=true&starting_after=0"));
    let mut stream = gateway.client().stream(asked);
    assert_eq!(next(&mut stream), events[0]);
    assert_eq!((next(&mut stream), next(&mut stream)), (COMMENT.into(), COMMENT.into()));
    gate.open();
    assert_eq!(rest(stream, COMMENT), whole[begun..]);
}

#[test]
fn no_heartbeat_falls_into_a_long_event_of_a_stream_that_is_taken_up() {
    let (gateway, upstream) = with_response_in_background();
    // A part of the event is passed on before its end comes, with the silence of several heartbeats between.
    let mut events = wire::response_events(MODEL);
    let long =
        json!({"type": "response.output_text.delta", "delta": "x".repeat(200_000), "sequence_number": 4});
    events.insert(1, format!("event: response.output_text.delta\ndata: {long}\n\n"));
    let whole = events.concat();
    let cut = events[0].len() + 150_000;
    let pieces = [&whole.as_bytes()[..cut], &whole.as_bytes()[cut..]];
    upstream.answer(ONE, Reply::events(pieces).paced(Duration::from_millis(2_500)));
    let asked = Request::new("GET", &format!("{ONE}?stream=true&starting_after=0"));
    assert_eq!(gateway.client().stream(asked).whole().text(), whole);
}

#[test]
fn an_upstreams_own_heartbeats_do_not_keep_a_converted_stream_silent() {
    let gateway = Gateway::with(&IN_THE_MIDDLE);
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    let mut events = wire::chat_events(MODEL);
    let rest_of = events.split_off(2);
    // The last of them waits, so that the client has the content before the silence.
    let still_here = std::iter::repeat_n(": still here\n\n".to_owned(), 30);
    let reply = Reply::events(events.into_iter().chain(still_here).chain(rest_of));
    upstream.answer(CHAT, reply.paced(Duration::from_millis(100)));
    let body = surfaces(MODEL).pop().expect("messages").body;
    let text = gateway.client().stream(Request::post(MESSAGES).json(&body)).whole().text();
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle}: {text}"));
    assert!(at("Signals ") < at(PING) && at(PING) < at("set."), "{text}");
    assert!(text.ends_with("data: {\"type\":\"message_stop\"}\n\n"), "{text}");
}

#[test]
fn no_heartbeat_goes_where_the_operator_wants_none() {
    let gateway = Gateway::with(&[("STREAM_HEARTBEAT_SEC", "0"), ("STREAM_FIRST_HEARTBEAT_SEC", "0")]);
    let upstream = site(&gateway);
    let events = wire::chat_events(MODEL);
    let pause = Duration::from_millis(1_500);
    upstream.answer(CHAT, Reply::events(&events[..3]).paced(pause).after(pause).cut_after(5));
    let text = gateway.client().stream(Caller::chat_ask(MODEL, true)).whole().text();
    assert!(text.starts_with(&events[..3].concat()) && !text.contains(COMMENT), "{text}");
}

#[test]
fn a_client_that_leaves_behind_a_heartbeat_frees_the_upstream() {
    let gateway = Gateway::with(&EVERY_SECOND);
    let upstream = site(&gateway);
    upstream.answer(CHAT, Reply::stall());
    let mut stream = gateway.client().stream(Caller::chat_ask(MODEL, true));
    assert_eq!(next(&mut stream), COMMENT);
    let asked = upstream.last(CHAT);
    drop(stream);
    eventually("the upstream connection is closed", || asked.hung_up().then_some(()));
    let row = &gateway.wait_for_logs(1)[0];
    assert!(row["errorMessage"].as_str().is_some_and(|text| text.contains("client_closed")), "{row}");
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], json!(null));
}

// === behind nginx ===

/// nginx, as operators put it in front of the gateway.
struct Nginx {
    process: Child,
    address: SocketAddr,
    home: Arc<Home>,
}

impl Nginx {
    /// Starts nginx, which waits for up to `patience` (`50s`) for the next bytes of an answer.
    fn before(gateway: &Gateway, patience: &str) -> Self {
        let home = Home::new();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let folder = home.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
            .collect();
        let configuration = format!(
            "daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
            server {{ listen {address}; location / {{ proxy_pass http://{}; proxy_http_version 1.1; \
            proxy_read_timeout {patience}; }} }} }}\n",
            gateway.address()
        );
        let file = home.path().join("nginx.conf");
        std::fs::write(&file, configuration).expect("a configuration");
        let process = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(home.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed: `make test-nginx` sees to it");
        let nginx = Self { process, address, home };
        eventually("nginx listens", || TcpStream::connect(address).ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master process ends its workers; if it were killed, they would stay.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.process.wait();
        if thread::panicking() {
            let said = std::fs::read_to_string(self.home.path().join("error.log"));
            eprintln!("--- nginx said:\n{}", said.unwrap_or_default());
        }
    }
}

/// With the default of every setting.
#[test]
#[ignore = "takes two minutes and needs nginx: make test-nginx"]
fn a_minute_of_silence_passes_through_nginx() {
    let minute = Duration::from_secs(60);
    let lead = |patience: &str, is_long_in_beginning: bool| {
        let gateway = Gateway::start();
        let upstream = site(&gateway);
        let nginx = Nginx::before(&gateway, patience);
        thread::scope(|scope| {
            for Surface { path, body, events, heartbeat } in surfaces(MODEL) {
                let reply = Reply::events(&events).pauses_at(events.len() - 3, minute);
                upstream.answer(path, if is_long_in_beginning { reply.after(minute) } else { reply });
                let client =
                    Caller::new(nginx.address).with("authorization", &format!("Bearer {PROXY_TOKEN}"));
                scope.spawn(move || {
                    let mut connection = client.connect();
                    connection.set_timeout(3 * minute);
                    connection.write(&client.bytes(Request::post(path).json(&body))).expect("sent");
                    let stream = connection.into_stream();
                    assert_eq!(stream.status, 200, "{path} {patience}");
                    assert_eq!(rest(stream, heartbeat), events.concat(), "{path} {patience}");
                });
            }
        });
        let count = surfaces(MODEL).len();
        for row in gateway.wait_for_logs(count) {
            assert_eq!((&row["status"], &row["promptTokens"]), (&json!("success"), &json!(11)), "{row}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lead("50s", true));
        // Once output has begun, heartbeats come more often.
        scope.spawn(|| lead("20s", false));
    });
}
