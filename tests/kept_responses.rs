//! Responses that are retrieved again, created in the background, or counted before they are created.

use serde_json::{Value, json};

use crate::support::paths::RESPONSES;
use crate::support::{Caller, Gateway, Reply, Request, Upstream, split_events, wire};

const MODEL: &str = "model-kept";
const COUNT: &str = "/v1/responses/input_tokens";

fn started(platform: &str) -> (Gateway, Upstream) {
    Gateway::serving_as(platform, &[MODEL])
}

fn queued() -> Value {
    json!({"id": "resp_up1", "object": "response", "status": "queued", "background": true, "model": MODEL,
           "output": [], "error": null, "usage": null})
}

fn other_key(gateway: &Gateway) -> Caller {
    let key = json!({"name": "other", "key": "sk-client-other", "supportedModels": ["*"]});
    gateway.add_key(&key)
}

#[test]
fn a_response_in_the_background_is_asked_for_at_the_account_that_makes_it() {
    let upstream = Upstream::start(&[MODEL]);
    let mut gateway = Gateway::with(&[("PROXY_EMPTY_CONTENT_FAIL", "true")]).in_front_of("openai", &upstream);
    upstream.answer(RESPONSES, Reply::json(200, &queued()));
    let ask = json!({"model": MODEL, "input": "Which way?", "background": true});
    assert_eq!(gateway.client().post(RESPONSES, &ask).expect(200), queued());
    assert_eq!(upstream.last(RESPONSES).json(), ask);
    let one = format!("{RESPONSES}/resp_up1");
    let done = wire::response(MODEL);
    upstream.answer(&one, Reply::json(200, &done));
    upstream.answer(
        &format!("{one}/cancel"),
        Reply::json(200, &json!({"id": "resp_up1", "status": "cancelled"})),
    );
    upstream.answer(&format!("{one}/input_items"), Reply::json(200, &json!({"object": "list", "data": []})));
    let other = other_key(&gateway);
    for round in 0..2 {
        let client = gateway.client();
        assert_eq!(client.get(&format!("{one}?include=x&key=no")).expect(200), done);
        let asked = upstream.last(&one);
        assert_eq!(
            (asked.method.as_str(), asked.target.as_str()),
            ("GET", "/v1/responses/resp_up1?include=x")
        );
        assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
        assert_eq!(client.get(&format!("{one}/input_items?limit=1")).expect(200)["object"], "list");
        let cancelled = client.post(&format!("{one}/cancel"), &json!({})).expect(200);
        assert_eq!(cancelled["status"], "cancelled");
        assert_eq!(upstream.last(&format!("{one}/cancel")).method, "POST");
        // It belongs to no other key, and an unknown one to none.
        let other =
            if round == 0 { other.get(&one) } else { gateway.with_token("sk-client-other").get(&one) };
        assert_eq!(other.expect(404)["error"]["type"], "not_found_error");
        client.get(&format!("{RESPONSES}/resp_nobody")).expect(404);
        gateway.anyone().get(&one).expect(401);
        if round == 0 {
            // Its location is written with the row of its request.
            gateway.wait_for_logs(1);
            gateway = gateway.restart();
        }
    }
    upstream
        .answer(&one, Reply::json(200, &json!({"id": "resp_up1", "object": "response", "deleted": true})));
    assert_eq!(gateway.client().delete(&one).expect(200)["deleted"], true);
    assert_eq!(upstream.last(&one).method, "DELETE");
    gateway.client().get(&one).expect(404);
}

#[test]
fn a_stream_is_taken_up_where_it_was_left() {
    let (gateway, upstream) = started("new-api");
    upstream.answer(RESPONSES, Reply::json(200, &queued()));
    let ask = json!({"model": MODEL, "input": "x", "background": true});
    gateway.client().post(RESPONSES, &ask).expect(200);
    let one = format!("{RESPONSES}/resp_up1");
    let events = wire::response_events(MODEL);
    upstream.answer(&one, Reply::events(&events));
    let answer = gateway.client().get(&format!("{one}?stream=true&starting_after=4"));
    assert_eq!((answer.status, answer.text()), (200, events.concat()));
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let asked = upstream.last(&one);
    assert_eq!(asked.target, "/v1/responses/resp_up1?stream=true&starting_after=4");
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
    upstream.answer(&one, Reply::error(404, "Response with id 'resp_up1' not found."));
    gateway.client().get(&one).expect(404);
    upstream.answer(&one, Reply::error(401, "no"));
    gateway.client().get(&one).expect(502);
    upstream.answer(&one, Reply::html(200, "<html></html>"));
    gateway.client().get(&one).expect(502);
}

#[test]
fn what_we_keep_ourselves_is_told_from_memory() {
    let upstream = Upstream::with_one_path(MODEL, "/v1/chat/completions");
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    let client = gateway.client();
    let other = other_key(&gateway);
    for streamed in [false, true] {
        let ask = json!({"model": MODEL, "input": "Which way?", "background": true, "stream": streamed});
        let answer = client.post(RESPONSES, &ask);
        let given = if streamed {
            wire::data_of(&answer.text()).last().unwrap()["response"].clone()
        } else {
            answer.expect(200)
        };
        let id = given["id"].as_str().unwrap().to_owned();
        let one = format!("{RESPONSES}/{id}");
        let asked = upstream.asked_for("/v1/chat/completions").len();
        assert_eq!(client.get(&one).expect(200), given, "streamed: {streamed}");
        let items = client.get(&format!("{one}/input_items")).expect(200);
        assert_eq!(items["data"][0]["content"], json!([{"type": "input_text", "text": "Which way?"}]));
        assert_eq!((&items["first_id"], &items["has_more"]), (&items["data"][0]["id"], &json!(false)));
        let told = client.get(&format!("{one}?stream=true")).text();
        let events = wire::data_of(&told);
        assert_eq!(events[0]["type"], "response.created");
        let last = events.last().unwrap();
        assert_eq!((&last["type"], &last["response"]["id"]), (&json!("response.completed"), &json!(id)));
        let rest = client.get(&format!("{one}?stream=true&starting_after=1")).text();
        assert_eq!(split_events(rest.as_bytes()), split_events(told.as_bytes())[2..]);
        client.post(&format!("{one}/cancel"), &json!({})).expect(400);
        client.get(&format!("{one}/input_items?limit=0")).expect(400);
        other.get(&one).expect(404);
        other.delete(&one).expect(404);
        let deleted = json!({"id": id, "object": "response", "deleted": true});
        assert_eq!(client.delete(&one).expect(200), deleted);
        client.get(&one).expect(404);
        assert_eq!(upstream.asked_for("/v1/chat/completions").len(), asked, "no request was sent");
        let long = json!({"model": MODEL, "input": [{"role": "user", "content": "x".repeat(1_200_000)}], "background": true});
        let long = client.post(RESPONSES, &long).expect(200);
        let items = format!("{RESPONSES}/{}/input_items", long["id"].as_str().expect("an id"));
        let items = client.get(&items).expect(200);
        assert_eq!(items["data"][0]["content"].as_str().map(str::len), Some(1_200_000));
        assert!(
            items["data"][0]["id"].as_str().is_some_and(|id| id.starts_with("input_")),
            "as the text has"
        );
    }
}

#[test]
fn the_tokens_of_an_input_are_counted_or_estimated() {
    let (gateway, upstream) = started("openai");
    let counted = json!({"object": "response.input_tokens", "input_tokens": 11});
    upstream.answer(COUNT, Reply::json(200, &counted));
    let ask = json!({"model": MODEL, "input": "Which way?", "instructions": "Be short."});
    let answer = gateway.client().post(COUNT, &ask);
    assert_eq!((answer.expect(200), answer.header("x-switchyard-estimated")), (counted, None));
    assert_eq!(upstream.last(COUNT).json(), ask);
    for refusal in [Reply::error(404, "Not found"), Reply::error(500, "boom")] {
        upstream.answer(COUNT, refusal);
        let answer = gateway.client().post(COUNT, &ask);
        let estimate = answer.expect(200);
        // About four letters make a token.
        assert_eq!(estimate, json!({"object": "response.input_tokens", "input_tokens": 5}));
        assert_eq!(answer.header("x-switchyard-estimated"), Some("1"));
    }
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);
    let refused = gateway.client().send(Request::post(COUNT).json(&json!({"input": "x"}))).expect(400);
    assert_eq!(refused["error"]["param"], "model");
}

#[test]
fn the_id_of_an_answer_is_found_even_if_the_process_is_killed_right_after_it() {
    let (mut gateway, upstream) = started("openai");
    let answer = wire::response(MODEL);
    upstream.answer(RESPONSES, Reply::json(200, &answer));
    let ask = json!({"model": MODEL, "input": "Which way?"});
    let id = gateway.client().post(RESPONSES, &ask).expect(200)["id"].as_str().unwrap().to_owned();
    gateway.kill();
    let one = format!("{RESPONSES}/{id}");
    upstream.answer(&one, Reply::json(200, &answer));
    assert_eq!(gateway.restart().client().get(&one).expect(200)["id"], id);
}
