//! What keys spend that is known only afterwards, where several instances count it together. Where little is left of a limit
//! each writes at once what it has spent, and before it lets in another request it waits for that and looks what the others
//! have written: so what goes beyond a limit is what is under way.

use std::time::Duration;

use tokio::time::timeout;

use super::state::Core;
use crate::keys::{BudgetMask, Charge, Key};
use crate::store::{self, shared_use};
use crate::time::monotonic_ms;

/// How long a request waits for what others have spent; then it goes by what is known.
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Adds what a request cost that is counted in these budgets to what its key has used.
    pub fn charge(&self, key: &Key, mask: BudgetMask, charge: &Charge) {
        let is_unwritten = key.charge(mask, charge);
        let others = self.other_spenders();
        let is_near_limit = key.is_near_limit(others);
        let telemetry = self.store.telemetry();
        if is_unwritten {
            telemetry.dirty_key(key.live.clone(), is_near_limit);
        }
        if is_near_limit && others > 0 {
            telemetry.hurry();
        }
    }

    /// Hears what other instances have spent of a key, where too little is known of that to let a request in.
    pub async fn hear_of_spending(&self, key: &Key) {
        let others = self.other_spenders();
        let looks = &key.live.looks;
        if others == 0 || !key.is_charged_later() || self.store.database().trouble().is_some() {
            return;
        }
        if !looks.is_due(monotonic_ms(), key.is_near_limit(others)) {
            return;
        }
        let before = looks.begun();
        let look = async {
            let _turn = key.live.turn.lock().await;
            if looks.begun() > before {
                return Ok(());
            }
            looks.begin();
            if key.is_near_limit(others) {
                self.store.flush().await;
            }
            shared_use::look(&self.store, key).await?;
            looks.answered(monotonic_ms());
            Ok(())
        };
        let heard = match timeout(PATIENCE, look).await {
            Ok(heard) => heard.map_err(|error: store::Error| error.to_string()),
            Err(_) => Err("the database does not answer".to_owned()),
        };
        if let Err(why) = heard {
            log::debug!("what others have spent of downstream key {}: {why}", key.id);
            looks.unanswered(monotonic_ms());
        }
    }

    /// How many others may spend of the keys unheard. One that has just started may not be known yet.
    fn other_spenders(&self) -> i64 {
        match self.store.database().is_shared() {
            true => i64::try_from(self.instances.load().len()).unwrap_or(i64::MAX).saturating_sub(1).max(1),
            false => 0,
        }
    }
}
