//! Who is being probed, and which channels were asked lately.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::ids::{AccountId, ChannelId};
use crate::time::Millis;

/// Who is being probed; [`Jobs`](crate::jobs::Jobs) holds one.
#[derive(Default)]
pub struct Probes {
    pub(in crate::jobs) busy: Mutex<HashSet<AccountId>>,
    pub(super) recovery: Recovery,
}

/// When each channel was asked last.
#[derive(Default)]
pub struct Recovery {
    pub(in crate::jobs) asked: Mutex<HashMap<ChannelId, Millis>>,
}
