//! Reads a streamed answer.
//!
//! Blocks come one after another, so a new block ends the one before it. Only calls stay open beside it, because some
//! sites interleave the deltas of calls. Blocks of tools that the upstream ran itself, and deltas of unknown kinds,
//! are skipped.

use std::collections::{BTreeMap, HashMap};

use super::blocks::read_call;
use super::reply::read_error;
use super::stop;
use super::{citations, searches};
use crate::dialect::canonical::{Event, PartKind, Stop};
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Signature};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

/// Reads a streamed answer, event by event.
#[derive(Debug, Default)]
pub struct StreamReader {
    phase: Phase,
    /// The open blocks, in the order in which they began: calls, and at most one block of another kind.
    blocks: BTreeMap<u64, Block>,
    /// The number of blocks that have begun.
    begun: u64,
    /// The key in `blocks` of the open block of each index.
    places: BTreeMap<u64, u64>,
    /// The key in `blocks` of the open block that is not a call.
    other: Option<u64>,
    /// The searches whose results have not come, with the keys of their parts.
    searches: HashMap<Text<'static>, u32>,
    next_key: u32,
    /// The usage so far, as this dialect counts it; an event may report only a part of it.
    usage: Usage,
    called: bool,
}

#[derive(Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Fresh,
    Started,
    /// The stop reason is known.
    Finished,
    Over,
}

/// An open block.
#[derive(Debug)]
struct Block {
    index: u64,
    /// The key of its part; `None` for a block that is skipped.
    key: Option<u32>,
    kind: BlockKind,
}

#[derive(Debug)]
enum BlockKind {
    Text,
    /// With its signature so far.
    Thinking(Text<'static>),
    Call {
        id: Text<'static>,
        /// An input that came with the start of the block.
        whole: Text<'static>,
    },
    /// With its input so far.
    Search(Text<'static>),
    Other,
}

impl StreamReader {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.phase == Phase::Over {
            return;
        }
        if event.is_done() {
            // Some sites end every stream with `[DONE]`, so it ends an answer only after a stop reason.
            if self.phase == Phase::Finished {
                self.end(each);
            }
            return;
        }
        let Some(json) = event.json() else {
            let counts = event.is_named_error() || self.is_unfinished();
            if let Some(error) = event.failure().filter(|_| counts) {
                self.fail(error, each);
            }
            return;
        };
        if let Some(error) = read_error(json) {
            return self.fail(error, each);
        }
        match event.kind() {
            "message_start" => self.read_start(json, each),
            "content_block_start" => self.read_block_start(json, each),
            "content_block_delta" => self.read_delta(json, each),
            "content_block_stop" => {
                // A second stop for the same block ends nothing.
                let at = match json.u64_at("index") {
                    Some(index) => self.places.get(&index).copied(),
                    None => self.blocks.last_key_value().map(|(at, _)| *at),
                };
                self.close_block(at, each);
            }
            "message_delta" => self.read_message_delta(json, each),
            "message_stop" => {
                let stop = if self.called { Stop::ToolCall } else { Stop::End };
                self.finish(stop, each);
                self.end(each);
            }
            _ => {}
        }
    }

    /// Does nothing at the end of the upstream's body: only `message_stop`, or `[DONE]` after a stop reason,
    /// completes an answer.
    pub fn close(&mut self, _each: &mut dyn FnMut(Event<'_>)) {}

    fn read_start(&mut self, event: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let Some(message) = event.get("message") else { return };
        if self.phase == Phase::Fresh {
            self.phase = Phase::Started;
            let id = message.text_at("id").unwrap_or_default();
            let model = message.text_at("model").unwrap_or_default();
            each(Event::Start { id, model, created: None });
        }
        self.read_usage(message, each);
    }

    /// Emits the start if it has not come: some sites begin with the first block.
    fn ensure_started(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        if self.phase == Phase::Fresh {
            self.phase = Phase::Started;
            each(Event::Start { id: Text::EMPTY, model: Text::EMPTY, created: None });
        }
    }

    fn read_usage(&mut self, holder: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if let Some(usage) = holder.get("usage").and_then(stop::read_usage) {
            self.usage.merge(usage);
            each(Event::Usage(stop::with_cache(self.usage)));
        }
    }

    fn read_block_start(&mut self, event: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.phase == Phase::Finished {
            return;
        }
        let (block, index) = (event.get("content_block"), event.u64_at("index").unwrap_or(0));
        if block.is_some_and(|block| self.is_open(index, block)) {
            return;
        }
        self.close_before(index, each);
        let Some(block) = block else { return };
        match block.str_at("type").as_ref() {
            "text" => {
                self.open(index, BlockKind::Text, PartKind::Text, block.text_at("text"), each);
                let key = self.next_key - 1;
                for citation in block.items_at("citations").iter().filter_map(citations::read) {
                    each(Event::Cite { key, citation });
                }
            }
            "thinking" => {
                let proof = block.text_at("signature").unwrap_or_default().into_owned();
                let text = block.text_at("thinking");
                self.open(index, BlockKind::Thinking(proof), PartKind::Thinking, text, each);
            }
            "redacted_thinking" => {
                self.open(index, BlockKind::Other, PartKind::Thinking, None, each);
                let (key, data) = (self.next_key - 1, block.text_at("data").unwrap_or_default());
                if let Some(signature) = signature_of(&data, Signature::AnthropicRedacted) {
                    each(Event::Signature { key, signature });
                }
            }
            "tool_use" => {
                let call = read_call(block);
                if call.name.is_empty() {
                    return self.push(Block { index, key: None, kind: BlockKind::Other });
                }
                self.called = true;
                let whole = if call.input.is("{}") { Text::EMPTY } else { call.input.into_owned() };
                let kind = BlockKind::Call { id: call.id.clone().into_owned(), whole };
                let part = PartKind::Call { id: call.id, name: call.name, kind: call.kind, signature: None };
                self.open(index, kind, part, None, each);
            }
            "server_tool_use" if searches::is_search(block) => {
                let id = block.text_at("id").unwrap_or_default();
                let input = block.get("input").filter(|input| !input.members().is_empty());
                let input = input.map(|input| Text::of(input.raw())).unwrap_or_default();
                let earlier = self.searches.insert(id.clone().into_owned(), self.next_key);
                if let Some(key) = earlier {
                    each(Event::PartStop { key });
                }
                self.open(index, BlockKind::Search(input), PartKind::Search { id }, None, each);
            }
            "web_search_tool_result" => {
                self.push(Block { index, key: None, kind: BlockKind::Other });
                let id = block.text_at("tool_use_id").unwrap_or_default();
                let Some(key) = self.searches.remove(&id.into_owned()) else { return };
                each(Event::SearchOutcome { key, found: searches::found(block) });
                each(Event::PartStop { key });
            }
            _ => self.push(Block { index, key: None, kind: BlockKind::Other }),
        }
    }

    /// Returns whether the block is the call that is open at that index: some relays send events twice.
    fn is_open(&self, index: u64, block: &Node<'_>) -> bool {
        let id = block.text_at("id").filter(|id| !id.is_empty());
        let open = self.places.get(&index).and_then(|at| self.blocks.get(at));
        matches!(open, Some(Block { kind: BlockKind::Call { id: own, .. }, .. }) if id.as_ref() == Some(own))
    }

    fn open(
        &mut self,
        index: u64,
        kind: BlockKind,
        part: PartKind<'_>,
        text: Option<Text<'_>>,
        each: &mut dyn FnMut(Event<'_>),
    ) {
        self.ensure_started(each);
        let key = self.next_key;
        self.next_key += 1;
        self.push(Block { index, key: Some(key), kind });
        each(Event::PartStart { key, part });
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            each(Event::Delta { key, text });
        }
    }

    fn read_delta(&mut self, event: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let Some(delta) = event.get("delta").filter(|_| self.phase != Phase::Finished) else { return };
        let index = event.u64_at("index").unwrap_or(0);
        let (kind, text) = match delta.str_at("type").as_ref() {
            "text_delta" => ("text", delta.text_at("text")),
            "thinking_delta" => ("thinking", delta.text_at("thinking")),
            "signature_delta" => ("signature", delta.text_at("signature")),
            "input_json_delta" => ("input", delta.text_at("partial_json")),
            "citations_delta" => return self.read_citation(index, delta, each),
            _ => return,
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else { return };
        if !self.places.contains_key(&index) {
            self.close_before(index, each);
            // The start of the block got lost: the kind of the delta tells its type.
            match kind {
                "text" => return self.open(index, BlockKind::Text, PartKind::Text, Some(text), each),
                "thinking" => {
                    let kind = BlockKind::Thinking(Text::EMPTY);
                    return self.open(index, kind, PartKind::Thinking, Some(text), each);
                }
                _ => return,
            }
        }
        let block = self.places.get(&index).and_then(|at| self.blocks.get_mut(at));
        let Some(Block { key: Some(key), kind: open, .. }) = block else { return };
        match (open, kind) {
            (BlockKind::Thinking(proof), "signature") => proof.push(&text),
            (BlockKind::Search(input), "input") => input.push(&text),
            (BlockKind::Call { whole, .. }, "input") => {
                *whole = Text::EMPTY;
                each(Event::Delta { key: *key, text });
            }
            (BlockKind::Text, "text") | (BlockKind::Thinking(_), "thinking") => {
                each(Event::Delta { key: *key, text })
            }
            _ => {}
        }
    }

    fn read_citation(&mut self, index: u64, delta: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        let block = self.places.get(&index).and_then(|at| self.blocks.get(at));
        let Some(Block { key: Some(key), kind: BlockKind::Text, .. }) = block else { return };
        if let Some(citation) = delta.get("citation").and_then(citations::read) {
            each(Event::Cite { key: *key, citation });
        }
    }

    /// Closes the open blocks that a new block of that index ends.
    fn close_before(&mut self, index: u64, each: &mut dyn FnMut(Event<'_>)) {
        let (same, other) = (self.places.get(&index).copied(), self.other);
        self.close_block(same.min(other).or(same).or(other), each);
        self.close_block(same.max(other), each);
    }

    fn push(&mut self, block: Block) {
        let at = self.begun;
        self.begun += 1;
        if !matches!(block.kind, BlockKind::Call { .. }) {
            self.other = Some(at);
        }
        self.places.insert(block.index, at);
        self.blocks.insert(at, block);
    }

    fn close_block(&mut self, at: Option<u64>, each: &mut dyn FnMut(Event<'_>)) {
        let Some(block) = at.and_then(|at| self.blocks.remove(&at)) else { return };
        self.places.remove(&block.index);
        self.other = self.other.filter(|other| Some(*other) != at);
        close(block, each);
    }

    fn read_message_delta(&mut self, event: &Node<'_>, each: &mut dyn FnMut(Event<'_>)) {
        self.ensure_started(each);
        self.read_usage(event, each);
        if let Some(delta) = event.get("delta").filter(|delta| delta.get("stop_reason").is_some()) {
            self.finish(stop::read(delta, self.called), each);
        }
    }

    /// Ends the answer; only the first stop reason counts.
    fn finish(&mut self, stop: Stop<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.phase != Phase::Finished {
            self.ensure_started(each);
            std::mem::take(&mut self.blocks).into_values().for_each(|block| close(block, each));
            self.places.clear();
            self.other = None;
            let mut keys: Vec<u32> = self.searches.drain().map(|(_, key)| key).collect();
            keys.sort_unstable();
            keys.into_iter().for_each(|key| each(Event::PartStop { key }));
            self.phase = Phase::Finished;
            each(Event::Finish(stop));
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        self.phase = Phase::Over;
        each(Event::End);
    }

    fn is_unfinished(&self) -> bool {
        matches!(self.phase, Phase::Fresh | Phase::Started)
    }

    fn fail(&mut self, error: UpstreamError, each: &mut dyn FnMut(Event<'_>)) {
        self.phase = Phase::Over;
        each(Event::Fail(error));
    }
}

fn close(block: Block, each: &mut dyn FnMut(Event<'_>)) {
    let Block { key: Some(key), kind, .. } = block else { return };
    match kind {
        BlockKind::Thinking(proof) => {
            if let Some(signature) = signature_of(&proof, Signature::Anthropic) {
                each(Event::Signature { key, signature });
            }
        }
        BlockKind::Call { whole: text, .. } if !text.is_empty() => each(Event::Delta { key, text }),
        BlockKind::Search(input) => {
            let query = searches::query(&input.decode());
            if !query.is_empty() {
                each(Event::Delta { key, text: query });
            }
            // The part ends when the result of the search comes.
            return;
        }
        BlockKind::Call { .. } | BlockKind::Text | BlockKind::Other => {}
    }
    each(Event::PartStop { key });
}

/// Reads a signature: a tag names its provider, anything else is Anthropic's own.
fn signature_of<'t>(proof: &'t Text<'_>, own: fn(Text<'t>) -> Signature<'t>) -> Option<Signature<'t>> {
    if proof.is_empty() {
        return None;
    }
    match signature::untag(proof) {
        None => Some(own(proof.borrowed())),
        Some(pieces) => pieces.into_iter().next().map(|(_, signature)| signature),
    }
}
