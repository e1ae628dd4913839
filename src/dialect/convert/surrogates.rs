//! Joins characters that an upstream cuts in two.
//!
//! A character outside the Basic Multilingual Plane is two escapes in JSON (RFC 8259 section 7), and some upstreams end
//! a piece of a stream between them. Clients that decode each piece by itself would get two invalid halves, so the
//! first half waits for the second. A half that stays alone becomes U+FFFD.

use std::collections::BTreeMap;

use crate::dialect::canonical::Event;
use crate::dialect::literal::Text;

/// Joins the halves in one stream.
#[derive(Debug, Default)]
pub(super) struct SurrogateJoiner {
    /// The first half at the end of each part's text so far.
    held: BTreeMap<u32, Text<'static>>,
}

impl SurrogateJoiner {
    pub(super) fn event(&mut self, event: Event<'_>, each: &mut dyn FnMut(Event<'_>)) {
        match event {
            Event::Delta { key, text } => {
                let held = self.held.remove(&key);
                if held.is_none() && !text.has_unit_escape() {
                    return each(Event::Delta { key, text });
                }
                let mut joined = held.unwrap_or_default();
                joined.push(&text);
                let (whole, half) = joined.paired();
                if !whole.is_empty() {
                    each(Event::Delta { key, text: whole });
                }
                self.held.extend(half.map(|half| (key, half)));
            }
            Event::PartStop { key } => {
                if self.held.remove(&key).is_some() {
                    each(Event::Delta { key, text: Text::of("\u{fffd}") });
                }
                each(Event::PartStop { key });
            }
            other => each(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::tree::Node;

    fn passed(pieces: &[&str]) -> Vec<String> {
        let mut halves = SurrogateJoiner::default();
        let mut passed = Vec::new();
        let mut take = |event: Event<'_>| {
            if let Event::Delta { text, .. } = event {
                passed.push(text.literal().to_owned());
            }
        };
        for piece in pieces {
            let quoted = format!("\"{piece}\"");
            let text = Node::parse(&quoted).unwrap().text().unwrap().into_owned();
            halves.event(Event::Delta { key: 3, text }, &mut take);
        }
        halves.event(Event::PartStop { key: 3 }, &mut take);
        passed
    }

    #[test]
    fn halves_are_put_together_and_a_lone_one_is_replaced() {
        for (pieces, wanted) in [
            (&["a", "b\\n"][..], &["a", "b\\n"][..]),
            (&["a\\ud83d", "\\ude00b"], &["a", "\\ud83d\\ude00b"]),
            (&["\\uD83D", "", "\\uDE00"], &["\\uD83D\\uDE00"]),
            (&["\\ud83d\\ude00"], &["\\ud83d\\ude00"]),
            (&["a\\ud83d"], &["a", "\u{fffd}"]),
            (&["a\\ud83d", "b"], &["a", "\u{fffd}b"]),
            (&["\\ud83d", "\\ud83d", "\\ude00"], &["\u{fffd}", "\\ud83d\\ude00"]),
            (&["\\ude00", "\\u00e9"], &["\u{fffd}", "\\u00e9"]),
            // An escaped backslash, with letters behind it.
            (&["\\\\ud83d", "\\\\ude00"], &["\\\\ud83d", "\\\\ude00"]),
        ] {
            assert_eq!(passed(pieces), wanted, "{pieces:?}");
        }
    }
}
