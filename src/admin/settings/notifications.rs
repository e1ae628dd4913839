//! `/api/settings/notify/test`: tests whether notices reach the operator.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::http::{self, Request, Response};
use crate::notify::{Notice, Report};
use crate::store::events::EventLevel;

/// `POST /api/settings/notify/test`: sends one message on every channel, without a cooldown. If some channels fail, the
/// response is a success that names them; if all fail, or there are none, it is a refusal.
pub async fn send_test(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let notice = Notice::new(
        EventLevel::Info,
        "Test notification",
        "This message shows that notifications reach you.",
    );
    let report = admin.core.notifier.deliver(&notice).await;
    let (attempted, succeeded) = (report.attempted(), report.succeeded());
    if attempted == 0 {
        return Err(AdminError::bad_request("No notification channel is configured"));
    }
    let failures: Vec<String> = report.failures().map(|(name, error)| format!("{name}: {error}")).collect();
    if succeeded == 0 {
        let message = format!("Test notification failed (0/{attempted}): {}", failures.join("; "));
        return Err(AdminError::bad_request(message).flag("channels", channels(&report)));
    }
    let mut message = format!("Test notification sent ({succeeded}/{attempted})");
    if !failures.is_empty() {
        message = format!("{message}; failed: {}", failures.join("; "));
    }
    let body = json!({"success": true, "message": message, "attempted": attempted, "succeeded": succeeded,
        "failed": attempted - succeeded, "failedChannels": names(&report), "channels": channels(&report)});
    Ok(http::json(StatusCode::OK, &body))
}

fn names(report: &Report) -> Vec<&'static str> {
    report.failures().map(|(name, _)| name).collect()
}

/// Shows each channel with its result.
fn channels(report: &Report) -> Value {
    let channels = report.channels.iter();
    channels
        .map(|(name, outcome)| match outcome {
            Ok(()) => json!({"channel": name, "success": true}),
            Err(error) => json!({"channel": name, "success": false, "message": error}),
        })
        .collect()
}
