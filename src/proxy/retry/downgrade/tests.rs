use bytes::Bytes;

use super::*;
use crate::dialect::Dialect::{Chat, Completions, Gemini, Messages, Responses};
use crate::proxy::held_body::HeldBody;
use crate::upstream::AnswerHeaders;

fn status(status: u16, body: &str) -> Failure {
    let body = HeldBody::whole(Bytes::copy_from_slice(body.as_bytes()));
    Failure::status(status, "/v1/x", &AnswerHeaders::default(), body, 0)
}

#[test]
fn only_what_is_about_the_dialect_moves_to_another() {
    let error = |message: &str| format!("{{\"error\":{{\"message\":\"{message}\"}}}}");
    let cases = [
        (404, "Not found".to_owned(), Some((None, true))),
        (404, error("The model x does not exist"), None),
        (405, String::new(), Some((None, true))),
        (501, String::new(), Some((None, true))),
        (500, error("boom"), None),
        (500, error("convert_request_failed"), Some((None, true))),
        (503, error("service temporarily unavailable"), None),
        (502, error("Bad gateway"), None),
        (429, error("slow down"), None),
        (400, error("context too long"), None),
        (400, error("input is required"), Some((Some(Responses), true))),
        (400, error("messages is required"), Some((Some(Messages), true))),
        (400, error("Unsupported legacy protocol: please use /v1/responses"), Some((Some(Responses), true))),
        (400, error("Unsupported value: temperature"), Some((None, false))),
        (400, error("Item not found"), Some((None, false))),
        (400, error("The model x was not found"), None),
        (400, error("This endpoint is only for Claude Code CLI"), Some((None, false))),
        (400, error("Only clients with a clip may do so"), None),
        (403, error("group does not allow /v1/messages dispatch"), Some((Some(Messages), true))),
        (401, error("bad key"), None),
        (
            400,
            error("The completion operation does not work with the model x (OperationNotSupported)"),
            Some((None, true)),
        ),
    ];
    let asked = Gemini;
    for (code, body, wanted) in cases {
        let found = downgrade(&status(code, &body), asked).map(|downgrade| (downgrade.to, downgrade.blocks));
        assert_eq!(found, wanted, "{code} {body}");
    }
    let second = std::time::Duration::from_secs(1);
    for silent in [Failure::silence(second), Failure::first_byte_timeout(second)] {
        assert_eq!(downgrade(&silent, Chat), None);
    }
}

#[test]
fn a_hint_at_an_endpoint_that_a_hub_passes_on_is_followed() {
    let refused = |kind: &str, message: &str| {
        let body = serde_json::json!({"error": {"message": message, "type": kind}});
        downgrade(&status(400, &body.to_string()), Chat).map(|downgrade| (downgrade.to, downgrade.blocks))
    };
    for (message, wanted) in [
        ("Please use the /v1/messages endpoint", Some((Some(Messages), true))),
        ("This model must be called via /v1/responses endpoint", Some((Some(Responses), true))),
        ("endpoint /v1/chat/completions not available", Some((None, false))),
        ("context too long", None),
    ] {
        for kind in ["openai_error", "upstream_error", "new_api_error"] {
            assert_eq!(refused(kind, message), wanted, "{kind}: {message}");
        }
        assert_eq!(refused("invalid_request_error", message), None, "{message}");
    }
}

#[test]
fn a_model_of_another_surface_is_asked_there() {
    let elsewhere = |to| Some(Downgrade { to: Some(to), blocks: true });
    for (asked, message, wanted) in [
        (
            Completions,
            "This is a chat model and not supported in the v1/completions endpoint. Did you mean to use v1/chat/completions?",
            elsewhere(Chat),
        ),
        (
            Chat,
            "This model is only supported in v1/responses and not in v1/chat/completions.",
            elsewhere(Responses),
        ),
        // No upstream is asked for completions instead.
        (
            Chat,
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?",
            None,
        ),
        (Completions, "The model x does not exist or you do not have access to it.", None),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"{message}\"}}}}");
        assert_eq!(downgrade(&status(404, &body), asked), wanted, "{message}");
    }
}
