//! Request limits of downstream keys that hold across a crash.
//!
//! A block of requests is counted in the database before any of it is spent, by one conditional
//! update; what stays unspent goes back after a while of silence, before a change of the key, and
//! when the service stops. Every function here takes the key's turn, or asks its caller to hold it.

use super::sql::{Statement, Value};
use super::{Result, Store};
use crate::keys::KeyLive;
use crate::time::now_ms;

/// Other instances may move the counter between a look and an update.
const TRIES: usize = 4;

/// Tops the block up; false when nothing is left of the limit. For the holder of the turn, and not
/// to be dropped before it ends: the commit would count requests that nobody may spend.
pub async fn reserve(store: &Store, live: &KeyLive, max: i64) -> Result<bool> {
    let mut max = max;
    for _ in 0..TRIES {
        let rest = max.saturating_sub(live.reserved());
        let count = live.wants(rest, now_ms());
        if rest <= 0 || count <= 0 {
            return Ok(live.block() > 0);
        }
        let reserve = Statement::new(
            "UPDATE downstream_api_keys SET used_requests = used_requests + ? \
             WHERE id = ? AND (max_requests IS NULL OR used_requests + ? <= max_requests)",
            vec![count.into(), live.id.into(), count.into()],
        );
        if store.batch(vec![reserve]).await?[0].rows > 0 {
            live.grant(count, now_ms());
            return Ok(true);
        }
        let sql = "SELECT used_requests, max_requests FROM downstream_api_keys WHERE id = ?";
        let rows = store.query(sql, vec![live.id.into()]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let mut row = row.fields();
        live.set_reserved(row.int()?);
        max = row.opt_int()?.unwrap_or(i64::MAX);
    }
    Ok(live.block() > 0)
}

/// Gives back what is reserved and not spent. For the holder of the turn.
pub async fn give_back(store: &Store, live: &KeyLive) -> Result<()> {
    let unspent = live.withdraw();
    if unspent == 0 {
        return Ok(());
    }
    let given = store.batch(vec![Statement::new(
        "UPDATE downstream_api_keys SET used_requests = used_requests - ? WHERE id = ?",
        vec![unspent.into(), live.id.into()],
    )]);
    given.await.map(drop).inspect_err(|_| live.grant(unspent, now_ms()))
}

/// Forgets what a key has used. What runs at this moment is forgotten with it.
pub async fn reset(store: &Store, live: &KeyLive) -> Result<()> {
    let _turn = live.turn.lock().await;
    live.withdraw();
    store.flush().await;
    let reset = Statement::new(
        "UPDATE downstream_api_keys SET used_requests = 0, used_cost = 0, updated_at = ? WHERE id = ?",
        vec![Value::Int(now_ms()), live.id.into()],
    );
    store.batch(vec![reset.must_change()]).await?;
    live.reset();
    Ok(())
}
