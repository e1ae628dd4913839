//! The response of the metrics.

use crate::admin::schema::{Operation, op};

pub static OPERATIONS: &[Operation] =
    &[op("GET /metrics", "Metrics of the process in the text format of Prometheus").writes("text/plain")];
