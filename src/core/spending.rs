//! Spending of keys that is known only after a request, where several instances count it together. When little is left
//! of a limit, each instance writes its spending at once, and before it admits another request it waits for that and
//! reads what the others have written: so only requests in flight can exceed a limit.

use std::time::Duration;

use tokio::time::timeout;

use super::state::Core;
use crate::keys::{BudgetMask, Charge, Key};
use crate::store::{self, shared_key_usage};
use crate::time::monotonic_ms;

/// The longest time that a request waits for the spending of other instances; then the known amounts are used.
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Adds the cost of a request to its key's usage, in the given budgets.
    pub fn charge(&self, key: &Key, mask: BudgetMask, charge: &Charge) {
        let dirty = key.charge(mask, charge);
        let others = self.other_spenders();
        let is_near_limit = key.is_near_limit(others);
        let telemetry = self.store.telemetry();
        telemetry.dirty_key(&key.live, dirty, is_near_limit);
        if is_near_limit && others > 0 {
            telemetry.hurry();
        }
    }

    /// Reads other instances' spending of a key, if too little is known of it to admit a request.
    pub async fn refresh_spending(&self, key: &Key) {
        let others = self.other_spenders();
        let checks = &key.live.spend_checks;
        if others == 0 || !key.is_charged_later() || self.store.database().trouble().is_some() {
            return;
        }
        if !checks.is_due(monotonic_ms(), key.is_near_limit(others)) {
            return;
        }
        let before = checks.begun();
        let look = async {
            let _turn = key.live.turn.lock().await;
            if checks.begun() > before {
                return Ok(());
            }
            checks.begin();
            if key.is_near_limit(others) {
                self.store.flush().await;
            }
            shared_key_usage::look(&self.store, key).await?;
            checks.answered(monotonic_ms());
            Ok(())
        };
        let heard = match timeout(PATIENCE, look).await {
            Ok(heard) => heard.map_err(|error: store::Error| error.to_string()),
            Err(_) => Err("the database does not answer".to_owned()),
        };
        if let Err(why) = heard {
            log::debug!("cannot read what other instances have spent of downstream key {}: {why}", key.id);
            checks.unanswered(monotonic_ms());
        }
    }

    /// Returns how many other instances may be spending unreported amounts. One that has just started may not be known
    /// yet.
    fn other_spenders(&self) -> i64 {
        if self.store.database().is_shared() {
            i64::try_from(self.instances.load().len()).unwrap_or(i64::MAX).saturating_sub(1).max(1)
        } else {
            0
        }
    }
}
