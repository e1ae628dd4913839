//! Changes an answer between complete and streamed, but not its dialect: what no other dialect has (pictures, code
//! that was run, ratings) is kept as it is.

use std::collections::BTreeMap;

use super::{member, stop};
use crate::dialect::canonical::{MAX_CHOICES, MAX_REPEATED, ReplyContext};
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text, compact};
use crate::dialect::members::Members;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::writer::Writer;

/// Appends a complete answer as a stream. Its chunks have the form of a complete answer: one for each part, and the
/// last with everything else. If there are several candidates, one chunk has everything.
pub fn replay(answer: &Node<'_>, _: &ReplyContext, out: &mut String) {
    let answer = stop::opened(answer);
    let mut put = |chunk: &str| out.extend(["data: ", chunk, "\n\n"]);
    let candidates = answer.items_at("candidates");
    let candidates = candidates.get(..MAX_CHOICES).unwrap_or(candidates);
    let mut last: Vec<_> = candidates.iter().map(finished).collect();
    if let [candidate] = candidates
        && let Some((part, earlier)) = parts(candidate).split_last()
    {
        earlier.iter().for_each(|part| put(&chunk(answer, part)));
        let mut content = Writer::new();
        content.object(|o| put_parts(o, |a| a.item(Json::checked(&compact(part.raw())))));
        last = last.iter().map(|it| edit(it, &[("content", content.as_str())], &[]).into_owned()).collect();
    }
    let body = compact(answer.raw());
    if last.is_empty() {
        put(&body)
    } else {
        put(&edit(&body, &[("candidates", &format!("[{}]", last.join(",")))], &[]))
    }
}

fn parts<'n, 'a>(candidate: &'n Node<'a>) -> &'n [Node<'a>] {
    candidate.path(&["content", "parts"]).map_or(&[][..], Node::items)
}

/// Returns a candidate with a reason for its end, as the end of a stream must have; a candidate that is not an object
/// has nothing else.
fn finished(candidate: &Node<'_>) -> String {
    if !candidate.is_object() {
        return r#"{"finishReason":"STOP"}"#.to_owned();
    }
    let body = compact(candidate.raw());
    match member::get(candidate, "finishReason") {
        Some(_) => body.into_owned(),
        None => edit(&body, &[("finishReason", "\"STOP\"")], &["finish_reason"]).into_owned(),
    }
}

/// Builds a chunk with one part.
fn chunk(answer: &Node<'_>, part: &Node<'_>) -> String {
    let mut json = Writer::with_capacity(part.raw().len() + 160);
    json.object(|o| {
        o.array("candidates", |a| {
            a.object(|o| {
                put_content(o, |a| a.item(Json::checked(&compact(part.raw()))));
                o.field("index", 0u64);
            });
        });
        for key in ["modelVersion", "responseId"] {
            // The last chunk has all members.
            if let Some(value) = answer.get(key).filter(|value| value.raw().len() <= MAX_REPEATED) {
                o.field(key, Json::checked(&compact(value.raw())));
            }
        }
    });
    json.into_string()
}

fn put_content(o: &mut Writer, parts: impl FnOnce(&mut Writer)) {
    o.object_at("content", |o| put_parts(o, parts));
}

fn put_parts(o: &mut Writer, parts: impl FnOnce(&mut Writer)) {
    o.field("role", "model");
    o.array("parts", parts);
}

/// Collects a stream into a complete answer.
#[derive(Debug, Default)]
pub struct Accumulator {
    /// The top-level members, each with its last value.
    members: Members,
    candidates: BTreeMap<u64, Candidate>,
    ended: bool,
    failure: Option<UpstreamError>,
}

#[derive(Debug, Default)]
struct Candidate {
    members: Members,
    parts: Vec<GatheredPart>,
}

#[derive(Debug)]
enum GatheredPart {
    /// Nothing but text, or nothing but thoughts: a following part of that kind continues it.
    Text {
        thought: bool,
        text: Text<'static>,
    },
    Other(String),
}

impl Accumulator {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>) {
        let Some(chunk) = event.json() else {
            let counts = event.is_named_error() || !self.ended;
            self.failure = self.failure.take().or_else(|| event.failure().filter(|_| counts));
            return;
        };
        let chunk = stop::opened(chunk);
        let failure = if event.is_named_error() { Some(stop::error_of(chunk)) } else { stop::failure(chunk) };
        if let Some(failure) = failure {
            self.failure.get_or_insert(failure);
            return;
        }
        self.ended |= stop::is_blocked(chunk);
        for (key, value) in chunk.members().iter().filter(|(key, _)| key != "candidates") {
            self.members.set(key, value.raw());
        }
        for candidate in chunk.items_at("candidates").iter().take(MAX_CHOICES) {
            self.ended |= member::get(candidate, "finishReason").is_some();
            let index = candidate.u64_at("index").unwrap_or(0);
            if self.candidates.len() < MAX_CHOICES || self.candidates.contains_key(&index) {
                self.candidates.entry(index).or_default().read(candidate);
            }
        }
    }

    /// Returns the answer as JSON; an error when the stream failed or never ended.
    pub fn finish(self) -> Result<String, UpstreamError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !self.ended {
            return Err(UpstreamError::new("Upstream closed the stream before its end"));
        }
        let mut json = Writer::new();
        json.object(|o| {
            if !self.candidates.is_empty() {
                o.array("candidates", |a| self.candidates.values().for_each(|it| a.object(|o| it.put(o))));
            }
            self.members.put(o);
        });
        Ok(json.into_string())
    }
}

impl Candidate {
    fn read(&mut self, candidate: &Node<'_>) {
        for (key, value) in candidate.members() {
            // A null does not replace an earlier value.
            if key != "content" && !value.is_null() {
                self.members.set(key, value.raw());
            }
        }
        for part in parts(candidate) {
            match (plain(part), self.parts.last_mut()) {
                (Some(more), Some(GatheredPart::Text { thought, text })) if *thought == more.thought => {
                    text.push(&more.text);
                }
                (Some(PlainText { thought, text }), _) => {
                    self.parts.push(GatheredPart::Text { thought, text: text.into_owned() });
                }
                (None, _) => self.parts.push(GatheredPart::Other(part.raw().to_owned())),
            }
        }
    }

    fn put(&self, o: &mut Writer) {
        put_content(o, |a| self.parts.iter().for_each(|part| part.put(a)));
        self.members.put(o);
    }
}

impl GatheredPart {
    fn put(&self, list: &mut Writer) {
        match self {
            Self::Text { thought, text } => list.object(|o| {
                o.field("text", text);
                o.field_if("thought", thought.then_some(true));
            }),
            Self::Other(part) => list.item(Json::checked(part)),
        }
    }
}

/// The text of a part that has nothing else.
struct PlainText<'a> {
    thought: bool,
    text: Text<'a>,
}

fn plain<'a>(part: &Node<'a>) -> Option<PlainText<'a>> {
    let is_known = |key: &str| matches!(key, "text" | "thought");
    let text = part.text_at("text").filter(|_| part.members().iter().all(|(key, _)| is_known(key)))?;
    Some(PlainText { thought: part.bool_at("thought") == Some(true), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(chunks: &[&str]) -> Result<String, UpstreamError> {
        let mut accumulator = Accumulator::default();
        chunks.iter().for_each(|chunk| accumulator.read(&StreamEvent::new(b"", chunk)));
        accumulator.finish()
    }

    const IMAGE: &str = r#"{"inlineData":{"mimeType":"image/png","data":"AA"}}"#;

    #[test]
    fn what_only_this_dialect_has_comes_through() {
        let chunk = |part: &str, more: &str| {
            format!(
                r#"{{"candidates":[{{"content":{{"role":"model","parts":[{part}]}},"index":0{more}}}],"modelVersion":"m"}}"#
            )
        };
        let chunks = [
            chunk(r#"{"text":"hm","thought":true}"#, ""),
            chunk(r#"{"text":"a"},{"text":"b\n"}"#, ""),
            chunk(r#"{"text":"c"}"#, r#","safetyRatings":[1]"#),
            chunk(IMAGE, ""),
            chunk(
                r#"{"text":"","thoughtSignature":"S"}"#,
                r#","finishReason":"STOP","groundingMetadata":{}"#,
            ),
            r#"{"response":{"usageMetadata":{"promptTokenCount":1},"candidates":[{}]}}"#.to_owned(),
        ];
        let wanted = format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"text":"hm","thought":true}},{{"text":"ab\nc"}},{IMAGE},{{"text":"","thoughtSignature":"S"}}]}},"index":0,"safetyRatings":[1],"finishReason":"STOP","groundingMetadata":{{}}}}],"modelVersion":"m","usageMetadata":{{"promptTokenCount":1}}}}"#
        );
        let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
        let whole = gather(&chunks).unwrap();
        assert_eq!(whole, wanted);
        let mut told = String::new();
        replay(&Node::parse(&whole).unwrap(), &ReplyContext::default(), &mut told);
        let chunks: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(
            chunks[2],
            format!(
                r#"{{"candidates":[{{"content":{{"role":"model","parts":[{IMAGE}]}},"index":0}}],"modelVersion":"m"}}"#
            )
        );
        assert_eq!((chunks.len(), gather(&chunks).unwrap()), (4, whole));
    }

    #[test]
    fn what_has_no_parts_to_tell_is_told_at_once() {
        for (whole, wanted) in [
            (
                r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
                r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#,
            ),
            (r#"{"candidates":[7]}"#, r#"{"candidates":[{"finishReason":"STOP"}]}"#),
            (
                r#"{"candidates":[ {"content":{"parts":[{"text":"a"}]}}]}"#,
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#,
            ),
            (
                r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}]},"finishReason":null},{"content":{}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}]},"finishReason":"STOP"},{"content":{},"finishReason":"STOP"}]}"#,
            ),
        ] {
            let mut told = String::new();
            replay(&Node::parse(whole).unwrap(), &ReplyContext::default(), &mut told);
            assert_eq!(told, format!("data: {wanted}\n\n"));
        }
    }

    #[test]
    fn a_stream_that_failed_or_broke_is_no_answer() {
        assert!(gather(&[r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#]).is_err());
        let error = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
        assert_eq!(gather(&[error]).unwrap_err().message, "busy");
        let broken = r#"{"candidates":[{"cont"#;
        let last = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
        assert!(gather(&[broken, last]).unwrap_err().message.contains("not valid JSON"));
        assert!(gather(&[last, broken]).is_ok(), "nothing is missing");
        let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#;
        assert_eq!(gather(&[blocked]).unwrap(), blocked);
    }
}
