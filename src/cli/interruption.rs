//! Undoes an interrupted command: removes the files that only a finished one may leave behind.
//!
//! A command registers how it is undone while it is under way. If SIGINT, SIGTERM or SIGHUP comes, everything that is
//! registered is done, the last first, and the process ends with the status that shells expect (128 and the signal).

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use tokio::signal::unix::{SignalKind, signal};

use crate::sync::lock;

type CleanUp = Box<dyn FnOnce() + Send>;

static REGISTERED: Mutex<Vec<(u64, CleanUp)>> = Mutex::new(Vec::new());

/// A registered clean-up, which is forgotten when this is dropped.
#[must_use]
pub(super) struct OnInterruption(u64);

impl Drop for OnInterruption {
    fn drop(&mut self) {
        lock(&REGISTERED).retain(|(id, _)| *id != self.0);
    }
}

/// Does this if the command is interrupted before the returned value is dropped.
pub(super) fn on_interruption(clean_up: impl FnOnce() + Send + 'static) -> OnInterruption {
    let mut registered = lock(&REGISTERED);
    let id = registered.last().map_or(0, |(last, _)| last + 1);
    registered.push((id, Box::new(clean_up)));
    OnInterruption(id)
}

/// Removes the file if the command is interrupted.
pub(super) fn remove_on_interruption(file: PathBuf) -> OnInterruption {
    on_interruption(move || drop(std::fs::remove_file(file)))
}

/// Handles the signals from now on.
///
/// # Errors
/// When a signal cannot be listened for.
pub(super) fn listen() -> io::Result<()> {
    for (kind, name) in [
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::hangup(), "SIGHUP"),
    ] {
        let mut signals = signal(kind)?;
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                // Held to the end, so that nothing new is registered.
                let mut registered = lock(&REGISTERED);
                while let Some((_, clean_up)) = registered.pop() {
                    clean_up();
                }
                eprintln!("switchyard: interrupted by {name}");
                std::process::exit(128 + kind.as_raw_value());
            }
        });
    }
    Ok(())
}
