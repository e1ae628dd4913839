//! Responses of the event routes.

use crate::admin::paging::{LIMIT, OFFSET};
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/events", "Events for the operator, newest first")
        .asks(&[LIMIT, OFFSET, may("type", Text), may("read", OneOf(&["true", "false"]))])
        .gives(List(&Of(&EVENT))),
    op("DELETE /api/events", "Delete all events").gives(Of(&DONE)),
    op("GET /api/events/count", "How many events are unread").gives(Of(&COUNTED)),
    op("POST /api/events/read-all", "Mark all events as read").gives(Of(&DONE)),
    op("POST /api/events/{id}/read", "Mark an event as read").gives(Of(&DONE)),
];

static EVENT: Object = Object::new(
    "Event",
    &[
        has("id", Id),
        has("type", Text),
        has("title", Text),
        has("message", OrNull(&Text)),
        has("level", Text),
        has("read", Boolean),
        has("relatedId", OrNull(&Id)),
        has("relatedType", OrNull(&Text)),
        has("createdAt", Time),
    ],
);

static COUNTED: Object = Object::new("UnreadEvents", &[has("count", Integer)]);
