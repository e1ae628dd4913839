//! The response of the health check.

use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[op("GET /api/desktop/health", "Check that the process answers")
    .gives(Of(&HEALTH))
    .also(&[("503", Json(Of(&HEALTH)))])];

static HEALTH: Object =
    Object::new("Health", &[has("ok", Boolean), may("storage", Text), may("message", Text)]);
