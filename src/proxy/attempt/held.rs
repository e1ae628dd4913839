//! What an attempt holds while it runs.

use crate::limits::Lease;
use crate::metrics::GaugeGuard;
use crate::metrics::series::InFlightRequest;
use crate::proxy::key::quota::Admission;
use crate::routing::Trial;

/// The slots that an attempt holds while it runs: one at the site, one of the channel for its session, and for a cooling
/// channel its only trial.
#[derive(Default)]
pub(in crate::proxy) struct Slots {
    pub(in crate::proxy) site: Lease,
    pub(in crate::proxy) _session: Option<Lease>,
    pub(in crate::proxy) trial: Option<Trial>,
}

/// What an attempt holds until it is settled, or dropped.
pub(super) struct Held {
    /// The slots at the channel's site and on the channel.
    pub(super) slots: Slots,
    /// What the call holds of the key's limits.
    pub(super) admission: Admission,
    /// Counts the channel's work with this model in the metrics.
    pub(super) at_work: InFlightRequest,
    pub(super) _in_flight: GaugeGuard,
}

impl Held {
    /// Gives the slots to other requests.
    pub(super) fn release(&mut self) {
        self.slots = Slots::default();
        self.admission.release_slot();
    }
}
