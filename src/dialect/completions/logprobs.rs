//! The log probabilities of the tokens of a choice: lists of equal length.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::dialect::logprobs::Token;
use crate::dialect::writer::Writer;

/// Writes `logprobs`, null where there are no tokens. `from` is the position in the text at which the first token
/// begins, in characters.
pub(super) fn put(o: &mut Writer, tokens: &[&Token<'_>], from: u64) {
    if tokens.is_empty() {
        return o.field("logprobs", ());
    }
    o.object_at("logprobs", |o| {
        o.array("tokens", |a| tokens.iter().for_each(|token| a.item(&token.text)));
        o.array("token_logprobs", |a| tokens.iter().for_each(|token| a.item(&token.logprob)));
        if tokens.iter().all(|token| token.others.is_empty()) {
            o.field("top_logprobs", ())
        } else {
            o.array("top_logprobs", |a| tokens.iter().for_each(|token| put_others(a, token)))
        }
        o.array("text_offset", |a| {
            tokens.iter().fold(from, |at, token| {
                a.item(at);
                at + token.text.char_count()
            });
        });
    });
}

/// Writes the most probable tokens in the place of this one, by their text, and always the token itself.
fn put_others(list: &mut Writer, token: &Token<'_>) {
    let mut named: HashSet<Cow<'_, str>> = HashSet::new();
    list.object(|o| {
        for other in token.others.iter().chain([token]) {
            let text = other.text.decode();
            if !named.contains(&text) {
                o.field(&text, &other.logprob);
                named.insert(text);
            }
        }
    });
}
