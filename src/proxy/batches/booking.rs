//! The usage of a batch is booked once, on the key that made it. Whoever learns first of its end books it: a client that reads
//! the batch, or the watch of this service.
//!
//! The usage is that of OpenAI's object, else the sum over the results. It costs the usual price of the model: no price list
//! has a vendor's discount for batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::dialect::batch::{BatchApi, add, text_of};
use crate::dialect::usage::Usage;
use crate::proxy::Proxy;
use crate::proxy::resource_upstream::{ResourceAnswer, UpstreamResponse};
use crate::proxy::responses::background::{LateUsage, Outcome, book_late};
use crate::routing::encode_component;
use crate::store;
use crate::store::batches::{self, BatchRow};
use crate::time::{DAY, Millis, now_ms};

use super::lookup::{api, has_ended};
use super::unbooked::Unbooked;
use super::upstream::{BatchRequest, BatchUnavailable, ask};

/// The age at which a batch is given up, in milliseconds: a batch ends within a day, and this is three.
pub(super) const LONGEST_WORK: Millis = 3 * DAY;
/// The maximum time for reading all results, and the maximum length of a line that is read, in bytes.
const RESULTS_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_LINE: usize = 16 << 20;
/// How long a deletion waits for the usage to be booked.
const PATIENCE: Duration = Duration::from_secs(10);

/// Books a batch that was just read in the background, if it has ended.
pub(super) fn settle_in_background(proxy: &Arc<Proxy>, batch: &BatchRow) {
    if batch.is_booked || !has_ended(batch) {
        return;
    }
    let (settling, batch) = (proxy.clone(), batch.clone());
    proxy.core.background.spawn("the usage of a batch", async move {
        // What fails is logged, and tried again with the next read.
        let _ = settle(&settling, &batch).await;
    });
}

/// Books the usage of a batch that is about to be deleted.
///
/// # Errors
/// Fails if the usage is not booked soon; the batch must be kept then.
pub(super) async fn settle_before_deletion(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<(), Unbooked> {
    timeout(PATIENCE, settle(proxy, batch)).await.unwrap_or(Err(Unbooked::UnderWay))
}

/// Books the usage of a batch if it has ended and is not booked yet.
async fn settle(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<(), Unbooked> {
    if batch.is_booked || !has_ended(batch) {
        return Ok(());
    }
    let (booking, ended) = (proxy.clone(), batch.clone());
    let work = || async move { book(&booking, &ended).await };
    let booked = proxy.bookings.run(batch.id, &proxy.core.background, "the usage of a batch", work).await;
    booked.unwrap_or(Err(Unbooked::Failed))
}

async fn book(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<(), Unbooked> {
    let usage = match used(proxy, batch).await {
        Ok(usage) => usage,
        Err(refused) if refused.is_for_good() || refused.is_not_found() => None,
        Err(refused) => {
            log::warn!("the results of batch {} could not be read: {refused}", batch.place.public_id);
            // It is tried again later.
            if now_ms() - batch.created_at < LONGEST_WORK {
                return Err(Unbooked::Failed);
            }
            return close(proxy, batch, "its results cannot be read").await;
        }
    };
    let Some(usage) = usage else {
        return close(proxy, batch, "it has no results to read the usage from").await;
    };
    let place = &batch.place;
    let answer = LateUsage {
        row: &place.row,
        account_id: place.account_id,
        channel_id: place.channel_id,
        model_requested: &place.model_requested,
        claim: batches::claim(batch.id),
    };
    match book_late(proxy, answer, Outcome::Used(usage)).await {
        // Another instance was faster if there is nothing left to claim.
        Ok(()) | Err(store::Error::NotFound) => Ok(()),
        Err(error) => {
            log::error!("the usage of batch {} could not be booked: {error}", place.public_id);
            Err(Unbooked::Failed)
        }
    }
}

/// Closes the batch: its usage is never booked.
pub(super) async fn close(proxy: &Arc<Proxy>, batch: &BatchRow, why: &str) -> Result<(), Unbooked> {
    let id = &batch.place.public_id;
    match batches::close(&proxy.core.store, batch.id).await {
        Ok(true) => log::info!("batch {id} is charged nothing: {why}"),
        Ok(false) => {}
        Err(error) => {
            log::warn!("batch {id} could not be closed: {error}");
            return Err(Unbooked::Failed);
        }
    }
    Ok(())
}

/// Returns the usage of a batch; `None` where nothing tells it.
async fn used(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<Option<Usage>, BatchUnavailable> {
    if let Some(usage) = api(batch).usage_of_object(&batch.object) {
        return Ok(Some(usage));
    }
    let batch_request = match api(batch) {
        BatchApi::Anthropic => {
            if text_of(&batch.object, "results_url").is_none() {
                return Ok(None);
            }
            BatchRequest::results(batch)
        }
        BatchApi::OpenAi => match text_of(&batch.object, "output_file_id") {
            Some(file) => BatchRequest::bytes(
                format!("/v1/files/{}/content", encode_component(&file)),
                "/v1/files/{id}/content",
            ),
            None => return Ok(None),
        },
    };
    let ResourceAnswer { response, mut slot, .. } = ask(proxy, batch, batch_request, None).await?;
    slot.keep_alive();
    match timeout(RESULTS_TIMEOUT, sum(api(batch), response)).await {
        Ok(sum) => sum,
        Err(_) => Err(BatchUnavailable::TooSlow),
    }
}

/// Sums up the usage of all results, read as they come.
async fn sum(api: BatchApi, mut answer: UpstreamResponse) -> Result<Option<Usage>, BatchUnavailable> {
    let (mut sum, mut line) = (None, Vec::new());
    let mut count = |line: &mut Vec<u8>| {
        if let Some(usage) = api.usage_of_line(line) {
            add(sum.get_or_insert_with(Usage::default), &usage);
        }
        line.clear();
    };
    while let Some(bytes) = answer.next().await? {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line.len() + piece.len() <= MAX_LINE {
                line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                count(&mut line);
            }
        }
    }
    count(&mut line);
    Ok(sum)
}
