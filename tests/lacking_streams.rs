//! Streams of the client's own dialect without the events that open them: the stream helpers of the SDKs fail on those, so
//! they are rewritten. All others pass unchanged.

use serde_json::{Value, json};

use crate::support::{Pair, Reply, Request, wire};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

/// Returns the events that a client of this surface gets when its upstream, of the same dialect, sends these.
fn streamed(path: &str, events: &[String]) -> (Vec<Value>, String) {
    let pair = Pair::on("new-api", &[]);
    pair.first.answer(path, Reply::events(events));
    let body = match path {
        RESPONSES => json!({"input": "x"}),
        _ => json!({"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}),
    };
    let mut body = body;
    (body["model"], body["stream"]) = (json!(Pair::MODEL), json!(true));
    let text = pair.gateway.client().stream(Request::post(path).json(&body)).whole().text();
    assert_eq!(pair.first.asked_for(path).len(), 1, "asked in the client's own dialect");
    assert_eq!(pair.gateway.wait_for_logs(1)[0]["status"], "success");
    (wire::data_of(&text), text)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect()
}

fn without(events: &[String], kinds: &[&str]) -> Vec<String> {
    let is_kept = |event: &&String| !kinds.iter().any(|kind| event.contains(&format!("\"type\":\"{kind}\"")));
    events.iter().filter(is_kept).cloned().collect()
}

#[test]
fn a_response_without_its_opening_gets_one() {
    let whole = wire::response_events(Pair::MODEL);
    let (created, added, part) =
        ("response.created", "response.output_item.added", "response.content_part.added");
    let rest = ["response.in_progress", "response.output_text.done", "response.output_item.done"];
    for left_out in [vec![created], vec![added, part], [&[created, added, part][..], &rest].concat()] {
        let sent = without(&whole, &left_out);
        assert!(sent.len() < whole.len(), "{left_out:?}");
        let (events, _) = streamed(RESPONSES, &sent);
        let types = types(&events);
        let at = |kind: &str| {
            types.iter().position(|found| *found == kind).unwrap_or_else(|| panic!("{kind}: {types:?}"))
        };
        assert_eq!(at(created), 0, "{types:?}");
        assert!(at(added) < at(part) && at(part) < at("response.output_text.delta"), "{types:?}");
        assert!(at("response.output_text.done") < at("response.output_item.done"), "{types:?}");
        let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
        assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
        let last = events.last().expect("an end");
        assert_eq!(last["type"], "response.completed");
        let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
        let said: String = deltas.filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], said, "{last}");
    }
}

#[test]
fn a_message_without_its_start_gets_one() {
    let whole = wire::message_events(Pair::MODEL);
    let (events, _) = streamed(MESSAGES, &without(&whole, &["message_start"]));
    assert_eq!(events[0]["type"], "message_start", "{events:?}");
    let message = &events[0]["message"];
    assert_eq!((&message["role"], &message["model"]), (&json!("assistant"), &json!(Pair::MODEL)));
    assert!(message["id"].as_str().is_some_and(|id| !id.is_empty()) && message["usage"].is_object());
    let (as_sent, _) = streamed(MESSAGES, &whole);
    let is_said = |kind: &&str| *kind != "ping";
    let of = |events| types(events).into_iter().filter(is_said).collect::<Vec<_>>();
    assert_eq!(of(&events), of(&as_sent));
}

#[test]
fn what_lacks_nothing_passes_as_it_is() {
    for (path, events) in
        [(RESPONSES, wire::response_events(Pair::MODEL)), (MESSAGES, wire::message_events(Pair::MODEL))]
    {
        assert_eq!(streamed(path, &events).1, events.concat());
    }
}
