//! The events that open a stream. The stream helpers of the SDKs fail on output before them, and some sites leave them out.

use super::Dialect;
use super::events::RESPONSE_ENDS;
use super::stream_event::StreamEvent;

/// The opening events of a stream that have come.
#[derive(Debug, Default)]
pub(super) struct Opening {
    answer: bool,
    item: bool,
    is_lacking: bool,
}

impl Opening {
    /// Whether the beginning of the answer has come.
    pub(super) fn has_begun(&self) -> bool {
        self.answer
    }

    /// Whether an event has come before the opening that it needs.
    pub(super) fn is_lacking(&self) -> bool {
        self.is_lacking
    }

    /// Reads the next event.
    pub(super) fn take(&mut self, dialect: Dialect, event: &StreamEvent<'_>) {
        match dialect {
            Dialect::Messages => self.take_messages(event.kind()),
            Dialect::Responses => self.take_responses(event),
            _ => {}
        }
    }

    fn take_messages(&mut self, kind: &str) {
        match kind {
            "message_start" => self.answer = true,
            "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop" => self.is_lacking |= !self.answer,
            _ => {}
        }
    }

    fn take_responses(&mut self, event: &StreamEvent<'_>) {
        match event.kind() {
            "response.created" => self.answer = true,
            "response.output_item.added" if self.answer => self.item = true,
            "response.output_item.added" | "response.output_item.done" | "response.content_part.added" => {
                self.is_lacking |= !self.answer
            }
            kind if RESPONSE_ENDS.contains(&kind) => {
                let output = event.json().and_then(|json| json.path(&["response", "output"]));
                let has_items = output.is_some_and(|output| !output.items().is_empty());
                self.is_lacking |= !self.answer || has_items && !self.item;
            }
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.function_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta" => self.is_lacking |= !(self.answer && self.item),
            _ => {}
        }
    }
}
