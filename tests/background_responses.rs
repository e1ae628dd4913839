//! Responses in the background: their usage is booked once, to the key that requested them.

use serde_json::{Value, json};

use crate::support::paths::RESPONSES;
use crate::support::{Caller, Gate, Gateway, Pair, Reply, Request, Upstream, eventually, wire};

const ONE: &str = "/v1/responses/resp_up1";
const MODEL: &str = "model-kept";
const KEY: &str = "sk-team-background-0123456789";
/// The usage of every answer in the background, in tokens.
const TOKENS: u64 = 110;

fn world() -> (Gateway, Upstream) {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    upstream.answer(RESPONSES, Reply::json(200, &at("queued")));
    (gateway, upstream)
}

fn at(status: &str) -> Value {
    json!({"id": "resp_up1", "object": "response", "status": status, "background": true, "model": MODEL,
           "output": [], "error": null, "usage": null})
}

fn done() -> Value {
    let mut response = wire::response(MODEL);
    response["id"] = json!("resp_up1");
    response["usage"] = json!({"input_tokens": 90, "output_tokens": 20, "total_tokens": TOKENS});
    response
}

/// Creates a key with a token budget that the first answer uses up.
#[track_caller]
fn limited(gateway: &Gateway) -> Caller {
    let budgets = json!([{"period": "day", "maxTokens": TOKENS, "models": [MODEL]}]);
    let body = json!({"name": "team", "key": KEY, "supportedModels": ["*"], "budgets": budgets});
    gateway.admin().post("/api/downstream-keys", &body).expect(200);
    gateway.with_token(KEY)
}

#[track_caller]
fn begin(client: &Caller) {
    let ask = json!({"model": MODEL, "input": "Which way?", "background": true});
    assert_eq!(client.post(RESPONSES, &ask).expect(200)["status"], "queued");
}

#[test]
fn what_a_response_in_the_background_uses_is_booked_once_on_its_key_whoever_reads_it_and_however_often() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    begin(&client);
    upstream.answer(ONE, Reply::json(200, &at("in_progress")));
    client.get(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (0, 1), "it is still made");
    upstream.answer(ONE, Reply::json(200, &done()));
    for _ in 0..3 {
        assert_eq!(client.get(ONE).expect(200), done());
    }
    upstream.answer(&format!("{ONE}/cancel"), Reply::json(200, &done()));
    client.post(&format!("{ONE}/cancel"), &json!({})).expect(200);
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
    let refused = client.post(RESPONSES, &json!({"model": MODEL, "input": "More?"})).expect(429);
    assert_eq!(refused["error"]["code"], "key_over_budget");
    // The row of the request and the key holder's own usage say the same.
    let row = gateway.wait_for_logs(1)[0].clone();
    assert_eq!((&row["promptTokens"], &row["totalTokens"]), (&json!(90), &json!(TOKENS)), "{row}");
    let told = client.get("/v1/usage").expect(200);
    assert_eq!((&told["totals"]["inputTokens"], &told["daily"][29]["tokens"]), (&json!(90), &json!(TOKENS)));
    assert_eq!(told["totals"]["cost"], told["daily"][29]["cost"]);
}

#[test]
fn it_is_booked_by_a_stream_that_is_taken_up_and_by_one_that_the_client_left() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    begin(&client);
    let events = [
        wire::named(&json!({"type": "response.output_text.delta", "sequence_number": 5, "item_id": "m",
                            "output_index": 0, "content_index": 0, "delta": "set."})),
        wire::named(&json!({"type": "response.completed", "sequence_number": 6, "response": done()})),
    ];
    upstream.answer(ONE, Reply::events(&events));
    for _ in 0..2 {
        let told = client.get(&format!("{ONE}?stream=true&starting_after=4"));
        assert_eq!((told.status, told.text()), (200, events.concat()));
        eventually("it is booked", || (gateway.used_of_budget() == (TOKENS, 1)).then_some(()));
    }
}

#[test]
fn an_error_in_a_stream_that_is_taken_up_tells_the_response_that_was_asked_for() {
    let (gateway, upstream) = world();
    let client = gateway.client();
    begin(&client);
    let events = [
        wire::named(&json!({"type": "response.output_text.delta", "sequence_number": 5, "item_id": "m",
                            "output_index": 0, "content_index": 0, "delta": "set."})),
        wire::named(&json!({"type": "error", "code": "server_error", "message": "gone"})),
    ];
    upstream.answer(ONE, Reply::events(&events));
    let text = client.get(&format!("{ONE}?stream=true&starting_after=4")).text();
    let told = wire::data_of(&text).pop().expect("an event");
    assert_eq!((&told["type"], &told["sequence_number"]), (&json!("response.failed"), &json!(6)), "{text}");
    assert_eq!(
        (&told["response"]["id"], &told["response"]["error"]["message"]),
        (&json!("resp_up1"), &json!("gone"))
    );
}

#[test]
fn a_stream_in_the_background_that_is_read_to_its_end_is_booked_once() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    let mut created = at("queued");
    created["status"] = json!("in_progress");
    let events = [
        wire::named(&json!({"type": "response.created", "sequence_number": 0, "response": created})),
        wire::named(&json!({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m",
                            "output_index": 0, "content_index": 0, "delta": "set."})),
        wire::named(&json!({"type": "response.completed", "sequence_number": 2, "response": done()})),
    ];
    upstream.answer(RESPONSES, Reply::events(&events));
    upstream.answer(ONE, Reply::json(200, &done()));
    let ask = json!({"model": MODEL, "input": "x", "background": true, "stream": true});
    assert_eq!(client.post(RESPONSES, &ask).text(), events.concat());
    client.get(ONE).expect(200);
    eventually("it is booked", || (gateway.used_of_budget() == (TOKENS, 1)).then_some(()));
    client.get(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
}

#[test]
fn a_response_that_is_read_while_its_stream_is_open_is_booked_by_the_stream_with_its_row() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    let events = [
        wire::named(
            &json!({"type": "response.created", "sequence_number": 0, "response": at("in_progress")}),
        ),
        wire::named(&json!({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m",
                            "output_index": 0, "content_index": 0, "delta": "set."})),
        wire::named(&json!({"type": "response.completed", "sequence_number": 2, "response": done()})),
    ];
    let gate = Gate::new();
    upstream.answer(RESPONSES, Reply::events(&events).waits_for(2, &gate));
    upstream.answer(ONE, Reply::json(200, &done()));
    let ask = json!({"model": MODEL, "input": "x", "background": true, "stream": true});
    let mut stream = client.stream(Request::post(RESPONSES).json(&ask));
    for event in &events[..2] {
        assert_eq!(stream.next_event().expect("no break").as_ref(), Some(event));
    }
    client.get(ONE).expect(200);
    gate.open();
    stream.rest().1.expect("a clean end");
    eventually("it is booked", || (gateway.used_of_budget() == (TOKENS, 1)).then_some(()));
    client.get(ONE).expect(200);
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!((&row["promptTokens"], &row["totalTokens"]), (&json!(90), &json!(TOKENS)), "{row}");
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
}

#[test]
fn a_stream_that_ends_because_its_client_cancels_the_response_does_not_count_against_the_channel() {
    for end in [
        // The upstream just closes the stream.
        ": closing\n\n".to_owned(),
        wire::named(&json!({"type": "response.failed", "sequence_number": 2, "response": at("failed")})),
        wire::named(&json!({"type": "error", "code": "server_error", "message": "cancelled"})),
    ] {
        let (gateway, upstream) = world();
        let client = gateway.client();
        let begun = [
            wire::named(
                &json!({"type": "response.created", "sequence_number": 0, "response": at("in_progress")}),
            ),
            wire::named(&json!({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m",
                                "output_index": 0, "content_index": 0, "delta": "set."})),
        ];
        let (events, gate) = ([begun.as_slice(), std::slice::from_ref(&end)].concat(), Gate::new());
        upstream.answer(RESPONSES, Reply::events(&events).waits_for(2, &gate));
        upstream.answer(&format!("{ONE}/cancel"), Reply::json(200, &at("cancelled")));
        let ask = json!({"model": MODEL, "input": "x", "background": true, "stream": true});
        let mut stream = client.stream(Request::post(RESPONSES).json(&ask));
        for event in &begun {
            assert_eq!(stream.next_event().expect("no break").as_ref(), Some(event));
        }
        client.post(&format!("{ONE}/cancel"), &json!({})).expect(200);
        gate.open();
        stream.rest().1.expect("a clean end");
        let row = &gateway.wait_for_logs(1)[0];
        assert_eq!((&row["status"], &row["httpStatus"]), (&json!("failed"), &json!(499)), "{end}: {row}");
        let channel = &gateway.channels(MODEL)[0];
        assert_eq!((&channel["failCount"], &channel["cooldownUntil"]), (&json!(0), &Value::Null), "{end}");
    }
}

#[test]
fn one_that_was_to_be_streamed_and_is_only_queued_is_told_as_begun_and_booked_when_it_has_ended() {
    for (status, event) in [("queued", "response.queued"), ("in_progress", "response.in_progress")] {
        let (gateway, upstream) = world();
        let client = limited(&gateway);
        upstream.answer(RESPONSES, Reply::json(200, &at(status)));
        let ask = json!({"model": MODEL, "input": "x", "background": true, "stream": true});
        let told = wire::data_of(&client.post(RESPONSES, &ask).text());
        let kinds: Vec<&str> = told.iter().filter_map(|event| event["type"].as_str()).collect();
        assert_eq!(kinds, ["response.created", event], "{told:?}");
        for event in &told {
            let response = &event["response"];
            assert_eq!((&response["id"], &response["status"]), (&json!("resp_up1"), &json!(status)));
        }
        assert_eq!(upstream.asked_for(RESPONSES).len(), 1);
        upstream.answer(ONE, Reply::json(200, &done()));
        assert_eq!(client.get(ONE).expect(200), done());
        assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
    }
}

#[test]
fn one_that_an_upstream_may_have_begun_is_begun_nowhere_else() {
    let pair = Pair::start();
    pair.first.answer(RESPONSES, Reply::error(502, "Bad gateway"));
    pair.second.answer(RESPONSES, Reply::json(200, &at("queued")));
    let ask = json!({"model": Pair::MODEL, "input": "Which way?", "background": true});
    pair.gateway.client().post(RESPONSES, &ask).expect(502);
    assert_eq!((pair.first.asked_for(RESPONSES).len(), pair.second.asked_for(RESPONSES).len()), (1, 0));
}

#[test]
fn one_whose_stream_breaks_off_is_begun_nowhere_else() {
    let pair = Pair::start();
    let created = json!({"type": "response.created", "response": at("queued")});
    pair.first.answer(RESPONSES, Reply::events(&[format!("event: response.created\ndata: {created}\n\n")]));
    pair.second.answer(RESPONSES, Reply::json(200, &at("queued")));
    let ask = json!({"model": Pair::MODEL, "input": "Which way?", "background": true});
    let refused = pair.gateway.client().post(RESPONSES, &ask);
    assert_eq!((refused.status, refused.header("x-should-retry")), (502, Some("false")));
    assert_eq!((pair.first.asked_for(RESPONSES).len(), pair.second.asked_for(RESPONSES).len()), (1, 0));
}

#[test]
fn nobody_need_ask_for_it_and_it_is_booked_over_a_restart() {
    let (mut gateway, upstream) = world();
    begin(&limited(&gateway));
    gateway.wait_for_logs(1);
    gateway.kill();
    upstream.answer(ONE, Reply::json(200, &done()));
    let gateway = gateway.restart();
    eventually("the gateway has asked for it", || (gateway.used_of_budget() == (TOKENS, 1)).then_some(()));
    gateway.with_token(KEY).get(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
    assert_eq!(upstream.asked_for(ONE)[0].header("authorization"), Some("Bearer sk-upstream-key"));
}

#[test]
fn its_items_stay_its_keys_over_a_restart() {
    let (mut gateway, upstream) = world();
    let key = |name: &str| json!({"name": name, "key": format!("sk-managed-key-of-{name}"), "supportedModels": ["*"]});
    let [client, _] = ["ann", "bob"].map(|name| gateway.add_key(&key(name)));
    begin(&client);
    for status in ["in_progress", "completed"] {
        let answer = if status == "completed" { done() } else { at(status) };
        upstream.answer(ONE, Reply::json(200, &answer));
        assert_eq!(client.get(ONE).expect(200)["status"], status);
    }
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let gateway = gateway.restart();
    let item = json!({"type": "item_reference", "id": "msg_stub"});
    let next = json!({"model": MODEL, "input": [item, {"role": "user", "content": "Two"}]});
    let [ann, bob] = ["ann", "bob"].map(|name| gateway.with_token(&format!("sk-managed-key-of-{name}")));
    bob.post(RESPONSES, &next).expect(400);
    upstream.answer(RESPONSES, Reply::json(200, &done()));
    ann.post(RESPONSES, &next).expect(200);
    assert_eq!(upstream.last(RESPONSES).json()["input"][0], item);
}

#[test]
fn a_booking_that_fails_halfway_has_not_happened_and_is_made_up_for() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    begin(&client);
    gateway.wait_for_logs(1);
    upstream.answer(ONE, Reply::json(200, &done()));
    let database = gateway.home().database();
    database.run("ALTER TABLE usage_day RENAME TO usage_day_away");
    client.get(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (0, 1));
    assert_eq!(database.number("SELECT COUNT(*) FROM proxy_background_responses"), 1, "nobody has taken it");
    database.run("ALTER TABLE usage_day_away RENAME TO usage_day");
    client.get(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
    assert_eq!(database.number("SELECT COUNT(*) FROM proxy_background_responses"), 0);
}

#[test]
fn it_is_at_work_for_its_key_until_it_has_ended() {
    let (gateway, upstream) = world();
    let body = json!({"name": "team", "key": KEY, "supportedModels": ["*"], "maxConcurrency": 1});
    gateway.admin().post("/api/downstream-keys", &body).expect(200);
    let client = gateway.with_token(KEY);
    begin(&client);
    let next = Request::post(RESPONSES).json(&json!({"model": MODEL, "input": "And now?"}));
    assert_eq!(client.send(next.clone()).expect(429)["error"]["code"], "key_over_concurrency");
    upstream.answer(ONE, Reply::json(200, &at("in_progress")));
    client.get(ONE).expect(200);
    client.send(next.clone()).expect(429);
    upstream.answer(&format!("{ONE}/cancel"), Reply::json(200, &at("cancelled")));
    client.post(&format!("{ONE}/cancel"), &json!({})).expect(200);
    client.send(next).expect(200);
}

#[test]
fn one_that_is_deleted_is_stopped_and_booked_before() {
    let (gateway, upstream) = world();
    let client = limited(&gateway);
    begin(&client);
    let mut stopped = done();
    stopped["status"] = json!("cancelled");
    upstream.serve(move |request| match (request.method.as_str(), request.path()) {
        ("GET", ONE) => Some(Reply::json(200, &at("in_progress"))),
        ("POST", path) if path.ends_with("/cancel") => Some(Reply::json(200, &stopped)),
        ("DELETE", ONE) => Some(Reply::json(200, &json!({"id": "resp_up1", "deleted": true}))),
        _ => None,
    });
    client.delete(ONE).expect(200);
    assert_eq!(gateway.used_of_budget(), (TOKENS, 1));
    let methods: Vec<String> = upstream
        .asked()
        .into_iter()
        .filter(|asked| asked.path().starts_with(ONE))
        .map(|asked| asked.method)
        .collect();
    assert_eq!(methods, ["GET", "POST", "DELETE"]);
}

#[test]
fn a_response_that_is_read_again_names_the_model_that_was_asked_for() {
    let (mut gateway, upstream) =
        (Gateway::with(&[("ECHO_REQUESTED_MODEL", "true")]), Upstream::start(&[MODEL]));
    gateway.add_as(&json!({"name": "site", "platform": "openai"}), &upstream);
    let named = |model: &str| {
        let mut response = done();
        response["model"] = json!(model);
        response
    };
    upstream.answer(RESPONSES, Reply::json(200, &named("model-kept-2026-01-01")));
    upstream.answer(ONE, Reply::json(200, &named("model-kept-2026-01-01")));
    upstream.answer(&format!("{ONE}/cancel"), Reply::json(200, &named("model-kept-2026-01-01")));
    let ask = json!({"model": MODEL, "input": "Which way?"});
    assert_eq!(gateway.client().post(RESPONSES, &ask).expect(200), named(MODEL));
    for round in 0..2 {
        assert_eq!(gateway.client().get(ONE).expect(200), named(MODEL), "round {round}");
        assert_eq!(gateway.client().post(&format!("{ONE}/cancel"), &json!({})).expect(200), named(MODEL));
        let ended = json!({"type": "response.completed", "sequence_number": 6, "response": named("other")});
        let seen = json!({"type": "response.completed", "sequence_number": 6, "response": named(MODEL)});
        upstream.answer_once(ONE, Reply::events([wire::named(&ended)]));
        assert_eq!(gateway.client().get(&format!("{ONE}?stream=true")).text(), wire::named(&seen));
        if round == 0 {
            gateway.wait_for_logs(1);
            gateway = gateway.restart();
        }
    }
}
