use super::*;

const TEN_MINUTES: Cooldown = Cooldown { base_ms: 600_000, max_ms: 2_592_000_000 };

#[test]
fn a_retry_elsewhere_is_decided_by_status_then_text() {
    for (status, text, expected) in [
        (302, "", true),
        (500, "", true),
        (502, "validation failed", true),
        (529, "overloaded", true),
        (401, "", true),
        (403, "", true),
        (408, "", true),
        (409, "", true),
        (425, "", true),
        (429, "", true),
        (404, "The model x does not exist", true),
        (404, "not found", false),
        (400, "timeout must be <= 60", false),
        (422, "", false),
        (400, "", false),
        (413, "too large", false),
        (400, "Unsupported Model: gpt-9", true),
        (400, "{\"error\":{\"code\":\"model_not_found\"}}", true),
        (400, "You do not have access to the model gpt-9", true),
        (400, "unknown provider for model gpt-9", true),
        (400, "不支持所选模型", true),
        (400, "当前分组不支持 gpt-9 模型", true),
        (400, "模型 gpt-9 暂不支持", true),
        (400, "validation: unknown model", true),
        (400, "validation failed: quota", false),
        (400, "Missing required parameter: messages", false),
        (400, "malformed body, request timed out", false),
        (415, "Unsupported media type", false),
        (400, "Unsupported legacy protocol, please use /v1/responses", true),
        (400, "this group does not allow /v1/messages dispatch", true),
        (400, "Unrecognized request URL (POST /v1/foo)", true),
        (404, "no Route matched with those values", true),
        (400, "Invalid API key", true),
        (400, "Invalid access token", true),
        (400, "Forbidden", true),
        (400, "Rate limit reached", true),
        (402, "insufficient quota", true),
        (400, "upstream: connection timed out", true),
        (400, "upstream: Bad Gateway", true),
        (400, "ECONNRESET", true),
    ] {
        assert_eq!(should_retry(status, &ErrorText::new(text)), expected, "{status} {text}");
    }
}

#[test]
fn blame_is_decided_by_status_and_names_alone() {
    use Blame::{Channel, Model, Nobody};
    for (status, names, expected) in [
        (302, vec![], Channel),
        (401, vec![], Channel),
        (402, vec![], Channel),
        (403, vec![], Channel),
        (408, vec![], Channel),
        (409, vec![], Channel),
        (425, vec![], Channel),
        (429, vec![], Channel),
        (500, vec![], Channel),
        (529, vec!["invalid_request_error"], Channel),
        (400, vec![], Nobody),
        (404, vec![], Nobody),
        (413, vec![], Nobody),
        (422, vec![], Nobody),
        (400, vec!["invalid_request_error", "context_length_exceeded"], Nobody),
        (400, vec!["INVALID_ARGUMENT", "400"], Nobody),
        (400, vec!["server_error"], Nobody),
        (400, vec!["INVALID_ARGUMENT", "400", "API_KEY_INVALID"], Channel),
        (400, vec!["billing_hard_limit_reached"], Channel),
        (400, vec!["Arrearage"], Channel),
        (400, vec!["ServiceQuotaExceededException"], Channel),
        (400, vec!["ValidationException"], Nobody),
        (200, vec!["insufficient_quota_of_nobody", "project_spend_limit_exceeded"], Channel),
        (200, vec!["credit_balance_exhausted"], Channel),
        (200, vec!["InternalServerException"], Channel),
        (404, vec!["invalid_request_error", "model_not_found"], Model),
        (503, vec!["new_api_error", "model_not_found"], Model),
        (200, vec![], Nobody),
        (200, vec!["server_error"], Channel),
        (200, vec!["invalid_request_error"], Nobody),
        (200, vec!["content_filter"], Nobody),
    ] {
        assert_eq!(blame(status, names.iter().copied()), expected, "{status} {names:?}");
    }
}

#[test]
fn an_error_told_within_an_answer_may_name_its_status() {
    for (names, expected) in [
        (vec!["502"], Some(502)),
        (vec!["INVALID_ARGUMENT", "400"], Some(400)),
        (vec!["server_error"], None),
        (vec!["50001"], None),
        (vec!["200"], None),
    ] {
        assert_eq!(status_named(names.iter().copied()), expected, "{names:?}");
    }
}

#[test]
fn only_a_429_about_a_limit_is_a_usage_limit() {
    for (status, text, expected) in [
        (429, "usage_limit_reached", true),
        (429, "The usage limit has been reached", true),
        (429, "Quota exceeded", true),
        (429, "Rate limit hit", true),
        (429, "unlimited", false),
        (429, "slow down", false),
        (403, "quota exceeded", false),
    ] {
        assert_eq!(is_usage_limit(status, &ErrorText::new(text)), expected, "{status} {text}");
    }
}

#[test]
fn a_failed_channel_cools_ten_minutes_whatever_its_provider_hints() {
    let now = 1_000_000;
    let capped = Cooldown { base_ms: 600_000, max_ms: 20_000 };
    for (cooldown, hint, cools, limited) in [
        (TEN_MINUTES, None, 600_000, None),
        (capped, None, 20_000, None),
        (capped, Some(now + 50_000), 20_000, Some(50_000)),
        (TEN_MINUTES, Some(now + 50_000), 600_000, None),
        (TEN_MINUTES, Some(now + 600_000), 600_000, None),
        (TEN_MINUTES, Some(now + 3_600_000), 600_000, Some(3_600_000)),
        (TEN_MINUTES, Some(now + 9_000_000_000), 600_000, Some(2_592_000_000)),
        (TEN_MINUTES, Some(i64::MAX), 600_000, Some(2_592_000_000)),
        (TEN_MINUTES, Some(5), 600_000, None),
    ] {
        let wanted =
            CooldownTimes { cooldown_until: now + cools, limited_until: limited.map(|after| now + after) };
        assert_eq!(cooldown_times(now, cooldown, hint), wanted, "{cooldown:?} {hint:?}");
    }
}

#[test]
fn a_channel_that_failed_in_a_row_is_avoided_the_longer_the_oftener() {
    let month = TEN_MINUTES.max_ms;
    for (fails, ago, expected) in [
        (0, 0, false),
        (1, 14_999, true),
        (1, 20_000, false),
        (2, 15_000, false),
        (3, 29_999, true),
        (4, 40_000, true),
        (4, 50_000, false),
        (5, 74_999, true),
        (6, 120_000, false),
        (10, 600_000, true),
        (u64::MAX, 2_591_999_999, true),
        (u64::MAX, 2_592_000_000, false),
    ] {
        let now = 9_000_000_000;
        assert_eq!(is_recent(fails, Some(now - ago), now, month), expected, "{fails} fails, {ago} ms ago");
    }
    assert!(!is_recent(4, Some(0), 20_000, 20_000), "the operator's cap holds here too");
    assert!(!is_recent(4, Some(90_000_000), 20_000, month), "the clock was set back");
    assert!(!is_recent(4, None, 20_000, month));
}

#[test]
fn providers_hint_in_the_body_or_in_retry_after() {
    let now = 1_777_622_400_000;
    for (status, retry_after, body, hint) in [
        (
            429,
            None,
            r#"{"error":{"type":"usage_limit_reached","resets_at":1777626000}}"#,
            Some(now + 3_600_000),
        ),
        (
            429,
            None,
            r#"{"error":{"type":"usage_limit_reached","resets_at":1777626000000}}"#,
            Some(now + 3_600_000),
        ),
        (429, None, r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#, Some(now + 90_000)),
        (
            429,
            Some("5"),
            r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#,
            Some(now + 90_000),
        ),
        (429, Some("5"), r#"{"error":{"type":"usage_limit_reached"}}"#, Some(now + 5_000)),
        (429, Some(" 120 "), "busy", Some(now + 120_000)),
        (429, Some("1200.5"), "busy", Some(now + 1_200_500)),
        (429, Some("nan"), "busy", None),
        (503, Some("Fri, 01 May 2026 09:00:00 GMT"), "", Some(now + 3_600_000)),
        (503, Some("Fri, 01 May 2026 07:00:00 GMT"), "", None),
        (429, Some("Friday, 01-May-26 09:00:00 GMT"), "", Some(now + 3_600_000)),
        (429, Some("Fri May  1 09:00:00 2026"), "", Some(now + 3_600_000)),
        (
            429,
            None,
            r#"{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"1777626000000"}}}}"#,
            Some(now + 3_600_000),
        ),
        (
            429,
            Some("5"),
            r#"{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"soon"}}}}"#,
            Some(now + 5_000),
        ),
        (400, None, r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#, None),
        (429, None, r#"{"error":{"type":"rate_limit","resets_in_seconds":90}}"#, None),
        (429, Some("0"), "", None),
        (429, Some("-5"), "", None),
        (429, Some("soon"), "[1", None),
        (429, None, r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":1e300}}"#, Some(i64::MAX)),
    ] {
        assert_eq!(
            provider_hint(
                status,
                RetryHeaders { after: retry_after, ..RetryHeaders::default() },
                body.as_bytes(),
                now
            ),
            hint,
            "{status} {retry_after:?} {body}"
        );
    }
    let both = RetryHeaders { after: Some("5"), after_ms: Some("2500"), plan_reset: Some("1777629600") };
    assert_eq!(provider_hint(429, both, b"", now), Some(now + 2500));
    let of_plan = RetryHeaders { plan_reset: Some("1777629600"), ..RetryHeaders::default() };
    assert_eq!(provider_hint(429, of_plan, b"", now), Some(1_777_629_600_000));
    assert_eq!(provider_hint(529, of_plan, b"", now), None, "not the cause");
}
