//! Listens for PostgreSQL's notifications that another instance has committed a change, on a connection and a
//! thread of its own.

use std::future::poll_fn;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use super::address::ServerAddress;
use super::postgres::{self, PostgresAddress};
use super::session::DIALLING;
use crate::store::change_signals::ChangeSignals;
use crate::store::connection::Listen;
use crate::store::error::{OpenError, Result};

/// The time from a lost connection to the next attempt. The instance also looks for changes by itself.
const PAUSE: Duration = Duration::from_secs(1);

/// Parses the address, and returns the function that starts listening there.
pub(super) fn listener(address: &ServerAddress) -> Result<Listen, OpenError> {
    let address = postgres::read(address)?;
    Ok(Box::new(move |signals| {
        let listening = thread::Builder::new().name("store-listener".into()).stack_size(512 * 1024);
        let started = listening.spawn(move || listen(&address, &signals));
        if let Err(error) = started {
            log::warn!(
                "cannot listen for changes of other instances, so they are found by polling only: {error}"
            );
        }
    }))
}

fn listen(address: &PostgresAddress, signals: &Arc<ChangeSignals>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return log::warn!(
                "cannot listen for changes of other instances, so they are found by polling only: {error}"
            );
        }
    };
    runtime.block_on(async {
        let hear = async {
            loop {
                if let Err(error) = hear(address, signals).await {
                    log::debug!("listening to the database ended: {error}");
                }
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = hear => {}
            () = signals.ended() => {}
        }
    });
    // A name look-up may still be running.
    runtime.shutdown_background();
}

/// Passes notifications on until the connection is lost.
async fn hear(address: &PostgresAddress, signals: &ChangeSignals) -> Result<()> {
    let dialled = timeout(DIALLING, postgres::dial_any(address)).await;
    let (client, mut connection) =
        dialled.map_err(|_| super::session::unreachable("it does not answer"))??;
    let listen = client.batch_execute("LISTEN switchyard_changes");
    tokio::pin!(listen);
    let mut is_listening = false;
    loop {
        tokio::select! {
            done = &mut listen, if !is_listening => {
                done.map_err(postgres::failed)?;
                is_listening = true;
                // No notification tells of what changed before.
                signals.signal_change();
            }
            message = poll_fn(|context| connection.poll_message(context)) => match message {
                Some(Ok(AsyncMessage::Notification(_))) => signals.signal_change(),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(postgres::failed(error)),
                None => return Ok(()),
            },
        }
    }
}
