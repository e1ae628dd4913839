//! Streams of the client's own dialect without some of their events: the stream helpers of the SDKs fail on those, so the
//! missing events are added. All that the upstream sent passes, and streams that lack nothing pass unchanged.

use serde_json::{Value, json};

use crate::support::paths::{MESSAGES, RESPONSES};
use crate::support::{Pair, Reply, Request, wire};

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

/// Returns the events of a response with items that only this dialect has.
fn native_events() -> Vec<Value> {
    let citation = json!({"type": "file_citation", "file_id": "file-1", "filename": "x", "index": 0});
    let text = json!({"type": "output_text", "text": "a", "annotations": [citation], "logprobs": []});
    let summary = json!([{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]);
    let items = [
        json!({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "ENC"}),
        json!({"id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "print(1)"}),
        json!({"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "QUJD"}),
        json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "phase": "final_answer", "content": [text]}),
    ];
    let mut response = wire::response(Pair::MODEL);
    (response["id"], response["status"]) = (json!("resp_u1"), json!("in_progress"));
    let mut events = vec![
        json!({"type": "response.created", "response": response}),
        json!({"type": "response.in_progress", "response": response}),
    ];
    for (place, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        if item["type"] == "message" {
            begun["content"] = json!([]);
        }
        events.push(json!({"type": "response.output_item.added", "output_index": place, "item": begun}));
        if item["type"] == "message" {
            let at = |mut event: Value| {
                (event["item_id"], event["output_index"], event["content_index"]) =
                    (json!("msg_1"), json!(place), json!(0));
                event
            };
            let part = json!({"type": "output_text", "text": "", "annotations": []});
            events.push(at(json!({"type": "response.content_part.added", "part": part})));
            events.push(at(json!({"type": "response.output_text.delta", "delta": "a"})));
            events.push(at(json!({"type": "response.output_text.annotation.added", "annotation": citation})));
            events.push(at(json!({"type": "response.output_text.done", "text": "a"})));
            events.push(at(json!({"type": "response.content_part.done", "part": text})));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
    }
    (response["status"], response["output"]) = (json!("completed"), json!(items));
    events.push(json!({"type": "response.completed", "response": response}));
    events
}

/// Returns the events without their numbers.
fn unnumbered(events: &[Value]) -> Vec<Value> {
    let mut events = events.to_vec();
    for event in &mut events {
        event.as_object_mut().expect("an event").remove("sequence_number");
    }
    events
}

/// Asserts that the client gets all that the upstream sent, in its order, and these kinds of events beside it.
fn assert_repaired(sent: &[Value], added: &[&str]) -> Vec<Value> {
    let mut numbered = sent.to_vec();
    for (number, event) in numbered.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    let written: Vec<_> = numbered.iter().map(wire::named).collect();
    let (events, _) = streamed(RESPONSES, &written);
    let mut rest = sent.iter();
    let mut next = rest.next();
    let mut extra = Vec::new();
    for event in &unnumbered(&events) {
        if next == Some(event) {
            next = rest.next();
        } else {
            extra.push(event["type"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert_eq!(next, None, "all that was sent: {events:?}");
    assert_eq!(extra, added);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
    events
}

#[test]
fn what_a_lacking_response_has_passes_as_it_came() {
    let whole = native_events();
    let without = |kinds: &[&str]| -> Vec<Value> {
        whole
            .iter()
            .filter(|event| !kinds.contains(&event["type"].as_str().unwrap_or_default()))
            .cloned()
            .collect()
    };
    let created = "response.created";
    let part = "response.content_part.added";
    let events = assert_repaired(&without(&[created]), &[created]);
    assert_eq!(events[0]["response"]["id"], "resp_u1", "{}", events[0]);
    assert_repaired(&without(&[created, "response.in_progress"]), &[created, "response.in_progress"]);
    assert_repaired(&without(&[created, part]), &[created, part]);
    assert_repaired(&without(&[part]), &[part]);
    assert_repaired(&without(&["response.output_item.done"]), &["response.output_item.done"; 4]);
    // A later item is not added, with and without its part.
    let is_last_added =
        |event: &Value| event["item"]["id"] == "msg_1" && event["item"]["content"] == json!([]);
    let mut sent: Vec<_> = whole.iter().filter(|event| !is_last_added(event)).cloned().collect();
    assert_repaired(&sent, &["response.output_item.added"]);
    sent.retain(|event| event["type"] != part);
    assert_repaired(&sent, &["response.output_item.added", part]);
}

#[test]
fn an_item_that_comes_whole_without_an_id_gets_one() {
    let item = json!({"type": "function_call", "status": "completed", "call_id": "c1", "name": "add",
        "arguments": "{}"});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let end = json!({"type": "response.completed", "response": {"id": "resp_u1", "output": []}});
    let (events, text) = streamed(RESPONSES, &[done, end].iter().map(wire::named).collect::<Vec<_>>());
    let output = &events.last().expect("an end")["response"]["output"];
    let id = &output[0]["id"];
    assert_eq!(id, "item_0", "{text}");
    let about = events.iter().filter_map(|event| event.get("item_id").or(event["item"].get("id")));
    let ids: Vec<_> = about.collect();
    assert!(ids.len() == 4 && ids.iter().all(|told| *told == id), "{text}");
}

#[test]
fn a_response_of_deltas_alone_gets_all_other_events() {
    let delta = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let call = json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1,
        "delta": "{}"});
    let item = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1",
        "name": "add", "arguments": "{}"});
    let done = json!({"type": "response.output_item.done", "output_index": 1, "item": item});
    let end = json!({"type": "response.completed", "response": {"id": "resp_u1", "output": []}});
    let sent: Vec<_> = [delta("he"), delta("y"), call, done, end].iter().map(wire::named).collect();
    let (events, _) = streamed(RESPONSES, &sent);
    let kinds: Vec<_> =
        types(&events).into_iter().map(|kind| kind.strip_prefix("response.").unwrap_or(kind)).collect();
    let wanted = "created in_progress output_item.added content_part.added output_text.delta output_text.delta \
        output_item.added function_call_arguments.delta output_item.done \
        output_text.done content_part.done output_item.done completed";
    assert_eq!(kinds, wanted.split_whitespace().collect::<Vec<_>>());
    let output = &events.last().expect("an end")["response"]["output"];
    assert_eq!(output[0]["content"][0]["text"], "hey", "{output}");
    assert_eq!(output[1], item);
    assert_eq!(events[6]["item"]["name"], "add");
}

#[test]
fn what_a_lacking_message_has_passes_as_it_came() {
    let fetched = json!({"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1",
        "content": {"type": "web_fetch_result", "url": "https://example.com"}});
    let citation = json!({"type": "char_location", "cited_text": "x", "document_index": 0});
    let sent: Vec<_> = [
        json!({"type": "content_block_start", "index": 0, "content_block": fetched}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}}),
        json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "citations_delta", "citation": citation}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(wire::named)
    .collect();
    let (events, text) = streamed(MESSAGES, &sent);
    assert_eq!(events[0]["type"], "message_start");
    assert!(text.ends_with(&sent.concat()), "{text}");
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
fn a_message_that_ends_with_done_gets_its_last_event() {
    let whole = wire::message_events(Pair::MODEL);
    let mut sent = without(&whole, &["message_stop"]);
    sent.push(wire::DONE.to_owned());
    assert_eq!(streamed(MESSAGES, &sent).1, whole.concat());
}

#[test]
fn a_gathered_response_of_deltas_alone_has_its_output() {
    let pair = Pair::on("new-api", &[]);
    let delta = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let end = json!({"type": "response.completed", "response": {"id": "resp_u1", "output": []}});
    pair.first.answer(RESPONSES, Reply::events([delta("he"), delta("y"), end].iter().map(wire::named)));
    let ask = Request::post(RESPONSES).json(&json!({"model": Pair::MODEL, "input": "x"}));
    let answer = pair.gateway.client().send(ask).expect(200);
    assert_eq!(answer["id"], "resp_u1");
    assert_eq!(answer["output"][0]["content"][0]["text"], "hey", "{answer}");
}

#[test]
fn what_lacks_nothing_passes_as_it_is() {
    for (path, events) in
        [(RESPONSES, wire::response_events(Pair::MODEL)), (MESSAGES, wire::message_events(Pair::MODEL))]
    {
        assert_eq!(streamed(path, &events).1, events.concat());
    }
}
