//! Request members that models have refused as unknown: for a while they are left out from the start, so that a client that
//! sends one each time is not refused each time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dialect::Dialect;
use crate::ids::SiteId;
use crate::make_room::make_room;
use crate::sync::lock;
use crate::time::Millis;

/// How long a member is left out, in milliseconds. Then it is tried again: sites learn, and model names are reassigned.
const KEPT_MS: Millis = 60 * 60 * 1000;
const MAX_MODELS: usize = 512;

/// A model at a site, asked in a dialect.
type ModelInDialect = (SiteId, Dialect, String);

/// The members that are left out, by the model that refused them.
#[derive(Default)]
pub struct MemberRefusals {
    refused: Mutex<HashMap<ModelInDialect, Entry>>,
    /// The number of entries; mostly zero, and then a request takes no lock.
    count: AtomicUsize,
}

struct Entry {
    members: Vec<&'static str>,
    until: Millis,
}

impl MemberRefusals {
    /// Records that the model accepted a request only without these members.
    pub(in crate::proxy) fn refused(
        &self,
        (site, format, model): (SiteId, Dialect, &str),
        members: &[&'static str],
        now: Millis,
    ) {
        let asked = (site, format, model.to_owned());
        let mut refused = lock(&self.refused);
        make_room(&mut refused, &asked, MAX_MODELS, |refused| refused.until);
        let entry = refused.entry(asked).or_insert(Entry { members: Vec::new(), until: 0 });
        if entry.until <= now {
            *entry = Entry { members: Vec::new(), until: now + KEPT_MS };
        }
        for member in members {
            if !entry.members.contains(member) {
                entry.members.push(member);
            }
        }
        self.count.store(refused.len(), Ordering::Relaxed);
    }

    /// Returns the members to leave out for the model, in the order in which they were refused.
    pub(in crate::proxy) fn members(
        &self,
        (site, format, model): (SiteId, Dialect, &str),
        now: Millis,
    ) -> Vec<&'static str> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let asked = (site, format, model.to_owned());
        let mut refused = lock(&self.refused);
        match refused.get(&asked) {
            Some(kept) if kept.until > now => return kept.members.clone(),
            Some(_over) => drop(refused.remove(&asked)),
            None => {}
        }
        self.count.store(refused.len(), Ordering::Relaxed);
        Vec::new()
    }

    /// Forgets all refusals.
    pub fn clear(&self) {
        lock(&self.refused).clear();
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_refused_is_left_out_for_an_hour_there_and_nowhere_else() {
        let memory = MemberRefusals::default();
        let asked = |site, model| (SiteId::new(site), Dialect::Chat, model);
        assert!(memory.members(asked(1, "a"), 0).is_empty());
        memory.refused(asked(1, "a"), &["temperature"], 0);
        memory.refused(asked(1, "a"), &["temperature", "top_p"], KEPT_MS - 1);
        assert_eq!(memory.members(asked(1, "a"), KEPT_MS - 1), ["temperature", "top_p"]);
        assert!(memory.members(asked(1, "a"), KEPT_MS).is_empty());
        assert_eq!(memory.count.load(Ordering::Relaxed), 0, "no request takes the lock any more");
        assert!(memory.members(asked(1, "b"), 1).is_empty() && memory.members(asked(2, "a"), 1).is_empty());
        memory.refused(asked(1, "a"), &["seed"], KEPT_MS);
        assert_eq!(memory.members(asked(1, "a"), KEPT_MS), ["seed"]);
        for site in 2..MAX_MODELS as i64 + 10 {
            memory.refused(asked(site, "a"), &["seed"], 2 * KEPT_MS + site);
        }
        assert_eq!(lock(&memory.refused).len(), MAX_MODELS);
        memory.clear();
        assert!(memory.members(asked(MAX_MODELS as i64, "a"), 2 * KEPT_MS).is_empty());
    }
}
