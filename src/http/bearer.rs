//! The token of an `Authorization` header (RFC 6750 §2.1).

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
