//! The meaning of an upstream's refusal of a credential for the person who typed it: a user id is missing, the user id
//! is wrong, or a bot shield answered instead of the site.

use crate::error_words::sites;
use crate::upstream::platforms::SiteErrorKind;

/// A refusal that the operator can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialVerdict {
    NeedsUserId,
    InvalidUserId,
    ShieldBlocked,
}

// === impl CredentialVerdict ===

impl CredentialVerdict {
    /// Classifies a refusal by its text; `has_user_id` says whether the caller gave a user id. Returns `None` if the
    /// text has none of these meanings.
    pub fn of(text: &str, has_user_id: bool) -> Option<Self> {
        sites::meaning(text, None, has_user_id).map(SiteErrorKind::from).and_then(Self::of_kind)
    }

    /// Classifies a failed call to a site by its kind; `None` if the operator cannot act on it.
    pub fn of_kind(kind: SiteErrorKind) -> Option<Self> {
        match kind {
            SiteErrorKind::NeedsUserId => Some(Self::NeedsUserId),
            SiteErrorKind::InvalidUserId => Some(Self::InvalidUserId),
            SiteErrorKind::Shield => Some(Self::ShieldBlocked),
            _ => None,
        }
    }

    /// Returns the name of the flag in the response's body.
    pub fn flag(self) -> &'static str {
        match self {
            Self::NeedsUserId => "needsUserId",
            Self::InvalidUserId => "invalidUserId",
            Self::ShieldBlocked => "shieldBlocked",
        }
    }

    /// Returns advice for the operator.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NeedsUserId => "The site wants the user id of this credential: send platformUserId",
            Self::InvalidUserId => "The platformUserId does not belong to this credential",
            Self::ShieldBlocked => {
                "The site answered with a web page or a bot challenge instead of its API; check the \
                 address, or use an API key"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::admin::accounts::verdict::*;

    #[test]
    fn the_first_meaning_that_fits_wins() {
        for (text, has_user_id, verdict) in [
            ("New-Api-User mismatch", false, Some(CredentialVerdict::InvalidUserId)),
            ("user id does not match the token", true, Some(CredentialVerdict::InvalidUserId)),
            ("invalid user id", true, Some(CredentialVerdict::InvalidUserId)),
            ("New-Api-User \u{4e0d}\u{5339}\u{914d}", false, Some(CredentialVerdict::InvalidUserId)),
            ("missing New-Api-User header", true, Some(CredentialVerdict::NeedsUserId)),
            ("\u{672a}\u{63d0}\u{4f9b} New-Api-User", false, Some(CredentialVerdict::NeedsUserId)),
            ("New-Api-User not provided", true, Some(CredentialVerdict::NeedsUserId)),
            ("check the user id", false, Some(CredentialVerdict::NeedsUserId)),
            ("check the user id", true, Some(CredentialVerdict::InvalidUserId)),
            ("<html><script>var arg1='00'</script></html>", false, Some(CredentialVerdict::ShieldBlocked)),
            ("Captcha required", false, Some(CredentialVerdict::ShieldBlocked)),
            ("HTTP 401: invalid api key", false, None),
            ("connection refused", true, None),
            ("", false, None),
        ] {
            assert_eq!(CredentialVerdict::of(text, has_user_id), verdict, "{text}");
        }
    }
}
