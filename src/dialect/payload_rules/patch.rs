//! A JSON body in which some paths are set or deleted. Anything that no path leads through stays as it was written,
//! spelling of numbers and order of members included.

use std::borrow::Cow;

use super::{is_index, segments};
use crate::dialect::tree::Node;

/// The path to one value.
pub(super) struct Path(Vec<Segment>);

enum Segment {
    Member(String),
    Index(usize),
}

impl Path {
    /// Reads a path of a rule that has been validated.
    pub(super) fn new(text: &str) -> Self {
        let segment = |segment: &str| match segment.parse() {
            Ok(index) if is_index(segment) => Segment::Index(index),
            _ => Segment::Member(segment.to_owned()),
        };
        Self(segments(text).map(segment).collect())
    }
}

/// A value, taken apart as far as paths lead.
pub(super) enum Tree<'a> {
    Null,
    /// A value as it was written.
    Whole(Node<'a>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
    Array(Vec<Tree<'a>>),
}

impl<'a> Tree<'a> {
    /// Whether there is a value at `path`, null included.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.has_all(&path.0)
    }

    /// Puts `value` at `path`; returns whether it did. Missing containers are made, a scalar in the way is replaced; an
    /// object where the path wants an array, or the other way round, leaves everything as it was.
    pub(super) fn set(&mut self, path: &'a Path, value: Tree<'a>) -> bool {
        self.set_all(&path.0, value)
    }

    /// Deletes the value at `path`; false when there is none.
    pub(super) fn delete(&mut self, path: &Path) -> bool {
        self.has(path) && self.delete_all(&path.0)
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Whole(node) => out.push_str(node.raw()),
            Self::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(&serde_json::Value::from(key.as_ref()).to_string());
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
        }
    }

    fn has_all(&self, path: &[Segment]) -> bool {
        let Some((first, rest)) = path.split_first() else { return true };
        match (self, first) {
            (Self::Whole(node), _) => has_node(node, path),
            (Self::Object(members), Segment::Member(name)) => members
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .is_some_and(|(_, value)| value.has_all(rest)),
            (Self::Array(items), Segment::Index(at)) => items.get(*at).is_some_and(|item| item.has_all(rest)),
            _ => false,
        }
    }

    fn set_all(&mut self, path: &'a [Segment], value: Tree<'a>) -> bool {
        let Some((first, rest)) = path.split_first() else {
            *self = value;
            return true;
        };
        self.open();
        if matches!(self, Self::Null | Self::Whole(_)) {
            *self = match first {
                Segment::Member(_) => Self::Object(Vec::new()),
                Segment::Index(_) => Self::Array(Vec::new()),
            };
        }
        match (self, first) {
            (Self::Object(members), Segment::Member(name)) => {
                match members.iter_mut().rev().find(|(key, _)| key == name) {
                    Some((_, held)) => held.set_all(rest, value),
                    None => {
                        let mut made = Self::Null;
                        made.set_all(rest, value);
                        members.push((Cow::Borrowed(name), made));
                        true
                    }
                }
            }
            (Self::Array(items), Segment::Index(at)) => {
                while items.len() <= *at {
                    items.push(Self::Null);
                }
                items[*at].set_all(rest, value)
            }
            _ => false,
        }
    }

    fn delete_all(&mut self, path: &[Segment]) -> bool {
        self.open();
        match (self, path) {
            (Self::Object(members), [Segment::Member(name)]) => members.retain(|(key, _)| key != name),
            (Self::Array(items), [Segment::Index(at)]) if *at < items.len() => drop(items.remove(*at)),
            (Self::Object(members), [Segment::Member(name), rest @ ..]) => {
                let held = members.iter_mut().rev().find(|(key, _)| key == name);
                return held.is_some_and(|(_, held)| held.delete_all(rest));
            }
            (Self::Array(items), [Segment::Index(at), rest @ ..]) => {
                return items.get_mut(*at).is_some_and(|held| held.delete_all(rest));
            }
            _ => return false,
        }
        true
    }

    /// Takes a container apart, one level deep.
    fn open(&mut self) {
        let opened = match std::mem::replace(self, Self::Null) {
            Self::Whole(node) if node.is_object() => {
                let members = node.into_members().into_iter();
                Self::Object(members.map(|(key, value)| (key, Self::Whole(value))).collect())
            }
            Self::Whole(node) if node.is_array() => {
                Self::Array(node.into_items().into_iter().map(Self::Whole).collect())
            }
            other => other,
        };
        *self = opened;
    }
}

fn has_node(node: &Node<'_>, path: &[Segment]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match first {
        Segment::Member(name) => node.member(name).is_some_and(|held| has_node(held, rest)),
        Segment::Index(at) => node.items().get(*at).is_some_and(|held| has_node(held, rest)),
    }
}
