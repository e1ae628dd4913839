//! The columns and settings that are stored sealed.

/// A column that holds sealed text, and the column with its look-up hash.
pub(in crate::store) struct Column {
    pub(in crate::store) table: &'static str,
    pub(in crate::store) name: &'static str,
    pub(in crate::store) hash: Option<&'static str>,
}

const fn column(table: &'static str, name: &'static str) -> Column {
    Column { table, name, hash: None }
}

/// Every sealed column; sealed settings are listed in [`SETTINGS`].
pub(in crate::store) const COLUMNS: &[Column] = &[
    column("sites", "custom_headers"),
    column("sites", "proxy_url"),
    column("accounts", "access_token"),
    column("accounts", "api_token"),
    column("accounts", "proxy_url"),
    column("accounts", "login_password"),
    column("accounts", "refresh_token"),
    column("accounts", "id_token"),
    column("accounts", "provider_data"),
    column("accounts", "sub2api_refresh_token"),
    Column { table: "account_tokens", name: "token_enc", hash: Some("token_hash") },
    Column { table: "downstream_api_keys", name: "key_enc", hash: Some("key_hash") },
    column("proxy_video_tasks", "token_value"),
    column("oauth_sessions", "details"),
];

/// The settings that are secrets.
pub const SETTINGS: &[&str] = &[
    "auth_token",
    "proxy_token",
    "system_proxy_url",
    "webhook_url",
    "bark_url",
    "serverchan_key",
    "telegram_api_base_url",
    "telegram_bot_token",
    "smtp_pass",
    "db_url",
    "backup_webdav_config_v1",
];
