//! The sources of an answer, in every pair of dialects.

use serde_json::{Value, json};

use super::Way;
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};

const ALL: [Dialect; 4] = [Chat, Responses, Messages, Gemini];
const URL: &str = "https://a.b/ü";
/// The characters of `Né 😀 so.` that come from the page: first, and behind the last.
const SPAN: (u64, u64) = (3, 4);
const TEXT: &str = "Né 😀 so.";

fn annotation(start: u64, end: u64) -> Value {
    json!({"type":"url_citation","start_index":start,"end_index":end,"title":"A","url":URL})
}

fn nested(start: u64, end: u64) -> Value {
    json!({"type":"url_citation","url_citation":{"start_index":start,"end_index":end,"title":"A","url":URL}})
}

fn location(cited: &str, index: &str) -> Value {
    json!({"type":"web_search_result_location","url":URL,"title":"A","cited_text":cited,"encrypted_index":index})
}

/// Builds grounding metadata, whose segment is in bytes.
fn grounding(start: u64, end: u64, text: &str) -> Value {
    let mut segment = json!({"endIndex":end,"text":text});
    if start > 0 {
        segment["startIndex"] = json!(start);
    }
    json!({"groundingChunks":[{"web":{"uri":URL,"title":"A"}}],
        "groundingSupports":[{"segment":segment,"groundingChunkIndices":[0]}]})
}

/// Builds an answer with a page it comes from.
fn answer(dialect: Dialect) -> Value {
    match dialect {
        Chat => json!({"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,
            "message":{"role":"assistant","content":TEXT,"annotations":[nested(SPAN.0, SPAN.1)]},"finish_reason":"stop"}]}),
        Responses => {
            json!({"id":"resp_1","status":"completed","model":"m","output":[{"type":"message","id":"msg_1",
            "role":"assistant","status":"completed","content":[{"type":"output_text","text":TEXT,
            "annotations":[{"type":"file_citation","file_id":"f","filename":"x","index":1},annotation(SPAN.0, SPAN.1)]}]}]})
        }
        Messages => {
            json!({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":TEXT,
            "citations":[{"type":"char_location","cited_text":"x","document_index":0,"document_title":null,"start_char_index":0,"end_char_index":1},
            location("Its words.", "E=")]}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}})
        }
        _ => {
            json!({"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":TEXT}]},"finishReason":"STOP",
            "groundingMetadata":grounding(4, 8, "😀")}],"modelVersion":"m","responseId":"r1"})
        }
    }
}

/// Builds the answer as a stream, with the text in two pieces.
fn stream(dialect: Dialect) -> String {
    let event =
        |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
    let (one, two) = ("Né 😀", " so.");
    match dialect {
        Chat => {
            let chunk = |delta: Value, reason: Value| {
                let choice = json!({"index":0,"delta":delta,"finish_reason":reason});
                format!("data: {}\n\n", json!({"id":"c1","created":7,"model":"m","choices":[choice]}))
            };
            [
                chunk(json!({"role":"assistant","content":one}), Value::Null),
                chunk(json!({"content":two}), Value::Null),
                chunk(json!({"annotations":[nested(SPAN.0, SPAN.1)]}), Value::Null),
                chunk(json!({}), json!("stop")),
                "data: [DONE]\n\n".to_owned(),
            ]
            .concat()
        }
        Responses => {
            let at = |kind: &str, more: Value| {
                let mut data = json!({"type":kind,"item_id":"msg_1","output_index":0,"content_index":0});
                data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                event(data)
            };
            let whole = answer(Responses);
            let item = &whole["output"][0];
            [
                event(json!({"type":"response.created","response":{"id":"resp_1","model":"m","output":[]}})),
                event(json!({"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1"}})),
                at("response.content_part.added", json!({"part":{"type":"output_text","text":""}})),
                at("response.output_text.delta", json!({"delta":one})),
                at("response.output_text.annotation.added", json!({"annotation_index":0,"annotation":item["content"][0]["annotations"][0]})),
                at("response.output_text.annotation.added", json!({"annotation_index":1,"annotation":annotation(SPAN.0, SPAN.1)})),
                at("response.output_text.delta", json!({"delta":two})),
                at("response.output_text.done", json!({"text":TEXT})),
                at("response.content_part.done", json!({"part":item["content"][0]})),
                event(json!({"type":"response.output_item.done","output_index":0,"item":item})),
                event(json!({"type":"response.completed","response":whole})),
            ]
            .concat()
        }
        Messages => {
            let delta = |delta: Value| event(json!({"type":"content_block_delta","index":0,"delta":delta}));
            [
                event(json!({"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}})),
                event(json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}})),
                delta(json!({"type":"citations_delta","citation":location("Its words.", "E=")})),
                delta(json!({"type":"text_delta","text":one})),
                delta(json!({"type":"text_delta","text":two})),
                event(json!({"type":"content_block_stop","index":0})),
                event(json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}})),
                event(json!({"type":"message_stop"})),
            ]
            .concat()
        }
        _ => {
            let chunk = |text: &str, more: Value| {
                let mut candidate = json!({"index":0,"content":{"role":"model","parts":[{"text":text}]}});
                candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                format!(
                    "data: {}\n\n",
                    json!({"candidates":[candidate],"modelVersion":"m","responseId":"r1"})
                )
            };
            let last = json!({"finishReason":"STOP","groundingMetadata":grounding(4, 8, "😀")});
            [chunk(one, json!({})), chunk(two, last)].concat()
        }
    }
}

/// Returns the expected citations: messages cites a block, the others a piece of it.
fn wanted(from: Dialect, to: Dialect) -> Value {
    let letters = TEXT.chars().count() as u64;
    let (start, end) = if from == Messages { (0, letters) } else { SPAN };
    let cited = if from == Messages { "Its words." } else { "😀" };
    match to {
        Chat => json!([nested(start, end)]),
        Responses => json!([annotation(start, end)]),
        Messages => json!([location(cited, "sy1:none")]),
        _ if from == Messages => grounding(0, TEXT.len() as u64, TEXT),
        _ => grounding(4, 8, "😀"),
    }
}

fn cited(dialect: Dialect, answer: &Value) -> Value {
    match dialect {
        Chat => answer["choices"][0]["message"]["annotations"].clone(),
        Responses => answer["output"][0]["content"][0]["annotations"].clone(),
        Messages => answer["content"][0]["citations"].clone(),
        _ => answer["candidates"][0]["groundingMetadata"].clone(),
    }
}

/// Returns the sources that a stream names, once and in their place.
fn cited_in_stream(dialect: Dialect, events: &[Value]) -> Value {
    let last = events.len() - 1;
    match dialect {
        Chat => {
            let annotations: Vec<_> =
                events.iter().map(|chunk| &chunk["choices"][0]["delta"]["annotations"]).collect();
            assert_eq!(annotations.iter().filter(|it| !it.is_null()).count(), 1, "{events:?}");
            annotations[last - 1].clone()
        }
        Responses => {
            let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
            let at = kinds.iter().position(|kind| *kind == "response.output_text.annotation.added").unwrap();
            assert!(at < kinds.iter().position(|kind| *kind == "response.output_text.done").unwrap());
            assert_eq!(
                (&events[at]["annotation_index"], &events[at]["content_index"]),
                (&json!(0), &json!(0))
            );
            let done = events.iter().find(|event| event["type"] == "response.content_part.done").unwrap();
            assert_eq!(done["part"]["annotations"], json!([events[at]["annotation"]]));
            cited(dialect, &events[last]["response"])
        }
        Messages => {
            let deltas =
                events.iter().map(|event| &event["delta"]).filter(|it| it["type"] == "citations_delta");
            deltas.map(|delta| delta["citation"].clone()).collect()
        }
        _ => cited(dialect, &events[last]),
    }
}

#[test]
fn a_page_is_named_in_every_pair() {
    for from in ALL {
        for to in ALL.into_iter().filter(|to| *to != from) {
            let way = Way::new(from, to);
            let wanted = wanted(from, to);
            assert_eq!(cited(to, &way.reply(&answer(from))), wanted, "{from:?} to {to:?}");
            assert_eq!(
                cited_in_stream(to, &way.stream(&stream(from))),
                wanted,
                "{from:?} to {to:?}, streamed"
            );
            assert_eq!(cited(to, &way.accumulated(&stream(from))), wanted, "{from:?} to {to:?}, accumulated");
            let text = way.replayed(&answer(from));
            let data =
                text.lines().filter_map(|line| line.strip_prefix("data: ").filter(|it| *it != "[DONE]"));
            let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
            assert_eq!(cited_in_stream(to, &events), wanted, "{from:?} to {to:?}, replayed");
        }
    }
}

#[test]
fn chat_keeps_what_it_says_itself() {
    let way = Way::new(Chat, Chat);
    let annotations = &way.accumulated(&stream(Chat))["choices"][0]["message"]["annotations"];
    assert_eq!(*annotations, json!([nested(SPAN.0, SPAN.1)]));
}

#[test]
fn several_texts_are_one_content_on_chat() {
    let block = |text: &str, url: &str| {
        json!({"type":"text","text":text,"citations":[{"type":"web_search_result_location","url":url,"title":null,
            "cited_text":"x","encrypted_index":"E"},{"type":"search_result_location","source":"notes","title":"N",
            "cited_text":"x","search_result_index":0,"start_block_index":0,"end_block_index":1}]})
    };
    let mut body = answer(Messages);
    body["content"] =
        json!([block("One. ", "https://one"), {"type":"text","text":"Or "}, block("two.", "https://two")]);
    let cited = &Way::new(Messages, Chat).reply(&body)["choices"][0]["message"]["annotations"];
    let spans: Vec<_> = cited
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let it = &it["url_citation"];
            (
                it["url"].as_str().unwrap(),
                it["title"].as_str().unwrap(),
                it["start_index"].as_u64(),
                it["end_index"].as_u64(),
            )
        })
        .collect();
    let wanted =
        [("https://one", "https://one", Some(0), Some(5)), ("https://two", "https://two", Some(8), Some(12))];
    assert_eq!(spans, wanted);
    let output = &Way::new(Messages, Responses).reply(&body)["output"][0]["content"];
    assert_eq!(output[2]["annotations"][0]["end_index"], 4);
    let gemini =
        &Way::new(Messages, Gemini).reply(&body)["candidates"][0]["groundingMetadata"]["groundingSupports"];
    assert_eq!(gemini[1]["segment"], json!({"partIndex":2,"endIndex":4,"text":"two."}));
}

#[test]
fn thinking_in_the_content_is_not_counted() {
    let mut body = answer(Chat);
    body["choices"][0]["message"]["content"] = json!(format!("<think>hm</think>{TEXT}"));
    let before = "<think>hm</think>".len() as u64;
    body["choices"][0]["message"]["annotations"] = json!([nested(before + SPAN.0, before + SPAN.1)]);
    let output = &Way::new(Chat, Responses).reply(&body)["output"][1]["content"][0]["annotations"];
    assert_eq!(*output, json!([annotation(SPAN.0, SPAN.1)]));
}

#[test]
fn an_upstream_that_only_repeats_its_sources_is_heard() {
    let stream = stream(Responses);
    let events = stream.split_inclusive("\n\n").filter(|event| !event.contains("annotation.added"));
    let stream: String = events.collect();
    for to in [Chat, Messages] {
        assert_eq!(
            cited_in_stream(to, &Way::new(Responses, to).stream(&stream)),
            wanted(Responses, to),
            "{to:?}"
        );
    }
}
