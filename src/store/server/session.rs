//! A connection that reconnects by itself, on a runtime of its own.
//!
//! The threads of the store work on one thing at a time and wait for it. So each connection has its own
//! runtime, which is idle while its thread is and is separate from the threads that serve clients.

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::client::{Client, Name};
use crate::store::error::{Error, Result};

/// How long connecting to a server may take at most.
pub(super) const DIALLING: Duration = Duration::from_secs(5);
/// How long an answer may take before a second connection shows whether the server still answers anything.
const ASKED_AFTER: Duration = Duration::from_secs(5);
/// The pause after the first failed attempt to connect; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The longest time that a server which is alive may take.
    pub most: Duration,
    /// How long the server may meanwhile answer no new connection either.
    pub silence: Duration,
}

impl Patience {
    /// For work that somebody waits for: a server that hangs is noticed within ten seconds.
    pub(super) const USUAL: Self = Self { most: Duration::from_secs(60), silence: Duration::ZERO };
    /// For many rows at once, changes of the schema, and waiting for another instance that makes them.
    pub(super) const LONG: Self = Self { most: Duration::from_secs(900), silence: Duration::from_secs(60) };
}

pub(super) struct Session<C: Client> {
    address: C::Address,
    client: Option<C>,
    /// The identifier of the connection that was dropped last.
    lost: Option<Name>,
    /// `Some` until the session is dropped.
    runtime: Option<Runtime>,
    /// Whether the caller has a transaction under way, which another connection could not continue.
    in_transaction: bool,
    /// The attempt to connect that failed last, unless one has succeeded since.
    failed_dial: Option<FailedDial>,
}

/// A failed attempt to connect to the server.
#[derive(Clone, Copy)]
struct FailedDial {
    at: Instant,
    /// How long no further attempt is made.
    pause: Duration,
}

// === impl Session ===

impl<C: Client> Session<C> {
    /// Connects at once.
    pub(super) fn open(address: C::Address) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Database(format!("cannot make a runtime: {error}")))?;
        let mut session = Self {
            address,
            client: None,
            lost: None,
            runtime: Some(runtime),
            in_transaction: false,
            failed_dial: None,
        };
        session.connect()?;
        Ok(session)
    }

    /// Runs `work` with the connection, as long as the patience lasts. A lost connection is dropped.
    pub(super) fn run<T>(
        &mut self,
        patience: Patience,
        work: impl AsyncFnOnce(&mut C) -> Result<T>,
    ) -> Result<T> {
        self.connect().map_err(as_unreachable)?;
        let Some(mut client) = self.client.take() else { return Err(unreachable("no connection")) };
        let runtime = self.runtime()?;
        let done = runtime.block_on(async {
            tokio::select! {
                biased;
                done = timeout(patience.most, work(&mut client)) => Some(done.unwrap_or_else(|_| {
                    Err(unreachable(&format!("it did not answer within {} s", patience.most.as_secs())))
                })),
                () = hangs::<C>(&self.address, patience.silence) => None,
            }
        });
        let done = done.unwrap_or_else(|| {
            self.failed_dial = Some(FailedDial { at: Instant::now(), pause: LONGEST_PAUSE });
            Err(unreachable("it does not answer, nor does it answer a new connection"))
        });
        match &done {
            Err(Error::Unreachable(_)) => {
                // Its goodbye message needs the runtime.
                self.lost = Some(client.name().clone());
                let _guard = self.runtime()?.enter();
                drop(client);
            }
            _ => self.client = Some(client),
        }
        done
    }

    /// Runs work that may be done twice: once more if the connection turns out to be lost.
    pub(super) fn run_again<T>(
        &mut self,
        patience: Patience,
        mut work: impl AsyncFnMut(&mut C) -> Result<T>,
    ) -> Result<T> {
        match self.run(patience, async |client| work(client).await) {
            Err(Error::Unreachable(_)) => self.run(patience, async |client| work(client).await),
            done => done,
        }
    }

    /// Returns the identifier of the connection that was dropped before this one, once.
    pub(super) fn take_lost(&mut self) -> Option<Name> {
        self.lost.take()
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_ref().ok_or(Error::Closed)
    }

    /// Sets whether the caller has a transaction under way: while it has, a lost connection is not replaced.
    pub(super) fn set_in_transaction(&mut self, in_transaction: bool) {
        self.in_transaction = in_transaction;
    }

    fn connect(&mut self) -> Result<()> {
        if self.client.is_some() {
            return Ok(());
        }
        if self.in_transaction {
            return Err(unreachable("the connection was lost in the middle of a transaction"));
        }
        let former = self.failed_dial;
        if former.is_some_and(|former| former.at.elapsed() < former.pause) {
            return Err(unreachable("it did not answer a moment ago"));
        }
        let dialled = self.runtime()?.block_on(async { timeout(DIALLING, C::dial(&self.address)).await });
        match dialled.unwrap_or_else(|_| Err(unreachable("it does not answer"))) {
            Ok(client) => {
                self.client = Some(client);
                self.failed_dial = None;
                Ok(())
            }
            Err(error) => {
                let pause = former.map_or(FIRST_PAUSE, |former| (former.pause * 2).min(LONGEST_PAUSE));
                self.failed_dial = Some(FailedDial { at: Instant::now(), pause });
                Err(error)
            }
        }
    }
}

/// Returns once the server has answered no new connection for this long. A refusal is an answer.
async fn hangs<C: Client>(address: &C::Address, silence: Duration) {
    let mut since = None;
    loop {
        sleep(ASKED_AFTER).await;
        let asked_at = Instant::now();
        match timeout(DIALLING, C::dial(address)).await {
            Ok(_) => since = None,
            Err(_) if since.get_or_insert(asked_at).elapsed() >= silence => return,
            Err(_) => {}
        }
    }
}

impl<C: Client> Drop for Session<C> {
    /// Waits for nothing, because threads that must not wait drop connections too.
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        {
            let _guard = runtime.enter();
            self.client = None;
        }
        runtime.shutdown_background();
    }
}

/// Converts an I/O error of the connection: waiting does not help against a rejected certificate.
pub(super) fn no_way(error: &io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(tls @ rustls::Error::InvalidCertificate(_)) => Error::Database(format!(
            "the certificate of the server is not accepted ({tls}): set DB_SSL_CA to the certificate of its \
             issuer, and use the host name that it is for in the address; DB_SSL_INSECURE=true accepts any \
             certificate"
        )),
        _ => unreachable(&error.to_string()),
    }
}

/// Builds the error for a server without TLS when TLS is asked for.
pub(super) fn no_tls() -> Error {
    Error::Database("the server does not support TLS, which DB_SSL or the address requires".to_owned())
}

pub(super) fn unreachable(why: &str) -> Error {
    Error::Unreachable(why.to_owned())
}

/// Converts the error of a connection that is opened while the service runs: a server that has accepted us before may refuse
/// a login or a certificate for a while, and model calls go on meanwhile.
pub(super) fn as_unreachable(error: Error) -> Error {
    match error {
        Error::Database(why) => Error::Unreachable(why),
        other => other,
    }
}

/// Pauses before a change that conflicted with another instance's is retried: longer each time, and for a
/// different time than the other instance.
pub(super) fn pause(tries: u32) {
    let jitter = crate::uuid::random_number() % 20;
    std::thread::sleep(Duration::from_millis(u64::from(tries) * 20 + jitter));
}
