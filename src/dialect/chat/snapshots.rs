//! Handles upstreams that send the whole text so far with every chunk.
//!
//! Nothing marks such snapshots, and an ordinary text may repeat itself. So chunks are taken for snapshots only when
//! the first is not short and each of the first four begins with the whole previous one and is longer. Until that is
//! decided, the chunks after the first are held.

use std::hash::{DefaultHasher, Hasher};

/// The shortest first chunk that can prove snapshots, in characters.
const MIN_CHARS: usize = 24;
/// The number of chunks that prove snapshots.
const PROOF: usize = 4;

/// Turns snapshots into pieces, and leaves pieces as they are.
#[derive(Debug, Default)]
pub(super) struct Snapshots(SnapshotState);

#[derive(Debug, Default)]
enum SnapshotState {
    #[default]
    Fresh,
    /// The longest chunk so far, and the lengths of all chunks so far, each of which it begins with. The first has
    /// been handed on.
    Unsure {
        longest: String,
        ends: Vec<usize>,
    },
    Pieces,
    Snapshots(Prefix),
}

/// The text that has been handed on, by its length and hash.
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

    /// Returns what follows this prefix in a text; all of a text that does not begin with it.
    fn rest<'t>(&self, text: &'t str) -> &'t str {
        let Some((known, rest)) = text.split_at_checked(self.length) else { return text };
        let mut hash = DefaultHasher::new();
        hash.write(known.as_bytes());
        if hash.finish() == self.hash.finish() { rest } else { text }
    }
}

impl Snapshots {
    /// Takes the next chunk, as a JSON literal, and hands on what is new in it.
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

    /// Hands on the held chunks as they came, because the text is over and they were no snapshots.
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
