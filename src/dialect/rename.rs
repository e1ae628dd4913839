//! Answers under another name: that of the model which the client asked for, where an operator wants it, or one of our
//! ids in place of an upstream's.
//!
//! Bytes go in as they come, cut anywhere, and come out the same but for one string. Only that string is held back,
//! from its first quote to its last: nothing waits for the end of an event.
//!
//! | dialect | the string that names the model |
//! |---|---|
//! | chat, completions, embeddings | `model` |
//! | responses | `model`; in events `response.model` |
//! | messages | `model`; in events `message.model` |
//! | gemini | `modelVersion` |
//!
//! The walk knows its place by depth and key, so nothing that a model writes can be taken for its name. A name that
//! equals the wanted one stays as it is written, escapes included.

use super::{Dialect, json};
use crate::byte_order_mark;

/// The longest string that is read as a model's name, in bytes; a longer one passes unchanged.
const LONGEST_NAME: usize = 1024;
/// The longest key that is compared, in bytes: no key that is looked for is longer, however it is escaped.
const LONGEST_KEY: usize = 128;

/// Replaces the name of the model, or the id, in one answer.
#[derive(Debug)]
pub struct Renamer {
    walk: Walk,
    /// The place in the line; `None` where the answer is one object and not a stream of events.
    line: Option<Line>,
}

/// The place of a stream of events within its line.
#[derive(Debug)]
struct Line {
    state: LineState,
    /// Whether the last chunk ended in CR: a LF that follows now belongs to it.
    after_cr: bool,
    /// Whether no line has begun: a byte order mark may still come.
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// This many bytes of the word `data:` have come, and nothing else.
    Begins(usize),
    Data,
    Other,
}

const DATA: &[u8] = b"data:";

impl Renamer {
    /// Creates a renamer for an answer in `dialect`, which is to name `model`; `None` where the dialect's answers name
    /// none.
    pub fn new(dialect: Dialect, model: &str, is_stream: bool) -> Option<Self> {
        let (member, holder) = match dialect {
            Dialect::Chat | Dialect::Completions | Dialect::Embeddings => ("model", ""),
            Dialect::Responses => ("model", "response"),
            Dialect::Messages => ("model", "message"),
            Dialect::Gemini => ("modelVersion", ""),
            Dialect::Images | Dialect::Audio => return None,
        };
        Some(Self::of(Walk::new(member, holder, model), is_stream))
    }

    /// Creates a renamer for an answer of the responses dialect, which is to have this id.
    pub fn of_response(id: &str, is_stream: bool) -> Self {
        Self::of(Walk::new("id", "response", id), is_stream)
    }

    fn of(walk: Walk, is_stream: bool) -> Self {
        let line = Line { state: LineState::Begins(0), after_cr: false, fresh: true };
        Self { walk, line: is_stream.then_some(line) }
    }

    /// Takes the next bytes and appends what may pass to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.line {
            Some(line) => line.feed(&mut self.walk, bytes, out),
            None => self.walk.feed(bytes, out),
        }
    }

    /// Ends the answer: what was held back passes.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.walk.stop(out);
    }

    /// Whether nothing is held back.
    pub fn is_idle(&self) -> bool {
        self.walk.held.is_empty()
    }
}

impl Line {
    fn feed(&mut self, walk: &mut Walk, mut rest: &[u8], out: &mut Vec<u8>) {
        if std::mem::take(&mut self.after_cr)
            && let Some(after) = rest.strip_prefix(b"\n")
        {
            out.push(b'\n');
            rest = after;
        }
        while !rest.is_empty() {
            let length = memchr::memchr2(b'\n', b'\r', rest);
            let (line, end) = rest.split_at(length.unwrap_or(rest.len()));
            self.take(walk, line, out);
            let ending: &[u8] = match end {
                [b'\r', b'\n', ..] => b"\r\n",
                [b'\r', ..] => b"\r",
                [b'\n', ..] => b"\n",
                _ => return,
            };
            rest = &end[ending.len()..];
            self.after_cr = ending == b"\r" && rest.is_empty();
            self.end(walk, out);
            out.extend_from_slice(ending);
        }
    }

    /// Reads more of a line.
    fn take(&mut self, walk: &mut Walk, mut line: &[u8], out: &mut Vec<u8>) {
        if std::mem::take(&mut self.fresh)
            && let Some(after) = line.strip_prefix(byte_order_mark::BYTES)
        {
            out.extend_from_slice(byte_order_mark::BYTES);
            line = after;
        }
        while let (LineState::Begins(known), Some((first, after))) = (self.state, line.split_first()) {
            if DATA.get(known) != Some(first) {
                self.state = LineState::Other;
                break;
            }
            self.state = if known + 1 == DATA.len() { LineState::Data } else { LineState::Begins(known + 1) };
            out.push(*first);
            line = after;
        }
        match self.state {
            LineState::Data => walk.feed(line, out),
            _ => out.extend_from_slice(line),
        }
    }

    /// Ends a line, and after a blank one its event. A string does not continue on the next line.
    fn end(&mut self, walk: &mut Walk, out: &mut Vec<u8>) {
        let state = std::mem::replace(&mut self.state, LineState::Begins(0));
        if state == LineState::Begins(0) {
            walk.begin();
        } else if walk.string.is_some() {
            walk.stop(out);
        }
    }
}

/// The walk through one JSON object.
#[derive(Debug)]
struct Walk {
    member: &'static str,
    /// The member whose value may have `member` as well; empty where there is none.
    holder: &'static str,
    name: String,
    /// The name as a JSON string.
    literal: String,
    place: JsonPlace,
    depth: usize,
    /// Whether the value of `holder` is being read.
    is_held: bool,
    /// What is expected next: a key, or the value of the key that was read.
    wants: Wants,
    string: Option<StringKind>,
    /// Whether the next byte of the string is escaped.
    escaped: bool,
    key: Vec<u8>,
    /// The value that may be replaced, as far as it has been read.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonPlace {
    Before,
    Inside,
    /// After the object, or in something that is not an object.
    Over,
}

/// What comes next in an object whose keys matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Key,
    Name,
    Holder,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringKind {
    Key,
    Name,
    Other,
}

impl Walk {
    fn new(member: &'static str, holder: &'static str, name: &str) -> Self {
        Self {
            member,
            holder,
            name: name.to_owned(),
            literal: serde_json::Value::from(name).to_string(),
            place: JsonPlace::Before,
            depth: 0,
            is_held: false,
            wants: Wants::Nothing,
            string: None,
            escaped: false,
            key: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Prepares for another object.
    fn begin(&mut self) {
        self.place = JsonPlace::Before;
        self.depth = 0;
        self.is_held = false;
        self.wants = Wants::Nothing;
        self.string = None;
        self.escaped = false;
    }

    /// Lets what was held back and everything that follows pass.
    fn stop(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        self.string = None;
        self.place = JsonPlace::Over;
    }

    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.place == JsonPlace::Over {
                return out.extend_from_slice(&bytes[at..]);
            }
            let length = match self.string {
                Some(kind) => self.string(kind, &bytes[at..], out),
                None => {
                    self.structure(byte);
                    if self.string == Some(StringKind::Name) {
                        self.held.push(byte);
                    } else {
                        out.push(byte);
                    }
                    1
                }
            };
            at += length;
        }
    }

    /// Reads on in a string, to its end or that of the bytes; returns the number of bytes read.
    fn string(&mut self, kind: StringKind, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut at = usize::from(std::mem::take(&mut self.escaped));
        let mut ends = false;
        while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            at += found + 1;
            if bytes[at - 1] == b'"' {
                ends = true;
                break;
            }
            at += 1;
        }
        if !ends {
            self.escaped = at > bytes.len();
            at = bytes.len();
        }
        let piece = &bytes[..at];
        match kind {
            StringKind::Other => out.extend_from_slice(piece),
            StringKind::Key => {
                out.extend_from_slice(piece);
                let room = LONGEST_KEY.saturating_sub(self.key.len());
                self.key.extend_from_slice(&piece[..at.min(room)]);
            }
            StringKind::Name => {
                self.held.extend_from_slice(piece);
                if self.held.len() > LONGEST_NAME {
                    out.append(&mut self.held);
                    self.string = Some(StringKind::Other);
                }
            }
        }
        if ends {
            self.end_string(out);
        }
        at
    }

    fn end_string(&mut self, out: &mut Vec<u8>) {
        match self.string.take() {
            Some(StringKind::Key) => {
                let key = text(&self.key);
                let is = |name: &str| key.as_deref() == Some(name);
                self.wants = if is(self.member) {
                    Wants::Name
                } else if self.depth == 1 && is(self.holder) {
                    Wants::Holder
                } else {
                    Wants::Nothing
                };
            }
            Some(StringKind::Name) => {
                let is_wanted = text(&self.held).is_none_or(|name| name == self.name);
                if is_wanted {
                    out.append(&mut self.held);
                } else {
                    out.extend_from_slice(self.literal.as_bytes());
                    self.held.clear();
                }
                self.wants = Wants::Nothing;
            }
            _ => {}
        }
    }

    /// Reads a byte outside of strings.
    fn structure(&mut self, byte: u8) {
        let keys_matter = self.depth == 1 || (self.depth == 2 && self.is_held);
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' if self.place == JsonPlace::Before => {
                self.place = JsonPlace::Inside;
                self.depth = 1;
                self.wants = Wants::Key;
            }
            _ if self.place == JsonPlace::Before => self.place = JsonPlace::Over,
            b'"' => {
                self.string = Some(match self.wants {
                    Wants::Key if keys_matter => StringKind::Key,
                    Wants::Name if keys_matter => StringKind::Name,
                    _ => StringKind::Other,
                });
                self.key.clear();
                self.key.push(byte);
            }
            b'{' | b'[' => {
                self.is_held |= self.depth == 1 && byte == b'{' && self.wants == Wants::Holder;
                self.depth += 1;
                self.wants = if self.depth == 2 && self.is_held { Wants::Key } else { Wants::Nothing };
            }
            b'}' | b']' => {
                self.depth -= 1;
                self.is_held &= self.depth > 1;
                self.wants = Wants::Nothing;
                if self.depth == 0 {
                    self.place = JsonPlace::Over;
                }
            }
            b',' if keys_matter => self.wants = Wants::Key,
            _ => {}
        }
    }
}

/// Returns the text of a string literal.
fn text(literal: &[u8]) -> Option<String> {
    json::string(std::str::from_utf8(literal).ok()?)
}

#[cfg(test)]
mod tests;
