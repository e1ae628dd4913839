//! The maximum requests per minute and source address, for routes that try credentials or are costly.

use crate::limits::Bucket;

const fn bucket(name: &'static str, max: u32) -> Bucket {
    Bucket { name, max }
}

pub const AUTH_CHANGE: Bucket = bucket("auth-change", 3);
pub const ROUTES_READ: Bucket = bucket("routes-read", 60);
pub const ROUTES_SUMMARY_READ: Bucket = bucket("routes-summary-read", 60);
pub const ACCOUNTS_LOGIN: Bucket = bucket("accounts-login", 5);
pub const ACCOUNTS_VERIFY_TOKEN: Bucket = bucket("accounts-verify-token", 20);
pub const OAUTH_CONNECTIONS_READ: Bucket = bucket("oauth-connection-read", 60);
pub const OAUTH_CONNECTIONS_CHANGE: Bucket = bucket("oauth-connection-mutate", 20);
pub const OAUTH_IMPORT: Bucket = bucket("oauth-import", 20);
pub const OAUTH_PROXY: Bucket = bucket("oauth-connection-proxy", 20);
pub const OAUTH_QUOTA_BATCH: Bucket = bucket("oauth-quota-batch", 20);
pub const OAUTH_UNIT_CREATE: Bucket = bucket("oauth-route-unit-create", 20);
pub const OAUTH_UNIT_UPDATE: Bucket = bucket("oauth-route-unit-update", 20);
pub const OAUTH_UNIT_DELETE: Bucket = bucket("oauth-route-unit-delete", 20);
pub const OAUTH_PROVIDERS_READ: Bucket = bucket("oauth-provider-read", 60);
pub const OAUTH_START: Bucket = bucket("oauth-start", 20);
pub const OAUTH_SESSION_READ: Bucket = bucket("oauth-session-read", 120);
pub const OAUTH_SESSION_CHANGE: Bucket = bucket("oauth-session-mutate", 30);
pub const OAUTH_CALLBACK: Bucket = bucket("oauth-callback", 30);
pub const MODELS_TOKEN_CANDIDATES: Bucket = bucket("models-token-candidates", 30);
