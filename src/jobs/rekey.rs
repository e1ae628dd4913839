//! Replaces the keys that credentials are sealed and found by, as a task.
//!
//! An operator starts it, one kind of key at a time; a start of the process goes on with what an earlier one left
//! unfinished.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::tasks::{Done, Outcome, Spec, Started, TaskEvents, TaskProgress};
use crate::jobs::Jobs;
use crate::store::Purpose;
use crate::store::Store;
use crate::store::rekey::{self, Finished};

/// The number of values after which the task's log gets a line.
const LOGGED_EVERY: u64 = 2_000;

/// Returns the task that replaces the key of this purpose, where one is under way.
pub fn running(jobs: &Jobs, purpose: Purpose) -> Option<Started> {
    jobs.tasks.running(dedupe_key(purpose))
}

/// Starts bringing everything under the key in use. `core.key_edits` is held from replacing the key to this call.
pub fn start(jobs: &Arc<Jobs>, purpose: Purpose) -> Started {
    let title = match purpose {
        Purpose::Seal => "Rotate the seal key",
        Purpose::Index => "Replace the index key",
    };
    start_as(jobs, purpose, title)
}

/// Goes on where an earlier process ended, with the retired keys that it left.
pub fn resume(jobs: &Arc<Jobs>) {
    for (purpose, title) in [
        (Purpose::Seal, "Finish the rotation of the seal key"),
        (Purpose::Index, "Finish the replacement of the index key"),
    ] {
        if rekey::is_unfinished(&jobs.core.store, purpose) {
            log::info!("{}: values under a retired key are still left", title.to_lowercase());
            start_as(jobs, purpose, title);
        }
    }
}

fn start_as(jobs: &Arc<Jobs>, purpose: Purpose, title: &str) -> Started {
    let spec = Spec {
        kind: "maintenance",
        title: title.to_owned(),
        dedupe_key: Some(dedupe_key(purpose).to_owned()),
        events: TaskEvents::Sent,
    };
    let store = jobs.core.store.clone();
    jobs.tasks.start(spec, move |progress| async move { finish(&store, purpose, &progress).await })
}

fn dedupe_key(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Seal => "rotate-seal-key",
        Purpose::Index => "replace-index-key",
    }
}

async fn finish(store: &Store, purpose: Purpose, progress: &TaskProgress) -> Outcome {
    let logged_steps = AtomicU64::new(0);
    let log_progress = |renewed: u64| {
        let step = renewed / LOGGED_EVERY;
        if logged_steps.swap(step, Ordering::Relaxed) < step {
            progress.log(format!("{renewed} {} so far", renewals(purpose)));
        }
    };
    let finished = rekey::finish(store, purpose, &log_progress).await.map_err(|error| {
        format!("{error}; the rest is done at the next start, or by starting the task again")
    })?;
    let message = message(purpose, &finished);
    log::info!("{message}");
    let counted = match purpose {
        Purpose::Seal => "resealed",
        Purpose::Index => "rehashed",
    };
    let result = json!({
        "activeKeyId": finished.active,
        counted: finished.renewed,
        "unreadable": finished.unreadable,
        "deletedKeys": finished.deleted,
    });
    Ok(Done { message, result })
}

fn renewals(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Seal => "stored value(s) sealed again",
        Purpose::Index => "look-up hash(es) computed again",
    }
}

fn message(purpose: Purpose, finished: &Finished) -> String {
    let Finished { active, renewed, unreadable, deleted, kept } = finished;
    let mut message = format!(
        "{renewed} {} with key {active}; {deleted} retired {purpose} key(s) deleted",
        renewals(purpose)
    );
    if *kept > 0 {
        message += &format!(", {kept} still in use");
    }
    if *unreadable > 0 {
        message += &format!("; {unreadable} value(s) cannot be decrypted and stay as they are, see the log");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_what_stays_behind() {
        let clean = Finished { active: 3, renewed: 12, unreadable: 0, deleted: 1, kept: 0 };
        assert_eq!(
            message(Purpose::Seal, &clean),
            "12 stored value(s) sealed again with key 3; 1 retired seal key(s) deleted"
        );
        assert_eq!(
            message(Purpose::Seal, &Finished { unreadable: 2, deleted: 0, kept: 1, ..clean }),
            "12 stored value(s) sealed again with key 3; 0 retired seal key(s) deleted, 1 still in use; \
             2 value(s) cannot be decrypted and stay as they are, see the log"
        );
    }
}
