//! Lowers the output limit of a request, for an upstream whose models answer with fewer tokens than the client asks
//! for.
//!
//! Claude Code asks for 32,000 tokens, whatever the model; OpenAI's older models answer with 16,384 at most and refuse
//! more. The refusals name the bound ("This model supports at most 16384 completion tokens", "200000 > 64000, which is
//! the maximum allowed number", "from 1 (inclusive) to 65537 (exclusive)").

use bytes::Bytes;

use super::Dialect;
use super::edit::edit;
use super::gemini::member;
use super::tree::Node;

const NAMES: [&str; 4] = ["max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens"];
/// The smallest number taken for a bound, in tokens; smaller ones are other things: versions of models, the lower end
/// of a range.
const LEAST: u64 = 256;

/// Returns the bound, in tokens, that the refusal of a limit names.
pub fn bound(message: &str) -> Option<u64> {
    let said = message.to_ascii_lowercase();
    if !NAMES.iter().any(|name| said.contains(name)) {
        return None;
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let words = said.split_whitespace().map(|word| word.trim_matches(|letter: char| !is_letter(letter)));
    let least = words.filter_map(|word| word.parse::<u64>().ok()).filter(|number| *number >= LEAST).min()?;
    Some(if said.contains("(exclusive)") { least - 1 } else { least })
}

/// Returns the body with `bound` as its limit; `None` when it asks for no more than that, or its thinking budget is not
/// below it.
pub fn lowered(dialect: Dialect, body: &Node<'_>, bound: u64) -> Option<Bytes> {
    let limit = bound.to_string();
    let is_more = |node: &Node<'_>| node.u64().is_some_and(|asked| asked > bound);
    if dialect == Dialect::Gemini {
        let name = member::key(body, "generationConfig")?;
        let config = body.get(name)?;
        let key = member::key(config, "maxOutputTokens")?;
        config.get(key).filter(|node| is_more(node))?;
        let config = edit(config.raw(), &[(key, &limit)], &[]);
        return Some(Bytes::from(edit(body.raw(), &[(name, &config)], &[]).into_owned()));
    }
    if body.path(&["thinking", "budget_tokens"]).and_then(Node::u64).is_some_and(|budget| budget >= bound) {
        return None;
    }
    let key = NAMES.into_iter().find(|key| body.get(key).is_some_and(is_more))?;
    Some(Bytes::from(edit(body.raw(), &[(key, &limit)], &[]).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_a_limit_names_the_bound() {
        for (said, wanted) in [
            (
                "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
                Some(16384),
            ),
            (
                "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5-20250929",
                Some(64000),
            ),
            (
                "Unable to submit request because it has a maxOutputTokens value of 99999 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
                Some(65536),
            ),
            (
                "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 200000 instead.",
                Some(128000),
            ),
            ("max_tokens: Field required", None),
            ("This model's maximum context length is 8192 tokens", None),
        ] {
            assert_eq!(bound(said), wanted, "{said}");
        }
    }

    #[test]
    fn a_limit_is_lowered_to_its_bound() {
        let of = |dialect, body: &str| {
            let body = lowered(dialect, &Node::parse(body).unwrap(), 9000);
            body.map(|body| String::from_utf8(body.to_vec()).unwrap())
        };
        for (dialect, body, wanted) in [
            (Dialect::Chat, r#"{"max_completion_tokens":9001}"#, Some(r#"{"max_completion_tokens":9000}"#)),
            (Dialect::Messages, r#"{"max_tokens":10000,"a":1}"#, Some(r#"{"max_tokens":9000,"a":1}"#)),
            (Dialect::Messages, r#"{"max_tokens":10000,"thinking":{"budget_tokens":9000}}"#, None),
            (
                Dialect::Gemini,
                r#"{"generationConfig":{"maxOutputTokens":10000}}"#,
                Some(r#"{"generationConfig":{"maxOutputTokens":9000}}"#),
            ),
            (Dialect::Responses, r#"{"max_output_tokens":9000}"#, None),
            (Dialect::Chat, "{}", None),
        ] {
            assert_eq!(of(dialect, body).as_deref(), wanted);
        }
    }
}
