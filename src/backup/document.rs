//! A document too large for a tree in memory: it is written canonically, but with its own numbers, into an unnamed
//! file, with a table of the position of each of its parts.
//!
//! ```text
//! {"accounts":{"sites":[{…},{…}],…},…} ──▶ file: {…}⏎{…}⏎…      table: accounts.sites ─▶ 0..120
//! ```
//!
//! Objects that hold sections are split into their members, arrays in them into their elements, so that only
//! one element is in memory. An element has at most [`MAX_ELEMENT`] bytes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use ring::digest::{Context, SHA256};
use serde::Serialize;
use serde::de::{self, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{canonical, scratch};
use crate::byte_order_mark;
use crate::hex;
use crate::idle_thread::yield_thread;

/// The mark of our own documents.
pub(super) const FORMAT: &str = "switchyard";
/// The maximum size in bytes of an array element, or of a value outside an array: a row with a large text in
/// it.
const MAX_ELEMENT: u64 = 4 << 20;
/// The maximum number of members of all split objects together.
const MAX_MEMBERS: usize = 10_000;
/// The objects that are split, however they are nested.
const CONTAINERS: &[&str] = &["data", "accounts", "preferences", "apiCredentialProfiles"];
/// The maximum nesting depth of split objects.
const MAX_DEPTH: usize = 4;
/// The number of bytes read from a file at a time.
const RUN: usize = 64 << 10;

/// A complete document. Paths name members from the root down: `&["accounts", "sites"]`.
pub struct Document {
    file: File,
    root: Node,
}

/// The elements of an array, one per line.
#[derive(Default)]
struct Rows {
    runs: Vec<Extent>,
    count: u64,
}

#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    end: u64,
}

/// How numbers are written in the text that a checksum covers.
#[derive(Clone, Copy)]
enum Numbers {
    Canonical,
    /// As they stand in the document: scripts write `12.0` or `3e-05`.
    AsTheyStand,
}

enum Node {
    Object(BTreeMap<String, Node>),
    Array(Rows),
    Value(Extent),
}

// === impl Document ===

impl Document {
    /// Reads a document once, from beginning to end. The file is created in `dir`.
    ///
    /// # Errors
    /// `InvalidData` when it is not a JSON object, with what is wrong with it; otherwise the error of the disk.
    pub fn read(source: impl Read, dir: &Path) -> io::Result<Self> {
        let mut file = scratch::file(dir)?;
        let meter = Meter { read: Rc::default(), most: Rc::default() };
        meter.begin_element();
        let metered = Metered { inner: source, meter: meter.clone() };
        let mut parts =
            Parts { out: BufWriter::new(&mut file), written: 0, meter, members: 0, failure: None };
        let mut text = BufReader::with_capacity(RUN, metered);
        if text.fill_buf()?.starts_with(byte_order_mark::BYTES) {
            text.consume(byte_order_mark::BYTES.len());
        }
        let mut json = serde_json::Deserializer::from_reader(text);
        let read = NextPart { parts: &mut parts, depth: Some(0) }.deserialize(&mut json);
        let read = read.and_then(|root| json.end().map(|()| root));
        let failure = parts.failure.take();
        let root = match (read, failure) {
            (_, Some(failure)) => return Err(failure),
            (Err(error), _) => return Err(unreadable(error)),
            (Ok(root), _) => root,
        };
        parts.out.flush()?;
        drop(parts);
        match root {
            Node::Object(_) => Ok(Self { file, root }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "The document is not a JSON object")),
        }
    }

    /// Returns the document in a member of this one, when that member is an object.
    pub fn within(self, member: &str) -> Option<Self> {
        let Node::Object(mut members) = self.root else { return None };
        match members.remove(member)? {
            root @ Node::Object(_) => Some(Self { file: self.file, root }),
            _ => None,
        }
    }

    /// Whether this gateway wrote the document. A script that writes a document anew may leave its mark out; no other
    /// program's document has a checksum.
    pub fn is_own(&self) -> bool {
        self.value(&["format"]).is_some_and(|format| format == FORMAT) || self.has(&["checksum"])
    }

    /// Whether there is such a member, of any type.
    pub fn has(&self, path: &[&str]) -> bool {
        self.node(path).is_some()
    }

    /// Whether a member is an array whose elements [`Self::rows`] returns.
    pub fn is_array(&self, path: &[&str]) -> bool {
        matches!(self.node(path), Some(Node::Array(_)))
    }

    /// Returns the names of the members of a split object.
    pub fn members(&self, path: &[&str]) -> Vec<&str> {
        match self.node(path) {
            Some(Node::Object(members)) => members.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a member that is neither an array nor a split object.
    pub fn value(&self, path: &[&str]) -> Option<Value> {
        let Some(Node::Value(extent)) = self.node(path) else { return None };
        let mut text = Vec::new();
        self.reader(*extent).read_to_end(&mut text).ok()?;
        parsed(&text).ok()
    }

    /// Returns the elements of an array in order; none when there is no array.
    pub fn rows(&self, path: &[&str]) -> impl Iterator<Item = io::Result<Value>> {
        let runs: &[Extent] = match self.node(path) {
            Some(Node::Array(rows)) => &rows.runs,
            _ => &[],
        };
        runs.iter().flat_map(|run| {
            let mut lines = self.reader(*run);
            let mut line = Vec::new();
            std::iter::from_fn(move || {
                line.clear();
                yield_thread();
                match lines.read_until(b'\n', &mut line) {
                    Ok(0) => None,
                    Ok(_) => Some(parsed(&line)),
                    Err(error) => Some(Err(error)),
                }
            })
        })
    }

    /// Returns the number of elements of an array; 0 when there is none.
    pub fn count(&self, path: &[&str]) -> u64 {
        match self.node(path) {
            Some(Node::Array(rows)) => rows.count,
            _ => 0,
        }
    }

    /// Whether `checksum` is that of the document without its member `checksum`: `sha256:` and the digest of the canonical
    /// text, in 64 hex digits.
    pub fn has_checksum(&self, checksum: &str) -> io::Result<bool> {
        // The first needs no parsing, and is enough for our own documents.
        for numbers in [Numbers::AsTheyStand, Numbers::Canonical] {
            let mut digest = Digest::default();
            self.digest(&self.root, true, numbers, &mut digest)?;
            if digest.finish() == checksum {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn digest(&self, node: &Node, is_root: bool, numbers: Numbers, digest: &mut Digest) -> io::Result<()> {
        let put = |text: &[u8], digest: &mut Digest| match numbers {
            Numbers::AsTheyStand => digest.write_all(text),
            Numbers::Canonical => canonical::write(&mut serde_json::from_slice(text)?, digest),
        };
        match node {
            Node::Object(members) => {
                digest.write_all(b"{")?;
                let counted = members.iter().filter(|(name, _)| !is_root || name.as_str() != "checksum");
                for (index, (name, member)) in counted.enumerate() {
                    digest.write_all(if index == 0 { b"" } else { b"," })?;
                    serde_json::to_writer(&mut *digest, name)?;
                    digest.write_all(b":")?;
                    self.digest(member, false, numbers, digest)?;
                }
                digest.write_all(b"}")
            }
            Node::Array(rows) => {
                digest.write_all(b"[")?;
                let mut is_first = true;
                for run in &rows.runs {
                    let mut lines = self.reader(*run);
                    let mut line = Vec::new();
                    while lines.read_until(b'\n', &mut line)? > 0 {
                        digest.write_all(if is_first { b"" } else { b"," })?;
                        put(line.trim_ascii_end(), digest)?;
                        line.clear();
                        is_first = false;
                        yield_thread();
                    }
                }
                digest.write_all(b"]")
            }
            Node::Value(extent) => {
                let mut text = Vec::new();
                self.reader(*extent).read_to_end(&mut text)?;
                put(&text, digest)
            }
        }
    }

    fn node(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, name| match node {
            Node::Object(members) => members.get(*name),
            Node::Array(_) | Node::Value(_) => None,
        })
    }

    fn reader(&self, extent: Extent) -> BufReader<Slice<'_>> {
        BufReader::with_capacity(RUN, Slice { file: &self.file, at: extent.start, end: extent.end })
    }
}

/// Reads a part of the file.
fn parsed(text: &[u8]) -> io::Result<Value> {
    let mut value = serde_json::from_slice(text)?;
    canonical::settle(&mut value);
    Ok(value)
}

fn unreadable(error: serde_json::Error) -> io::Error {
    match error.io_error_kind() {
        Some(kind) => io::Error::new(kind, error.to_string()),
        None => io::Error::new(
            io::ErrorKind::InvalidData,
            format!("The document cannot be read as JSON: {error}"),
        ),
    }
}

// === Reading ===

/// The state of reading a document: where its parts are written.
struct Parts<'f> {
    out: BufWriter<&'f mut File>,
    written: u64,
    meter: Meter,
    members: usize,
    /// The error of the disk. The parser's error only says that there was one.
    failure: Option<io::Error>,
}

/// The next part to read; an object is split if `depth` is set.
struct NextPart<'p, 'f> {
    parts: &'p mut Parts<'f>,
    depth: Option<usize>,
}

impl Parts<'_> {
    fn put<E: de::Error>(&mut self, json: &RawValue, end: &[u8]) -> Result<(), E> {
        yield_thread();
        // A raw value is only known to have the form of JSON.
        serde_json::from_str::<Value>(json.get()).map_err(E::custom)?;
        let mut counted = Counted { out: &mut self.out, count: 0 };
        let written = canonical::write_with_numbers_kept(json, &mut counted);
        let written = written.and_then(|()| counted.write_all(end));
        self.written += counted.count;
        self.meter.begin_element();
        written.map_err(|error| self.fail(error))
    }

    /// Writes a value and returns its position.
    fn value<E: de::Error>(&mut self, value: impl Serialize) -> Result<Node, E> {
        let start = self.written;
        self.put(&to_raw_value(&value).map_err(E::custom)?, b"")?;
        Ok(Node::Value(Extent { start, end: self.written }))
    }

    fn fail<E: de::Error>(&mut self, error: io::Error) -> E {
        let message = error.to_string();
        self.failure = Some(error);
        E::custom(message)
    }
}

impl<'de> DeserializeSeed<'de> for NextPart<'_, '_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NextPart<'_, '_> {
    type Value = Node;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let Some(depth) = self.depth else {
            let mut members = BTreeMap::new();
            while let Some((name, member)) = map.next_entry::<String, Box<RawValue>>()? {
                members.insert(name, member);
            }
            return self.parts.value(members);
        };
        let mut members = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            self.parts.members += 1;
            if self.parts.members > MAX_MEMBERS {
                return Err(A::Error::custom(format!("more than {MAX_MEMBERS} members")));
            }
            let is_container = depth < MAX_DEPTH && CONTAINERS.contains(&name.as_str());
            let depth = is_container.then_some(depth + 1);
            let member = map.next_value_seed(NextPart { parts: &mut *self.parts, depth })?;
            members.insert(name, member);
        }
        Ok(Node::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let (start, mut count) = (self.parts.written, 0);
        while let Some(element) = sequence.next_element::<Box<RawValue>>()? {
            self.parts.put(&element, b"\n")?;
            count += 1;
        }
        let run = (count > 0).then_some(Extent { start, end: self.parts.written });
        Ok(Node::Array(Rows { runs: run.into_iter().collect(), count }))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        self.parts.value(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        self.parts.value(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        self.parts.value(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        self.parts.value(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.parts.value(value)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        self.parts.value(())
    }
}

/// How far a document has been read, and how far it may be read before the current element must end.
#[derive(Clone)]
struct Meter {
    read: Rc<Cell<u64>>,
    most: Rc<Cell<u64>>,
}

impl Meter {
    fn begin_element(&self) {
        // The parser's buffer may already hold later elements.
        self.most.set(self.read.get() + MAX_ELEMENT);
    }
}

struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.read.get() >= self.meter.most.get() {
            let message = format!("A row of the document is longer than {} MiB", MAX_ELEMENT >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let count = self.inner.read(buffer)?;
        self.meter.read.set(self.meter.read.get() + count as u64);
        Ok(count)
    }
}

struct Counted<W> {
    out: W,
    count: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A part of a file, read without moving the file's position for others.
struct Slice<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Slice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..room], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// A writer that computes the digest of what is written to it.
pub(super) struct Digest(Context);

impl Default for Digest {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Digest {
    pub(super) fn finish(self) -> String {
        format!("sha256:{}", hex::encode(self.0.finish().as_ref()))
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<Document> {
        Document::read(text.as_bytes(), &std::env::temp_dir())
    }

    #[test]
    fn a_document_has_one_checksum_however_it_is_written() {
        let plain = r#"{"accounts":{"sites":[{"id":1,"weight":1}],"tokens":[]},"n":null,"timestamp":5}"#;
        let pretty = "{\"timestamp\": 5, \"checksum\": \"x\",\n \"n\": null, \"accounts\": {\"tokens\": [ ],\n \"sites\": \
             [ {\"weight\": 1.0,\n \"id\": 1} ] } }";
        let mut digest = Digest::default();
        digest.write_all(plain.as_bytes()).expect("a digest takes anything");
        let expected = digest.finish();
        let fits =
            |text: &str, checksum: &str| read(text).expect(text).has_checksum(checksum).expect("a digest");
        for text in [plain, pretty] {
            assert!(fits(text, &expected), "{text}");
        }
        assert!(!fits(&plain.replace('5', "6"), &expected));
    }

    #[test]
    fn a_checksum_may_cover_numbers_as_they_are_written() {
        let text = r#"{"accounts":{"a":[{"cost":12.0,"id":1},3e-05]},"n":{"x":1E2},"timestamp":5}"#;
        let mut digest = Digest::default();
        digest.write_all(text.as_bytes()).expect("a digest takes anything");
        let checksum = digest.finish();
        let spaced = text.replace(":{", ": {").replace(",", " , ").replace("\"id\":1", "\"id\" :1");
        for text in [text, &spaced] {
            let document = read(text).expect(text);
            assert!(document.has_checksum(&checksum).expect("a digest"), "{text}");
            let rows: Vec<Value> = document.rows(&["accounts", "a"]).map(|row| row.expect("a row")).collect();
            assert_eq!(rows, [serde_json::json!({"cost": 12, "id": 1}), serde_json::json!(0.00003)]);
        }
        let other = read(&text.replace("12.0", "12.5")).expect("JSON");
        assert!(!other.has_checksum(&checksum).expect("a digest"));
    }

    #[test]
    fn rows_and_values_are_found_by_their_paths() {
        let document = read(
            r#"{"data":{"accounts":{"accounts":[{"id":1},[2],"x"],"last":7},"preferences":{"a":{"b":1}}}}"#,
        );
        let document = document.expect("JSON").within("data").expect("an object");
        let rows: Vec<Value> =
            document.rows(&["accounts", "accounts"]).map(|row| row.expect("a row")).collect();
        assert_eq!(rows, [serde_json::json!({"id": 1}), serde_json::json!([2]), "x".into()]);
        assert_eq!(document.value(&["accounts", "last"]), Some(7.into()));
        assert_eq!(document.value(&["preferences", "a"]), Some(serde_json::json!({"b": 1})));
        assert!(!document.is_array(&["accounts", "last"]) && !document.has(&["settings"]));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            "[1]",
            "7",
            "{\"a\":1",
            "{\"a\":1} x",
            "{\"a\":01}",
            "{\"a\":[1,]}",
            "{\"a\":[1e999]}",
            "{\"a\":[\"\\ud800\"]}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let long = format!("{{\"a\":[\"{}\"]}}", "x".repeat(5 << 20));
        assert!(read(&long).is_err_and(|error| error.to_string().contains("longer than 4 MiB")));
    }
}
