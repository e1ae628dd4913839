//! Requests and responses of the announcement routes.

use crate::admin::paging::{LIMIT, OFFSET};
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/site-announcements", "Announcements of sites")
        .asks(&[
            LIMIT,
            OFFSET,
            may("siteId", Id),
            may("platform", Text),
            may("read", Text),
            may("status", Text),
        ])
        .gives(List(&Of(&ANNOUNCEMENT))),
    op("DELETE /api/site-announcements", "Clear the announcements; their events stay").gives(Of(&DONE)),
    op("POST /api/site-announcements/read-all", "Mark all announcements as read").gives(Of(&DONE)),
    op("POST /api/site-announcements/sync", "Ask sites for their announcements, as a task")
        .takes(&SYNC)
        .gives(Of(&SYNC_QUEUED)),
    op("POST /api/site-announcements/{id}/read", "Mark an announcement as read").gives(Of(&DONE)),
];

pub static SYNC: Object =
    Object::new("AnnouncementSync", &[may("siteId", OrNull(&Id)).about("Default: all sites")]);

static SYNC_QUEUED: Object = Object::new(
    "QueuedAnnouncementSync",
    &[has("success", Is(true)), has("queued", Is(true)), has("reused", Boolean), has("taskId", Text)],
);

static ANNOUNCEMENT: Object = Object::new(
    "Announcement",
    &[
        has("id", Id),
        has("siteId", Id),
        has("platform", Text),
        has("sourceKey", Text),
        has("title", Text),
        has("content", Text),
        has("level", Text),
        has("sourceUrl", OrNull(&Text)),
        has("startsAt", OrNull(&Time)),
        has("endsAt", OrNull(&Time)),
        has("upstreamCreatedAt", OrNull(&Time)),
        has("upstreamUpdatedAt", OrNull(&Time)),
        has("firstSeenAt", OrNull(&Time)),
        has("lastSeenAt", OrNull(&Time)),
        has("readAt", OrNull(&Time)),
        has("dismissedAt", OrNull(&Time)),
        has("rawPayload", Any),
    ],
);
