//! The vendors' names for kinds of errors. Each vendor has its own, and its SDK knows no others:
//!
//! | status | OpenAI | Anthropic | Google |
//! |---|---|---|---|
//! | 400 | invalid_request_error | invalid_request_error | INVALID_ARGUMENT |
//! | 404 | not_found_error | not_found_error | NOT_FOUND |
//! | 413 | invalid_request_error | request_too_large | INVALID_ARGUMENT |
//! | 429 | rate_limit_error | rate_limit_error | RESOURCE_EXHAUSTED |
//! | 503 | server_error | overloaded_error | UNAVAILABLE |
//! | other | upstream_error | api_error | INTERNAL |
//!
//! The status of an answer gives the kind. An error in a stream has no status of its own: there the kind, or the code
//! beside it, gives the status.

use super::upstream_error::UpstreamError;
use crate::error_words::requests;

/// Codes of OpenAI's failed responses that are about what the client has sent: a prompt that its policies refuse, or a
/// picture that cannot be read.
const OF_INPUT: [&str; 19] = [
    "invalid_prompt",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_content_policy_violation",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
    "content_policy_violation",
];

/// Returns `error.type` on the OpenAI-style surfaces, by status.
pub fn openai(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        503 => "server_error",
        400..=499 | 501 => "invalid_request_error",
        _ => "upstream_error",
    }
}

/// Returns the kind that an OpenAI-style client is given for one that an upstream named. Clients compare the names of
/// most vendors, but Google's are those of another protocol.
pub(super) fn in_openai_words(kind: &str, status: u16) -> &str {
    if is_googles(kind) { openai(status) } else { kind }
}

/// Returns the name on the messages API, which has a closed set, most of them with a status of their own.
pub(super) fn anthropic(kind: Option<&str>, status: u16) -> &str {
    const NAMES: [&str; 10] = [
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "timeout_error",
        "api_error",
        "overloaded_error",
    ];
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        _ => match kind.filter(|kind| NAMES.contains(kind)) {
            Some(kind) => kind,
            None if (400..500).contains(&status) => "invalid_request_error",
            None => "api_error",
        },
    }
}

pub(super) fn google(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

/// Whether a kind is one of Google's, which are in capitals.
pub(super) fn is_googles(kind: &str) -> bool {
    kind.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Returns the status that an error in a stream would have had as an answer of its own; 500 where it does not say. 401
/// to 403 become 500 too: a refused credential of ours is not the client's fault.
pub fn reported_status(error: &UpstreamError) -> u16 {
    of_names(error.kind.as_deref(), error.code.as_deref())
        .filter(|status| !(401..=403).contains(status))
        .unwrap_or(500)
}

/// Returns the status that names the kind of an error. An error that was told with a good status has 502 as its own: its
/// names say whether it is a limit or an overload.
pub(super) fn naming(status: u16, kind: Option<&str>, code: Option<&str>) -> u16 {
    let told = of_names(kind, code).filter(|told| status == 502 && matches!(told, 429 | 503));
    told.unwrap_or(status)
}

fn of_names(kind: Option<&str>, code: Option<&str>) -> Option<u16> {
    let number = code.and_then(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    number.or_else(|| of_word(kind?)).or_else(|| of_word(code?))
}

/// Returns `error.code` for OpenAI-style clients. Google's is the status as a number, which is not one of their codes.
/// Clients shorten a conversation that is too long when they see OpenAI's code for it; Anthropic and Google say so in the
/// message only.
pub fn openai_code(error: &UpstreamError) -> Option<&str> {
    let of_google = error.kind.as_deref().is_some_and(is_googles);
    let told = error.code.as_deref().filter(|code| !of_google || code.parse::<u16>().is_err());
    told.or_else(|| {
        requests::is_of_long_prompt(&error.message.to_lowercase()).then_some("context_length_exceeded")
    })
}

fn of_word(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_request_error"
        | "context_length_exceeded"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "OUT_OF_RANGE" => 400,
        "not_found_error" | "model_not_found" | "NOT_FOUND" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" | "RESOURCE_EXHAUSTED" => 429,
        "overloaded_error" | "server_is_overloaded" | "slow_down" | "UNAVAILABLE" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        _ if OF_INPUT.contains(&word) => 400,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_status() {
        for (status, of_openai, of_anthropic) in [
            (400, "invalid_request_error", "invalid_request_error"),
            (401, "authentication_error", "authentication_error"),
            (403, "permission_error", "permission_error"),
            (404, "not_found_error", "not_found_error"),
            (413, "invalid_request_error", "request_too_large"),
            (429, "rate_limit_error", "rate_limit_error"),
            (500, "upstream_error", "api_error"),
            (501, "invalid_request_error", "api_error"),
            (502, "upstream_error", "api_error"),
            (503, "server_error", "overloaded_error"),
            (529, "upstream_error", "overloaded_error"),
        ] {
            assert_eq!(openai(status), of_openai, "{status}");
            assert_eq!(anthropic(None, status), of_anthropic, "{status}");
            assert_eq!(anthropic(Some("upstream_error"), status), of_anthropic, "{status}");
        }
        assert_eq!(anthropic(Some("overloaded_error"), 500), "overloaded_error");
        // Another dialect's word for a missing model.
        assert_eq!(anthropic(Some("invalid_request_error"), 404), "not_found_error");
    }

    #[test]
    fn only_googles_names_are_translated_for_openai_clients() {
        for (kind, status, shown) in [
            ("INVALID_ARGUMENT", 400, "invalid_request_error"),
            ("RESOURCE_EXHAUSTED", 429, "rate_limit_error"),
            ("INTERNAL", 500, "upstream_error"),
            ("overloaded_error", 529, "overloaded_error"),
            ("insufficient_quota", 429, "insufficient_quota"),
        ] {
            assert_eq!(in_openai_words(kind, status), shown);
        }
    }

    #[test]
    fn a_conversation_that_is_too_long_has_openais_code() {
        let google =
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
        for (kind, code, message, wanted) in [
            ("INVALID_ARGUMENT", Some("400"), google, Some("context_length_exceeded")),
            (
                "invalid_request_error",
                None,
                "prompt is too long: 210000 tokens > 200000 maximum",
                Some("context_length_exceeded"),
            ),
            (
                "invalid_request_error",
                Some("string_above_max_length"),
                "prompt is too long",
                Some("string_above_max_length"),
            ),
            ("INVALID_ARGUMENT", Some("400"), "Unknown name \"x\"", None),
        ] {
            let (kind, code) = (Some(kind.to_owned()), code.map(str::to_owned));
            assert_eq!(
                openai_code(&UpstreamError { kind, code, ..UpstreamError::new(message) }),
                wanted,
                "{message}"
            );
        }
    }

    #[test]
    fn what_an_error_says_tells_its_status() {
        let told = |kind: Option<&str>, code: Option<&str>| {
            let (kind, code) = (kind.map(str::to_owned), code.map(str::to_owned));
            reported_status(&UpstreamError { kind, code, ..UpstreamError::new("no") })
        };
        for (kind, code, status) in [
            (None, None, 500),
            (Some("UNAVAILABLE"), Some("503"), 503),
            (Some("overloaded_error"), None, 503),
            (Some("requests"), Some("rate_limit_exceeded"), 429),
            (Some("server_error"), Some("529"), 529),
            (Some("invalid_request_error"), Some("context_length_exceeded"), 400),
            (None, Some("invalid_prompt"), 400),
            (None, Some("image_parse_error"), 400),
            (Some("authentication_error"), None, 500),
            (None, Some("401"), 500),
            (None, Some("50001"), 500),
        ] {
            assert_eq!(told(kind, code), status, "{kind:?} {code:?}");
        }
    }
}
