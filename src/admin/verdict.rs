//! What an upstream's refusal of a credential means to the person who typed it (upstreams.md 10.2):
//! a user id is missing, the user id is wrong, or a bot shield answered instead of the site.

/// A refusal that the operator can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    NeedsUserId,
    InvalidUserId,
    ShieldBlocked,
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
const MISMATCH_WORDS: [&str; 6] = [
    "mismatch",
    "not match",
    "invalid user id",
    "wrong user id",
    "\u{4e0d}\u{5339}\u{914d}",
    "\u{683c}\u{5f0f}\u{9519}\u{8bef}",
];
const MISSING_WORDS: [&str; 4] =
    ["missing new-api-user", "new-api-user required", "requires user id", "missing user id"];
const ABSENT_WORDS: [&str; 2] = ["not provided", "\u{672a}\u{63d0}\u{4f9b}"];
const SHIELD_PAGE_WORDS: [&str; 4] = ["var arg1", "acw_sc__v2", "cdn_sec_tc", "<script"];
const SHIELD_WORDS: [&str; 5] = ["shield", "challenge", "captcha", "acw_sc__v2", "arg1"];

// === impl Verdict ===

impl Verdict {
    /// Reads a refusal's text; `has_user_id` says whether the caller gave one. `None` when the text
    /// tells nothing of the kind.
    pub fn of(text: &str, has_user_id: bool) -> Option<Self> {
        let text = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let names_user_id = has(&USER_ID_WORDS);
        if names_user_id && has(&MISMATCH_WORDS) {
            return Some(Self::InvalidUserId);
        }
        if has(&MISSING_WORDS) || (names_user_id && has(&ABSENT_WORDS)) {
            return Some(Self::NeedsUserId);
        }
        if names_user_id {
            return Some(if has_user_id { Self::InvalidUserId } else { Self::NeedsUserId });
        }
        let is_page = text.contains("<html") || text.contains("<!doctype html") || text.contains("<script");
        if has(&SHIELD_WORDS) || (is_page && has(&SHIELD_PAGE_WORDS)) {
            return Some(Self::ShieldBlocked);
        }
        None
    }

    /// The flag in the answer's body.
    pub fn flag(self) -> &'static str {
        match self {
            Self::NeedsUserId => "needsUserId",
            Self::InvalidUserId => "invalidUserId",
            Self::ShieldBlocked => "shieldBlocked",
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NeedsUserId => "The site wants the user id of this credential: send platformUserId",
            Self::InvalidUserId => "The platformUserId does not belong to this credential",
            Self::ShieldBlocked => {
                "A web page or a bot shield answered instead of the API; check the address, or use an API key"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_meaning_that_fits_wins() {
        for (text, has_user_id, verdict) in [
            ("New-Api-User mismatch", false, Some(Verdict::InvalidUserId)),
            ("user id does not match the token", true, Some(Verdict::InvalidUserId)),
            ("invalid user id", true, Some(Verdict::InvalidUserId)),
            ("New-Api-User \u{4e0d}\u{5339}\u{914d}", false, Some(Verdict::InvalidUserId)),
            ("missing New-Api-User header", true, Some(Verdict::NeedsUserId)),
            ("\u{672a}\u{63d0}\u{4f9b} New-Api-User", false, Some(Verdict::NeedsUserId)),
            ("New-Api-User not provided", true, Some(Verdict::NeedsUserId)),
            ("check the user id", false, Some(Verdict::NeedsUserId)),
            ("check the user id", true, Some(Verdict::InvalidUserId)),
            ("<html><script>var arg1='00'</script></html>", false, Some(Verdict::ShieldBlocked)),
            ("Captcha required", false, Some(Verdict::ShieldBlocked)),
            ("HTTP 401: invalid api key", false, None),
            ("connection refused", true, None),
            ("", false, None),
        ] {
            assert_eq!(Verdict::of(text, has_user_id), verdict, "{text}");
        }
    }
}
