//! A JSON text as a tree of slices of itself.
//!
//! For bodies that must be understood in full. Nothing is decoded while the tree is made: strings
//! stay [`Text`], numbers their spelling, objects keep the order of their members and every value
//! knows the text it came from, so that what is only passed on is copied as written. Of members
//! with the same key the last one counts, as it does for the parsers of clients and upstreams.

use std::borrow::Cow;

use super::json::{Scan, Stopped, SyntaxError};
use super::literal::{Json, Text};

/// A value and the text it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'a> {
    raw: &'a str,
    value: Value<'a>,
}

/// What kind of value it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Number,
    String,
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Reads a whole text. Fails where it stops being JSON, or nests deeper than
    /// [`MAX_DEPTH`](super::json::MAX_DEPTH).
    pub fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let mut scan = Scan::new(text);
        scan.blanks();
        let node = read(&mut scan, 0).and_then(|node| scan.end().map(|()| node));
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

    pub fn value(&self) -> &Value<'a> {
        &self.value
    }

    /// To be taken apart.
    pub fn into_value(self) -> Value<'a> {
        self.value
    }

    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    pub fn is_string(&self) -> bool {
        self.value == Value::String
    }

    pub fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    pub fn is_array(&self) -> bool {
        matches!(self.value, Value::Array(_))
    }

    /// The member called `key`, unless it is null: most clients write null for what they do not set.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.member(key).filter(|node| !node.is_null())
    }

    /// The member called `key`, null or not.
    pub fn member(&self, key: &str) -> Option<&Node<'a>> {
        match &self.value {
            Value::Object(members) => {
                members.iter().rev().find(|(name, _)| name == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// Down through objects; `None` where one is missing, null, or no object.
    pub fn path(&self, keys: &[&str]) -> Option<&Node<'a>> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The elements of an array; none for anything else.
    pub fn items(&self) -> &[Node<'a>] {
        match &self.value {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object in their order, duplicates included; none for anything else.
    pub fn members(&self) -> &[(Cow<'a, str>, Node<'a>)] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The string it is.
    pub fn text(&self) -> Option<Text<'a>> {
        self.is_string().then(|| Text::inside(&self.raw[1..self.raw.len() - 1]))
    }

    /// What the string it is says.
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
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn f64(&self) -> Option<f64> {
        (self.value == Value::Number).then(|| self.raw.parse().ok()).flatten()
    }

    /// A whole number that is not negative; a fraction is cut off.
    pub fn u64(&self) -> Option<u64> {
        if self.value != Value::Number {
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

    /// What the string at `key` says; empty when there is none.
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

fn read<'a>(scan: &mut Scan<'a>, depth: usize) -> Result<Node<'a>, Stopped> {
    let start = scan.at();
    let value = match scan.peek() {
        Some(b'{') => read_object(scan, depth + 1)?,
        Some(b'[') => read_array(scan, depth + 1)?,
        first => {
            scan.value(depth)?;
            match first {
                Some(b'"') => Value::String,
                Some(b't') => Value::Bool(true),
                Some(b'f') => Value::Bool(false),
                Some(b'n') => Value::Null,
                _ => Value::Number,
            }
        }
    };
    Ok(Node { raw: scan.since(start), value })
}

fn read_object<'a>(scan: &mut Scan<'a>, depth: usize) -> Result<Value<'a>, Stopped> {
    let mut members = Vec::new();
    scan.open(depth)?;
    if scan.skip(b'}') {
        return Ok(Value::Object(members));
    }
    loop {
        let key = scan.key()?;
        members.push((key.name(), read(scan, depth)?));
        if scan.close_or_next(b'}')? {
            return Ok(Value::Object(members));
        }
    }
}

fn read_array<'a>(scan: &mut Scan<'a>, depth: usize) -> Result<Value<'a>, Stopped> {
    let mut items = Vec::new();
    scan.open(depth)?;
    if scan.skip(b']') {
        return Ok(Value::Array(items));
    }
    loop {
        items.push(read(scan, depth)?);
        if scan.close_or_next(b']')? {
            return Ok(Value::Array(items));
        }
    }
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
