//! Interprets a site's answer to a check-in, and explains the outcome of one. A site's answer is told by the words of its
//! message: sites agree on nothing else. A log row has the code of its reason.

use serde::Serialize;

use crate::error_words::check_ins;
use crate::store::checkins::{CheckinRow, CheckinStatus};

/// The message for an operator in place of a site's demand to prove that one is human.
pub const MANUAL: &str = "manual check-in needed";

/// What the message of a site's answer says about a check-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Today's check-in was done before.
    Already,
    /// The site has no check-in.
    Unsupported,
    /// The site asks for a human.
    Manual,
    /// None of the other classes; the message is taken as it is.
    Plain,
}

/// Why a check-in ended as it did, for people: what happened, what to do about it, and the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    pub code: &'static str,
    pub category: &'static str,
    pub title: &'static str,
    pub action_hint: &'static str,
    pub detail_hint: &'static str,
}

// === impl Class ===

impl Class {
    pub fn of(message: &str) -> Self {
        let text = message.to_lowercase();
        if check_ins::is_already_done(&text) {
            Self::Already
        } else if check_ins::is_unsupported(&text) {
            Self::Unsupported
        } else if check_ins::wants_human(&text) {
            Self::Manual
        } else {
            Self::Plain
        }
    }
}

/// Whether the site's guard against robots answered in its place.
pub fn is_challenge(message: &str) -> bool {
    check_ins::is_challenge(&message.to_lowercase())
}

// === impl Reason ===

impl Reason {
    /// Returns the reason of a log row. Rows of older releases have no code: their words tell it.
    pub fn of_row(row: &CheckinRow) -> Self {
        let known = if row.status == CheckinStatus::Success { &OF_SUCCESSES[..] } else { &OF_OTHERS };
        let stored = known.iter().find(|reason| row.reason.as_deref() == Some(reason.code)).copied();
        stored.unwrap_or_else(|| Self::by_words(row.status, row.message.as_deref().unwrap_or_default()))
    }

    /// Returns the first reason that fits the status and message of a check-in.
    pub fn by_words(status: CheckinStatus, message: &str) -> Self {
        let text = message.to_lowercase();
        let class = Class::of(message);
        if status == CheckinStatus::Success {
            return if class == Class::Already { CHECKED_IN } else { SUCCESS };
        }
        if check_ins::is_of_disabled_site(&text) {
            SITE_DISABLED
        } else if class == Class::Unsupported {
            NOT_SUPPORTED
        } else if class == Class::Manual || text.contains(MANUAL) {
            TURNSTILE
        } else if check_ins::is_tunnel(&text) {
            TUNNEL
        } else if is_challenge(message) {
            CHALLENGE
        } else if check_ins::is_expired(&text) {
            EXPIRED
        } else if class == Class::Already {
            CHECKED_IN
        } else if check_ins::is_timeout(&text) {
            TIMEOUT
        } else if check_ins::is_trouble(&text) {
            UPSTREAM
        } else {
            UNKNOWN
        }
    }
}

/// The reasons of successful check-ins.
const OF_SUCCESSES: [Reason; 2] = [SUCCESS, CHECKED_IN];
/// The reasons of check-ins that failed or were skipped.
const OF_OTHERS: [Reason; 10] = [
    SITE_DISABLED,
    NOT_SUPPORTED,
    TURNSTILE,
    TUNNEL,
    CHALLENGE,
    EXPIRED,
    CHECKED_IN,
    TIMEOUT,
    UPSTREAM,
    UNKNOWN,
];

pub const SITE_DISABLED: Reason = Reason {
    code: "site_disabled",
    category: "site",
    title: "Site disabled",
    action_hint: "Enable the site to check in there again",
    detail_hint: "The site was not asked",
};
pub const NOT_SUPPORTED: Reason = Reason {
    code: "checkin_not_supported",
    category: "site",
    title: "No check-in at this site",
    action_hint: "Disable the check-in of this account",
    detail_hint: "The site has no check-in, or its administrator switched it off",
};
pub const TURNSTILE: Reason = Reason {
    code: "manual_turnstile_required",
    category: "verification",
    title: "The site asks for a human",
    action_hint: "Check in by hand in a browser",
    detail_hint: "The site asks for a verification (Turnstile, a picture) that is for people",
};
const TUNNEL: Reason = Reason {
    code: "cloudflare_tunnel_unavailable",
    category: "network",
    title: "The site is not reachable behind Cloudflare",
    action_hint: "Try again later; if it lasts, tell the site's administrator",
    detail_hint: "Cloudflare cannot reach the site's server",
};
const CHALLENGE: Reason = Reason {
    code: "cloudflare_challenge",
    category: "verification",
    title: "A bot protection answered",
    action_hint: "Check in by hand, or use another proxy for this site",
    detail_hint: "The answer was a challenge page instead of the site's answer",
};
const EXPIRED: Reason = Reason {
    code: "token_expired",
    category: "auth",
    title: "The session expired",
    action_hint: "Bind the account again with a new session",
    detail_hint: "The site refuses the stored credential",
};
/// The reason of a success. The codes are a closed list that other programs know, and it has none for a success.
pub const SUCCESS: Reason = Reason {
    code: UNKNOWN.code,
    category: UNKNOWN.category,
    title: "Checked in",
    action_hint: "Nothing to do",
    detail_hint: "The site accepted the check-in",
};
pub const CHECKED_IN: Reason = Reason {
    code: "already_checked_in",
    category: "state",
    title: "Already checked in",
    action_hint: "Nothing to do",
    detail_hint: "The site accepts one check-in a day",
};
const TIMEOUT: Reason = Reason {
    code: "network_timeout",
    category: "network",
    title: "No answer in time",
    action_hint: "Try again later; check the proxy of the site",
    detail_hint: "The site did not answer within the time limit",
};
const UPSTREAM: Reason = Reason {
    code: "upstream_error",
    category: "site",
    title: "The site failed",
    action_hint: "Try again later",
    detail_hint: "The site answered with an error, or not at all",
};
pub const UNKNOWN: Reason = Reason {
    code: "unknown_error",
    category: "unknown",
    title: "Unknown reason",
    action_hint: "Read the message of the site",
    detail_hint: "The site's message matches no known reason",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AccountId, CheckinId, SiteId};

    #[test]
    fn messages_are_classified_by_their_words() {
        for (message, class) in [
            ("You have already checked in today", Class::Already),
            ("Already signed", Class::Already),
            ("already sign in", Class::Already),
            ("今日已签到", Class::Already),
            ("今天已签到", Class::Already),
            ("今天已经签到", Class::Already),
            ("今日已经签到", Class::Already),
            ("您已经签到了", Class::Already),
            ("用户已签到", Class::Already),
            ("请勿重复签到", Class::Already),
            ("今天签到过", Class::Already),
            ("Invalid URL (POST /api/user/checkin)", Class::Unsupported),
            ("HTTP 404: no route /api/user/checkin", Class::Unsupported),
            ("HTTP 404: page not found", Class::Plain),
            ("checkin endpoint not found", Class::Unsupported),
            ("Check-in is not supported by one-api", Class::Unsupported),
            ("checkin is not supported", Class::Unsupported),
            ("this site does not support checkin", Class::Unsupported),
            ("not support checkin", Class::Unsupported),
            ("签到功能未启用", Class::Unsupported),
            ("Turnstile token 为空", Class::Manual),
            ("Turnstile 校验失败，请刷新重试！", Class::Manual),
            ("turnstile 验证失败", Class::Manual),
            ("turnstile", Class::Plain),
            ("签到成功", Class::Plain),
            ("HTTP 502: Bad gateway", Class::Plain),
            ("", Class::Plain),
        ] {
            assert_eq!(Class::of(message), class, "{message}");
        }
    }

    #[test]
    fn words_say_why_by_the_first_reason_that_fits() {
        for (status, message, code, category) in [
            (CheckinStatus::Skipped, "site is disabled", "site_disabled", "site"),
            (CheckinStatus::Skipped, "Invalid URL (POST /api/user/checkin)", "checkin_not_supported", "site"),
            (CheckinStatus::Skipped, MANUAL, "manual_turnstile_required", "verification"),
            (CheckinStatus::Failed, "Turnstile token 为空", "manual_turnstile_required", "verification"),
            (
                CheckinStatus::Failed,
                "HTTP 530: Cloudflare Tunnel error (Error 1033)",
                "cloudflare_tunnel_unavailable",
                "network",
            ),
            (CheckinStatus::Failed, "HTTP 403: Just a moment...", "cloudflare_challenge", "verification"),
            (CheckinStatus::Failed, "cf challenge", "cloudflare_challenge", "verification"),
            (CheckinStatus::Failed, "access token is invalid", "token_expired", "auth"),
            (CheckinStatus::Failed, "无权进行此操作，令牌过期", "token_expired", "auth"),
            (CheckinStatus::Success, "今天已签到", "already_checked_in", "state"),
            (CheckinStatus::Failed, "no answer within 15 s", "network_timeout", "network"),
            (CheckinStatus::Failed, "no complete answer within 15 s", "network_timeout", "network"),
            (CheckinStatus::Failed, "HTTP 502: Bad gateway", "upstream_error", "site"),
            (CheckinStatus::Failed, "it did not work", "unknown_error", "unknown"),
            (CheckinStatus::Success, "签到成功", "unknown_error", "unknown"),
            (CheckinStatus::Success, "", "unknown_error", "unknown"),
            (CheckinStatus::Success, "the turnstile is open, HTTP 530 is over", "unknown_error", "unknown"),
        ] {
            let reason = Reason::by_words(status, message);
            assert_eq!((reason.code, reason.category), (code, category), "{message}");
        }
    }

    #[test]
    fn a_row_has_the_reason_that_was_stored_with_it() {
        let row = |status, reason: Option<&str>| CheckinRow {
            id: CheckinId::new(1),
            account_id: AccountId::new(1),
            status,
            message: Some("HTTP 502: Bad gateway".to_owned()),
            reward: None,
            reason: reason.map(str::to_owned),
            created_at: 0,
            username: None,
            account_status: String::new(),
            site_id: SiteId::new(1),
            site_name: String::new(),
            site_url: String::new(),
            site_platform: String::new(),
            site_status: String::new(),
        };
        for reason in OF_OTHERS {
            assert_eq!(Reason::of_row(&row(CheckinStatus::Failed, Some(reason.code))), reason);
        }
        for reason in OF_SUCCESSES {
            assert_eq!(Reason::of_row(&row(CheckinStatus::Success, Some(reason.code))), reason);
        }
        for unknown in [None, Some("of_a_newer_release")] {
            assert_eq!(Reason::of_row(&row(CheckinStatus::Failed, unknown)), UPSTREAM);
        }
    }
}
