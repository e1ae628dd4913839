//! Reads token counts beside an answer while it passes.

use bytes::Bytes;
use memchr::{memmem, memrchr};
use serde::Deserialize;

/// The most bytes kept of an answer; a longer one has no usage.
const KEEP: usize = 256 << 10;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub total_tokens: i64,
}

#[derive(Deserialize)]
struct Envelope {
    usage: Option<Usage>,
}

/// Looks for usage in an answer that comes piece by piece.
pub struct UsageReader {
    stream: bool,
    /// The unfinished line of a stream, or the bytes so far of a whole answer.
    carry: Vec<u8>,
    usage: Option<Usage>,
}

impl UsageReader {
    /// Creates a reader; `stream` says whether the answer consists of server-sent events or is one JSON document.
    pub fn new(stream: bool) -> Self {
        Self { stream, carry: Vec::new(), usage: None }
    }

    /// Takes the next piece; `last` says that none is known to follow.
    pub fn feed(&mut self, piece: &Bytes, last: bool) {
        if self.stream {
            self.feed_stream(piece);
        } else if last && self.carry.is_empty() {
            self.usage = read(piece);
        } else if self.carry.len() + piece.len() <= KEEP {
            self.carry.extend_from_slice(piece);
        }
    }

    /// Returns the usage found; call it when the answer has ended.
    pub fn finish(&mut self) -> Option<Usage> {
        if !self.stream && self.usage.is_none() && !self.carry.is_empty() {
            self.usage = read(&self.carry);
        }
        self.usage
    }

    fn feed_stream(&mut self, piece: &[u8]) {
        let Some(line_end) = memrchr(b'\n', piece) else {
            return self.keep(piece);
        };
        let (lines, rest) = piece.split_at(line_end + 1);
        if self.carry.is_empty() {
            self.read_lines(lines);
        } else {
            self.keep(lines);
            let lines = std::mem::take(&mut self.carry);
            self.read_lines(&lines);
        }
        self.keep(rest);
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.carry.len() + piece.len() <= KEEP {
            self.carry.extend_from_slice(piece);
        }
    }

    fn read_lines(&mut self, lines: &[u8]) {
        if memmem::find(lines, b"\"usage\"").is_none() {
            return;
        }
        let data = lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
        self.usage = data.filter_map(read).next_back().or(self.usage);
    }
}

fn read(document: &[u8]) -> Option<Usage> {
    serde_json::from_slice::<Envelope>(document).ok()?.usage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{COMPLETION, STREAM_BODY};

    const EXPECTED: Usage = Usage { prompt_tokens: 180, completion_tokens: 97, total_tokens: 277 };

    #[test]
    fn usage_is_found_however_the_answer_is_cut() {
        for (stream, body) in [(false, &*COMPLETION), (true, &*STREAM_BODY)] {
            for size in [1, 7, 100, 5000, body.len()] {
                let mut reader = UsageReader::new(stream);
                let pieces = body.len().div_ceil(size);
                for (n, piece) in body.chunks(size).enumerate() {
                    reader.feed(&body.slice_ref(piece), n + 1 == pieces);
                }
                assert_eq!(reader.finish(), Some(EXPECTED), "pieces of {size}");
            }
        }
    }
}
