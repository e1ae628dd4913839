//! The response of the metrics.

use crate::admin::schema::{Operation, op};

pub static OPERATIONS: &[Operation] =
    &[op("GET /metrics", "State of the process in the Prometheus text form").writes("text/plain")];
