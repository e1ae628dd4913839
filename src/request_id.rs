//! The id of a request, the same in its response's headers, in error bodies and in its log rows.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::header::HeaderValue;

/// An id of one request in logs and responses: `req_` and 24 hex digits, unique, not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    text: [u8; 28],
}

impl RequestId {
    /// Returns the next id: a per-process random start, stepped and mixed, so that ids of several processes do not
    /// collide and none costs a system call.
    pub fn next() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        static START: std::sync::OnceLock<(u64, u64)> = std::sync::OnceLock::new();
        let &(high, low) = START.get_or_init(|| (random_u64(), random_u64()));
        let step = COUNTER.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let first = mix(high.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let second = mix(low ^ step) as u32;
        let mut text = *b"req_000000000000000000000000";
        hex(&first.to_be_bytes(), &mut text[4..20]);
        hex(&second.to_be_bytes(), &mut text[20..28]);
        Self { text }
    }

    /// Reads a stored id; `None` if its length is wrong.
    pub fn parse(stored: &str) -> Option<Self> {
        Some(Self { text: stored.as_bytes().try_into().ok()? })
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.text).unwrap_or_else(|_| HeaderValue::from_static("req_0"))
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection whose outputs look random.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn hex(bytes: &[u8], out: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair.copy_from_slice(&crate::hex::digits(*byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_distinct() {
        let ids: std::collections::HashSet<String> =
            (0..1000).map(|_| RequestId::next().as_str().to_owned()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 28 && id.starts_with("req_")));
    }
}
