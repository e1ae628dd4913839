//! The ends of answers: each dialect has its own words for the same meaning.

use serde_json::{Value, json};

use super::{Way, pairs};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages};

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
enum Content {
    Text,
    /// A call; its arguments are cut off where the dialect has them as a text.
    Call,
}

/// A meaning and its words in each dialect: the first is written, all are read.
struct Ending {
    of: &'static [Content],
    chat: &'static [&'static str],
    /// The status, or the reason why the answer is incomplete.
    responses: &'static str,
    messages: &'static [&'static str],
    gemini: &'static [&'static str],
}

const ENDINGS: [Ending; 4] = [
    Ending {
        of: &[Content::Text],
        chat: &["stop"],
        responses: "completed",
        messages: &["end_turn", "stop_sequence", "pause_turn"],
        gemini: &["STOP"],
    },
    Ending {
        of: &[Content::Call],
        chat: &["tool_calls", "stop"],
        responses: "completed",
        messages: &["tool_use"],
        gemini: &["STOP"],
    },
    Ending {
        of: &[Content::Text, Content::Call],
        chat: &["length"],
        responses: "max_output_tokens",
        messages: &["max_tokens", "model_context_window_exceeded"],
        gemini: &["MAX_TOKENS"],
    },
    Ending {
        of: &[Content::Text, Content::Call],
        chat: &["content_filter"],
        responses: "content_filter",
        messages: &["refusal"],
        gemini: &["SAFETY", "PROHIBITED_CONTENT"],
    },
];

impl Ending {
    fn words(&self, dialect: Dialect) -> &[&'static str] {
        match dialect {
            Chat => self.chat,
            Messages => self.messages,
            Gemini => self.gemini,
            _ => std::slice::from_ref(&self.responses),
        }
    }
}

/// Returns a complete answer of an upstream that ends with this word.
fn answer(dialect: Dialect, content: Content, word: &str) -> Value {
    match dialect {
        Chat => {
            let message = match content {
                Content::Text => json!({"role":"assistant","content":"x"}),
                Content::Call => {
                    let call = json!({"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":"}});
                    json!({"role":"assistant","content":null,"tool_calls":[call]})
                }
            };
            json!({"id":"c","choices":[{"index":0,"message":message,"finish_reason":word}]})
        }
        Messages => {
            let block = match content {
                Content::Text => json!({"type":"text","text":"x"}),
                Content::Call => json!({"type":"tool_use","id":"c","name":"f","input":{}}),
            };
            json!({"id":"msg_1","type":"message","content":[block],"stop_reason":word,"stop_sequence":null})
        }
        Gemini => {
            let part = match content {
                Content::Text => json!({"text":"x"}),
                Content::Call => json!({"functionCall":{"id":"c","name":"f","args":{}}}),
            };
            json!({"candidates":[{"content":{"parts":[part]},"finishReason":word}]})
        }
        _ => {
            let item = match content {
                Content::Text => {
                    json!({"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]})
                }
                Content::Call => {
                    json!({"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":"})
                }
            };
            let (status, reason) =
                if word == "completed" { (word, None) } else { ("incomplete", Some(word)) };
            json!({"id":"resp_1","model":"m","status":status,"incomplete_details":{"reason":reason},"output":[item]})
        }
    }
}

/// Returns the answer as a stream of its upstream.
fn stream(dialect: Dialect, answer: &Value) -> String {
    match dialect {
        Chat => {
            let choice = &answer["choices"][0];
            let piece =
                json!({"id":"c","choices":[{"index":0,"delta":choice["message"],"finish_reason":null}]});
            let end =
                json!({"id":"c","choices":[{"index":0,"delta":{},"finish_reason":choice["finish_reason"]}]});
            format!("data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n")
        }
        Gemini => format!("data: {answer}\n\n"),
        _ => Way::new(dialect, dialect).replayed(answer),
    }
}

/// Returns the word with which a complete answer ends.
fn word_of(dialect: Dialect, answer: &Value) -> &str {
    let word = match dialect {
        Chat => &answer["choices"][0]["finish_reason"],
        Messages => &answer["stop_reason"],
        Gemini => &answer["candidates"][0]["finishReason"],
        _ if answer["status"] == "incomplete" => &answer["incomplete_details"]["reason"],
        _ => {
            assert_eq!(answer["incomplete_details"], Value::Null, "{answer}");
            &answer["status"]
        }
    };
    word.as_str().unwrap()
}

#[test]
fn endings_keep_their_meaning() {
    for (from, to) in pairs() {
        for ending in &ENDINGS {
            let wanted = ending.words(to)[0];
            let cases = ending
                .of
                .iter()
                .flat_map(|content| ending.words(from).iter().map(move |word| (*content, *word)));
            for (content, word) in cases {
                let answer = answer(from, content, word);
                let whole = Way::new(from, to).reply(&answer);
                assert_eq!(word_of(to, &whole), wanted, "{from:?} to {to:?}: {content:?} {word}");
                let streamed = Way::new(from, to).stream_text(&stream(from, &answer));
                let streamed = Way::new(to, to).accumulated(&streamed);
                assert_eq!(
                    word_of(to, &streamed),
                    wanted,
                    "{from:?} to {to:?}, streamed: {content:?} {word}"
                );
            }
        }
    }
}

#[test]
fn a_call_that_the_limit_cuts_off_stays_cut_off() {
    let stream = stream(Chat, &answer(Chat, Content::Call, "length"));
    let events = Way::new(Chat, Messages).stream(&stream);
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "max_tokens");
    assert!(events.iter().any(|event| event["delta"]["partial_json"] == "{\"a\":"));
}
