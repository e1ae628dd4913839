//! Runs long computations beside requests, each on a thread of its own that the system runs when no other thread wants
//! to.
//!
//! The workers of the runtime are for requests, and on a machine of one or two processors a computation on any other
//! thread takes turns with them all the same: a thread that wakes for a request may wait milliseconds for a turn to
//! end, whatever the priorities are. With the policy `SCHED_IDLE` of Linux (sched(7)) the computation makes room at
//! once for any thread that wakes, and loses nothing while none does. Where this policy is not available, the
//! computation has the lowest priority (`nice` 19), and ends its turns early by [`yield_thread`]. A thread cannot raise its
//! priority again without privileges, so these threads are not the runtime's own.
//!
//! Work here must not hold a lock that a request waits for: while requests keep every processor busy, it hardly
//! progresses.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

#[cfg(target_os = "linux")]
use thread_priority::ThreadPriority;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Panic = Box<dyn Any + Send>;

/// The error of a system that gave no thread: nothing was done, and the work may be tried later.
#[derive(Debug)]
pub struct ThreadSpawnError(io::Error);

impl fmt::Display for ThreadSpawnError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot start a background thread: {}", self.0)
    }
}

impl std::error::Error for ThreadSpawnError {}

/// Runs `work` within the caller's runtime and returns its result. It runs to its end even if the caller stops waiting,
/// as work on a runtime's own blocking threads does; a panic in it is resumed in the caller.
///
/// # Errors
/// Fails if the system gives no thread.
pub async fn run_on_idle_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ThreadSpawnError> {
    let runtime = Handle::current();
    let (done, ended) = oneshot::channel::<Result<T, Panic>>();
    let spawned = thread::Builder::new().name("idle-work".to_owned()).spawn(move || {
        run_when_idle();
        let _within = runtime.enter();
        // Nothing that the work has left half done is used again. The caller may be gone.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    });
    spawned.map_err(ThreadSpawnError)?;
    match ended.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_gone) => Err(ThreadSpawnError(io::Error::other("it ended early"))),
    }
}

/// Runs `work` like [`run_on_idle_thread`], but for a thread, which waits for it: the work may borrow what the thread has.
///
/// # Errors
/// Fails if the system gives no thread.
pub fn wait_for_idle_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ThreadSpawnError> {
    thread::scope(|scope| {
        let spawned = thread::Builder::new().name("idle-work".to_owned()).spawn_scoped(scope, || {
            run_when_idle();
            work()
        });
        spawned.map_err(ThreadSpawnError)?.join().or_else(|panic| resume_unwind(panic))
    })
}

/// Lowers this thread's priority a little below that of threads that serve requests. A request's thread that wakes runs at
/// once; when all are busy, this thread still gets half as much time as each of them. For threads whose work is much and
/// awaited by no request.
pub fn lower_priority_slightly() {
    lower_priority(3);
}

/// Lets waiting threads run on this processor first; returns at once if there are none. The scheduler of Linux since
/// 6.6 lets a thread finish a turn of some milliseconds that it has begun, even a thread of the lowest priority: a
/// computation beside requests calls this between two small pieces of work, so that its turn may end here.
pub fn yield_thread() {
    thread::yield_now();
}

/// Asks the system to run this thread only when no other thread wants to run.
fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let set = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
        if let Err(error) = set {
            log::debug!("a thread beside requests is not run when idle: {error:?}");
            lower_priority(19);
        }
    }
}

/// Raises this thread's nice value by this many steps, up to the maximum of 19.
fn lower_priority(steps: i32) {
    // On Linux a priority belongs to a thread, elsewhere to the process.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let lowered =
            getpriority_process(None).and_then(|nice| setpriority_process(None, (nice + steps).min(19)));
        if let Err(error) = lowered {
            log::debug!("a thread beside requests keeps its priority: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The numbers of `SCHED_OTHER` and `SCHED_IDLE`.
    const ORDINARY: i32 = 0;
    const IDLE: i32 = 5;

    /// Returns a field of the status line, counted from one (proc_pid_stat(5)); the second is a name in parentheses.
    fn field(number: usize) -> i32 {
        let status = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = status.rsplit_once(')').unwrap().1;
        fields.split_whitespace().nth(number - 3).unwrap().parse().unwrap()
    }

    fn nice() -> i32 {
        field(19)
    }

    fn policy() -> i32 {
        field(41)
    }

    #[tokio::test]
    async fn work_is_done_when_the_system_is_idle_and_that_of_others_as_before() {
        assert_eq!(policy(), ORDINARY);
        assert_eq!(run_on_idle_thread(policy).await.unwrap(), IDLE);
        assert_eq!(wait_for_idle_thread(policy).unwrap(), IDLE);
        assert_eq!(policy(), ORDINARY);
    }

    #[test]
    fn a_thread_that_steps_back_is_a_little_behind() {
        let (before, behind) = thread::spawn(|| {
            let before = nice();
            lower_priority_slightly();
            (before, nice())
        })
        .join()
        .unwrap();
        assert_eq!(behind, (before + 3).min(19));
    }

    #[tokio::test]
    #[should_panic(expected = "lost 3")]
    async fn a_panic_is_the_callers() {
        run_on_idle_thread(|| panic!("lost {}", 3)).await.unwrap();
    }
}
