mod pieces;
mod replies;
mod request_write;
mod requests;
mod stream_read;
mod stream_write;

use crate::dialect::stream_event::StreamEvent;
use serde_json::{Value, json};

use super::{StreamReader, StreamWriter};
use crate::dialect::canonical::{ConversionError, Event, ReplyContext, Request, Target, Vendor};
use crate::dialect::tree::Node;

/// Reads a request and writes it again for a vendor.
fn through(body: &Value, vendor: Vendor) -> Result<Value, ConversionError> {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    let request = super::read_request(&node)?;
    written(&request, vendor, false)
}

fn written(request: &Request<'_>, vendor: Vendor, stream: bool) -> Result<Value, ConversionError> {
    let target = Target { model: "m", stream, vendor };
    super::write_request(request, &target).map(|body| serde_json::from_slice(&body).unwrap())
}

fn context() -> ReplyContext {
    ReplyContext { usage_chunk: true, now: 7, fallback_id: "r1".to_owned(), ..ReplyContext::default() }
}

/// Returns a chunk with this delta.
fn chunk(delta: Value) -> String {
    json!({"id":"c1","object":"chat.completion.chunk","created":5,"model":"m",
        "choices":[{"index":0,"delta":delta,"finish_reason":null}]})
    .to_string()
}

fn finish(reason: &str) -> String {
    json!({"id":"c1","object":"chat.completion.chunk","created":5,"model":"m",
        "choices":[{"index":0,"delta":{},"finish_reason":reason}]})
    .to_string()
}

/// Returns the events of a stream of these chunks; `Close` stands for the end of the body.
fn events(chunks: &[String]) -> Vec<String> {
    let mut reader = StreamReader::default();
    let mut seen = Vec::new();
    for chunk in chunks {
        reader.read(&StreamEvent::new(b"", chunk), &mut |event| seen.push(short(&event)));
    }
    seen.push("Close".to_owned());
    reader.close(&mut |event| seen.push(short(&event)));
    seen
}

/// Returns an event in short form.
fn short(event: &Event<'_>) -> String {
    use crate::dialect::canonical::PartKind;
    match event {
        Event::Start { id, model, .. } => format!("Start {} {}", id.decode(), model.decode()),
        Event::Model(model) => format!("Model {}", model.decode()),
        Event::PartStart { key, part: PartKind::Call { id, name, signature, .. } } => {
            let proof = signature.as_ref().map(|signature| format!(" {signature:?}")).unwrap_or_default();
            format!("+{key} Call {}:{}{proof}", id.decode(), name.decode())
        }
        Event::PartStart { key, part } => format!("+{key} {part:?}"),
        Event::Delta { key, text } => format!("{key} {}", text.decode()),
        Event::Logprobs { key, tokens } => format!("{key} {tokens:?}"),
        Event::SearchOutcome { key, found } => format!("{key} {found:?}"),
        Event::Cite { key, citation } => format!("{key} {citation:?}"),
        Event::Signature { key, signature } => format!("{key} {signature:?}"),
        Event::PartStop { key } => format!("-{key}"),
        Event::Usage(usage) => format!("Usage {:?} {:?}", usage.prompt, usage.completion),
        Event::Finish(stop) => format!("Finish {stop:?}"),
        Event::Fail(error) => format!("Fail {}", error.message),
        Event::End => "End".to_owned(),
    }
}

/// Returns the chunks that a writer makes of a stream of this dialect; `[DONE]` is a string.
fn rewritten(chunks: &[String], context: &ReplyContext) -> Vec<Value> {
    let mut reader = StreamReader::default();
    let mut writer = StreamWriter::of_choice(0, context);
    let mut out = String::new();
    for chunk in chunks {
        reader.read(&StreamEvent::new(b"", chunk), &mut |event| writer.write(&event, context, &mut out));
    }
    reader.close(&mut |event| writer.write(&event, context, &mut out));
    data(&out)
}

fn data(out: &str) -> Vec<Value> {
    let lines = out.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| match line.strip_prefix("data: ").unwrap() {
            "[DONE]" => json!("[DONE]"),
            json => serde_json::from_str(json).unwrap(),
        })
        .collect()
}
