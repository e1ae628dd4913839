//! Pairs of dialects: one conversation in each of them, and the cases in which they differ.

mod cache_marks;
mod chat_to_others;
mod client_words;
mod completions;
mod conversations;
mod crowds;
mod endings;
mod failures;
mod functions;
mod gemini_to_others;
mod growth;
mod limits_of_targets;
mod logprobs;
mod long_names;
mod messages_to_others;
mod prefixes;
mod recorded;
mod responses_to_others;
mod results;
mod sacred;
mod searches;
mod sources;
mod words;

use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::dialect::canonical::Vendor;

/// The dialects of conversations.
const DIALECTS: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini];

/// Returns each dialect with each other one.
fn pairs() -> impl Iterator<Item = (Dialect, Dialect)> {
    let all = DIALECTS.into_iter().flat_map(|from| DIALECTS.map(|to| (from, to)));
    all.filter(|(from, to)| from != to)
}

/// Converts a request body for an upstream.
fn request(from: Dialect, to: Dialect, vendor: Vendor, body: &Value) -> Result<Value, ConversionError> {
    let target = Target { model: "m", stream: false, vendor };
    let converted = super::request(from, to, &body.to_string(), &target)?;
    Ok(serde_json::from_slice(&converted.body).unwrap())
}

/// A conversion from one dialect to another.
struct Way {
    from: Dialect,
    to: Dialect,
    context: Arc<ReplyContext>,
    /// The request that was sent, if one was.
    body: Value,
}

impl Way {
    fn new(from: Dialect, to: Dialect) -> Self {
        let context =
            ReplyContext { now: 1_790_000_000, fallback_id: "req-1".to_owned(), ..ReplyContext::default() };
        Self { from, to, context: Arc::new(context), body: Value::Null }
    }

    /// Converts a request; [`back`](Self::back) is the conversion of its answer.
    fn asking(from: Dialect, to: Dialect, vendor: Vendor, body: &Value) -> Self {
        let target = Target { model: "m", stream: false, vendor };
        let converted = super::request(from, to, &body.to_string(), &target).unwrap();
        let body = serde_json::from_slice(&converted.body).unwrap();
        Self { from, to, context: Arc::new(converted.context), body }
    }

    fn back(&self) -> Self {
        Self { from: self.to, to: self.from, context: self.context.clone(), body: Value::Null }
    }

    fn reply(&self, answer: &Value) -> Value {
        let reply = super::reply(self.from, self.to, &answer.to_string(), &self.context).unwrap();
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// Replays a complete answer as a stream.
    fn replayed(&self, answer: &Value) -> String {
        let replayed = super::replayed(self.from, self.to, &answer.to_string(), &self.context).unwrap();
        String::from_utf8(replayed.body.to_vec()).unwrap()
    }

    /// Gathers a stream into a complete answer.
    fn accumulated(&self, stream: &str) -> Value {
        let accumulator = super::accumulated(self.from, self.to, stream.as_bytes(), &self.context).unwrap();
        serde_json::from_slice(&accumulator.body).unwrap()
    }

    /// Converts a stream that ends properly, cut into odd pieces.
    fn stream_text(&self, stream: &str) -> String {
        let mut converter = StreamConverter::new(self.from, self.to, self.context.clone());
        let mut out = String::new();
        stream.as_bytes().chunks(7).for_each(|chunk| converter.feed(chunk, &mut out));
        assert!(converter.close(&mut out), "{stream}");
        out
    }

    /// Converts a stream, and returns the data of its events.
    fn stream(&self, stream: &str) -> Vec<Value> {
        let text = self.stream_text(stream);
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    fn failure(&self, stream: &str) -> Option<String> {
        let mut converter = StreamConverter::new(self.from, self.to, self.context.clone());
        converter.feed(stream.as_bytes(), &mut String::new());
        Some(converter.failure()?.message.clone())
    }

    fn is_complete(&self, stream: &str) -> bool {
        let mut converter = StreamConverter::new(self.from, self.to, self.context.clone());
        let mut out = String::new();
        converter.feed(stream.as_bytes(), &mut out);
        converter.close(&mut out)
    }
}

/// Returns the schema of the example's tool.
fn schema() -> Value {
    serde_json::json!({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})
}

/// Removes the marks up to which the prompt is to be cached.
fn without_breakpoints(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.values_mut().for_each(without_breakpoints);
        }
        Value::Array(items) => items.iter_mut().for_each(without_breakpoints),
        _ => {}
    }
}
