//! The usage of a batch is booked once, on the key that made it, by the first party that learns of its end: a client that
//! reads it, or the watch of this service.
//!
//! The watch first asks a minute after the creation, then each time the batch is a tenth older, at most ten minutes
//! apart; after a start at once. The usage is what OpenAI's object says, else the sum over the results. It is billed as
//! that many tokens of the model at its price: a vendor's discount for batches is in no price list.

use std::sync::Arc;
use std::time::Duration;

use hyper::{HeaderMap, Method};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::dialect::batch::{BatchApi, add, text_of};
use crate::dialect::usage::Usage;
use crate::http::{Request, Response};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::resource_upstream::{ResourceAnswer, UpstreamResponse, in_path};
use crate::proxy::responses::background::{LateUsage, Outcome, book_late};
use crate::store;
use crate::store::batches::{self, BatchRow};
use crate::time::{Millis, now_ms};

use super::kept::{BatchRequest, BatchUnavailable, api, ask, of_path, refresh, shape, shown};
use super::mapping::FIRST_LOOK;
use super::unbooked::Unbooked;

/// The longest pause before a batch is asked for again, in milliseconds.
const LONGEST_PAUSE: Millis = 600_000;
/// How often due batches are looked up, and the maximum number looked up at a time.
const ROUND: Duration = Duration::from_secs(20);
const MOST_AT_ONCE: usize = 16;
/// The number of batches asked for at the same time, and the time limit for each: a site that hangs delays few others.
const LOOKS: usize = 4;
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of batches asked for at once after a start.
const MOST_AT_START: usize = 256;
/// The age at which a batch is given up, in milliseconds: a batch ends within a day, and this is three.
const LONGEST_WORK: Millis = 3 * 86_400_000;
/// The maximum time for reading all results, and the maximum length of a line that is read, in bytes.
const RESULTS_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_LINE: usize = 16 << 20;
/// How long a deletion waits for the usage to be booked.
const PATIENCE: Duration = Duration::from_secs(10);

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
    if api(&batch).has_ended(&batch.object) {
        // In the background, because results may take long to read.
        note(proxy, &batch);
    } else if is_gone || age >= LONGEST_WORK {
        // If it cannot be closed, it is looked at again.
        let _ = close(proxy, &batch, "it has not ended, or its account does not exist any more").await;
    }
}

/// Returns the batch in its upstream's current state, if that can be asked.
pub(super) async fn refreshed(proxy: &Arc<Proxy>, mut batch: BatchRow) -> BatchRow {
    if !api(&batch).has_ended(&batch.object) {
        let batch_request = BatchRequest::of(Method::GET, &batch, "");
        // If it cannot be asked, the last known state is used.
        drop(refresh(proxy, &mut batch, batch_request, None).await);
    }
    batch
}

/// What a client asks about a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchAction {
    Read,
    Cancel,
}

/// Answers about the batch that the path names, with its upstream's object.
pub(super) async fn told(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    interface: BatchApi,
    action: BatchAction,
) -> Result<Response, Response> {
    let mut batch = of_path(proxy, request, caller, interface).await?;
    let batch_request = match action {
        BatchAction::Read => BatchRequest::of(Method::GET, &batch, ""),
        BatchAction::Cancel => BatchRequest::of(Method::POST, &batch, "/cancel"),
    };
    match refresh(proxy, &mut batch, batch_request, Some(request)).await {
        Ok(crossing) => {
            note(proxy, &batch);
            Ok(shown(proxy, &batch, request, crossing))
        }
        // The batch has ended: the last known object is final.
        Err(refused)
            if action == BatchAction::Read
                && refused.is_for_good()
                && api(&batch).has_ended(&batch.object) =>
        {
            Ok(shown(proxy, &batch, request, HeaderMap::new()))
        }
        Err(refused) => Err(refused.answer(proxy, shape(request, api(&batch)))),
    }
}

/// Books a batch that was just read in the background, if it has ended.
fn note(proxy: &Arc<Proxy>, batch: &BatchRow) {
    if batch.is_booked || !api(batch).has_ended(&batch.object) {
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
pub(super) async fn settle_first(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<(), Unbooked> {
    timeout(PATIENCE, settle(proxy, batch)).await.unwrap_or(Err(Unbooked::UnderWay))
}

/// Books the usage of a batch if it has ended and is not booked yet.
async fn settle(proxy: &Arc<Proxy>, batch: &BatchRow) -> Result<(), Unbooked> {
    if batch.is_booked || !api(batch).has_ended(&batch.object) {
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
async fn close(proxy: &Arc<Proxy>, batch: &BatchRow, why: &str) -> Result<(), Unbooked> {
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
            let whole = BatchRequest::of(Method::GET, batch, "/results");
            BatchRequest::bytes(whole.path, "/v1/messages/batches/{id}/results")
        }
        BatchApi::OpenAi => match text_of(&batch.object, "output_file_id") {
            Some(file) => {
                BatchRequest::bytes(format!("/v1/files/{}/content", in_path(&file)), "/v1/files/{id}/content")
            }
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
