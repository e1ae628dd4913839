//! A JSON text as a tree of slices of itself.
//!
//! For bodies that must be understood. Nothing is decoded while the tree is made: strings stay
//! [`Text`], numbers their spelling, objects keep the order of their members and every value
//! knows the text it came from, so that what is only passed on is copied as written. Of members
//! with the same key the last one counts, as it does for the parsers of clients and upstreams.
//!
//! The whole text is checked at once, and the outermost object taken apart meanwhile, since everybody looks into it. A
//! container in it is only taken apart when somebody looks into that one: schemas and arguments of tools, which are most of
//! the values of many requests, are passed on as they are, and the tree takes no memory for what is in them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use super::json::{Scan, Stopped, SyntaxError};
use super::literal::{Json, Text};

/// A value and the text it was read from.
#[derive(Clone)]
pub struct Node<'a> {
    /// Valid JSON without blanks around it, so that the first byte tells what it is.
    raw: &'a str,
    held: OnceCell<Held<'a>>,
}

type Member<'a> = (Cow<'a, str>, Node<'a>);

/// What a container holds, once it has been taken apart.
#[derive(Clone)]
enum Held<'a> {
    Items(Box<[Node<'a>]>),
    Members(Box<[Member<'a>]>),
}

impl<'a> Node<'a> {
    /// Reads a whole text. Fails where it stops being JSON, or nests deeper than
    /// [`MAX_DEPTH`](super::json::MAX_DEPTH).
    pub fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let mut scan = Scan::new(text);
        scan.blanks();
        let node = read_outermost(&mut scan).and_then(|node| scan.end().map(|()| node));
        node.map_err(|Stopped| scan.error())
    }

    /// As written.
    pub fn raw(&self) -> &'a str {
        self.raw
    }

    /// As written, to be passed on.
    pub fn json(&self) -> Json<'a> {
        Json::checked(self.raw)
    }

    /// The members of an object that is taken apart; none of anything else.
    pub fn into_members(self) -> Vec<Member<'a>> {
        self.members();
        match self.held.into_inner() {
            Some(Held::Members(members)) => members.into_vec(),
            _ => Vec::new(),
        }
    }

    /// The elements of an array that is taken apart; none of anything else.
    pub fn into_items(self) -> Vec<Node<'a>> {
        self.items();
        match self.held.into_inner() {
            Some(Held::Items(items)) => items.into_vec(),
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

    /// The member called `key`, unless it is null: most clients write null for what they do not set.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.member(key).filter(|node| !node.is_null())
    }

    /// The member called `key`, null or not.
    pub fn member(&self, key: &str) -> Option<&Node<'a>> {
        self.members().iter().rev().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Down through objects; `None` where one is missing, null, or no object.
    pub fn path(&self, keys: &[&str]) -> Option<&Node<'a>> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The elements of an array; none for anything else.
    pub fn items(&self) -> &[Node<'a>] {
        match self.is_array().then(|| self.held.get_or_init(|| Held::Items(items_of(self.raw)))) {
            Some(Held::Items(items)) => items,
            _ => &[],
        }
    }

    /// The members of an object in their order, duplicates included; none for anything else.
    pub fn members(&self) -> &[Member<'a>] {
        match self.is_object().then(|| self.held.get_or_init(|| Held::Members(members_of(self.raw)))) {
            Some(Held::Members(members)) => members,
            _ => &[],
        }
    }

    /// The string it is.
    pub fn text(&self) -> Option<Text<'a>> {
        self.is_string().then(|| Text::inside(&self.raw[1..self.raw.len() - 1]))
    }

    /// The text of the string that it is.
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

    /// A whole number that is not negative; a fraction is cut off.
    pub fn u64(&self) -> Option<u64> {
        if !self.is_number() {
            return None;
        }
        let whole = self.raw.parse().ok();
        whole.or_else(|| {
            self.f64().filter(|number| *number >= 0.0 && *number < 1e18).map(|number| number as u64)
        })
    }

    // The members most often asked for by kind.

    /// The string at `key`.
    pub fn text_at(&self, key: &str) -> Option<Text<'a>> {
        self.get(key)?.text()
    }

    /// The text of the string at `key`; empty when there is none.
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

    /// The value at `key`, to be passed on.
    pub fn json_at(&self, key: &str) -> Option<Json<'a>> {
        self.get(key).map(Node::json)
    }
}

/// Values are equal that are written alike.
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

/// The value that comes next.
fn read<'a>(scan: &mut Scan<'a>, depth: usize) -> Result<Node<'a>, Stopped> {
    Ok(Node { raw: scan.literal(depth)?, held: OnceCell::new() })
}

/// The whole text's value: an object with its members, in one walk.
fn read_outermost<'a>(scan: &mut Scan<'a>) -> Result<Node<'a>, Stopped> {
    if scan.peek() != Some(b'{') {
        return read(scan, 0);
    }
    let start = scan.place();
    let members = read_members(scan)?;
    Ok(Node { raw: scan.since(start), held: OnceCell::from(Held::Members(members)) })
}

/// What has been checked with all around it cannot stop the walk: it ends where the container does.
fn members_of(object: &str) -> Box<[Member<'_>]> {
    let read = read_members(&mut Scan::new(object));
    debug_assert!(read.is_ok(), "an object");
    read.unwrap_or_default()
}

/// The members of the object that comes next. The list is as long as it needs to be, since a tree has many short ones.
fn read_members<'a>(scan: &mut Scan<'a>) -> Result<Box<[Member<'a>]>, Stopped> {
    let mut members = Vec::new();
    scan.object(1, |scan, key, depth| {
        members.push((key.name(), read(scan, depth)?));
        Ok(())
    })?;
    Ok(members.into_boxed_slice())
}

fn items_of(array: &str) -> Box<[Node<'_>]> {
    let mut items = Vec::new();
    let walked = Scan::new(array).array(1, |scan, depth| {
        items.push(read(scan, depth)?);
        Ok(())
    });
    debug_assert!(walked.is_ok(), "an array");
    items.into_boxed_slice()
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

    proptest! {
        #[test]
        fn what_a_full_parser_reads_is_read_alike(text in "[ \\[\\]{}\",:\\\\a0-9.eE+u\\-tnrulfs]{0,40}") {
            let full: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(&text);
            prop_assert_eq!(Node::parse(&text).is_ok(), full.is_ok(), "{}", text);
        }
    }
}
