//! Collects a stream of this dialect into a complete answer, for a client of this dialect that did not ask for a
//! stream. Blocks that no other dialect has are kept as they are.

use std::collections::HashMap;

use super::reply::{message_id, read_error};
use crate::dialect::canonical::ReplyContext;
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text};
use crate::dialect::members::Members;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::writer::Writer;

/// Collects the events of a stream, up to its end, into one answer.
#[derive(Debug, Default)]
pub struct Accumulator {
    /// The message object of `message_start`, as JSON.
    message: Option<String>,
    blocks: Vec<Block>,
    /// The position in `blocks` of the last block of each index.
    places: HashMap<u64, usize>,
    /// Members of the message that later events set.
    late: Members,
    usage: Members,
    /// Whether a stop reason, or the end, has come.
    stopped: bool,
    ended: bool,
    failure: Option<UpstreamError>,
}

/// A block as it began, with what its deltas added.
#[derive(Debug)]
struct Block {
    index: u64,
    start: String,
    text: Text<'static>,
    thinking: Text<'static>,
    signature: Text<'static>,
    input: Text<'static>,
    citations: Vec<String>,
}

impl Accumulator {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>) {
        if self.failure.is_some() {
            return;
        }
        if event.is_done() {
            // Some sites end every stream with `[DONE]`, so it ends an answer only after a stop reason.
            self.ended |= self.stopped;
            return;
        }
        let Some(json) = event.json() else {
            let counts = event.is_named_error() || !self.stopped;
            self.failure = event.failure().filter(|_| counts);
            return;
        };
        if let Some(error) = read_error(json) {
            self.failure = Some(error);
            return;
        }
        match event.kind() {
            "message_start" => {
                let message = json.get("message").filter(|message| message.is_object());
                let Some(message) = message.filter(|_| self.message.is_none()) else { return };
                self.message = Some(message.raw().to_owned());
                self.count(message);
            }
            "content_block_start" => {
                if let Some(block) = json.get("content_block").filter(|block| block.is_object()) {
                    let index = json.u64_at("index").unwrap_or(self.blocks.len() as u64);
                    self.push(Block::new(index, block.raw()));
                }
            }
            "content_block_delta" => self.read_delta(json),
            "message_delta" => {
                self.count(json);
                for (key, value) in json.get("delta").map_or(&[][..], Node::members) {
                    self.stopped |= key == "stop_reason" && !value.is_null();
                    self.late.set(key, value.raw());
                }
            }
            "message_stop" => (self.stopped, self.ended) = (true, true),
            _ => {}
        }
    }

    /// Returns the answer as JSON; an error when the stream failed or never ended.
    pub fn finish(self, context: &ReplyContext) -> Result<String, UpstreamError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !self.ended {
            return Err(UpstreamError::new("Upstream closed the stream before its end"));
        }
        let message = self.message.unwrap_or_else(|| begun(context));
        let mut content = Writer::new();
        content.list(|list| self.blocks.iter().for_each(|block| block.put(list)));
        let usage = self.usage.object();
        let mut members = vec![("content", content.as_str())];
        if !self.usage.is_empty() {
            members.push(("usage", &usage));
        }
        members.extend(self.late.iter());
        Ok(edit(&message, &members, &[]).into_owned())
    }

    /// Merges usage counts: later ones replace earlier ones, member by member.
    fn count(&mut self, holder: &Node<'_>) {
        for (key, value) in holder.get("usage").map_or(&[][..], Node::members) {
            if !value.is_null() || self.usage.get(key).is_none() {
                self.usage.set(key, value.raw());
            }
        }
    }

    fn push(&mut self, block: Block) {
        self.places.insert(block.index, self.blocks.len());
        self.blocks.push(block);
    }

    fn read_delta(&mut self, event: &Node<'_>) {
        let Some(delta) = event.get("delta") else { return };
        let kind = delta.str_at("type");
        let last = self.blocks.last().map_or(0, |block| block.index);
        let index = event.u64_at("index").unwrap_or(last);
        let known = self.places.get(&index).copied();
        if known.is_none() {
            // The start of the block got lost.
            let Some(start) = begun_block(&kind) else { return };
            self.push(Block::new(index, start));
        }
        let at = known.unwrap_or(self.blocks.len() - 1);
        let Some(block) = self.blocks.get_mut(at) else { return };
        let mut push = |key: &str, member: fn(&mut Block) -> &mut Text<'static>| {
            if let Some(text) = delta.text_at(key) {
                member(block).push(&text);
            }
        };
        match kind.as_ref() {
            "text_delta" => push("text", |block| &mut block.text),
            "thinking_delta" => push("thinking", |block| &mut block.thinking),
            "signature_delta" => push("signature", |block| &mut block.signature),
            "input_json_delta" => push("partial_json", |block| &mut block.input),
            "citations_delta" => {
                block.citations.extend(delta.get("citation").map(|citation| citation.raw().to_owned()));
            }
            _ => {}
        }
    }
}

impl Block {
    fn new(index: u64, start: &str) -> Self {
        Self {
            index,
            start: start.to_owned(),
            text: Text::EMPTY,
            thinking: Text::EMPTY,
            signature: Text::EMPTY,
            input: Text::EMPTY,
            citations: Vec::new(),
        }
    }

    /// Writes the block with what its deltas added.
    fn put(&self, list: &mut Writer) {
        let Ok(start) = Node::parse(&self.start) else { return };
        let mut members: Vec<(&str, String)> = Vec::new();
        for (key, more) in
            [("text", &self.text), ("thinking", &self.thinking), ("signature", &self.signature)]
        {
            if !more.is_empty() {
                let mut whole = start.text_at(key).unwrap_or_default().into_owned();
                whole.push(more);
                members.push((key, format!("\"{}\"", whole.literal())));
            }
        }
        if !self.citations.is_empty() {
            let before = start.items_at("citations").iter().map(Node::raw);
            let all: Vec<_> = before.chain(self.citations.iter().map(String::as_str)).collect();
            members.push(("citations", format!("[{}]", all.join(","))));
        }
        if !self.input.is_empty() {
            let input = self.input.decode();
            let is_object = Node::parse(&input).is_ok_and(|input| input.is_object());
            let raw = || format!("{{\"_raw\":\"{}\"}}", self.input.literal());
            members.push(("input", if is_object { input.into_owned() } else { raw() }));
        }
        let members: Vec<_> = members.iter().map(|(key, value)| (*key, value.as_str())).collect();
        list.item(Json::checked(&edit(&self.start, &members, &[])));
    }
}

/// Returns the beginning of a block whose first delta is of this kind.
pub(super) fn begun_block(delta: &str) -> Option<&'static str> {
    match delta {
        "text_delta" => Some(r#"{"type":"text","text":""}"#),
        "thinking_delta" => Some(r#"{"type":"thinking","thinking":"","signature":""}"#),
        _ => None,
    }
}

/// Builds the message object of a `message_start` that the upstream left out. It has the stop reason of an answer that ends.
pub(super) fn begun(context: &ReplyContext) -> String {
    let mut json = Writer::new();
    json.object(|o| {
        o.field("id", message_id(&Text::EMPTY, context));
        o.field("type", "message");
        o.field("role", "assistant");
        o.field("model", &context.model);
        o.array("content", |_| {});
        o.field("stop_reason", "end_turn");
        o.field("stop_sequence", ());
        o.object_at("usage", |o| {
            o.field("input_tokens", 0u64);
            o.field("output_tokens", 0u64);
        });
    });
    json.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(events: &[&str]) -> Result<String, UpstreamError> {
        let mut accumulator = Accumulator::default();
        events.iter().for_each(|data| accumulator.read(&StreamEvent::new(b"", data)));
        let context = ReplyContext { fallback_id: "r".into(), model: "m".into(), ..ReplyContext::default() };
        accumulator.finish(&context)
    }

    const STOP: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"input_tokens":null}}"#;
    const END: &str = r#"{"type":"message_stop"}"#;

    #[test]
    fn counts_are_merged_and_lost_beginnings_made_up() {
        let start = r#"{"type":"message_start","message":{"id":"msg_1","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}"#;
        let text = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
        let answer = gather(&[start, text, STOP, END]).unwrap();
        let wanted = r#"{"id":"msg_1","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9}}"#;
        assert_eq!(answer, wanted);
        for start in [None, Some(r#"{"type":"message_start","message":""}"#)] {
            let events: Vec<_> = start.into_iter().chain([text, END]).collect();
            let answer = gather(&events).unwrap();
            assert!(answer.starts_with(r#"{"id":"msg_r","type":"message""#), "{answer}");
        }
    }

    #[test]
    fn a_broken_input_stays_what_it_was() {
        let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
        let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}"#;
        let answer = gather(&[start, delta, STOP, END]).unwrap();
        assert!(answer.contains(r#""input":{"_raw":"{\"a"}"#), "{answer}");
    }

    #[test]
    fn a_failed_or_broken_stream_is_no_answer() {
        let start = r#"{"type":"message_start","message":{"id":"msg_1","content":[]}}"#;
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Over"}}"#;
        assert_eq!(gather(&[start, error]).unwrap_err().message, "Over");
        for unended in [&[start][..], &[start, STOP], &[start, "[DONE]"]] {
            assert!(gather(unended).is_err(), "{unended:?}");
        }
        assert!(gather(&[start, STOP, "[DONE]"]).is_ok());
    }
}
