//! Whether the process answers, for who watches it.

pub mod schema;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::errors::Result;
use crate::admin::Admin;
use crate::http::{self, Request, Response};
use crate::store::Trouble;

/// `GET /api/desktop/health`: the process answers, and what it lacks. Public, and asks nothing else.
pub async fn get(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    Ok(health_answer(admin.core.is_stopping(), admin.core.store.database().trouble()))
}

/// 503 once the process is stopping: a balancer looks elsewhere while requests in flight end. With a full disk, or without its
/// database, it goes on serving, which a restart would not mend: it is told, and no failure.
fn health_answer(is_stopping: bool, trouble: Option<Trouble>) -> Response {
    let status = if is_stopping { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut health = json!({ "ok": !is_stopping });
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
    }
}
