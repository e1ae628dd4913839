//! Upstreams that send with every chunk the whole text so far.
//!
//! Nothing marks them, and a text may well repeat itself: only when each of the first four chunks
//! begins with all of the one before, has more than it, and the first is not short, are they taken
//! for snapshots. While that is open, the chunks in question are held.

use std::hash::{DefaultHasher, Hasher};

/// A first chunk shorter than this proves nothing, in characters.
const MIN_CHARS: usize = 24;
/// This many chunks prove that they are snapshots.
const PROOF: usize = 4;

/// Makes pieces of snapshots, and leaves pieces alone.
#[derive(Debug, Default)]
pub(super) struct Snapshots(SnapshotState);

#[derive(Debug, Default)]
enum SnapshotState {
    #[default]
    Fresh,
    /// The longest chunk so far, and where the chunks before it end in it. The first has been handed on.
    Unsure {
        longest: String,
        ends: Vec<usize>,
    },
    Pieces,
    Snapshots(Prefix),
}

/// The text handed on, by its length and hash.
#[derive(Debug, Default)]
struct Prefix {
    length: usize,
    hash: DefaultHasher,
}

impl Prefix {
    fn push(&mut self, text: &str) {
        self.length += text.len();
        self.hash.write(text.as_bytes());
    }

    /// What a text has beyond it; the whole of a text that does not begin with it.
    fn rest<'t>(&self, text: &'t str) -> &'t str {
        let Some((known, rest)) = text.split_at_checked(self.length) else { return text };
        let mut hash = DefaultHasher::new();
        hash.write(known.as_bytes());
        if hash.finish() == self.hash.finish() { rest } else { text }
    }
}

impl Snapshots {
    /// Takes the next chunk, as a literal, and hands on what is new in it.
    pub(super) fn feed(&mut self, literal: &str, each: &mut dyn FnMut(&str)) {
        if literal.is_empty() {
            return;
        }
        match &mut self.0 {
            SnapshotState::Fresh => {
                self.0 = if is_long(literal) {
                    SnapshotState::Unsure { longest: literal.to_owned(), ends: vec![literal.len()] }
                } else {
                    SnapshotState::Pieces
                };
                each(literal);
            }
            SnapshotState::Unsure { longest, ends } => {
                if literal.len() <= longest.len() || !literal.starts_with(longest.as_str()) {
                    self.finish(each);
                    return each(literal);
                }
                *longest = literal.to_owned();
                ends.push(literal.len());
                if ends.len() == PROOF {
                    let handed_on = ends.first().copied().unwrap_or(0);
                    each(&literal[handed_on..]);
                    let mut prefix = Prefix::default();
                    prefix.push(literal);
                    self.0 = SnapshotState::Snapshots(prefix);
                }
            }
            SnapshotState::Pieces => each(literal),
            SnapshotState::Snapshots(prefix) => {
                let rest = prefix.rest(literal);
                prefix.push(rest);
                if !rest.is_empty() {
                    each(rest);
                }
            }
        }
    }

    /// The text is over: what is held was no snapshots.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&str)) {
        if let SnapshotState::Unsure { longest, ends } = &self.0 {
            ends.iter().skip(1).for_each(|end| each(&longest[..*end]));
            self.0 = SnapshotState::Pieces;
        }
    }
}

fn is_long(literal: &str) -> bool {
    crate::dialect::literal::Text::inside(literal).decode().chars().count() >= MIN_CHARS
}
