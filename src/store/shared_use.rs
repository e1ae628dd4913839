//! What downstream keys have used, where several instances share a database: each knows what it spent itself, and reads
//! here what all of them did.

use std::collections::HashMap;

use super::{Result, Store, budgets};
use crate::keys::{Budget, Key, KeyTable};
use crate::time::{Millis, now_ms};

/// A key without limits is looked at for so long after it was used; instances have clocks of their own.
const LATELY_MS: Millis = 600_000;

/// Takes over what all instances have used of these keys: of all of them, or of those with limits and those in use.
pub async fn follow(store: &Store, keys: &KeyTable, everything: bool) -> Result<()> {
    totals(store, keys, everything).await?;
    windows(store, keys).await
}

async fn totals(store: &Store, keys: &KeyTable, everything: bool) -> Result<()> {
    if keys.iter().next().is_none() {
        return Ok(());
    }
    let since = if everything { 0 } else { now_ms() - LATELY_MS };
    let sql = "SELECT id, used_requests, used_cost FROM downstream_api_keys WHERE max_cost IS NOT NULL \
               OR max_requests IS NOT NULL OR last_used_at >= ? OR updated_at >= ?";
    for row in &store.query(sql, vec![since.into(), since.into()]).await? {
        let mut row = row.fields();
        let (id, requests, cost) = (row.int()?, row.int()?, row.usd()?);
        let Some(key) = keys.get(id) else { continue };
        key.live.follow_cost(cost);
        // Who is reserving, or changes the key, knows better.
        let Ok(_turn) = key.live.turn.try_lock() else { continue };
        match key.max_requests {
            Some(_) => key.live.requests.set_reserved(requests),
            None => key.live.follow_requests(requests),
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
