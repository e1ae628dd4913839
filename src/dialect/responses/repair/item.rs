//! The items of a stream that is repaired.

use std::collections::BTreeMap;

use super::AddedItem;
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text, compact};
use crate::dialect::responses::replay::begun_item;
use crate::dialect::responses::stream_write::emit;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// An item of the output, as far as it has come.
#[derive(Debug)]
pub(super) struct Item {
    pub kind: String,
    pub id: Text<'static>,
    /// The item as it was added, in JSON; empty if that event has not come.
    object: String,
    /// Whether parts may have passed that are not known here.
    has_other_parts: bool,
    pub parts: BTreeMap<u64, Part>,
    /// The input of a call.
    pub input: Text<'static>,
    /// The events that wait for the item to be added: their data and their bytes.
    pub held: Vec<(String, String)>,
    /// The item as it ended, in JSON.
    pub whole: Option<String>,
}

/// A part of an item.
#[derive(Debug)]
pub(super) struct Part {
    kind: PartKind,
    text: Text<'static>,
    /// Whether the event that ends its text is still to come.
    has_open_text: bool,
    /// Whether the event that ends the part is still to come.
    pub is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
    /// A part of the summary of reasoning.
    Summary,
    /// A part of the reasoning itself.
    Reasoning,
}

impl Item {
    fn new(kind: &str, id: Text<'static>, object: String) -> Self {
        let (parts, input) = (BTreeMap::new(), Text::EMPTY);
        let kind = kind.to_owned();
        Self { kind, id, object, has_other_parts: false, parts, input, held: Vec::new(), whole: None }
    }

    /// The item that `output_item.added` gave, in JSON.
    pub(super) fn added(object: &str) -> Self {
        let node = Node::parse(object).ok();
        let text = |key: &str| node.as_ref().and_then(|node| node.text_at(key)).unwrap_or_default();
        Self::new(&text("type").decode(), text("id").into_owned(), object.to_owned())
    }

    pub(super) fn added_before(added: &AddedItem) -> Self {
        let whole = added.is_done.then(|| added.object.clone());
        Self { has_other_parts: added.has_part, whole, ..Self::added(&added.object) }
    }

    /// The beginning of a message or of reasoning that was not added.
    pub(super) fn begun(kind: &str, id: Option<Text<'_>>, place: u64) -> Self {
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| Text::of(&format!("item_{place}")));
        let mut object = Writer::new();
        object.object(|o| {
            o.field("id", &id);
            o.field("type", kind);
            if kind == "message" {
                o.field("status", "in_progress");
                o.field("role", "assistant");
                o.array("content", |_| {});
            } else {
                o.array("summary", |_| {});
            }
        });
        Self::new(kind, id.into_owned(), object.into_string())
    }

    /// A call of which nothing but its input is known.
    pub(super) fn unknown(kind: &str, id: Option<Text<'_>>) -> Self {
        Self::new(kind, id.unwrap_or_default().into_owned(), String::new())
    }

    /// The beginning of an item that is whole now.
    pub(super) fn emptied(whole: &Node<'_>) -> Self {
        Self::added(&begun_item(whole))
    }

    pub(super) fn done(whole: &str) -> Self {
        Self { whole: Some(whole.to_owned()), ..Self::added(whole) }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.object.is_empty()
    }

    pub(super) fn is_call(&self) -> bool {
        self.kind.ends_with("_call")
    }

    pub(super) fn is_done(&self) -> bool {
        self.whole.is_some()
    }

    pub(super) fn put_added(&self, place: u64, sequence: &mut u64, out: &mut String) {
        emit(sequence, out, "output_item.added", |o| {
            o.field("output_index", place);
            o.field("item", Json::checked(&self.object));
        });
    }

    /// Returns the part at this index of the item at this place; adds it if it is missing.
    pub(super) fn part(
        &mut self,
        (place, index): (u64, u64),
        kind: PartKind,
        sequence: &mut u64,
        out: &mut String,
    ) -> &mut Part {
        let Self { id, parts, has_other_parts, .. } = self;
        parts.entry(index).or_insert_with(|| {
            let mut part = Part::new(kind);
            if *has_other_parts {
                // It may have been added and ended before.
                (part.has_open_text, part.is_open) = (false, false);
            } else if part.is_open {
                emit(sequence, out, "content_part.added", |o| {
                    put_place(o, id, (place, index));
                    o.object_at("part", |o| part.put(o));
                });
            }
            part
        })
    }

    /// Ends the text of the part at this index.
    pub(super) fn end_text(&mut self, at: (u64, u64), sequence: &mut u64, out: &mut String) {
        let Self { id, parts, .. } = self;
        let Some(part) = parts.get_mut(&at.1).filter(|part| part.has_open_text) else { return };
        part.has_open_text = false;
        let kind = if part.kind == PartKind::Refusal { "refusal.done" } else { "output_text.done" };
        emit(sequence, out, kind, |o| {
            put_place(o, id, at);
            o.field(part.kind.key(), &part.text);
            if part.kind == PartKind::Text {
                o.array("logprobs", |_| {});
            }
        });
    }

    /// Ends the parts that are open; `whole` is the item as it ended, where that is known.
    pub(super) fn close_parts(
        &mut self,
        place: u64,
        whole: Option<&Node<'_>>,
        sequence: &mut u64,
        out: &mut String,
    ) {
        let told = whole.map_or(&[][..], |whole| whole.items_at("content"));
        let open: Vec<u64> =
            self.parts.iter().filter(|(_, part)| part.is_open).map(|(index, _)| *index).collect();
        for index in open {
            let told = usize::try_from(index).ok().and_then(|index| told.get(index));
            if let (Some(part), Some(told)) = (self.parts.get_mut(&index), told) {
                part.text_of(told);
            }
            self.end_text((place, index), sequence, out);
            let Some(part) = self.parts.get_mut(&index) else { continue };
            part.is_open = false;
            emit(sequence, out, "content_part.done", |o| {
                put_place(o, &self.id, (place, index));
                match told {
                    Some(told) => o.field("part", Json::checked(&compact(told.raw()))),
                    None => o.object_at("part", |o| part.put(o)),
                }
            });
        }
    }

    /// Returns the item with all that has been collected of it, in JSON.
    pub(super) fn collected(&self) -> String {
        let list = |of_content: bool| {
            let mut list = Writer::new();
            let parts = self.parts.values().filter(|part| (part.kind == PartKind::Summary) != of_content);
            list.list(|list| parts.for_each(|part| list.object(|o| part.put(o))));
            list.into_string()
        };
        let input = format!("\"{}\"", self.input.literal());
        let (content, summary) = (list(true), list(false));
        let mut set = match self.kind.as_str() {
            "message" => vec![("content", content.as_str())],
            "function_call" => vec![("arguments", input.as_str())],
            "custom_tool_call" => vec![("input", input.as_str())],
            "reasoning" if content == "[]" => vec![("summary", summary.as_str())],
            "reasoning" => vec![("summary", summary.as_str()), ("content", &content)],
            _ => Vec::new(),
        };
        if self.object.contains("\"status\"") {
            set.push(("status", "\"completed\""));
        }
        edit(&self.object, &set, &[]).into_owned()
    }
}

impl Part {
    pub(super) fn new(kind: PartKind) -> Self {
        let is_open = kind.item() == "message";
        Self { kind, text: Text::EMPTY, has_open_text: is_open, is_open }
    }

    pub(super) fn push(&mut self, more: &Text<'_>) {
        self.text.push(more);
    }

    /// Notes that the event which ends the text has come.
    pub(super) fn end(&mut self, text: Text<'_>) {
        self.text = text.into_owned();
        self.has_open_text = false;
    }

    /// Takes the text of the part as it ended.
    pub(super) fn text_of(&mut self, told: &Node<'_>) {
        if let Some(text) = told.text_at(self.kind.key()) {
            self.text = text.into_owned();
        }
    }

    fn put(&self, o: &mut Writer) {
        o.field("type", self.kind.word());
        o.field(self.kind.key(), &self.text);
        if self.kind == PartKind::Text {
            o.array("annotations", |_| {});
            o.array("logprobs", |_| {});
        }
    }
}

impl PartKind {
    pub(super) fn of(part: &Node<'_>) -> Self {
        match part.str_at("type").as_ref() {
            "refusal" => Self::Refusal,
            "reasoning_text" => Self::Reasoning,
            _ => Self::Text,
        }
    }

    /// Returns the type of the part.
    fn word(self) -> &'static str {
        match self {
            Self::Text => "output_text",
            Self::Refusal => "refusal",
            Self::Summary => "summary_text",
            Self::Reasoning => "reasoning_text",
        }
    }

    /// Returns the member that holds the text.
    fn key(self) -> &'static str {
        if self == Self::Refusal { "refusal" } else { "text" }
    }

    /// Returns the type of the item.
    pub(super) fn item(self) -> &'static str {
        if matches!(self, Self::Text | Self::Refusal) { "message" } else { "reasoning" }
    }

    /// Returns the member of an event that holds the index of the part.
    pub(super) fn index(self) -> &'static str {
        if self == Self::Summary { "summary_index" } else { "content_index" }
    }
}

/// Writes the end of an item, which is given in JSON.
pub(super) fn put_done(place: u64, whole: &str, sequence: &mut u64, out: &mut String) {
    emit(sequence, out, "output_item.done", |o| {
        o.field("output_index", place);
        o.field("item", Json::checked(&compact(whole)));
    });
}

fn put_place(o: &mut Writer, id: &Text<'_>, (place, index): (u64, u64)) {
    o.field("item_id", id);
    o.field("output_index", place);
    o.field("content_index", index);
}
