//! Reads a streamed answer.
//!
//! ```text
//! added ──▶ deltas ──▶ done ──▶ item done ──▶ terminal response
//!              │         │          │                │
//!              ▼         └──────────┴────────────────┘
//!           read               read only where no delta came before
//! ```
//!
//! The dialect repeats everything up to four times. The first time counts; the later ones supply what an upstream
//! that leaves out events has not sent yet. Each item therefore remembers the parts for which deltas have been read.

use super::calls::{self, input};
use super::reply_read;
use super::stream_items::{self, ItemKind, Items};
use super::{reasoning, searches};
use crate::dialect::canonical::{CallKind, Event, MAX_OPEN_PARTS, PartKind, too_many_parts};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::{UpstreamError, is_error};

/// Reads a streamed answer, event by event.
#[derive(Debug, Default)]
pub struct StreamReader {
    started: bool,
    over: bool,
    called: bool,
    next_key: u32,
    items: Items,
    /// The item whose text or thinking is open.
    open: Option<usize>,
}

type Each<'e> = &'e mut dyn FnMut(Event<'_>);
/// A text and its log probabilities.
type TextWithLogprobs<'n, 'a> = (Text<'a>, &'n [Node<'a>]);

impl StreamReader {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>, each: &mut dyn FnMut(Event<'_>)) {
        if self.over {
            return;
        }
        if self.items.len() > MAX_OPEN_PARTS {
            return self.fail(Some(too_many_parts()), each);
        }
        // `[DONE]` does not end the answer: the terminal event does.
        let Some(json) = event.json() else {
            if let Some(error) = event.failure() {
                self.fail(Some(error), each);
            }
            return;
        };
        let kind = event.kind();
        let kind = kind.strip_prefix("response.").unwrap_or(kind);
        let text = |key: &str| json.text_at(key).unwrap_or_default();
        match kind {
            "created" | "in_progress" | "queued" => self.start(json, each),
            "output_item.added" => self.item_added(json, each),
            "output_text.delta" => self.text_delta(json, false, "delta", each),
            "output_text.annotation.added" => self.annotation_added(json, each),
            "refusal.delta" => self.text_delta(json, true, "delta", each),
            "output_text.done" => self.text_done(json, false, "text", each),
            "refusal.done" => self.text_done(json, true, "refusal", each),
            "content_part.done" => self.part_done(json, each),
            "reasoning_summary_text.delta" => self.thinking_delta(json, false, text("delta"), each),
            "reasoning_summary_text.done" => self.thinking_done(json, false, text("text"), each),
            "reasoning_text.delta" => self.thinking_delta(json, true, text("delta"), each),
            "reasoning_text.done" => self.thinking_done(json, true, text("text"), each),
            "reasoning_summary_part.done" => {
                let part = json.path(&["part", "text"]).and_then(Node::text).unwrap_or_default();
                self.thinking_done(json, false, part, each);
            }
            "function_call_arguments.delta" => self.arguments_delta(json, CallKind::Function, each),
            "custom_tool_call_input.delta" => self.arguments_delta(json, CallKind::Custom, each),
            "function_call_arguments.done" => self.arguments_done(json, CallKind::Function, each),
            "custom_tool_call_input.done" => self.arguments_done(json, CallKind::Custom, each),
            "output_item.done" => {
                if let Some(item) = json.get("item") {
                    let at = stream_items::of_event(&mut self.items, json, ItemKind::of(item));
                    self.item_done(at, item, each);
                }
            }
            "completed" | "incomplete" | "done" => self.end(json, each),
            "error" | "failed" | "cancelled" => self.fail(error_of(json), each),
            _ if event.is_named_error() || json.get("error").is_some_and(Node::is_object) => {
                self.fail(error_of(json), each);
            }
            _ => {}
        }
    }

    /// Does nothing at the end of the upstream's body: without its terminal event the answer is not complete.
    pub fn close(&mut self, _: &mut dyn FnMut(Event<'_>)) {}

    // === the response ===

    fn start(&mut self, event: &Node<'_>, each: Each<'_>) {
        if self.started {
            return;
        }
        let Some(response) = event.get("response") else { return };
        self.started = true;
        each(Event::Start {
            id: response.text_at("id").unwrap_or_default(),
            model: response.text_at("model").unwrap_or_default(),
            created: response.u64_at("created_at"),
        });
    }

    fn end(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(response) = event.get("response") else {
            return self.finish(event, each);
        };
        if let Some(failure) = reply_read::failure(response) {
            return self.fail(Some(failure), each);
        }
        self.start(event, each);
        for (index, item) in response.items_at("output").iter().enumerate() {
            let at = stream_items::repeated(&mut self.items, index as u64, item);
            self.item_done(at, item, each);
        }
        if self.items.is_empty() && response.text_at("output_text").is_some() {
            self.text_delta(response, false, "output_text", each);
        }
        self.finish(response, each);
    }

    fn finish(&mut self, response: &Node<'_>, each: Each<'_>) {
        for at in 0..self.items.len() {
            self.close_part(at, each);
        }
        self.over = true;
        if let Some(usage) = reply_read::usage(response) {
            each(Event::Usage(usage));
        }
        each(Event::Finish(reply_read::stop(response, self.called)));
        each(Event::End);
    }

    fn fail(&mut self, error: Option<UpstreamError>, each: Each<'_>) {
        self.over = true;
        each(Event::Fail(error.unwrap_or_else(reply_read::unnamed)));
    }

    // === items ===

    fn item_added(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(item) = event.get("item") else { return };
        let kind = ItemKind::of(item);
        let at = stream_items::added(&mut self.items, event.u64_at("output_index"), item.text_at("id"), kind);
        if matches!(kind, ItemKind::Call(_)) {
            self.start_call(at, item, each);
        }
    }

    // === parts ===

    /// Returns the key of the item's open part; opens one when there is none. Text and thinking end where another
    /// part begins; several calls may be open at once.
    fn open_part(&mut self, at: usize, part: PartKind<'_>, each: Each<'_>) -> u32 {
        if let Some(key) = self.items[at].key {
            return key;
        }
        if let Some(other) = self.open.take() {
            self.close_part(other, each);
        }
        if !matches!(self.items[at].kind, ItemKind::Call(_)) {
            self.open = Some(at);
        }
        let key = self.next_key;
        self.next_key += 1;
        self.items[at].key = Some(key);
        each(Event::PartStart { key, part });
        key
    }

    /// Ends the item's open part.
    fn close_part(&mut self, at: usize, each: Each<'_>) {
        if let Some(key) = self.items[at].key.take() {
            each(Event::PartStop { key });
        }
    }

    fn text_delta(&mut self, event: &Node<'_>, refused: bool, member: &str, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Message);
        let text = event.text_at(member).unwrap_or_default();
        let tokens = event.items_at("logprobs");
        self.text_piece(at, event.u64_at("content_index").unwrap_or(0), refused, (text, tokens), each);
    }

    fn text_piece(
        &mut self,
        at: usize,
        part: u64,
        refused: bool,
        (text, tokens): TextWithLogprobs<'_, '_>,
        each: Each<'_>,
    ) {
        if text.is_empty() || self.items[at].done {
            return;
        }
        if self.items[at].at != part {
            self.close_part(at, each);
        }
        let kind = if refused { PartKind::Refusal } else { PartKind::Text };
        let key = self.open_part(at, kind, each);
        self.items[at].note_delta(part);
        self.part_logprobs(at, part, tokens, each);
        each(Event::Delta { key, text });
    }

    /// Emits the log probabilities of the open part.
    fn part_logprobs(&mut self, at: usize, part: u64, tokens: &[Node<'_>], each: Each<'_>) {
        let item = &mut self.items[at];
        let Some(key) = item.key.filter(|_| item.at == part && !tokens.is_empty()) else { return };
        item.with_logprobs.insert(part);
        each(Event::Logprobs { key, tokens: logprobs::read(tokens) });
    }

    fn text_done(&mut self, event: &Node<'_>, refused: bool, member: &str, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Message);
        let part = event.u64_at("content_index").unwrap_or(0);
        let text = event.text_at(member).unwrap_or_default();
        self.text_rest(at, part, refused, (text, event.items_at("logprobs")), each);
    }

    fn text_rest(
        &mut self,
        at: usize,
        part: u64,
        refused: bool,
        (text, tokens): TextWithLogprobs<'_, '_>,
        each: Each<'_>,
    ) {
        if !self.items[at].seen.contains(&part) {
            self.text_piece(at, part, refused, (text, tokens), each);
        } else if !self.items[at].with_logprobs.contains(&part) {
            self.part_logprobs(at, part, tokens, each);
        }
    }

    fn part_done(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(part) = event.get("part") else { return };
        if part.str_at("type") == "reasoning_text" {
            return self.thinking_done(event, true, part.text_at("text").unwrap_or_default(), each);
        }
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Message);
        self.part_rest(at, event.u64_at("content_index").unwrap_or(0), part, each);
    }

    /// Reads what no delta gave of a part that is complete.
    fn part_rest(&mut self, at: usize, part: u64, block: &Node<'_>, each: Each<'_>) {
        let refusal = block.text_at("refusal");
        let refused = refusal.is_some();
        let text = refusal.or_else(|| block.text_at("text")).unwrap_or_default();
        self.text_rest(at, part, refused, (text, block.items_at("logprobs")), each);
        let seen = self.items[at].citations_seen.get(&part).copied().unwrap_or(0);
        for annotation in block.items_at("annotations").iter().skip(seen) {
            self.part_citation(at, part, annotation, each);
        }
        if self.items[at].at == part {
            self.close_part(at, each);
        }
    }

    fn annotation_added(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(annotation) = event.get("annotation") else { return };
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Message);
        self.part_citation(at, event.u64_at("content_index").unwrap_or(0), annotation, each);
    }

    /// Emits a citation of the open part. One that came before the part had any text is skipped here and read when
    /// the part is complete.
    fn part_citation(&mut self, at: usize, part: u64, annotation: &Node<'_>, each: Each<'_>) {
        let item = &mut self.items[at];
        let Some(key) = item.key.filter(|_| item.at == part) else { return };
        *item.citations_seen.entry(part).or_default() += 1;
        if let Some(citation) = Citation::of_annotation(annotation) {
            each(Event::Cite { key, citation });
        }
    }

    fn thinking_delta(&mut self, event: &Node<'_>, raw: bool, text: Text<'_>, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Reasoning);
        self.thinking_piece(at, reasoning_part(event, raw), raw, text, each);
    }

    fn thinking_piece(&mut self, at: usize, part: u64, raw: bool, text: Text<'_>, each: Each<'_>) {
        let item = &mut self.items[at];
        if text.is_empty() || item.done || *item.raw.get_or_insert(raw) != raw {
            return;
        }
        let goes_on = item.key.is_some() && item.at != part;
        let key = self.open_part(at, PartKind::Thinking, each);
        self.items[at].note_delta(part);
        if goes_on && !raw {
            each(Event::Delta { key, text: Text::plain(reasoning::BETWEEN_PARTS) });
        }
        each(Event::Delta { key, text });
    }

    fn thinking_done(&mut self, event: &Node<'_>, raw: bool, text: Text<'_>, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Reasoning);
        let part = reasoning_part(event, raw);
        if !self.items[at].seen.contains(&part) {
            self.thinking_piece(at, part, raw, text, each);
        }
    }

    // === calls ===

    /// Begins a call as soon as its name is known.
    fn start_call(&mut self, at: usize, item: &Node<'_>, each: Each<'_>) {
        let ItemKind::Call(kind) = self.items[at].kind else { return };
        let Some(name) = item.text_at("name").filter(|name| !name.is_blank()) else { return };
        if self.items[at].key.is_some() || self.items[at].done {
            return;
        }
        let id = calls::call_id(item).unwrap_or_else(|| Text::of(&format!("call_{at}")));
        self.called = true;
        let key = self.open_part(at, PartKind::Call { id, name, kind, signature: None }, each);
        let held = std::mem::take(&mut self.items[at].held);
        if !held.is_empty() {
            each(Event::Delta { key, text: held });
        }
    }

    fn arguments_delta(&mut self, event: &Node<'_>, kind: CallKind, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Call(kind));
        self.input_piece(at, input(event, "delta"), each);
    }

    fn input_piece(&mut self, at: usize, text: Text<'_>, each: Each<'_>) {
        let item = &mut self.items[at];
        if text.is_empty() || item.done {
            return;
        }
        item.note_delta(0);
        match item.key {
            Some(key) => each(Event::Delta { key, text }),
            None => item.held.push(&text),
        }
    }

    fn arguments_done(&mut self, event: &Node<'_>, kind: CallKind, each: Each<'_>) {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Call(kind));
        self.input_rest(at, kind, event, each);
    }

    fn input_rest(&mut self, at: usize, kind: CallKind, from: &Node<'_>, each: Each<'_>) {
        if self.items[at].seen.is_empty() {
            let key = if kind == CallKind::Custom { "input" } else { "arguments" };
            self.input_piece(at, input(from, key), each);
        }
    }

    // === whole items ===

    fn item_done(&mut self, at: usize, item: &Node<'_>, each: Each<'_>) {
        if self.items[at].done {
            return;
        }
        match self.items[at].kind {
            ItemKind::Message => {
                let content = item.get("content");
                if let Some(text) = content.and_then(Node::text) {
                    self.text_rest(at, 0, false, (text, &[]), each);
                }
                for (part, block) in content.map_or(&[][..], Node::items).iter().enumerate() {
                    self.part_rest(at, part as u64, block, each);
                }
            }
            ItemKind::Reasoning => self.reasoning_done(at, item, each),
            ItemKind::Call(kind) => {
                self.start_call(at, item, each);
                self.input_rest(at, kind, item, each);
            }
            ItemKind::Search => self.search_done(at, item, each),
            ItemKind::Other => {}
        }
        self.close_part(at, each);
        self.items[at].done = true;
    }

    /// Emits a search, which is known to be one only when its item is done.
    fn search_done(&mut self, at: usize, item: &Node<'_>, each: Each<'_>) {
        let Some(search) = searches::read(item) else { return };
        let key = self.open_part(at, PartKind::Search { id: search.id }, each);
        if !search.query.is_empty() {
            each(Event::Delta { key, text: search.query });
        }
        if let Some(found) = search.found {
            each(Event::SearchOutcome { key, found });
        }
    }

    /// Reads the parts of a reasoning item that have not been read yet, and its signature.
    fn reasoning_done(&mut self, at: usize, item: &Node<'_>, each: Each<'_>) {
        for (raw, list) in [(false, "summary"), (true, "content")] {
            for (part, block) in item.items_at(list).iter().enumerate() {
                if !self.items[at].seen.contains(&(part as u64)) {
                    self.thinking_piece(
                        at,
                        part as u64,
                        raw,
                        block.text_at("text").unwrap_or_default(),
                        each,
                    );
                }
            }
        }
        let signatures = reasoning::read(item).into_iter().filter_map(|thinking| thinking.signature);
        if let Some(signature) = signatures.into_iter().next() {
            let key = self.open_part(at, PartKind::Thinking, each);
            each(Event::Signature { key, signature });
        }
    }
}

fn reasoning_part(event: &Node<'_>, raw: bool) -> u64 {
    event.u64_at(if raw { "content_index" } else { "summary_index" }).unwrap_or(0)
}

/// Finds the error of an event: in its response, in a member of its own, or the event itself.
fn error_of(event: &Node<'_>) -> Option<UpstreamError> {
    let places = [event.path(&["response", "error"]), event.get("error"), Some(event)];
    let last = if event.get("response").is_some() { 2 } else { 3 };
    UpstreamError::of(places.into_iter().take(last).flatten().find(|place| is_error(place))?)
}
