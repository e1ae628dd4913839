//! Exact usage and price from the site's own log, after the client has its answer.
//!
//! Some sites answer without usage, or charge by rules that no price list tells, but keep a log that
//! the account may read. A settled request leaves a lookup here and goes on; the line is looked for
//! in the background, and what it says amends the log row, the usage tables, the channel's cost and
//! the key's. Lookups beyond a bound are dropped: the estimate then stands.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::sessions::site_client::site_client_of;
use crate::core::Core;
use crate::jobs::Jobs;
use crate::keys::{BudgetMask, Charge, Key};
use crate::routing::Channel;
use crate::routing::pricing::usage_record::{UsageQuery, UsageRecord, find};
use crate::routing::pricing::{self, Bill, Billing, Labels, ModelPrice, Tokens};
use crate::store::accounts;
use crate::store::amend::{Amendment, Correction, RowName, amend};
use crate::store::cached::CachedTokens;
use crate::store::proxy_logs::UsageSource;
use crate::store::sites;
use crate::time::{Millis, monotonic_ms, now_ms};
use crate::upstream::platforms::{USAGE_LOG_LIMITS, fetch_usage_records};

/// Sites write their log after the answer, some not at once: the pauses before each look.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(8)];

/// A settled request whose line is wanted.
pub struct Lookup {
    pub row: RowName,
    pub channel: Arc<Channel>,
    /// Who paid for it.
    pub key: Option<Arc<Key>>,
    /// Which of the key's budgets count it.
    pub budgets: BudgetMask,
    pub ended: Millis,
    /// As the answer reported them, and what was charged for them.
    pub tokens: Tokens,
    pub usd: f64,
}

/// Queues the lookup and returns at once.
pub fn enqueue(jobs: &Arc<Jobs>, lookup: Lookup) {
    let Ok(place) = jobs.usage_lookup.waiting.clone().try_acquire_owned() else {
        log::debug!("too many usage lookups wait: the estimate of one request stands");
        return;
    };
    let looking = jobs.clone();
    jobs.core.background.spawn("a usage lookup", async move {
        look_up(&looking, &lookup).await;
        drop(place);
    });
}

async fn look_up(jobs: &Jobs, lookup: &Lookup) {
    for pause in PAUSES {
        sleep(pause).await;
        let looked = {
            let Ok(_slot) = jobs.usage_lookup.slots.acquire().await else { return };
            look(&jobs.core, lookup).await
        };
        match looked {
            Ok(Some(record)) => {
                if let Err(error) = settle(&jobs.core, lookup, &record).await {
                    let id = lookup.row.request_id;
                    log::warn!("the log row of {} keeps its estimate: {error}", id.as_str());
                }
                return;
            }
            Ok(None) => {}
            Err(message) => {
                log::debug!(
                    "the log of site \"{}\" tells nothing: {message}",
                    lookup.channel.account.site.name
                );
                return;
            }
        }
    }
}

/// The request's line in the site's log, when it is there yet.
async fn look(core: &Core, lookup: &Lookup) -> Result<Option<UsageRecord>, String> {
    let channel = &lookup.channel;
    let Some(account) = accounts::get(&core.store, channel.account.id).await.map_err(|e| e.to_string())?
    else {
        return Err("the account is gone".to_owned());
    };
    let Some(site) = sites::get(&core.store, account.site_id).await.map_err(|e| e.to_string())? else {
        return Err("the site is gone".to_owned());
    };
    let token = channel.credential.as_ref().map(|credential| credential.secret().expose());
    let mut site_client = site_client_of(core, &site, &account).map_err(|error| error.to_string())?;
    // The session first, then what the request was sent with, then the account's key.
    site_client.keys.splice(..0, channel.credential.as_ref().map(|sent| sent.secret().clone()));
    let lines = fetch_usage_records(&core.client, &site_client, &lookup.row.model, USAGE_LOG_LIMITS).await;
    let lines = lines.map_err(|error| error.to_string())?;
    let query = UsageQuery {
        model: &lookup.row.model,
        started: lookup.row.created_at,
        ended: lookup.ended,
        token,
        token_name: channel.token_name.as_deref(),
    };
    Ok(find(&lines, &query).cloned())
}

/// Books what the line says beyond what was booked.
async fn settle(core: &Core, lookup: &Lookup, record: &UsageRecord) -> crate::store::Result<()> {
    let channel = &lookup.channel;
    let (tokens, source) = recovered(lookup.tokens, record);
    let bill = bill(channel, &lookup.row.model, tokens, record);
    let total = |tokens: Tokens| tokens.total.max(tokens.prompt.saturating_add(tokens.completion));
    let more_cost = bill.usd - lookup.usd;
    for live in std::iter::once(&channel.live).chain(channel.whole()) {
        if live.record_cost((more_cost * 1e9).round() as i64) {
            core.store.telemetry().dirty_channel(live.clone());
        }
    }
    let more_tokens = count(total(tokens)) - count(total(lookup.tokens));
    let charge = Charge {
        usd: more_cost,
        tokens: more_tokens,
        began: lookup.row.created_at,
        now: now_ms(),
        ticks: monotonic_ms(),
    };
    if let Some(key) = lookup.key.as_ref().filter(|_| more_cost != 0.0 || more_tokens != 0)
        && key.charge(lookup.budgets, &charge)
    {
        core.store.telemetry().dirty_key(key.live.clone(), key.is_near_limit());
    }
    let (told, known) = (cached(tokens), cached(lookup.tokens).unwrap_or_default());
    let more_cached = told.map_or(CachedTokens::default(), |told| CachedTokens {
        input: told.input - known.input,
        read: told.read - known.read,
        creation: told.creation - known.creation,
    });
    let amendment = Amendment {
        row: lookup.row.clone(),
        prompt_tokens: count(tokens.prompt),
        completion_tokens: count(tokens.completion),
        total_tokens: count(total(tokens)),
        cached: told,
        usage_source: source,
        cost: bill.usd,
        billing_details: bill.details.and_then(|details| serde_json::to_string(&details).ok()),
        more: Correction { tokens: more_tokens, cost: more_cost, cached: more_cached },
    };
    amend(&core.store, &core.config.time_zone, amendment).await
}

fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// What a cache had part in; `None` where nothing is known of one.
fn cached(tokens: Tokens) -> Option<CachedTokens> {
    let cached = tokens.cache_read.saturating_add(tokens.cache_creation);
    let beside = if tokens.prompt_includes_cache == Some(false) { cached } else { 0 };
    (cached > 0).then(|| CachedTokens {
        input: count(tokens.prompt.saturating_add(beside)),
        read: count(tokens.cache_read),
        creation: count(tokens.cache_creation),
    })
}

/// The line's tokens where it has any, else the answer's.
fn recovered(answered: Tokens, record: &UsageRecord) -> (Tokens, UsageSource) {
    if record.total == 0 {
        return (answered, UsageSource::Upstream);
    }
    let tokens = Tokens {
        prompt: record.prompt,
        completion: record.completion,
        total: record.total,
        cache_read: record.cache_read.max(answered.cache_read),
        cache_creation: record.cache_creation.max(answered.cache_creation),
        prompt_includes_cache: record.prompt_includes_cache.or(answered.prompt_includes_cache),
    };
    (tokens, UsageSource::SelfLog)
}

/// The sum under the line's ratios, or the price list where it has none; what the line says was
/// charged goes before the sum.
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
    let charged = pricing::round6(record.usd);
    if charged > 0.0 { Bill { usd: charged, ..computed } } else { computed }
}
