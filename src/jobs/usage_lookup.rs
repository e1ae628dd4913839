//! Looks up exact usage and price in the site's own log, after the client has its answer.
//!
//! Some sites answer without usage, or charge by rules that no price list tells, but keep a log that the account may
//! read. A settled request leaves a lookup here and goes on. Its line in the log is looked for in the background, and
//! amends the log row, the usage tables, the channel's cost and the key's. Lookups beyond a bound are dropped: the
//! estimate then stands.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::booked_lines::Looking;
use super::late_prices;
use super::late_usage::{ExactUsage, SettledRequest, book_or_warn};
use super::sessions::site_client::site_client_of;
use crate::core::Core;
use crate::jobs::Jobs;
use crate::money::Usd;
use crate::routing::Channel;
use crate::routing::pricing::usage_record::{ReportedTokens, UsageQuery, UsageRecord, find};
use crate::routing::pricing::{self, Bill, Billing, Labels, ModelPrice, Tokens};
use crate::store::accounts;
use crate::store::proxy_logs::UsageSource;
use crate::store::sites;
use crate::time::now_ms;
use crate::upstream::platforms::{SiteErrorKind, USAGE_LOG_LIMITS, fetch_usage_records};

/// The pauses before each look: sites write their log after the answer, some not at once.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(8)];

/// Queues the lookup and returns at once.
pub fn enqueue(jobs: &Arc<Jobs>, mut request: SettledRequest) {
    let Some(place) = jobs.lookups.admit(request.channel.account.site.id) else { return };
    let looking = jobs.clone();
    jobs.core.background.spawn("a usage lookup", async move {
        // Many lines tell no cost, and then the price list does. Without usage there is nothing to be priced.
        let Tokens { prompt, completion, total, .. } = request.tokens;
        if !request.is_priced && prompt.max(completion).max(total) > 0 {
            late_prices::settle(&looking, &mut request).await;
        }
        look_up(&looking, &request).await;
        drop(place);
    });
}

async fn look_up(jobs: &Jobs, request: &SettledRequest) {
    let looking = jobs.lookups.booked.begin(request.channel.account.id);
    for (place, pause) in PAUSES.into_iter().enumerate() {
        sleep(pause).await;
        let looked = {
            let site = request.channel.account.site.id;
            let Some(_slot) = jobs.lookups.slots.acquire(site).await else { return };
            // The line of another request that is looked for at the same time may come before the one of this.
            let is_strict = place + 1 < PAUSES.len() && !looking.is_alone();
            look(jobs, request, &looking, is_strict).await
        };
        match looked {
            Ok(Some(record)) => {
                settle(&jobs.core, request, &record).await;
                return;
            }
            Ok(None) => {}
            Err(message) => {
                log::debug!(
                    "the request log of site \"{}\" could not be used: {message}",
                    request.channel.account.site.name
                );
                return;
            }
        }
    }
}

/// Returns the request's line in the site's log, which is then booked for it; `None` when it is not there yet.
async fn look(
    jobs: &Jobs,
    request: &SettledRequest,
    looking: &Looking<'_>,
    is_strict: bool,
) -> Result<Option<UsageRecord>, String> {
    let (core, channel) = (&jobs.core, &request.channel);
    if jobs.lookups.is_paused(channel.account.site.id) {
        return Err("it has lately not answered in time".to_owned());
    }
    let Some(account) = accounts::get(&core.store, channel.account.id).await.map_err(|e| e.to_string())?
    else {
        return Err("the account does not exist any more".to_owned());
    };
    let Some(site) = sites::get(&core.store, account.site_id).await.map_err(|e| e.to_string())? else {
        return Err("the site does not exist any more".to_owned());
    };
    let token = channel.credential.as_ref().map(|credential| credential.secret().expose());
    let mut site_client = site_client_of(core, &site, &account).map_err(|error| error.to_string())?;
    // The order in which they are used: the session, what the request was sent with, the account's key.
    site_client.keys.splice(..0, channel.credential.as_ref().map(|sent| sent.secret().clone()));
    let lines = fetch_usage_records(&core.client, &site_client, &request.row.model, USAGE_LOG_LIMITS).await;
    let lines = lines.map_err(|error| {
        if error.kind == SiteErrorKind::Timeout {
            jobs.lookups.pause(site.id);
        }
        error.to_string()
    })?;
    let query = UsageQuery {
        model: &request.row.model,
        started: request.row.created_at,
        ended: request.ended,
        token,
        token_name: channel.token_name.as_deref(),
        reported: reported(request.tokens),
        is_strict,
    };
    Ok(looking.book(lines, now_ms(), |lines| find(lines, &query).cloned()))
}

fn reported(tokens: Tokens) -> Option<ReportedTokens> {
    let Tokens { prompt, completion, .. } = tokens;
    (prompt > 0 || completion > 0).then_some(ReportedTokens { prompt, completion })
}

/// Books the difference between the line and what was booked.
async fn settle(core: &Core, request: &SettledRequest, record: &UsageRecord) {
    let (tokens, source) = recovered(request.tokens, record);
    let bill = bill(&request.channel, &request.row.model, tokens, record);
    book_or_warn(core, request, ExactUsage { tokens, source, bill }).await;
}

/// Returns the line's tokens where it has any, else the answer's, which are logged already.
fn recovered(answered: Tokens, record: &UsageRecord) -> (Tokens, Option<UsageSource>) {
    if record.total == 0 {
        return (answered, None);
    }
    let tokens = Tokens {
        prompt: record.prompt,
        completion: record.completion,
        total: record.total,
        cache_read: record.cache_read.max(answered.cache_read),
        cache_creation: record.cache_creation.max(answered.cache_creation),
        prompt_includes_cache: record.prompt_includes_cache.or(answered.prompt_includes_cache),
    };
    (tokens, Some(UsageSource::SelfLog))
}

/// Computes the bill by the line's ratios, or by the price list where it has none. What the line says was charged takes
/// precedence over the computed cost.
fn bill(channel: &Channel, model: &str, tokens: Tokens, record: &UsageRecord) -> Bill {
    let computed = match record.ratios {
        Some((ratios, group_ratio)) => {
            let price = ModelPrice::new(model, Billing::PerToken(ratios), Vec::new(), Labels::default());
            let price = ModelPrice { group_ratio, ..price };
            pricing::bill(Some(&price), Some(channel.account.site.platform), tokens)
        }
        None => channel.account.bill(model, tokens),
    };
    let charged = record.cost.price();
    if charged > Usd::ZERO { Bill { cost: charged, ..computed } } else { computed }
}
