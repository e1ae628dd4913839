//! Guesses the number of a session's user from its name, token or cookie. A guess counts only once the site has
//! confirmed it; nothing is tried at random.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::credential::bare_credential;

/// The settings for base64 with or without padding, for either alphabet.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The range of numbers that session cookies carry.
const IN_COOKIE: std::ops::RangeInclusive<i64> = 1..=10_000_000;

/// Returns every number that name and session suggest, the likeliest first.
pub(super) fn candidates(username: Option<&str>, session: &str) -> Vec<i64> {
    let mut ids = Vec::new();
    let found = [username.and_then(of_username), of_jwt(session), of_cookie(session)];
    for id in found.into_iter().flatten() {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Returns the 3 to 8 digits at the end of a name: `linuxdo_7659` is 7659.
pub fn of_username(name: &str) -> Option<i64> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let id = name[name.len() - digits..].parse().ok()?;
    ((3..=8).contains(&digits) && id > 0).then_some(id)
}

/// Returns the payload's `id`, or a numeric `sub`.
fn of_jwt(session: &str) -> Option<i64> {
    let payload = bare_credential(session).split('.').nth(1)?;
    let payload: Value = serde_json::from_slice(&decode(payload)?).ok()?;
    let number = |name: &str| match payload.get(name)? {
        Value::String(text) => text.parse().ok(),
        number => number.as_i64(),
    };
    number("id").or_else(|| number("sub")).filter(|id| *id > 0)
}

/// Returns the number that a Go server of the family keeps in its `session` cookie.
fn of_cookie(session: &str) -> Option<i64> {
    let value = session.split(';').find_map(|pair| pair.trim().strip_prefix("session=")).unwrap_or(session);
    let outer = decode(value.trim())?;
    let middle = outer.split(|byte| *byte == b'|').nth(1)?;
    let inner = decode(std::str::from_utf8(middle).ok()?)?;
    let id = of_gob(&inner).or_else(|| of_text(&String::from_utf8_lossy(&inner)))?;
    IN_COOKIE.contains(&id).then_some(id)
}

/// Returns the value of the key `id` in a gob map: `id`, then a value of type `int`.
fn of_gob(bytes: &[u8]) -> Option<i64> {
    const KEY: &[u8] = b"id\x03int\x04";
    let at = memchr::memmem::find(bytes, KEY)? + KEY.len();
    // Skips the value's length and a zero; the number follows.
    let number = bytes.get(at..)?.get(2..)?;
    let (first, rest) = number.split_first()?;
    let unsigned = match first {
        0..=0x7f => u64::from(*first),
        // A longer number begins with minus the count of its bytes.
        _ => {
            let length = usize::from(first.wrapping_neg());
            let bytes = rest.get(..length).filter(|bytes| bytes.len() <= 8)?;
            bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        }
    };
    // Gob keeps the sign in the lowest bit.
    let half = i64::try_from(unsigned >> 1).ok()?;
    Some(if unsigned & 1 == 0 { half } else { -half - 1 })
}

/// Returns the number of `linuxdo_7659` or `user_id:7659` in readable text.
fn of_text(text: &str) -> Option<i64> {
    let digits_at = |rest: &str| -> Option<i64> {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (4..=8).contains(&digits.len()).then(|| digits.parse().ok())?
    };
    let after_underscore = text.match_indices('_').find_map(|(at, _)| digits_at(&text[at + 1..]));
    after_underscore.or_else(|| {
        let rest = &text[text.find("user")? + 4..];
        let rest = &rest[rest.find("id")? + 2..];
        digits_at(rest.trim_start_matches(|c: char| !c.is_ascii_digit()))
    })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a cookie as gorilla/securecookie writes it: date, value and signature, joined by `|`.
    fn cookie(value: &[u8]) -> String {
        let inner = URL_SAFE.encode(value);
        let outer = [b"1767225600|".as_slice(), inner.as_bytes(), b"|signature"].concat();
        format!("session={}", URL_SAFE.encode(outer))
    }

    #[test]
    fn a_name_may_end_in_its_number() {
        for (name, id) in [
            ("linuxdo_7659", Some(7659)),
            ("id_12", None),
            ("ada", None),
            ("u123", Some(123)),
            ("123", Some(123)),
            ("n123456789", None),
            ("n000", None),
            ("", None),
        ] {
            assert_eq!(of_username(name), id, "{name}");
        }
    }

    #[test]
    fn a_jwt_says_its_number() {
        let jwt = |payload: &str| format!("eyJhbGciOiJIUzI1NiJ9.{}.c2ln", URL_SAFE.encode(payload));
        for (session, id) in [
            (jwt(r#"{"id":7659}"#), Some(7659)),
            (jwt(r#"{"sub":"42"}"#), Some(42)),
            (jwt(r#"{"sub":"ada"}"#), None),
            ("a.b.c".to_owned(), None),
            ("plain".to_owned(), None),
        ] {
            assert_eq!(of_jwt(&session), id, "{session}");
        }
    }

    #[test]
    fn a_session_cookie_says_its_number() {
        for (value, id) in [
            // gob: key, type, length, zero, then 7659 * 2 in two bytes
            (b"\x02id\x03int\x04\x04\x00\xfe\x3b\xd6\x06role".to_vec(), Some(7659)),
            (b"\x02id\x03int\x04\x02\x00\x0e".to_vec(), Some(7)),
            (b"\x02id\x03int\x04\x02\x00\x0f".to_vec(), None), // -8
            (b"\x02id\x03int\x04\x04\x00\xfe".to_vec(), None), // cut off
            (b"...linuxdo_7659...".to_vec(), Some(7659)),
            (b"user-id:=7659".to_vec(), Some(7659)),
            (b"nothing".to_vec(), None),
        ] {
            assert_eq!(of_cookie(&cookie(&value)), id, "{value:?}");
        }
        assert_eq!(of_cookie("session=%%%"), None);
    }

    #[test]
    fn every_suggestion_is_kept_once() {
        let session = cookie(b"\x02id\x03int\x04\x02\x00\x0e");
        assert_eq!(candidates(Some("ada_007"), &session), [7]);
        assert_eq!(candidates(Some("linuxdo_7659"), &session), [7659, 7]);
        assert_eq!(candidates(None, "pat"), Vec::<i64>::new());
    }
}
