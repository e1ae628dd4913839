//! The names of upstreams, which the system resolves: one question at a time for each name.
//!
//! The system's resolver holds a thread until it has an answer or gives up, and a silent name server makes that many
//! seconds. Threads for it are few. If every request asked for itself, a site whose name server is down would soon hold
//! all of them, and no other site's name could be resolved.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::error::{ErrorKind, SendError};
use crate::open_files;

/// What a question has led to; `None` until there is an answer. The addresses have no port.
type Answer = Option<Result<Vec<SocketAddr>, SendError>>;

/// The questions that wait for their answers.
#[derive(Default)]
pub(super) struct Names(Mutex<HashMap<String, watch::Receiver<Answer>>>);

impl Names {
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
        // Bounded by the resolver's own patience, and worth finishing for who asks next. Whoever waits hears of a panic:
        // `tell` is gone then.
        tokio::spawn(async move {
            let question = Question { names, host };
            let answer = look_up(&question.host).await;
            drop(question);
            tell.send_replace(Some(answer));
        });
        asked
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

async fn look_up(host: &str) -> Result<Vec<SocketAddr>, SendError> {
    let found = tokio::net::lookup_host((host, 0)).await.map_err(|error| {
        let kind = if open_files::are_used_up(&error) { ErrorKind::Exhausted } else { ErrorKind::Dns };
        without_address(kind, host, &error.to_string())
    })?;
    let addresses: Vec<SocketAddr> = found.collect();
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

    #[tokio::test]
    async fn who_asks_for_the_same_name_shares_the_question() {
        let names = Arc::new(Names::default());
        let (first, second) = (names.ask("localhost"), names.ask("localhost"));
        assert!(first.same_channel(&second));
        assert!(!first.same_channel(&names.ask("127.0.0.1")));
        let found = names.resolve("localhost", 80).await.expect("an address");
        assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{found:?}");
        assert!(!names.questions().contains_key("localhost"), "the next question is a new one");
    }

    #[tokio::test]
    async fn a_name_without_address_says_so() {
        let error =
            Arc::new(Names::default()).resolve("no-such-name.invalid", 80).await.expect_err("no address");
        assert_eq!(error.kind(), ErrorKind::Dns);
        assert!(error.message().starts_with("no-such-name.invalid has no address: "), "{error}");
    }
}
