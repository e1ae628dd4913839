//! Collects what a responses stream has told of its response, for an event of our own that ends the stream.

use serde_json::Value;

use crate::dialect::stream_event::StreamEvent;

/// The maximum length of the whole items that are kept, in bytes; those that come later are left out.
const MAX_ITEM_BYTES: usize = 256 * 1024;

/// The response as the stream has told it so far.
#[derive(Debug, Default)]
pub(super) struct ResponseSoFar {
    /// The response object as it began or as it failed, in JSON.
    object: Option<String>,
    /// The whole items of its output, in JSON, each with its index.
    items: Vec<(u64, String)>,
    item_bytes: usize,
}

impl ResponseSoFar {
    /// Reads the next event; `has_failed` is whether it ends the stream with an error.
    pub(super) fn take(&mut self, event: &StreamEvent<'_>, has_failed: bool) {
        let Some(json) = event.json() else { return };
        let kind = event.kind();
        if kind == "response.output_item.done" {
            let (index, item) =
                (json.u64_at("output_index"), json.get("item").filter(|item| item.is_object()));
            if let (Some(index), Some(item)) = (index, item)
                && self.item_bytes + item.raw().len() <= MAX_ITEM_BYTES
            {
                self.item_bytes += item.raw().len();
                self.items.push((index, item.raw().to_owned()));
            }
        }
        let object = json.get("response").filter(|response| response.is_object());
        if let Some(object) = object.filter(|_| kind == "response.created" || has_failed) {
            self.object = Some(object.raw().to_owned());
        }
    }

    /// Returns the response object, in JSON. Its output is what the object has itself, or else the whole items.
    pub(super) fn text(&self) -> Option<String> {
        let mut object: Value = serde_json::from_str(self.object.as_deref()?).ok()?;
        if object["output"].as_array().is_none_or(|output| output.is_empty()) {
            let mut items: Vec<&(u64, String)> = self.items.iter().collect();
            items.sort_by_key(|(index, _)| *index);
            object["output"] =
                items.iter().filter_map(|(_, item)| serde_json::from_str::<Value>(item).ok()).collect();
        }
        Some(object.to_string())
    }
}
