//! Asks for usage that the client did not ask for but the gateway needs, and hides it from the client.
//!
//! OpenAI reports the usage of a stream only on request (`stream_options.include_usage`), in an event of its own
//! after the answer: without choices, before `[DONE]`.
//! <https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options>

use std::ops::Range;

use memchr::memmem;
use serde_json::{Map, Value};

use crate::dialect::edit::edit;
use crate::dialect::json;
use crate::dialect::sse::Scanner;
use crate::dialect::tree::Node;

const OPTIONS: &str = "stream_options";
const INCLUDE: &str = "include_usage";
/// The longest event that is checked for usage, in bytes: no event with usage alone is as long.
const LONGEST: usize = 16 * 1024;

/// Returns whether the request does not ask for the usage of its stream; false where its options are not an object.
pub fn leaves_usage_open(body: &str) -> bool {
    options(body).is_some_and(|options| options.get(INCLUDE) != Some(&Value::Bool(true)))
}

/// Returns the request with its stream's usage asked for; `None` where it is already, or where the options are not an
/// object.
pub fn with_usage(body: &str) -> Option<String> {
    let mut options = options(body)?;
    if options.insert(INCLUDE.to_owned(), Value::Bool(true)) == Some(Value::Bool(true)) {
        return None;
    }
    let options = Value::Object(options).to_string();
    Some(edit(body, &[(OPTIONS, &options)], &[]).into_owned())
}

/// Reads `stream_options`; `None` where they are not an object.
fn options(body: &str) -> Option<Map<String, Value>> {
    match json::member(body, OPTIONS).map_or(Ok(Value::Null), serde_json::from_str) {
        Ok(Value::Null) => Some(Map::new()),
        Ok(Value::Object(options)) => Some(options),
        _ => None,
    }
}

/// Finds the events of a stream that report usage and nothing else.
#[derive(Debug)]
pub struct UsageEvents(Scanner);

impl Default for UsageEvents {
    fn default() -> Self {
        Self(Scanner::new(LONGEST))
    }
}

impl UsageEvents {
    /// Takes the next bytes and appends them to `out`, without such events. An event that began in earlier bytes is
    /// not removed.
    pub fn leave_out(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut kept: Range<usize> = 0..bytes.len();
        self.0.feed(bytes, |event| {
            if let Some(start) = event.start
                && tells_usage_alone(event.data)
            {
                out.extend_from_slice(&bytes[kept.start..start]);
                kept.start = event.end;
            }
        });
        out.extend_from_slice(&bytes[kept]);
    }
}

fn tells_usage_alone(data: &[u8]) -> bool {
    if memmem::find(data, b"\"usage\"").is_none() {
        return false;
    }
    let Some(event) = std::str::from_utf8(data).ok().and_then(|data| Node::parse(data).ok()) else {
        return false;
    };
    let has_no_choice =
        event.get("choices").is_some_and(|choices| choices.is_array() && choices.items().is_empty());
    has_no_choice && event.get("usage").is_some_and(|usage| usage.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_asked_for_beside_what_else_is_asked() {
        for (body, wanted) in [
            (r#"{"model":"m"}"#, Some(r#"{"model":"m","stream_options":{"include_usage":true}}"#)),
            (r#"{"stream_options":null}"#, Some(r#"{"stream_options":{"include_usage":true}}"#)),
            (
                r#"{"stream_options":{"include_usage":false,"include_obfuscation":false}}"#,
                Some(r#"{"stream_options":{"include_obfuscation":false,"include_usage":true}}"#),
            ),
            (r#"{"stream_options":{"include_usage":true}}"#, None),
            (r#"{"stream_options":[]}"#, None),
        ] {
            assert_eq!(leaves_usage_open(body), wanted.is_some(), "{body}");
            assert_eq!(with_usage(body).as_deref(), wanted);
        }
    }

    #[test]
    fn events_that_tell_usage_alone_are_left_out() {
        let text = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\r\n\r\n";
        let last = "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"total_tokens\":3}}\n\n";
        let filter = "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n";
        let usage = "data: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\n";
        let done = "data: [DONE]\n\n";
        let mut out = Vec::new();
        let mut events = UsageEvents::default();
        for bytes in [[filter, text, last, usage].concat(), [usage, ": quiet\n\n", done].concat()] {
            events.leave_out(bytes.as_bytes(), &mut out);
        }
        assert_eq!(String::from_utf8(out).unwrap(), [filter, text, last, ": quiet\n\n", done].concat());
    }
}
