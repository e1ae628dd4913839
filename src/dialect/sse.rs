//! An incremental reader of server-sent events.
//!
//! Chunks go in as the network cut them, events come out. Lines end in LF, CRLF or CR, comments and unknown fields are
//! skipped, several `data` lines are joined, a byte order mark is ignored, and a last event needs no blank line.
//! Everything is bytes: a character split over two chunks is whole again in its event. An event that lies inside one
//! chunk is handed out without a copy.
//!
//! Memory is bounded: only the beginning and the end of an event longer than the limit are kept, and it is marked as
//! cut.

use std::borrow::Cow;
use std::fmt;

use crate::byte_order_mark;

/// A comment that only shows that the stream goes on. Readers of events skip it.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Returns the data of an event as text; invalid UTF-8 becomes U+FFFD. Nearly all data is valid, and is then not
/// copied.
pub fn text(data: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(data) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(data),
    }
}

/// An event as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field, empty when there is none.
    pub name: &'a [u8],
    /// The `data` lines, joined by LF.
    pub data: &'a [u8],
    /// Offset in the chunk being read where the event began; `None` when that was in an earlier chunk.
    pub start: Option<usize>,
    /// Offset in the chunk being read where the event ended, its blank line included.
    pub end: usize,
    /// Whether the middle of `data` is missing.
    pub cut: bool,
}

impl Event<'_> {
    fn rewrite(&self, out: &mut Vec<u8>, put: &mut impl FnMut(&[u8], &mut Vec<u8>)) -> Result<(), TooLong> {
        match (self.cut, self.data) {
            (true, _) => return Err(TooLong),
            (false, b"") => {}
            (false, data) => put(data, out),
        }
        Ok(())
    }
}

/// The error for an event that could not be held whole: what was left out may have been the middle of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of the answer is too long")
    }
}

/// A reader of events from chunks.
#[derive(Debug)]
pub struct Scanner {
    limit: usize,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The fields of the event being read that came in earlier chunks, or earlier lines.
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    cut: bool,
    /// Whether some line of the event being read has begun in an earlier chunk.
    begun: bool,
    /// Whether the last chunk ended in CR: a LF that follows now belongs to it.
    after_cr: bool,
    /// Whether no line has been read yet: a byte order mark may still come.
    fresh: bool,
    /// See [`Scanner::take_remarks`].
    has_remarks: bool,
}

impl Scanner {
    /// Creates a reader that keeps at most about `limit` bytes of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(64),
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            cut: false,
            begun: false,
            after_cr: false,
            fresh: true,
            has_remarks: false,
        }
    }

    /// Whether no event is half read, so that a comment or an event of our own may be put here.
    pub fn between_events(&self) -> bool {
        !self.begun
    }

    /// Whether a line has come since the last call that is neither a name nor data, such as a comment.
    pub fn take_remarks(&mut self) -> bool {
        std::mem::take(&mut self.has_remarks)
    }

    /// Whether the event being read is already longer than is kept, so that nobody needs to wait for its end.
    pub fn is_too_long(&self) -> bool {
        self.cut
    }

    /// Reads the next chunk and calls `each` for every event that ends in it.
    pub fn feed(&mut self, chunk: &[u8], mut each: impl FnMut(Event<'_>)) {
        let mut at = 0;
        if std::mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
            at = 1;
        }
        let mut block = Block { start: if self.begun { None } else { Some(at) }, name: None, data: None };
        while let Some(length) = memchr::memchr2(b'\n', b'\r', &chunk[at..]) {
            let end = at + length;
            let line = &chunk[at..end];
            at = end + 1;
            if chunk[end] == b'\r' {
                match chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            let blank = if self.line.is_empty() {
                self.take(line, &mut block)
            } else {
                self.line.extend_from_slice(line);
                self.take_held_line()
            };
            if blank {
                self.dispatch(&block, at, &mut each);
                block = Block { start: Some(at), name: None, data: None };
            }
        }
        self.hold(&chunk[at..], &block, at);
    }

    /// Ends the stream: hands out an event that no blank line ended.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) {
        self.take_held_line();
        self.dispatch(&Block { start: None, name: None, data: None }, 0, &mut each);
    }

    /// Reads the next chunk of a stream and writes it with the data of each event rewritten by `put`; events without
    /// data are left out. A comment between events, which keeps a connection awake, becomes `awake`.
    ///
    /// # Errors
    /// An event was too long to be held. The others have been written.
    pub fn rewrite(
        &mut self,
        chunk: &[u8],
        awake: &[u8],
        out: &mut Vec<u8>,
        mut put: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<(), TooLong> {
        if chunk.starts_with(b":") && self.between_events() {
            out.extend_from_slice(awake);
        }
        let mut written = Ok(());
        self.feed(chunk, |event| written = written.and(event.rewrite(out, &mut put)));
        if self.is_too_long() { Err(TooLong) } else { written }
    }

    /// Ends a stream that was rewritten by [`rewrite`](Self::rewrite) and writes its last event.
    pub fn rewrite_last(
        &mut self,
        out: &mut Vec<u8>,
        mut put: impl FnMut(&[u8], &mut Vec<u8>),
    ) -> Result<(), TooLong> {
        let mut written = Ok(());
        self.finish(|event| written = event.rewrite(out, &mut put));
        written
    }

    /// Reads a line that lies in the chunk; true when it is blank and so ends the event.
    fn take<'c>(&mut self, line: &'c [u8], block: &mut Block<'c>) -> bool {
        match self.field(line) {
            Field::Blank => return true,
            Field::Name(name) => block.name = Some(name),
            Field::Data(data) if block.data.is_none() && !self.has_data => block.data = Some(data),
            Field::Data(data) => {
                if let Some(first) = block.data.take() {
                    self.append(first);
                }
                self.append(data);
            }
            Field::Other => self.has_remarks = true,
        }
        false
    }

    /// Reads the line held back from earlier chunks, now that its end has come; true when it is blank.
    fn take_held_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        match self.field(&line) {
            Field::Blank => return true,
            Field::Name(name) => self.name = name.to_vec(),
            Field::Data(data) => self.append(data),
            Field::Other => self.has_remarks = true,
        }
        false
    }

    fn field<'c>(&mut self, mut line: &'c [u8]) -> Field<'c> {
        if std::mem::take(&mut self.fresh) {
            line = byte_order_mark::strip(line);
        }
        let value = |rest: &'c [u8]| rest.strip_prefix(b" ").unwrap_or(rest);
        if let Some(rest) = line.strip_prefix(b"data:") {
            Field::Data(value(rest))
        } else if let Some(rest) = line.strip_prefix(b"event:") {
            Field::Name(value(rest))
        } else {
            match line {
                b"" => Field::Blank,
                b"data" => Field::Data(b""),
                b"event" => Field::Name(b""),
                _ => Field::Other,
            }
        }
    }

    fn append(&mut self, line: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(line);
        self.cut |= shorten(&mut self.data, self.limit);
    }

    fn dispatch(&mut self, block: &Block<'_>, end: usize, each: &mut impl FnMut(Event<'_>)) {
        if block.data.is_some() || self.has_data {
            each(Event {
                name: block.name.unwrap_or(&self.name),
                data: block.data.unwrap_or(&self.data),
                start: block.start,
                end,
                cut: self.cut,
            });
        }
        self.name.clear();
        self.data = Vec::new();
        self.has_data = false;
        self.cut = false;
        self.begun = false;
    }

    /// Keeps the unfinished line and event, which the next chunk will continue.
    fn hold(&mut self, rest: &[u8], block: &Block<'_>, at: usize) {
        if let Some(name) = block.name {
            self.name = name.to_vec();
        }
        if let Some(data) = block.data {
            self.append(data);
        }
        self.line.extend_from_slice(rest);
        self.cut |= shorten(&mut self.line, self.limit);
        self.begun |= !rest.is_empty() || block.start.is_some_and(|start| start < at);
    }
}

/// Returns where the last whole event in these bytes ends, its blank line included; `None` when there is none.
pub fn last_end(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.windows(2).rposition(|pair| matches!(pair, b"\n\n" | b"\r\r" | b"\n\r"))?;
    let end = ends + 2;
    let splits_crlf = bytes[..end].ends_with(b"\r") && bytes.get(end) == Some(&b'\n');
    Some(if splits_crlf { end + 1 } else { end })
}

/// The fields of the event being read that stand in the chunk being read.
struct Block<'c> {
    start: Option<usize>,
    name: Option<&'c [u8]>,
    data: Option<&'c [u8]>,
}

enum Field<'c> {
    Blank,
    Name(&'c [u8]),
    Data(&'c [u8]),
    Other,
}

/// Cuts the middle out of bytes that exceed the limit; returns whether it did. What is left is small enough that the
/// next cut is far away, so that a long line costs no more than its length.
fn shorten(bytes: &mut Vec<u8>, limit: usize) -> bool {
    if bytes.len() <= limit {
        return false;
    }
    bytes.drain(limit / 4..bytes.len() - limit / 4);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Read = Vec<(String, String)>;

    fn read(chunks: &[&[u8]]) -> Read {
        let mut events = Vec::new();
        let mut scanner = Scanner::new(1 << 20);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for chunk in chunks {
            scanner.feed(chunk, |event| {
                assert!(event.start.unwrap_or(0) < event.end && event.end <= chunk.len());
                events.push((text(event.name), text(event.data)));
            });
        }
        scanner.finish(|event| events.push((text(event.name), text(event.data))));
        events
    }

    #[test]
    fn events_are_read_in_every_spelling() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
            ("event: e\r\ndata:a\r\n\r\n", &[("e", "a")]),
            ("data: a\rdata:  b\r\r", &[("", "a\n b")]),
            ("\u{feff}data: a\n\n", &[("", "a")]),
            (": hello\n\nid: 5\nretry: 1\ndata: a\n\n", &[("", "a")]),
            ("event: lost\n\ndata: a\n\n", &[("", "a")]),
            ("data\n\n", &[("", "")]),
            ("data: one\nevent: x\nevent: y\ndata: two\ndata: three\n\n", &[("y", "one\ntwo\nthree")]),
            ("data: a\n\ndata: no blank line", &[("", "a"), ("", "no blank line")]),
            ("\n\n\r\n\ndata: ü…\n\n", &[("", "ü…")]),
            ("", &[]),
        ];
        for (stream, wanted) in cases {
            let wanted: Read = wanted.iter().map(|&(n, d)| (n.to_owned(), d.to_owned())).collect();
            assert_eq!(read(&[stream.as_bytes()]), wanted, "{stream:?}");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(read(&bytes), wanted, "byte by byte: {stream:?}");
        }
    }

    #[test]
    fn an_event_knows_where_it_stands_in_its_chunk() {
        let mut scanner = Scanner::new(1024);
        let mut spans = Vec::new();
        for chunk in ["data: a\n\n: c\nda", "ta: b\n\ndata: c\n\n", "event: x\n", "data: d\n\n"] {
            scanner.feed(chunk.as_bytes(), |event| spans.push((event.start, event.end)));
        }
        assert_eq!(spans, [(Some(0), 9), (None, 7), (Some(7), 16), (None, 9)]);
        assert!(scanner.between_events());
        scanner.feed(b"d", |_| {});
        assert!(!scanner.between_events());
    }

    #[test]
    fn the_end_of_the_last_whole_event_is_found() {
        for (whole, half) in [
            ("data: a\n\n", "data: b"),
            ("data: a\r\n\r\ndata: b\r\n\r\n", "data: c\r\n"),
            ("data: a\r\r", "d"),
            ("data: a\n\r\n", "data: b\n"),
        ] {
            assert_eq!(last_end(format!("{whole}{half}").as_bytes()), Some(whole.len()), "{whole:?}");
        }
        for half in ["", "\n", "data: a\n", "data: a\r\ndata: b\r\n"] {
            assert_eq!(last_end(half.as_bytes()), None, "{half:?}");
        }
    }

    #[test]
    fn a_huge_event_keeps_its_beginning_and_its_end() {
        let mut scanner = Scanner::new(1000);
        let mut seen = Vec::new();
        scanner.feed(b"data: first", |_| {});
        for _ in 0..1000 {
            scanner.feed(&[b'x'; 100], |_| {});
            assert!(scanner.line.len() <= 1000);
        }
        for chunk in [&b"last\n"[..], b"\ndata: small\n\n"] {
            scanner.feed(chunk, |event| seen.push((event.data.to_vec(), event.cut)));
        }
        assert!(seen[0].1 && seen[0].0.starts_with(b"first") && seen[0].0.ends_with(b"last"));
        assert_eq!(seen[1], (b"small".to_vec(), false));
    }

    proptest! {
        #[test]
        fn the_cuts_of_the_network_do_not_matter(
            stream in "(data: ?|event:|:|\\PC|[\n\r]|\n\n){0,40}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(read(&chunks), read(&[bytes]));
        }
    }
}
