//! Request members and betas that models have refused as unknown: for a while they are left out from the start, so that a
//! client that sends one each time is not refused each time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dialect::Dialect;
use crate::ids::SiteId;
use crate::make_room::make_room;
use crate::sync::lock;
use crate::time::{HOUR, Millis};

use crate::proxy::betas::RefusedBetas;

/// How long a member is left out, in milliseconds. Then it is tried again: sites learn, and model names are reassigned.
const KEPT_MS: Millis = HOUR;
const MAX_MODELS: usize = 512;

/// A model at a site, asked in a dialect.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct AskedModel<'a> {
    pub(in crate::proxy) site: SiteId,
    pub(in crate::proxy) dialect: Dialect,
    pub(in crate::proxy) name: &'a str,
}

/// An [`AskedModel`] as it is kept.
type ModelInDialect = (SiteId, Dialect, String);

/// The members and betas that are left out of requests, by the model that refused them.
#[derive(Default)]
pub struct MemberRefusals {
    refused: Mutex<HashMap<ModelInDialect, Entry>>,
    /// The number of entries; mostly zero, and then a request takes no lock.
    count: AtomicUsize,
}

struct Entry {
    refused: Refused,
    until: Millis,
}

/// The members and betas that a model has refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::proxy) struct Refused {
    /// Members, in the order in which they were refused.
    pub(in crate::proxy) members: Vec<&'static str>,
    pub(in crate::proxy) betas: RefusedBetas,
}

impl AskedModel<'_> {
    fn to_owned(self) -> ModelInDialect {
        (self.site, self.dialect, self.name.to_owned())
    }
}

impl Refused {
    pub(in crate::proxy) fn is_nothing(&self) -> bool {
        self.members.is_empty() && self.betas == RefusedBetas::None
    }
}

impl MemberRefusals {
    /// Records that the model accepted a request only without these.
    pub(in crate::proxy) fn refused(&self, asked: AskedModel<'_>, without: &Refused, now: Millis) {
        let asked = asked.to_owned();
        let mut refused = lock(&self.refused);
        make_room(&mut refused, &asked, MAX_MODELS, |refused| refused.until);
        let entry = refused.entry(asked).or_insert_with(|| Entry { refused: Refused::default(), until: 0 });
        if entry.until <= now {
            *entry = Entry { refused: Refused::default(), until: now + KEPT_MS };
        }
        let Refused { members, betas } = &mut entry.refused;
        for member in &without.members {
            if !members.contains(member) {
                members.push(member);
            }
        }
        betas.add(&without.betas);
        self.count.store(refused.len(), Ordering::Relaxed);
    }

    /// Returns what to leave out for the model.
    pub(in crate::proxy) fn of(&self, asked: AskedModel<'_>, now: Millis) -> Refused {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Refused::default();
        }
        let asked = asked.to_owned();
        let mut refused = lock(&self.refused);
        match refused.get(&asked) {
            Some(kept) if kept.until > now => return kept.refused.clone(),
            Some(_over) => drop(refused.remove(&asked)),
            None => {}
        }
        self.count.store(refused.len(), Ordering::Relaxed);
        Refused::default()
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
        let asked = |site, name| AskedModel { site: SiteId::new(site), dialect: Dialect::Chat, name };
        let without = |members: &[&'static str]| Refused { members: members.to_vec(), ..Refused::default() };
        let members = |site, model, now| memory.of(asked(site, model), now).members;
        assert!(members(1, "a", 0).is_empty());
        memory.refused(asked(1, "a"), &without(&["temperature"]), 0);
        memory.refused(asked(1, "a"), &without(&["temperature", "top_p"]), KEPT_MS - 1);
        assert_eq!(members(1, "a", KEPT_MS - 1), ["temperature", "top_p"]);
        assert!(members(1, "a", KEPT_MS).is_empty());
        assert_eq!(memory.count.load(Ordering::Relaxed), 0, "no request takes the lock any more");
        assert!(members(1, "b", 1).is_empty() && members(2, "a", 1).is_empty());
        memory.refused(asked(1, "a"), &without(&["seed"]), KEPT_MS);
        assert_eq!(members(1, "a", KEPT_MS), ["seed"]);
        for site in 2..MAX_MODELS as i64 + 10 {
            memory.refused(asked(site, "a"), &without(&["seed"]), 2 * KEPT_MS + site);
        }
        assert_eq!(lock(&memory.refused).len(), MAX_MODELS);
        memory.clear();
        assert!(members(MAX_MODELS as i64, "a", 2 * KEPT_MS).is_empty());
    }
}
