//! Requests and responses of the update center routes.

use crate::admin::schema::Answer::Json;
use crate::admin::schema::Shape::*;
use crate::admin::schema::{Object, Operation, has, may, op};
use crate::admin::tasks::schema::TASK;

pub static OPERATIONS: &[Operation] = &[
    op("GET /api/update-center/status", "What the last check for updates found").gives(Of(&STATUS)),
    op("POST /api/update-center/check", "Check for updates now").gives(Of(&STATUS)),
    op("PUT /api/update-center/config", "Change where to look for updates, and what to deploy them to")
        .takes(&CONFIG_CHANGE)
        .gives(Of(&CONFIG_SAVED)),
    op(
        "POST /api/update-center/deploy",
        "Deploy a release or an image through the helper in the cluster, as a task",
    )
    .takes(&DEPLOY)
    .also(&[("202", Json(Of(&STARTED)))])
    .refuses(&[409]),
    op("POST /api/update-center/rollback", "Go back to an earlier revision through the helper, as a task")
        .takes(&ROLLBACK)
        .also(&[("202", Json(Of(&STARTED)))])
        .refuses(&[409]),
    op(
        "GET /api/update-center/tasks/{id}/stream",
        "The log of a task as server-sent events: `log`, then `done`",
    )
    .streams(),
];

pub static CONFIG_CHANGE: Object = Object::new(
    "UpdateConfigChange",
    &[
        may("enabled", Boolean),
        may("helperBaseUrl", Text),
        may("namespace", Text),
        may("releaseName", Text),
        may("chartRef", Text),
        may("imageRepository", Text),
        may("githubReleasesEnabled", Boolean),
        may("dockerHubTagsEnabled", Boolean),
        may("defaultDeploySource", OneOf(&["github-release", "docker-hub-tag"])),
    ],
);

pub static DEPLOY: Object = Object::new(
    "Deploy",
    &[
        may("source", OneOf(&["github-release", "docker-hub-tag"])),
        may("targetTag", Text),
        may("targetVersion", Text).about("Used if targetTag is not sent"),
        may("targetDigest", OrNull(&Text)),
    ],
);

pub static ROLLBACK: Object = Object::new("Rollback", &[has("targetRevision", Text)]);

static STATUS: Object = Object::new(
    "UpdateStatus",
    &[
        has("currentVersion", Text),
        has("config", Of(&UPDATE_CONFIG)),
        has("releaseRepository", Text)
            .about("The value of UPDATE_CENTER_RELEASE_REPOSITORY; empty if releases are not looked for"),
        has("githubRelease", OrNull(&Of(&UPDATE_VERSION))),
        has("dockerHubTag", OrNull(&Of(&UPDATE_VERSION))),
        has("dockerHubRecentTags", List(&Of(&UPDATE_VERSION))),
        has("helper", Of(&DEPLOY_HELPER)),
        has("runningTask", OrNull(&Of(&TASK))),
        has("lastFinishedTask", OrNull(&Of(&TASK))),
        has("runtime", Of(&UPDATE_STATE)),
    ],
);

static CONFIG_SAVED: Object =
    Object::new("UpdateConfigSaved", &[has("success", Is(true)), has("config", Of(&UPDATE_CONFIG))]);

static STARTED: Object = Object::new(
    "StartedDeployment",
    &[has("success", Is(true)), has("reused", Boolean), has("task", Of(&TASK))],
);

static UPDATE_CONFIG: Object = Object::new(
    "UpdateConfig",
    &[
        has("enabled", Boolean),
        has("helperBaseUrl", Text),
        has("namespace", Text),
        has("releaseName", Text),
        has("chartRef", Text),
        has("imageRepository", Text),
        has("githubReleasesEnabled", Boolean),
        has("dockerHubTagsEnabled", Boolean),
        has("defaultDeploySource", Text),
    ],
);

static UPDATE_STATE: Object = Object::new(
    "UpdateState",
    &[
        has("lastCheckedAt", OrNull(&Time)),
        has("lastCheckError", OrNull(&Text)),
        has("lastResolvedSource", OrNull(&Text)),
        has("lastResolvedDisplayVersion", OrNull(&Text)),
        has("lastResolvedCandidateKey", OrNull(&Text)),
        has("lastNotifiedCandidateKey", OrNull(&Text)),
        has("lastNotifiedCandidateKeys", List(&Text)),
        has("lastNotifiedAt", OrNull(&Time)),
        has("statusSnapshot", OrNull(&Of(&UPDATES_FOUND))),
    ],
);

static UPDATES_FOUND: Object = Object::new(
    "UpdatesFound",
    &[
        has("githubRelease", OrNull(&Of(&UPDATE_VERSION))),
        has("dockerHubTag", OrNull(&Of(&UPDATE_VERSION))),
        has("dockerHubRecentTags", List(&Of(&UPDATE_VERSION))),
        has("helper", Of(&DEPLOY_HELPER)),
    ],
);

static UPDATE_VERSION: Object = Object::new(
    "UpdateVersion",
    &[
        has("source", Text),
        has("rawVersion", Text),
        has("normalizedVersion", Text),
        has("url", OrNull(&Text)),
        has("tagName", OrNull(&Text)),
        has("digest", OrNull(&Text)),
        has("displayVersion", OrNull(&Text)),
        has("publishedAt", OrNull(&Time)),
    ],
);

static DEPLOY_HELPER: Object = Object::new(
    "DeployHelper",
    &[
        has("ok", Boolean),
        has("releaseName", OrNull(&Text)),
        has("namespace", OrNull(&Text)),
        has("revision", OrNull(&Text)),
        has("imageRepository", OrNull(&Text)),
        has("imageTag", OrNull(&Text)),
        has("imageDigest", OrNull(&Text)),
        has("healthy", Boolean),
        has("error", OrNull(&Text)),
        has("history", List(&Of(&HELM_REVISION))),
    ],
);

static HELM_REVISION: Object = Object::new(
    "HelmRevision",
    &[
        has("revision", Text),
        has("updatedAt", OrNull(&Time)),
        has("status", OrNull(&Text)),
        has("description", OrNull(&Text)),
        has("imageRepository", OrNull(&Text)),
        has("imageTag", OrNull(&Text)),
        has("imageDigest", OrNull(&Text)),
    ],
);
