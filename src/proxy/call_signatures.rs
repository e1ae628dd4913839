//! Signatures of tool calls that clients cannot carry, kept by the call's id until the call comes back with its
//! result.
//!
//! Only signatures from Gemini's answers to clients of responses and messages are here; for everyone else there is
//! nothing to look up, which a request sees without a lock. When a signature is forgotten, the
//! upstream is sent the placeholder for a missing one.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ids::KeyId;
use crate::sync::lock;
use crate::time::{DAY, Millis};

const KEPT_MS: Millis = DAY;
const MAX_KEPT: usize = 4096;
/// The most bytes that a signature and its call's id may take, which is held twice; longer ones are not kept.
const MAX_LENGTH: usize = 16 * 1024;

/// The caller's key, and the call's id.
type Key = (Option<KeyId>, String);

/// The stored signatures of tool calls.
#[derive(Default)]
pub struct CallSignatures {
    kept: Mutex<Kept>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Kept {
    signatures: HashMap<Key, (String, Millis)>,
    /// When each was kept until, the earliest first; one that is kept again has a later entry, too.
    order: VecDeque<(Key, Millis)>,
}

impl CallSignatures {
    /// Keeps the signature of a tool call made for the caller with that key.
    pub(super) fn keep(&self, key: Option<KeyId>, call: String, signature: String, now: Millis) {
        if 2 * call.len() + signature.len() > MAX_LENGTH {
            return;
        }
        let (key, until) = ((key, call), now + KEPT_MS);
        let mut kept = lock(&self.kept);
        kept.order.push_back((key.clone(), until));
        kept.signatures.insert(key, (signature, until));
        while kept.order.len() > MAX_KEPT
            && let Some((oldest, until)) = kept.order.pop_front()
        {
            if kept.signatures.get(&oldest).is_some_and(|(_, latest)| *latest == until) {
                kept.signatures.remove(&oldest);
            }
        }
        self.count.store(kept.signatures.len(), Ordering::Relaxed);
    }

    /// Forgets every signature.
    pub fn clear(&self) {
        *lock(&self.kept) = Kept::default();
        self.count.store(0, Ordering::Relaxed);
    }

    /// Returns the signature of the caller's tool call.
    pub(super) fn find(&self, key: Option<KeyId>, call: &str, now: Millis) -> Option<String> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let kept = lock(&self.kept);
        let (signature, until) = kept.signatures.get(&(key, call.to_owned()))?;
        (*until > now).then(|| signature.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_its_callers_for_a_day() {
        let signatures = CallSignatures::default();
        assert_eq!(signatures.find(None, "c", 0), None);
        signatures.keep(Some(KeyId::new(1)), "c".to_owned(), "P".to_owned(), 0);
        assert_eq!(signatures.find(Some(KeyId::new(1)), "c", KEPT_MS - 1).as_deref(), Some("P"));
        for (key, call, now) in [
            (Some(KeyId::new(2)), "c", 1),
            (None, "c", 1),
            (Some(KeyId::new(1)), "d", 1),
            (Some(KeyId::new(1)), "c", KEPT_MS),
        ] {
            assert_eq!(signatures.find(key, call, now), None, "{key:?} {call} {now}");
        }
    }

    #[test]
    fn only_so_many_are_kept_the_latest_first() {
        let signatures = CallSignatures::default();
        for number in 0..MAX_KEPT as i64 + 10 {
            signatures.keep(None, number.to_string(), "P".to_owned(), number);
        }
        assert_eq!(signatures.kept.lock().unwrap().signatures.len(), MAX_KEPT);
        assert!(signatures.find(None, "0", 1).is_none() && signatures.find(None, "4105", 5000).is_some());
        signatures.keep(None, "long".to_owned(), "P".repeat(MAX_LENGTH), 1);
        assert_eq!(signatures.find(None, "long", 1), None);
    }
}
