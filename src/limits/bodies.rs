//! The memory that all request bodies share, from the first bytes of each until it is answered.
//!
//! ```text
//! body ─▶ up to FREE_BODY ────────────────────────▶ read at once, nothing is counted
//!     └─▶ longer ─┬─ room, and within its share ──▶ HeldMemory, until dropped
//!                 ├─ a place in the queue ─ wait ─▶ the same
//!                 └─ else, or waited too long ────▶ OutOfBodyMemory
//! ```
//!
//! A body with a known length is counted whole before it is read, so that such bodies never wait for each other half read.
//! The length of a chunked or compressed one is not known: it grows in steps, and may have to wait for a
//! step while it holds what it has. Only one such body waits at a time. A second one is refused at once, which gives
//! back what it holds; all others go on to their end. So bodies cannot wait for each other in a circle.
//!
//! Memory that its holder can do without (the conversation of an idle socket) is lent: when a body waits that it would
//! help, the holder of the oldest such loan is asked to give it back.
//!
//! First come, first served, except for an owner that has its share already: its bodies are passed over until one of its
//! own ends. A body larger than its owner's share is read when the owner has no other, and one larger than all of the memory
//! when no other body has any.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fast_map::FastMap;
use crate::ids::KeyId;
use crate::sync::lock;

/// The length up to which a body is not counted, in bytes: most requests are no longer.
pub const FREE_BODY: usize = 64 * 1024;
/// The maximum number of waiting bodies, in all and of one owner, and the maximum wait of each.
const MAX_WAITING: usize = 64;
const MAX_WAITING_EACH: usize = 48;
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The memory for bodies, and how much of it each owner has.
#[derive(Debug)]
pub struct BodyMemory {
    total: usize,
    /// The maximum that one owner has while it has more than one body, in bytes.
    share: usize,
    state: Mutex<State>,
}

/// The owner of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyOwner {
    #[default]
    Operator,
    /// All callers with the global proxy token.
    ProxyToken,
    /// The managed key with this id.
    Key(KeyId),
}

/// The share of the memory that one body takes; given back when dropped.
#[derive(Debug)]
pub struct HeldMemory {
    memory: Arc<BodyMemory>,
    owner: BodyOwner,
    bytes: usize,
}

/// The error when the memory is taken, and was while the body could wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBodyMemory;

#[derive(Debug, Default)]
struct State {
    free: usize,
    owners: FastMap<BodyOwner, usize>,
    waiting: VecDeque<Waiter>,
    /// The loans, oldest first.
    loans: VecDeque<Lender>,
    last_ticket: u64,
}

#[derive(Debug)]
struct Lender {
    ticket: u64,
    owner: BodyOwner,
    asked: oneshot::Sender<()>,
}

/// Memory that its holder gives up when asked for it.
#[derive(Debug)]
pub struct Loan {
    memory: Arc<BodyMemory>,
    ticket: u64,
    asked: oneshot::Receiver<()>,
    /// Whether the holder knows that it was asked.
    is_heard: bool,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    demand: Demand,
    granted: oneshot::Sender<()>,
}

/// The memory that a body wants beside what it has.
#[derive(Clone, Copy, Debug)]
struct Demand {
    owner: BodyOwner,
    has: usize,
    more: usize,
}

/// A place in the queue, left when dropped. Memory that was granted meanwhile and not taken goes back.
struct Place<'a> {
    memory: &'a BodyMemory,
    ticket: u64,
    demand: Demand,
    is_taken: bool,
}

// === impl OutOfBodyMemory ===

impl OutOfBodyMemory {
    /// The wait in seconds after which another try makes sense.
    pub const RETRY_AFTER_SECS: u64 = 5;
}

// === impl BodyMemory ===

impl BodyMemory {
    /// Creates a memory of this many bytes for all bodies together.
    pub fn new(total: usize) -> Arc<Self> {
        let state = State { free: total, ..State::default() };
        Arc::new(Self { total, share: total / 4 * 3, state: Mutex::new(state) })
    }

    /// Creates the share of one body, which is empty at first.
    pub fn body(self: &Arc<Self>, owner: BodyOwner) -> HeldMemory {
        HeldMemory { memory: self.clone(), owner, bytes: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until a body's demand is granted.
    async fn take(&self, demand: Demand) -> Result<(), OutOfBodyMemory> {
        let (place, granted) = {
            let mut state = self.state();
            if state.has_room(demand, self.share) && state.is_next(demand, self.share) {
                state.grant(demand);
                return Ok(());
            }
            let granted = state.queue(demand)?;
            (Place { memory: self, ticket: state.last_ticket, demand, is_taken: false }, granted)
        };
        timeout(MAX_WAIT, granted).await.ok().and_then(Result::ok).ok_or(OutOfBodyMemory)?;
        place.take();
        Ok(())
    }

    fn give_back(&self, owner: BodyOwner, bytes: usize) {
        let mut state = self.state();
        state.free += bytes;
        if let Some(has) = state.owners.get_mut(&owner) {
            *has -= bytes;
            if *has == 0 {
                state.owners.remove(&owner);
            }
        }
        state.admit(self.share);
        state.call_in();
    }
}

// === impl State ===

impl State {
    fn is_within_share(&self, demand: Demand, share: usize) -> bool {
        let has = self.owners.get(&demand.owner).copied().unwrap_or(0);
        has == demand.has || has + demand.more <= share
    }

    fn has_room(&self, demand: Demand, share: usize) -> bool {
        demand.more <= self.free && self.is_within_share(demand, share)
    }

    /// Whether no waiting body would be overtaken. A half-read body overtakes those whose reading has not begun.
    fn is_next(&self, demand: Demand, share: usize) -> bool {
        let has_precedence = |waiter: &Waiter| {
            let is_first = demand.has == 0 || waiter.demand.has > 0;
            is_first && (waiter.demand.owner == demand.owner || self.is_within_share(waiter.demand, share))
        };
        !self.waiting.iter().any(has_precedence)
    }

    fn grant(&mut self, demand: Demand) {
        self.free -= demand.more;
        *self.owners.entry(demand.owner).or_default() += demand.more;
    }

    /// Takes a place in the queue: the first one for a half-read body.
    fn queue(&mut self, demand: Demand) -> Result<oneshot::Receiver<()>, OutOfBodyMemory> {
        let of_owner = self.waiting.iter().filter(|waiter| waiter.demand.owner == demand.owner).count();
        if self.waiting.len() >= MAX_WAITING || of_owner >= MAX_WAITING_EACH {
            return Err(OutOfBodyMemory);
        }
        let is_begun = demand.has > 0;
        if is_begun && self.waiting.iter().any(|waiter| waiter.demand.has > 0) {
            return Err(OutOfBodyMemory);
        }
        let (granted, receiver) = oneshot::channel();
        self.last_ticket += 1;
        let waiter = Waiter { ticket: self.last_ticket, demand, granted };
        if is_begun {
            self.waiting.push_front(waiter)
        } else {
            self.waiting.push_back(waiter)
        }
        self.call_in();
        Ok(receiver)
    }

    /// Asks for the oldest loan that would help a waiting body.
    fn call_in(&mut self) {
        let helps = |loan: &Lender| {
            let mut waiting = self.waiting.iter();
            waiting.any(|waiter| waiter.demand.more > self.free || waiter.demand.owner == loan.owner)
        };
        if let Some(loan) = self.loans.iter().position(helps).and_then(|at| self.loans.remove(at)) {
            // A holder that is gone meanwhile has given it back.
            let _ = loan.asked.send(());
        }
    }

    /// Grants waiting demands, in order, as far as there is room.
    fn admit(&mut self, share: usize) {
        // Owners that have their share: all their waiting bodies are passed over.
        let mut aside = Vec::new();
        while let Some(Waiter { demand, .. }) = self.waiting.get(aside.len()) {
            let (at, demand) = (aside.len(), *demand);
            if aside.contains(&demand.owner) || !self.is_within_share(demand, share) {
                aside.push(demand.owner);
                continue;
            }
            if demand.more > self.free {
                return;
            }
            self.grant(demand);
            if let Some(waiter) = self.waiting.remove(at) {
                // A body that does not take it leaves its place, which gives the memory back.
                let _ = waiter.granted.send(());
            }
        }
    }
}

// === impl Place ===

impl Place<'_> {
    fn take(mut self) {
        self.is_taken = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let mut state = self.memory.state();
        let before = state.waiting.len();
        state.waiting.retain(|waiter| waiter.ticket != self.ticket);
        let was_granted = state.waiting.len() == before;
        if was_granted {
            drop(state);
            self.memory.give_back(self.demand.owner, self.demand.more);
        } else {
            // The bodies behind it may have waited only for it.
            state.admit(self.memory.share);
        }
    }
}

// === impl HeldMemory ===

impl HeldMemory {
    /// Creates the share of something else of the same owner, which is empty at first.
    pub fn another(&self) -> Self {
        self.memory.body(self.owner)
    }

    /// Sets the owner, once it is known. To be called before anything is held.
    pub fn assign_to(&mut self, owner: BodyOwner) {
        self.shrink_to(0);
        self.owner = owner;
    }

    /// Grows to at least this many bytes, if necessary after a wait.
    ///
    /// # Errors
    /// Fails when there was no room in time, or no place to wait; what is held stays so.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<(), OutOfBodyMemory> {
        let more = bytes.min(self.memory.total).saturating_sub(self.bytes);
        if more > 0 {
            self.memory.take(Demand { owner: self.owner, has: self.bytes, more }).await?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Grows to at least this many bytes, if there is room for them now.
    ///
    /// # Errors
    /// Fails when there is no room, or others wait for it; what is held stays so.
    pub fn grow_at_once(&mut self, bytes: usize) -> Result<(), OutOfBodyMemory> {
        let more = bytes.min(self.memory.total).saturating_sub(self.bytes);
        if more > 0 {
            let demand = Demand { owner: self.owner, has: self.bytes, more };
            let (share, mut state) = (self.memory.share, self.memory.state());
            if !state.has_room(demand, share) || !state.is_next(demand, share) {
                return Err(OutOfBodyMemory);
            }
            state.grant(demand);
            self.bytes += more;
        }
        Ok(())
    }

    /// Takes over the memory of another body of the same owner.
    pub fn take_over(&mut self, mut other: Self) {
        if other.owner == self.owner {
            self.bytes += mem::take(&mut other.bytes);
        }
    }

    /// Lends the memory: the holder can do without it, and gives it back as soon as it is asked for.
    pub fn lend(&self) -> Loan {
        let (asked, receiver) = oneshot::channel();
        let mut state = self.memory.state();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.loans.push_back(Lender { ticket, owner: self.owner, asked });
        // A body may be waiting for it already.
        state.call_in();
        Loan { memory: self.memory.clone(), ticket, asked: receiver, is_heard: false }
    }

    /// Gives back the memory that a body of this many bytes does not need.
    pub fn shrink_to(&mut self, bytes: usize) {
        let needed = if bytes <= FREE_BODY { 0 } else { bytes };
        if let Some(spare) = self.bytes.checked_sub(needed).filter(|spare| *spare > 0) {
            self.bytes = needed;
            self.memory.give_back(self.owner, spare);
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

// === impl Loan ===

impl Loan {
    /// Waits until the memory is asked for.
    pub async fn asked_for(&mut self) {
        let _ = (&mut self.asked).await;
        self.is_heard = true;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        let listed = state.loans.len();
        state.loans.retain(|loan| loan.ticket != self.ticket);
        let was_asked_for = state.loans.len() == listed;
        if was_asked_for && !self.is_heard {
            // Its holder needs the memory itself: another one may help.
            state.call_in();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    async fn held(
        memory: &Arc<BodyMemory>,
        owner: BodyOwner,
        bytes: usize,
    ) -> Result<HeldMemory, OutOfBodyMemory> {
        let mut held = memory.body(owner);
        held.grow_to(bytes).await.map(|()| held)
    }

    fn asked(
        memory: &Arc<BodyMemory>,
        owner: BodyOwner,
        bytes: usize,
    ) -> tokio::task::JoinHandle<Result<HeldMemory, OutOfBodyMemory>> {
        let memory = memory.clone();
        tokio::spawn(async move { held(&memory, owner, bytes).await })
    }

    async fn until_waiting(memory: &BodyMemory, count: usize) {
        while memory.state().waiting.len() != count {
            tokio::task::yield_now().await;
        }
    }

    fn is_whole(memory: &BodyMemory) -> bool {
        let state = memory.state();
        state.free == memory.total && state.owners.is_empty() && state.waiting.is_empty()
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_wait_in_a_bounded_number_and_for_a_bounded_time() {
        let memory = BodyMemory::new(4 * MIB);
        let all = held(&memory, BodyOwner::Operator, 4 * MIB).await.unwrap();
        let waiting: Vec<_> =
            (0..MAX_WAITING).map(|at| asked(&memory, BodyOwner::Key(KeyId::new(at as i64)), MIB)).collect();
        until_waiting(&memory, MAX_WAITING).await;
        assert_eq!(
            held(&memory, BodyOwner::ProxyToken, MIB).await.err(),
            Some(OutOfBodyMemory),
            "one too many"
        );
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().err(), Some(OutOfBodyMemory), "none got room in time");
        }
        drop(all);
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_leaves_room_and_places_for_others() {
        let (memory, greedy, other) =
            (BodyMemory::new(4 * MIB), BodyOwner::Key(KeyId::new(1)), BodyOwner::Key(KeyId::new(2)));
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(held(&memory, greedy, MIB).await.unwrap());
        }
        let waiting: Vec<_> = (0..MAX_WAITING_EACH).map(|_| asked(&memory, greedy, MIB)).collect();
        until_waiting(&memory, MAX_WAITING_EACH).await;
        assert_eq!(held(&memory, greedy, MIB).await.err(), Some(OutOfBodyMemory));
        let others = held(&memory, other, MIB).await.unwrap();
        drop((taken, others));
        for waiting in waiting {
            drop(waiting.await.unwrap().unwrap());
        }
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_larger_than_all_is_read_alone() {
        let memory = BodyMemory::new(MIB);
        let small = held(&memory, BodyOwner::Key(KeyId::new(1)), MIB / 2).await.unwrap();
        let large = asked(&memory, BodyOwner::Key(KeyId::new(1)), 20 * MIB);
        until_waiting(&memory, 1).await;
        drop(small);
        let large = large.await.unwrap().unwrap();
        assert_eq!(memory.state().free, 0);
        drop(large);
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn of_bodies_that_grow_one_waits_and_goes_before_those_not_begun() {
        let memory = BodyMemory::new(4 * MIB);
        let mut first = held(&memory, BodyOwner::Key(KeyId::new(1)), 2 * MIB).await.unwrap();
        let mut second = held(&memory, BodyOwner::Key(KeyId::new(2)), 2 * MIB).await.unwrap();
        let later = asked(&memory, BodyOwner::Key(KeyId::new(3)), MIB);
        until_waiting(&memory, 1).await;
        let growing = tokio::spawn(async move { first.grow_to(3 * MIB).await.map(|()| first) });
        until_waiting(&memory, 2).await;
        assert_eq!(second.grow_to(3 * MIB).await, Err(OutOfBodyMemory), "they would wait for each other");
        drop(second);
        let (first, later) = (growing.await.unwrap().unwrap(), later.await.unwrap().unwrap());
        assert_eq!((first.bytes(), later.bytes(), memory.state().free), (3 * MIB, MIB, 0));
        drop((first, later));
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_waiting_keeps_nothing_and_nobody_up() {
        let memory = BodyMemory::new(4 * MIB);
        let some = held(&memory, BodyOwner::Key(KeyId::new(1)), 2 * MIB).await.unwrap();
        let large = asked(&memory, BodyOwner::Key(KeyId::new(2)), 4 * MIB);
        until_waiting(&memory, 1).await;
        let small = asked(&memory, BodyOwner::Key(KeyId::new(3)), MIB);
        until_waiting(&memory, 2).await;
        large.abort();
        drop(small.await.unwrap().unwrap());
        // Granted, and dropped before it could be taken.
        let granted = asked(&memory, BodyOwner::Key(KeyId::new(2)), 4 * MIB);
        until_waiting(&memory, 1).await;
        drop(some);
        granted.abort();
        assert!(granted.await.is_err());
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_asked_and_needs_the_memory_itself_passes_the_question_on() {
        let memory = BodyMemory::new(4 * MIB);
        let [busy, idle] = [1, 2].map(|key| BodyOwner::Key(KeyId::new(key)));
        let (busy, idle) =
            (held(&memory, busy, 2 * MIB).await.unwrap(), held(&memory, idle, 2 * MIB).await.unwrap());
        let (of_busy, mut of_idle) = (busy.lend(), idle.lend());
        let waiting = asked(&memory, BodyOwner::Operator, MIB);
        until_waiting(&memory, 1).await;
        drop(of_busy);
        of_idle.asked_for().await;
        drop((idle, of_idle));
        drop(waiting.await.unwrap().unwrap());
        drop(busy);
        assert!(is_whole(&memory));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_lent_is_asked_for_when_it_would_help_the_oldest_first() {
        let memory = BodyMemory::new(8 * MIB);
        let mut lent = Vec::new();
        for owner in
            [BodyOwner::Key(KeyId::new(1)), BodyOwner::Key(KeyId::new(2)), BodyOwner::Key(KeyId::new(2))]
        {
            let held = held(&memory, owner, MIB).await.unwrap();
            let loan = held.lend();
            lent.push((held, loan));
        }
        let (third, second, first) = (lent.remove(2), lent.remove(1), lent.remove(0));
        // There is room, but not for an owner that has its share.
        let own = asked(&memory, BodyOwner::Key(KeyId::new(2)), 5 * MIB);
        let (held, mut loan) = second;
        loan.asked_for().await;
        drop((held, loan));
        drop(own.await.unwrap().unwrap());
        let other = asked(&memory, BodyOwner::Key(KeyId::new(3)), 7 * MIB);
        let (held, mut loan) = first;
        loan.asked_for().await;
        drop((held, loan));
        drop(other.await.unwrap().unwrap());
        let (mut held, loan) = third;
        drop(loan);
        assert!(memory.state().loans.is_empty());
        assert_eq!(held.grow_at_once(8 * MIB), Ok(()));
        assert_eq!(memory.body(BodyOwner::Operator).grow_at_once(1), Err(OutOfBodyMemory));
        let waiting = asked(&memory, BodyOwner::Operator, MIB);
        tokio::task::yield_now().await;
        let mut late = held.lend();
        late.asked_for().await;
        waiting.abort();
        let _ = waiting.await;
        drop(late);
        let mut all = memory.body(BodyOwner::Key(KeyId::new(2)));
        all.take_over(held);
        assert_eq!(all.bytes(), 8 * MIB);
        drop(all);
        assert!(is_whole(&memory));
    }

    #[tokio::test]
    async fn a_short_body_holds_nothing_once_it_is_read() {
        let memory = BodyMemory::new(4 * MIB);
        let mut body = held(&memory, BodyOwner::ProxyToken, MIB).await.unwrap();
        body.shrink_to(FREE_BODY + 1);
        assert_eq!(body.bytes(), FREE_BODY + 1);
        body.shrink_to(FREE_BODY);
        assert!(body.bytes() == 0 && is_whole(&memory));
    }
}
