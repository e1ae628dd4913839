//! A JSON text as a tree of slices of itself.
//!
//! For bodies that must be understood. Nothing is decoded while the tree is made: strings stay [`Text`], numbers keep
//! their spelling, objects the order of their members, and every value knows the text it came from, so that a value
//! that is only passed on is copied as written. The last of several members with the same key counts, as it does for
//! the parsers of clients and upstreams.
//!
//! The whole text is checked at once, and its outermost object taken apart meanwhile, since it is always looked into. A
//! container in it is only taken apart when it is looked into: schemas and arguments of tools, which are most of the
//! values of many requests, are passed on as they are, and the tree takes no memory for their contents. A short text,
//! such as an event of a stream, is taken apart entirely in one walk: another one through a container in a container
//! would cost more than it saves. So is what is looked into at every level ([`Node::unfolded`]): level by level, the
//! innermost text would be walked through as often as it is deep.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Range;

use super::json::{Scan, Stopped, SyntaxError};
use super::literal::{Json, Text};
use crate::subslice::place_in;

/// A value and the text it was read from.
#[derive(Clone)]
pub struct Node<'a> {
    /// Valid JSON without blanks around it, so that the first byte tells its kind.
    raw: &'a str,
    held: OnceCell<Held<'a>>,
}

type Member<'a> = (Cow<'a, str>, Node<'a>);

/// The longest text that is taken apart entirely at once, in bytes.
const SHORT: usize = 1024;
/// The number of members that most objects of short texts do not exceed.
const USUAL_MEMBERS: usize = 8;

/// The contents of a container that has been taken apart.
#[derive(Clone)]
enum Held<'a> {
    Items(Vec<Node<'a>>),
    Members(Vec<Member<'a>>),
}

impl<'a> Node<'a> {
    /// Reads a whole text. Fails where it is not JSON, or nests deeper than [`MAX_DEPTH`](super::json::MAX_DEPTH).
    pub fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let mut scan = Scan::new(text);
        scan.blanks();
        let depth = if text.len() <= SHORT { Depth::All } else { Depth::Outermost };
        let node = read(&mut scan, 0, depth).and_then(|node| scan.end().map(|()| node));
        node.map_err(|Stopped| scan.error())
    }

    /// Returns the value with the containers of all its levels taken apart, except the values of members with these names:
    /// for who walks through all the others.
    pub fn unfolded(&self, except: &'static [&'static str]) -> Self {
        read(&mut Scan::new(self.raw), 0, Depth::Unfolded { except }).unwrap_or_else(|_| self.clone())
    }

    /// Returns the value as written.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// Returns the range of the value in the text that it was read from, in bytes; `None` in any other text.
    pub fn place_in(&self, text: &str) -> Option<Range<usize>> {
        place_in(self.raw, text)
    }

    /// Returns the value as written, to be passed on.
    pub fn json(&self) -> Json<'a> {
        Json::checked(self.raw)
    }

    /// Takes an object apart into its members; none for anything else.
    pub fn into_members(self) -> Vec<Member<'a>> {
        self.members();
        match self.held.into_inner() {
            Some(Held::Members(members)) => members,
            _ => Vec::new(),
        }
    }

    /// Takes an array apart into its elements; none for anything else.
    pub fn into_items(self) -> Vec<Node<'a>> {
        self.items();
        match self.held.into_inner() {
            Some(Held::Items(items)) => items,
            _ => Vec::new(),
        }
    }

    pub fn is_null(&self) -> bool {
        self.begins_with(b'n')
    }

    pub fn is_string(&self) -> bool {
        self.begins_with(b'"')
    }

    pub fn is_number(&self) -> bool {
        matches!(self.raw.as_bytes().first(), Some(b'-' | b'0'..=b'9'))
    }

    pub fn is_object(&self) -> bool {
        self.begins_with(b'{')
    }

    pub fn is_array(&self) -> bool {
        self.begins_with(b'[')
    }

    fn begins_with(&self, byte: u8) -> bool {
        self.raw.as_bytes().first() == Some(&byte)
    }

    /// Returns the member called `key`, unless it is null: most clients write null for what they do not set.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.member(key).filter(|node| !node.is_null())
    }

    /// Returns the member called `key`, null or not.
    pub fn member(&self, key: &str) -> Option<&Node<'a>> {
        self.members().iter().rev().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Descends through objects by these keys; `None` where a member is missing or null, or a value is not an object.
    pub fn path(&self, keys: &[&str]) -> Option<&Node<'a>> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Returns the elements of an array; none for anything else.
    pub fn items(&self) -> &[Node<'a>] {
        match self.is_array().then(|| self.held.get_or_init(|| Held::Items(items_of(self.raw)))) {
            Some(Held::Items(items)) => items,
            _ => &[],
        }
    }

    /// Returns the members of an object in their order, duplicates included; none for anything else.
    pub fn members(&self) -> &[Member<'a>] {
        match self.is_object().then(|| self.held.get_or_init(|| Held::Members(members_of(self.raw)))) {
            Some(Held::Members(members)) => members,
            _ => &[],
        }
    }

    /// Returns the literal of a string.
    pub fn text(&self) -> Option<Text<'a>> {
        self.is_string().then(|| Text::inside(&self.raw[1..self.raw.len() - 1]))
    }

    /// Returns the decoded text of a string.
    pub fn str(&self) -> Option<Cow<'a, str>> {
        if !self.is_string() {
            return None;
        }
        let inside = &self.raw[1..self.raw.len() - 1];
        if inside.contains('\\') {
            Some(Cow::Owned(Text::inside(inside).decode().into_owned()))
        } else {
            Some(Cow::Borrowed(inside))
        }
    }

    pub fn bool(&self) -> Option<bool> {
        match self.raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    pub fn f64(&self) -> Option<f64> {
        self.is_number().then(|| self.raw.parse().ok()).flatten()
    }

    /// Returns a non-negative number as an integer; a fraction is cut off.
    pub fn u64(&self) -> Option<u64> {
        if !self.is_number() {
            return None;
        }
        let whole = self.raw.parse().ok();
        whole.or_else(|| {
            self.f64().filter(|number| *number >= 0.0 && *number < 1e18).map(|number| number as u64)
        })
    }

    // The members most often asked for, by kind.

    /// Returns the literal of the string at `key`.
    pub fn text_at(&self, key: &str) -> Option<Text<'a>> {
        self.get(key)?.text()
    }

    /// Returns the decoded text of the string at `key`; empty when there is none.
    pub fn str_at(&self, key: &str) -> Cow<'a, str> {
        self.get(key).and_then(Node::str).unwrap_or_default()
    }

    pub fn u64_at(&self, key: &str) -> Option<u64> {
        self.get(key)?.u64()
    }

    pub fn bool_at(&self, key: &str) -> Option<bool> {
        self.get(key)?.bool()
    }

    pub fn items_at(&self, key: &str) -> &[Node<'a>] {
        self.get(key).map_or(&[], Node::items)
    }

    /// Returns the value at `key`, to be passed on.
    pub fn json_at(&self, key: &str) -> Option<Json<'a>> {
        self.get(key).map(Node::json)
    }
}

/// Values are equal if they are written alike.
impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw)
    }
}

/// The levels of a value that are taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    None,
    Outermost,
    /// All levels of a short text.
    All,
    /// All levels of a text of any length, except the values of members with these names. Lists are shrunk to their lengths.
    Unfolded {
        except: &'static [&'static str],
    },
}

impl Depth {
    /// Returns the depth for the values in a container that is taken apart to this depth.
    fn inside(self) -> Self {
        if self.is_everything() { self } else { Self::None }
    }

    fn is_everything(self) -> bool {
        matches!(self, Self::All | Self::Unfolded { .. })
    }
}

/// Reads the value that comes next, `level` containers deep.
fn read<'a>(scan: &mut Scan<'a>, level: usize, depth: Depth) -> Result<Node<'a>, Stopped> {
    let start = scan.place();
    let held = match scan.peek() {
        Some(b'{') if depth != Depth::None => {
            OnceCell::from(Held::Members(read_members(scan, level + 1, depth)?))
        }
        Some(b'[') if depth.is_everything() => {
            OnceCell::from(Held::Items(read_items(scan, level + 1, depth)?))
        }
        _ => {
            scan.value(level)?;
            OnceCell::new()
        }
    };
    Ok(Node { raw: scan.since(start), held })
}

/// Reads the members of an object that has been checked already, so that the walk cannot fail.
fn members_of(object: &str) -> Vec<Member<'_>> {
    let read = read_members(&mut Scan::new(object), 1, Depth::None);
    debug_assert!(read.is_ok(), "an object");
    read.unwrap_or_default()
}

/// Reads the members of the object that comes next. In the tree of a long text, which has many short lists, the list is
/// shrunk to its length.
fn read_members<'a>(scan: &mut Scan<'a>, level: usize, depth: Depth) -> Result<Vec<Member<'a>>, Stopped> {
    let is_short = depth == Depth::All;
    let mut members = if is_short && level == 1 { Vec::with_capacity(USUAL_MEMBERS) } else { Vec::new() };
    scan.object(level, |scan, key, level| {
        let name = key.name();
        let inside = match depth {
            Depth::Unfolded { except } if except.contains(&name.as_ref()) => Depth::None,
            depth => depth.inside(),
        };
        members.push((name, read(scan, level, inside)?));
        Ok(())
    })?;
    if !is_short {
        members.shrink_to_fit();
    }
    Ok(members)
}

fn items_of(array: &str) -> Vec<Node<'_>> {
    let read = read_items(&mut Scan::new(array), 1, Depth::None);
    debug_assert!(read.is_ok(), "an array");
    read.unwrap_or_default()
}

fn read_items<'a>(scan: &mut Scan<'a>, level: usize, depth: Depth) -> Result<Vec<Node<'a>>, Stopped> {
    let mut items = Vec::new();
    scan.array(level, |scan, level| {
        items.push(read(scan, level, depth.inside())?);
        Ok(())
    })?;
    if depth != Depth::All {
        items.shrink_to_fit();
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_as_written() {
        let text = " {\"a\":[1.50, -0, \"x\\ud800\"],\"b\":{\"n\":null,\"t\":true},\"b2\":1,\"b2\":2e3 }";
        let node = Node::parse(text).unwrap();
        let items = node.items_at("a");
        assert_eq!(items[0].raw(), "1.50");
        assert_eq!(items[1].u64(), Some(0));
        assert_eq!(items[2].text().unwrap().literal(), "x\\ud800");
        assert_eq!(node.path(&["b", "t"]).and_then(Node::bool), Some(true));
        assert_eq!(node.path(&["b", "n"]), None);
        assert!(node.get("b").unwrap().member("n").unwrap().is_null());
        assert_eq!(node.u64_at("b2"), Some(2000));
        assert_eq!(node.get("b").unwrap().raw(), "{\"n\":null,\"t\":true}");
    }

    /// Describes the contents of a value, container by container.
    fn found(node: &Node<'_>) -> String {
        let members = node.members().iter().map(|(key, value)| format!("{key}={}", found(value)));
        let items = node.items().iter().map(found);
        format!("{}<{}>", node.raw(), members.chain(items).collect::<Vec<_>>().join(";"))
    }

    #[test]
    fn a_text_is_read_alike_at_once_and_by_and_by() {
        let text = r#"{"a":[1,[{"b":null,"c":{}},[]]],"a":{"d":["e",{"f":[true]}]},"g":"h"}"#;
        let long = format!("{text}{}", " ".repeat(SHORT));
        let [at_once, by_and_by] = [text, &long].map(|text| found(&Node::parse(text).unwrap()));
        assert_eq!(at_once, by_and_by);
        assert_eq!(found(&Node::parse(&long).unwrap().unfolded(&["a"])), at_once);
        assert!(Node::parse(&"[".repeat(SHORT)).is_err());
    }

    proptest! {
        #[test]
        fn what_a_full_parser_reads_is_read_alike(text in "[ \\[\\]{}\",:\\\\a0-9.eE+u\\-tnrulfs]{0,40}") {
            let full: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(&text);
            prop_assert_eq!(Node::parse(&text).is_ok(), full.is_ok(), "{}", text);
        }
    }
}
