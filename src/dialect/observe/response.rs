//! Collects what a responses stream has told of its response: for an event of our own that ends the stream, and to know
//! which events about the items are missing.

use serde_json::Value;

use crate::dialect::events::RESPONSE_ENDS;
use crate::dialect::responses::AddedItem;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;

/// The maximum length and number of the items that are kept; those that come later are left out.
const MAX_ITEM_BYTES: usize = 256 * 1024;
const MAX_ITEMS: usize = 256;

/// The response as the stream has told it so far.
#[derive(Debug, Default)]
pub(super) struct ResponseSoFar {
    /// The response object as it began or as it failed, in JSON.
    object: Option<String>,
    /// The items of its output, in the order in which they came.
    items: Vec<AddedItem>,
    item_bytes: usize,
    /// Whether items have been left out.
    is_full: bool,
}

impl ResponseSoFar {
    /// Reads the next event; `has_failed` is whether it ends the stream with an error.
    pub(super) fn take(&mut self, event: &StreamEvent<'_>, has_failed: bool) {
        let Some(json) = event.json() else { return };
        let kind = event.kind();
        if let "response.output_item.added" | "response.output_item.done" = kind {
            self.take_item(json, kind == "response.output_item.done");
        }
        let object = json.get("response").filter(|response| response.is_object());
        if let Some(object) = object.filter(|_| kind == "response.created" || has_failed) {
            self.object = Some(object.raw().to_owned());
        }
    }

    fn take_item(&mut self, event: &Node<'_>, is_done: bool) {
        let Some(item) = event.get("item").filter(|item| item.is_object()) else { return };
        if self.item_bytes + item.raw().len() > MAX_ITEM_BYTES {
            self.is_full = true;
            return;
        }
        self.item_bytes += item.raw().len();
        let next = self.items.len() as u64;
        let index =
            event.u64_at("output_index").unwrap_or(if is_done { next.saturating_sub(1) } else { next });
        let new = AddedItem {
            index,
            object: item.raw().to_owned(),
            is_message: item.str_at("type") == "message",
            has_part: false,
            is_done,
        };
        match self.items.iter().position(|item| item.index == index) {
            Some(at) => self.items[at] = AddedItem { has_part: self.items[at].has_part, ..new },
            None if self.items.len() == MAX_ITEMS => self.is_full = true,
            None => self.items.push(new),
        }
    }

    /// Reads the name of the next event. Returns whether it is about an item or a part that has not been added.
    pub(super) fn lacks_addition(&mut self, name: &[u8]) -> bool {
        match name {
            b"response.content_part.added"
            | b"response.output_text.delta"
            | b"response.refusal.delta"
            | b"response.function_call_arguments.delta"
            | b"response.custom_tool_call_input.delta"
                if self.lacks_item() =>
            {
                true
            }
            b"response.content_part.added" => {
                self.note_addition();
                false
            }
            b"response.output_text.delta" | b"response.refusal.delta" => {
                let is_full = self.is_full;
                self.open_message().is_some_and(|message| !message.has_part && !is_full)
            }
            _ => false,
        }
    }

    /// Whether no item is open that the parts of one could belong to. Before the first item the opening is lacking.
    fn lacks_item(&self) -> bool {
        // Mostly the last item is open.
        !self.is_full && !self.items.is_empty() && self.items.iter().rev().all(|item| item.is_done)
    }

    /// Notes that there are an open item and a part of it, with or without the events that add them.
    pub(super) fn note_addition(&mut self) {
        if let Some(last) = self.items.last().filter(|_| self.lacks_item()) {
            let index = last.index.saturating_add(1);
            let object = String::new();
            self.items.push(AddedItem { index, object, is_message: true, has_part: true, is_done: false });
            self.is_full |= self.items.len() == MAX_ITEMS;
        } else if let Some(message) = self.open_message() {
            message.has_part = true;
        }
    }

    fn open_message(&mut self) -> Option<&mut AddedItem> {
        self.items.last_mut().filter(|item| item.is_message && !item.is_done)
    }

    /// Whether an event that ends the response comes before the ends of items, which it has itself.
    pub(super) fn lacks_ends(&self, event: &StreamEvent<'_>) -> bool {
        let is_missing = !self.is_full && self.items.iter().any(|item| !item.is_done);
        let output = event.json().and_then(|json| json.path(&["response", "output"]));
        is_missing
            && RESPONSE_ENDS.contains(&event.kind())
            && output.is_some_and(|output| !output.items().is_empty())
    }

    pub(super) fn items(&self) -> &[AddedItem] {
        &self.items
    }

    /// Returns the response object, in JSON. Its output is what the object has itself, or else the whole items.
    pub(super) fn text(&self) -> Option<String> {
        let mut object: Value = serde_json::from_str(self.object.as_deref()?).ok()?;
        if object["output"].as_array().is_none_or(|output| output.is_empty()) {
            let mut items: Vec<&AddedItem> = self.items.iter().filter(|item| item.is_done).collect();
            items.sort_by_key(|item| item.index);
            object["output"] =
                items.iter().filter_map(|item| serde_json::from_str::<Value>(&item.object).ok()).collect();
        }
        Some(object.to_string())
    }
}
