//! Step 5: picks a channel, and takes what an attempt on it needs: a slot at its site, one for the session, the trial of a
//! cooling channel.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use crate::core::Core;
use crate::dialect::Dialect;
use crate::ids::ChannelOrMember;
use crate::limits::{Lease, SlotRefused};
use crate::proxy::Proxy;
use crate::routing::{
    Channel, ReservePick, Selection, SelectionQuery, SelectionReason, Trial, select, select_bound,
};
use crate::time::{Millis, now_ms};

use super::attempt::{Choice, Slots};
use super::call::Call;
use super::operation::Operation;
use super::retry::dialect_order::{DialectMemoryKey, is_native, is_served};

/// How often a request looks again, before it queues, when a free slot that it saw is taken by another request.
const FREE_SLOT_TRIES: usize = 16;

/// The result of a search for a channel.
pub(super) enum Picked {
    /// A channel, with its slots taken.
    Channel(Choice, Slots),
    /// A channel whose session slots are all taken, and none got free in time.
    Busy(Choice),
    /// No channel, with the time at which the first cooling channel recovers, if cooling is the only obstacle.
    Nothing(Option<Millis>),
    /// Every eligible site is full, and so is the queue, or it did not move in time.
    Saturated,
}

/// Picks a channel and takes its slots, the one of its session first. Sites with a free slot are preferred; only when
/// every eligible site is full does the request queue, at the picked one. A first attempt prefers the channel that served
/// the conversation last.
pub(super) async fn pick(proxy: &Arc<Proxy>, call: &Call, tried: &[ChannelOrMember]) -> Picked {
    let bound =
        call.session.as_ref().filter(|_| tried.is_empty()).and_then(|session| session.channel(&proxy.core));
    let mut search = Search { proxy, call, tried, bound, waits_since: None };
    match search.pick_free().await {
        Some(picked) => picked,
        // Boxed, because waiting is rare: a call's future is kept in one small allocation.
        None => Box::pin(search.pick_in_queue()).await,
    }
}

/// The search for the channel of one attempt.
struct Search<'a> {
    proxy: &'a Proxy,
    call: &'a Call,
    /// The channels of the call's earlier attempts.
    tried: &'a [ChannelOrMember],
    /// The channel that is preferred, because it served the conversation last.
    bound: Option<ChannelOrMember>,
    /// When the search began to wait for a slot for the call's session.
    waits_since: Option<Instant>,
}

/// The channel that a selection gave.
enum Chosen {
    Channel(Choice),
    Nothing {
        earliest_cooldown: Option<Millis>,
        /// A cooling channel that may be tried by one request at a time.
        reserve: Option<Choice>,
    },
}

/// Another trial runs on a cooling channel, or just ran.
struct TrialTaken;

impl Search<'_> {
    /// Picks among the channels whose site has a free slot; `None` when only full sites could serve.
    async fn pick_free(&mut self) -> Option<Picked> {
        for _ in 0..FREE_SLOT_TRIES {
            let (chosen, some_are_full) = self.choose_free();
            let mut choice = match chosen {
                Chosen::Channel(choice) => choice,
                // A full site can serve after a wait; cooling channels are for when nobody else can.
                Chosen::Nothing { .. } if some_are_full => return None,
                Chosen::Nothing { reserve: Some(choice), .. } => choice,
                Chosen::Nothing { earliest_cooldown, reserve: None } => {
                    return Some(Picked::Nothing(earliest_cooldown));
                }
            };
            self.take_turn(&choice);
            let Ok(session) = self.session_lease(&choice.channel).await else {
                return Some(Picked::Busy(choice));
            };
            if session.is_some() {
                let Some(offered) = self.still_offered(choice) else { continue };
                choice = offered;
            }
            // Without both, another request took the slot or the trial in between: choose again.
            if let Some(site) = try_lease(&self.proxy.core, &choice.channel)
                && let Ok(trial) = self.begin_trial(&choice)
            {
                return Some(Picked::Channel(choice, Slots { site, _session: session, trial }));
            }
        }
        None
    }

    /// Waits for a slot of the picked site although it is full. Waits only once: when the channel has become unavailable by
    /// then, another one is picked that needs no waiting.
    async fn pick_in_queue(&mut self) -> Picked {
        let choice = match self.choose(&|_| true) {
            Chosen::Channel(choice) => choice,
            Chosen::Nothing { reserve: Some(choice), .. } => choice,
            Chosen::Nothing { earliest_cooldown, reserve: None } => {
                return Picked::Nothing(earliest_cooldown);
            }
        };
        self.take_turn(&choice);
        let Ok(session) = self.session_lease(&choice.channel).await else { return Picked::Busy(choice) };
        match self.proxy.core.leases.lease(choice.channel.account.site.id).await {
            Ok(site) => {
                if let Some(choice) = self.still_offered(choice)
                    && let Ok(trial) = self.begin_trial(&choice)
                {
                    return Picked::Channel(choice, Slots { site, _session: session, trial });
                }
            }
            Err(refused) => {
                log::debug!("site {} is full: {refused:?}", choice.channel.account.site.name);
                return Picked::Saturated;
            }
        }
        drop(session);
        self.pick_free().await.unwrap_or(Picked::Saturated)
    }

    /// Records the selection before the request waits for anything: the requests that come meanwhile go to others.
    fn take_turn(&self, Choice { channel, reason, .. }: &Choice) {
        let (core, now) = (&self.proxy.core, now_ms());
        if reason.takes_a_turn() {
            for live in std::iter::once(&channel.live).chain(channel.whole()) {
                core.store.telemetry().dirty_channel(live, live.record_selection(now));
            }
        }
        core.live.rotations.record(reason, &self.call.envelope.model, channel.account.site.id, now);
    }

    /// Takes a slot of the channel for the call's session; `None` where it needs none: the call belongs to no session, or
    /// the channel's credential is not one person's login. All waits of a search together take no longer than the setting
    /// says.
    async fn session_lease(&mut self, channel: &Channel) -> Result<Option<Lease>, SlotRefused> {
        if self.call.session.is_none() || !channel.account.session_scoped {
            return Ok(None);
        }
        // The current rules: the call may have been tried elsewhere for a while.
        let mut rules = self.proxy.core.settings.load().session_leases;
        let waited = self.waits_since.get_or_insert_with(Instant::now).elapsed();
        rules.lease.queue_wait = rules.lease.queue_wait.saturating_sub(waited);
        // Boxed, because waiting is rare.
        Box::pin(self.proxy.session_leases.lease(channel.key(), &rules)).await.map(Some)
    }

    /// Checks the choice again after a wait, during which its channel may have been deleted or disabled, or have failed
    /// another request.
    fn still_offered(&self, choice: Choice) -> Option<Choice> {
        let key = choice.channel.key();
        let unbound = Search { bound: None, ..*self };
        match unbound.choose(&|channel| channel.key() == key) {
            Chosen::Channel(offered) => Some(Choice { reason: choice.reason, ..offered }),
            // The channel cools, as it did before the wait or since.
            Chosen::Nothing { reserve, .. } => reserve.filter(|_| choice.reason.is_trial()),
        }
    }

    /// Begins the trial of the chosen channel, if it cools.
    fn begin_trial(&self, Choice { channel, reason, .. }: &Choice) -> Result<Option<Trial>, TrialTaken> {
        let (live, now) = (&channel.live, now_ms());
        let trial = match reason {
            SelectionReason::Trial => live.begin_trial(now, |live| live.is_due_for_trial(now)),
            SelectionReason::HalfOpen => live.begin_trial(now, |live| live.is_half_open(now)),
            SelectionReason::LastResort => {
                let pause = self.call.settings.last_resort.ok_or(TrialTaken)?;
                live.begin_trial(now, |live| live.may_be_last_resort(now, pause))
            }
            _ => return Ok(None),
        };
        trial.map(Some).ok_or(TrialTaken)
    }

    /// Selects among the channels whose site has a free slot; also returns whether any was skipped as full.
    fn choose_free(&self) -> (Chosen, bool) {
        let some_are_full = Cell::new(false);
        let has_free_slot = |channel: &Channel| {
            let leases = &self.proxy.core.leases;
            let free = is_unlimited(channel) || leases.has_free_slot(channel.account.site.id);
            some_are_full.set(some_are_full.get() || !free);
            free
        };
        (self.choose(&has_free_slot), some_are_full.get())
    }

    /// Selects among the eligible channels that `may_take` accepts; prefers the bound one if it is among them.
    fn choose(&self, may_take: &dyn Fn(&Channel) -> bool) -> Chosen {
        let Self { proxy, call, tried, bound, .. } = *self;
        let snapshot = proxy.core.snapshot.load();
        let Some(matched) = snapshot.lookup(&call.envelope.model, call.caller.policy()) else {
            return Chosen::Nothing { earliest_cooldown: None, reserve: None };
        };
        let (dialect, now) = (call.shape.dialect, now_ms());
        let thread = call.kept_thread(&proxy.core);
        let offers = |channel: &Channel| self.can_serve(channel, thread, now) && may_take(channel);
        let query = SelectionQuery {
            model: &call.envelope.model,
            policy: call.caller.policy(),
            tried,
            now,
            may_serve: &offers,
            load: &|channel| proxy.load_of(channel),
            max_avoidance: call.settings.cooldown.max_ms,
            last_resort: call.settings.last_resort,
            limit_avoid: call.settings.limit_avoid,
            rotations: Some(&proxy.core.live.rotations),
        };
        let preferred = bound.and_then(|channel| select_bound(&matched, &query, channel));
        // Completions and embeddings are converted only where no channel has them natively.
        let is_bridged =
            preferred.is_none() && (dialect == Dialect::Completions || call.operation.is_embedding());
        let has_it = |channel: &Channel| {
            let site = &channel.account.site;
            let key =
                DialectMemoryKey { site: site.id, client: dialect, model: &call.model, body: &call.body };
            offers(channel) && is_native(&proxy.dialect_memory, site.platform, key, now)
        };
        let first = SelectionQuery { may_serve: &has_it, ..query };
        let native = is_bridged.then(|| select(&matched, &first, &mut random));
        let native = native.filter(|found| matches!(found, Selection::Channel { .. }));
        match preferred.or(native).unwrap_or_else(|| select(&matched, &query, &mut random)) {
            Selection::Channel { channel, upstream_model, reason } => {
                Chosen::Channel(self.choice(channel, upstream_model, reason))
            }
            Selection::NoneEligible { earliest_cooldown, reserve } => {
                let reserve = reserve.map(|ReservePick { channel, upstream_model, reason }| {
                    self.choice(channel, upstream_model, reason)
                });
                Chosen::Nothing { earliest_cooldown, reserve }
            }
        }
    }

    /// Whether the channel has what the call needs. `thread` is the only channel that has the call's thread, if it is in one.
    fn can_serve(&self, channel: &Channel, thread: Option<ChannelOrMember>, now: Millis) -> bool {
        let call = self.call;
        let has_the_history = || {
            thread.is_none_or(|only| only == channel.key())
                && call.kept_at.as_ref().is_none_or(|kept| kept.account == channel.account.id)
        };
        // A count is no trial of a cooling channel, since it says nothing about how the channel serves.
        let may_be_asked =
            || call.operation != Operation::CountTokens || channel.live.cooldown_phase(now).is_none();
        call.caller.forced_channel.is_none_or(|only| only == channel.id)
            && has_the_history()
            && may_be_asked()
            && is_served(channel.account.site.platform, call.shape.dialect, call.operation)
    }

    fn choice(&self, channel: &Arc<Channel>, upstream_model: &str, reason: SelectionReason) -> Choice {
        // Mostly both names are equal: then they share one text.
        let own = upstream_model == &*self.call.model;
        let model = if own { self.call.model.clone() } else { Arc::from(upstream_model) };
        Choice { channel: channel.clone(), model, reason }
    }
}

/// Whether the site has no `maxConcurrency`. Most have none, and need neither a look-up nor a lock.
fn is_unlimited(channel: &Channel) -> bool {
    channel.account.site.max_concurrency.is_none()
}

fn try_lease(core: &Core, channel: &Channel) -> Option<Lease> {
    if is_unlimited(channel) {
        Some(Lease::default())
    } else {
        core.leases.try_lease(channel.account.site.id)
    }
}

/// Returns a number in [0, 1) for the weighted choice: xorshift64*, seeded per thread by the process's own hash keys.
/// It decides nothing that anyone could profit from guessing.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    thread_local! {
        static STATE: Cell<u64> =
            Cell::new(std::collections::hash_map::RandomState::new().build_hasher().finish() | 1);
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    })
}
