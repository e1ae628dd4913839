//! Syncs the write-ahead log to disk after the writer's commit.
//!
//! An operator's change is on disk when it is answered: such a commit waits for the disk. Nobody waits for a
//! group of log rows, and a slow disk would hold up the groups behind it. Groups are committed as soon as the
//! kernel has them, which is enough if the process is killed, and this thread syncs them in case of a power
//! cut: the first at once, those that follow closely together. So a power cut costs the rows less than a
//! quarter of a second old, and those of the sync that it interrupts.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The minimum time from the start of one sync to that of the next. Less than the age that a group may reach,
/// so that no row waits longer than in a group that is slow to fill.
const INTERVAL: Duration = Duration::from_millis(100);

/// The syncing thread. Dropping this stops it; closing the database syncs what is left.
pub(in crate::store) struct WalSync {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<SyncState>,
    wake: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Whether something was committed since the last sync began.
    is_behind: bool,
    stop: bool,
}

impl WalSync {
    /// Starts the thread, which calls `sync` when there is something to sync.
    pub(in crate::store) fn start(sync: impl FnMut() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("store-sync".into()).stack_size(128 * 1024);
        let thread = thread.spawn(move || own.run(sync))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Tells the thread that the log has grown.
    pub(in crate::store) fn committed(&self) {
        let mut state = self.shared.state();
        if !state.is_behind {
            state.is_behind = true;
            drop(state);
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for WalSync {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that syncs the database ended with a panic");
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut sync: impl FnMut() -> io::Result<()>) {
        let mut is_failing = false;
        loop {
            let waits = |state: &mut SyncState| !state.is_behind && !state.stop;
            let mut state = self.wake.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
            if state.stop {
                return;
            }
            state.is_behind = false;
            drop(state);
            let began = Instant::now();
            let synced = sync();
            if let Err(error) = &synced
                && !is_failing
            {
                log::warn!(
                    "the write-ahead log of the database cannot be synced to disk, so a power cut could \
                     lose the latest changes: {error}"
                );
            }
            is_failing = synced.is_err();
            let mut state = self.state();
            // A failed sync is retried, even if nothing new is committed.
            state.is_behind |= is_failing;
            let rest = INTERVAL.saturating_sub(began.elapsed());
            let rested = self.wake.wait_timeout_while(state, rest, |state| !state.stop);
            drop(rested.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_commit_is_synced_and_many_at_once() {
        let (sender, synced) = mpsc::channel();
        let (release, held) = mpsc::channel();
        let thread = WalSync::start(move || {
            sender.send(()).expect("a test");
            held.recv().expect("a test");
            Ok(())
        });
        let thread = thread.expect("a thread");
        let next = || synced.recv_timeout(Duration::from_secs(20)).expect("a sync");
        thread.committed();
        next();
        // A commit during a sync may not be part of it.
        for _ in 0..100 {
            thread.committed();
        }
        release.send(()).expect("a thread");
        next();
        release.send(()).expect("a thread");
        thread.committed();
        next();
        release.send(()).expect("a thread");
        drop(thread);
        assert!(synced.try_recv().is_err(), "three syncs are enough");
    }

    #[test]
    fn a_sync_that_fails_is_tried_again() {
        let (sender, synced) = mpsc::channel();
        let thread = WalSync::start(move || {
            sender.send(()).expect("a test");
            Err(io::Error::other("no disk"))
        });
        let thread = thread.expect("a thread");
        thread.committed();
        for _ in 0..2 {
            synced.recv_timeout(Duration::from_secs(20)).expect("a sync");
        }
    }
}
