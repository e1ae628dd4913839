//! Turns the frames of a client's WebSocket into whole requests.
//!
//! A client of the socket sends only what is new and refers to the previous response. An upstream that is asked over
//! HTTP needs the whole conversation: the previous request, its output, and what is new.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::dialect::literal::Text;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The members of a frame that are not part of the request: those of the frame itself, and those that a socket has no
/// use for.
const NOT_OF_THE_REQUEST: [&str; 7] =
    ["type", "generate", "stream", "stream_id", "background", "previous_response_id", "input"];
/// The members that a frame need not repeat.
const INHERITED: [&str; 3] = ["model", "instructions", "tools"];

/// The output of a turn, collected from its events however it ends.
#[derive(Debug, Default)]
pub struct TurnOutput {
    response_id: Option<String>,
    /// Whether the answer ended without a failure, complete or incomplete.
    complete: bool,
    /// The finished items by their place in the output, as `response.output_item.done` had them.
    done: BTreeMap<u64, String>,
    /// The items as the terminal event repeats them.
    repeated: Vec<String>,
    /// The response object of the terminal event without its items.
    rest: Option<String>,
}

impl TurnOutput {
    /// Returns whether an event may matter here. Most events are deltas, and text of the model cannot look like these
    /// words: its quotes are escaped inside a JSON string.
    pub fn concerns(event: &[u8]) -> bool {
        [&b"\"response\""[..], b"\"response.output_item.done\""]
            .iter()
            .any(|word| memchr::memmem::find(event, word).is_some())
    }

    /// Reads an event.
    pub fn read(&mut self, event: &StreamEvent<'_>) {
        let Some(json) = event.json() else { return };
        if let Some(id) = json.path(&["response", "id"]).and_then(Node::str) {
            self.response_id = Some(id.into_owned());
        }
        match event.kind() {
            "response.output_item.done" => {
                let Some(item) = json.get("item").filter(|item| item.is_object()) else { return };
                let next = self.done.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
                let place = json.u64_at("output_index").unwrap_or(next);
                self.done.insert(place, item.raw().to_owned());
            }
            kind @ ("response.completed" | "response.incomplete" | "response.done" | "response.failed") => {
                self.complete = kind != "response.failed";
                if let Some(response) = json.get("response") {
                    self.read_response(response);
                }
            }
            _ => {}
        }
    }

    /// Reads a response object: that of the terminal event, or an answer without events.
    pub fn read_response(&mut self, response: &Node<'_>) {
        self.rest = Some(without_output(response));
        let items = response.items_at("output").iter().filter(|item| item.is_object());
        self.repeated = items.map(|item| item.raw().to_owned()).collect();
        if let Some(text) = response.text_at("output_text").filter(|text| !text.is_empty())
            && self.repeated.is_empty()
        {
            self.repeated.push(message_of(&text));
        }
    }

    /// Returns the id that the next turn may refer to.
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// Returns whether the answer has ended and has not failed.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the response object of the last event without its items.
    pub fn rest(&self) -> Option<&str> {
        self.rest.as_deref()
    }

    /// Returns the items in the order of the output.
    pub fn items(&self) -> Vec<&str> {
        if self.done.is_empty() {
            self.repeated.iter().map(String::as_str).collect()
        } else {
            self.done.values().map(String::as_str).collect()
        }
    }
}

fn without_output(response: &Node<'_>) -> String {
    let mut json = Writer::new();
    json.object(|o| {
        for (key, value) in response.members() {
            if !matches!(key.as_ref(), "output" | "output_text") {
                o.field(key, value.json());
            }
        }
    });
    json.into_string()
}

pub(super) fn message_of(text: &Text<'_>) -> String {
    let mut json = Writer::new();
    json.object(|o| {
        o.field("type", "message");
        o.field("role", "assistant");
        o.array("content", |a| {
            a.object(|o| {
                o.field("type", "output_text");
                o.field("text", text);
            });
        });
    });
    json.into_string()
}

/// Builds the request of a frame that continues nothing.
pub fn whole_turn(frame: &Node<'_>) -> Bytes {
    merge(None, &[], frame)
}

/// Builds the request of a frame that is the next turn: after the previous request and the items that answered it
/// (JSON objects, in the order of the output).
pub fn merge_turn(
    previous_request: &Node<'_>,
    previous_output_items: &[&str],
    new_frame: &Node<'_>,
) -> Bytes {
    merge(Some(previous_request), previous_output_items, new_frame)
}

fn merge(previous: Option<&Node<'_>>, output: &[&str], frame: &Node<'_>) -> Bytes {
    let room = previous.map_or(0, |previous| previous.raw().len()) + frame.raw().len();
    let mut json = Writer::with_capacity(room + output.iter().map(|item| item.len() + 1).sum::<usize>() + 64);
    json.object(|o| {
        for key in INHERITED {
            if frame.get(key).is_none() {
                o.field_if(key, previous.and_then(|previous| previous.json_at(key)));
            }
        }
        for (key, value) in frame.members() {
            let inherited = value.is_null() && INHERITED.contains(&key.as_ref());
            if !NOT_OF_THE_REQUEST.contains(&key.as_ref()) && !inherited {
                o.field(key, value.json());
            }
        }
        match (previous, frame.get("input")) {
            // An input of another kind cannot be merged; the reader of the request refuses it.
            (_, Some(input)) if !input.is_string() && !input.is_array() => o.field("input", input.json()),
            (None, None) => {}
            (previous, input) => o.array("input", |list| {
                if let Some(input) = previous.and_then(|previous| previous.get("input")) {
                    put_input(list, input);
                }
                let output = output.iter().filter_map(|item| Node::parse(item).ok());
                output.filter(Node::is_object).for_each(|item| list.item(item.json()));
                if let Some(input) = input {
                    put_input(list, input);
                }
            }),
        }
        // A socket always streams its answers.
        o.field("stream", true);
    });
    json.into_bytes()
}

/// Writes the items of an input; a string becomes a user message.
fn put_input(list: &mut Writer, input: &Node<'_>) {
    if let Some(text) = input.text() {
        list.object(|o| {
            o.field("type", "message");
            o.field("role", "user");
            o.field("content", text);
        });
    }
    input.items().iter().for_each(|item| list.item(item.json()));
}
