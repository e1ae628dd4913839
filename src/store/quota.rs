//! Request limits of downstream keys that hold across a crash.
//!
//! A block of requests is counted in the database before any of it is spent, by one conditional update; the
//! unspent rest is returned after a while without requests, before a change of the key, and when the service
//! stops. The windows of budgets work the same way. Every function here takes the key's turn, or asks its
//! caller to hold it.

use std::borrow::Cow;

use super::sql::{Statement, Value};
use super::{Error, Result, Store, budgets};
use crate::ids::KeyId;
use crate::keys::{BudgetLive, KeyLive, Quota};
use crate::time::{Millis, now_ms};

/// The number of attempts; other instances may change the counter between a read and an update.
const TRIES: usize = 4;

/// The row in which requests are counted.
enum Counter<'a> {
    /// The row of all requests of a key.
    Key(KeyId),
    /// The row of a budget's window.
    Window { key: KeyId, scope: Cow<'a, str>, start: Millis },
}

/// Refills the block of a key's requests; returns false when the limit is reached. The caller must hold the
/// key's turn and must not drop the future: the commit would count requests that nobody could spend.
pub async fn reserve(store: &Store, live: &KeyLive, max: i64) -> Result<bool> {
    top_up(store, &live.requests, max, &Counter::Key(live.id)).await
}

/// Refills the block of requests of a budget's open window, like [`reserve`].
pub async fn reserve_in_window(store: &Store, key: KeyId, budget: &BudgetLive, max: i64) -> Result<bool> {
    let (requests, start) = budget.requests();
    top_up(store, &requests, max, &Counter::Window { key, scope: Cow::Borrowed(&budget.scope), start }).await
}

async fn top_up(store: &Store, quota: &Quota, max: i64, counter: &Counter<'_>) -> Result<bool> {
    let mut max = max;
    for _ in 0..TRIES {
        let rest = max.saturating_sub(quota.reserved());
        let count = quota.wants(rest, now_ms(), store.database().reservation_horizon());
        if rest <= 0 || count <= 0 {
            return Ok(quota.block() > 0);
        }
        if store.batch(vec![counter.reserve(count, max)]).await?[0].rows > 0 {
            quota.grant(count, now_ms());
            return Ok(true);
        }
        let (sql, args) = counter.look();
        let rows = store.query(sql, args).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let mut row = row.fields();
        quota.set_reserved(row.int()?);
        if matches!(counter, Counter::Key(_)) {
            max = row.opt_int()?.unwrap_or(i64::MAX);
        }
    }
    Ok(quota.block() > 0)
}

/// Returns reserved requests that were not spent. The caller must hold the key's turn. If it is not known whether they
/// were returned, they count as spent: others may spend them now.
pub async fn give_back(store: &Store, live: &KeyLive) -> Result<()> {
    let budgets = live.budgets();
    let windows: Vec<_> = budgets.iter().map(|budget| (budget.requests(), budget.scope.as_str())).collect();
    let of_windows = windows.iter().map(|((requests, start), scope)| {
        (&**requests, Counter::Window { key: live.id, scope: Cow::Borrowed(*scope), start: *start })
    });
    let mut unspent = Vec::new();
    for (quota, counter) in std::iter::once((&live.requests, Counter::Key(live.id))).chain(of_windows) {
        let count = quota.withdraw();
        if count != 0 {
            unspent.push((quota, count, counter.give_back(count)));
        }
    }
    if unspent.is_empty() {
        return Ok(());
    }
    let given = store.batch(unspent.iter().map(|(_, _, statement)| statement.clone()).collect());
    given.await.map(drop).inspect_err(|error| {
        if !matches!(error, Error::Unreachable(_)) {
            unspent.iter().for_each(|(quota, count, _)| quota.grant(*count, now_ms()));
        }
    })
}

/// Resets a key's usage to zero. Usage of requests that are running at this moment is lost too.
pub async fn reset(store: &Store, live: &KeyLive) -> Result<()> {
    let _turn = live.turn.lock().await;
    let reserved = live.requests.withdraw();
    store.flush().await;
    let reset = Statement::new(
        "UPDATE downstream_api_keys SET used_requests = 0, used_cost = 0, updated_at = ? WHERE id = ?",
        vec![Value::Int(now_ms()), live.id.into()],
    );
    let days = Statement::new("DELETE FROM downstream_key_days WHERE key_id = ?", vec![live.id.into()]);
    let done = store.batch(vec![reset.must_change(), budgets::keep_only(live.id, &[]), days]).await;
    match &done {
        Ok(_) => live.reset(),
        // Whether it was committed is unknown: what was reserved is not spent.
        Err(Error::Unreachable(_)) => {}
        Err(_) => live.requests.grant(reserved, now_ms()),
    }
    done.map(drop)
}

// === impl Counter ===

impl Counter<'_> {
    /// Builds the statement that counts `count` more requests if the limit has room for them.
    fn reserve(&self, count: i64, max: i64) -> Statement {
        let statement = match self {
            Self::Key(id) => Statement::new(
                "UPDATE downstream_api_keys SET used_requests = used_requests + ? \
                 WHERE id = ? AND (max_requests IS NULL OR used_requests + ? <= max_requests)",
                vec![count.into(), (*id).into(), count.into()],
            ),
            Self::Window { key, scope, start } => Statement::new(
                "UPDATE downstream_key_budgets SET used_requests = used_requests + ? \
                 WHERE key_id = ? AND scope = ? AND window_start = ? AND used_requests + ? <= ?",
                vec![
                    count.into(),
                    (*key).into(),
                    (&**scope).into(),
                    (*start).into(),
                    count.into(),
                    max.into(),
                ],
            ),
        };
        statement.touching_nothing()
    }

    fn give_back(&self, count: i64) -> Statement {
        let statement = match self {
            Self::Key(id) => Statement::new(
                "UPDATE downstream_api_keys SET used_requests = used_requests - ? WHERE id = ?",
                vec![count.into(), (*id).into()],
            ),
            Self::Window { key, scope, start } => Statement::new(
                "UPDATE downstream_key_budgets SET used_requests = used_requests - ? \
                 WHERE key_id = ? AND scope = ? AND window_start = ?",
                vec![count.into(), (*key).into(), (&**scope).into(), (*start).into()],
            ),
        };
        statement.touching_nothing()
    }

    /// Returns the query for the counted requests and, for a key, its limit.
    fn look(&self) -> (&'static str, Vec<Value>) {
        match self {
            Self::Key(id) => (
                "SELECT used_requests, max_requests FROM downstream_api_keys WHERE id = ?",
                vec![(*id).into()],
            ),
            Self::Window { key, scope, start } => (
                "SELECT used_requests FROM downstream_key_budgets WHERE key_id = ? AND scope = ? AND window_start = ?",
                vec![(*key).into(), (&**scope).into(), (*start).into()],
            ),
        }
    }
}
