//! Requests and responses of the backup routes.

use crate::admin::schema::Shape::*;
use crate::admin::schema::{FILE, Member, Object, Operation, has, may, op};

pub static OPERATIONS: &[Operation] = &[
    op(
        "GET /api/settings/backup/export",
        "The whole configuration as one document, with its credentials in clear or sealed with a passphrase",
    )
    .asks(&[
        may("type", OneOf(&["all", "accounts", "preferences"])),
        may("passphrase", Text).about("Same as X-Backup-Passphrase; prefer the header, which no log keeps"),
    ])
    .reads(&[PASSPHRASE])
    .gives_or(Of(&DOCUMENT), &[FILE]),
    op("POST /api/settings/backup/import", "Import a backup document: all of it, or nothing")
        .asks(&[
            may("mode", Text),
            may("conflict", OneOf(&["skip", "overwrite", "fill", "fill-empty"])),
            may("dryRun", Text),
        ])
        .reads(&[PASSPHRASE])
        .takes(&DOCUMENT_TAKEN)
        .or_file()
        .gives(Of(&IMPORTED))
        .refuses(&[409]),
    op(
        "GET /api/settings/backup/webdav",
        "The configuration of the WebDAV backup, and the result of its last run",
    )
    .gives(Of(&WEBDAV)),
    op("PUT /api/settings/backup/webdav", "Change the configuration of the WebDAV backup")
        .takes(&WEBDAV_CHANGE)
        .gives(Of(&WEBDAV)),
    op(
        "POST /api/settings/backup/webdav/export",
        "Write the backup to the WebDAV server, and read it back to check it",
    )
    .takes(&WEBDAV_EXPORT)
    .gives(Of(&WEBDAV_WRITTEN)),
    op("POST /api/settings/backup/webdav/import", "Import the backup that is on the WebDAV server")
        .reads(&[PASSPHRASE])
        .gives(Of(&WEBDAV_READ)),
];

const PASSPHRASE: Member = may("X-Backup-Passphrase", Text).about("Seals the backup, or opens a sealed one");

/// A document of this gateway, or of another program that is recognised by its content.
static DOCUMENT_TAKEN: Object = Object::open("BackupToImport", &[may("data", Any)]);

static DOCUMENT: Object = Object::new(
    "Backup",
    &[
        has("format", Text),
        has("installation", Text).about("The installation that wrote it: its ids mean the same rows there"),
        has("version", Text),
        has("timestamp", Integer),
        has("checksum", Text),
        may("type", Text),
        may("accounts", Map(&List(&Map(&Any)))).about("The rows of each table, by the name of the table"),
        may("preferences", Of(&PREFERENCES)),
    ],
);

static PREFERENCES: Object = Object::new("BackupPreferences", &[has("settings", List(&Of(&SETTING)))]);

static SETTING: Object = Object::new("BackupSetting", &[has("key", Text), has("value", Any)]);

static IMPORTED: Object = Object::open(
    "ImportedBackup",
    &[
        has("success", Boolean),
        has("allImported", Boolean),
        has("message", Text),
        has("counts", Of(&COUNTS)),
        has("arrays", Map(&Of(&COUNTS))),
        has("sections", Of(&SECTIONS)),
        has("appliedSettings", List(&Of(&SETTING))),
        may("dryRun", Boolean),
        may("rows", List(&Of(&ROW))),
        may("rowsOmitted", Count),
        may("warnings", List(&Text)),
    ],
);

static SECTIONS: Object =
    Object::new("ImportedSections", &[has("accounts", Boolean), has("preferences", Boolean)]);

static COUNTS: Object = Object::new(
    "ImportCounts",
    &[
        has("created", Count),
        has("updated", Count),
        has("skipped", Count),
        has("refused", Count),
        has("deleted", Count),
    ],
);

static ROW: Object = Object::new(
    "ImportedRow",
    &[
        has("section", Text),
        has("id", OrNull(&Integer)),
        has("name", Text),
        has("action", Text),
        has("reason", Text),
    ],
);

pub static WEBDAV_CHANGE: Object = Object::new(
    "WebDavChange",
    &[
        may("enabled", Boolean),
        may("fileUrl", Text),
        may("username", Text),
        may("password", Text),
        may("clearPassword", Boolean),
        may("exportType", Text),
        may("autoSyncEnabled", Boolean),
        may("autoSyncCron", Text),
    ],
);

pub static WEBDAV_EXPORT: Object = Object::new("WebDavExport", &[may("type", Text)]);

static WEBDAV: Object = Object::new(
    "WebDav",
    &[has("success", Is(true)), has("config", Of(&WEBDAV_CONFIG)), has("state", Of(&WEBDAV_STATE))],
);

static WEBDAV_CONFIG: Object = Object::new(
    "WebDavConfig",
    &[
        has("enabled", Boolean),
        has("fileUrl", Text),
        has("username", Text),
        has("exportType", Text),
        has("autoSyncEnabled", Boolean),
        has("autoSyncCron", Text),
        has("hasPassword", Boolean),
        has("passwordMasked", Text),
    ],
);

static WEBDAV_STATE: Object = Object::open(
    "WebDavState",
    &[
        has("lastSyncAt", OrNull(&Time)),
        has("lastError", OrNull(&Text)),
        may("lastWarning", Text)
            .about("Set if the file on the server is not the one that was written last, or cannot be read"),
    ],
);

static WEBDAV_WRITTEN: Object = Object::new(
    "WebDavWritten",
    &[
        has("success", Is(true)),
        has("fileUrl", Text),
        has("exportType", Text),
        has("syncedAt", Time),
        has("lastSyncAt", Time),
        has("lastError", OrNull(&Text)),
        may("warnings", List(&Text)).about("Why the written file could not be read back and compared"),
    ],
);

static WEBDAV_READ: Object = Object::with(
    "WebDavRead",
    &[&IMPORTED],
    &[has("fileUrl", Text), has("syncedAt", Time), has("lastSyncAt", Time), has("lastError", OrNull(&Text))],
);
