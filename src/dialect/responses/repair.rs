//! Adds the events to a stream of this dialect that its upstream left out. Clients' stream helpers fail without them.
//!
//! | left out | added |
//! |---|---|
//! | `created`, `in_progress` | before the first event |
//! | `output_item.added`, `content_part.added` | before the first event about the item or the part |
//! | `output_text.done`, `content_part.done` | before the end of the item |
//! | `output_item.done` | before the last event |
//! | the items in the `output` of the last event | there |
//!
//! The upstream's own events stay as they are, apart from their numbers. Events about a call that has not been added wait
//! until its name is known.

mod item;

use std::collections::BTreeMap;

use super::answer::Head;
use super::replay::{named_item, replay_item};
use super::status::Status;
use super::stream_write::emit;
use super::turn::message_of;
use crate::dialect::canonical::ReplyContext;
use crate::dialect::edit::edit;
use crate::dialect::events::RESPONSE_ENDS;
use crate::dialect::literal::{Text, compact};
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use item::{Item, Part, PartKind};

/// Adds the missing events to a stream.
#[derive(Debug)]
pub struct Repair {
    /// The context in which the beginning is written; `None` once the stream has begun.
    context: Option<Box<ReplyContext>>,
    /// The beginning of the answer, as a later event tells it.
    head: Option<Head>,
    /// The items so far, by their place in the output.
    items: BTreeMap<u64, Item>,
    /// The number of the next event.
    sequence: u64,
}

/// An item that has been added before the repair began.
#[derive(Clone, Debug)]
pub struct AddedItem {
    pub index: u64,
    /// The item as it was added, or as it ended, in JSON.
    pub object: String,
    pub is_message: bool,
    /// Whether parts of it may have come.
    pub has_part: bool,
    pub is_done: bool,
}

/// An event with its JSON, its `data` and all of its bytes.
#[derive(Clone, Copy)]
struct Received<'e, 'a> {
    json: &'e Node<'a>,
    data: &'e str,
    raw: &'e str,
}

impl Repair {
    /// Repairs a stream from its first event on.
    pub fn new(context: ReplyContext) -> Self {
        Self { context: Some(Box::new(context)), head: None, items: BTreeMap::new(), sequence: 0 }
    }

    /// Repairs a stream from the event with this number on.
    pub fn resumed(sequence: u64, added: &[AddedItem]) -> Self {
        let items = added.iter().map(|added| (added.index, Item::added_before(added))).collect();
        Self { context: None, head: None, items, sequence }
    }

    /// Looks for the id, the model and the time of the answer in an event that comes later.
    pub fn look_ahead(&mut self, event: &StreamEvent<'_>) {
        let response = event.json().and_then(|json| json.get("response")).filter(|it| it.is_object());
        if let (None, Some(context), Some(response)) = (&self.head, &self.context, response) {
            let id = response.text_at("id").unwrap_or_default();
            let model = response.text_at("model").unwrap_or_else(|| Text::of(&context.model));
            self.head = Some(Head::new(&id, &model, response.u64_at("created_at"), context));
        }
    }

    /// Appends an event after what must come before it. The event is given parsed, as its `data` and as it came (`raw`).
    pub fn take(&mut self, event: &StreamEvent<'_>, data: &str, raw: &str, out: &mut String) {
        let kind = event.kind().strip_prefix("response.");
        let (Some(json), Some(kind)) = (event.json(), kind) else {
            return out.push_str(raw);
        };
        let received = Received { json, data, raw };
        self.begin(kind, out);
        let text = |key: &str| json.text_at(key).unwrap_or_default();
        match kind {
            "output_item.added" => return self.item_added(received, out),
            "output_item.done" => return self.item_done(received, out),
            "content_part.added" => self.part_added(json, out),
            "content_part.done" => self.part_done(json, out),
            "output_text.delta" => self.part(json, PartKind::Text, out).push(&text("delta")),
            "refusal.delta" => self.part(json, PartKind::Refusal, out).push(&text("delta")),
            "reasoning_summary_text.delta" => self.part(json, PartKind::Summary, out).push(&text("delta")),
            "reasoning_text.delta" => self.part(json, PartKind::Reasoning, out).push(&text("delta")),
            "output_text.done" => self.part(json, PartKind::Text, out).end(text("text")),
            "refusal.done" => self.part(json, PartKind::Refusal, out).end(text("refusal")),
            "function_call_arguments.delta" | "function_call_arguments.done" => {
                return self.input("function_call", received, out);
            }
            "custom_tool_call_input.delta" | "custom_tool_call_input.done" => {
                return self.input("custom_tool_call", received, out);
            }
            _ if RESPONSE_ENDS.contains(&event.kind()) => return self.end(received, out),
            _ => {}
        }
        self.pass(received, out);
    }

    /// Appends the event with its number; one without a number gets none.
    fn pass(&mut self, Received { json, data, raw }: Received<'_, '_>, out: &mut String) {
        let number = json.u64_at("sequence_number");
        match raw.split_once(data) {
            Some((before, behind)) if number.is_some_and(|number| number != self.sequence) => {
                let own = self.sequence.to_string();
                let numbered = edit(data, &[("sequence_number", &own)], &[]);
                [before, &numbered, behind].iter().for_each(|piece| out.push_str(piece));
            }
            _ => out.push_str(raw),
        }
        self.sequence += 1;
    }

    /// Writes the events that begin the answer and come before one of this kind.
    fn begin(&mut self, kind: &str, out: &mut String) {
        let Some(context) = self.context.take() else { return };
        let missing: &[&str] = match kind {
            "created" => &[],
            "in_progress" | "queued" => &["created"],
            _ => &["created", "in_progress"],
        };
        let unnamed = || Head::new(&Text::EMPTY, &Text::of(&context.model), None, &context);
        let head = self.head.take().unwrap_or_else(unnamed);
        for kind in missing {
            emit(&mut self.sequence, out, kind, |o| {
                o.object_at("response", |o| head.put(o, Status::InProgress, |_| {}, None, &context));
            });
        }
    }

    // === items ===

    /// Returns the place of the item of this type that an event is about.
    fn place(&self, event: &Node<'_>, kind: &str) -> u64 {
        let id = event.text_at("item_id").filter(|id| !id.is_empty());
        self.known_place(event, id.as_ref(), kind).unwrap_or_else(|| self.next_place())
    }

    /// Returns the place in the event; without one, the place of the item with this id, else of the open item of this type.
    fn known_place(&self, event: &Node<'_>, id: Option<&Text<'_>>, kind: &str) -> Option<u64> {
        let find = |is_meant: &dyn Fn(&Item) -> bool| {
            self.items.iter().rev().find(|(_, item)| is_meant(item)).map(|(place, _)| *place)
        };
        let named = || id.and_then(|id| find(&|item| item.id == *id));
        let open = || find(&|item| item.kind == kind && !item.is_done());
        event.u64_at("output_index").or_else(named).or_else(open)
    }

    fn next_place(&self) -> u64 {
        self.items.last_key_value().map_or(0, |(place, _)| place.saturating_add(1))
    }

    fn item_added(&mut self, received: Received<'_, '_>, out: &mut String) {
        let json = received.json;
        let item = json.get("item").filter(|item| item.is_object());
        let place = json.u64_at("output_index").unwrap_or_else(|| self.next_place());
        self.pass(received, out);
        if let Some(item) = item {
            let before = self.items.insert(place, Item::added(item.raw()));
            self.release(before.map(|before| before.held).unwrap_or_default(), out);
        }
    }

    fn item_done(&mut self, received: Received<'_, '_>, out: &mut String) {
        let Some(whole) = received.json.get("item").filter(|item| item.is_object()) else {
            return self.pass(received, out);
        };
        let place = self.place_of(received.json, whole);
        if self.complete(place, whole, out) {
            self.pass(received, out);
        }
    }

    /// Returns the place of an item that is whole now.
    fn place_of(&self, event: &Node<'_>, whole: &Node<'_>) -> u64 {
        let id = whole.text_at("id").filter(|id| !id.is_empty());
        self.known_place(event, id.as_ref(), &whole.str_at("type")).unwrap_or_else(|| self.next_place())
    }

    /// Writes what an item lacks that is whole now. Returns whether its end is not written yet.
    fn complete(&mut self, place: u64, whole: &Node<'_>, out: &mut String) -> bool {
        let Some(item) = self.items.get_mut(&place) else {
            let whole = named_item(place, whole);
            if let Ok(whole) = Node::parse(&whole) {
                replay_item(place, &whole, &mut self.sequence, out);
            }
            self.items.insert(place, Item::done(&whole));
            return false;
        };
        let held = std::mem::take(&mut item.held);
        if !held.is_empty() {
            *item = Item::emptied(whole);
            item.put_added(place, &mut self.sequence, out);
            self.release(held, out);
        }
        if let Some(item) = self.items.get_mut(&place) {
            item.close_parts(place, Some(whole), &mut self.sequence, out);
            item.whole = Some(whole.raw().to_owned());
        }
        true
    }

    // === parts and inputs ===

    /// Returns the item that an event about a part belongs to, its place with the index of the part, and the number of the next
    /// event. Adds the item if it is missing.
    fn item(
        &mut self,
        event: &Node<'_>,
        kind: PartKind,
        out: &mut String,
    ) -> (&mut Item, (u64, u64), &mut u64) {
        let (place, index) = (self.place(event, kind.item()), event.u64_at(kind.index()).unwrap_or(0));
        let Self { items, sequence, .. } = self;
        let item = items.entry(place).or_insert_with(|| {
            let item = Item::begun(kind.item(), event.text_at("item_id"), place);
            item.put_added(place, sequence, out);
            item
        });
        (item, (place, index), sequence)
    }

    /// Returns the part that an event is about, and adds it if it is missing.
    fn part(&mut self, event: &Node<'_>, kind: PartKind, out: &mut String) -> &mut Part {
        let (item, at, sequence) = self.item(event, kind, out);
        item.part(at, kind, sequence, out)
    }

    fn part_added(&mut self, event: &Node<'_>, out: &mut String) {
        let kind = event.get("part").map_or(PartKind::Text, PartKind::of);
        let (item, (_, index), _) = self.item(event, kind, out);
        item.parts.entry(index).or_insert_with(|| Part::new(kind));
    }

    fn part_done(&mut self, event: &Node<'_>, out: &mut String) {
        let Some(part) = event.get("part") else { return };
        let kind = PartKind::of(part);
        let (item, at, sequence) = self.item(event, kind, out);
        item.part(at, kind, sequence, out).text_of(part);
        item.end_text(at, sequence, out);
        item.parts.entry(at.1).and_modify(|part| part.is_open = false);
    }

    /// Notes the input of a call. Before its item has been added, the event is held back.
    fn input(&mut self, kind: &str, received: Received<'_, '_>, out: &mut String) {
        let json = received.json;
        let place = self.place(json, kind);
        let item = self.items.entry(place).or_insert_with(|| Item::unknown(kind, json.text_at("item_id")));
        if item.is_unknown() {
            item.held.push((received.data.to_owned(), received.raw.to_owned()));
            return;
        }
        if let Some(delta) = json.text_at("delta") {
            item.input.push(&delta);
        }
        self.pass(received, out);
    }

    /// Appends the events that were held back.
    fn release(&mut self, held: Vec<(String, String)>, out: &mut String) {
        for (data, raw) in held {
            match Node::parse(data.trim()) {
                Ok(json) => self.pass(Received { json: &json, data: &data, raw: &raw }, out),
                Err(_) => out.push_str(&raw),
            }
        }
    }

    // === the end ===

    /// Appends the last event, after the ends of the items that are open.
    fn end(&mut self, received: Received<'_, '_>, out: &mut String) {
        let Some(response) = received.json.get("response").filter(|it| it.is_object()) else {
            return self.pass(received, out);
        };
        let told = response.items_at("output");
        for whole in told.iter().filter(|whole| whole.is_object() && !is_unfinished_call(whole)) {
            let place = self.place_of(whole, whole);
            if self.items.get(&place).is_none_or(|item| !item.is_done()) && self.complete(place, whole, out) {
                item::put_done(place, whole.raw(), &mut self.sequence, out);
            }
        }
        if !told.is_empty() {
            return self.pass(received, out);
        }
        let text = response.text_at("output_text").filter(|text| self.items.is_empty() && !text.is_empty());
        if let Some(message) = text.map(|text| message_of(&text))
            && let Ok(message) = Node::parse(&message)
        {
            self.complete(0, &message, out);
        }
        self.end_open_items(received.json.str_at("type") == "response.incomplete", out);
        self.end_with_items(received, response, out);
    }

    /// Writes the ends of the open items, from what has been collected of them. A call that was cut off gets none.
    fn end_open_items(&mut self, is_cut_off: bool, out: &mut String) {
        let Self { items, sequence, .. } = self;
        for (place, item) in items.iter_mut() {
            if item.is_done() || item.is_unknown() || is_cut_off && item.is_call() {
                continue;
            }
            item.close_parts(*place, None, sequence, out);
            let whole = item.collected();
            item::put_done(*place, &whole, sequence, out);
            item.whole = Some(whole);
        }
    }

    /// Appends the last event with the items in its output.
    fn end_with_items(&mut self, received: Received<'_, '_>, response: &Node<'_>, out: &mut String) {
        let whole: Vec<_> =
            self.items.values().filter_map(|item| item.whole.as_deref().map(compact)).collect();
        let Some((before, behind)) = received.raw.split_once(received.data).filter(|_| !whole.is_empty())
        else {
            return self.pass(received, out);
        };
        let output = format!("[{}]", whole.join(","));
        let response = edit(response.raw(), &[("output", &output)], &[]);
        let data = edit(received.data, &[("response", &response)], &[]);
        let raw = [before, &data, behind].concat();
        self.pass(Received { json: received.json, data: &data, raw: &raw }, out);
    }
}

/// Whether an item is a call that was cut off. A client runs any call that it is told is done.
fn is_unfinished_call(item: &Node<'_>) -> bool {
    item.str_at("type").ends_with("_call") && item.str_at("status") == "incomplete"
}
