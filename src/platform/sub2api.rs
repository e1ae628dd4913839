//! sub2api, which shares subscriptions of several vendors, each on a surface of its own.

use serde_json::Value;

use super::profile::{
    BodyEdit, Management, ModelList, OwnPages, Page, PageAnswer, PriceList, Profile, Title, UsageLog,
};
use super::relay;
use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;

pub(super) const PROFILE: Profile = Profile {
    id: "sub2api",
    aliases: &[],
    is_official: |_| false,
    host_words: &["sub2api"],
    title: Some(Title { pattern: r"\bsub2api\b", is_proof: true }),
    status: None,
    own_pages: Some(OwnPages {
        is_known: |_| false,
        pages: &[
            Page { path: "/api/v1/settings/public", is_own: is_settings },
            Page { path: "/api/v1/auth/me", is_own: |answer| answer.json.is_some_and(is_own_answer) },
            Page { path: "/v1/models", is_own: |answer| answer.json.is_some_and(is_own_answer) },
        ],
        outrank_status: false,
    }),
    data_paths: &["/antigravity/v1beta", "/antigravity/v1", "/antigravity", "/api/v1", "/v1beta", "/v1"],
    vendor: Vendor::Other,
    dialects: relay::dialects,
    unconverted: relay::UNCONVERTED,
    document_dialects: relay::document_dialects,
    fetches_files: false,
    lists_claude_dialects: false,
    has_extras: true,
    path: Dialect::path,
    compaction_path: "/v1/responses/compact",
    streams_responses_only: true,
    has_websocket: false,
    keeps_threads: false,
    code_assist: None,
    body_edit: Some(BodyEdit {
        dialect: Dialect::Responses,
        set: &[("store", "false"), ("stream", "true")],
        removed: &[],
        instructions: None,
        outranks_rules: false,
    }),
    login_headers: None,
    own_headers: &[],
    has_header_defaults: false,
    relays_codex: true,
    model_list: ModelList::PerSurface,
    management: Some(Management::Sub2Api),
    prices: Some(PriceList::Ratios),
    usage_log: Some(UsageLog {
        path: "/api/v1/usage?page=1&page_size=20&model={model}",
        only_without_usage: false,
    }),
    tokens_per_usd: 500_000.0,
};

/// Returns whether an answer has its public settings.
fn is_settings(answer: &PageAnswer<'_>) -> bool {
    answer.json.is_some_and(|settings| {
        settings.get("code") == Some(&Value::from(0))
            && settings.pointer("/data/site_name").is_some_and(Value::is_string)
    })
}

/// Returns whether an answer has its form, or its words for a request without a credential.
fn is_own_answer(answer: &Value) -> bool {
    let code = answer.get("code");
    let message = answer.get("message").and_then(Value::as_str).unwrap_or_default().to_lowercase();
    matches!(code.and_then(Value::as_str), Some("UNAUTHORIZED" | "API_KEY_REQUIRED"))
        || message.contains("authorization header is required")
        || message.contains("api key is required")
        || (code == Some(&Value::from(0)) && answer.get("data").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_its_own_words_are_sub2apis() {
        for (said, it_is) in [
            (json!({"code": "UNAUTHORIZED", "message": "Authorization header is required"}), true),
            (json!({"code": "API_KEY_REQUIRED"}), true),
            (json!({"message": "API key is required in Authorization header"}), true),
            (json!({"code": 0, "data": {}}), true),
            (json!({"code": 0}), false),
            (json!({"error": "unauthorized"}), false),
            (json!({"code": 401, "message": "unauthorized"}), false),
        ] {
            assert_eq!(is_own_answer(&said), it_is, "{said}");
        }
    }
}
