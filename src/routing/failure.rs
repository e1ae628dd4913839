//! What an upstream's failure means: whose fault it is, whether to try another channel, and how long this one cools.
//!
//! | the upstream's answer | blame | another channel |
//! |---|---|---|
//! | 401, 402, 403, 408, 409, 425, 429, 5xx, a redirect | the channel's | is tried |
//! | 403 or 429 for something that the client chose | nobody's | is tried |
//! | a `code` or `type` in [`OF_CHANNEL`] | the channel's | is tried |
//! | a `code` or `type` in [`OF_MODEL`] | the channel's, if it claims to have the model | is tried |
//! | text about the channel ([`ErrorText`]) | nobody's | is tried |
//! | anything else | nobody's | is not tried |
//! | an error inside an answer with a good status, named | by the names | is tried |
//! | such an error without a `code` or `type` | the channel's, if the text is about it ([`is_blamed_by_text`]) | is tried |
//!
//! Beside a status that tells more, error text alone never blames a channel: upstreams quote the client, and one key's bad
//! request must not switch off what other keys use.
//!
//! ```text
//! failure ──cools, ten minutes──▶ half-open, until the provider's hint ──▶ as before
//!    ▲                              │      │
//!    └──────── a trial fails ───────┘      └── a trial succeeds ──▶ as before, with all of its credential
//! ```
//!
//! For a while after its cooldown, a channel that failed several times in a row still comes after the others.

use serde_json::Value;

use crate::error_words::ErrorText;
use crate::time::{DAY, MINUTE, Millis, from_http_date, of_unix};

/// The longest cooldown, in milliseconds: longer hints of providers are cut to it, and an operator's cap cannot exceed it.
pub const MAX_COOLDOWN_MS: Millis = 30 * DAY;
/// The tolerance for clock changes, in milliseconds: a failure further in the future than this was recorded before the
/// clock was set back.
pub(super) const SET_BACK: Millis = MINUTE;

/// The configured length of a failed channel's cooldown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    pub base_ms: Millis,
    /// The operator's cap on `base_ms`.
    pub max_ms: Millis,
}

/// Error codes and types by which upstreams report that a channel cannot serve any request: because of its credential, its
/// balance, its limits or trouble of its own. Names that also stand for a client's mistake (`invalid_request_error`,
/// `upstream_error`, `bad_response_status_code`) are left out. OpenRouter sends numbers instead of names; those count as
/// statuses. The names, in lower case, are from these references and sources:
///
/// | vendor | source |
/// |---|---|
/// | OpenAI | <https://developers.openai.com/api/docs/guides/error-codes>, <https://help.openai.com/en/articles/6614457> |
/// | ChatGPT's backend | <https://github.com/openai/codex> (`codex-rs/codex-api`) |
/// | Anthropic | <https://docs.claude.com/en/api/errors> |
/// | Google | <https://github.com/googleapis/googleapis> (`google/rpc/code.proto`, `google/api/error_reason.proto`) |
/// | Azure | <https://learn.microsoft.com/en-us/azure/ai-services/openai/reference> |
/// | AWS | <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html> |
/// | Groq | <https://console.groq.com/docs/errors> |
/// | Moonshot | <https://platform.kimi.com/docs/api/errors> |
/// | Alibaba | <https://help.aliyun.com/en/model-studio/error-code> |
/// | Volcengine | <https://www.volcengine.com/docs/82379/1299023> |
/// | OpenRouter | <https://openrouter.ai/docs/api/reference/errors-and-debugging> |
/// | one-api/new-api | <https://github.com/songquanpeng/one-api>, <https://github.com/QuantumNous/new-api> (`types/error.go`) |
/// | sub2api | <https://github.com/Wei-Shaw/sub2api> (`backend/internal/server/middleware/api_key_auth.go`) |
const OF_CHANNEL: &[&str] = &[
    // credential and account
    "access_terminated",
    "accessdeniedexception",
    "account_deactivated",
    "account_suspended",
    "api_key_disabled",
    "api_key_expired",
    "api_key_invalid",
    "api_key_required",
    "authentication_error",
    "empty_token",
    "group_deleted",
    "group_disabled",
    "incorrect_api_key_error",
    "invalid_api_key",
    "invalid_auth_header",
    "invalid_authentication_error",
    "invalid_organization",
    "invalid_token",
    "invalidapikey",
    "ip_not_authorized",
    "mismatched_organization",
    "organization_restricted",
    "permission_denied",
    "permission_denied_error",
    "permission_error",
    "subscription_invalid",
    "subscription_not_found",
    "token_expired",
    "unauthenticated",
    "unauthorized",
    "unsupported_country_region_territory",
    "usage_not_included",
    "user_inactive",
    "user_not_found",
    // balance and limits
    "accountoverdueerror",
    "allocationquota.freetieronly",
    "api_key_quota_exhausted",
    "arrearage",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_exhausted",
    "entitlement_daily_limit_exceeded",
    "entitlement_inactive",
    "entitlement_total_limit_exceeded",
    "exceeded_current_quota_error",
    "insufficient_balance",
    "insufficient_quota",
    "insufficient_user_quota",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "pre_consume_token_quota_failed",
    "project_spend_limit_exceeded",
    "quotaexceeded",
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limit_reached_error",
    "resource_exhausted",
    "servicequotaexceededexception",
    "setlimitexceeded",
    "throttling.allocationquota",
    "throttling.ratequota",
    "throttlingexception",
    "token_concurrency_limit_reached",
    "usage_limit_exceeded",
    "usage_limit_reached",
    // trouble of the upstream itself, or of the upstream behind it
    "channel:aws_client_error",
    "channel:header_override_invalid",
    "channel:invalid_key",
    "channel:model_mapped_error",
    "channel:no_available_key",
    "channel:param_override_invalid",
    "channel:response_time_exceeded",
    "do_request_failed",
    "engine_overloaded_error",
    "get_channel_failed",
    "modelnotreadyexception",
    "overloaded_error",
    "server_is_overloaded",
    "serveroverloaded",
    "service_unavailable",
    "service_unavailable_error",
    "serviceunavailableexception",
    "slow_down",
    "unavailable",
];
/// Names that blame the channel, like [`OF_CHANNEL`], but only when the error comes inside an answer with a good status.
/// With a 400, some hubs use them for any error.
const OF_TROUBLE: &[&str] = &[
    "api_error",
    "deadline_exceeded",
    "internal",
    "internal_error",
    "internal_server_error",
    "internalserverexception",
    "modelerrorexception",
    "modeltimeoutexception",
    "server_error",
    "timeout_error",
];
/// Error codes by which upstreams report that they do not have the model.
const OF_MODEL: &[&str] = &[
    "deployment_not_found",
    "deploymentnotfound",
    "invalid_model",
    "invalidendpointormodel.modelidaccessdisabled",
    "invalidendpointormodel.notfound",
    "model_decommissioned",
    "model_not_available",
    "model_not_found",
    "model_not_supported",
    "model_price_error",
    "model_terms_required",
    "modelnotfound",
    "modelnotopen",
];

/// The types under which hubs pass on an error of their own upstream.
const WRAPPERS: [&str; 3] = ["openai_error", "upstream_error", "new_api_error"];

/// The party at fault for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The failure counts against the channel, which cools.
    Channel,
    /// The channel lacks the model. That is its own fault, unless it accepts any name that a client makes up.
    Model,
    /// The client, or an unknown party: the failure is reported and logged, nothing else.
    Nobody,
}

/// Decides whose fault an answer is, by its status and the codes and types of its error. An error inside an answer with a
/// good status is judged by the names alone. Network errors, time-outs and broken streams have neither, and are the
/// channel's fault.
pub fn blame<'n>(status: u16, names: impl Iterator<Item = &'n str> + Clone) -> Blame {
    let is_one_of =
        |list: &[&str]| names.clone().any(|name| list.iter().any(|known| known.eq_ignore_ascii_case(name)));
    if is_one_of(OF_MODEL) {
        Blame::Model
    } else if is_status_of_channel(status)
        || is_one_of(OF_CHANNEL)
        || is_good(status) && is_one_of(OF_TROUBLE)
    {
        Blame::Channel
    } else {
        Blame::Nobody
    }
}

/// Returns the status that one of an error's names spells as a number (400 to 599): some hubs put it into `code` of an
/// error inside an answer with a good status.
pub fn status_named<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<u16> {
    names.find_map(|name| name.parse().ok().filter(|status| (400..600).contains(status)))
}

/// Returns whether an error of this type is one that a hub passes on from its own upstream.
pub fn is_wrapper(error_type: &str) -> bool {
    WRAPPERS.contains(&error_type)
}

/// Returns whether the status alone blames the channel. 402 is about our account's balance, never about the client. A
/// redirect is not an answer: the channel's address is wrong. A good status blames nobody.
fn is_status_of_channel(status: u16) -> bool {
    !is_good(status) && !(400..500).contains(&status) || matches!(status, 401..=403 | 408 | 409 | 425 | 429)
}

fn is_good(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Returns whether another channel might answer what this one refused with `status` and `text`, when nobody is to blame.
pub fn should_retry(status: u16, text: &ErrorText) -> bool {
    if is_status_of_channel(status) || text.sends_model_elsewhere() {
        return true;
    }
    !text.is_about_validation()
        && (text.is_about_protocol()
            || text.is_about_credential()
            || text.is_about_limit()
            || text.is_transient())
}

/// Returns whether an error inside an answer with a good status, which has no code or type, is the channel's fault: its text
/// is about our credential, our limits or trouble of the upstream. Hubs say so in words alone; of anything else the cause may
/// be what the client asks for.
pub fn is_blamed_by_text(text: &ErrorText) -> bool {
    !text.is_about_validation()
        && (text.is_about_credential() || text.is_about_limit() || text.is_transient())
}

/// Returns whether the credential has used up what its provider grants, so that every channel that uses it must cool.
pub fn is_usage_limit(status: u16, text: &ErrorText) -> bool {
    status == 429 && text.is_used_up() && !text.is_about_option()
}

/// How long a failed channel cools, and is half-open after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooldownTimes {
    /// The end of the cooldown; until then the channel is asked only as a last resort.
    pub cooldown_until: Millis,
    /// The end of the half-open time that follows, where the provider announced that it would refuse for longer.
    pub limited_until: Option<Millis>,
}

/// Computes the cooldown of a channel that failed at `now`. A provider's hint does not lengthen the cooldown: limits are lifted
/// early, hints are wrong, and the channel may be the only one.
pub fn cooldown_times(now: Millis, cooldown: Cooldown, hint: Option<Millis>) -> CooldownTimes {
    let cooldown_until = now.saturating_add(cooldown.base_ms.min(cooldown.max_ms));
    let hint = hint.map(|hint| hint.min(now.saturating_add(MAX_COOLDOWN_MS)));
    CooldownTimes { cooldown_until, limited_until: hint.filter(|hint| *hint > cooldown_until) }
}

/// Reads when the provider says that the channel can be used again: the reset time in the body of a reached usage limit,
/// else `retry-after-ms` as OpenAI's and Azure's SDKs read it, else `Retry-After`, in seconds or as a date, else the reset of
/// a plan's limit that was reached. A time in the past is ignored.
pub fn provider_hint(status: u16, retry: RetryHeaders<'_>, body: &[u8], now: Millis) -> Option<Millis> {
    let is_limit = status == 429;
    let reset = if is_limit { usage_limit_reset(body, now) } else { None };
    reset
        .or_else(|| wait_until(retry.after_ms?.trim().parse::<f64>().ok()?, now))
        .or_else(|| retry_after_time(retry.after?.trim(), now))
        .or_else(|| of_unix(retry.plan_reset.filter(|_| is_limit)?.trim().parse().ok()?))
        .filter(|until| *until > now)
}

/// The headers of a refusal that say when to come again.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryHeaders<'h> {
    /// `Retry-After`
    pub after: Option<&'h str>,
    /// `retry-after-ms`
    pub after_ms: Option<&'h str>,
    /// `anthropic-ratelimit-unified-reset` where that limit is reached, in seconds since 1970
    pub plan_reset: Option<&'h str>,
}

/// Reads when the limit resets that the body of a 429 reports as reached: OpenAI's usage limit of a plan, or OpenRouter's
/// `error.metadata.headers`, which repeats the header that its own answers do not have.
pub fn usage_limit_reset(body: &[u8], now: Millis) -> Option<Millis> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    if let Some(reset) = error.pointer("/metadata/headers/X-RateLimit-Reset") {
        return of_unix(reset.as_f64().or_else(|| reset.as_str()?.parse().ok())?);
    }
    if error.get("type")?.as_str()? != "usage_limit_reached" {
        return None;
    }
    let seconds = |field| error.get(field).and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    // Float to integer casts saturate, so that no number of a provider can wrap.
    seconds("resets_at")
        .and_then(of_unix)
        .or_else(|| Some(now.saturating_add((seconds("resets_in_seconds")? * 1000.0) as Millis)))
}

fn retry_after_time(value: &str, now: Millis) -> Option<Millis> {
    if let Ok(seconds) = value.parse::<f64>() {
        return wait_until(seconds * 1000.0, now);
    }
    from_http_date(value)
}

/// Returns the end of a wait in milliseconds; `None` for what is no wait.
fn wait_until(wait_ms: f64, now: Millis) -> Option<Millis> {
    const LONGEST: f64 = u32::MAX as f64 * 1000.0;
    (0.0..=LONGEST).contains(&wait_ms).then(|| now.saturating_add(wait_ms.ceil() as Millis))
}

/// Returns whether the channel's last failure is so recent, given how often it failed in a row, that other channels come
/// first. The pause grows as the Fibonacci numbers do, from 15 s up to the operator's cap.
pub fn is_recent(consecutive_fail: u64, last_fail: Option<Millis>, now: Millis, max_ms: Millis) -> bool {
    let Some(last_fail) = last_fail.filter(|_| consecutive_fail > 0) else { return false };
    (-SET_BACK..avoidance_ms(consecutive_fail).min(max_ms)).contains(&(now - last_fail))
}

/// Returns the pause in milliseconds: 15, 15, 30, 45, 75, 120 … seconds after the first, second, … failure in a row.
fn avoidance_ms(consecutive_fail: u64) -> Millis {
    let (mut current, mut next): (Millis, Millis) = (15_000, 15_000);
    for _ in 1..consecutive_fail.min(60) {
        (current, next) = (next, current + next);
    }
    current
}

#[cfg(test)]
mod tests;
