//! Requests and responses of the channel routes.

use crate::admin::routes::schema::CHANNEL;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/routes/{id}/channels", "Channels of a route").gives(List(&Of(&CHANNEL))),
    op("POST /api/routes/{id}/channels", "Add a channel to a route")
        .takes(&ADD)
        .gives(Of(&CHANNEL))
        .refuses(&[409]),
    op("POST /api/routes/{id}/channels/batch", "Add several channels to a route")
        .takes(&ADD_BATCH)
        .gives(Of(&ADDED)),
    op("PUT /api/channels/batch", "Change the priorities of several channels")
        .takes(&PRIORITIES)
        .gives(Of(&CHANGED))
        .refuses(&[404]),
    op("PUT /api/channels/{id}", "Change a channel").takes(&UPDATE).gives(Of(&CHANNEL)).refuses(&[409]),
    op("DELETE /api/channels/{id}", "Delete a channel").gives(Of(&DONE)),
];

pub static UPDATE: Object = Object::new(
    "ChannelUpdate",
    &[
        may("tokenId", OrNull(&Id)),
        may("sourceModel", OrNull(&Text)).about("The name of the model at the upstream"),
        may("priority", Number).about("Channels with the lowest number are tried first"),
        may("weight", Number),
        may("enabled", Boolean),
    ],
);

pub static ADD: Object = Object::with("ChannelCreate", &[&UPDATE], &[has("accountId", Id)]);

pub static ADD_BATCH: Object = Object::new("ChannelBatch", &[has("channels", List(&Of(&ADD)))]);

pub static PRIORITIES: Object = Object::new("ChannelPriorities", &[has("updates", List(&Of(&PRIORITY)))]);

pub static PRIORITY: Object = Object::new("ChannelPriority", &[has("id", Number), has("priority", Number)]);

static ADDED: Object = Object::new(
    "AddedChannels",
    &[has("success", Is(true)), has("created", Count), has("skipped", Count), has("errors", List(&Text))],
);

static CHANGED: Object =
    Object::new("ChangedChannels", &[has("success", Is(true)), has("channels", List(&Of(&CHANNEL)))]);
