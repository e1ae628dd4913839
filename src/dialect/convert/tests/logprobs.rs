//! The probabilities of an answer's tokens, in the dialects that have a place for them.

use serde_json::{Value, json};

use super::{Way, request};
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Vendor};

fn token(text: &str, logprob: f64, others: &[Value]) -> Value {
    json!({"token":text,"logprob":logprob,"bytes":text.as_bytes(),"top_logprobs":others})
}

/// Returns the two tokens of `Hé!`.
fn tokens() -> [Value; 2] {
    let other = json!({"token":"Ho","logprob":-2.5,"bytes":[72,111]});
    [token("Hé", -0.25, &[other]), token("!", -0.75, &[])]
}

fn chat() -> Value {
    json!({"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,
        "message":{"role":"assistant","content":"Hé!"},"logprobs":{"content":tokens(),"refusal":null},"finish_reason":"stop"}]})
}

fn response() -> Value {
    let part = json!({"type":"output_text","text":"Hé!","annotations":[],"logprobs":tokens()});
    json!({"id":"resp_c1","status":"completed","model":"m","output":[{"id":"msg_1","type":"message","status":"completed",
        "role":"assistant","content":[part]}]})
}

fn gemini() -> Value {
    json!({"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Hé!"}]},"finishReason":"STOP",
        "avgLogprobs":-0.5,"logprobsResult":result()}],"modelVersion":"m","responseId":"c1"})
}

fn result() -> Value {
    json!({"topCandidates":[{"candidates":[{"token":"Ho","logProbability":-2.5}]},{"candidates":[]}],
        "chosenCandidates":[{"token":"Hé","logProbability":-0.25},{"token":"!","logProbability":-0.75}]})
}

fn weighed(to: crate::dialect::Dialect, answer: &Value) -> Value {
    match to {
        Chat => answer["choices"][0]["logprobs"]["content"].clone(),
        Responses => answer["output"][0]["content"][0]["logprobs"].clone(),
        _ => answer["candidates"][0]["logprobsResult"].clone(),
    }
}

#[test]
fn tokens_are_weighed_in_complete_answers() {
    for (from, body) in [(Chat, chat()), (Responses, response()), (Gemini, gemini())] {
        for to in [Chat, Responses, Gemini].into_iter().filter(|to| *to != from) {
            let answer = Way::new(from, to).reply(&body);
            let wanted = if to == Gemini { result() } else { json!(tokens()) };
            assert_eq!(weighed(to, &answer), wanted, "{from:?} to {to:?}");
            if to == Gemini {
                assert_eq!(answer["candidates"][0]["avgLogprobs"], -0.5);
            }
        }
        assert!(!Way::new(from, Messages).reply(&body).to_string().contains("logprob"), "{from:?}");
    }
    let mut plain = chat();
    plain["choices"][0]["logprobs"] = Value::Null;
    let answer = Way::new(Chat, Gemini).reply(&plain);
    assert_eq!(answer["candidates"][0].get("logprobsResult"), None);
}

#[test]
fn tokens_are_weighed_with_what_a_stream_says() {
    let [one, two] = tokens();
    let chunk = |delta: Value, token: Value, reason: Value| {
        let choice = json!({"index":0,"delta":delta,"logprobs":token,"finish_reason":reason});
        format!("data: {}\n\n", json!({"id":"c1","created":7,"model":"m","choices":[choice]}))
    };
    let chunks = [
        chunk(json!({"role":"assistant","content":""}), Value::Null, Value::Null),
        chunk(json!({"content":"Hé"}), json!({"content":[one],"refusal":null}), Value::Null),
        chunk(json!({"content":"!"}), json!({"content":[two],"refusal":null}), Value::Null),
        chunk(json!({}), Value::Null, json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let of = |events: &[Value], kind: &str| -> Vec<Value> {
        events.iter().filter(|event| event["type"] == kind).map(|event| event["logprobs"].clone()).collect()
    };
    let events = Way::new(Chat, Responses).stream(&chunks);
    assert_eq!(of(&events, "response.output_text.delta"), [json!([one]), json!([two])]);
    assert_eq!(of(&events, "response.output_text.done"), [json!([one, two])]);
    assert_eq!(weighed(Responses, &events.last().unwrap()["response"]), json!([one, two]));
    let events = Way::new(Chat, Gemini).stream(&chunks);
    assert_eq!(weighed(Gemini, events.last().unwrap()), result());
    assert_eq!(weighed(Chat, &Way::new(Chat, Chat).accumulated(&chunks)), json!([one, two]));

    let text: String = Way::new(Chat, Responses).stream_text(&chunks);
    let logprobs_of = |events: Vec<Value>| -> Vec<Value> {
        events
            .iter()
            .map(|event| event["choices"][0].clone())
            .filter(|it| it.get("logprobs").is_some())
            .collect()
    };
    let wanted = |text: &str, token: &Value| json!({"index":0,"delta":{"content":text},"logprobs":{"content":[token],"refusal":null},"finish_reason":null});
    let back = Way::new(Responses, Chat).stream(&text);
    assert_eq!(logprobs_of(back), [wanted("Hé", &one), wanted("!", &two)]);
    // Some upstreams send them only when the text is done.
    let late: String = text
        .split_inclusive("\n\n")
        .map(|event| {
            if event.contains("text.delta") {
                let (head, rest) = event.split_once("\"logprobs\":").unwrap();
                let end = rest.rfind("}\n\n").unwrap();
                format!("{head}\"logprobs\":[]{}", &rest[end..])
            } else {
                event.to_owned()
            }
        })
        .collect();
    let chunks = logprobs_of(Way::new(Responses, Chat).stream(&late));
    assert_eq!(
        chunks,
        [json!({"index":0,"delta":{},"logprobs":{"content":[one, two],"refusal":null},"finish_reason":null})]
    );
    assert_eq!(weighed(Chat, &Way::new(Responses, Chat).accumulated(&late)), json!([one, two]));
}

#[test]
fn who_asks_for_them_is_not_sent_where_there_are_none() {
    let chat =
        json!({"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":2});
    let sent = request(Chat, Gemini, Vendor::Gemini, &chat).unwrap();
    assert_eq!(sent["generationConfig"], json!({"responseLogprobs":true,"logprobs":2}));
    assert_eq!(
        request(Chat, Messages, Vendor::Anthropic, &chat),
        Err(ConversionError::unsupported("logprobs"))
    );
    let gemini = json!({"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseLogprobs":true,"logprobs":3}});
    assert_eq!(
        request(Gemini, Messages, Vendor::Anthropic, &gemini),
        Err(ConversionError::unsupported("responseLogprobs"))
    );
    let sent = request(Gemini, Chat, Vendor::Other, &gemini).unwrap();
    assert_eq!((&sent["logprobs"], &sent["top_logprobs"]), (&json!(true), &json!(3)));
}
