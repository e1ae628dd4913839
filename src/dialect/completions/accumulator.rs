//! Changes an answer between complete and streamed, but not its dialect, for clients whose upstream answered in the
//! other form.

use std::collections::BTreeMap;

use crate::dialect::canonical::MAX_CHOICES;
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text, compact};
use crate::dialect::members::Members;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::{UpstreamError, is_error};
use crate::dialect::writer::Writer;

/// Turns a complete answer into a stream; its chunks have the same form, so one chunk is enough.
pub fn replay(answer: &str) -> String {
    format!("data: {}\n\ndata: [DONE]\n\n", compact(answer))
}

/// Collects a stream into a complete answer.
#[derive(Debug, Default)]
pub struct Accumulator {
    /// The first chunk, as JSON.
    begun: Option<String>,
    usage: Option<String>,
    choices: BTreeMap<u64, Choice>,
    ended: bool,
    failure: Option<UpstreamError>,
}

#[derive(Debug, Default)]
struct Choice {
    text: Text<'static>,
    /// `tokens`, `token_logprobs` and the other lists, which come in pieces.
    logprobs: Members,
    reason: Option<String>,
}

impl Accumulator {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>) {
        self.ended |= event.is_done();
        let Some(chunk) = event.json() else { return };
        if let Some(error) = chunk.get("error").filter(|error| is_error(error)) {
            self.failure = Some(UpstreamError::of(error).unwrap_or_else(UpstreamError::without_message));
        }
        if let Some(usage) = chunk.get("usage") {
            self.usage = Some(usage.raw().to_owned());
        }
        for choice in chunk.items_at("choices").iter().take(MAX_CHOICES) {
            let index = choice.u64_at("index").unwrap_or(0);
            if self.choices.len() == MAX_CHOICES && !self.choices.contains_key(&index) {
                continue;
            }
            let own = self.choices.entry(index).or_default();
            own.text.push(&choice.text_at("text").unwrap_or_default());
            for (key, list) in choice.get("logprobs").map_or(&[][..], Node::members) {
                own.logprobs.lengthen(key, list);
            }
            if let Some(reason) = choice.get("finish_reason") {
                own.reason = Some(reason.raw().to_owned());
                self.ended = true;
            }
        }
        self.begun.get_or_insert_with(|| chunk.raw().to_owned());
    }

    /// Returns the answer as JSON; an error when the stream failed or never ended.
    pub fn finish(self) -> Result<String, UpstreamError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let begun = self.begun.filter(|_| self.ended);
        let begun = begun.ok_or_else(|| UpstreamError::new("Upstream closed the stream before its end"))?;
        let mut choices = Writer::new();
        choices.list(|list| {
            for (index, choice) in &self.choices {
                list.object(|o| {
                    o.field("text", &choice.text);
                    o.field("index", *index);
                    if choice.logprobs.is_empty() {
                        o.field("logprobs", ())
                    } else {
                        o.object_at("logprobs", |o| choice.logprobs.put(o))
                    }
                    o.field("finish_reason", Json::checked(choice.reason.as_deref().unwrap_or("\"stop\"")));
                });
            }
        });
        let mut members = vec![("choices", choices.as_str())];
        members.extend(self.usage.as_deref().map(|usage| ("usage", usage)));
        Ok(edit(&begun, &members, &[]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(chunks: &[&str]) -> Result<String, UpstreamError> {
        let mut accumulator = Accumulator::default();
        chunks.iter().for_each(|chunk| accumulator.read(&StreamEvent::new(b"", chunk)));
        accumulator.finish()
    }

    #[test]
    fn pieces_make_an_answer_and_an_answer_a_stream() {
        let answer = gather(&[
            r#"{"id":"cmpl-1","choices":[{"text":"He","index":0,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"cmpl-1","choices":[{"text":"y","index":1,"logprobs":{"tokens":["y"],"text_offset":[0]},"finish_reason":null}]}"#,
            r#"{"id":"cmpl-1","choices":[{"text":"!","index":1,"logprobs":{"tokens":["!"],"text_offset":[1]},"finish_reason":"length"}]}"#,
            r#"{"id":"cmpl-1","choices":[{"text":"llo","index":0,"finish_reason":"stop"}]}"#,
            r#"{"id":"cmpl-1","choices":[],"usage":{"total_tokens":3}}"#,
            "[DONE]",
        ]);
        let wanted = concat!(
            r#"{"id":"cmpl-1","choices":[{"text":"Hello","index":0,"logprobs":null,"finish_reason":"stop"},"#,
            r#"{"text":"y!","index":1,"logprobs":{"tokens":["y","!"],"text_offset":[0,1]},"finish_reason":"length"}],"#,
            r#""usage":{"total_tokens":3}}"#
        );
        assert_eq!(answer.as_deref(), Ok(wanted));
        assert_eq!(replay("{ \"id\": 1 }"), "data: {\"id\":1}\n\ndata: [DONE]\n\n");
    }

    #[test]
    fn a_failed_or_broken_stream_is_no_answer() {
        let piece = r#"{"choices":[{"text":"x","index":0}]}"#;
        assert!(gather(&[piece]).is_err() && gather(&["[DONE]"]).is_err());
        assert_eq!(gather(&[piece, r#"{"error":{"message":"boom"}}"#]).unwrap_err().message, "boom");
    }
}
