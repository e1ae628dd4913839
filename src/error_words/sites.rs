//! Classifies what sites say on their management APIs about sessions and callers. The phrases come from the sites of
//! the new-api family, whose texts are Chinese and English, from sub2api, and from the pages of the bot shields
//! before them.
//!
//! The first meaning that fits a text counts: the user's number is wrong, it is missing, a bot shield answered
//! instead of the site, the session is over. A wrong or missing number comes with 401 too but does not end the
//! session, so it is looked for first.

use super::has;

/// The meaning of a site's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The user's number is not that of the credential.
    InvalidUserId,
    /// The site requires the user's number.
    NeedsUserId,
    /// A bot shield answered instead of the site.
    Shield,
    /// The session is over.
    Expired,
}

const USER_ID_WORDS: [&str; 8] = [
    "new-api-user",
    "veloera-user",
    "voapi-user",
    "rix-api-user",
    "neo-api-user",
    "user id",
    "user-id",
    "userid",
];
const MISMATCH_WORDS: [&str; 6] =
    ["mismatch", "not match", "invalid user id", "wrong user id", "不匹配", "格式错误"];
/// The phrase of the oldest forks for another user's number, which does not name the header.
const OTHER_USER: &str = "与登录用户不匹配";
/// Phrases that name the missing user's number; the headers that carry it are the first five of [`USER_ID_WORDS`].
const MISSING_WORDS: [&str; 2] = ["requires user id", "missing user id"];
const ABSENT_WORDS: [&str; 2] = ["not provided", "未提供"];

/// Marks in the pages of bot shields.
const SHIELD_MARKS: [&str; 3] = ["var arg1", "acw_sc__v2", "cdn_sec_tc"];
const SHIELD_WORDS: [&str; 5] = ["shield", "challenge", "captcha", "acw_sc__v2", "arg1"];

/// Phrases of a site that received no credential, which say nothing about the credential. The newest new-api says them of
/// every refusal; beside one of the codes that tell more ([`ENDED`]) they mean nothing.
const NO_CREDENTIAL: [&str; 3] =
    ["未登录且未提供", "not logged in and no access token", "not login and no access token"];
const EXPIRED: [&str; 3] = ["jwt expired", "token expired", "access token is invalid"];
const TOKEN: [&str; 2] = ["token", "令牌"];
const OVER: [&str; 4] = ["invalid", "无效", "expired", "过期"];
/// Phrases of the new-api family about an access token that it does not know.
const INVALID_TOKEN: [&str; 4] =
    ["access token 无效", "access token is invalid", "invalid access token", "token 无效"];
/// Phrases of any management API about a call by someone it does not know.
const NO_LOGIN: [&str; 7] =
    ["access token", "new-api-user", "unauthorized", "forbidden", "not login", "not logged", "未登录"];
/// Phrases of a site that could not read a token in this form, and of JSON readers about its answer.
const NOT_UNDERSTOOD: [&str; 6] =
    ["unexpected token", "not valid json", "not the json", "web page", "<html", "未提供"];
/// Phrases of any API about a key that it does not accept.
const REFUSED_KEY: [&str; 4] = ["invalid", "unauthorized", "无效", "未登录"];
/// Codes of sub2api and of the newest new-api.
const EXPIRED_CODES: [&str; 5] =
    ["token_expired", "invalid_token", "auth_token_expired", "auth_session_revoked", "auth_unauthorized"];

/// The codes among [`EXPIRED_CODES`] that only answer a session.
const ENDED: [&str; 3] = ["token_expired", "auth_token_expired", "auth_session_revoked"];

/// Reads the words of a failure, in any case; `has_user_id` tells whether the call carried a number.
pub fn meaning(text: &str, status: Option<u16>, has_user_id: bool) -> Option<Meaning> {
    let text = text.to_lowercase();
    user_id(&text, has_user_id)
        .or_else(|| is_shield_text(&text, status).then_some(Meaning::Shield))
        .or_else(|| is_expired(&text, status).then_some(Meaning::Expired))
}

fn user_id(text: &str, has_user_id: bool) -> Option<Meaning> {
    let names_it = has(text, &USER_ID_WORDS);
    if (names_it && has(text, &MISMATCH_WORDS)) || text.contains(OTHER_USER) {
        return Some(Meaning::InvalidUserId);
    }
    let (headers, _) = USER_ID_WORDS.split_at(5);
    let misses = |header: &&str| {
        text.match_indices(header).any(|(at, _)| {
            text[..at].trim_end().ends_with("missing")
                || text[at + header.len()..].trim_start().starts_with("required")
        })
    };
    let is_missing = has(text, &MISSING_WORDS) || headers.iter().any(misses);
    if is_missing || (names_it && has(text, &ABSENT_WORDS)) {
        return Some(Meaning::NeedsUserId);
    }
    match (names_it, has_user_id) {
        (false, _) => None,
        (true, true) => Some(Meaning::InvalidUserId),
        (true, false) => Some(Meaning::NeedsUserId),
    }
}

/// Returns whether a web page, in lower case, is a bot shield's. A page with a script where JSON was asked for is
/// one, unless the server itself says that it is down.
pub fn is_shield_page(page: &str, status: Option<u16>) -> bool {
    SHIELD_MARKS.iter().chain(&SHIELD_WORDS).any(|mark| page.contains(mark))
        || (page.contains("<script") && status.is_none_or(|status| status < 500))
}

fn is_shield_text(text: &str, status: Option<u16>) -> bool {
    let is_page = text.contains("<html") || text.contains("<!doctype html") || text.contains("<script");
    has(text, &SHIELD_WORDS) || (is_page && is_shield_page(text, status))
}

/// Returns whether the session is over. `text` is in lower case.
fn is_expired(text: &str, status: Option<u16>) -> bool {
    let is_dispatch =
        text.contains("dispatch denied") || (text.contains("does not allow") && text.contains("dispatch"));
    // A path that the site does not know may itself be `/api/token`.
    let is_missing = matches!(status, Some(404 | 405)) || names_no_route(text);
    let is_elsewhere = is_missing || status == Some(403) || status.is_some_and(|status| status >= 500);
    if is_dispatch || is_elsewhere || has(text, &NO_CREDENTIAL) && !has(text, &ENDED) {
        return false;
    }
    if status == Some(401) || says_http_401(text) {
        return true;
    }
    // The token is then not the session's but that of the site's bot check.
    if text.contains("turnstile") {
        return false;
    }
    has(text, &EXPIRED) || has(text, &EXPIRED_CODES) || is_token_over(text)
}

/// Returns whether 401 is named as the status, not as any number in a sentence.
fn says_http_401(text: &str) -> bool {
    ["http 401", "http/1.1 401", "status 401", "status code 401", "status: 401"].iter().any(|form| {
        text.match_indices(form)
            .any(|(at, form)| !text[at + form.len()..].starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Returns whether a token is called invalid or expired. `text` is in lower case, here and below.
pub fn is_token_over(text: &str) -> bool {
    has(text, &TOKEN) && has(text, &OVER)
}

/// Returns whether the access token is not the user's, or not any more.
pub fn is_invalid_token(text: &str) -> bool {
    has(text, &INVALID_TOKEN)
}

/// Returns whether a new login may help because the site does not know the caller.
pub fn wants_login(text: &str) -> bool {
    has(text, &NO_LOGIN) || text.contains("veloera-user")
}

/// Returns whether the credential may be understood when it is sent in another way.
pub fn has_not_understood(text: &str) -> bool {
    has(text, &NO_LOGIN) || has(text, &NOT_UNDERSTOOD)
}

/// Returns whether the key is not accepted. A text about JSON is about the request.
pub fn refuses_key(text: &str) -> bool {
    has(text, &REFUSED_KEY) && !text.contains("json")
}

/// Returns whether the site has no such route.
pub fn names_no_route(text: &str) -> bool {
    text.contains("invalid url (")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_meaning_that_fits_wins() {
        use Meaning::{Expired, InvalidUserId, NeedsUserId, Shield};
        for (text, status, has_user_id, kind) in [
            // about the user's number
            ("New-Api-User mismatch", None, false, Some(InvalidUserId)),
            ("user id does not match the token", None, true, Some(InvalidUserId)),
            ("invalid user id", None, true, Some(InvalidUserId)),
            ("无权进行此操作，New-Api-User 与登录用户不匹配", Some(401), true, Some(InvalidUserId)),
            ("无权进行此操作，New-Api-User 格式错误", Some(401), true, Some(InvalidUserId)),
            ("与登录用户不匹配，请重新登录", Some(401), true, Some(InvalidUserId)),
            ("missing New-Api-User header", None, true, Some(NeedsUserId)),
            ("无权进行此操作，未提供 New-Api-User", Some(401), false, Some(NeedsUserId)),
            ("Unauthorized, New-Api-User header not provided", Some(401), false, Some(NeedsUserId)),
            ("无权进行此操作，未提供 Veloera-User", Some(401), false, Some(NeedsUserId)),
            ("missing Veloera-User", Some(401), true, Some(NeedsUserId)),
            ("Rix-Api-User required", None, true, Some(NeedsUserId)),
            ("check the user id", None, false, Some(NeedsUserId)),
            ("check the user id", None, true, Some(InvalidUserId)),
            // a bot shield answered
            ("<html><script>var arg1='00'</script></html>", None, false, Some(Shield)),
            ("Captcha required", None, false, Some(Shield)),
            ("cf challenge", Some(403), false, Some(Shield)),
            // the session is over
            ("HTTP 401: nope", None, false, Some(Expired)),
            (
                "not logged in and no access token provided (AUTH_TOKEN_EXPIRED)",
                Some(401),
                true,
                Some(Expired),
            ),
            ("未登录且未提供 access token (AUTH_SESSION_REVOKED)", Some(401), true, Some(Expired)),
            ("nope", Some(401), false, Some(Expired)),
            ("jwt expired", None, false, Some(Expired)),
            ("Token expired", None, false, Some(Expired)),
            ("无权进行此操作，access token 无效", Some(200), true, Some(Expired)),
            ("令牌已过期", Some(200), true, Some(Expired)),
            ("access token is invalid", None, true, Some(Expired)),
            ("TOKEN_EXPIRED", None, false, Some(Expired)),
            ("AUTH_SESSION_REVOKED", None, false, Some(Expired)),
            // and it is not
            ("does not allow /v1/messages dispatch", Some(401), false, None),
            ("dispatch denied", Some(401), false, None),
            ("无权进行此操作，未登录且未提供 access token", Some(401), false, None),
            ("unauthorized", None, false, None),
            ("invalid token", Some(403), false, None),
            ("you have 401 messages", None, false, None),
            ("request 4013 failed: http 4013", None, false, None),
            ("invalid token", Some(502), false, None),
            ("Invalid URL (DELETE /api/token/7)", Some(404), true, None),
            ("HTTP 404: Invalid URL (GET /api/token/)", None, true, None),
            ("Turnstile token 无效", Some(200), false, None),
            ("connection refused", None, true, None),
            ("", None, false, None),
        ] {
            assert_eq!(meaning(text, status, has_user_id), kind, "{text} {status:?}");
        }
    }

    #[test]
    fn a_server_that_is_down_is_no_shield_for_its_scripts() {
        let page = "<html><head><script src=x></script></head><body>bad gateway</body></html>";
        assert!(is_shield_page(page, Some(200)));
        assert!(!is_shield_page(page, Some(502)));
    }
}
