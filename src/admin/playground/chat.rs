//! Converts a plain conversation to a request of the chosen dialect.

use bytes::Bytes;
use hyper::Method;
use serde_json::{Map, Value, json};

use super::envelope::{self, Streamed, target};
use super::error::PlaygroundError;
use crate::proxy::internal::InternalRequest;

/// The output limit for dialects that require one.
const DEFAULT_MAX_TOKENS: i64 = 4096;

struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

impl<'a> Message<'a> {
    fn of(message: &'a Value) -> Option<Self> {
        Some(Self { role: message.get("role")?.as_str()?, content: message.get("content")?.as_str()? })
    }
}

/// Reads the body of a chat request.
pub(super) fn read(
    fields: &Map<String, Value>,
    streamed: Streamed,
) -> Result<InternalRequest, PlaygroundError> {
    let model = fields.get("model").and_then(Value::as_str).unwrap_or_default().trim();
    if model.is_empty() {
        return Err(PlaygroundError::invalid("Invalid model. Expected non-empty string."));
    }
    let wrong =
        || PlaygroundError::invalid("Invalid messages. Expected non-empty array of role and content.");
    let messages = fields.get("messages").and_then(Value::as_array).ok_or_else(wrong)?;
    let messages: Option<Vec<Message<'_>>> = messages.iter().map(Message::of).collect();
    let messages = messages.filter(|messages| !messages.is_empty()).ok_or_else(wrong)?;
    let stream = match streamed {
        Streamed::Never => false,
        Streamed::Always => true,
        Streamed::AsAsked => fields.get("stream").and_then(Value::as_bool).unwrap_or(false),
    };
    let format = match fields.get("targetFormat") {
        None | Some(Value::Null) => "openai",
        Some(format) => format.as_str().unwrap_or_default(),
    };
    let (path, mut body) = match format {
        "openai" => ("/v1/chat/completions", openai(&messages, fields)),
        "claude" => ("/v1/messages", claude(&messages, fields)),
        "responses" => ("/v1/responses", responses(&messages, fields)),
        _ => {
            return Err(PlaygroundError::invalid(
                "Invalid targetFormat. Expected openai, claude or responses.",
            ));
        }
    };
    body["model"] = model.into();
    body["stream"] = stream.into();
    let kind = Some("application/json".to_owned());
    Ok(envelope::internal_request(Method::POST, target(path)?, kind, Bytes::from(body.to_string()), fields))
}

fn openai(messages: &[Message<'_>], fields: &Map<String, Value>) -> Value {
    let messages: Vec<Value> = messages.iter().map(to_json).collect();
    let mut body = json!({ "messages": messages });
    let names = ["temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty", "seed"];
    copy(fields, &names, &mut body);
    body
}

/// Builds the body for the Claude dialect: `system` is a member of its own, blank messages are dropped, and every role
/// except the assistant's becomes the user's.
fn claude(messages: &[Message<'_>], fields: &Map<String, Value>) -> Value {
    let said =
        messages.iter().filter(|message| message.role != "system" && !message.content.trim().is_empty());
    let said = said.map(|message| {
        let role = if message.role == "assistant" { "assistant" } else { "user" };
        json!({ "role": role, "content": message.content })
    });
    let mut body = json!({ "messages": said.collect::<Vec<_>>(), "max_tokens": limit(fields) });
    if let Some(system) = system(messages) {
        body["system"] = system.into();
    }
    copy(fields, &["temperature", "top_p"], &mut body);
    body
}

/// Builds the body for the Responses dialect: a single user message becomes plain text.
fn responses(messages: &[Message<'_>], fields: &Map<String, Value>) -> Value {
    let input = match messages {
        [only] if only.role == "user" => Value::from(only.content),
        _ => messages.iter().filter(|message| message.role != "system").map(to_json).collect(),
    };
    let mut body = json!({ "input": input, "max_output_tokens": limit(fields) });
    if let Some(system) = system(messages) {
        body["instructions"] = system.into();
    }
    copy(fields, &["temperature", "top_p"], &mut body);
    body
}

fn to_json(message: &Message<'_>) -> Value {
    json!({ "role": message.role, "content": message.content })
}

/// Joins the system texts with a blank line between them.
fn system(messages: &[Message<'_>]) -> Option<String> {
    let texts = messages.iter().filter(|message| message.role == "system").map(|message| message.content);
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

fn limit(fields: &Map<String, Value>) -> Value {
    fields
        .get("max_tokens")
        .filter(|limit| limit.is_number())
        .cloned()
        .unwrap_or_else(|| DEFAULT_MAX_TOKENS.into())
}

fn copy(fields: &Map<String, Value>, names: &[&str], body: &mut Value) {
    for name in names {
        if let Some(number) = fields.get(*name).filter(|value| value.is_number()) {
            body[*name] = number.clone();
        }
    }
}
