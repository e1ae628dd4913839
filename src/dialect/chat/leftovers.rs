//! What the canonical form cannot hold of a streamed answer of this dialect: it is gathered beside it,
//! for a client of this dialect that wanted no stream (proxy-conversion.md 7.1).

use std::collections::BTreeMap;

use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Members that are read, or made, where the answer is.
const OF_CHUNK: [&str; 6] = ["id", "object", "created", "model", "choices", "usage"];
const OF_CHOICE: [&str; 6] = ["index", "delta", "message", "text", "finish_reason", "logprobs"];
const OF_DELTA: [&str; 10] = [
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_details",
    "reasoning_signature",
];
/// Members of objects in deltas that come in pieces; the others come whole.
const IN_PIECES: [&str; 2] = ["data", "transcript"];

/// The members of all chunks that are not read into the canonical form.
#[derive(Debug, Default)]
pub struct Leftovers {
    members: Members,
    usage: Option<String>,
    choices: BTreeMap<u64, OfChoice>,
}

/// Those of one choice.
#[derive(Debug, Default)]
pub(super) struct OfChoice {
    members: Members,
    message: Members,
    /// `content`, `refusal`: each a list that comes in pieces.
    logprobs: Members,
    reason: Option<String>,
}

/// Names and JSON values, in the order in which they came.
type Members = Vec<(String, String)>;

impl Leftovers {
    /// Reads the data of one SSE event.
    pub fn read(&mut self, data: &str) {
        let Ok(chunk) = Node::parse(data) else { return };
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.raw().to_owned());
        }
        for (key, value) in others(&chunk, &OF_CHUNK) {
            set(&mut self.members, key, value.raw().to_owned());
        }
        for choice in chunk.items_at("choices") {
            let own = self.choices.entry(choice.u64_at("index").unwrap_or(0)).or_default();
            own.read(choice);
        }
    }

    /// The indexes of the choices.
    pub fn choices(&self) -> impl Iterator<Item = u64> {
        self.choices.keys().copied()
    }

    /// What is left of the choice in that place.
    pub(super) fn of_choice(&self, place: usize) -> Option<&OfChoice> {
        self.choices.values().nth(place)
    }

    pub(super) fn usage(&self) -> Option<Json<'_>> {
        self.usage.as_deref().map(Json::checked)
    }

    pub(super) fn put(&self, o: &mut Writer) {
        put(o, &self.members);
    }
}

impl OfChoice {
    fn read(&mut self, choice: &Node<'_>) {
        if let Some(reason) = choice.get("finish_reason").filter(|reason| reason.is_string()) {
            self.reason.get_or_insert_with(|| reason.raw().to_owned());
        }
        for (key, list) in choice.get("logprobs").map_or(&[][..], Node::members) {
            if list.is_array() {
                lengthen(&mut self.logprobs, key, list);
            }
        }
        for (key, value) in others(choice, &OF_CHOICE) {
            set(&mut self.members, key, value.raw().to_owned());
        }
        let Some(delta) = choice.get("delta").or(choice.get("message")) else { return };
        for (key, value) in others(delta, &OF_DELTA) {
            match () {
                () if value.is_array() => lengthen(&mut self.message, key, value),
                () if value.is_object() => merge(&mut self.message, key, value),
                () => set(&mut self.message, key, value.raw().to_owned()),
            }
        }
    }

    pub(super) fn logprobs(&self) -> Option<Json<'static>> {
        if self.logprobs.is_empty() {
            return None;
        }
        let mut json = Writer::new();
        json.object(|o| put(o, &self.logprobs));
        Some(Json::checked(json.as_str()).into_owned())
    }

    /// As the upstream put it: this dialect's clients may know the word.
    pub(super) fn reason(&self) -> Option<Json<'_>> {
        self.reason.as_deref().map(Json::checked)
    }

    pub(super) fn put_in_message(&self, o: &mut Writer) {
        put(o, &self.message);
    }

    pub(super) fn put(&self, o: &mut Writer) {
        put(o, &self.members);
    }
}

fn others<'n, 'a>(node: &'n Node<'a>, known: &'n [&str]) -> impl Iterator<Item = (&'n str, &'n Node<'a>)> {
    let members = node.members().iter().map(|(key, value)| (key.as_ref(), value));
    members.filter(move |(key, value)| !known.contains(key) && !value.is_null())
}

fn set(members: &mut Members, key: &str, value: String) {
    match members.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => *known = value,
        None => members.push((key.to_owned(), value)),
    }
}

/// Adds the elements of a list to those that have come.
fn lengthen(members: &mut Members, key: &str, list: &Node<'_>) {
    let known = members.iter().find(|(known, _)| known == key).and_then(|(_, value)| Node::parse(value).ok());
    let before = known.iter().flat_map(|known| known.items().iter().map(Node::raw));
    let all: Vec<_> = before.chain(list.items().iter().map(Node::raw)).collect();
    set(members, key, format!("[{}]", all.join(",")));
}

/// Adds the members of an object to those that have come.
fn merge(members: &mut Members, key: &str, object: &Node<'_>) {
    let mut merged: Members = Vec::new();
    let known = members.iter().find(|(known, _)| known == key).and_then(|(_, value)| Node::parse(value).ok());
    for (name, value) in known.iter().flat_map(Node::members).chain(object.members()) {
        let before =
            merged.iter().find(|(known, _)| known == name).and_then(|(_, own)| Node::parse(own).ok());
        let pieces = before.as_ref().and_then(Node::text).zip(value.text());
        let whole = match pieces {
            Some((before, more)) if IN_PIECES.contains(&name.as_ref()) => {
                format!("\"{}\"", Text::join([&before, &more], "").literal())
            }
            _ => value.raw().to_owned(),
        };
        set(&mut merged, name, whole);
    }
    let mut json = Writer::new();
    json.object(|o| put(o, &merged));
    set(members, key, json.into_string());
}

fn put(o: &mut Writer, members: &Members) {
    members.iter().for_each(|(key, value)| o.field(key, Json::checked(value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::{Asked, Candidate, Reply};
    use crate::dialect::chat::write_reply_with;

    #[test]
    fn what_comes_in_pieces_is_put_together() {
        let mut left = Leftovers::default();
        for chunk in [
            r#"{"id":"c","system_fingerprint":"fp","choices":[{"index":1,"delta":{"audio":{"id":"a","data":"AA"}}}]}"#,
            r#"{"system_fingerprint":null,"choices":[{"index":1,"delta":{"audio":{"data":"BB","expires_at":5}},"logprobs":{"content":[{"token":"x"}],"refusal":null}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"annotations":[1]},"logprobs":{"content":[{"token":"y"}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"annotations":[2]},"finish_reason":"odd"}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1,"cost":0.50}}"#,
        ] {
            left.read(chunk);
        }
        assert_eq!(left.choices().collect::<Vec<_>>(), [1]);
        let reply = Reply { candidates: vec![Candidate::default()], ..Reply::default() };
        let written = write_reply_with(&reply, &Asked::default(), &left);
        let written = String::from_utf8_lossy(&written);
        for wanted in [
            r#""audio":{"id":"a","data":"AABB","expires_at":5},"annotations":[1,2]}"#,
            r#""logprobs":{"content":[{"token":"x"},{"token":"y"}]},"finish_reason":"odd""#,
            r#""usage":{"prompt_tokens":1,"cost":0.50},"system_fingerprint":"fp"}"#,
        ] {
            assert!(written.contains(wanted), "{wanted} in {written}");
        }
    }
}
