//! Reads a request body as the question of one user.
//!
//! Only a completions upstream can treat the prompt as a text to continue, so some requests cannot be converted:
//! several prompts at once, tokens, a suffix, the probabilities of a prompt, the best of several answers.

use crate::dialect::canonical::{ConversionError, Part, Request, Role, Turn};
use crate::dialect::chat;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;

/// The longest answer where a client sets no limit, in tokens, as OpenAI has it.
const DEFAULT_LIMIT: u64 = 16;
/// The form of a prompt that is more than one text, for the error.
const SEVERAL: &str = "as a list of several texts or of tokens";

/// The longest prompt times the number of answers that repeat it, in bytes.
const MAX_ECHO: u64 = 4 << 20;

/// Reads a request body.
pub fn read_request<'a>(body: &Node<'a>) -> Result<Request<'a>, ConversionError> {
    let limit = body.u64_at("max_tokens").unwrap_or(DEFAULT_LIMIT);
    let n = body.u64_at("n").filter(|n| *n > 1);
    let logprobs = wants_logprobs(body);
    let inexpressible = [
        ("suffix", body.text_at("suffix").is_some_and(|suffix| !suffix.is_empty())),
        ("best_of", body.u64_at("best_of").is_some_and(|best_of| best_of > n.unwrap_or(1))),
        ("echo", is_echoed(body) && logprobs),
        ("max_tokens", limit == 0),
    ];
    if let Some((field, _)) = inexpressible.into_iter().find(|(_, is_asked)| *is_asked) {
        return Err(ConversionError::unsupported(field));
    }
    let prompt = prompt(body)?;
    let echo = (prompt.literal().len() as u64).saturating_mul(n.unwrap_or(0));
    if is_echoed(body) && echo > MAX_ECHO {
        return Err(ConversionError::invalid(
            "n",
            "is too large for answers that repeat such a long prompt (echo)",
        ));
    }
    let parts = if prompt.is_empty() { Vec::new() } else { vec![Part::Text(prompt)] };
    let number = |key: &str| body.get(key).filter(|node| node.f64().is_some()).map(Node::json);
    Ok(Request {
        turns: vec![Turn::new(Role::User, parts)],
        max_output: Some(limit),
        temperature: number("temperature"),
        top_p: number("top_p"),
        top_k: number("top_k"),
        // The end of a line is the most common stop sequence.
        stop: chat::read_stop(body)?.into_iter().filter(|text| !text.is_empty()).collect(),
        user: body.text_at("user"),
        seed: number("seed"),
        frequency_penalty: number("frequency_penalty"),
        presence_penalty: number("presence_penalty"),
        logit_bias: body.get("logit_bias").filter(|bias| bias.is_object()).map(Node::json),
        n,
        logprobs,
        top_logprobs: top_logprobs(body).map(Node::json),
        ..Request::default()
    })
}

/// Returns the text that every answer begins with: the prompt, where the client wants it back.
pub fn echoed(body: &Node<'_>) -> Option<Text<'static>> {
    let prompt = is_echoed(body).then(|| prompt(body).ok())??;
    Some(prompt.into_owned())
}

fn is_echoed(body: &Node<'_>) -> bool {
    body.bool_at("echo") == Some(true)
}

/// Reads the prompt: a string, or a list of one string.
fn prompt<'a>(body: &Node<'a>) -> Result<Text<'a>, ConversionError> {
    let Some(prompt) = body.get("prompt") else {
        return Err(ConversionError::invalid("prompt", "is required"));
    };
    let one = match prompt.items() {
        [one] => one,
        _ => prompt,
    };
    match one.text() {
        Some(text) => Ok(text),
        None if prompt.is_array() => Err(ConversionError::unsupported_form("prompt", SEVERAL)),
        None => Err(ConversionError::invalid("prompt", "must be a string or a list of one")),
    }
}

/// Whether log probabilities are wanted. Some vendors accept a plain `true` for a number.
fn wants_logprobs(body: &Node<'_>) -> bool {
    body.get("logprobs").is_some_and(|wanted| wanted.f64().is_some() || wanted.bool() == Some(true))
}

/// Returns the number of other tokens in each place whose log probabilities are wanted.
fn top_logprobs<'n, 'a>(body: &'n Node<'a>) -> Option<&'n Node<'a>> {
    body.get("logprobs").filter(|count| count.f64().is_some() && count.u64() != Some(0))
}
