//! A waker that knows whether its task waits.
//!
//! hyper's connections are futures that are polled for anything to happen on them. Polled with the waker of a task, they
//! wake it for every event, even while it is running and would have noticed anyway: a body that hands out its last piece
//! wakes its reader, who has just taken it. The runtime then polls the task once more, and wakes another thread to do
//! so. A task that drives such a future polls it with a [`WakeFlag`] instead, which tells two things apart:
//!
//! - whether anything has happened since the flag was cleared: if not, polling again would be in vain;
//! - whether the task waits: only then is it woken.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::lock;

#[derive(Default)]
pub struct WakeFlag {
    /// Whether a wake-up has come since it was last cleared.
    set: AtomicBool,
    /// Whether the task has returned `Pending` and must be woken.
    waiting: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl WakeFlag {
    /// Clears the flag. Call it before polling the future: every wake-up from now on counts.
    pub fn clear(&self) {
        self.set.store(false, SeqCst);
    }

    /// Whether a wake-up has come since the flag was cleared.
    pub fn is_set(&self) -> bool {
        self.set.load(SeqCst)
    }

    /// Has the next wake-up wake the task. Call it last before returning `Pending`: a wake-up that comes after this
    /// wakes the task, and one that came before is seen here.
    pub fn register(&self, task: &Waker) {
        let mut known = self.task();
        match &mut *known {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
        drop(known);
        self.waiting.store(true, SeqCst);
        if self.is_set() {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        if self.waiting.swap(false, SeqCst)
            && let Some(task) = &*self.task()
        {
            task.wake_by_ref();
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        lock(&self.task)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.store(true, SeqCst);
        self.wake_task();
    }
}

/// A waker for one future inside another that is driven with a [`WakeFlag`]: it records whether that one has been
/// woken.
pub struct InnerFlag {
    set: AtomicBool,
    outer: Arc<WakeFlag>,
}

impl InnerFlag {
    pub fn new(outer: Arc<WakeFlag>) -> Self {
        Self { set: AtomicBool::new(false), outer }
    }

    /// Polls `future` when it is first polled and whenever it has been woken since, however often the outer future is
    /// polled.
    pub async fn run<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        let waker = Waker::from(self.clone());
        self.set.store(true, SeqCst);
        poll_fn(|_| {
            if self.set.swap(false, SeqCst) {
                future.as_mut().poll(&mut Context::from_waker(&waker))
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

impl Wake for InnerFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.store(true, SeqCst);
        self.outer.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_waiting_task_is_woken_and_no_wake_up_is_lost() {
        let (flag, task) = (Arc::new(WakeFlag::default()), Arc::new(WakeFlag::default()));
        let (waker, task_waker) = (Waker::from(flag.clone()), Waker::from(task.clone()));
        waker.wake_by_ref();
        assert!(flag.is_set() && !task.is_set(), "no task waits yet");
        flag.register(&task_waker);
        assert!(task.is_set(), "a wake-up before the wait is seen");
        task.clear();
        flag.clear();
        flag.register(&task_waker);
        waker.wake_by_ref();
        assert!(task.is_set());
        task.clear();
        waker.wake_by_ref();
        assert!(!task.is_set(), "it is woken once for every wait");
    }

    #[test]
    fn a_future_within_is_polled_for_its_own_news_only() {
        let outer = Arc::new(WakeFlag::default());
        let (mut polls, mut inner_waker) = (0, None);
        let mut running = Box::pin(Arc::new(InnerFlag::new(outer.clone())).run(poll_fn(|context| {
            polls += 1;
            inner_waker = Some(context.waker().clone());
            if polls < 2 { Poll::Pending } else { Poll::Ready(polls) }
        })));
        let waker = Waker::from(outer.clone());
        let mut poll = || running.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && poll().is_pending());
        outer.wake_by_ref();
        assert!(poll().is_pending(), "news of the outer future are none");
        drop(running);
        let inner = inner_waker.expect("it was polled");
        outer.clear();
        inner.wake_by_ref();
        assert!(outer.is_set(), "what happens to the inner one happens to both");
        assert_eq!(polls, 1);
    }
}
