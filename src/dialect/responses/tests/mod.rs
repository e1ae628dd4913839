//! Tests of the dialect field by field, and one conversation in it.

mod beside;
mod example;
mod properties;
mod reply;
mod request;
mod stream_read;
mod stream_write;

use crate::dialect::stream_event::StreamEvent;
use serde_json::Value;

use super::*;
use crate::dialect::canonical::{ConversionError, Event, ReplyContext, Request, Target, Vendor};
use crate::dialect::tree::Node;

const TARGET: Target<'static> = Target { model: "m", stream: false, vendor: Vendor::OpenAi };

/// Writes a request and returns the body.
fn written(request: &Request<'_>) -> Result<Value, ConversionError> {
    Ok(serde_json::from_slice(&write_request(request, &TARGET)?).unwrap())
}

/// Reads a body of this dialect and writes it again.
fn through(body: &Value) -> Result<Value, ConversionError> {
    let text = body.to_string();
    written(&read_request(&Node::parse(&text).unwrap())?)
}

fn context() -> ReplyContext {
    ReplyContext { now: 1_790_000_000, fallback_id: "req-1".to_owned(), ..ReplyContext::default() }
}

/// Returns the events that the reader emits, as text.
fn read_events(events: &[Value]) -> Vec<String> {
    let mut reader = StreamReader::default();
    let mut read = Vec::new();
    for event in events {
        let name = event["type"].as_str().unwrap_or_default();
        reader.read(&StreamEvent::new(name.as_bytes(), &event.to_string()), &mut |event| {
            read.push(format!("{event:?}"))
        });
    }
    reader.close(&mut |event| read.push(format!("{event:?}")));
    read
}

/// Parses the events that the writer wrote; every one must name its type.
fn events_of(text: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for block in text.split_terminator("\n\n") {
        let (name, data) = block.split_once("\ndata: ").expect("an event");
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name, format!("event: {}", event["type"].as_str().unwrap()));
        events.push(event);
    }
    events
}

fn write_all<'e>(events: impl IntoIterator<Item = Event<'e>>, context: &ReplyContext) -> Vec<Value> {
    let mut writer = StreamWriter::new(context);
    let mut out = String::new();
    events.into_iter().for_each(|event| writer.write(&event, context, &mut out));
    events_of(&out)
}

/// The example's schema.
fn schema() -> Value {
    serde_json::json!({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})
}
