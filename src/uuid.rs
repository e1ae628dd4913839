//! Random names that nobody guesses and nothing else has.

use crate::hex;

/// A random UUID (RFC 9562, version 4).
///
/// # Panics
/// When the operating system gives no random bytes: nothing could be kept apart then.
pub fn v4() -> String {
    let mut bytes = random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// 32 hex digits: 128 random bits.
///
/// # Panics
/// When the operating system gives no random bytes, as [`v4`].
pub fn random_hex() -> String {
    hex::encode(&random())
}

/// 64 random bits.
///
/// # Panics
/// When the operating system gives no random bytes, as [`v4`].
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
    fn random_digits_come_once() {
        let digits = random_hex();
        assert!(digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
        assert_ne!(digits, random_hex());
    }
}
