//! Requests and responses of the check-in routes.

use crate::admin::paging::{LIMIT, OFFSET};
use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};
use crate::admin::tasks::schema::QUEUED;

pub static OPERATIONS: &[Operation] = &[
    op("POST /api/checkin/trigger", "Check all accounts in, as a task").also(&[("202", Json(Of(&QUEUED)))]),
    op("POST /api/checkin/trigger/{id}", "Check one account in").gives(Of(&CHECKIN_OUTCOME)),
    op("GET /api/checkin/logs", "Check-ins, newest first, each with the reason for its result")
        .asks(&[LIMIT, OFFSET, may("accountId", Id)])
        .gives(List(&Of(&CHECKIN_LOG))),
    op("PUT /api/checkin/schedule", "Change when automatic check-ins run")
        .takes(&SCHEDULE)
        .gives(Of(&SCHEDULED)),
];

pub static SCHEDULE: Object = Object::new(
    "CheckinSchedule",
    &[
        may("mode", OneOf(&["cron", "interval"])),
        may("cron", Text),
        may("intervalHours", Integer).about("1 to 24"),
    ],
);

static SCHEDULED: Object = Object::new(
    "ScheduledCheckin",
    &[has("success", Is(true)), has("mode", Text), may("cron", Text), may("intervalHours", Integer)],
);

static CHECKIN_OUTCOME: Object = Object::new(
    "CheckinOutcome",
    &[
        has("success", Boolean),
        may("status", Text),
        has("message", Text),
        may("reward", Text),
        may("skipped", Boolean),
        may("reason", Text),
    ],
);

pub static CHECKIN_LOG: Object = Object::new(
    "CheckinLog",
    &[
        has("checkin_logs", Of(&CHECKIN)),
        has("accounts", Of(&CHECKIN_ACCOUNT)),
        has("sites", Of(&CHECKIN_SITE)),
        has("failureReason", OrNull(&Of(&CHECKIN_REASON))),
    ],
);

static CHECKIN: Object = Object::new(
    "Checkin",
    &[
        has("id", Id),
        has("accountId", Id),
        has("status", Text),
        has("message", OrNull(&Text)),
        has("reward", OrNull(&Text)),
        has("createdAt", Time),
    ],
);

static CHECKIN_ACCOUNT: Object = Object::new(
    "CheckinAccount",
    &[has("id", Id), has("username", OrNull(&Text)), has("status", Text), has("siteId", Id)],
);

static CHECKIN_SITE: Object = Object::new(
    "CheckinSite",
    &[has("id", Id), has("name", Text), has("url", Text), has("platform", Text), has("status", Text)],
);

static CHECKIN_REASON: Object = Object::new(
    "CheckinReason",
    &[
        has("code", Text),
        has("category", Text),
        has("title", Text),
        has("actionHint", Text),
        has("detailHint", Text),
    ],
);
