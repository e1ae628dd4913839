//! The names of upstreams, which the system resolves: one question at a time for each name.
//!
//! The system's resolver holds a thread until it has an answer or gives up, and a silent name server makes that many
//! seconds. Threads for it are few. If every request asked for itself, a site whose name server is down would soon hold
//! all of them, and no other site's name could be resolved.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::error::{ErrorKind, SendError};
use crate::open_files;

/// What a question has led to; `None` until there is an answer. The addresses have no port.
type Answer = Option<Result<Vec<SocketAddr>, SendError>>;

/// Asks the system, or whom a test puts in its place.
type LookUp = dyn Fn(String) -> Found + Send + Sync;
type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The questions that wait for their answers.
pub(super) struct Names {
    questions: Mutex<HashMap<String, watch::Receiver<Answer>>>,
    look_up: Box<LookUp>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(|host| Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }))
    }
}

impl Names {
    fn new(look_up: impl Fn(String) -> Found + Send + Sync + 'static) -> Self {
        Self { questions: Mutex::default(), look_up: Box::new(look_up) }
    }

    /// The addresses of `host`, in the resolver's order. Giving up on them leaves the question to others who wait.
    pub(super) async fn resolve(
        self: &Arc<Self>,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, SendError> {
        let mut asked = self.ask(host);
        let answer = asked.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        let unheard = || Err(without_address(ErrorKind::Dns, host, "the question was given up"));
        let mut addresses = answer.unwrap_or_else(unheard)?;
        addresses.iter_mut().for_each(|address| address.set_port(port));
        Ok(addresses)
    }

    /// Joins the question for `host`, or puts it.
    fn ask(self: &Arc<Self>, host: &str) -> watch::Receiver<Answer> {
        let mut questions = self.questions();
        if let Some(asked) = questions.get(host) {
            return asked.clone();
        }
        let (tell, asked) = watch::channel(None);
        questions.insert(host.to_owned(), asked.clone());
        let (names, host) = (Arc::clone(self), host.to_owned());
        // Owned by nobody: it is bounded by the resolver's own patience, worth finishing for who asks next, and nothing
        // waits for it when the process ends. Whoever waits hears of a panic: `tell` is gone then.
        tokio::spawn(async move {
            let question = Question { names, host };
            let answer = judged(&question.host, (question.names.look_up)(question.host.clone()).await);
            drop(question);
            tell.send_replace(Some(answer));
        });
        asked
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Answer>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with the question, however it ends: the next one is a new one.
struct Question {
    names: Arc<Names>,
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
        return Err(without_address(ErrorKind::Dns, host, "the name server knows none"));
    }
    Ok(addresses)
}

fn without_address(kind: ErrorKind, host: &str, reason: &str) -> SendError {
    SendError::new(kind, format!("{host} has no address: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that `answer` knows the addresses of.
    fn names(answer: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Arc<Names> {
        Arc::new(Names::new(move |host| Box::pin(async move { answer(&host) })))
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
            ((|_| Ok(Vec::new())) as fn(&str) -> _, ErrorKind::Dns, "the name server knows none"),
            (|_| Err(io::Error::other("no such name")), ErrorKind::Dns, "no such name"),
            (
                |_| Err(io::Error::from_raw_os_error(24)),
                ErrorKind::Exhausted,
                "Too many open files (os error 24)",
            ),
            (|_| panic!("the resolver's own fault"), ErrorKind::Dns, "the question was given up"),
        ] {
            let error = names(answer).resolve("some.test", 80).await.expect_err("no address");
            assert_eq!(error.kind(), kind, "{reason}");
            assert_eq!(error.message(), format!("some.test has no address: {reason}"));
        }
    }

    #[tokio::test]
    async fn the_system_is_asked() {
        let found = Arc::new(Names::default()).resolve("127.0.0.1", 80).await.expect("an address");
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
    }
}
