//! The events that open a stream. The stream helpers of the SDKs fail on output before them, and some sites leave them out.

use super::Dialect;

/// The opening events of a stream that have come.
#[derive(Debug, Default)]
pub(super) struct Opening {
    answer: bool,
    item: bool,
    is_lacking: bool,
}

impl Opening {
    /// Whether an event has come before the opening that it needs.
    pub(super) fn is_lacking(&self) -> bool {
        self.is_lacking
    }

    /// Notes the type of the next event.
    pub(super) fn take(&mut self, dialect: Dialect, kind: &str) {
        match dialect {
            Dialect::Messages => self.take_messages(kind),
            Dialect::Responses => self.take_responses(kind),
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

    fn take_responses(&mut self, kind: &str) {
        match kind {
            "response.created" => self.answer = true,
            "response.output_item.added" if self.answer => self.item = true,
            "response.output_item.added"
            | "response.output_item.done"
            | "response.content_part.added"
            | "response.completed"
            | "response.done"
            | "response.incomplete" => self.is_lacking |= !self.answer,
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
