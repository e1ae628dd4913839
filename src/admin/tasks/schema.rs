//! Responses of the task routes.

use crate::admin::paging::LIMIT;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/tasks", "Long operations, newest first").asks(&[LIMIT]).gives(Of(&TASKS)),
    op("GET /api/tasks/{id}", "One long operation with its log").gives(Of(&ONE_TASK)),
];

static TASKS: Object =
    Object::new("Tasks", &[has("tasks", List(&Of(&TASK))), has("instances", List(&Of(&INSTANCE)))]);

/// A process that serves from the same database.
static INSTANCE: Object = Object::new(
    "Instance",
    &[
        has("id", Text),
        has("name", Text),
        has("version", Text),
        has("startedAt", Time),
        has("lastSeenAt", Time),
        has("isThis", Boolean),
    ],
);

static ONE_TASK: Object = Object::new("OneTask", &[has("success", Is(true)), has("task", Of(&TASK))]);

pub static TASK: Object = Object::new(
    "Task",
    &[
        has("id", Text),
        has("type", Text),
        has("title", Text),
        has("status", OneOf(&["pending", "running", "succeeded", "failed"])),
        has("message", Text),
        has("error", OrNull(&Text)),
        has("result", Any),
        has("dedupeKey", OrNull(&Text)),
        has("createdAt", Time),
        has("updatedAt", Time),
        has("startedAt", OrNull(&Time)),
        has("finishedAt", OrNull(&Time)),
        has("expiresAtMs", Integer),
        has("logs", List(&Of(&TASK_LOG_LINE))),
    ],
);

static TASK_LOG_LINE: Object =
    Object::new("TaskLogLine", &[has("seq", Count), has("message", Text), has("createdAt", Time)]);

/// The response of an operation that continues as a task.
pub static QUEUED: Object = Object::with(
    "Queued",
    &[&MESSAGE],
    &[has("queued", Is(true)), has("reused", Boolean), has("jobId", Text), has("status", Text)],
);

/// A success with a message for people.
pub static MESSAGE: Object = Object::new("Message", &[has("success", Is(true)), has("message", Text)]);
