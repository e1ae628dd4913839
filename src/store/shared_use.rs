//! What downstream keys have used, where several instances share a database: each knows what it spent itself, and reads
//! here what all of them did.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Result, Store, budgets};
use crate::keys::{Budget, Key, KeyTable};
use crate::time::{Millis, now_ms};

/// Takes over what all instances have used of the limits of these keys.
pub async fn follow(store: &Store, keys: &KeyTable) -> Result<()> {
    totals(store, keys).await?;
    windows(store, keys).await
}

async fn totals(store: &Store, keys: &KeyTable) -> Result<()> {
    let limited = |key: &&Arc<Key>| key.max_cost.is_some() || key.max_requests.is_some();
    if !keys.iter().any(|key| limited(&key)) {
        return Ok(());
    }
    let sql = "SELECT id, used_requests, used_cost FROM downstream_api_keys \
               WHERE max_cost IS NOT NULL OR max_requests IS NOT NULL";
    for row in &store.query(sql, Vec::new()).await? {
        let mut row = row.fields();
        let (id, requests, cost) = (row.int()?, row.int()?, row.usd()?);
        let Some(key) = keys.get(id) else { continue };
        key.live.follow_cost(cost);
        // Who is reserving knows better.
        if key.max_requests.is_some()
            && let Ok(_turn) = key.live.turn.try_lock()
        {
            key.live.requests.set_reserved(requests);
        }
    }
    Ok(())
}

async fn windows(store: &Store, keys: &KeyTable) -> Result<()> {
    let now = now_ms();
    // The row of a window is there before the window is open: one that is not there later was deleted.
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
    let stored: HashMap<_, _> = budgets::all(store).await?;
    for (key, budget, start) in open {
        let Ok(_turn) = key.live.turn.try_lock() else { continue };
        match stored.get(&(key.id, budget.live.scope.clone())) {
            Some((stored_start, used)) if *stored_start == start => {
                budget.live.follow(&budget.bounds, start, Some(*used));
            }
            // Another window has begun: who asks next opens it.
            Some(_) => {}
            None => budget.live.follow(&budget.bounds, start, None),
        }
    }
    Ok(())
}
