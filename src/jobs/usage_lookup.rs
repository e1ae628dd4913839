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
use super::late_usage::{ExactUsage, UsageLookup, book};
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
pub fn enqueue(jobs: &Arc<Jobs>, mut lookup: UsageLookup) {
    let Some(place) = jobs.usage_lookup.admit(lookup.channel.account.site.id) else { return };
    let looking = jobs.clone();
    jobs.core.background.spawn("a usage lookup", async move {
        // Many lines tell no cost, and then the price list does. Without usage there is nothing to be priced.
        let Tokens { prompt, completion, total, .. } = lookup.tokens;
        if !lookup.is_priced && prompt.max(completion).max(total) > 0 {
            late_prices::settle(&looking, &mut lookup).await;
        }
        look_up(&looking, &lookup).await;
        drop(place);
    });
}

async fn look_up(jobs: &Jobs, lookup: &UsageLookup) {
    let looking = jobs.usage_lookup.booked.begin(lookup.channel.account.id);
    for (place, pause) in PAUSES.into_iter().enumerate() {
        sleep(pause).await;
        let looked = {
            let site = lookup.channel.account.site.id;
            let Some(_slot) = jobs.usage_lookup.slots.acquire(site).await else { return };
            // The line of another request that is looked for at the same time may come before the one of this.
            let is_strict = place + 1 < PAUSES.len() && !looking.is_alone();
            look(jobs, lookup, &looking, is_strict).await
        };
        match looked {
            Ok(Some(record)) => {
                if let Err(error) = settle(&jobs.core, lookup, &record).await {
                    let id = lookup.row.request_id;
                    log::warn!(
                        "the log row of {} keeps its estimated usage and cost, the real ones could not be \
                         stored: {error}",
                        id.as_str()
                    );
                }
                return;
            }
            Ok(None) => {}
            Err(message) => {
                log::debug!(
                    "the request log of site \"{}\" could not be used: {message}",
                    lookup.channel.account.site.name
                );
                return;
            }
        }
    }
}

/// Returns the request's line in the site's log, which is then booked for it; `None` when it is not there yet.
async fn look(
    jobs: &Jobs,
    lookup: &UsageLookup,
    looking: &Looking<'_>,
    is_strict: bool,
) -> Result<Option<UsageRecord>, String> {
    let (core, channel) = (&jobs.core, &lookup.channel);
    if jobs.usage_lookup.is_paused(channel.account.site.id) {
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
    let lines = fetch_usage_records(&core.client, &site_client, &lookup.row.model, USAGE_LOG_LIMITS).await;
    let lines = lines.map_err(|error| {
        if error.kind == SiteErrorKind::Timeout {
            jobs.usage_lookup.pause(site.id);
        }
        error.to_string()
    })?;
    let query = UsageQuery {
        model: &lookup.row.model,
        started: lookup.row.created_at,
        ended: lookup.ended,
        token,
        token_name: channel.token_name.as_deref(),
        reported: reported(lookup.tokens),
        is_strict,
    };
    Ok(looking.book(lines, now_ms(), |lines| find(lines, &query).cloned()))
}

fn reported(tokens: Tokens) -> Option<ReportedTokens> {
    let Tokens { prompt, completion, .. } = tokens;
    (prompt > 0 || completion > 0).then_some(ReportedTokens { prompt, completion })
}

/// Books the difference between the line and what was booked.
async fn settle(core: &Core, lookup: &UsageLookup, record: &UsageRecord) -> crate::store::Result<()> {
    let (tokens, source) = recovered(lookup.tokens, record);
    let bill = bill(&lookup.channel, &lookup.row.model, tokens, record);
    book(core, lookup.booked(), ExactUsage { tokens, source, bill }).await
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
    let platform = Some(channel.account.site.platform);
    let computed = match record.ratios {
        Some((ratios, group_ratio)) => {
            let price = ModelPrice::new(model, Billing::PerToken(ratios), Vec::new(), Labels::default());
            pricing::bill(Some(&ModelPrice { group_ratio, ..price }), platform, tokens)
        }
        None => {
            let catalog = channel.account.prices.load();
            let price = catalog.as_ref().and_then(|catalog| catalog.price(model));
            pricing::bill(price, platform, tokens)
        }
    };
    let charged = record.cost.price();
    if charged > Usd::ZERO { Bill { cost: charged, ..computed } } else { computed }
}
