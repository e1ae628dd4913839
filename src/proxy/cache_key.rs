//! The `prompt_cache_key` of a conversation whose client has no word for one.
//!
//! OpenAI finds what it has cached of a prompt by this key, and clients of other dialects cannot send it. A request
//! of theirs that goes there gets one when it names its conversation: made of that name, the caller and the
//! channel under the index key of the database. So it is the same in every turn and after a restart, nobody else's,
//! and tells the upstream nothing.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dialect::Dialect;
use crate::dialect::canonical::Vendor;
use crate::hex;
use crate::platform::Platform;
use crate::store::Sealer;
use crate::sync::lock;
use crate::time::Millis;

use super::call::Call;

/// The member, at chat and responses.
pub(super) const MEMBER: &str = "prompt_cache_key";
/// How long a site that refuses the member is not sent it.
const REFUSED_MS: Millis = 6 * 60 * 60 * 1000;
const MAX_SITES: usize = 512;
/// What the key is for, so that it is no hash of anything stored.
const PURPOSE: &[u8] = b"prompt-cache";
/// Half of the hash.
const KEY_BYTES: usize = 16;

/// The key of a call on its way to a channel in another dialect; `None` where its conversation is not known. What
/// Claude Code says of its user without a session names a device, whose conversations are many.
pub(super) fn of(call: &Call, channel: i64, sealer: &Sealer) -> Option<String> {
    let session = call.client.session.as_deref().or(call.envelope.prompt_cache_key.as_deref())?;
    let caller = call.key_id.unwrap_or_default().to_be_bytes();
    let named: [&[u8]; 4] = [PURPOSE, &caller, session.as_bytes(), &channel.to_be_bytes()];
    Some(hex::encode(&sealer.derive(&named)[..KEY_BYTES]))
}

/// Whether it is OpenAI that is asked, in a dialect that has the member.
pub(super) fn is_known(platform: Platform, format: Dialect) -> bool {
    platform.profile().vendor == Vendor::OpenAi && matches!(format, Dialect::Chat | Dialect::Responses)
}

/// Which sites have refused the member, for as long as the process runs.
#[derive(Default)]
pub struct CacheKeyMemory {
    /// Until when.
    refused: Mutex<HashMap<i64, Millis>>,
    /// Mostly none: then a request takes no lock.
    count: AtomicUsize,
}

impl CacheKeyMemory {
    pub(super) fn refused(&self, site: i64, now: Millis) {
        let mut refused = lock(&self.refused);
        if refused.len() >= MAX_SITES && !refused.contains_key(&site) {
            let oldest = refused.iter().min_by_key(|(_, until)| **until).map(|(site, _)| *site);
            oldest.and_then(|oldest| refused.remove(&oldest));
        }
        refused.insert(site, now + REFUSED_MS);
        self.count.store(refused.len(), Ordering::Relaxed);
    }

    pub(super) fn refuses(&self, site: i64, now: Millis) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && lock(&self.refused).get(&site).is_some_and(|until| *until > now)
    }

    /// Forgets every refusal.
    pub fn clear(&self) {
        lock(&self.refused).clear();
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_six_hours() {
        let memory = CacheKeyMemory::default();
        assert!(!memory.refuses(1, 0));
        memory.refused(1, 0);
        assert!(memory.refuses(1, REFUSED_MS - 1) && !memory.refuses(1, REFUSED_MS) && !memory.refuses(2, 1));
        for site in 2..MAX_SITES as i64 + 10 {
            memory.refused(site, site);
        }
        assert_eq!(lock(&memory.refused).len(), MAX_SITES);
        assert!(!memory.refuses(1, 1) && memory.refuses(500, 501));
        memory.clear();
        assert!(!memory.refuses(500, 501));
    }
}
