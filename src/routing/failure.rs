//! What an upstream's failure means: whether another channel may do better, and how long this one rests.
//!
//! One rule for both (routing.md 9.1, 10.2): a failure that another channel might not have is the
//! channel's fault. It is retried there and cools here; anything else is the client's own and does neither,
//! so that no bad request can switch off channels. When the rest is over, a channel that failed often
//! in a row still stands behind the others for a while.

use serde_json::Value;

use super::error_text::ErrorText;
use crate::time::Millis;

/// No hint of a provider and no cap of an operator keeps a channel back for longer.
pub const LONGEST_REST_MS: Millis = 30 * 24 * 60 * 60 * 1000;
/// A failure further ahead than this was noted before the clock was set back.
pub(super) const SET_BACK: Millis = 60_000;

/// How long a failed channel rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    pub base_ms: Millis,
    /// The operator's cap on the base.
    pub max_ms: Millis,
}

/// Might another channel answer what this one refused with `status` and `text`? 402 joins the rule's
/// list: it speaks of our account's balance there, never of the client.
pub fn should_retry(status: u16, text: &str) -> bool {
    // A redirect is no answer: it means that the address of this channel is wrong.
    if !(400..500).contains(&status) || matches!(status, 401..=403 | 408 | 409 | 425 | 429) {
        return true;
    }
    let text = ErrorText::new(text);
    if text.sends_model_elsewhere() {
        return true;
    }
    !text.is_about_validation()
        && (text.is_about_protocol()
            || text.is_about_credential()
            || text.is_about_limit()
            || text.is_transient())
}

/// Does this failure speak against the channel, so that it is counted and cools?
/// Network errors, time-outs, judged failures and broken streams do as well, without a status.
pub fn is_channel_fault(status: u16, text: &str) -> bool {
    should_retry(status, text)
}

/// Has the credential used up what its provider grants, so that every channel with it is to cool?
pub fn is_usage_limit(status: u16, text: &str) -> bool {
    status == 429 && ErrorText::new(text).is_used_up()
}

/// When a channel that failed at `now` may be picked again. A provider's hint only lengthens the rest.
pub fn cooldown_until(now: Millis, cooldown: Cooldown, hint: Option<Millis>) -> Millis {
    let computed = now.saturating_add(cooldown.base_ms.min(cooldown.max_ms));
    let hinted = hint.map_or(computed, |hint| hint.min(now.saturating_add(LONGEST_REST_MS)));
    computed.max(hinted)
}

/// When the provider itself says the channel can be used again: the reset time in the body of a reached
/// usage limit, else `Retry-After`, in seconds or as a date. A time in the past is no hint.
pub fn provider_hint(status: u16, retry_after: Option<&str>, body: &[u8], now: Millis) -> Option<Millis> {
    let reset = if status == 429 { usage_limit_reset(body, now) } else { None };
    reset.or_else(|| retry_after_time(retry_after?.trim(), now)).filter(|until| *until > now)
}

fn usage_limit_reset(body: &[u8], now: Millis) -> Option<Millis> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    if error.get("type")?.as_str()? != "usage_limit_reached" {
        return None;
    }
    let seconds = |field| error.get(field).and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    // Float to integer casts saturate, so that no number of a provider can wrap.
    seconds("resets_at")
        .map(|at| (at * 1000.0) as Millis)
        .or_else(|| Some(now.saturating_add((seconds("resets_in_seconds")? * 1000.0) as Millis)))
}

fn retry_after_time(value: &str, now: Millis) -> Option<Millis> {
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(now.saturating_add(i64::from(seconds) * 1000));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(date.as_millisecond())
}

/// Has this channel failed so recently, for how often it failed in a row, that others go first
/// (routing.md 9.2)? The pause grows by Fibonacci from 15 s up to the operator's cap.
pub fn is_recent(consecutive_fail: u64, last_fail: Option<Millis>, now: Millis, max_ms: Millis) -> bool {
    let Some(last_fail) = last_fail.filter(|_| consecutive_fail > 0) else { return false };
    (-SET_BACK..avoidance_ms(consecutive_fail).min(max_ms)).contains(&(now - last_fail))
}

/// 15, 15, 30, 45, 75, 120 … seconds for the first, second, … failure in a row.
fn avoidance_ms(consecutive_fail: u64) -> Millis {
    let (mut current, mut next): (Millis, Millis) = (15_000, 15_000);
    for _ in 1..consecutive_fail.min(60) {
        (current, next) = (next, current + next);
    }
    current
}

#[cfg(test)]
mod tests {
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
            assert_eq!(should_retry(status, text), expected, "{status} {text}");
            assert_eq!(is_channel_fault(status, text), expected, "{status} {text}");
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
            assert_eq!(is_usage_limit(status, text), expected, "{status} {text}");
        }
    }

    #[test]
    fn a_failed_channel_rests_ten_minutes_and_longer_only_by_a_hint() {
        let now = 1_000_000;
        let capped = Cooldown { base_ms: 600_000, max_ms: 20_000 };
        for (cooldown, hint, rest) in [
            (TEN_MINUTES, None, 600_000),
            (capped, None, 20_000),
            (capped, Some(now + 50_000), 50_000),
            (TEN_MINUTES, Some(now + 50_000), 600_000),
            (TEN_MINUTES, Some(now + 3_600_000), 3_600_000),
            (TEN_MINUTES, Some(now + 9_000_000_000), 2_592_000_000),
            (TEN_MINUTES, Some(i64::MAX), 2_592_000_000),
            (TEN_MINUTES, Some(5), 600_000),
        ] {
            assert_eq!(cooldown_until(now, cooldown, hint), now + rest, "{cooldown:?} {hint:?}");
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
            assert_eq!(
                is_recent(fails, Some(now - ago), now, month),
                expected,
                "{fails} fails, {ago} ms ago"
            );
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
                r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#,
                Some(now + 90_000),
            ),
            (
                429,
                Some("5"),
                r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#,
                Some(now + 90_000),
            ),
            (429, Some("5"), r#"{"error":{"type":"usage_limit_reached"}}"#, Some(now + 5_000)),
            (429, Some(" 120 "), "busy", Some(now + 120_000)),
            (503, Some("Fri, 01 May 2026 09:00:00 GMT"), "", Some(now + 3_600_000)),
            (503, Some("Fri, 01 May 2026 07:00:00 GMT"), "", None),
            (400, None, r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":90}}"#, None),
            (429, None, r#"{"error":{"type":"rate_limit","resets_in_seconds":90}}"#, None),
            (429, Some("0"), "", None),
            (429, Some("-5"), "", None),
            (429, Some("soon"), "[1", None),
            (
                429,
                None,
                r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":1e300}}"#,
                Some(i64::MAX),
            ),
        ] {
            assert_eq!(
                provider_hint(status, retry_after, body.as_bytes(), now),
                hint,
                "{status} {retry_after:?} {body}"
            );
        }
    }
}
