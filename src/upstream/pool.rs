//! Idle connections, by origin.
//!
//! Last in, first out: the warmest connection serves next and the surplus of a burst ages out. There is no limit to how
//! many are kept (one would cost a handshake per request above it); they leave when they have been idle for as long as
//! their upstream keeps them, or when it closes them, which a sweep or the next checkout finds, or when nothing else is
//! left for a new connection.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::wire::Wire;
use crate::routing::Origin;

const SWEEP_EVERY: Duration = Duration::from_secs(15);
const SHARDS: usize = 16;

type Idle = HashMap<Arc<Origin>, Vec<Box<Wire>>, BuildHasherDefault<OriginHasher>>;

pub(crate) struct Pool {
    shards: [Mutex<Idle>; SHARDS],
    sweeper: OnceLock<AbortHandle>,
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { shards: Default::default(), sweeper: OnceLock::new() })
    }

    /// A kept connection to `origin` that is still open as far as this side has heard; for a request that `must_know`,
    /// as far as the kernel has.
    pub(crate) fn checkout(&self, origin: &Arc<Origin>, now: Instant, must_know: bool) -> Option<Box<Wire>> {
        loop {
            let mut wire = lock(self.shard(origin)).get_mut(origin)?.pop()?;
            if wire.is_usable(now, must_know) {
                return Some(wire);
            }
        }
    }

    /// Keeps a connection whose exchange is over.
    pub(crate) fn keep(self: &Arc<Self>, origin: &Arc<Origin>, mut wire: Box<Wire>) {
        wire.set_idle();
        let mut shard = lock(self.shard(origin));
        match shard.get_mut(origin) {
            Some(wires) => wires.push(wire),
            None => {
                shard.insert(Arc::clone(origin), vec![wire]);
            }
        }
        drop(shard);
        // Without a runtime (a body dropped after it has stopped) there is nobody left to sweep for.
        if self.sweeper.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            self.sweeper.get_or_init(|| runtime.spawn(sweep(Arc::downgrade(self))).abort_handle());
        }
    }

    fn shard(&self, origin: &Origin) -> &Mutex<Idle> {
        let mut hasher = OriginHasher::default();
        origin.hash(&mut hasher);
        // The map takes its bucket from the low bits and its tag from the high ones: the shard takes some between.
        &self.shards[(hasher.finish() >> 32) as usize % SHARDS]
    }

    fn drop_stale(&self) {
        let now = Instant::now();
        for shard in &self.shards {
            let mut stale = Vec::new();
            lock(shard).retain(|_, wires| {
                stale.extend(wires.extract_if(.., |wire| wire.is_overdue(now) || !wire.is_silent()));
                !wires.is_empty()
            });
            drop(stale); // closes the sockets, after the lock
        }
    }

    /// Closes all idle connections, within the lock: who asks for the same meanwhile goes on when they are closed.
    pub(crate) fn close_all(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// How many connections are kept, to all origins.
    pub(crate) fn kept(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).values().map(Vec::len).sum::<usize>()).sum()
    }

    #[cfg(test)]
    pub(crate) fn idle(&self, origin: &Arc<Origin>) -> usize {
        lock(self.shard(origin)).get(origin).map_or(0, Vec::len)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = self.sweeper.get() {
            sweeper.abort();
        }
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match pool.upgrade() {
            Some(pool) => pool.drop_stale(),
            None => return,
        }
    }
}

/// No code that holds the lock can panic half-way through a change, so a poisoned map is still whole.
fn lock(shard: &Mutex<Idle>) -> std::sync::MutexGuard<'_, Idle> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the hash that an [`Origin`] has computed when it was made.
#[derive(Default)]
struct OriginHasher(u64);

impl Hasher for OriginHasher {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3); // FNV-1a
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
