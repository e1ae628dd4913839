//! `logprobsResult` of a candidate: the tokens that were chosen and, in a list of equal length, the most probable
//! tokens in the place of each.

use super::member;
use crate::dialect::literal::Json;
use crate::dialect::logprobs::Token;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Reads the tokens of a candidate, or of a chunk of one.
pub(super) fn read<'a>(candidate: &Node<'a>) -> Vec<Token<'a>> {
    let Some(result) = member::get(candidate, "logprobsResult") else { return Vec::new() };
    let top = member::items(result, "topCandidates");
    let chosen = member::items(result, "chosenCandidates").iter().enumerate();
    let tokens = chosen.filter_map(|(place, chosen)| {
        let others = top.get(place).map_or(&[][..], |top| member::items(top, "candidates"));
        Some(Token { others: others.iter().filter_map(token).collect(), ..token(chosen)? })
    });
    tokens.collect()
}

fn token<'a>(candidate: &Node<'a>) -> Option<Token<'a>> {
    // A certain token has the log probability 0, which Google leaves out.
    let logprob = match member::get(candidate, "logProbability") {
        Some(logprob) => logprob.f64().map(|_| logprob.json())?,
        None => Json::checked("0"),
    };
    Some(Token { text: candidate.text_at("token")?, logprob, bytes: None, others: Vec::new() })
}

/// Writes both members of a candidate, when there are any tokens.
pub(super) fn put(o: &mut Writer, tokens: &[&Token<'_>]) {
    if tokens.is_empty() {
        return;
    }
    let sum: f64 = tokens.iter().filter_map(|token| token.logprob.f64()).sum();
    let average = sum / tokens.len() as f64;
    o.field("avgLogprobs", serde_json::Value::from(average));
    o.object_at("logprobsResult", |o| {
        o.array("topCandidates", |a| {
            for token in tokens {
                a.object(|o| o.array("candidates", |a| token.others.iter().for_each(|it| put_token(a, it))));
            }
        });
        o.array("chosenCandidates", |a| tokens.iter().for_each(|token| put_token(a, token)));
    });
}

fn put_token(list: &mut Writer, token: &Token<'_>) {
    list.object(|o| {
        o.field("token", &token.text);
        o.field("logProbability", &token.logprob);
    });
}
