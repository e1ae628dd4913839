//! The token of an `Authorization` header (RFC 6750 §2.1), and the last token that a connection has sent.

use std::sync::{Arc, Mutex};

use subtle::ConstantTimeEq;

use crate::sync::lock;

/// The longest token kept, in bytes. Longer ones are digested each time, so that strangers cannot make a connection hold
/// more.
const LONGEST_KEPT: usize = 256;

/// The last token sent over a connection, with its digest. The HMAC by which a downstream key is found costs more than the
/// rest of its check, and the requests of a connection nearly always send the same token.
#[derive(Clone, Default)]
pub struct LastToken(Arc<Mutex<Option<DigestedToken>>>);

struct DigestedToken {
    token: Box<[u8]>,
    digest: Digest,
}

/// The digest by which `keys` looks up tokens.
type Digest = [u8; 32];

impl LastToken {
    /// Returns the digest of `token`, calling `digest` if it is not the last token. Tokens are compared in constant time,
    /// since several callers may share the connection.
    pub fn digest(&self, token: &[u8], digest: impl FnOnce(&[u8]) -> Digest) -> Digest {
        let mut last = lock(&self.0);
        if let Some(last) = &*last
            && bool::from(last.token.ct_eq(token))
        {
            return last.digest;
        }
        let digest = digest(token);
        *last = (token.len() <= LONGEST_KEPT).then(|| DigestedToken { token: token.into(), digest });
        digest
    }
}

/// Returns the token of `Bearer <token>`, whatever the case of the scheme, or the whole header if it has no such scheme.
pub fn token(header: &[u8]) -> &[u8] {
    let header = header.trim_ascii();
    match header.split_at_checked(6) {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case(b"bearer") && rest.first().is_none_or(u8::is_ascii_whitespace) =>
        {
            rest.trim_ascii()
        }
        _ => header,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_digested_again_where_it_is_another_or_very_long() {
        let mut digested = Vec::new();
        let last = LastToken::default();
        let long = "l".repeat(LONGEST_KEPT + 1);
        for token in ["a", "a", "b", "b", "ab", &long, &long, "b"] {
            let digest = |token: &[u8]| {
                digested.push(String::from_utf8_lossy(token).into_owned());
                [token[0]; 32]
            };
            assert_eq!(last.digest(token.as_bytes(), digest), [token.as_bytes()[0]; 32]);
        }
        assert_eq!(digested, ["a", "b", "ab", &long, &long, "b"]);
    }

    #[test]
    fn a_token_comes_with_its_scheme_or_bare() {
        for (header, expected) in [
            ("Bearer a", "a"),
            ("bearer   a ", "a"),
            (" BEARER\ta b", "a b"),
            ("a", "a"),
            ("Bearer ", ""),
            ("Bearer", ""),
            ("bearerish", "bearerish"),
            ("Basic a", "Basic a"),
            ("", ""),
        ] {
            assert_eq!(token(header.as_bytes()), expected.as_bytes(), "{header:?}");
        }
    }
}
