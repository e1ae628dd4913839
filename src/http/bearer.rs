//! The token of an `Authorization` header (RFC 6750 §2.1).

use std::sync::{Arc, Mutex};

use subtle::ConstantTimeEq;

use crate::sync::lock;

/// Longer tokens are hashed each time, so that a connection holds no more than this of a stranger's.
const LONGEST_KEPT: usize = 256;

/// The last token that came over a connection, with its hash. A hash that leads to no token takes longer than all the
/// rest of a check, and the requests of a connection nearly always show the same one.
#[derive(Clone, Default)]
pub struct LastToken(Arc<Mutex<Option<HashedToken>>>);

struct HashedToken {
    token: Box<[u8]>,
    hash: TokenHash,
}

/// A hash of 256 bits.
pub type TokenHash = [u8; 32];

impl LastToken {
    /// The hash of `token`, computed by `hash` where it is not the last one. Compared in constant time, since others may
    /// speak over the same connection.
    pub fn hash(&self, token: &[u8], hash: impl FnOnce(&[u8]) -> TokenHash) -> TokenHash {
        let mut last = lock(&self.0);
        if let Some(last) = &*last
            && bool::from(last.token.ct_eq(token))
        {
            return last.hash;
        }
        let hash = hash(token);
        *last = (token.len() <= LONGEST_KEPT).then(|| HashedToken { token: token.into(), hash });
        hash
    }
}

/// The token of `Bearer <token>`, the scheme in any case, or of a header that is the bare token.
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
    fn a_token_is_hashed_again_where_it_is_another_or_very_long() {
        let mut hashed = Vec::new();
        let last = LastToken::default();
        let long = "l".repeat(LONGEST_KEPT + 1);
        for token in ["a", "a", "b", "b", "ab", &long, &long, "b"] {
            let hash = |token: &[u8]| {
                hashed.push(String::from_utf8_lossy(token).into_owned());
                [token[0]; 32]
            };
            assert_eq!(last.hash(token.as_bytes(), hash), [token.as_bytes()[0]; 32]);
        }
        assert_eq!(hashed, ["a", "b", "ab", &long, &long, "b"]);
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
