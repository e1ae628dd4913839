//! Sessions of Claude Code and Codex: each converted request begins with the one before, for every target.
//!
//! Two were recorded from the clients themselves (`tests/clients/record.py`). Converted for upstreams of other
//! dialects, they serve as sessions of clients of those dialects, too. Two more are made up of what the recorded ones
//! lack: tools with free text, tools of other servers and with odd names, late instructions, results of many kinds.
//! Their form follows the clients' public sources and what their users have published:
//! <https://github.com/openai/codex> (`codex-rs/core/src/client.rs`), <https://docs.claude.com/en/docs/claude-code>
//! and, for the system text that differs with each request, <https://github.com/ggml-org/llama.cpp/pull/20623>.

use serde_json::{Value, json};

use super::prefixes::{ALL, converted, difference, targets};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};

#[path = "../../../../tests/support/sessions.rs"]
mod sessions;

/// A session: the members that all its requests share, and the turns that each adds to the conversation.
struct Session {
    body: Value,
    turns: Vec<Vec<Value>>,
}

impl Session {
    fn of(text: &str) -> Self {
        let mut session: Value = serde_json::from_str(text).unwrap();
        let turns = session["turns"].as_array().unwrap().iter();
        let turns = turns.map(|turn| turn.as_array().unwrap().clone()).collect();
        Self { body: session["body"].take(), turns }
    }

    /// Returns the requests, one after the other.
    fn requests(&self, key: &str, finish: impl Fn(&mut Value, usize)) -> Vec<Value> {
        let request = |number: usize| {
            let mut body = self.body.clone();
            body[key] = json!(self.turns[..=number].concat());
            finish(&mut body, number);
            body
        };
        (0..self.turns.len()).map(request).collect()
    }
}

/// Builds the session of Claude Code, which names each request for its bill, and marks the end of its last two
/// messages.
fn claude_code() -> Vec<Value> {
    let session = Session::of(include_str!("recorded/claude_code.json"));
    session.requests("messages", |body, number| {
        let bill = format!("x-anthropic-billing-header: cc_version=2.1.37; cch={number:05x};");
        body["system"].as_array_mut().unwrap().insert(0, json!({"type":"text","text":bill}));
        let messages = body["messages"].as_array_mut().unwrap();
        let blocks =
            messages.iter_mut().rev().filter_map(|message| message["content"].as_array_mut()?.last_mut());
        for block in blocks.take(2) {
            block["cache_control"] = json!({"type":"ephemeral"});
        }
    })
}

fn codex() -> Vec<Value> {
    Session::of(include_str!("recorded/codex.json")).requests("input", |_, _| {})
}

fn each_begins_as_the_one_before(from: Dialect, requests: &[Value]) {
    for to in ALL.into_iter().filter(|to| *to != from) {
        for target in targets(to) {
            let sent: Vec<_> = requests.iter().map(|body| converted(from, to, *target, body)).collect();
            for (number, pair) in sent.windows(2).enumerate() {
                let difference = difference(to, &pair[0], &pair[1], false);
                assert_eq!(difference, None, "{to:?} {target:?}, request {number}");
            }
        }
    }
}

#[test]
fn a_session_of_claude_code_begins_as_before_with_each_request() {
    each_begins_as_the_one_before(Messages, &claude_code());
}

#[test]
fn a_session_of_codex_begins_as_before_with_each_request() {
    each_begins_as_the_one_before(Responses, &codex());
}

#[test]
fn recorded_sessions_begin_as_before_with_each_request_in_all_dialects() {
    let (claude_code, codex) = (sessions::claude_code(), sessions::codex());
    assert!(claude_code.len() > 20 && codex.len() > 20);
    let in_words_of = |to| -> Vec<Value> {
        let sent = claude_code.iter().map(|body| converted(Messages, to, targets(to)[0], body));
        sent.map(|body| serde_json::from_slice(&body).unwrap()).collect()
    };
    for (from, requests) in [(Chat, in_words_of(Chat)), (Gemini, in_words_of(Gemini))] {
        each_begins_as_the_one_before(from, &requests);
    }
    each_begins_as_the_one_before(Messages, &claude_code);
    each_begins_as_the_one_before(Responses, &codex);
}
