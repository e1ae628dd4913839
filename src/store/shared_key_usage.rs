//! Usage of downstream keys, where several instances share a database: each instance knows what it spent
//! itself, and reads the total of all instances here.

use std::collections::HashMap;

use super::instance_changes::Extent;
use super::{Result, Store, budgets};
use crate::keys::{Budget, Key, KeyTable, Used};
use crate::time::{MINUTE, Millis, monotonic_ms, now_ms};

/// How long after its last use a key without limits is still read, in milliseconds; generous because each
/// instance has its own clock.
const LATELY_MS: Millis = 10 * MINUTE;

/// Takes over the usage of keys by all instances: of every key, or of those with limits and those recently used or
/// changed.
pub async fn follow(store: &Store, keys: &KeyTable, extent: Extent) -> Result<()> {
    totals(store, keys, extent).await?;
    windows(store, keys).await
}

/// Whether the result of a query made at `then` is the newest that is known of the key: the holder of the key's
/// turn may have queried it since.
fn is_newest(key: &Key, then: Millis) -> bool {
    !key.live.spend_checks.looked_since(then)
}

/// Takes over what all instances have spent of one key that is charged when an answer ends. The caller must
/// hold the key's turn.
pub async fn look(store: &Store, key: &Key) -> Result<()> {
    if key.max_cost.is_some() {
        let sql = "SELECT used_cost FROM downstream_api_keys WHERE id = ?";
        if let Some(cost) = store.row(sql, vec![key.id.into()], |row| row.usd()).await? {
            key.live.follow_cost(cost);
        }
    }
    let now = now_ms();
    let budgets = key.limits.iter().flat_map(|limits| &limits.budgets);
    let open: Vec<_> = budgets.filter(|budget| budget.live.is_open(now)).collect();
    if open.is_empty() {
        return Ok(());
    }
    let starts: Vec<_> = open.iter().map(|budget| budget.live.start()).collect();
    let stored = budgets::of_key(store, key.id).await?;
    for (budget, start) in open.into_iter().zip(starts) {
        follow_window(budget, start, stored.get(&budget.live.scope));
    }
    Ok(())
}

/// Takes over the stored usage of a window that began at `start`.
fn follow_window(budget: &Budget, start: Millis, stored: Option<&(Millis, Used)>) {
    match stored {
        Some((stored_start, used)) if *stored_start == start => {
            budget.live.follow(&budget.bounds, start, Some(*used));
        }
        // Another window has begun: the next request opens it.
        Some(_) => {}
        None => budget.live.follow(&budget.bounds, start, None),
    }
}

async fn totals(store: &Store, keys: &KeyTable, extent: Extent) -> Result<()> {
    if keys.iter().next().is_none() {
        return Ok(());
    }
    let then = monotonic_ms();
    let since = match extent {
        Extent::Everything => 0,
        Extent::Recent => now_ms() - LATELY_MS,
    };
    let sql = "SELECT id, used_requests, used_cost FROM downstream_api_keys WHERE max_cost IS NOT NULL \
               OR max_requests IS NOT NULL OR last_used_at >= ? OR updated_at >= ?";
    for row in &store.query(sql, vec![since.into(), since.into()]).await? {
        let mut row = row.fields();
        let (id, requests, cost) = (row.id()?, row.int()?, row.usd()?);
        let Some(key) = keys.get(id) else { continue };
        // The holder of the key's turn is reading, reserving or changing it, and has newer values.
        let Ok(_turn) = key.live.turn.try_lock() else { continue };
        if is_newest(key, then) {
            key.live.follow_cost(cost);
        }
        match key.max_requests {
            Some(_) => key.live.requests.set_reserved(requests),
            None => key.live.follow_requests(requests),
        }
    }
    Ok(())
}

async fn windows(store: &Store, keys: &KeyTable) -> Result<()> {
    let now = now_ms();
    // The row of a window exists before the window is open: a row that is missing later was deleted.
    let open: Vec<(&Key, &Budget, Millis)> = keys
        .iter()
        .flat_map(|key| {
            key.limits.iter().flat_map(move |limits| limits.budgets.iter().map(move |one| (&**key, one)))
        })
        .filter(|(_, budget)| budget.live.is_open(now))
        .map(|(key, budget)| (key, budget, budget.live.start()))
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    let then = monotonic_ms();
    let stored: HashMap<_, _> = budgets::all(store).await?;
    for (key, budget, start) in open {
        let Ok(_turn) = key.live.turn.try_lock() else { continue };
        if !is_newest(key, then) {
            continue;
        }
        follow_window(budget, start, stored.get(&(key.id, budget.live.scope.clone())));
    }
    Ok(())
}
