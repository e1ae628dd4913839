//! Counting a call against its key's request limit. Only calls that reach routing count.
//!
//! Most calls spend a request that is reserved already: one atomic step. The one that finds the
//! block spent reserves the next, and those behind it wait for that; a block that runs low is topped
//! up in the background. A reservation is background work, because a client that hangs up must not
//! stop it between the commit and the block.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::core::Core;
use crate::keys::{Key, KeyLive};
use crate::store::{self, quota};
use crate::time::now_ms;

/// Why a call was not counted, and so must not be made.
pub(super) enum QuotaError {
    OverLimit,
    /// The reservation failed; the log says why.
    Unavailable,
}

/// Counts one request.
pub(super) async fn count(core: &Arc<Core>, key: &Key) -> Result<(), QuotaError> {
    match key.max_requests {
        None => key.live.count(),
        Some(max) if key.live.take() => top_up(core, &key.live, max),
        // Boxed, because it is rare and large.
        Some(max) => Box::pin(take(core, &key.live, max)).await?,
    }
    if key.live.record_use(now_ms()) {
        core.store.telemetry().dirty_key(key.live.clone(), false);
    }
    Ok(())
}

/// Reserves the next block before anybody has to wait for it.
fn top_up(core: &Arc<Core>, live: &Arc<KeyLive>, max: i64) {
    if live.runs_low(max)
        && let Ok(turn) = live.turn.clone().try_lock_owned()
    {
        drop(reserve(core, live, max, turn));
    }
}

/// Waits until there is a request to spend, or none left.
async fn take(core: &Arc<Core>, live: &Arc<KeyLive>, max: i64) -> Result<(), QuotaError> {
    loop {
        let turn = live.turn.clone().lock_owned().await;
        // Whoever had the turn before may have reserved enough for two.
        if live.take() {
            return Ok(());
        }
        match reserve(core, live, max, turn).await {
            Ok(Ok(true)) if live.take() => return Ok(()),
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Err(QuotaError::OverLimit),
            Ok(Err(error)) => {
                log::error!("reserving requests for downstream key {}: {error}", live.id);
                return Err(QuotaError::Unavailable);
            }
            Err(_stopping) => return Err(QuotaError::Unavailable),
        }
    }
}

/// Reserves in the background, and reports the outcome to the caller, if it still waits.
fn reserve(
    core: &Arc<Core>,
    live: &Arc<KeyLive>,
    max: i64,
    turn: OwnedMutexGuard<()>,
) -> oneshot::Receiver<store::Result<bool>> {
    let (done, reserved) = oneshot::channel();
    let (store, live) = (core.store.clone(), live.clone());
    core.background.spawn("the reservation of requests", async move {
        let result = quota::reserve(&store, &live, max).await;
        drop(turn);
        // Nobody listens to a top-up, and nobody needs to: a failure shows again when one waits.
        let _ = done.send(result);
    });
    reserved
}
