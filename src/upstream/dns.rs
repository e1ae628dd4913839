//! Looks up the names of upstreams with the system's resolver: one question at a time for each name.
//!
//! The system's resolver holds a thread until it has an answer or gives up, which takes many seconds when a name server
//! is silent. If every request asked for itself, a site whose name server is down would soon hold all threads. The
//! threads are the resolver's own, so that other work that blocks never waits behind them.
//!
//! ```text
//! a name ─ asked already? join ─ known to be slow? ─┬─ no ──▶ one of QUICK ─┬─ answered
//!                                                   │                       └─ silent: gives its place back, and is slow
//!                                                   └─ yes ─▶ one of SLOW  ── answered at once: not slow any more
//! ```
//!
//! So dead names hold up each other, and other names only for the second that each may take once a minute.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::error::{ErrorKind, SendError};
use crate::open_files;
use crate::sync::lock;

/// The number of questions at once for names that are not known to be slow.
const QUICK: usize = 32;
/// The number of questions at once for names that are known to be slow.
const SLOW: usize = 8;
/// The number of threads at once: quick questions that have become slow keep theirs.
const THREADS: usize = 256;
/// The time after which a question counts as slow. Name servers answer within milliseconds.
const SLOW_AFTER: Duration = Duration::from_secs(1);
/// The time for which a name counts as slow: it may have recovered behind others that have not.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// The most slow names that are remembered; with more, all are forgotten and found out anew.
const REMEMBERED: usize = 4096;
/// The stack of a resolver's thread, in bytes. A resolver needs little, but this is not the place to save it.
const STACK: usize = 512 * 1024;

/// The result of a question; `None` until there is an answer. The addresses have no port.
type Answer = Option<Result<Vec<SocketAddr>, SendError>>;

/// The function that asks the system, or its replacement in a test.
type LookUp = dyn Fn(String) -> Found + Send + Sync;
type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The questions that wait for their answers, and the names that are known to be slow.
pub(super) struct Resolver {
    questions: Mutex<HashMap<String, watch::Receiver<Answer>>>,
    /// Names whose last question was slow, and when that was noticed.
    slow_names: Mutex<HashMap<String, Instant>>,
    quick: Semaphore,
    slow: Semaphore,
    threads: Semaphore,
    look_up: Box<LookUp>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|host| Box::pin(on_a_thread(host)))
    }
}

/// Asks the system on a thread of its own.
async fn on_a_thread(host: String) -> io::Result<Vec<SocketAddr>> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().name("resolver".to_owned()).stack_size(STACK).spawn(move || {
        // Nobody may be left to receive it.
        let _ = tell.send((host.as_str(), 0).to_socket_addrs().map(Vec::from_iter));
    })?;
    told.await.unwrap_or_else(|_| Err(io::Error::other("the resolver ended without an answer")))
}

impl Resolver {
    fn new(look_up: impl Fn(String) -> Found + Send + Sync + 'static) -> Self {
        Self {
            questions: Mutex::default(),
            slow_names: Mutex::default(),
            quick: Semaphore::new(QUICK),
            slow: Semaphore::new(SLOW),
            threads: Semaphore::new(THREADS),
            look_up: Box::new(look_up),
        }
    }

    /// Returns the addresses of `host`, in the resolver's order. A caller that gives up leaves the question to others
    /// who wait.
    pub(super) async fn resolve(
        self: &Arc<Self>,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, SendError> {
        let mut asked = self.ask(host);
        let answer = asked.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        let unheard = || Err(without_address(ErrorKind::Dns, host, "the lookup was cancelled"));
        let mut addresses = answer.unwrap_or_else(unheard)?;
        addresses.iter_mut().for_each(|address| address.set_port(port));
        Ok(addresses)
    }

    /// Joins the question for `host`, or begins one.
    fn ask(self: &Arc<Self>, host: &str) -> watch::Receiver<Answer> {
        let mut questions = self.questions();
        if let Some(asked) = questions.get(host) {
            return asked.clone();
        }
        let (tell, asked) = watch::channel(None);
        questions.insert(host.to_owned(), asked.clone());
        let (names, host) = (Arc::clone(self), host.to_owned());
        // Nobody owns this task: the resolver's own patience bounds it, its answer serves the next caller, and nothing
        // waits for it when the process ends. Those who wait notice a panic: `tell` is gone then.
        tokio::spawn(async move {
            let question = Question { names, host };
            let found = question.names.find(&question.host).await;
            let answer = judged(&question.host, found);
            drop(question);
            tell.send_replace(Some(answer));
        });
        asked
    }

    /// Waits for a place among the questions that are asked, and asks.
    async fn find(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        let noticed = lock(&self.slow_names).get(host).copied();
        let is_slow = noticed.is_some_and(|noticed| noticed.elapsed() < REMEMBERED_FOR);
        let lane = if is_slow { &self.slow } else { &self.quick };
        // No semaphore is ever closed.
        let place = lane.acquire().await.map_err(io::Error::other)?;
        let _thread = self.threads.acquire().await.map_err(io::Error::other)?;
        let mut asking = pin!((self.look_up)(host.to_owned()));
        if let Ok(found) = timeout(SLOW_AFTER, asking.as_mut()).await {
            if noticed.is_some() {
                lock(&self.slow_names).remove(host);
            }
            return found;
        }
        if !is_slow {
            self.note_slow(host);
            drop(place);
        }
        asking.await
    }

    fn note_slow(&self, host: &str) {
        let mut slow_names = lock(&self.slow_names);
        if slow_names.len() >= REMEMBERED {
            slow_names.clear();
        }
        slow_names.insert(host.to_owned(), Instant::now());
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Answer>>> {
        lock(&self.questions)
    }
}

/// A question under way. Dropping it, however it ends, makes the next caller ask anew.
struct Question {
    names: Arc<Resolver>,
    host: String,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.names.questions().remove(&self.host);
    }
}

fn judged(host: &str, found: io::Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>, SendError> {
    let addresses = found.map_err(|error| {
        let kind = if open_files::is_lack(&error) { ErrorKind::Exhausted } else { ErrorKind::Dns };
        without_address(kind, host, &error.to_string())
    })?;
    if addresses.is_empty() {
        return Err(without_address(ErrorKind::Dns, host, "it has no address"));
    }
    Ok(addresses)
}

fn without_address(kind: ErrorKind, host: &str, reason: &str) -> SendError {
    SendError::new(kind, format!("the name {host} cannot be resolved: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Builds a resolver that gets its addresses from `answer`.
    fn names(answer: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Arc<Resolver> {
        Arc::new(Resolver::new(move |host| Box::pin(async move { answer(&host) })))
    }

    #[tokio::test]
    async fn who_asks_for_the_same_name_shares_the_question() {
        let names = names(|_| Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))]));
        let (first, second) = (names.ask("one.test"), names.ask("one.test"));
        assert!(first.same_channel(&second));
        assert!(!first.same_channel(&names.ask("two.test")));
        let found = names.resolve("one.test", 80).await.expect("an address");
        assert_eq!(found, [SocketAddr::from(([192, 0, 2, 1], 80))]);
        assert!(!names.questions().contains_key("one.test"), "the next question is a new one");
    }

    #[tokio::test]
    async fn a_name_without_address_says_why() {
        for (answer, kind, reason) in [
            ((|_| Ok(Vec::new())) as fn(&str) -> _, ErrorKind::Dns, "it has no address"),
            (|_| Err(io::Error::other("no such name")), ErrorKind::Dns, "no such name"),
            (
                |_| Err(io::Error::from_raw_os_error(24)),
                ErrorKind::Exhausted,
                "Too many open files (os error 24)",
            ),
            (|_| panic!("the resolver's own fault"), ErrorKind::Dns, "the lookup was cancelled"),
        ] {
            let error = names(answer).resolve("some.test", 80).await.expect_err("no address");
            assert_eq!(error.kind(), kind, "{reason}");
            assert_eq!(error.message(), format!("the name some.test cannot be resolved: {reason}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dead_names_hold_up_each_other_and_no_other() {
        let at_once = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&at_once);
        let names = Arc::new(Resolver::new(move |host| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                if !host.starts_with("dead") {
                    return Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))]);
                }
                asked.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(20)).await;
                asked.fetch_sub(1, Ordering::SeqCst);
                Err(io::Error::other("no answer"))
            })
        }));
        let dead: Vec<String> = (0..100).map(|number| format!("dead-{number}.test")).collect();
        // New names take the places of the quick for a second each. Known slow ones share the few places of the slow.
        for most in [100, SLOW] {
            dead.iter().for_each(|host| drop(names.ask(host)));
            for number in 0..60 {
                let host = format!("alive-{number}.test");
                let found = timeout(Duration::from_secs(5), names.resolve(&host, 80)).await;
                assert_eq!(found.expect("in time").expect("an address").len(), 1);
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(at_once.load(Ordering::SeqCst) <= most, "{at_once:?}");
            }
            while !names.questions().is_empty() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    #[tokio::test]
    async fn the_system_is_asked() {
        let found = Arc::new(Resolver::default()).resolve("127.0.0.1", 80).await.expect("an address");
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
    }
}
