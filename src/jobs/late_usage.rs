//! Books corrections to settled requests: in the log row, the usage tables, the channel's cost and the key's budgets.

use std::sync::Arc;

use crate::core::Core;
use crate::keys::{BudgetMask, Charge, Key, KeyDelta};
use crate::metrics::series::TOKEN_KINDS;
use crate::money::Usd;
use crate::routing::Channel;
use crate::routing::pricing::{self, Bill, Tokens};
use crate::store::amend::{Amendment, Claim, Correction, LoggedTokens, RowName, amend};
use crate::store::cached_tokens::CachedTokens;
use crate::store::proxy_logs::UsageSource;
use crate::store::{Result, budgets};
use crate::time::{Millis, monotonic_ms, now_ms};

/// A settled request, as it was booked.
pub struct BookedRequest<'a> {
    pub row: &'a RowName,
    /// `None` where the channel is gone.
    pub channel: Option<&'a Arc<Channel>>,
    pub payer: Option<Payer>,
    pub tokens: Tokens,
    pub cost: Usd,
    /// The claim that is taken in one transaction with the booking, so that the booking happens once.
    pub claim: Option<Claim>,
}

/// The downstream key that paid for a request.
#[derive(Clone)]
pub struct Payer {
    key: Arc<Key>,
    /// The key's budgets that count the request.
    budgets: BudgetMask,
    /// How often the key's usage had been reset when it paid.
    resets: u64,
}

/// A settled request whose exact usage or price is to become known.
pub struct SettledRequest {
    pub row: RowName,
    pub channel: Arc<Channel>,
    pub payer: Option<Payer>,
    pub ended: Millis,
    /// The tokens as the answer reported them; `cost` is what was charged for them.
    pub tokens: Tokens,
    pub cost: Usd,
    /// Whether `cost` was computed from a price list; otherwise it is the flat estimate.
    pub is_priced: bool,
}

impl Payer {
    /// Builds the payer of a request that is charged now.
    pub fn new(key: Arc<Key>, budgets: BudgetMask) -> Self {
        let resets = key.live.resets();
        Self { key, budgets, resets }
    }

    /// Whether the key's usage was reset since it paid.
    fn is_reset(&self) -> bool {
        self.key.live.resets() != self.resets
    }
}

impl SettledRequest {
    /// Returns the request as it was booked.
    fn booked(&self) -> BookedRequest<'_> {
        BookedRequest {
            row: &self.row,
            channel: Some(&self.channel),
            payer: self.payer.clone(),
            tokens: self.tokens,
            cost: self.cost,
            claim: None,
        }
    }
}

/// The exact usage and bill of a request, as they became known later.
pub struct ExactUsage {
    pub tokens: Tokens,
    /// Where the tokens come from; `None` leaves those of the log row as they are.
    pub source: Option<UsageSource>,
    pub bill: Bill,
}

/// The charge of a key, and the change of its stored sums.
struct KeyCharge<'a> {
    key: &'a Key,
    amount: Charge,
    of_rows: KeyDelta,
}

/// Books the difference: in the database first, in one transaction, then in memory, so that memory counts nothing that the
/// database lacks.
///
/// # Errors
/// [`Error::NotFound`](crate::store::Error::NotFound) when somebody else has taken the claim; then nothing is booked.
pub async fn book(core: &Core, booked: BookedRequest<'_>, known: ExactUsage) -> Result<()> {
    let (tokens, more_cost) = (known.tokens, known.bill.cost - booked.cost);
    // The row may still wait to be written.
    core.store.flush().await;
    // Until memory counts what the database counts, the key is not reset, and nothing is read of it.
    let turn = match &booked.payer {
        Some(payer) => Some(payer.key.live.turn.lock().await),
        None => None,
    };
    let charge = booked.charge(core, tokens, more_cost).await?;
    let is_logged =
        amend(&core.store, &core.config.time_zone, booked.amendment(known, charge.as_ref())).await?;
    if let Some(charge) = charge {
        charge.key.add_stored(&charge.of_rows, &charge.amount);
    }
    drop(turn);
    // Where all usage was cleared since, the channel does not count the request any more, but its key does.
    if let Some(channel) = booked.channel.filter(|_| is_logged) {
        for live in std::iter::once(&channel.live).chain(channel.whole()) {
            core.store.telemetry().dirty_channel(live, live.record_cost(more_cost));
        }
    }
    measure(core, &booked.row.model, booked.channel, [booked.tokens, tokens], more_cost);
    if booked.claim.is_some() {
        // Nobody books it again, so the sum of the channel does not wait for the next group of telemetry.
        core.store.flush().await;
    }
    Ok(())
}

/// Books the difference of a request; where it cannot be stored, logs that the estimate stands. Returns whether it is
/// booked.
pub(super) async fn book_or_warn(core: &Core, request: &SettledRequest, known: ExactUsage) -> bool {
    let booked = book(core, request.booked(), known).await;
    if let Err(error) = &booked {
        log::warn!(
            "the log row of {} keeps its estimated usage and cost, the real ones could not be stored: {error}",
            request.row.request_id.as_str()
        );
    }
    booked.is_ok()
}

impl BookedRequest<'_> {
    /// Builds the amendment of the log row, the usage tables and the sums of the key.
    fn amendment(&self, known: ExactUsage, charge: Option<&KeyCharge<'_>>) -> Amendment {
        let ExactUsage { tokens, source, bill } = known;
        let platform = self.channel.map(|channel| channel.account.site.platform);
        let spend = |cost, tokens| pricing::spend(cost, platform, tokens);
        let (now_cached, was_cached) = (cached(tokens), cached(self.tokens).unwrap_or_default());
        let more_cached = now_cached.map_or(CachedTokens::default(), |now| CachedTokens {
            input: now.input - was_cached.input,
            read: now.read - was_cached.read,
            creation: now.creation - was_cached.creation,
        });
        Amendment {
            row: self.row.clone(),
            tokens: source.map(|source| LoggedTokens {
                prompt: count(tokens.prompt),
                completion: count(tokens.completion),
                total: count(total(tokens)),
                source,
            }),
            cached: now_cached,
            cost: bill.cost,
            billing_details: bill.details.and_then(|details| serde_json::to_string(&details).ok()),
            more: Correction {
                tokens: count(total(tokens)) - count(total(self.tokens)),
                input: count(tokens.input()) - count(self.tokens.input()),
                output: count(tokens.completion) - count(self.tokens.completion),
                cost: bill.cost - self.cost,
                spend: spend(bill.cost, total(tokens)) - spend(self.cost, total(self.tokens)),
                cached: more_cached,
            },
            charged: charge.map(|charge| charge.of_rows.clone()),
            is_key_reset: self.payer.as_ref().is_some_and(Payer::is_reset),
            claim: self.claim.clone(),
        }
    }

    /// Returns the difference that the key pays, unless its usage was reset since it paid. The caller holds the key's turn.
    async fn charge(&self, core: &Core, tokens: Tokens, more_cost: Usd) -> Result<Option<KeyCharge<'_>>> {
        let Some(payer) = self.payer.as_ref().filter(|payer| !payer.is_reset()) else { return Ok(None) };
        let more_tokens = count(all(tokens)) - count(all(self.tokens));
        if more_cost == Usd::ZERO && more_tokens == 0 {
            return Ok(None);
        }
        let now = now_ms();
        let mut began = self.row.created_at;
        if self.claim.is_some() {
            // What was made in the background may end long after the windows in which it began: it counts where it ends.
            began = now;
            for budget in payer.key.limits.iter().flat_map(|limits| limits.in_mask(payer.budgets)) {
                budgets::open(&core.store, payer.key.id, (&budget.live, budget.period), now).await?;
            }
        }
        let ticks = monotonic_ms();
        let amount = Charge { cost: more_cost, tokens: more_tokens, began, now, ticks };
        let of_rows = payer.key.charge_of_rows(payer.budgets, &amount);
        Ok(Some(KeyCharge { key: &payer.key, amount, of_rows }))
    }
}

/// Adds to the metrics what exceeds the count from before. Such counters only rise: an estimate that was too high stays
/// in them.
fn measure(
    core: &Core,
    model: &str,
    channel: Option<&Arc<Channel>>,
    [before, now]: [Tokens; 2],
    more_cost: Usd,
) {
    let metrics = &core.metrics;
    metrics.prompt_tokens.add(now.input().saturating_sub(before.input()));
    metrics.completion_tokens.add(now.completion.saturating_sub(before.completion));
    if let Some(channel) = channel {
        let (now, before) = (by_kind(now), by_kind(before));
        let more = std::array::from_fn(|kind| now[kind].saturating_sub(before[kind]));
        metrics.series.spend(channel.id, model, more_cost, more);
    }
}

/// Returns the token counts in the order of [`TOKEN_KINDS`].
fn by_kind(tokens: Tokens) -> [u64; TOKEN_KINDS.len()] {
    [tokens.input(), tokens.completion, tokens.cache_read, tokens.cache_creation]
}

fn total(tokens: Tokens) -> u64 {
    tokens.total.max(tokens.prompt.saturating_add(tokens.completion))
}

/// Returns all tokens, with cached ones: what the limits of a key count.
fn all(tokens: Tokens) -> u64 {
    total(tokens).max(tokens.input().saturating_add(tokens.completion))
}

fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Returns the tokens of a request in which a cache had a part; `None` where no cache is known to have had one.
fn cached(tokens: Tokens) -> Option<CachedTokens> {
    (tokens.cached() > 0).then(|| CachedTokens {
        input: count(tokens.input()),
        read: count(tokens.cache_read),
        creation: count(tokens.cache_creation),
    })
}
