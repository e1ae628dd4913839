//! The accounts that are being probed, and when channels were last asked.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::ids::{AccountId, ChannelOrMember, TokenId};
use crate::sync::lock;
use crate::time::Millis;

/// The probes under way and what they remember; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct Probes {
    pub(in crate::jobs) busy: Mutex<HashSet<AccountId>>,
    /// Models whose site was overloaded or did not answer when they were last asked for: the next pass asks for the
    /// others first.
    pub(super) put_off: Mutex<HashMap<AccountId, HashSet<ModelOf>>>,
    pub(super) recovery: Recovery,
}

impl Probes {
    /// Records whether the site was in trouble when it was asked for a model.
    pub(super) fn note(&self, account: AccountId, model: ModelOf, is_in_trouble: bool) {
        let mut put_off = lock(&self.put_off);
        if is_in_trouble {
            put_off.entry(account).or_default().insert(model);
        } else if let Some(models) = put_off.get_mut(&account) {
            models.remove(&model);
            if models.is_empty() {
                put_off.remove(&account);
            }
        }
    }
}

/// A model of an account, or of one of its tokens.
pub(super) type ModelOf = (Option<TokenId>, String);

/// When each channel, or member of a route unit, was last asked.
#[derive(Default)]
pub struct Recovery {
    pub(in crate::jobs) asked: Mutex<HashMap<ChannelOrMember, Millis>>,
}
