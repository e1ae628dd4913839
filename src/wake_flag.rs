//! A waker that knows whether anybody sleeps.
//!
//! hyper's connections are futures that are polled for anything to happen on them. Polled with the waker of a task they
//! wake it for whatever happens, also while it is at work and would have seen it anyway: a body gives its last piece and
//! wakes its reader, who has just taken it. The runtime then polls the task once more, and wakes another thread to do
//! so. Whoever drives such a future polls it with a [`Bell`] of its own, which tells two things apart:
//!
//! - whether anything has happened since the last look: if not, polling again would be in vain;
//! - whether the task waits: only then it is woken.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

#[derive(Default)]
pub struct Bell {
    /// Something has happened since it was last silenced.
    rung: AtomicBool,
    /// The task has returned `Pending` and must be woken.
    waiting: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Bell {
    /// To be called before the future is polled: from now on every ring counts.
    pub fn silence(&self) {
        self.rung.store(false, SeqCst);
    }

    /// Whether there may be work since it was silenced.
    pub fn has_rung(&self) -> bool {
        self.rung.load(SeqCst)
    }

    /// Has the task woken at the next ring. To be called last before returning `Pending`: either a ring that comes after
    /// this wakes the task, or one that came before is seen here.
    pub fn wait(&self, task: &Waker) {
        let mut known = self.task();
        match &mut *known {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
        drop(known);
        self.waiting.store(true, SeqCst);
        if self.has_rung() {
            self.call();
        }
    }

    /// Nobody waits any more, and what has happened is of no interest.
    pub fn rest(&self) {
        self.waiting.store(false, SeqCst);
        self.silence();
        *self.task() = None;
    }

    fn call(&self) {
        if self.waiting.swap(false, SeqCst)
            && let Some(task) = &*self.task()
        {
            task.wake_by_ref();
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, SeqCst);
        self.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_waits_is_woken_and_no_ring_is_lost() {
        let (bell, task) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let (rope, waker) = (Waker::from(bell.clone()), Waker::from(task.clone()));
        rope.wake_by_ref();
        assert!(bell.has_rung() && !task.has_rung(), "nobody waits yet");
        bell.wait(&waker);
        assert!(task.has_rung(), "what rang before the wait is heard");
        task.silence();
        bell.silence();
        bell.wait(&waker);
        rope.wake_by_ref();
        assert!(task.has_rung());
        task.silence();
        rope.wake_by_ref();
        assert!(!task.has_rung(), "it is woken once for every wait");
    }
}
