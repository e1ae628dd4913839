//! The answer of every batch: which items succeeded, and why the others did not.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::Result;
use crate::http::{self, Response};

/// Collects the items of one batch; it answers 200 even when all of them failed.
#[derive(Default)]
pub struct BatchResult {
    success_ids: Vec<i64>,
    failed_items: Vec<Value>,
}

impl BatchResult {
    /// Notes how one item ended.
    pub fn add(&mut self, id: i64, result: Result<()>) {
        match result {
            Ok(()) => self.success_ids.push(id),
            Err(error) => self.failed_items.push(json!({"id": id, "message": error.message()})),
        }
    }

    pub fn into_response(self) -> Response {
        let body = json!({"success": true, "successIds": self.success_ids, "failedItems": self.failed_items});
        http::json(StatusCode::OK, &body)
    }
}
