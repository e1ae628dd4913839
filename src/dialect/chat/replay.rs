//! Replays a complete answer of this dialect as a stream, for a client of this dialect that asked for one.
//!
//! Each member is only moved to its place, so that everything that only this dialect has is kept: log probabilities,
//! annotations, audio, further choices, unknown members.

use std::borrow::Cow;

use super::reply_write::id;
use super::{calls, stop, thinking};
use crate::dialect::canonical::{MAX_CHOICES, MAX_REPEATED, ReplyContext};
use crate::dialect::literal::{Json, compact};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Members of an answer for which chunks have a form of their own.
const OF_THE_ANSWER: [&str; 6] = ["id", "object", "created", "model", "choices", "usage"];

/// Appends the chunks of the answer.
pub fn replay(answer: &Node<'_>, context: &ReplyContext, out: &mut String) {
    let mut room = MAX_REPEATED;
    let (repeated, long): (Vec<_>, Vec<_>) = others(answer).partition(|(key, value)| {
        let left = room.checked_sub(key.len() + value.raw().len());
        room = left.unwrap_or(room);
        left.is_some()
    });
    let chunks = Chunks { head: head(answer, &repeated, context), usage_chunk: context.usage_chunk };
    if !long.is_empty() {
        out.push_str(&chunks.of_the_answer(&long));
    }
    for (place, choice) in answer.items_at("choices").iter().enumerate().take(MAX_CHOICES) {
        let index = choice.u64_at("index").unwrap_or(place as u64);
        replay_choice(choice, &|inside| chunks.choice(index, inside), out);
    }
    if let Some(usage) = answer.get("usage").filter(|_| context.usage_chunk) {
        let members = [&chunks.head, "],\"usage\":", &compact(usage.raw()), "}\n\n"];
        members.iter().for_each(|piece| out.push_str(piece));
    }
    out.push_str("data: [DONE]\n\n");
}

type Member<'a> = (Cow<'a, str>, Node<'a>);

/// Returns the members of the answer for which chunks have no form of their own.
fn others<'n, 'a>(answer: &'n Node<'a>) -> impl Iterator<Item = &'n Member<'a>> {
    answer.members().iter().filter(|(key, _)| !OF_THE_ANSWER.contains(&key.as_ref()))
}

/// Builds the beginning of every chunk.
fn head(answer: &Node<'_>, others: &[&Member<'_>], context: &ReplyContext) -> String {
    let is_short = |value: &&Node<'_>| value.raw().len() <= MAX_REPEATED;
    let mut json = Writer::new();
    json.object(|o| {
        let own = answer.get("id").filter(is_short).and_then(Node::text);
        o.field("id", id(&own.unwrap_or_default(), context));
        o.field("object", "chat.completion.chunk");
        o.field("created", answer.u64_at("created").unwrap_or(context.now));
        match answer.get("model").filter(is_short) {
            Some(model) => put(o, "model", model),
            None => o.field("model", &context.model),
        }
        others.iter().for_each(|(key, value)| put(o, key, value));
    });
    format!("data: {},\"choices\":[", json.as_str().strip_suffix('}').unwrap_or_default())
}

struct Chunks {
    head: String,
    usage_chunk: bool,
}

impl Chunks {
    /// Builds a chunk with one choice; `inside` writes the members after the index.
    fn choice(&self, index: u64, inside: &dyn Fn(&mut Writer)) -> String {
        let mut choice = Writer::new();
        choice.object(|o| {
            o.field("index", index);
            inside(o);
        });
        [self.head.as_str(), choice.as_str(), self.tail()].concat()
    }

    /// Builds the chunk with those members of the answer that are too long to be repeated in each chunk.
    fn of_the_answer(&self, members: &[&Member<'_>]) -> String {
        let mut json = Writer::new();
        json.object(|o| members.iter().for_each(|(key, value)| put(o, key, value)));
        let inside = json.as_str().strip_prefix('{').unwrap_or_default();
        let before = self.tail().strip_suffix("}\n\n").unwrap_or_default();
        [self.head.as_str(), before, ",", inside, "\n\n"].concat()
    }

    /// Returns the end of every chunk. A client that asked for usage gets the member in every chunk, and its value in the
    /// last.
    fn tail(&self) -> &'static str {
        if self.usage_chunk { "],\"usage\":null}\n\n" } else { "]}\n\n" }
    }
}

type Chunk<'c> = &'c dyn Fn(&dyn Fn(&mut Writer)) -> String;

fn replay_choice(choice: &Node<'_>, chunk: Chunk<'_>, out: &mut String) {
    let message = choice.get("message").or(choice.get("delta")).unwrap_or(choice);
    let mut logprobs = choice.get("logprobs");
    let mut delta = |logprobs: Option<&Node<'_>>, inside: &dyn Fn(&mut Writer)| {
        out.push_str(&chunk(&|o| {
            o.object_at("delta", inside);
            if let Some(logprobs) = logprobs {
                put(o, "logprobs", logprobs);
            }
            o.field("finish_reason", ());
        }));
    };
    delta(None, &|o| {
        o.field("role", "assistant");
        o.field("content", "");
    });
    // The thinking goes before the text.
    for (key, value) in thinking::MEMBERS.iter().filter_map(|key| Some((key, message.get(key)?))) {
        delta(None, &|o| put(o, key, value));
    }
    let is_empty = |value: &Node<'_>| value.text().is_some_and(|text| text.is_empty());
    if let Some(content) = message.get("content").filter(|content| !is_empty(content)) {
        delta(logprobs.take(), &|o| put(o, "content", content));
    }
    for (key, value) in message.members() {
        let is_known = matches!(key.as_ref(), "role" | "content" | "tool_calls");
        if !is_known && !value.is_null() && !thinking::MEMBERS.contains(&key.as_ref()) {
            delta(logprobs.take(), &|o| put(o, key, value));
        }
    }
    for (number, call) in message.items_at("tool_calls").iter().enumerate() {
        delta(logprobs.take(), &|o| {
            o.array("tool_calls", |a| {
                a.object(|o| {
                    o.field("index", number as u64);
                    let members = call.members().iter().filter(|(key, _)| key != "index");
                    members.for_each(|(key, value)| put(o, key, value));
                });
            });
        });
    }
    let called = calls::of_message(message).next().is_some();
    let is_legacy = message.items_at("tool_calls").is_empty();
    out.push_str(&chunk(&|o| {
        o.object_at("delta", |_| {});
        // Some sites say `stop` although there are calls; a client that reads that runs none of them.
        let is_call = called && matches!(&*choice.str_at("finish_reason"), "" | "stop");
        match choice.get("finish_reason").filter(|reason| !is_empty(reason)) {
            Some(reason) if !is_call => put(o, "finish_reason", reason),
            _ => o.field("finish_reason", stop::word(&stop::read("", called), is_legacy)),
        }
    }));
}

/// Writes a member as it came, on one line.
fn put(o: &mut Writer, key: &str, value: &Node<'_>) {
    o.field(key, Json::checked(&compact(value.raw())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(answer: &str, context: &ReplyContext) -> Vec<String> {
        let mut out = String::new();
        replay(&Node::parse(answer).unwrap(), context, &mut out);
        out.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_long_is_not_repeated_in_each_chunk() {
        let long = "x".repeat(MAX_REPEATED + 1);
        let answer = format!(
            r#"{{"id":"{long}","model":"{long}","citations":["{long}"],"tier":"t","choices":[{{"message":{{"content":"Hi"}}}}]}}"#
        );
        let context = ReplyContext { model: "m".to_owned(), ..ReplyContext::default() };
        let chunks = events_of(&answer, &context);
        assert!(
            chunks[0].ends_with(&format!(r#""tier":"t","choices":[],"citations":["{long}"]}}"#)),
            "{}",
            chunks[0]
        );
        assert!(chunks[1].contains(r#""model":"m","tier":"t","choices":[{"index":0"#), "{}", chunks[1]);
        assert_eq!(chunks.concat().matches(&long).count(), 1);
        assert!(chunks.iter().take(chunks.len() - 1).all(|chunk| Node::parse(chunk).is_ok()), "{chunks:?}");
    }

    #[test]
    fn everything_in_an_answer_is_replayed_in_chunks() {
        let answer = r#"{"id":"c-1", "object":"chat.completion","created":5,"model":"m","system_fingerprint":"fp",
            "choices":[{"index":0,"message":{"role":"assistant","content":"Hi","reasoning":"hm","annotations":[{"a": 1}],
            "tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},
            "logprobs":{"content":[]},"finish_reason":"tool_calls"},
            {"index":1,"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":1, "new":2}}"#;
        let context = ReplyContext { usage_chunk: true, ..ReplyContext::default() };
        let head = r#"{"id":"c-1","object":"chat.completion.chunk","created":5,"model":"m","system_fingerprint":"fp","choices":["#;
        let choice = |inside: &str| format!("{head}{{{inside}}}],\"usage\":null}}");
        assert_eq!(
            events_of(answer, &context),
            [
                choice(r#""index":0,"delta":{"role":"assistant","content":""},"finish_reason":null"#),
                choice(r#""index":0,"delta":{"reasoning":"hm"},"finish_reason":null"#),
                choice(
                    r#""index":0,"delta":{"content":"Hi"},"logprobs":{"content":[]},"finish_reason":null"#
                ),
                choice(r#""index":0,"delta":{"annotations":[{"a":1}]},"finish_reason":null"#),
                choice(
                    r#""index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null"#
                ),
                choice(r#""index":0,"delta":{},"finish_reason":"tool_calls""#),
                choice(r#""index":1,"delta":{"role":"assistant","content":""},"finish_reason":null"#),
                choice(r#""index":1,"delta":{},"finish_reason":"length""#),
                format!("{head}],\"usage\":{{\"prompt_tokens\":1,\"new\":2}}}}"),
                "[DONE]".to_owned(),
            ]
        );
    }

    #[test]
    fn what_an_answer_lacks_is_made_up() {
        let context =
            ReplyContext { now: 7, fallback_id: "r".into(), model: "m".into(), ..ReplyContext::default() };
        let chunks = events_of(r#"{"choices":[{"message":{"content":"x"}}]}"#, &context);
        let head =
            r#"{"id":"chatcmpl-r","object":"chat.completion.chunk","created":7,"model":"m","choices":["#;
        assert!(chunks[0].starts_with(head), "{}", chunks[0]);
        assert_eq!(chunks[2], format!("{head}{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}"));
    }

    #[test]
    fn a_plain_stop_beside_calls_is_a_call() {
        let calls = r#""tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]"#;
        let legacy = r#""function_call":{"name":"f","arguments":"{}"}"#;
        let cases = [
            (calls, "\"stop\"", "tool_calls"),
            (calls, "null", "tool_calls"),
            (calls, "\"length\"", "length"),
            (legacy, "\"stop\"", "function_call"),
            (r#""content":"x""#, "\"stop\"", "stop"),
        ];
        for (message, said, told) in cases {
            let answer = format!(r#"{{"choices":[{{"message":{{{message}}},"finish_reason":{said}}}]}}"#);
            let chunks = events_of(&answer, &ReplyContext::default());
            let last = &chunks[chunks.len() - 2];
            assert!(last.contains(&format!("\"finish_reason\":\"{told}\"")), "{message} {said}: {last}");
        }
    }
}
