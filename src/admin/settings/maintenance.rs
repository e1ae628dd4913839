//! Maintenance: clearing the discovered models, the usage, or everything; replacing the keys that protect stored data.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONNECTION, HeaderValue};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::routes::handlers::start_refresh_after;
use crate::admin::tasks::{queued, queued_body};
use crate::config::PLACEHOLDER_AUTH_TOKEN;
use crate::http::{self, Request, Response};
use crate::jobs::Jobs;
use crate::jobs::models::refresh;
use crate::jobs::rebuild::{self, Forgotten};
use crate::jobs::rekey;
use crate::routing::{ChannelTotals, UnitRole};
use crate::store::events::{EventLevel, NewEvent};
use crate::store::{self, Purpose, proxy_logs, reset, stats};
use crate::time::now_ms;

/// The longest time that a reset waits for requests at upstreams to end.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which it checks whether they have ended.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// `POST /api/settings/maintenance/clear-cache`: deletes discovered models, automatic channels and routes. Whatever an
/// operator made by hand stays; then the models are read again. If that is already running, nothing is deleted.
///
/// The task that reads the models is started before the deletion and waits for it, so that the second of two calls at
/// once finds the task and deletes nothing.
pub async fn clear_cache(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let (deleting, deleted) = oneshot::channel::<()>();
    let jobs = admin.jobs.clone();
    let started = start_refresh_after(&admin, "maintenance", async move {
        // The other side is dropped after the deletion, also if it fails.
        let _ = deleted.await;
        // A refresh that is under way may have stored models before the deletion: they are read once more after it.
        refresh::wait_for_run(&jobs).await;
    });
    let forgotten = if started.reused { Forgotten::default() } else { forget_discovered(&admin).await? };
    drop(deleting);
    let mut body = queued_body(&started);
    body["deletedModelAvailability"] = forgotten.models.into();
    body["deletedRouteChannels"] = forgotten.channels.into();
    body["deletedTokenRoutes"] = forgotten.routes.into();
    Ok(http::json(StatusCode::ACCEPTED, &body))
}

async fn forget_discovered(admin: &Admin) -> store::Result<Forgotten> {
    let forgotten = rebuild::forget_discovered(&admin.jobs).await?;
    admin.proxy.dialect_memory.clear();
    admin.proxy.cache_keys.clear();
    admin.proxy.member_refusals.clear();
    admin.proxy.sockets.clear();
    Ok(forgotten)
}

/// `POST /api/settings/maintenance/clear-usage`: deletes the log, the sums, counters and cooldowns.
pub async fn clear_usage(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    admin.core.store.flush().await;
    let now = now_ms();
    let deleted = proxy_logs::prune(&admin.core.store, now + 1).await?;
    let event = NewEvent {
        kind: "status",
        title: "Usage cleared".to_owned(),
        message: Some(format!("{deleted} log rows and all sums, counters and cooldowns were deleted")),
        level: EventLevel::Warning,
        related_id: None,
        related_type: Some("settings"),
    };
    let mut statements = stats::forget_usage(&admin.core.store, now);
    statements.push(event.insert(now));
    admin.core.store.batch(statements).await?;
    for channel in admin.core.snapshot.load().channels() {
        channel.live.restore(ChannelTotals::default());
        if let UnitRole::Whole { members, .. } = &channel.unit {
            members.iter().for_each(|member| member.live.restore(ChannelTotals::default()));
        }
    }
    admin.stats.clear();
    admin.core.publish().await?;
    let answer = json!({ "success": true, "message": "Usage was cleared", "deletedProxyLogs": deleted });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `POST /api/settings/maintenance/rotate-seal-key`: seals credentials with a new key from now on; a task reseals the
/// stored ones, then deletes the former key.
pub async fn rotate_seal_key(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    replace_key(&admin.jobs, Purpose::Seal).await
}

/// `POST /api/settings/maintenance/replace-index-key`: replaces the key of the look-up hashes in the same way.
pub async fn replace_index_key(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    replace_key(&admin.jobs, Purpose::Index).await
}

async fn replace_key(jobs: &Arc<Jobs>, purpose: Purpose) -> Result<Response> {
    let _turn = jobs.core.key_edits.lock().await;
    let (other, its_work) = match purpose {
        Purpose::Seal => (Purpose::Index, "The index key is being replaced"),
        Purpose::Index => (Purpose::Seal, "The seal key is being rotated"),
    };
    if let Some(other) = rekey::running(jobs, other) {
        let message =
            format!("{its_work}. Try again after that task has ended (GET /api/tasks/{})", other.id);
        return Err(AdminError::conflict(message));
    }
    if let Some(running) = rekey::running(jobs, purpose) {
        return Ok(queued(&running));
    }
    let id = match store::rekey::replace(&jobs.core.store, purpose).await {
        // The key to be replaced is already retired.
        Err(store::Error::NotFound) => {
            let message =
                format!("Another instance has just replaced the {purpose} key. Try again in a moment");
            return Err(AdminError::conflict(message));
        }
        replaced => replaced?,
    };
    log::info!("{purpose} key {id} is in use from now on");
    Ok(queued(&rekey::start(jobs, purpose)))
}

/// `POST /api/settings/maintenance/factory-reset`: deletes everything, the settings included, and makes the admin token
/// the built-in one again. The client's token is refused from the next request on. If `confirm` is sent, it must be
/// `RESET`.
pub async fn factory_reset(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::RESET, request.json_object().await?);
    if fields.text("confirm")?.is_some_and(|word| word != "RESET") {
        return Err(Invalid::field("confirm", "the word RESET").into());
    }
    let is_elsewhere = reset_all(&admin).await?;
    let mut answer = http::json(StatusCode::OK, &json!({ "success": true }));
    if is_elsewhere {
        admin.core.request_restart().await;
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

/// Resets everything. Returns whether the data are in another database from now on.
async fn reset_all(admin: &Arc<Admin>) -> crate::store::Result<bool> {
    let _routes = admin.core.route_edits.lock().await;
    let _settings = admin.core.settings_edits.lock().await;
    // The records of earlier requests are written first, so that they do not reappear after the reset.
    let routing_stop = admin.core.stop_routing().await;
    let in_flight = &admin.core.metrics.in_flight;
    let ended = async {
        while in_flight.get() > 0 {
            sleep(POLL_PAUSE).await;
        }
    };
    if timeout(IN_FLIGHT_TIMEOUT, ended).await.is_err() {
        log::warn!(
            "the factory reset proceeds although {} request(s) are still in progress",
            in_flight.get()
        );
    }
    admin.core.begin_reset();
    admin.jobs.tasks.stop_all().await;
    admin.core.store.flush().await;
    if let Err(error) = reset::everything(&admin.core.store, PLACEHOLDER_AUTH_TOKEN).await {
        drop(routing_stop);
        admin.core.publish().await?;
        return Err(error);
    }
    // Before anything that takes its time: a kill in between would leave the other database in use.
    let returned = admin.core.return_to_default_database(PLACEHOLDER_AUTH_TOKEN).await;
    if let Err(error) = reset::wipe(&admin.core.store).await {
        tell_of_remains(admin, &error).await;
    }
    admin.core.reload_settings().await?;
    admin.core.publish_keys().await?;
    drop(routing_stop);
    admin.core.publish().await?;
    let is_elsewhere = returned?;
    admin.proxy.forget_everything();
    admin.jobs.forget_everything();
    admin.forget_everything();
    admin.core.forget_everything().await;
    log::warn!(
        "factory reset done: AUTH_TOKEN has its built-in value again, which is accepted from this machine \
         only; change it with POST /api/settings/auth/change"
    );
    if !is_elsewhere {
        // Resumes a change of keys that was stopped halfway. A database that is left resumes it when it is opened
        // again.
        rekey::resume(&admin.jobs);
    }
    Ok(is_elsewhere)
}

/// Reports that the tables are empty but that their former pages may still hold deleted rows.
async fn tell_of_remains(admin: &Arc<Admin>, error: &crate::store::Error) {
    log::error!("deleted rows may still be readable in the files of the database: {error}");
    let event = NewEvent {
        kind: "status",
        title: "Deleted data may still be in the database's files".to_owned(),
        message: Some(format!(
            "Run the factory reset again while no other program reads the database: {error}"
        )),
        level: EventLevel::Error,
        related_id: None,
        related_type: Some("settings"),
    };
    if let Err(error) = admin.core.store.batch(vec![event.insert(now_ms())]).await {
        log::warn!("the event of a reset could not be stored: {error}");
    }
}
