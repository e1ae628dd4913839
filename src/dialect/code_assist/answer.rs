//! Puts answers into their envelope and takes them out of it. A stream consists of events. An error or a token count
//! is not an answer and has no envelope.

use bytes::Bytes;

use crate::dialect::convert::MAX_EVENT;
use crate::dialect::json;
use crate::dialect::sse::{KEEP_ALIVE, Scanner, TooLong};
use crate::dialect::tree::Node;

const RESPONSE: &str = "response";
const OPEN: &[u8] = b"{\"response\":";
const CLOSE: &[u8] = b"}";
/// The longest complete answer that is taken out of its envelope, in bytes.
const MAX_WHOLE: usize = 64 << 20;

/// Takes an answer out of its envelope as it arrives.
#[derive(Debug, Default)]
pub struct EnvelopeOpener {
    form: Form,
}

#[derive(Debug, Default)]
enum Form {
    /// Nothing but blanks has come.
    #[default]
    Unknown,
    Events(Scanner),
    /// One object, a list of objects, or a page. Nothing is passed on before its end.
    Whole(Vec<u8>),
}

// === impl EnvelopeOpener ===

impl EnvelopeOpener {
    /// Takes the next bytes and appends to `out` what can be passed on.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TooLong> {
        if matches!(self.form, Form::Unknown) {
            self.form = match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'{' | b'[' | b'<') => Form::Whole(Vec::new()),
                Some(_) => Form::Events(Scanner::new(MAX_EVENT)),
            };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Events(scanner) => scanner.rewrite(bytes, KEEP_ALIVE, out, put_opened),
            Form::Whole(held) if held.len() + bytes.len() > MAX_WHOLE => Err(TooLong),
            Form::Whole(held) => {
                held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Appends what is left at the end of the answer.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        match std::mem::take(&mut self.form) {
            Form::Unknown => Ok(()),
            Form::Events(mut scanner) => scanner.rewrite_last(out, put_opened),
            Form::Whole(held) => {
                match std::str::from_utf8(&held) {
                    Ok(text) => out.extend_from_slice(opened_whole(text).as_bytes()),
                    Err(_) => *out = held,
                }
                Ok(())
            }
        }
    }
}

/// Returns the content of the envelope; a text without an envelope is returned as it is.
fn opened(text: &str) -> &str {
    json::member(text, RESPONSE).filter(|response| response.starts_with('{')).unwrap_or(text)
}

/// Opens a complete answer. A stream from an upstream that does not send events is a list of envelopes.
fn opened_whole(text: &str) -> std::borrow::Cow<'_, str> {
    let list = Node::parse(text).ok().filter(Node::is_array);
    let Some(list) = list else { return opened(text).into() };
    let items: Vec<&str> = list.items().iter().map(|item| opened(item.raw())).collect();
    format!("[{}]", items.join(",")).into()
}

/// Writes an event without its envelope.
fn put_opened(data: &[u8], out: &mut Vec<u8>) {
    let inner = std::str::from_utf8(data).map_or(data, |text| opened(text).as_bytes());
    put_data(&[inner], out);
}

// === the other way ===

/// Puts a complete answer into an envelope.
pub fn seal_whole(answer: &[u8]) -> Bytes {
    Bytes::from([OPEN, answer, CLOSE].concat())
}

/// The bytes before and after an answer that is passed on in pieces.
pub const AROUND: [&[u8]; 2] = [OPEN, CLOSE];

/// Puts an event into an envelope. An event with a failure is not an answer and gets none.
pub fn seal_event(data: &[u8], out: &mut Vec<u8>) {
    let text = std::str::from_utf8(data).unwrap_or_default();
    let is_failure = json::member(text, "error").is_some();
    if is_failure { put_data(&[data], out) } else { put_data(&[OPEN, data, CLOSE], out) }
}

/// Writes one event of these bytes on one line: the lines of an event together are one object.
fn put_data(pieces: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    for piece in pieces {
        piece.split(|byte| *byte == b'\n').for_each(|line| out.extend_from_slice(line));
    }
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what comes of an answer that arrives in these pieces.
    fn told(pieces: &[&str]) -> String {
        let (mut opener, mut out) = (EnvelopeOpener::default(), Vec::new());
        pieces.iter().for_each(|piece| opener.feed(piece.as_bytes(), &mut out).expect("short"));
        opener.finish(&mut out).expect("short");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn an_answer_comes_out_of_its_envelope_however_it_is_cut() {
        for (pieces, wanted) in [
            (&["{\"response\":{\"a\":1.50},\"traceId\":\"t\"}"][..], "{\"a\":1.50}"),
            (&[" \n", "{\"resp", "onse\":{\"a\":1}}"], "{\"a\":1}"),
            (&["{\"totalTokens\":7}"], "{\"totalTokens\":7}"),
            (&["{\"error\":{\"code\":400}}"], "{\"error\":{\"code\":400}}"),
            (&["[{\"response\":{\"a\":1}},", "{\"response\":{\"a\":2}}]"], "[{\"a\":1},{\"a\":2}]"),
            (&["data: {\"response\":{\"a\":1}}\n\n"], "data: {\"a\":1}\n\n"),
            (&["data: {\"response\":\ndata: {\"a\":", "1}}\r\n\r", "\n"], "data: {\"a\":1}\n\n"),
            (&["data: {\"response\":{\"a\":1}}"], "data: {\"a\":1}\n\n"),
            (&["data: {\"error\":{}}\n\n"], "data: {\"error\":{}}\n\n"),
            (&[": there\n\n", "data: {}\n\n"], ": keep-alive\n\ndata: {}\n\n"),
            (&["no JSON"], ""),
            (&["{no JSON"], "{no JSON"),
            (&["<html>"], "<html>"),
            (&[], ""),
        ] {
            assert_eq!(told(pieces), wanted, "{pieces:?}");
        }
    }

    #[test]
    fn what_is_sealed_comes_out_as_it_was() {
        assert_eq!(told(&[std::str::from_utf8(&seal_whole(b"{\"a\":1}")).unwrap()]), "{\"a\":1}");
        let mut scanner = Scanner::new(1024);
        let mut sealed = Vec::new();
        let events = "data: {\"a\":1}\n\ndata: {\"error\":{}}\n\n";
        scanner.rewrite(events.as_bytes(), KEEP_ALIVE, &mut sealed, seal_event).expect("short");
        assert_eq!(sealed, b"data: {\"response\":{\"a\":1}}\n\ndata: {\"error\":{}}\n\n");
        assert_eq!(told(&[std::str::from_utf8(&sealed).unwrap()]), events);
    }
}
