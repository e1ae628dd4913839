//! Asks for batches that no client asks for: first a minute after the creation, then each time the batch is a tenth older, at
//! most ten minutes apart; after a start at once.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::proxy::Proxy;
use crate::store::batches::{self, BatchRow};
use crate::time::{MINUTE, Millis, now_ms};

use super::booking::{LONGEST_WORK, close, settle_in_background};
use super::lookup::has_ended;
use super::upstream::{BatchRequest, refresh};

/// The time after which a batch is first asked for, if no client does so before, in milliseconds.
pub(super) const FIRST_LOOK: Millis = MINUTE;
/// The longest pause before a batch is asked for again, in milliseconds.
const LONGEST_PAUSE: Millis = 10 * MINUTE;
/// How often due batches are looked up, and the maximum number looked up at a time.
const ROUND: Duration = Duration::from_secs(20);
const MOST_AT_ONCE: usize = 16;
/// The number of batches asked for at the same time, and the time limit for each: a site that hangs delays few others.
const LOOKS: usize = 4;
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of batches asked for at once after a start.
const MOST_AT_START: usize = 256;

/// Starts to watch the batches that no client asks for, until the service stops.
pub fn watch(proxy: &Arc<Proxy>) {
    proxy.core.background.spawn("batches", rounds(proxy.clone()));
}

async fn rounds(proxy: Arc<Proxy>) {
    let mut due = batches::due(&proxy.core.store, Millis::MAX, MOST_AT_START).await;
    loop {
        match due {
            Err(error) => log::warn!("batches could not be read from the database: {error}"),
            Ok(due) => round(&proxy, due).await,
        }
        sleep(ROUND).await;
        due = batches::due(&proxy.core.store, now_ms(), MOST_AT_ONCE).await;
    }
}

async fn round(proxy: &Arc<Proxy>, due: Vec<BatchRow>) {
    let mut looks = JoinSet::new();
    for batch in due {
        if looks.len() == LOOKS {
            note_panic(looks.join_next().await);
        }
        let proxy = proxy.clone();
        looks.spawn(async move {
            let id = batch.place.public_id.clone();
            if timeout(LOOK_TIMEOUT, look(&proxy, batch)).await.is_err() {
                log::warn!(
                    "the upstream did not report the state of batch {id} within {} s",
                    LOOK_TIMEOUT.as_secs()
                );
            }
        });
    }
    while let Some(ended) = looks.join_next().await {
        note_panic(Some(ended));
    }
}

fn note_panic(ended: Option<Result<(), JoinError>>) {
    if let Some(Err(error)) = ended {
        log::error!("a look at a batch failed: {error}");
    }
}

async fn look(proxy: &Arc<Proxy>, mut batch: BatchRow) {
    let now = now_ms();
    let age = now - batch.created_at;
    let next = now + (age / 10).clamp(FIRST_LOOK, LONGEST_PAUSE);
    match batches::take_look(&proxy.core.store, &batch, next).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(error) => {
            let id = &batch.place.public_id;
            return log::warn!("the state of batch {id} could not be read: {error}");
        }
    }
    let batch_request = BatchRequest::of(Method::GET, &batch, "");
    let asked = refresh(proxy, &mut batch, batch_request, None).await;
    let is_gone = asked.is_err_and(|refused| refused.is_for_good());
    if has_ended(&batch) {
        // In the background, because results may take long to read.
        settle_in_background(proxy, &batch);
    } else if is_gone || age >= LONGEST_WORK {
        // If it cannot be closed, it is looked at again.
        let _ = close(proxy, &batch, "it has not ended, or its account does not exist any more").await;
    }
}
