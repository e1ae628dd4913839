//! Classifies what sites say about a daily check-in. Sites agree on nothing but the words: status and codes tell
//! little. The phrases come from the sites of the new-api family, whose texts are Chinese and English, and from the
//! bot shields before them. Texts must be in lower case.

use super::has;
use super::sites::is_token_over;

const ALREADY: [&str; 11] = [
    "already checked in",
    "already signed",
    "already sign in",
    "今日已签到",
    "今天已签到",
    "今天已经签到",
    "今日已经签到",
    "已经签到",
    "已签到",
    "重复签到",
    "签到过",
];
const UNSUPPORTED: [&str; 8] = [
    "invalid url (post /api/user/checkin)",
    "invalid url (post /api/user/check_in)",
    "checkin endpoint not found",
    "check-in is not supported",
    "checkin is not supported",
    "does not support checkin",
    "not support checkin",
    "签到功能未启用",
];
const PATHS: [&str; 2] = ["/api/user/checkin", "/api/user/check_in"];
/// Words that stand beside the name of Cloudflare's Turnstile when its token is asked for.
const TURNSTILE: [&str; 3] = ["token", "校验", "验证"];
/// Phrases for a code in a picture, which newer sites of the family require.
const CAPTCHA: [&str; 2] = ["captcha", "验证码"];
/// Phrases of Cloudflare's and Alibaba Cloud's pages; the last is from our own messages about them.
const CHALLENGE: [&str; 6] = [
    "cloudflare",
    "cf challenge",
    "challenge required",
    "acw_sc__v2",
    "just a moment",
    "as bot shields send",
];
/// Cloudflare's phrases for a tunnel whose other end is gone.
const TUNNEL: [&str; 3] = ["cloudflare tunnel", "error 1033", "http 530"];
const NO_SESSION: [&str; 6] =
    ["jwt expired", "http 401", "session expired", "未登录", "not login", "not logged"];
const TIMEOUT: [&str; 4] = ["timeout", "timed out", "answer within", "超时"];
const UPSTREAM: [&str; 8] =
    ["http 4", "http 5", "bad gateway", "connect", "refused", "not json", "internal error", "服务器"];
/// Our own phrases for a site that is switched off.
const SITE_DISABLED: [&str; 3] = ["site disabled", "site is disabled", "site_disabled"];

/// Returns whether the check-in was done before, today.
pub fn is_already_done(text: &str) -> bool {
    has(text, &ALREADY)
}

/// Returns whether the site has no check-in.
pub fn is_unsupported(text: &str) -> bool {
    has(text, &UNSUPPORTED) || (text.contains("http 404") && has(text, &PATHS))
}

/// Returns whether the site requires a human.
pub fn wants_human(text: &str) -> bool {
    text.contains("turnstile") && has(text, &TURNSTILE) || has(text, &CAPTCHA)
}

/// Returns whether a bot shield answered in the site's place.
pub fn is_challenge(text: &str) -> bool {
    !is_tunnel(text) && has(text, &CHALLENGE)
}

/// Returns whether the tunnel to the site is down.
pub fn is_tunnel(text: &str) -> bool {
    has(text, &TUNNEL)
}

/// Returns whether the session is over, or there was none.
pub fn is_expired(text: &str) -> bool {
    has(text, &NO_SESSION) || is_token_over(text)
}

/// Returns whether no answer came in time.
pub fn is_timeout(text: &str) -> bool {
    has(text, &TIMEOUT)
}

/// Returns whether the site is in trouble.
pub fn is_trouble(text: &str) -> bool {
    has(text, &UPSTREAM)
}

/// Returns whether the operator has switched the site off.
pub fn is_of_disabled_site(text: &str) -> bool {
    has(text, &SITE_DISABLED)
}
