//! Stores balances that were read from sites, with the members of `extraConfig` that come with them.

use serde_json::{Map, Value as Json};

use super::sql::Statement;
use super::touches::TouchedKind;
use super::{Error, Result, Store};
use crate::ids::AccountId;
use crate::money::Usd;
use crate::time::Millis;

/// The maximum number of attempts at a merge, because `extraConfig` may change under it. In every round one merge
/// succeeds, so that this many can run at once.
const ATTEMPTS: usize = 64;

/// A balance as read from a site, in USD.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewBalance {
    pub balance: Usd,
    pub used: Usd,
    pub quota: Usd,
    pub at: Millis,
}

/// Stores a balance and the other members of `extraConfig` as changed by `merge`. The statement applies only
/// while those members are what `merge` was given, so that no other change of them is lost. `along` runs in the
/// same transaction. An account that no longer exists, or that has another user than `user_id` by now, is left as it is.
/// Returns the balance that this one replaces, if one had been read before.
pub async fn record(
    store: &Store,
    (account_id, user_id): (AccountId, Option<i64>),
    numbers: &NewBalance,
    merge: impl Fn(&mut Map<String, Json>),
    along: &[Statement],
) -> Result<Option<Usd>> {
    for _ in 0..ATTEMPTS {
        let read = "SELECT extra, platform_user_id, balance, last_balance_refresh FROM accounts WHERE id = ?";
        let read = store.row(read, vec![account_id.into()], |row| {
            Ok((row.opt_text()?, row.opt_int()?, row.usd()?, row.opt_int()?))
        });
        let Some((before, user_now, former, read_at)) = read.await? else { return Ok(None) };
        if user_id.zip(user_now).is_some_and(|(user, now)| user != now) {
            return Ok(None);
        }
        let mut members: Map<String, Json> =
            before.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        merge(&mut members);
        let after = match (members.is_empty(), &before) {
            (true, None) => None,
            _ => Some(Json::from(members).to_string()),
        };
        let update = Statement::new(
            "UPDATE accounts SET balance = ?, balance_used = ?, quota = ?, last_balance_refresh = ?, \
             extra = ?, updated_at = ? WHERE id = ? AND COALESCE(extra, '') = ? AND COALESCE(platform_user_id, 0) = ? \
             AND COALESCE(last_balance_refresh, 0) = ?",
            vec![
                numbers.balance.into(),
                numbers.used.into(),
                numbers.quota.into(),
                numbers.at.into(),
                after.into(),
                numbers.at.into(),
                account_id.into(),
                before.unwrap_or_default().into(),
                user_now.unwrap_or(0).into(),
                read_at.unwrap_or(0).into(),
            ],
        )
        .touching(TouchedKind::Account, [account_id.into()]);
        let batch = std::iter::once(update).chain(along.iter().cloned()).collect();
        if store.batch(batch).await?[0].rows > 0 {
            return Ok(read_at.map(|_| former));
        }
    }
    Err(Error::Busy)
}
