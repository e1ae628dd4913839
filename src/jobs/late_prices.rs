//! Corrects the cost of requests that ended before the price list of their site was read.
//!
//! Such requests are booked by the flat estimate. Once the list has been read, each is booked by it; where no list
//! comes, or too many requests wait, the estimate stands.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::late_usage::{ExactUsage, SettledRequest, book_or_warn};
use super::prices;
use crate::jobs::Jobs;
use crate::routing::Channel;
use crate::routing::pricing::{self, Bill};

/// The longest wait for a list: longer than a site may take to send it.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether the list has the price of the model, or is still on its way.
pub fn may_tell(jobs: &Jobs, channel: &Channel, model: &str) -> bool {
    let account = &channel.account;
    match account.prices.load() {
        Some(catalog) => catalog.price(model).is_some(),
        None => account.site.platform.profile().prices.is_some() && !jobs.prices.has_failed(account.id),
    }
}

/// Waits until the list that may have the price of the model has been read; false where none has, or not soon.
pub async fn wait_for_list(jobs: &Arc<Jobs>, channel: &Channel, model: &str) -> bool {
    if !may_tell(jobs, channel, model) {
        return false;
    }
    let account = &channel.account;
    prices::refresh_unread(jobs, account.id);
    timeout(LIST_TIMEOUT, jobs.prices.until_read(account.id, &account.prices)).await.is_ok()
}

/// Queues a request that was booked by the estimate for booking by the list, and returns at once.
pub fn enqueue(jobs: &Arc<Jobs>, mut request: SettledRequest) {
    let Some(place) = jobs.lookups.admit(request.channel.account.site.id) else { return };
    let waiting = jobs.clone();
    jobs.core.background.spawn("booking a request by a price list", async move {
        settle(&waiting, &mut request).await;
        drop(place);
    });
}

/// Books a request by the price list, once that has been read; `request` then has the new cost.
pub(super) async fn settle(jobs: &Arc<Jobs>, request: &mut SettledRequest) {
    let account = &request.channel.account;
    if !wait_for_list(jobs, &request.channel, &request.row.model).await {
        return;
    }
    let Some(_slot) = jobs.lookups.slots.acquire(account.site.id).await else { return };
    let Some(bill) = bill(request) else { return };
    let cost = bill.cost;
    let known = ExactUsage { tokens: request.tokens, source: None, bill };
    if book_or_warn(&jobs.core, request, known).await {
        (request.cost, request.is_priced) = (cost, true);
    }
}

/// Returns the bill by the price list; `None` for a model that the list does not have.
fn bill(request: &SettledRequest) -> Option<Bill> {
    let account = &request.channel.account;
    let catalog = account.prices.load()?;
    let price = catalog.price(&request.row.model)?;
    Some(pricing::bill(Some(price), Some(account.site.platform), request.tokens))
}
