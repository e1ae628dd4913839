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
use super::stream_items::{self, ItemKind, Items, ThinkingKind};
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

/// The place of a part: its item, and its index in it.
#[derive(Clone, Copy)]
struct PartPlace {
    item: usize,
    part: u64,
}

#[derive(Clone, Copy)]
enum TextKind {
    Text,
    Refusal,
}

/// A text, or a piece of one.
struct TextPart<'n, 'a> {
    kind: TextKind,
    text: Text<'a>,
    /// Its log probabilities.
    tokens: &'n [Node<'a>],
}

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
            "output_text.delta" => self.text_delta(json, TextKind::Text, "delta", each),
            "output_text.annotation.added" => self.annotation_added(json, each),
            "refusal.delta" => self.text_delta(json, TextKind::Refusal, "delta", each),
            "output_text.done" => self.text_done(json, TextKind::Text, "text", each),
            "refusal.done" => self.text_done(json, TextKind::Refusal, "refusal", each),
            "content_part.done" => self.part_done(json, each),
            "reasoning_summary_text.delta" => {
                self.thinking_delta(json, ThinkingKind::Summary, text("delta"), each)
            }
            "reasoning_summary_text.done" => {
                self.thinking_done(json, ThinkingKind::Summary, text("text"), each)
            }
            "reasoning_text.delta" => self.thinking_delta(json, ThinkingKind::Raw, text("delta"), each),
            "reasoning_text.done" => self.thinking_done(json, ThinkingKind::Raw, text("text"), each),
            "reasoning_summary_part.done" => {
                let part = json.path(&["part", "text"]).and_then(Node::text).unwrap_or_default();
                self.thinking_done(json, ThinkingKind::Summary, part, each);
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
            self.text_delta(response, TextKind::Text, "output_text", each);
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

    fn text_delta(&mut self, event: &Node<'_>, kind: TextKind, member: &str, each: Each<'_>) {
        let place = self.text_place(event);
        let text = event.text_at(member).unwrap_or_default();
        self.text_piece(place, TextPart { kind, text, tokens: event.items_at("logprobs") }, each);
    }

    /// Returns the place of the text that an event is about.
    fn text_place(&mut self, event: &Node<'_>) -> PartPlace {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Message);
        PartPlace { item: at, part: event.u64_at("content_index").unwrap_or(0) }
    }

    fn text_piece(&mut self, place: PartPlace, piece: TextPart<'_, '_>, each: Each<'_>) {
        let PartPlace { item: at, part } = place;
        if piece.text.is_empty() || self.items[at].done {
            return;
        }
        if self.items[at].at != part {
            self.close_part(at, each);
        }
        let kind = match piece.kind {
            TextKind::Text => PartKind::Text,
            TextKind::Refusal => PartKind::Refusal,
        };
        let key = self.open_part(at, kind, each);
        self.items[at].note_delta(part);
        self.part_logprobs(place, piece.tokens, each);
        each(Event::Delta { key, text: piece.text });
    }

    /// Emits the log probabilities of the open part.
    fn part_logprobs(
        &mut self,
        PartPlace { item: at, part }: PartPlace,
        tokens: &[Node<'_>],
        each: Each<'_>,
    ) {
        let item = &mut self.items[at];
        let Some(key) = item.key.filter(|_| item.at == part && !tokens.is_empty()) else { return };
        item.with_logprobs.insert(part);
        each(Event::Logprobs { key, tokens: logprobs::read(tokens) });
    }

    fn text_done(&mut self, event: &Node<'_>, kind: TextKind, member: &str, each: Each<'_>) {
        let place = self.text_place(event);
        let text = event.text_at(member).unwrap_or_default();
        self.text_rest(place, TextPart { kind, text, tokens: event.items_at("logprobs") }, each);
    }

    /// Reads a complete text, or its log probabilities, where no delta gave them.
    fn text_rest(&mut self, place: PartPlace, whole: TextPart<'_, '_>, each: Each<'_>) {
        let item = &self.items[place.item];
        if !item.seen.contains(&place.part) {
            self.text_piece(place, whole, each);
        } else if !item.with_logprobs.contains(&place.part) {
            self.part_logprobs(place, whole.tokens, each);
        }
    }

    fn part_done(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(part) = event.get("part") else { return };
        if part.str_at("type") == "reasoning_text" {
            let text = part.text_at("text").unwrap_or_default();
            return self.thinking_done(event, ThinkingKind::Raw, text, each);
        }
        let place = self.text_place(event);
        self.part_rest(place, part, each);
    }

    /// Reads what no delta gave of a part that is complete.
    fn part_rest(&mut self, place: PartPlace, block: &Node<'_>, each: Each<'_>) {
        let PartPlace { item: at, part } = place;
        let (kind, text) = match block.text_at("refusal") {
            Some(refusal) => (TextKind::Refusal, refusal),
            None => (TextKind::Text, block.text_at("text").unwrap_or_default()),
        };
        self.text_rest(place, TextPart { kind, text, tokens: block.items_at("logprobs") }, each);
        let seen = self.items[at].citations_seen.get(&part).copied().unwrap_or(0);
        for annotation in block.items_at("annotations").iter().skip(seen) {
            self.part_citation(place, annotation, each);
        }
        if self.items[at].at == part {
            self.close_part(at, each);
        }
    }

    fn annotation_added(&mut self, event: &Node<'_>, each: Each<'_>) {
        let Some(annotation) = event.get("annotation") else { return };
        let place = self.text_place(event);
        self.part_citation(place, annotation, each);
    }

    /// Emits a citation of the open part. One that came before the part had any text is skipped here and read when
    /// the part is complete.
    fn part_citation(
        &mut self,
        PartPlace { item: at, part }: PartPlace,
        annotation: &Node<'_>,
        each: Each<'_>,
    ) {
        let item = &mut self.items[at];
        let Some(key) = item.key.filter(|_| item.at == part) else { return };
        *item.citations_seen.entry(part).or_default() += 1;
        if let Some(citation) = Citation::of_annotation(annotation) {
            each(Event::Cite { key, citation });
        }
    }

    fn thinking_delta(&mut self, event: &Node<'_>, kind: ThinkingKind, text: Text<'_>, each: Each<'_>) {
        let place = self.thinking_place(event, kind);
        self.thinking_piece(place, kind, text, each);
    }

    /// Returns the place of the thinking that an event is about.
    fn thinking_place(&mut self, event: &Node<'_>, kind: ThinkingKind) -> PartPlace {
        let at = stream_items::of_event(&mut self.items, event, ItemKind::Reasoning);
        let index = match kind {
            ThinkingKind::Raw => "content_index",
            ThinkingKind::Summary => "summary_index",
        };
        PartPlace { item: at, part: event.u64_at(index).unwrap_or(0) }
    }

    fn thinking_piece(&mut self, place: PartPlace, kind: ThinkingKind, text: Text<'_>, each: Each<'_>) {
        let PartPlace { item: at, part } = place;
        let item = &mut self.items[at];
        if text.is_empty() || item.done || *item.thinking.get_or_insert(kind) != kind {
            return;
        }
        let goes_on = item.key.is_some() && item.at != part;
        let key = self.open_part(at, PartKind::Thinking, each);
        self.items[at].note_delta(part);
        if goes_on && kind == ThinkingKind::Summary {
            each(Event::Delta { key, text: Text::plain(reasoning::BETWEEN_PARTS) });
        }
        each(Event::Delta { key, text });
    }

    fn thinking_done(&mut self, event: &Node<'_>, kind: ThinkingKind, text: Text<'_>, each: Each<'_>) {
        let place = self.thinking_place(event, kind);
        self.thinking_rest(place, kind, text, each);
    }

    /// Reads complete thinking where no delta gave it.
    fn thinking_rest(&mut self, place: PartPlace, kind: ThinkingKind, text: Text<'_>, each: Each<'_>) {
        if !self.items[place.item].seen.contains(&place.part) {
            self.thinking_piece(place, kind, text, each);
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
                    let whole = TextPart { kind: TextKind::Text, text, tokens: &[] };
                    self.text_rest(PartPlace { item: at, part: 0 }, whole, each);
                }
                for (part, block) in (0..).zip(content.map_or(&[][..], Node::items)) {
                    self.part_rest(PartPlace { item: at, part }, block, each);
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
        for (kind, list) in [(ThinkingKind::Summary, "summary"), (ThinkingKind::Raw, "content")] {
            for (part, block) in (0..).zip(item.items_at(list)) {
                let text = block.text_at("text").unwrap_or_default();
                self.thinking_rest(PartPlace { item: at, part }, kind, text, each);
            }
        }
        let signatures = reasoning::read(item).into_iter().filter_map(|thinking| thinking.signature);
        if let Some(signature) = signatures.into_iter().next() {
            let key = self.open_part(at, PartKind::Thinking, each);
            each(Event::Signature { key, signature });
        }
    }
}

/// Finds the error of an event: in its response, in a member of its own, or the event itself.
fn error_of(event: &Node<'_>) -> Option<UpstreamError> {
    let places = [event.path(&["response", "error"]), event.get("error"), Some(event)];
    let last = if event.get("response").is_some() { 2 } else { 3 };
    UpstreamError::of(places.into_iter().take(last).flatten().find(|place| is_error(place))?)
}
