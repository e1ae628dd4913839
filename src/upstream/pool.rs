//! Idle connections, by origin.
//!
//! Last in, first out: the warmest connection serves next and the surplus of a burst ages out. The number of kept
//! connections has no limit (one would cost a handshake per request above it). They are dropped when they have been
//! idle for as long as their upstream keeps them, when it closes them, which a sweep or the next checkout finds, or
//! when this process has nothing else left for a new connection.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connection::UpstreamConnection;
use crate::routing::Origin;
use crate::sync::lock;

const SWEEP_EVERY: Duration = Duration::from_secs(15);
const SHARDS: usize = 16;

type Idle = HashMap<Arc<Origin>, Vec<Box<UpstreamConnection>>, BuildHasherDefault<OriginHasher>>;

pub(crate) struct Pool {
    shards: [Mutex<Idle>; SHARDS],
    sweeper: OnceLock<AbortHandle>,
}

impl Pool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { shards: Default::default(), sweeper: OnceLock::new() })
    }

    /// Takes out a kept connection to `origin` that is still open as far as this process has heard; for a request that
    /// `must_know`, as far as the kernel has.
    pub(crate) fn checkout(
        &self,
        origin: &Arc<Origin>,
        now: Instant,
        must_know: bool,
    ) -> Option<Box<UpstreamConnection>> {
        loop {
            let mut wire = lock(self.shard(origin)).get_mut(origin)?.pop()?;
            if wire.is_usable(now, must_know) {
                return Some(wire);
            }
        }
    }

    /// Keeps a connection whose exchange is over.
    pub(crate) fn keep(self: &Arc<Self>, origin: &Arc<Origin>, mut wire: Box<UpstreamConnection>) {
        wire.set_idle();
        let mut shard = lock(self.shard(origin));
        match shard.get_mut(origin) {
            Some(wires) => wires.push(wire),
            None => {
                shard.insert(Arc::clone(origin), vec![wire]);
            }
        }
        drop(shard);
        // Without a runtime (a body dropped after it has stopped) a sweep has no use and cannot run.
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

    /// Closes all idle connections while it holds the lock, so that a concurrent caller goes on only when they are
    /// closed.
    pub(crate) fn close_all(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// Returns the number of kept connections, to all origins.
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

/// A hasher that takes over the hash that an [`Origin`] computed when it was made.
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
