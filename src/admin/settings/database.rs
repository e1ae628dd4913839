//! `/api/settings/database/…`: the database in use, the one that the next start uses, and copying from one to the
//! other.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::schema;
use crate::admin::Admin;
use crate::admin::copying::{self, Copying};
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::secrets;
use crate::config::{DatabaseKind, DatabaseTls};
use crate::http::{self, Request, Response};
use crate::jobs::tasks::{Done, Spec, TaskEvents, TaskProgress};
use crate::store::events::{EventLevel, NewEvent};
use crate::store::relocate::{self, Copied, DatabaseAddress};
use crate::store::{OpenError, Store, next_database};
use crate::time::now_ms;

/// The tables whose row counts the response of a copy reports, with their names there.
const REPORTED_TABLES: [(&str, &str); 18] = [
    ("sites", "sites"),
    ("site_api_endpoints", "siteApiEndpoints"),
    ("site_announcements", "siteAnnouncements"),
    ("site_disabled_models", "siteDisabledModels"),
    ("accounts", "accounts"),
    ("account_tokens", "accountTokens"),
    ("token_routes", "tokenRoutes"),
    ("route_channels", "routeChannels"),
    ("route_group_sources", "routeGroupSources"),
    ("checkin_logs", "checkinLogs"),
    ("model_availability", "modelAvailability"),
    ("token_model_availability", "tokenModelAvailability"),
    ("proxy_logs", "proxyLogs"),
    ("proxy_video_tasks", "proxyVideoTasks"),
    ("proxy_files", "proxyFiles"),
    ("downstream_api_keys", "downstreamApiKeys"),
    ("events", "events"),
    ("settings", "settings"),
];

/// `GET /api/settings/database/runtime`: shows the database in use, and the one that the next start uses.
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(http::json(StatusCode::OK, &Value::Object(runtime(&admin).await?)))
}

/// `PUT /api/settings/database/runtime`: saves which database the next start uses.
pub async fn put(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::DATABASE_CHOICE, request.json_object().await?);
    let place = read_place(&admin, &fields)?.absolute();
    if place.kind == DatabaseKind::Sqlite {
        // A server that does not answer now may do so at the next start, but a file will be the same.
        let place = place.clone();
        let prepare = move || {
            relocate::try_out(&place)?;
            // A start creates no saved file.
            relocate::create_file(&place)
        };
        blocking(prepare).await?;
    }
    let store = bootstrap(&admin);
    let event = NewEvent {
        kind: "status",
        title: "Database of the next start".to_owned(),
        message: Some(format!("The next start will use {} ({})", place.masked(), place.kind.title())),
        level: EventLevel::Info,
        related_id: None,
        related_type: Some("settings"),
    };
    store.batch(next_database::save(store, &place)?).await?;
    admin.core.store.batch(vec![event.insert(now_ms())]).await?;
    let mut answer = runtime(&admin).await?;
    let message = match answer["restartRequired"] == true {
        true if !relocate::is_usable(place.kind) => {
            "Saved. It takes effect after a restart, but this build has no driver for it: restart with a \
             build that has"
        }
        true if relocate::begins_empty(&place) => {
            "Saved. It takes effect after a restart: the file is empty, so the next start begins without any \
             data. Copy the data there first, or correct the path"
        }
        true if place.is_in_memory() => {
            "Saved. It takes effect after a restart: a database in memory begins without any data at each start"
        }
        true => "Saved. It takes effect after a restart",
        false => "Saved. It is already in use",
    };
    answer.insert("message".into(), message.into());
    Ok(http::json(StatusCode::OK, &Value::Object(answer)))
}

/// `POST /api/settings/database/test-connection`: connects to a database and sends a trivial query.
pub async fn test(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::DATABASE_CHOICE, request.json_object().await?);
    let place = read_place(&admin, &fields)?;
    let (kind, address) = (place.kind, place.masked());
    blocking(move || relocate::try_out(&place)).await?;
    let answer = json!({
        "success": true,
        "message": format!("{} answers", kind.title()),
        "dialect": kind.as_str(),
        "connection": address,
    });
    Ok(http::json(StatusCode::OK, &answer))
}

/// `POST /api/settings/database/migrate`: copies everything into another database, which is not in use yet. A task
/// shows its progress; the copy runs to its end even if the client stops waiting.
pub async fn migrate(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::DATABASE_CHOICE, request.json_object().await?);
    let place = read_place(&admin, &fields)?;
    let overwrite = fields.bool("overwrite")?.unwrap_or(true);
    if place.is_same_place(&admin.core.database) {
        return Err(AdminError::bad_request("The target is the database already in use: name another one"));
    }
    let copying = admin.copying.begin().ok_or_else(copying::refused)?;
    let (reply, answer) = oneshot::channel();
    let title = format!("Copy into {}", place.kind.title());
    let spec = Spec { kind: "database-migrate", title, dedupe_key: None, events: TaskEvents::None };
    let copier = admin.clone();
    admin.jobs.tasks.start(spec, |task| async move {
        let answer = copy(&copier, place, overwrite, task, copying).await;
        let outcome = match &answer {
            Ok(answer) => Ok(Done {
                message: answer["message"].as_str().unwrap_or_default().to_owned(),
                result: answer["rows"].clone(),
            }),
            Err(error) => Err(error.message().to_owned()),
        };
        // The client may be gone.
        let _ = reply.send(answer);
        outcome
    });
    let stopped = || AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "The copy was stopped");
    let answer = answer.await.unwrap_or_else(|_| Err(stopped()))?;
    Ok(http::json(StatusCode::OK, &answer))
}

/// Copies everything and returns the response's body. Changes are refused as long as `copying` lives.
async fn copy(
    admin: &Arc<Admin>,
    place: DatabaseAddress,
    overwrite: bool,
    task: TaskProgress,
    copying: Copying,
) -> Result<Value> {
    let _turn = admin.core.imports.lock().await;
    admin.core.store.flush().await;
    let (kind, address, store) = (place.kind, place.masked(), admin.core.store.clone());
    let copied = blocking(move || {
        // Moved into the work, which cannot be interrupted.
        let _copying = copying;
        relocate::copy(&store, &place, overwrite, &|step| task.show(step.to_string()))
    });
    let copied = copied.await?;
    let event = NewEvent {
        kind: "status",
        title: "Data was copied into another database".to_owned(),
        message: Some(format!("{} rows are in {address} ({})", total(&copied), kind.title())),
        level: EventLevel::Info,
        related_id: None,
        related_type: Some("settings"),
    };
    let now = now_ms();
    admin.core.store.batch(vec![event.insert(now)]).await?;
    let rows_of =
        |table: &str| copied.iter().find(|copied| copied.table == table).map_or(0, |copied| copied.rows);
    let rows: Map<String, Value> =
        REPORTED_TABLES.iter().map(|(table, name)| ((*name).to_owned(), rows_of(table).into())).collect();
    Ok(json!({
        "success": true,
        "message": format!("{} rows were copied; this database stays in use until another is saved", total(&copied)),
        "dialect": kind.as_str(),
        "connection": address,
        "overwrite": overwrite,
        "version": "live-db-snapshot",
        "timestamp": now,
        "rows": rows,
    }))
}

fn total(copied: &[Copied]) -> u64 {
    copied.iter().map(|copied| copied.rows).sum()
}

/// Returns the database that the environment names, which stores the choice for the next start.
fn bootstrap(admin: &Admin) -> &Store {
    admin.core.bootstrap.as_ref().unwrap_or(&admin.core.store)
}

async fn runtime(admin: &Admin) -> Result<Map<String, Value>> {
    let core = &admin.core;
    let saved =
        next_database::saved(bootstrap(admin), &core.config.data_dir, &core.config.database.tls).await?;
    let differs = |saved: &DatabaseAddress| {
        !saved.is_same_place(&core.database) || saved.tls.is_required != core.database.tls.is_required
    };
    let mut answer = Map::new();
    answer.insert("success".into(), true.into());
    let kinds = [DatabaseKind::Postgres, DatabaseKind::MySql, DatabaseKind::Sqlite];
    let usable = kinds.into_iter().filter(|kind| relocate::is_usable(*kind));
    answer.insert("dialects".into(), usable.map(DatabaseKind::as_str).collect());
    answer.insert("active".into(), place_view(&core.database));
    answer.insert("restartRequired".into(), saved.as_ref().is_some_and(differs).into());
    answer.insert("saved".into(), saved.as_ref().map_or(Value::Null, place_view));
    Ok(answer)
}

fn place_view(place: &DatabaseAddress) -> Value {
    json!({ "dialect": place.kind.as_str(), "connection": place.masked(), "ssl": place.tls.is_required })
}

/// Reads the database that a request names.
fn read_place(admin: &Admin, fields: &Fields) -> Result<DatabaseAddress> {
    let kind = fields.text("dialect")?.and_then(DatabaseKind::parse);
    let kind = kind.ok_or_else(|| Invalid::field("dialect", "sqlite, mysql or postgres"))?;
    let url = fields.text("connectionString")?.map(str::trim).filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| Invalid::field("connectionString", "non-empty string"))?;
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_right = match (kind, scheme.as_deref()) {
        (DatabaseKind::Sqlite, None) => true,
        (kind, scheme) => scheme.is_some_and(|scheme| kind.schemes().contains(&scheme)),
    };
    if !is_right {
        let expected = match kind {
            DatabaseKind::Sqlite => "SQLite path, :memory:, file:// or sqlite:// address",
            DatabaseKind::MySql => "mysql:// address",
            DatabaseKind::Postgres => "postgres:// or postgresql:// address",
        };
        return Err(Invalid::field("connectionString", expected).into());
    }
    let ssl = fields.bool("ssl")?.unwrap_or(false);
    fields.bool("overwrite")?;
    let config = &admin.core.config;
    let tls = DatabaseTls { is_required: ssl, ..config.database.tls.clone() };
    let place = DatabaseAddress { kind, url: url.to_owned(), tls, data_dir: config.data_dir.clone() };
    if place.has_impossible_path() {
        let expected = "path that a file can have: without NUL, and not too long";
        return Err(Invalid::field("connectionString", expected).into());
    }
    if kind != DatabaseKind::Sqlite && url.contains(":***@") && place.masked() == url {
        return Err(Invalid::field("connectionString", secrets::WHOLE).into());
    }
    Ok(place)
}

/// Runs work that waits for a database outside the threads that serve requests. Its failure is reported as the client's
/// to fix.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, OpenError> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| AdminError::internal("working on a database", error))?;
    done.map_err(|error| AdminError::bad_request(error.to_string()))
}
