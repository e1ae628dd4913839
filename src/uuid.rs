//! Random, unguessable and unique ids.

use crate::hex;

/// Returns a random UUID (RFC 9562, version 4).
///
/// # Panics
/// Panics if the operating system gives no random bytes: nothing could be kept apart then.
pub fn v4() -> String {
    written(random(), 0x40)
}

/// Returns a name-based UUID (RFC 9562, version 5) made of 32 hex digits that are themselves a hash; `None` for
/// anything else.
pub fn shaped(digits: &str) -> Option<String> {
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(written(number.to_be_bytes(), 0x50))
}

fn written(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Returns 32 hex digits: 128 random bits.
///
/// # Panics
/// Panics if the operating system gives no random bytes, as [`v4`] does.
pub fn random_hex() -> String {
    hex::encode(&random())
}

/// Returns 64 random bits.
///
/// # Panics
/// Panics if the operating system gives no random bytes, as [`v4`] does.
pub fn random_number() -> u64 {
    u128::from_be_bytes(random()) as u64
}

fn random() -> [u8; 16] {
    ring::rand::generate(&ring::rand::SystemRandom::new())
        .expect("the operating system gives random bytes")
        .expose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_its_version_and_comes_once() {
        let id = v4();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
        assert_ne!(id, v4());
    }

    #[test]
    fn a_hash_takes_the_form_of_a_uuid() {
        assert_eq!(
            shaped("00112233445566778899aabbccddeeff").as_deref(),
            Some("00112233-4455-5677-8899-aabbccddeeff")
        );
        assert_eq!(shaped("0011"), None);
        assert_eq!(shaped("x0112233445566778899aabbccddeeff"), None);
    }

    #[test]
    fn random_digits_come_once() {
        let digits = random_hex();
        assert!(digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
        assert_ne!(digits, random_hex());
    }
}
