//! The response of every batch: which items succeeded, and why the others did not.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::errors::Result;
use super::schema::Shape::{self, Integer, Is, List, Of, Text};
use super::schema::{Object, has};
use crate::http::{self, Response};
use crate::ids::Id;

/// The request body that names the rows of a batch.
pub static IDS: Object = Object::new("BatchIds", &[has("ids", List(&Shape::Id)).about("At least one")]);

pub static BATCH_RESULT: Object = Object::new(
    "BatchResult",
    &[
        has("success", Is(true)),
        has("successIds", List(&Integer)),
        has("failedItems", List(&Of(&FAILED_ITEM))),
    ],
);

static FAILED_ITEM: Object = Object::new("FailedItem", &[has("id", Integer), has("message", Text)]);

/// The results of one batch; it answers with status 200 even when every item failed.
#[derive(Default)]
pub struct BatchResult {
    success_ids: Vec<i64>,
    failed_items: Vec<Value>,
}

impl BatchResult {
    /// Records the result of one item.
    pub fn add(&mut self, id: impl Id, result: Result<()>) {
        match result {
            Ok(()) => self.success_ids.push(id.get()),
            Err(error) => self.failed_items.push(json!({"id": id.get(), "message": error.message()})),
        }
    }

    pub fn into_response(self) -> Response {
        let body = json!({"success": true, "successIds": self.success_ids, "failedItems": self.failed_items});
        http::json(StatusCode::OK, &body)
    }
}
