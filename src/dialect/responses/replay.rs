//! Turns a complete answer of this dialect into a stream, for a client of this dialect that asked for one. The
//! response, its items and their ids stay as the upstream wrote them.

use std::borrow::Cow;

use super::answer::lacking;
use super::stream_write::emit;
use crate::dialect::canonical::{MAX_REPEATED, ReplyContext};
use crate::dialect::edit::edit;
use crate::dialect::literal::{Json, Text, compact};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Appends the events of the answer; of one that is still being made, those that begin it.
pub fn replay(answer: &Node<'_>, context: &ReplyContext, out: &mut String) {
    let body = compact(answer.raw());
    let id = format!("\"resp_{}\"", context.fallback_id);
    let model = serde_json::Value::from(context.model.as_str()).to_string();
    let now = context.now.to_string();
    let mut missing = vec![("object", "\"response\""), ("status", "\"completed\""), ("output", "[]")];
    missing.extend([("id", id.as_str()), ("model", &model), ("created_at", &now)]);
    missing.retain(|(key, _)| answer.get(key).is_none());
    missing.extend(lacking(answer, context));
    let items = answer.items_at("output");
    let completed: Vec<Option<String>> =
        (0..).zip(items).map(|(place, item)| completed_item(place, item, context)).collect();
    let output = completed.iter().any(Option::is_some).then(|| joined(items, &completed));
    missing.extend(output.iter().map(|output| ("output", output.as_str())));
    let whole = edit(&body, &missing, &[]);
    let mut events = Events { out, sequence: &mut 0 };
    let status = answer.str_at("status");
    if matches!(status.as_ref(), "queued" | "in_progress") {
        // The client fetches the rest, which is still being made.
        for kind in ["created", status.as_ref()] {
            events.put(kind, |o| o.field("response", Json::checked(&whole)));
        }
        return;
    }
    let begun =
        [("status", "\"in_progress\""), ("output", "[]"), ("usage", "null"), ("incomplete_details", "null")];
    let begun = edit(&whole, &begun, &["completed_at", "output_text"]);
    for kind in ["created", "in_progress"] {
        events.put(kind, |o| o.field("response", Json::checked(&begun)));
    }
    for (place, (item, completed)) in (0..).zip(items.iter().zip(&completed)) {
        match completed.as_deref().map(Node::parse) {
            Some(Ok(completed)) => Item::of(place, &completed).replay(&completed, &mut events),
            _ => Item::of(place, item).replay(item, &mut events),
        }
    }
    let end = match status.as_ref() {
        "incomplete" => "incomplete",
        _ => "completed",
    };
    events.put(end, |o| o.field("response", Json::checked(&whole)));
}

/// Returns an item with the members that clients' types require and that it lacks; `None` if it lacks none.
fn completed_item(place: u64, item: &Node<'_>, context: &ReplyContext) -> Option<String> {
    let id = format!("\"item_{place}\"");
    let call_id = format!("\"call_{}_{place}\"", context.fallback_id);
    let required: &[(&str, &str)] = match item.str_at("type").as_ref() {
        "message" => &[("id", &id), ("status", "\"completed\""), ("role", "\"assistant\"")],
        "function_call" | "custom_tool_call" => {
            &[("id", &id), ("status", "\"completed\""), ("call_id", &call_id)]
        }
        "reasoning" => &[("id", &id), ("summary", "[]")],
        _ => &[("id", &id)],
    };
    let mut missing: Vec<_> = required.iter().filter(|(key, _)| lacks(item, key)).copied().collect();
    let parts = item.items_at("content");
    let content: Vec<Option<String>> = parts.iter().map(completed_part).collect();
    let content = content.iter().any(Option::is_some).then(|| joined(parts, &content));
    missing.extend(content.iter().map(|content| ("content", content.as_str())));
    (!missing.is_empty()).then(|| edit(item.raw(), &missing, &[]).into_owned())
}

fn lacks(item: &Node<'_>, key: &str) -> bool {
    item.get(key).is_none_or(|value| value.raw() == "\"\"")
}

/// Returns an item in JSON; one without an id gets one made of its place.
pub(super) fn named_item<'t>(place: u64, item: &Node<'t>) -> Cow<'t, str> {
    if lacks(item, "id") {
        edit(item.raw(), &[("id", &format!("\"item_{place}\""))], &[])
    } else {
        Cow::Borrowed(item.raw())
    }
}

fn completed_part(part: &Node<'_>) -> Option<String> {
    let is_bare = part.str_at("type") == "output_text" && part.get("annotations").is_none();
    is_bare.then(|| edit(part.raw(), &[("annotations", "[]")], &[]).into_owned())
}

/// Joins values to a list, each as it is completed, or else as it came.
fn joined(values: &[Node<'_>], completed: &[Option<String>]) -> String {
    let values = values.iter().zip(completed).map(|(value, own)| own.as_deref().unwrap_or(value.raw()));
    format!("[{}]", compact(&values.collect::<Vec<_>>().join(",")))
}

/// Appends the events of one item at this place of the output.
pub(super) fn replay_item(place: u64, item: &Node<'_>, sequence: &mut u64, out: &mut String) {
    Item::of(place, item).replay(item, &mut Events { out, sequence });
}

/// Returns a whole item as it was when it began, as JSON.
pub(super) fn begun_item(item: &Node<'_>) -> String {
    let begun: &[(&str, &str)] = match item.str_at("type").as_ref() {
        "message" => &[("status", "\"in_progress\""), ("content", "[]")],
        "reasoning" if item.get("content").is_some() => &[("summary", "[]"), ("content", "[]")],
        "reasoning" => &[("summary", "[]")],
        "function_call" => &[("status", "\"in_progress\""), ("arguments", "\"\"")],
        "custom_tool_call" => &[("status", "\"in_progress\""), ("input", "\"\"")],
        _ if item.get("status").is_some() => &[("status", "\"in_progress\"")],
        _ => &[],
    };
    edit(&compact(item.raw()), begun, &[]).into_owned()
}

struct Events<'o> {
    out: &'o mut String,
    sequence: &'o mut u64,
}

impl Events<'_> {
    fn put(&mut self, kind: &str, inside: impl FnOnce(&mut Writer)) {
        emit(self.sequence, self.out, kind, inside);
    }
}

/// The place and the id of the item that events are about.
struct Item<'a> {
    index: u64,
    id: Text<'a>,
}

impl<'a> Item<'a> {
    fn of(index: u64, item: &Node<'a>) -> Self {
        let id = item.text_at("id").filter(|id| id.literal().len() <= MAX_REPEATED).unwrap_or_default();
        Self { index, id }
    }

    fn replay(&self, item: &Node<'_>, events: &mut Events<'_>) {
        let kind = item.str_at("type");
        let body = compact(item.raw());
        let begun = begun_item(item);
        events.put("output_item.added", |o| {
            o.field("output_index", self.index);
            o.field("item", Json::checked(&begun));
        });
        match kind.as_ref() {
            "message" => {
                for (place, part) in item.items_at("content").iter().enumerate() {
                    self.replay_part(place as u64, part, events);
                }
            }
            "reasoning" => {
                for (place, part) in item.items_at("summary").iter().enumerate() {
                    self.replay_thought(("reasoning_summary", "summary_index", place as u64), part, events);
                }
                for (place, part) in item.items_at("content").iter().enumerate() {
                    self.replay_thought(("reasoning", "content_index", place as u64), part, events);
                }
            }
            "function_call" => self.replay_input("function_call_arguments", "arguments", item, events),
            "custom_tool_call" => self.replay_input("custom_tool_call_input", "input", item, events),
            _ => {}
        }
        events.put("output_item.done", |o| {
            o.field("output_index", self.index);
            o.field("item", Json::checked(&body));
        });
    }

    fn place(&self, o: &mut Writer) {
        o.field("item_id", &self.id);
        o.field("output_index", self.index);
    }

    /// Writes the events of a message part: its text or refusal in one piece, then its annotations.
    fn replay_part(&self, place: u64, part: &Node<'_>, events: &mut Events<'_>) {
        let (word, key) =
            if part.get("refusal").is_some() { ("refusal", "refusal") } else { ("output_text", "text") };
        let at = |o: &mut Writer| {
            self.place(o);
            o.field("content_index", place);
        };
        let body = compact(part.raw());
        let empty = [(key, "\"\""), ("annotations", "[]"), ("logprobs", "[]")];
        let known = empty.iter().filter(|(name, _)| part.get(name).is_some()).copied().collect::<Vec<_>>();
        let begun = edit(&body, &known, &[]);
        events.put("content_part.added", |o| {
            at(o);
            o.field("part", Json::checked(&begun));
        });
        let logprobs = part.get("logprobs").map(|logprobs| compact(logprobs.raw()));
        let logprobs = |o: &mut Writer| {
            if word == "output_text" {
                o.field("logprobs", Json::checked(logprobs.as_deref().unwrap_or("[]")));
            }
        };
        let text = part.text_at(key).unwrap_or_default();
        if !text.is_empty() {
            events.put(&format!("{word}.delta"), |o| {
                at(o);
                o.field("delta", &text);
                logprobs(o);
            });
        }
        for (number, annotation) in part.items_at("annotations").iter().enumerate() {
            events.put("output_text.annotation.added", |o| {
                at(o);
                o.field("annotation_index", number as u64);
                o.field("annotation", Json::checked(&compact(annotation.raw())));
            });
        }
        events.put(&format!("{word}.done"), |o| {
            at(o);
            o.field(key, &text);
            logprobs(o);
        });
        events.put("content_part.done", |o| {
            at(o);
            o.field("part", Json::checked(&body));
        });
    }

    /// Writes the events of a part of a reasoning summary, or of the reasoning text itself.
    fn replay_thought(
        &self,
        (word, index, place): (&str, &str, u64),
        part: &Node<'_>,
        events: &mut Events<'_>,
    ) {
        let at = |o: &mut Writer| {
            self.place(o);
            o.field(index, place);
        };
        let body = compact(part.raw());
        // The reasoning text itself has no events for its parts.
        let has_parts = word == "reasoning_summary";
        if has_parts {
            events.put("reasoning_summary_part.added", |o| {
                at(o);
                o.field("part", Json::checked(&edit(&body, &[("text", "\"\"")], &[])));
            });
        }
        let text = part.text_at("text").unwrap_or_default();
        if !text.is_empty() {
            events.put(&format!("{word}_text.delta"), |o| {
                at(o);
                o.field("delta", &text);
            });
        }
        events.put(&format!("{word}_text.done"), |o| {
            at(o);
            o.field("text", &text);
        });
        if has_parts {
            events.put("reasoning_summary_part.done", |o| {
                at(o);
                o.field("part", Json::checked(&body));
            });
        }
    }

    fn replay_input(&self, word: &str, key: &str, item: &Node<'_>, events: &mut Events<'_>) {
        let input = item.text_at(key).unwrap_or_default();
        if !input.is_empty() {
            events.put(&format!("{word}.delta"), |o| {
                self.place(o);
                o.field("delta", &input);
            });
        }
        events.put(&format!("{word}.done"), |o| {
            self.place(o);
            if key == "arguments" {
                o.field("name", item.json_at("name"));
            }
            o.field(key, &input);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::responses::Accumulator;
    use crate::dialect::stream_event::StreamEvent;

    const ANSWER: &str = concat!(
        r#"{"id":"resp_1","object":"response","status":"completed","model":"m","new":[1,2],"output":["#,
        r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"E"},"#,
        r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"query":"q"}},"#,
        r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[{"url":"u"}],"logprobs":[{"token":"Hi"}]},{"type":"refusal","refusal":"No"}]},"#,
        r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"c","name":"f","arguments":"{}"},"#,
        r#"{"id":"ct_1","type":"custom_tool_call","status":"completed","call_id":"d","name":"g","input":"x"}],"#,
        r#""usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}"#
    );

    #[test]
    fn an_answer_replayed_and_accumulated_is_the_same_to_the_byte() {
        let mut out = String::new();
        replay(&Node::parse(ANSWER).unwrap(), &ReplyContext::default(), &mut out);
        let mut accumulator = Accumulator::default();
        let mut kinds = Vec::new();
        for (sequence, event) in out.split_terminator("\n\n").enumerate() {
            let (name, data) = event.split_once("\ndata: ").unwrap();
            let name = name.strip_prefix("event: ").unwrap();
            let begins = format!("{{\"type\":\"{name}\",\"sequence_number\":{sequence},");
            assert!(data.starts_with(&begins), "{data}");
            accumulator.read(&StreamEvent::new(b"", data));
            kinds.push(name.strip_prefix("response.").unwrap().to_owned());
        }
        let told = accumulator.finish().unwrap();
        let (own, made_up) = told.split_once(",\"created_at\":0,").unwrap();
        assert_eq!(own, ANSWER.strip_suffix('}').unwrap());
        assert!(made_up.contains(r#""instructions":null"#) && made_up.contains(r#""tools":[]"#), "{made_up}");
        let wanted = "created in_progress \
            output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done \
            reasoning_summary_part.done output_item.done \
            output_item.added output_item.done \
            output_item.added content_part.added output_text.delta output_text.annotation.added output_text.done \
            content_part.done content_part.added refusal.delta refusal.done content_part.done output_item.done \
            output_item.added function_call_arguments.delta function_call_arguments.done output_item.done \
            output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done completed";
        assert_eq!(kinds, wanted.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn what_an_answer_lacks_is_made_up() {
        let context = ReplyContext { fallback_id: "r".into(), model: "m".into(), ..ReplyContext::default() };
        let mut out = String::new();
        replay(&Node::parse(r#"{"status":"incomplete","output_text":"x"}"#).unwrap(), &context, &mut out);
        assert!(out.contains(r#""id":"resp_r","model":"m","created_at":0,"#), "{out}");
        assert!(out.contains("event: response.incomplete\n"), "{out}");
    }

    #[test]
    fn items_get_the_members_that_they_lack() {
        let context = ReplyContext { fallback_id: "r".into(), ..ReplyContext::default() };
        let answer = r#"{"output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]},
            {"type":"function_call","id":"","name":"f","arguments":"{}"},{"id":"rs_1","type":"reasoning","summary":[]}]}"#;
        let mut out = String::new();
        replay(&Node::parse(answer).unwrap(), &context, &mut out);
        let message = concat!(
            r#"{"type":"message","content":[{"type":"output_text","text":"Hi","annotations":[]}],"#,
            r#""id":"item_0","status":"completed","role":"assistant"}"#
        );
        let call = r#"{"type":"function_call","id":"item_1","name":"f","arguments":"{}","status":"completed","call_id":"call_r_1"}"#;
        let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[]}"#;
        let output = format!(r#""output":[{message},{call},{reasoning}]"#);
        for wanted in [
            r#""item_id":"item_0","output_index":0,"content_index":0,"delta":"Hi""#,
            r#""item_id":"item_1","output_index":1,"delta":"{}""#,
            message,
            call,
            &output,
        ] {
            assert!(out.contains(wanted), "{wanted} in {out}");
        }
        assert!(!out.contains(r#""item_id":"""#), "{out}");
    }
}
