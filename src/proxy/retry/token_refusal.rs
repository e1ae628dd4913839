//! Whether an upstream has refused the token of a request.

use hyper::header::WWW_AUTHENTICATE;

use crate::error_words::tokens;
use crate::upstream::AnswerHeaders;

/// How certain it is that the token itself was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum TokenRefusal {
    Certain,
    /// The refusal may also be about the plan, the region or the request.
    Perhaps,
}

impl TokenRefusal {
    /// Reads from an answer whether the token was refused; `None` where the refusal has another reason.
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
