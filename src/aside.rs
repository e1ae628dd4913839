//! Long computations beside requests: each on a thread of its own that the system runs when no other thread wants to.
//!
//! The workers of the runtime are for requests, and on a machine of one or two processors a computation on any other thread
//! takes turns with them all the same: a thread that wakes for a request may wait milliseconds for a turn to end. At the
//! lowest priority (`nice` 19) the computation gives way at once, and loses nothing while nobody else wants the processor.
//! A thread cannot rise again without privileges, so these are not the runtime's own.
//!
//! Work here holds no lock that a request waits for: while requests keep every processor busy, it hardly goes on.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Panic = Box<dyn Any + Send>;

/// Runs `work`, within the caller's runtime, and gives what it gives. It goes on to its end when nobody waits for it any
/// more, as what a runtime's own threads for blocking work do; a panic of it is the caller's.
///
/// # Errors
/// When the system gives no thread.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let runtime = Handle::current();
    let (done, ended) = oneshot::channel::<Result<T, Panic>>();
    thread::Builder::new().name("aside".to_owned()).spawn(move || {
        give_way();
        let _within = runtime.enter();
        // Nothing that the work has left half done is looked at again. Who waited may be gone.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    })?;
    match ended.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_gone) => Err(io::Error::other("the thread ended early")),
    }
}

/// Puts this thread behind all others. On Linux a priority is a thread's own, elsewhere the process's.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        log::debug!("a thread of background work keeps its priority: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn work_has_the_lowest_priority_and_leaves_that_of_others() {
        // The nineteenth field of the status line; the second is a name in parentheses.
        let nice = || {
            let status = fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields = status.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = nice();
        assert_eq!(aside(nice).await.unwrap(), 19);
        assert_eq!(nice(), before);
    }

    #[tokio::test]
    #[should_panic(expected = "lost 3")]
    async fn a_panic_is_the_callers() {
        aside(|| panic!("lost {}", 3)).await.unwrap();
    }
}
