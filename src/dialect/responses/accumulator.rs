//! Collects a stream of this dialect into one answer, for a client of this dialect that did not ask for a stream.
//!
//! The terminal event repeats the whole response, including items that no other dialect has, so it is passed on as it
//! is. If its output is missing, the items of the stream's `output_item.done` events take its place.

use super::reply_read;
use super::turn::TurnOutput;
use crate::dialect::edit::edit;
use crate::dialect::events::RESPONSE_ENDS;
use crate::dialect::stream_event::StreamEvent;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::{UpstreamError, is_error};

/// Collects the events of a stream, up to its terminal event, into one answer.
#[derive(Debug, Default)]
pub struct Accumulator {
    output: TurnOutput,
    /// The response object of `response.created`, as JSON.
    begun: Option<String>,
    /// The response object of the terminal event, as JSON.
    response: Option<String>,
    failure: Option<UpstreamError>,
}

impl Accumulator {
    /// Reads the next event.
    pub fn read(&mut self, event: &StreamEvent<'_>) {
        if self.response.is_some() || self.failure.is_some() {
            return;
        }
        let Some(json) = event.json() else {
            self.failure = event.failure();
            return;
        };
        self.output.read(event);
        match event.kind() {
            "response.created" => self.begun = json.get("response").map(|response| response.raw().to_owned()),
            kind if RESPONSE_ENDS.contains(&kind) => {
                let Some(response) = json.get("response").filter(|response| response.is_object()) else {
                    return;
                };
                self.failure = reply_read::failure(response);
                self.response = Some(response.raw().to_owned());
            }
            "error" | "response.failed" | "response.cancelled" => self.fail(json),
            _ if event.is_named_error() || json.get("error").is_some_and(Node::is_object) => self.fail(json),
            _ => {}
        }
    }

    /// Returns the response object as JSON; an error when the stream failed or never finished.
    pub fn finish(self) -> Result<String, UpstreamError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let response =
            self.response.ok_or_else(|| UpstreamError::new("Upstream closed the stream before its end"))?;
        let node = Node::parse(&response).map_err(|_| reply_read::unnamed())?;
        let begun = self.begun.as_deref().and_then(|begun| Node::parse(begun).ok());
        let mut filled: Vec<(&str, &str)> = Vec::new();
        for (key, value) in begun.iter().flat_map(|begun| begun.members()) {
            // These three may have changed since the beginning.
            if node.member(key).is_none() && !matches!(key.as_ref(), "status" | "output" | "usage") {
                filled.push((key, value.raw()));
            }
        }
        let items = self.output.items();
        let output = format!("[{}]", items.join(","));
        if node.items_at("output").is_empty() && !items.is_empty() {
            filled.push(("output", &output));
        }
        Ok(if filled.is_empty() { response.clone() } else { edit(&response, &filled, &[]).into_owned() })
    }

    fn fail(&mut self, event: &Node<'_>) {
        let places = [event.path(&["response", "error"]), event.get("error"), Some(event)];
        let error = places.into_iter().flatten().find(|place| is_error(place)).and_then(UpstreamError::of);
        self.failure = Some(error.unwrap_or_else(reply_read::unnamed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(events: &[&str]) -> Result<String, UpstreamError> {
        let mut accumulator = Accumulator::default();
        events.iter().for_each(|data| accumulator.read(&StreamEvent::new(b"", data)));
        accumulator.finish()
    }

    const ITEM: &str = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws_1"}}"#;

    #[test]
    fn the_terminal_response_is_the_answer() {
        let end = r#"{"type":"response.completed","response":{"id":"resp_1","new":[1, 2],"output":[{"type":"x"}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}"#;
        let response = gather(&[ITEM, end]).unwrap();
        assert!(end.contains(&response) && response.contains("[1, 2]"), "{response}");
    }

    #[test]
    fn an_output_that_was_left_out_is_filled() {
        for output in ["", r#","output":[]"#] {
            let end = format!(r#"{{"type":"response.incomplete","response":{{"id":"resp_1"{output}}}}}"#);
            let response = gather(&[ITEM, &end]).unwrap();
            assert!(response.contains(r#""output":[{"type":"web_search_call","id":"ws_1"}]"#), "{response}");
        }
    }

    #[test]
    fn a_failed_or_broken_stream_is_no_answer() {
        let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"c","message":"boom"}}}"#;
        let error = r#"{"type":"error","code":"c","message":"boom","param":null}"#;
        for event in [failed, error] {
            assert_eq!(gather(&[ITEM, event]).unwrap_err().message, "boom");
        }
        assert!(gather(&[ITEM]).is_err());
    }
}
