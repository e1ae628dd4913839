//! Paths that many tests call.

pub const CHAT: &str = "/v1/chat/completions";
pub const RESPONSES: &str = "/v1/responses";
pub const COMPACT: &str = "/v1/responses/compact";
pub const MESSAGES: &str = "/v1/messages";
pub const COMPLETIONS: &str = "/v1/completions";
pub const FILES: &str = "/v1/files";
pub const VIDEOS: &str = "/v1/videos";
pub const IMPORT: &str = "/api/settings/backup/import";
pub const EXPORT: &str = "/api/settings/backup/export";
pub const FACTORY_RESET: &str = "/api/settings/maintenance/factory-reset";
