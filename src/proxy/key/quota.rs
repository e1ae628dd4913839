//! Counting a call against the limits of its key. Only calls that reach routing count.
//!
//! Most calls spend a request that is already reserved: one atomic step. The call that finds the
//! block spent reserves the next one, and the calls behind it wait for that; a block that runs low is topped
//! up in the background. A reservation is background work, because a client that hangs up must not
//! stop it between the commit and the block; so is the opening of a budget's window.
//!
//! ```text
//! a slot ─ room in the minute ─ each budget ─ the minute ─ the key's total ─▶ let in
//! ```
//!
//! A call that a later limit refuses gives back what it has taken: a refused call counts nowhere.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use crate::core::Core;
use crate::ids::KeyId;
use crate::keys::{Budget, BudgetMask, BudgetRefusal, Key, KeyLimits, KeyLive, KeyRejection, OverLimit};
use crate::limits::Lease;
use crate::store::{self, budgets, quota};
use crate::time::{Millis, monotonic_ms, now_ms};

/// How often budgets are made ready for one request: each may lack its window or a request, and calls that come meanwhile
/// may take what was reserved.
const TRIES: usize = 64;
/// The longest time that a call waits until the database has counted it.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// The message to clients when a call could not be counted.
pub(in crate::proxy) const NOT_COUNTED: &str = "The request could not be counted against the limits of its key: the \
                                                database of this service does not answer, or it fails. Try again later";

/// Why a call is not let in.
pub(in crate::proxy) enum AdmissionRefusal {
    /// The key's total limit is used up.
    OverTotal(KeyRejection),
    Over(OverLimit),
    /// The call could not be counted because the disk is full.
    StorageFull,
    /// The call could not be counted; the log says why.
    Unavailable,
}

/// What an admitted call holds of its key's limits. Clones share it.
#[derive(Clone, Default)]
pub(in crate::proxy) struct Admission {
    /// The slot among the key's concurrent calls, held until the last clone has left.
    slot: Option<Arc<Lease>>,
    budgets: BudgetMask,
}

impl Admission {
    /// Builds the admission of work that is no request of the key's: it counts nowhere, and what it costs counts in the
    /// budgets of this model.
    pub(in crate::proxy) fn of_uncounted(key: Option<&Key>, model: &str) -> Self {
        let limits = key.and_then(|key| key.limits.as_ref());
        Self { slot: None, budgets: limits.map_or(0, |limits| limits.counting(model)) }
    }

    /// Builds the admission of a call that was counted before and goes on: it takes a slot, and what it costs counts in the
    /// budgets of this model.
    pub(in crate::proxy) fn of_counted(key: Option<&Key>, model: &str) -> Result<Self, AdmissionRefusal> {
        let limited = key.and_then(|key| Some((key, key.limits.as_deref()?)));
        let slot = limited.map_or(Ok(None), |(key, limits)| slot(key, limits))?;
        Ok(Self { slot, ..Self::of_uncounted(key, model) })
    }
}

/// One request counted in budgets; given back when dropped, unless it is kept.
struct TakenFromBudgets<'a> {
    limits: &'a KeyLimits,
    mask: BudgetMask,
    at: Millis,
}

/// Admits a call of this model, and counts it.
pub(in crate::proxy) async fn admit(
    core: &Arc<Core>,
    key: &Arc<Key>,
    model: &str,
) -> Result<Admission, AdmissionRefusal> {
    // Boxed, because it is rare and large.
    if core.store.database().is_shared() && key.is_charged_later() {
        Box::pin(core.refresh_spending(key)).await;
        key.check_totals().map_err(AdmissionRefusal::OverTotal)?;
    }
    match &key.limits {
        None => count(core, key).await.map(|()| Admission::default()),
        // Boxed, so that calls without limits do not carry its size.
        Some(limits) => Box::pin(in_time(key.id, admit_limited(core, key, limits, model))).await,
    }
}

async fn admit_limited(
    core: &Arc<Core>,
    key: &Arc<Key>,
    limits: &KeyLimits,
    model: &str,
) -> Result<Admission, AdmissionRefusal> {
    let slot = slot(key, limits)?;
    limits.check_minute(&key.live, monotonic_ms()).map_err(AdmissionRefusal::Over)?;
    let taken = take_from_budgets(core, key, limits, model).await?;
    limits.count_in_minute(&key.live, monotonic_ms()).map_err(AdmissionRefusal::Over)?;
    count(core, key).await?;
    Ok(Admission { slot, budgets: taken.keep() })
}

/// Takes a slot among the key's concurrent calls, where these are limited.
fn slot(key: &Key, limits: &KeyLimits) -> Result<Option<Arc<Lease>>, AdmissionRefusal> {
    let Some(most) = limits.max_concurrency else { return Ok(None) };
    let slot = key.live.enter().ok_or(AdmissionRefusal::Over(OverLimit::Concurrency(most)))?;
    Ok(Some(Arc::new(slot)))
}

/// Counts one request of the key.
async fn count(core: &Arc<Core>, key: &Key) -> Result<(), AdmissionRefusal> {
    match key.max_requests {
        None => key.live.count(),
        Some(max) if key.live.requests.take() => top_up(core, &key.live, max),
        // Boxed, because it is rare and large.
        Some(max) => Box::pin(in_time(key.id, take(core, &key.live, max))).await?,
    }
    core.store.telemetry().dirty_key(&key.live, key.live.record_use(now_ms()), false);
    Ok(())
}

/// Reserves the next block before a call has to wait for it.
fn top_up(core: &Arc<Core>, live: &Arc<KeyLive>, max: i64) {
    if live.requests.runs_low(max, core.store.database().reservation_horizon())
        && let Ok(turn) = live.turn.clone().try_lock_owned()
    {
        drop(reserve(core, live, max, turn));
    }
}

/// Waits until a request can be spent; fails when none is left.
async fn take(core: &Arc<Core>, live: &Arc<KeyLive>, max: i64) -> Result<(), AdmissionRefusal> {
    loop {
        let turn = live.turn.clone().lock_owned().await;
        // The holder of the turn before may have reserved enough for two.
        if live.requests.take() {
            return Ok(());
        }
        match prepared(live.id, reserve(core, live, max, turn)).await? {
            true if live.requests.take() => return Ok(()),
            true => {}
            false => return Err(AdmissionRefusal::OverTotal(KeyRejection::OverRequests)),
        }
    }
}

/// Counts one request in each budget that is for this model.
async fn take_from_budgets<'a>(
    core: &Arc<Core>,
    key: &Arc<Key>,
    limits: &'a KeyLimits,
    model: &str,
) -> Result<TakenFromBudgets<'a>, AdmissionRefusal> {
    let mut turn = None;
    for _ in 0..TRIES {
        let at = now_ms();
        let place = match limits.take(model, at) {
            Ok(mask) => {
                drop(turn);
                top_up_budgets(core, key, limits, mask);
                return Ok(TakenFromBudgets { limits, mask, at });
            }
            Err(BudgetRefusal::Over(limit)) => return Err(AdmissionRefusal::Over(limit)),
            Err(BudgetRefusal::NotReady(place)) => place,
        };
        // Calls that found nothing ready take turns, and each keeps its turn until it has its request:
        // otherwise another call would always take what was reserved for it.
        turn = Some(match turn.take() {
            None => key.live.turn.clone().lock_owned().await,
            Some(turn) => prepared(key.id, prepare(core, key, place, at, turn)).await?,
        });
    }
    log::error!("the budgets of downstream key {} could not be prepared for a request", key.id);
    Err(AdmissionRefusal::Unavailable)
}

/// Reserves the next block of the first of these budgets that runs low, before a call has to wait for it.
fn top_up_budgets(core: &Arc<Core>, key: &Arc<Key>, limits: &KeyLimits, mask: BudgetMask) {
    let reach = core.store.database().reservation_horizon();
    let runs_low = |budget: &Budget| {
        budget.bounds.requests.is_some_and(|most| budget.live.requests().0.runs_low(most, reach))
    };
    let low =
        (0..limits.budgets.len()).find(|place| mask & (1 << place) != 0 && runs_low(&limits.budgets[*place]));
    if let Some(place) = low
        && let Ok(turn) = key.live.turn.clone().try_lock_owned()
    {
        drop(prepare(core, key, place, now_ms(), turn));
    }
}

/// Refuses a call that cannot be counted in time. What is being reserved for it meanwhile is there for the next one.
async fn in_time<T>(
    key: KeyId,
    counted: impl Future<Output = Result<T, AdmissionRefusal>>,
) -> Result<T, AdmissionRefusal> {
    timeout(LONGEST_WAIT, counted).await.unwrap_or_else(|_| {
        log::error!("requests for downstream key {key} could not be reserved: the database does not answer");
        Err(AdmissionRefusal::Unavailable)
    })
}

/// Waits for the outcome of a background reservation; logs a failure.
async fn prepared<T>(
    key: KeyId,
    outcome: oneshot::Receiver<store::Result<T>>,
) -> Result<T, AdmissionRefusal> {
    match outcome.await {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(error)) => {
            log::error!("requests for downstream key {key} could not be reserved: {error}");
            Err(match error {
                store::Error::Full(_) => AdmissionRefusal::StorageFull,
                _ => AdmissionRefusal::Unavailable,
            })
        }
        Err(_stopping) => Err(AdmissionRefusal::Unavailable),
    }
}

/// Reserves in the background, and reports the outcome to the caller if it still waits.
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
        // Nobody listens to a top-up, and nobody needs to: a failure shows again when a call waits.
        let _ = done.send(result);
    });
    reserved
}

/// Prepares, in the background, the budget at this place for a request at `now`: opens its window and reserves requests.
/// Gives the turn back to the caller if it still waits.
fn prepare(
    core: &Arc<Core>,
    key: &Arc<Key>,
    place: usize,
    now: Millis,
    turn: OwnedMutexGuard<()>,
) -> oneshot::Receiver<store::Result<OwnedMutexGuard<()>>> {
    let (done, ready) = oneshot::channel();
    let (store, key) = (core.store.clone(), key.clone());
    core.background.spawn("the reservation of a budget's requests", async move {
        let result = prepare_budget(&store, &key, place, now).await;
        let _ = done.send(result.map(|()| turn));
    });
    ready
}

async fn prepare_budget(store: &store::Store, key: &Key, place: usize, now: Millis) -> store::Result<()> {
    let Some(budget) = key.limits.as_ref().and_then(|limits| limits.budgets.get(place)) else {
        return Ok(());
    };
    budgets::open(store, key.id, (&budget.live, budget.period), now).await?;
    if let Some(most) = budget.bounds.requests {
        quota::reserve_in_window(store, key.id, &budget.live, most).await?;
    }
    Ok(())
}

// === impl Admission ===

impl Admission {
    /// Takes a slot, if one is free, for a call admitted by an earlier run of this process; its budgets have counted
    /// it already.
    pub(in crate::proxy) fn resumed(key: &Key) -> Self {
        let is_limited = key.limits.as_ref().is_some_and(|limits| limits.max_concurrency.is_some());
        let slot = is_limited.then(|| key.live.enter()).flatten();
        Self { slot: slot.map(Arc::new), budgets: 0 }
    }

    /// Returns which of the key's budgets count the call.
    pub(in crate::proxy) fn budgets(&self) -> BudgetMask {
        self.budgets
    }

    /// Releases the slot held by this clone: the call is no longer at work.
    pub(in crate::proxy) fn release_slot(&mut self) {
        self.slot = None;
    }
}

// === impl TakenFromBudgets ===

impl TakenFromBudgets<'_> {
    /// Keeps the counted request, because the call is made.
    fn keep(mut self) -> BudgetMask {
        std::mem::take(&mut self.mask)
    }
}

impl Drop for TakenFromBudgets<'_> {
    fn drop(&mut self) {
        self.limits.put_back(self.mask, self.at);
    }
}
