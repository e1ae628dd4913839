//! Corrects the cost of requests that ended before the price list of their site was read.
//!
//! Such requests are booked by the flat estimate. Once the list has been read, each is booked by it; where no list
//! comes, or too many requests wait, the estimate stands.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::late_usage::{ExactUsage, book};
use super::prices;
use super::usage_lookup::UsageLookup;
use crate::jobs::Jobs;
use crate::routing::Channel;
use crate::routing::pricing::{self, Bill};
use crate::store::proxy_logs::UsageSource;

/// The longest wait for a list: longer than a site may take to send it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the list has the price of the model, or is still on its way.
pub fn may_tell(jobs: &Jobs, channel: &Channel, model: &str) -> bool {
    let account = &channel.account;
    match account.prices.load() {
        Some(catalog) => catalog.price(model).is_some(),
        None => account.site.platform.profile().prices.is_some() && !jobs.prices.has_failed(account.id),
    }
}

/// Queues a request that was booked by the estimate for booking by the list, and returns at once.
pub fn enqueue(jobs: &Arc<Jobs>, request: UsageLookup) {
    let Ok(place) = jobs.usage_lookup.waiting.clone().try_acquire_owned() else {
        log::debug!("too many requests are waiting for prices: one keeps its estimated cost");
        return;
    };
    let waiting = jobs.clone();
    jobs.core.background.spawn("booking a request by a price list", async move {
        settle(&waiting, &request).await;
        drop(place);
    });
}

async fn settle(jobs: &Arc<Jobs>, request: &UsageLookup) {
    let account = &request.channel.account;
    prices::refresh_unread(jobs, account.id);
    if timeout(PATIENCE, jobs.prices.until_found(&account.prices)).await.is_err() {
        return;
    }
    let Ok(_slot) = jobs.usage_lookup.slots.acquire().await else { return };
    let Some(bill) = bill(request) else { return };
    let known = ExactUsage { tokens: request.tokens, source: UsageSource::Upstream, bill };
    if let Err(error) = book(&jobs.core, request.booked(), known).await {
        log::warn!(
            "the log row of {} keeps its estimated usage and cost, the real ones could not be stored: \
             {error}",
            request.row.request_id.as_str()
        );
    }
}

/// Returns the bill by the price list; `None` for a model that the list does not have.
fn bill(request: &UsageLookup) -> Option<Bill> {
    let account = &request.channel.account;
    let catalog = account.prices.load()?;
    let price = catalog.price(&request.row.model)?;
    Some(pricing::bill(Some(price), Some(account.site.platform), request.tokens))
}
