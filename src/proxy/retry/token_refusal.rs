//! Whether an upstream has refused the token that it was shown.

use hyper::header::WWW_AUTHENTICATE;

use crate::error_words::tokens;
use crate::upstream::AnswerHeaders;

/// How certain it is that a token was refused for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum TokenRefusal {
    Certain,
    /// What was refused may also be the plan, the region or the request.
    Perhaps,
}

impl TokenRefusal {
    /// What the answer with this status says of the token; nothing, where it was not refused for it.
    pub(in crate::proxy) fn of(status: u16, headers: &AnswerHeaders, body: &[u8]) -> Option<Self> {
        match status {
            401 => Some(Self::Certain),
            403 => {
                let challenge = headers.get(&WWW_AUTHENTICATE).unwrap_or_default();
                let names_it = |text: &[u8]| {
                    tokens::may_be_about_token(&String::from_utf8_lossy(text).to_ascii_lowercase())
                };
                (names_it(challenge) || names_it(body)).then_some(Self::Perhaps)
            }
            _ => None,
        }
    }
}
