//! Alerts the operator once when an account's balance falls below `lowBalanceThreshold`: at the first reading that
//! finds it there.

use crate::core::Core;
use crate::money::Usd;
use crate::notify::Notice;
use crate::store::accounts::AccountRow;
use crate::store::events::{EventLevel, NewEvent};
use crate::store::sites::SiteRow;
use crate::time::now_ms;

/// Notifies the operator when `balance`, just read, fell below the threshold. `account` is the row as it was before. An
/// alert that cannot be stored is logged and sent all the same: the balance has been read.
pub async fn note(core: &Core, site: &SiteRow, account: &AccountRow, before: Option<Usd>, balance: Usd) {
    let threshold = Usd::new(core.settings.load().values.number("low_balance_threshold"));
    if !falls_below(threshold, before, balance) {
        return;
    }
    let name = account.username.as_deref().unwrap_or("(no name)");
    let event = NewEvent {
        kind: "balance",
        title: "Low balance".to_owned(),
        message: Some(format!(
            "Account {} ({name}) on site \"{}\" has {balance:.6} USD left, less than {threshold}",
            account.id, site.name
        )),
        level: EventLevel::Warning,
        related_id: Some(account.id.get()),
        related_type: Some("account"),
    };
    let notice = Notice::from(&event).about(format!("low-balance:{}", account.id));
    if let Err(error) = core.store.batch(vec![event.insert(now_ms())]).await {
        log::warn!("the event of the low balance of account {} could not be stored: {error}", account.id);
    }
    core.notifier.send(notice);
}

/// Whether the balance fell below the threshold with this reading. A threshold of 0 means no alerts, and a first
/// reading has no earlier one to fall from.
fn falls_below(threshold: Usd, before: Option<Usd>, now: Usd) -> bool {
    threshold > Usd::ZERO && now < threshold && before.is_some_and(|before| before >= threshold)
}

#[cfg(test)]
mod tests {
    use crate::jobs::balances::low::*;

    #[test]
    fn only_the_reading_that_falls_below_tells() {
        for (threshold, before, now, tells) in [
            (1.0, Some(1.0), 0.99, true),
            (1.0, Some(0.99), 0.98, false),
            (1.0, Some(5.0), 1.0, false),
            (1.0, Some(0.5), 5.0, false),
            (1.0, None, 0.5, false),
            (0.0, Some(1.0), -1.0, false),
        ] {
            let found = falls_below(Usd::new(threshold), before.map(Usd::new), Usd::new(now));
            assert_eq!(found, tells, "{threshold} {before:?} {now}");
        }
    }
}
