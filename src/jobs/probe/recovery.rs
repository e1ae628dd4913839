//! Asks whether channels, and members of route units, that cool would answer again, but only while an operator has
//! switched that on: otherwise a channel that failed is left alone for its whole cooldown.
//!
//! A sweep each thirty seconds asks at most four channels, one after the other: first those never asked, then the
//! longest unasked. An answer ends the cooldown; anything else changes nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::ask::{Question, probe};
use super::busy::Recovery;
use super::verdict::{ProbeVerdict, is_conversational};
use crate::jobs::Jobs;
use crate::jobs::schedule::Pass;
use crate::routing::{AccountStatus, Channel, CountersOf, Snapshot, serving};
use crate::store::{self, route_units, routes};
use crate::sync::lock;
use crate::time::{Millis, now_ms};

/// The interval between sweeps.
pub const INTERVAL: Duration = Duration::from_secs(30);
/// The least time before a channel is asked again, in milliseconds.
const AGAIN_MS: Millis = 30_000;
/// The most channels that a sweep asks.
const MAX_ASKED: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(12);

/// Asks the channels whose turn it is.
pub async fn sweep(jobs: Arc<Jobs>) -> Pass {
    let snapshot = jobs.core.snapshot.load_full();
    let mut recovered = 0;
    for (channel, model) in due_channels(&snapshot, &jobs.probes.recovery, now_ms()) {
        // An answer for another model of the credential may have ended the cooldown.
        if !is_candidate(&channel, now_ms()) {
            continue;
        }
        lock(&jobs.probes.recovery.asked).insert(channel.key(), now_ms());
        let Some(credential) = &channel.credential else { continue };
        let account = &channel.account;
        let question = Question { site: &account.site, credential, is_login: account.oauth, model: &model };
        let probed = probe(&jobs.core, question, TIMEOUT).await;
        // A request may have ended the cooldown meanwhile.
        if probed.verdict == ProbeVerdict::Supported && channel.live.is_cooling(now_ms()) {
            end_cooldowns(&jobs, &snapshot, &channel).await?;
            let latency = probed.latency_ms.unwrap_or_default().unsigned_abs();
            channel.account.site.health.succeed(&model, latency, now_ms());
            log::info!("channel {} ({}) answers again", channel.id, channel.account.site.name);
            recovered += 1;
        }
    }
    Ok((recovered > 0).then(|| format!("{recovered} channel(s) answer again")))
}

/// Ends the cooldowns of the channel and of all that cool down with it, because they use the same credential.
async fn end_cooldowns(jobs: &Jobs, snapshot: &Snapshot, channel: &Arc<Channel>) -> store::Result<()> {
    // Failures that are still on their way to the store must not arrive there after this.
    jobs.core.store.flush().await;
    let now = now_ms();
    let cools_with_it = |other: &&Arc<Channel>| {
        other.key() == channel.key() || (other.live.is_cooling(now) && is_own_cooldown(other, now))
    };
    let cooling = snapshot.sharing_credential(channel).filter(cools_with_it).map(|one| &one.live);
    let cooling: Vec<_> = cooling.collect();
    let (mut channels, mut members) = (Vec::new(), Vec::new());
    for live in &cooling {
        match live.of {
            CountersOf::Channel(id) => channels.push(id),
            CountersOf::Member(id) => members.push(id),
        }
    }
    routes::clear_failures(&jobs.core.store, &channels).await?;
    route_units::clear_failures(&jobs.core.store, &members).await?;
    cooling.iter().for_each(|live| live.clear_cooldown());
    Ok(())
}

/// Returns the channels and members of units to ask in their order, each with the model to ask for.
fn due_channels(snapshot: &Snapshot, recovery: &Recovery, now: Millis) -> Vec<(Arc<Channel>, String)> {
    let mut asked = lock(&recovery.asked);
    let cooling = snapshot.channels().flat_map(serving).filter(|channel| is_candidate(channel, now));
    let mut due: Vec<(Millis, Arc<Channel>, String)> = cooling
        .filter_map(|channel| {
            let last = asked.get(&channel.key()).copied().unwrap_or(0);
            let model = channel.source_model.as_ref().filter(|model| model.is_exact())?.as_str();
            let is_due = now - last >= AGAIN_MS && is_conversational(model);
            is_due.then(|| (last, channel.clone(), model.to_owned()))
        })
        .collect();
    asked.retain(|_, at| now - *at < 100 * AGAIN_MS);
    due.sort_by_key(|(last, channel, _)| (*last, channel.id));
    // A member of a unit has a channel on each of its routes.
    let mut seen = HashSet::new();
    due.retain(|(_, channel, _)| seen.insert(channel.key()));
    due.into_iter().take(MAX_ASKED).map(|(_, channel, model)| (channel, model)).collect()
}

/// Whether a channel cools down because it failed, not because its provider said for how long. A cooldown without a failure
/// of the channel comes from its provider, too.
fn is_own_cooldown(channel: &Channel, now: Millis) -> bool {
    let totals = channel.live.totals();
    let has_failed = totals.fail > 0 || totals.consecutive_fail > 0;
    has_failed && totals.limited_until().is_none_or(|until| until <= now)
}

fn is_candidate(channel: &Channel, now: Millis) -> bool {
    channel.enabled
        && channel.account.site.active
        && channel.account.status == AccountStatus::Active
        && channel.credential.is_some()
        && channel.live.is_cooling(now)
        && is_own_cooldown(channel, now)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::config;
    use crate::core::Core;
    use crate::jobs::rebuild::rebuild;
    use crate::routing::fixture;

    const NOW: Millis = 1_000_000;

    /// A cooling channel on a route of its own; its own failure has cooled it.
    fn cooling(id: i64) -> Channel {
        let channel = fixture::channel(id);
        let _ = channel.live.record_failure(NOW - 1, NOW + 600_000);
        channel
    }

    #[test]
    fn four_cooling_channels_are_asked_those_never_asked_first() {
        let dictated = fixture::channel(8);
        let _ = dictated.live.record_cooldown(NOW - 1, NOW + 600_000);
        let limited = cooling(11);
        let _ = limited.live.record_limit(NOW + 900_000);
        let switched_off = Channel { enabled: false, ..cooling(9) };
        let channels = (1..=6).map(cooling).chain([fixture::channel(7), dictated, limited, switched_off]);
        let mut routes: Vec<_> = channels
            .map(|channel| fixture::route(channel.id.get(), &format!("m-{}", channel.id), vec![channel]))
            .collect();
        routes.push(fixture::route(20, "m-*", vec![cooling(10)]));
        let unit = fixture::unit(30, &[31, 32]);
        let _ = unit.unit.members()[1].live.record_failure(NOW - 1, NOW + 600_000);
        routes.push(fixture::route(30, "of-a-member", vec![unit]));
        let snapshot = fixture::snapshot(routes);
        let recovery = Recovery::default();
        let ask = |now| {
            let due = due_channels(&snapshot, &recovery, now);
            for (channel, _) in &due {
                lock(&recovery.asked).insert(channel.key(), now);
            }
            due.into_iter().map(|(_, model)| model).collect::<Vec<_>>()
        };
        assert_eq!(ask(NOW), ["m-1", "m-2", "m-3", "m-4"]);
        assert_eq!(ask(NOW + 10_000), ["m-5", "m-6", "of-a-member"]);
        assert_eq!(ask(NOW + 20_000), Vec::<String>::new());
        assert_eq!(ask(NOW + AGAIN_MS), ["m-1", "m-2", "m-3", "m-4"]);
        assert_eq!(ask(NOW + 700_000), Vec::<String>::new());
    }

    /// Answers every request with a short conversation, and counts them.
    fn conversing() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let count = Arc::<AtomicUsize>::default();
        let counted = count.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                counted.fetch_add(1, Ordering::Relaxed);
                let body = r#"{"choices":[{"message":{"role":"assistant","content":"OK"}}]}"#;
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        });
        (url, count)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_channel_whose_cooldown_another_answer_has_ended_is_not_asked() {
        let folder = std::env::temp_dir().join(format!("switchyard-recovery-{}", crate::uuid::v4()));
        let values =
            [("DATA_DIR", folder.to_str().expect("text")), ("ACCOUNT_CREDENTIAL_SECRET", "of-these-tests")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let core = Core::start(config::read(&values).expect("a configuration").0).await.expect("a core");
        let jobs = Jobs::new(&core);
        let (url, count) = conversing();
        let file = rusqlite::Connection::open(folder.join("switchyard.db")).expect("a database");
        for sql in [
            &format!(
                "INSERT INTO sites (id, name, url, platform, created_at, updated_at) VALUES (1, 'a', '{url}', 'openai', 0, 0)"
            ),
            "INSERT INTO accounts (id, site_id, api_token, credential_mode, created_at, updated_at) \
             VALUES (1, 1, 'sk-a', 'apikey', 0, 0)",
            "INSERT INTO model_availability (account_id, model_name, checked_at) VALUES (1, 'm-1', 0), (1, 'm-2', 0)",
        ] {
            file.execute(sql, []).expect("changed");
        }
        rebuild(&jobs).await.expect("a rebuild");
        let snapshot = core.snapshot.load_full();
        let now = now_ms();
        for channel in snapshot.channels() {
            let _ = channel.live.record_failure(now, now + 600_000);
        }
        assert_eq!(due_channels(&snapshot, &jobs.probes.recovery, now).len(), 2);
        sweep(jobs.clone()).await.expect("a pass");
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(snapshot.channels().all(|channel| !channel.live.is_cooling(now_ms())));
        core.stop().await;
        let _ = std::fs::remove_dir_all(folder);
    }
}
