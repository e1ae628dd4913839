//! Bytes as lower-case hex digits, two for each.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Encodes bytes as hex: `[0x0a, 0xff]` is `0aff`.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect()
}

/// Returns the two digits of a byte.
pub fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(encode(&[]), "");
        assert_eq!(encode(&[0x00, 0x0a, 0x90, 0xff]), "000a90ff");
    }
}
