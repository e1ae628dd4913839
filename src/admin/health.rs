//! The health check of the process, for monitoring.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::errors::Result;
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::store::Trouble;

/// `GET /api/desktop/health`: says whether the process is healthy, and what trouble its storage has. Public; reads
/// nothing else.
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(health_answer(admin.core.is_stopping(), admin.core.store.database().trouble()))
}

/// Builds the response: 503 once the process is stopping, so that a load balancer sends requests elsewhere while those
/// in flight end, and when only a restart helps. A full disk or an unreachable database is reported with status 200: the
/// process goes on serving, and a restart would not help.
fn health_answer(is_stopping: bool, trouble: Option<Trouble>) -> Response {
    let is_ok = !is_stopping && trouble != Some(Trouble::WriterEnded);
    let status = if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut health = json!({ "ok": is_ok });
    if let Some(trouble) = trouble {
        health["storage"] = json!(trouble.as_str());
        health["message"] = json!(trouble.message());
    }
    http::json(status, &health)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_stops_is_not_healthy() {
        assert_eq!(health_answer(false, None).status(), 200);
        assert_eq!(health_answer(true, None).status(), 503);
        assert_eq!(health_answer(false, Some(Trouble::Full)).status(), 200);
        assert_eq!(health_answer(false, Some(Trouble::WriterEnded)).status(), 503);
    }
}
