//! Requests and responses of the playground.

use crate::admin::schema::Answer::{self, Json};
use crate::admin::schema::Shape::*;
use crate::admin::schema::{DONE, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op("POST /api/test/proxy", "Send a test request to the proxy").takes(&CALL).gives(Any).also(TRY_REFUSALS),
    op("POST /api/test/proxy/stream", "Send a test request to the proxy; the answer is server-sent events")
        .takes(&CALL)
        .streams()
        .also(TRY_REFUSALS),
    op("POST /api/test/proxy/jobs", "Send a test request to the proxy as a job; the job has the answer")
        .takes(&CALL)
        .also(JOB_ANSWERS),
    op("GET /api/test/proxy/jobs/{id}", "The state of a test request, or its result")
        .gives(Of(&TRY_JOB))
        .also(&[("404", REFUSED)]),
    op("DELETE /api/test/proxy/jobs/{id}", "Cancel a test request, or delete one that has ended")
        .gives(Of(&DONE))
        .also(&[("404", REFUSED)]),
    op("POST /api/test/chat", "Send a test conversation").takes(&CHAT).gives(Any).also(TRY_REFUSALS),
    op("POST /api/test/chat/stream", "Send a test conversation; the answer is server-sent events")
        .takes(&CHAT)
        .streams()
        .also(TRY_REFUSALS),
    op("POST /api/test/chat/jobs", "Send a test conversation as a job; the job has the answer")
        .takes(&CHAT)
        .also(JOB_ANSWERS),
    op("GET /api/test/chat/jobs/{id}", "The state of a test request, or its result")
        .gives(Of(&TRY_JOB))
        .also(&[("404", REFUSED)]),
    op("DELETE /api/test/chat/jobs/{id}", "Cancel a test request, or delete one that has ended")
        .gives(Of(&DONE))
        .also(&[("404", REFUSED)]),
];

/// The proxy's failures keep their status.
static TRY_REFUSALS: &[(&str, Answer)] = &[("4XX", REFUSED), ("5XX", REFUSED)];

static JOB_ANSWERS: &[(&str, Answer)] = &[("202", Json(Of(&TRY_JOB))), ("4XX", REFUSED), ("5XX", REFUSED)];

const REFUSED: Answer = Json(Of(&TRY_REFUSED));

static TRY_REFUSED: Object = Object::open(
    "TryRefused",
    &[may("error", Any)
        .about("An object with message and type, or the proxy's own answer; on the chat routes a string")],
);

pub static CALL: Object = Object::new(
    "TryCall",
    &[
        has("path", Text).about("A path of the proxy, such as /v1/chat/completions"),
        may("method", OrNull(&Text)).about("POST (the default), GET or DELETE"),
        may("requestKind", OrNull(&OneOf(&["json", "multipart", "empty"])))
            .about("Default: json; must be empty for GET and DELETE"),
        may("stream", OrNull(&Boolean)),
        may("jobMode", OrNull(&Boolean)),
        may("rawMode", OrNull(&Boolean)),
        may("jsonBody", Any),
        may("rawJsonText", OrNull(&Text)),
        may("multipartFields", OrNull(&Map(&Text))),
        may("multipartFiles", OrNull(&List(&Of(&FILE)))),
        may("forcedChannelId", Any).about("The channel to use; no other is tried"),
    ],
);

static FILE: Object = Object::new(
    "TryFile",
    &[may("field", Text), may("name", Text), may("mimeType", Text), may("dataUrl", Text)],
);

pub static CHAT: Object = Object::new(
    "TryChat",
    &[
        has("model", Text),
        has("messages", List(&Of(&MESSAGE))),
        may("stream", Any),
        may("targetFormat", OrNull(&OneOf(&["openai", "claude", "responses"]))),
        may("forcedChannelId", Any),
        may("temperature", Any),
        may("top_p", Any),
        may("max_tokens", Any),
        may("frequency_penalty", Any),
        may("presence_penalty", Any),
        may("seed", Any),
    ],
);

static MESSAGE: Object = Object::new("TryMessage", &[has("role", Text), has("content", Text)]);

static TRY_JOB: Object = Object::new(
    "TryJob",
    &[
        has("jobId", Text),
        has("status", OneOf(&["pending", "succeeded", "failed", "cancelled"])),
        may("result", Any),
        may("error", Any),
        has("createdAt", Time),
        may("updatedAt", Time),
        has("expiresAt", Time),
    ],
);
