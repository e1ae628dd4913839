//! Judges what an answer to a probe says about the model.

use serde::Serialize;

use crate::dialect::judge::{self, Rules};
use crate::dialect::{Dialect, errors};
use crate::error_words::denies_model;

/// The finding about a model after a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeVerdict {
    Supported,
    Unsupported,
    /// The answer says nothing about the model: what was known before stays.
    Inconclusive,
}

/// Whether a model by this name takes part in conversations at all.
pub fn is_conversational(model: &str) -> bool {
    const OTHER: [&str; 12] = [
        "embedding",
        "embeddings",
        "rerank",
        "moderation",
        "whisper",
        "tts",
        "transcribe",
        "transcription",
        "dall-e",
        "imagen",
        "veo",
        "cogvideo",
    ];
    let name = model.to_lowercase();
    let is_part = |part: &str| {
        name.match_indices(part).any(|(at, _)| {
            let before = name[..at].chars().next_back();
            let after = name[at + part.len()..].chars().next();
            // `imagen3` is an imagen; `ottss` is no tts.
            before.is_none_or(|c| !c.is_alphanumeric()) && after.is_none_or(|c| !c.is_alphabetic())
        })
    };
    !name.starts_with("__") && !OTHER.iter().any(|part| is_part(part))
}

/// Returns the verdict of an answer to a question in this dialect.
pub fn judge(dialect: Dialect, status: u16, body: &[u8]) -> ProbeVerdict {
    match status {
        200..=299 if is_answer(dialect, body) => ProbeVerdict::Supported,
        400 | 403 | 404 | 422 if is_about_the_model(status, body) => ProbeVerdict::Unsupported,
        _ => ProbeVerdict::Inconclusive,
    }
}

/// Whether an error says that the model is not there. Only what it says counts, not the names of its other members.
fn is_about_the_model(status: u16, body: &[u8]) -> bool {
    let error = errors::read(status, body);
    denies_model(&error.message) || error.names().any(denies_model)
}

/// Whether a 2xx is the answer of a model: some sites send their errors, a page, or nothing with that status.
fn is_answer(dialect: Dialect, body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start();
    if text.starts_with("event:") || text.starts_with("data:") {
        return !text.contains("response.failed") && !text.contains("event: error");
    }
    judge::reply(dialect, text.as_bytes(), &Rules::default()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_no_conversation() {
        for (model, is) in [
            ("gpt-4o", true),
            ("claude-sonnet-4-5", true),
            ("deepseek-v3", true),
            ("text-embedding-3-small", false),
            ("bge-embeddings", false),
            ("bge-rerank-v2", false),
            ("omni-moderation-latest", false),
            ("whisper-1", false),
            ("gpt-4o-mini-tts", false),
            ("gpt-4o-transcribe", false),
            ("dall-e-3", false),
            ("imagen-4", false),
            ("imagen3", false),
            ("veo-3", false),
            ("cogvideo-x", false),
            ("__internal", false),
            ("provider/whisper", false),
            // Parts of other words.
            ("veorra-chat", true),
            ("ottss-1", true),
        ] {
            assert_eq!(is_conversational(model), is, "{model}");
        }
    }

    #[test]
    fn only_a_definite_answer_is_a_verdict() {
        use ProbeVerdict::{Inconclusive, Supported, Unsupported};
        for (status, body, verdict) in [
            (200, r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}]}"#, Supported),
            (200, r#"{"choices":[{"message":{"content":""},"finish_reason":null}]}"#, Inconclusive),
            (201, r#"{"choices":[{"message":{"content":"Hi"}}],"error":null}"#, Supported),
            (200, r#"{"choices":[]}"#, Inconclusive),
            (200, r#"{"id":"1","error":null}"#, Inconclusive),
            (200, "event: response.created\ndata: {}\n\n", Supported),
            (200, "event: response.failed\ndata: {\"type\":\"response.failed\"}\n\n", Inconclusive),
            (200, "<html>sign in</html>", Inconclusive),
            (200, r#"{"error":{"message":"quota used up"}}"#, Inconclusive),
            (200, r#"{"choices":["#, Inconclusive),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                Unsupported,
            ),
            (400, r#"{"error":{"code":"model_not_found"}}"#, Unsupported),
            (400, r#"{"error":{"message":"\u8be5\u6a21\u578b\u672a\u5f00\u901a"}}"#, Unsupported),
            (403, r#"{"error":{"message":"Your account is disabled","param":"model"}}"#, Inconclusive),
            (404, r#"{"detail":"Not Found","model":"m"}"#, Inconclusive),
            (400, "No such model: x", Unsupported),
            (422, "unknown model", Unsupported),
            (400, "Unsupported model x", Unsupported),
            (400, "invalid_model", Unsupported),
            (400, r#"{"error":{"message":"Model Not Exist"}}"#, Unsupported),
            (400, "a/b is not a valid model ID", Unsupported),
            (403, "access denied for model x", Unsupported),
            (403, "this model is not allowed for your key", Unsupported),
            (403, "model x is disabled", Unsupported),
            (404, "model x is not available", Unsupported),
            (400, "模型 x 不存在", Unsupported),
            (403, "当前分组无权限使用模型 x", Unsupported),
            (400, "模型未开通", Unsupported),
            (400, "该模型不支持", Unsupported),
            (400, "max_tokens is too large", Inconclusive),
            (404, "page not found", Inconclusive),
            (403, "access denied", Inconclusive),
            (401, "no such model", Inconclusive),
            (429, "model x is not available", Inconclusive),
            (503, "model x not found", Inconclusive),
        ] {
            assert_eq!(judge(Dialect::Chat, status, body.as_bytes()), verdict, "{status} {body}");
        }
        let far = format!("model{}not found", " far".repeat(20));
        assert_eq!(judge(Dialect::Chat, 404, far.as_bytes()), Inconclusive);
    }
}
