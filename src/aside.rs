//! Long computations beside requests: each on a thread of its own that the system runs when no other thread wants to.
//!
//! The workers of the runtime are for requests, and on a machine of one or two processors a computation on any other thread
//! takes turns with them all the same: a thread that wakes for a request may wait milliseconds for a turn to end. At the
//! lowest priority (`nice` 19) the computation has few turns while others want the processor, and loses nothing while nobody
//! does; it ends a turn early by [`give_way`]. A thread cannot rise again without privileges, so these are not the runtime's own.
//!
//! Work here holds no lock that a request waits for: while requests keep every processor busy, it hardly goes on.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Panic = Box<dyn Any + Send>;

/// The system gave no thread: nothing was done, and may be done later.
#[derive(Debug)]
pub struct NoThread(io::Error);

impl fmt::Display for NoThread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no thread for work in the background: {}", self.0)
    }
}

impl std::error::Error for NoThread {}

/// Runs `work`, within the caller's runtime, and gives what it gives. It goes on to its end when nobody waits for it any
/// more, as what a runtime's own threads for blocking work do; a panic of it is the caller's.
///
/// # Errors
/// When the system gives no thread.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoThread> {
    let runtime = Handle::current();
    let (done, ended) = oneshot::channel::<Result<T, Panic>>();
    let spawned = thread::Builder::new().name("aside".to_owned()).spawn(move || {
        set_priority(19);
        let _within = runtime.enter();
        // Nothing that the work has left half done is looked at again. Who waited may be gone.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    });
    spawned.map_err(NoThread)?;
    match ended.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_gone) => Err(NoThread(io::Error::other("it ended early"))),
    }
}

/// Puts this thread a little behind those that serve requests: one that wakes goes on at once, and when all are busy this
/// one still has half of the time of each. For threads that much waits for, but no request.
pub fn step_back() {
    set_priority(3);
}

/// Lets the threads go first that wait for a turn on this processor, and goes on at once when there are none. The scheduler
/// of Linux since 6.6 lets even the lowest priority finish a turn of some milliseconds that it has begun: whoever computes
/// beside requests says between two small pieces of work that the turn may end here.
pub fn give_way() {
    thread::yield_now();
}

fn set_priority(nice: i32) {
    // On Linux a priority is a thread's own, elsewhere the process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        log::debug!("a thread beside requests keeps its priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The nineteenth field of the status line; the second is a name in parentheses.
    fn nice() -> i32 {
        let status = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = status.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(16).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn work_has_the_lowest_priority_and_leaves_that_of_others() {
        let before = nice();
        assert_eq!(aside(nice).await.unwrap(), 19);
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_thread_that_steps_back_is_a_little_behind() {
        let (before, behind) = thread::spawn(|| {
            let before = nice();
            step_back();
            (before, nice())
        })
        .join()
        .unwrap();
        assert_eq!(behind - before, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "lost 3")]
    async fn a_panic_is_the_callers() {
        aside(|| panic!("lost {}", 3)).await.unwrap();
    }
}
