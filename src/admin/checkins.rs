//! `/api/checkin`: check-ins started by hand, their log, and their schedule.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::errors::Result;
use super::input::{Fields, Invalid};
use super::settings::runtime;
use super::tasks::queued;
use super::{paging, require_id};
use crate::admin::Admin;
use crate::admin::settings::schema::RUNTIME_CHANGE;
use crate::http::{self, Request, Response};
use crate::jobs::checkin::verdict::Reason;
use crate::jobs::checkin::{self, Trigger};
use crate::json_number::exact_integer;
use crate::store::checkins::{self, CheckinRow};
use crate::time::iso;

/// The schedule's request fields, each with the name of its setting.
const FIELDS: [(&str, &str); 3] =
    [("mode", "checkinScheduleMode"), ("cron", "checkinCron"), ("intervalHours", "checkinIntervalHours")];

/// `POST /api/checkin/trigger`
pub async fn trigger_all(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(queued(&checkin::all::start_all(&admin.jobs)))
}

/// `POST /api/checkin/trigger/{id}`: checks one account in; answers with status 200 whether or not it succeeded.
pub async fn trigger(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    Ok(http::json(StatusCode::OK, &checkin::check_in(&admin.jobs, id, Trigger::Operator).await))
}

/// `GET /api/checkin/logs`
pub async fn logs(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let query = &request.query;
    let account = paging::account(query)?;
    let limit = paging::number(query, "limit", 50, 1..=500);
    let rows = checkins::list(&admin.core.store, account, limit, paging::offset(query)).await?;
    let views: Vec<Value> = rows.iter().map(view).collect();
    Ok(http::json(StatusCode::OK, &views))
}

/// Shows a check-in under the names of the joined tables; no credential is included.
pub fn view(row: &CheckinRow) -> Value {
    json!({
        "checkin_logs": {
            "id": row.id,
            "accountId": row.account_id,
            "status": row.status.as_str(),
            "message": row.message,
            "reward": row.reward,
            "createdAt": iso(row.created_at),
        },
        "accounts": {
            "id": row.account_id,
            "username": row.username,
            "status": row.account_status,
            "siteId": row.site_id,
        },
        "sites": {
            "id": row.site_id,
            "name": row.site_name,
            "url": row.site_url,
            "platform": row.site_platform,
            "status": row.site_status,
        },
        "failureReason": Reason::of_row(row),
    })
}

/// `PUT /api/checkin/schedule`: fields that are not sent stay, except the mode, which then becomes `cron`.
pub async fn schedule(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::SCHEDULE, request.json_object().await?);
    // The settings accept "6" and 1.5 from forms; a schedule is set by scripts, which must learn that they sent no
    // integer.
    if fields.get("intervalHours").is_some_and(|hours| exact_integer(hours).is_none()) {
        return Err(Invalid::field("intervalHours", "integer from 1 to 24").into());
    }
    let sent = FIELDS.iter().filter_map(|(field, setting)| Some((setting, fields.get(field)?)));
    let mut settings: Map<String, Value> =
        sent.map(|(setting, value)| ((*setting).to_owned(), value.clone())).collect();
    settings.entry("checkinScheduleMode").or_insert_with(|| "cron".into());
    let changed = runtime::change(&admin, &Fields::of(&RUNTIME_CHANGE, settings), request.client_ip).await;
    changed.map_err(|refusal| {
        FIELDS.iter().fold(refusal, |refusal, (field, setting)| refusal.naming(setting, field))
    })?;
    let settings = admin.core.settings.load();
    let (mode, values) = (settings.values.text("checkin_schedule_mode"), &settings.values);
    let body = if mode == "interval" {
        json!({ "success": true, "mode": mode, "intervalHours": values.count("checkin_interval_hours") })
    } else {
        json!({ "success": true, "mode": mode, "cron": values.text("checkin_cron") })
    };
    Ok(http::json(StatusCode::OK, &body))
}
