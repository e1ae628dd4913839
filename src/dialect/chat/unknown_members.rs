//! Collects the parts of a streamed answer of this dialect that the canonical form cannot hold, for a client of this
//! dialect that did not ask for a stream.

use std::collections::BTreeMap;

use super::content::Pieces;
use crate::dialect::canonical::MAX_CHOICES;
use crate::dialect::literal::Json;
use crate::dialect::members::{MAX_MEMBERS, Members, lengthen};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Members that are read or made elsewhere.
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
/// Members of objects in deltas that come in pieces; all others come whole.
const IN_PIECES: [&str; 2] = ["data", "transcript"];

/// The members of all chunks that are not read into the canonical form.
#[derive(Debug, Default)]
pub struct UnknownMembers {
    members: Members,
    usage: Option<String>,
    choices: BTreeMap<u64, ChoiceMembers>,
}

/// The unknown members of one choice.
#[derive(Debug, Default)]
pub(super) struct ChoiceMembers {
    members: Members,
    message: Vec<(String, MessageMember)>,
    /// The lists `content` and `refusal`, which come in pieces.
    logprobs: Members,
    reason: Option<String>,
    pieces: Pieces,
}

/// A member of a message: objects grow by members, lists by elements, and everything else is replaced.
#[derive(Debug)]
enum MessageMember {
    Json(String),
    Object(Members),
}

impl UnknownMembers {
    /// Reads a chunk.
    pub fn read(&mut self, chunk: &Node<'_>) {
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.raw().to_owned());
        }
        for (key, value) in others(chunk, &OF_CHUNK) {
            self.members.set(key, value.raw());
        }
        for choice in chunk.items_at("choices").iter().take(MAX_CHOICES) {
            let index = choice.u64_at("index").unwrap_or(0);
            if self.choices.len() < MAX_CHOICES || self.choices.contains_key(&index) {
                self.choices.entry(index).or_default().read(choice);
            }
        }
    }

    /// Returns the unknown members of the choice in that position.
    pub(super) fn choice(&self, place: usize) -> Option<&ChoiceMembers> {
        self.choices.values().nth(place)
    }

    pub(super) fn usage(&self) -> Option<Json<'_>> {
        self.usage.as_deref().map(Json::checked)
    }

    /// Returns whether the service tier is among the members.
    pub(super) fn tells_tier(&self) -> bool {
        self.members.get("service_tier").is_some()
    }

    pub(super) fn put(&self, o: &mut Writer) {
        self.members.put(o);
    }
}

impl ChoiceMembers {
    fn read(&mut self, choice: &Node<'_>) {
        // Some sites put an empty reason into every chunk.
        let reason =
            choice.get("finish_reason").filter(|reason| reason.str().is_some_and(|it| !it.is_empty()));
        if let Some(reason) = reason {
            self.reason.get_or_insert_with(|| reason.raw().to_owned());
        }
        for (key, list) in choice.get("logprobs").map_or(&[][..], Node::members) {
            if list.is_array() {
                self.logprobs.lengthen(key, list);
            }
        }
        for (key, value) in others(choice, &OF_CHOICE) {
            self.members.set(key, value.raw());
        }
        let Some(piece) = self.pieces.of(choice) else { return };
        for (key, value) in others(piece, &OF_DELTA) {
            if let Some(member) = self.message_member(key) {
                member.take(value);
            }
        }
    }

    /// Returns the member of the message with that name, or adds it; `None` when there is no more room.
    fn message_member(&mut self, key: &str) -> Option<&mut MessageMember> {
        let known = self.message.iter().position(|(known, _)| known == key);
        let at = known.unwrap_or(self.message.len());
        if at == self.message.len() && at < MAX_MEMBERS {
            self.message.push((key.to_owned(), MessageMember::Json(String::new())));
        }
        self.message.get_mut(at).map(|(_, member)| member)
    }

    pub(super) fn logprobs(&self) -> Option<&Members> {
        Some(&self.logprobs).filter(|logprobs| !logprobs.is_empty())
    }

    /// Returns the finish reason in the upstream's words, which clients of this dialect may know.
    pub(super) fn reason(&self) -> Option<Json<'_>> {
        self.reason.as_deref().map(Json::checked)
    }

    pub(super) fn put_in_message(&self, o: &mut Writer) {
        for (key, message_member) in &self.message {
            match message_member {
                MessageMember::Json(value) => o.field(key, Json::checked(value)),
                MessageMember::Object(members) => o.object_at(key, |o| members.put(o)),
            }
        }
    }

    pub(super) fn put(&self, o: &mut Writer) {
        self.members.put(o);
    }
}

impl MessageMember {
    fn take(&mut self, value: &Node<'_>) {
        if value.is_object() {
            if !matches!(self, Self::Object(_)) {
                *self = Self::Object(Members::default());
            }
        } else if !(value.is_array() && matches!(self, Self::Json(_))) {
            *self = Self::Json(String::new());
        }
        match self {
            Self::Object(members) => members.merge(value, &IN_PIECES),
            Self::Json(known) if value.is_array() => lengthen(known, value),
            Self::Json(known) => value.raw().clone_into(known),
        }
    }
}

fn others<'n, 'a>(node: &'n Node<'a>, known: &'n [&str]) -> impl Iterator<Item = (&'n str, &'n Node<'a>)> {
    let members = node.members().iter().map(|(key, value)| (key.as_ref(), value));
    members.filter(move |(key, value)| !known.contains(key) && !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::canonical::{Candidate, Reply, ReplyContext};
    use crate::dialect::chat::write_reply_with;

    #[test]
    fn members_that_an_upstream_invents_are_bounded() {
        let members: Vec<_> = (0..2 * MAX_MEMBERS).map(|number| format!(r#""u{number}":1"#)).collect();
        let mut left = UnknownMembers::default();
        let chunk = format!(r#"{{"choices":[{{"delta":{{{}}}}}]}}"#, members.join(","));
        left.read(&Node::parse(&chunk).unwrap());
        assert_eq!(left.choice(0).map(|choice| choice.message.len()), Some(MAX_MEMBERS));
    }

    #[test]
    fn a_last_message_does_not_repeat_the_lists_that_came_in_pieces() {
        let mut left = UnknownMembers::default();
        for chunk in [
            r#"{"choices":[{"delta":{"content":"x","annotations":[1]}}]}"#,
            r#"{"choices":[{"message":{"content":"x","annotations":[1]},"finish_reason":"stop"}]}"#,
        ] {
            left.read(&Node::parse(chunk).unwrap());
        }
        let reply = Reply { candidates: vec![Candidate::default()], ..Reply::default() };
        let written = write_reply_with(&reply, &ReplyContext::default(), &left);
        let written = String::from_utf8_lossy(&written);
        assert!(written.contains(r#""annotations":[1]}"#), "{written}");
    }

    #[test]
    fn what_comes_in_pieces_is_put_together() {
        let mut left = UnknownMembers::default();
        for chunk in [
            r#"{"id":"c","system_fingerprint":"fp","choices":[{"index":1,"delta":{"audio":{"id":"a","data":"AA"}}}]}"#,
            r#"{"system_fingerprint":null,"choices":[{"index":1,"delta":{"audio":{"data":"BB","expires_at":5}},"logprobs":{"content":[{"token":"x"}],"refusal":null}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"annotations":[ ],"note":{"a":1}},"finish_reason":""}]}"#,
            r#"{"choices":[{"index":1,"delta":{"note":[ ]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"note":["b", "c"]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"annotations":[1]},"logprobs":{"content":[{"token":"y"}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"annotations":[2]},"finish_reason":"odd"}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":1,"cost":0.50}}"#,
        ] {
            left.read(&Node::parse(chunk).unwrap());
        }
        assert_eq!(left.choices.keys().collect::<Vec<_>>(), [&1]);
        let reply = Reply { candidates: vec![Candidate::default()], ..Reply::default() };
        let written = write_reply_with(&reply, &ReplyContext::default(), &left);
        let written = String::from_utf8_lossy(&written);
        for wanted in [
            r#""audio":{"id":"a","data":"AABB","expires_at":5},"annotations":[1,2],"note":["b","c"]}"#,
            r#""logprobs":{"content":[{"token":"x"},{"token":"y"}]},"finish_reason":"odd""#,
            r#""usage":{"prompt_tokens":1,"cost":0.50},"system_fingerprint":"fp"}"#,
        ] {
            assert!(written.contains(wanted), "{wanted} in {written}");
        }
    }
}
