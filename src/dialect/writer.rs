//! Writes JSON from left to right.
//!
//! ```
//! use switchyard::dialect::writer::Writer;
//!
//! let mut json = Writer::new();
//! json.object(|o| {
//!     o.field("model", "m");
//!     o.array("stop", |a| a.item("\n"));
//! });
//! assert_eq!(json.into_string(), r#"{"model":"m","stop":["\n"]}"#);
//! ```

use std::fmt::Write as _;

use bytes::Bytes;

use super::literal::{Json, Text};

/// A JSON text that is being written. Commas are added automatically.
#[derive(Debug, Default)]
pub struct Writer {
    out: String,
    /// Whether a value stands before, so that another needs a comma.
    comma: bool,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a writer with room for about `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { out: String::with_capacity(capacity), comma: false }
    }

    /// Writes an object as the next value: the whole text, or an element of the array being written.
    pub fn object(&mut self, inside: impl FnOnce(&mut Self)) {
        self.separate();
        self.enclosed('{', inside, '}');
    }

    /// Writes a value as the next value.
    pub fn item(&mut self, value: impl Put) {
        self.separate();
        value.put(&mut self.out);
        self.comma = true;
    }

    /// Writes a member of the object being written.
    pub fn field(&mut self, key: &str, value: impl Put) {
        self.key(key);
        value.put(&mut self.out);
        self.comma = true;
    }

    /// Writes a member, when there is a value for it.
    pub fn field_if(&mut self, key: &str, value: Option<impl Put>) {
        if let Some(value) = value {
            self.field(key, value);
        }
    }

    /// Writes a member that is an object.
    pub fn object_at(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        self.key(key);
        self.enclosed('{', inside, '}');
    }

    /// Writes a member that is an array.
    pub fn array(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        self.key(key);
        self.enclosed('[', inside, ']');
    }

    /// Writes a member whose value, of any kind, `inside` writes.
    pub fn value_at(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        self.key(key);
        self.comma = false;
        inside(self);
        self.comma = true;
    }

    /// Writes an array as the next value.
    pub fn list(&mut self, inside: impl FnOnce(&mut Self)) {
        self.separate();
        self.enclosed('[', inside, ']');
    }

    /// Writes a member that is a string joined from pieces of literals.
    pub fn joined(&mut self, key: &str, pieces: &[&str]) {
        self.key(key);
        self.out.push('"');
        for piece in pieces {
            self.out.push_str(piece);
        }
        self.out.push('"');
        self.comma = true;
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    pub fn as_str(&self) -> &str {
        &self.out
    }

    pub fn into_string(self) -> String {
        self.out
    }

    pub fn into_bytes(self) -> Bytes {
        Bytes::from(self.out)
    }

    fn separate(&mut self) {
        if self.comma {
            self.out.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        key.put(&mut self.out);
        self.out.push(':');
    }

    fn enclosed(&mut self, open: char, inside: impl FnOnce(&mut Self), close: char) {
        self.out.push(open);
        self.comma = false;
        inside(self);
        self.out.push(close);
        self.comma = true;
    }
}

/// Appends an object to a text.
pub fn append_object(out: &mut String, members: impl FnOnce(&mut Writer)) {
    let mut json = Writer { out: std::mem::take(out), comma: false };
    json.object(members);
    *out = json.out;
}

/// The bytes that need no escape in a string.
const IS_PLAIN: [bool; 256] = {
    let (mut table, mut byte) = ([true; 256], 0);
    while byte < 256 {
        table[byte] = byte >= 0x20 && byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    table
};

/// A value that can be written as JSON.
pub trait Put {
    fn put(&self, out: &mut String);
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, out: &mut String) {
        (**self).put(out);
    }
}

/// Writes a plain string, escaped where necessary.
impl Put for str {
    fn put(&self, out: &mut String) {
        out.push('"');
        if self.bytes().all(|byte| IS_PLAIN[usize::from(byte)]) {
            out.push_str(self);
        } else {
            out.push_str(Text::of(self).literal());
        }
        out.push('"');
    }
}

impl Put for String {
    fn put(&self, out: &mut String) {
        self.as_str().put(out);
    }
}

impl Put for std::borrow::Cow<'_, str> {
    fn put(&self, out: &mut String) {
        (**self).put(out);
    }
}

impl Put for Text<'_> {
    fn put(&self, out: &mut String) {
        out.push('"');
        out.push_str(self.literal());
        out.push('"');
    }
}

impl Put for Json<'_> {
    fn put(&self, out: &mut String) {
        out.push_str(self.as_str());
    }
}

impl Put for serde_json::Value {
    fn put(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

impl Put for bool {
    fn put(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl Put for u64 {
    fn put(&self, out: &mut String) {
        // Writing into a `String` does not fail.
        let _ = write!(out, "{self}");
    }
}

impl Put for i64 {
    fn put(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
}

/// Writes `null`.
impl Put for () {
    fn put(&self, out: &mut String) {
        out.push_str("null");
    }
}

/// Writes the value, or `null`.
impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut String) {
        match self {
            Some(value) => value.put(out),
            None => ().put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_written() {
        let mut json = Writer::new();
        json.object(|o| {
            o.field("s", "a\"\u{1}é");
            o.field("t", Text::of("\n"));
            o.field("n", 5u64);
            o.field("none", None::<bool>);
            o.field_if("left out", None::<bool>);
            o.object_at("o", |o| o.field("b", true));
            o.array("a", |a| {
                a.item(());
                a.object(|_| {});
                a.list(|a| a.item(-1i64));
            });
            o.joined("j", &["data:", "x"]);
        });
        let wanted =
            r#"{"s":"a\"\u0001é","t":"\n","n":5,"none":null,"o":{"b":true},"a":[null,{},[-1]],"j":"data:x"}"#;
        assert_eq!(json.as_str(), wanted);
    }
}
