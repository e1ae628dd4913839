//! The environment, read once at start.
//!
//! Rules: a value is trimmed; unset or blank means the default; a number outside its range is clamped (in
//! `PROXY_SITE_CONCURRENCY_*` it means the default), and a value that is not a number means the default, each with a
//! warning. Where guessing would open access or look in the wrong place
//! (addresses, networks, the database), an unreadable value is an error. All errors are collected, so that one start
//! shows every mistake. A `.env` file in the working directory is read first and never overrides the real environment.
//! Names and defaults are in the tables of `docs/configuration.md`.

mod env_file;
pub mod oauth;
pub mod rule;
pub mod runtime;
mod values;
mod variables;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use jiff::tz::TimeZone;
use log::LevelFilter;

use crate::cron::Cron;
use crate::dialect::service_tier::TierRules;
use crate::limits::{LeaseRules, RateLimits};

pub use values::{DEFAULT_PORT, DatabaseConfig, DatabaseKind, DatabaseTls, Synchronous, TlsFiles};

use env_file::EnvFile;
use oauth::OAuthConfig;
use variables::Vars;

/// The value of AUTH_TOKEN if none is configured. Works from loopback peers only.
pub const PLACEHOLDER_AUTH_TOKEN: &str = "change-me-admin-token";
/// The value of PROXY_TOKEN if none is configured. Works from loopback peers only.
pub const PLACEHOLDER_PROXY_TOKEN: &str = "change-me-proxy-sk-token";

/// The configuration from the environment. Carries secrets, so it has no `Debug`.
pub struct Config {
    pub host: String,
    pub port: u16,
    /// The port of `switchyard desktop`; `None` lets it choose.
    pub desktop_port: Option<u16>,
    pub data_dir: PathBuf,
    pub log_level: LevelFilter,
    pub time_zone: TimeZone,
    /// IANA name of `time_zone`, as shown to operators.
    pub time_zone_name: String,

    pub auth_token: String,
    pub proxy_token: String,
    /// Whether to refuse to start while a token still has its built-in value.
    pub require_strong_tokens: bool,
    /// The secret that seals stored credentials.
    pub credential_secret: String,
    pub credential_secret_previous: Vec<String>,
    pub credential_secret_lost: bool,
    /// Secrets under which passwords in files of other gateways are sealed.
    pub import_secrets: Vec<String>,
    /// Whether `credential_secret` is only the AUTH_TOKEN or a placeholder.
    pub credential_secret_weak: bool,

    pub database: DatabaseConfig,

    pub admin_ip_allowlist: Vec<IpNet>,
    pub trusted_proxies: Vec<IpNet>,
    pub cors_allowed_origins: Vec<String>,
    pub system_proxy_url: Option<String>,
    /// The address that the test of an outbound proxy requests.
    pub connectivity_url: String,
    pub tls: Option<TlsFiles>,
    /// Whether the console is served beside the admin API.
    pub console_enabled: bool,
    /// PEM file with roots trusted beside the built-in ones, for private upstreams.
    pub extra_roots_file: Option<PathBuf>,

    /// Maximum number of open client connections; further ones wait in the kernel's queue.
    pub max_connections: usize,
    pub request_body_limit: usize,
    /// The memory for all request bodies together, in bytes.
    pub request_body_memory: usize,
    pub request_header_timeout: Duration,
    /// The longest pause while a request body is being read or a client is not taking its response.
    pub client_idle_timeout: Duration,
    pub shutdown_grace: Duration,

    pub rate_limits: RateLimits,
    pub proxy: ProxyConfig,
    /// The user agent sent to Codex in place of the client's; blank for the client's.
    pub codex_user_agent: String,
    /// The beta features sent to Codex on WebSockets if the client names none; blank for none.
    pub codex_beta_features: String,
    pub files: FileRules,
    pub backups: BackupRules,
    /// The number of days that ids of videos are kept; 0 means for ever.
    pub video_retention_days: u32,
    pub proxy_log_retention_days: u32,
    pub proxy_log_prune_interval: Duration,
    /// Maximum number of pairs of channel and model that `/metrics` distinguishes.
    pub metrics_max_series: usize,
    pub updates: UpdateSources,
    pub jobs: JobsConfig,
    /// The providers whose accounts are connected by a login in a browser.
    pub oauth: OAuthConfig,
    /// The environment's values for the settings that an operator can save.
    pub runtime: runtime::Values,
}

/// The rules for backups that the service writes to files.
pub struct BackupRules {
    /// The schedule of backups; `None` for never.
    pub cron: Option<Cron>,
    /// The number of newest backups to keep.
    pub keep: usize,
    pub dir: PathBuf,
    /// The passphrase that seals each file.
    pub passphrase: Option<String>,
}

/// The limits of uploads by clients, and how long they are kept.
pub struct FileRules {
    /// Maximum size of one upload, including its form, in bytes.
    pub upload_limit: u64,
    /// Maximum total size of one key's files, in bytes; 0 means unlimited.
    pub quota: u64,
    /// The number of days that files are kept; 0 means for ever.
    pub retention_days: u32,
    pub prune_interval: Duration,
}

/// The settings of the proxy that an operator cannot save; the rest is in `runtime`.
pub struct ProxyConfig {
    pub max_channel_attempts: u32,
    /// The longest pause between two chunks of an upstream's response.
    pub stream_idle_timeout: Duration,
    pub site_leases: LeaseRules,
    /// Whether a conversation stays on the channel that served it last; `sticky_session_ttl` says for how long after
    /// its last response.
    pub sticky_sessions: bool,
    pub sticky_session_ttl: Duration,
    /// The lifetime of a session's slot on a channel, and the shorter interval at which it is renewed.
    pub session_lease_ttl: Duration,
    pub session_lease_keepalive: Duration,
    pub failure_cooldown: Duration,
    pub tier_rules: TierRules,
    /// The name of the beta that gives access to Codex over WebSockets.
    pub codex_websocket_beta: String,
    /// The model that Codex is asked for one word, to learn how much of its limits an account has used; `None` for the
    /// usual one, or the first that the account has.
    pub codex_quota_model: Option<String>,
    /// Maximum number of parts and calls in a converted request.
    pub max_request_parts: usize,
    /// The memory for all conversions of large bodies together, in bytes.
    pub conversion_memory: usize,
}

/// The places where updates are looked for.
pub struct UpdateSources {
    /// The repository `owner/name` at GitHub; blank for none.
    pub release_repository: String,
    pub releases_url: String,
    pub tags_url: String,
    /// The token that is sent to the helper in the cluster, and that the helper requires; blank for none.
    pub helper_token: String,
    /// The address and port of `switchyard deploy-helper`.
    pub helper_host: IpAddr,
    pub helper_port: u16,
    /// The releases that the helper may change, as `namespace/release`; empty for all of them.
    pub helper_releases: Vec<String>,
}

/// How jobs do their work; their times are among the saved settings.
pub struct JobsConfig {
    /// The longest random delay of a job that asks many sites.
    pub jitter: Duration,
    pub probe_interval: Duration,
    pub probe_timeout: Duration,
    /// The number of models of one account that are probed at once.
    pub probe_concurrency: usize,
}

/// The result of reading: the configuration and warnings for the log, or every mistake at once.
pub type ConfigResult = Result<(Config, Vec<String>), Vec<String>>;

impl Config {
    /// Returns the secrets under which passwords in an imported document may be sealed: those given for imports, then
    /// this instance's present and previous ones.
    pub fn secrets_of_imports(&self) -> Vec<String> {
        let own = [&self.credential_secret, &self.auth_token];
        self.import_secrets.iter().chain(own).chain(&self.credential_secret_previous).cloned().collect()
    }
}

/// Reads the process environment over a `.env` file.
pub fn from_environment() -> ConfigResult {
    from_environment_over(&[])
}

/// Reads the process environment over a `.env` file, and both over other defaults than the usual ones.
pub fn from_environment_over(defaults: &[(&str, String)]) -> ConfigResult {
    let (file, mut errors) = match env_file::read(Path::new(".env")) {
        Ok(file) => (file, Vec::new()),
        Err(why) => (EnvFile::default(), vec![why]),
    };
    let EnvFile { mut values, warnings: of_file } = file;
    let mut unreadable = HashSet::new();
    for (name, value) in std::env::vars_os() {
        // All known names are text.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            // A blank variable means "default", so it does not hide a value of the file either.
            Ok(value) if value.trim().is_empty() => {}
            Ok(value) => drop(values.insert(name, value)),
            Err(_) => drop(unreadable.insert(name)),
        }
    }
    for (name, value) in defaults {
        values.entry((*name).to_owned()).or_insert_with(|| value.clone());
    }
    match read_beside(&values, &unreadable) {
        Ok((config, warnings)) if errors.is_empty() => Ok((config, [of_file, warnings].concat())),
        Ok(_) => Err(errors),
        Err(more) => {
            errors.extend(more);
            Err(errors)
        }
    }
}

/// Reads a configuration from names and values in place of the process environment.
#[cfg(test)]
pub fn read(values: &HashMap<String, String>) -> ConfigResult {
    read_beside(values, &HashSet::new())
}

/// Reads a configuration; the names in `unreadable` have values that are not text, which is a mistake if the name is
/// used.
fn read_beside(values: &HashMap<String, String>, unreadable: &HashSet<String>) -> ConfigResult {
    let mut vars = Vars::new(values, unreadable);

    let auth_token = vars.text("AUTH_TOKEN", PLACEHOLDER_AUTH_TOKEN);
    let proxy_token = vars.text("PROXY_TOKEN", PLACEHOLDER_PROXY_TOKEN);
    let chosen_secret = vars.optional("ACCOUNT_CREDENTIAL_SECRET");
    let (time_zone_name, time_zone) = vars.time_zone();
    let require_strong_tokens = vars.flag("REQUIRE_STRONG_TOKENS", false);
    if require_strong_tokens {
        vars.refuse_placeholder("AUTH_TOKEN", &auth_token, PLACEHOLDER_AUTH_TOKEN);
        vars.refuse_placeholder("PROXY_TOKEN", &proxy_token, PLACEHOLDER_PROXY_TOKEN);
    }

    let config = Config {
        host: vars.text("HOST", "0.0.0.0"),
        port: vars.port(),
        desktop_port: vars.desktop_port(),
        data_dir: PathBuf::from(vars.text("DATA_DIR", "./data")),
        log_level: vars.one_of("LOG_LEVEL", LOG_LEVELS),
        time_zone,
        time_zone_name,
        require_strong_tokens,
        credential_secret_weak: chosen_secret
            .as_ref()
            .is_none_or(|secret| *secret == auth_token || secret == PLACEHOLDER_AUTH_TOKEN),
        credential_secret: chosen_secret.unwrap_or_else(|| auth_token.clone()),
        credential_secret_previous: vars.list("ACCOUNT_CREDENTIAL_SECRET_PREVIOUS"),
        import_secrets: vars.list("IMPORT_CREDENTIAL_SECRET"),
        credential_secret_lost: vars.flag("CREDENTIAL_SECRET_LOST", false),
        auth_token,
        proxy_token,
        database: DatabaseConfig::read(&mut vars),
        admin_ip_allowlist: vars.networks("ADMIN_IP_ALLOWLIST", ""),
        trusted_proxies: vars.networks("TRUSTED_PROXIES", "127.0.0.0/8,::1"),
        cors_allowed_origins: vars.origins("CORS_ALLOWED_ORIGINS"),
        system_proxy_url: vars.outbound_proxy("SYSTEM_PROXY_URL"),
        connectivity_url: vars.web_address("CONNECTIVITY_TEST_URL", "https://www.gstatic.com/generate_204"),
        console_enabled: vars.flag("CONSOLE_ENABLED", true),
        tls: vars.tls_files(),
        extra_roots_file: vars.optional("SSL_CERT_FILE").map(PathBuf::from),
        max_connections: vars.integer("MAX_CONNECTIONS", 16_384, 1, 1_000_000) as usize,
        request_body_limit: vars.integer("REQUEST_BODY_LIMIT_BYTES", 20 << 20, 1 << 20, 1 << 40) as usize,
        request_body_memory: vars.integer("REQUEST_BODY_MEMORY_BYTES", 64 << 20, 1 << 20, 1 << 40) as usize,
        request_header_timeout: vars.seconds("REQUEST_HEADER_TIMEOUT_SEC", 60, 1),
        client_idle_timeout: vars.seconds("CLIENT_IDLE_TIMEOUT_SEC", 60, 1),
        shutdown_grace: vars.seconds("SHUTDOWN_GRACE_SEC", 30, 0),
        rate_limits: rate_limits(&mut vars),
        proxy: ProxyConfig::read(&mut vars),
        codex_user_agent: vars.header("CODEX_HEADER_DEFAULTS_USER_AGENT"),
        codex_beta_features: vars.header("CODEX_HEADER_DEFAULTS_BETA_FEATURES"),
        files: FileRules::read(&mut vars),
        backups: BackupRules::read(&mut vars),
        video_retention_days: vars.integer("PROXY_VIDEO_TASK_RETENTION_DAYS", 30, 0, 100_000) as u32,
        proxy_log_retention_days: vars.integer("PROXY_LOG_RETENTION_DAYS", 30, 0, 100_000) as u32,
        proxy_log_prune_interval: Duration::from_secs(
            60 * vars.integer("PROXY_LOG_RETENTION_PRUNE_INTERVAL_MINUTES", 30, 1, 100_000),
        ),
        metrics_max_series: vars.integer("METRICS_MAX_SERIES", 2_000, 0, 100_000) as usize,
        updates: UpdateSources::read(&mut vars),
        jobs: JobsConfig::read(&mut vars),
        oauth: OAuthConfig::read(&mut vars),
        runtime: runtime::from_variables(values, &mut vars.warnings),
    };
    vars.check_database(&config.database);
    vars.warn_of_unused();
    vars.refuse_unreadable(runtime::variables());
    if vars.errors.is_empty() { Ok((config, vars.warnings)) } else { Err(vars.errors) }
}

/// The values of `LOG_LEVEL`; the first is the default.
const LOG_LEVELS: &[(&str, LevelFilter)] = &[
    ("info", LevelFilter::Info),
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("debug", LevelFilter::Debug),
    ("trace", LevelFilter::Trace),
    ("off", LevelFilter::Off),
];

fn rate_limits(vars: &mut Vars<'_>) -> RateLimits {
    RateLimits {
        request_max: vars.integer("REQUEST_RATE_LIMIT_MAX", 12_000, 1, u32::MAX.into()) as u32,
        authenticated_max: vars.integer("AUTHENTICATED_RATE_LIMIT_MAX", 1_200, 1, u32::MAX.into()) as u32,
        window: vars.millis("REQUEST_RATE_LIMIT_WINDOW_MS", 60_000, 1_000),
    }
}

impl DatabaseConfig {
    fn read(vars: &mut Vars<'_>) -> Self {
        Self {
            kind: vars.one_of(
                "DB_TYPE",
                &[
                    ("sqlite", DatabaseKind::Sqlite),
                    ("mysql", DatabaseKind::MySql),
                    ("postgres", DatabaseKind::Postgres),
                    ("postgresql", DatabaseKind::Postgres),
                ],
            ),
            url: vars.text("DB_URL", ""),
            tls: DatabaseTls {
                is_required: vars.flag("DB_SSL", false),
                ca_file: vars.optional("DB_SSL_CA").map(Into::into),
                is_insecure: vars.flag("DB_SSL_INSECURE", false),
            },
            falls_back: vars.flag("DB_FALLBACK_TO_ENV", false),
            synchronous: vars.one_of(
                "SQLITE_SYNCHRONOUS",
                &[("full", Synchronous::Full), ("normal", Synchronous::Normal)],
            ),
        }
    }
}

impl ProxyConfig {
    fn read(vars: &mut Vars<'_>) -> Self {
        let session_lease_ttl = vars.millis("PROXY_SESSION_CHANNEL_LEASE_TTL_MS", 90_000, 5_000);
        Self {
            max_channel_attempts: vars.integer("PROXY_MAX_CHANNEL_ATTEMPTS", 3, 1, 1000) as u32,
            stream_idle_timeout: vars.seconds("PROXY_STREAM_IDLE_TIMEOUT_SEC", 300, 1),
            site_leases: vars.site_leases(),
            sticky_sessions: vars.flag("PROXY_STICKY_SESSION_ENABLED", true),
            sticky_session_ttl: vars.millis("PROXY_STICKY_SESSION_TTL_MS", 1_800_000, 30_000),
            session_lease_ttl,
            session_lease_keepalive: vars
                .millis("PROXY_SESSION_CHANNEL_LEASE_KEEPALIVE_MS", 15_000, 1_000)
                .min(session_lease_ttl / 2),
            failure_cooldown: vars.seconds("CHANNEL_FAILURE_COOLDOWN_SEC", 600, 1),
            tier_rules: vars.tier_rules(),
            codex_websocket_beta: vars
                .text("CODEX_RESPONSES_WEBSOCKET_BETA", "responses_websockets=2026-02-06"),
            codex_quota_model: vars.optional("CODEX_QUOTA_PROBE_MODEL"),
            max_request_parts: vars.integer("MAX_REQUEST_PARTS", 20_000, 100, 10_000_000) as usize,
            conversion_memory: vars.integer("CONVERSION_MEMORY_BYTES", 256 << 20, 1 << 20, 1 << 40) as usize,
        }
    }
}

impl BackupRules {
    fn read(vars: &mut Vars<'_>) -> Self {
        let cron = vars.optional("BACKUP_CRON").and_then(|text| {
            Cron::parse(&text)
                .map_err(|why| {
                    vars.errors.push(format!("BACKUP_CRON: `{text}` is not a cron expression: {why}"))
                })
                .ok()
        });
        Self {
            cron,
            keep: vars.integer("BACKUP_KEEP", 7, 1, 10_000) as usize,
            dir: vars.optional("BACKUP_DIR").map_or_else(
                || PathBuf::from(vars.text("DATA_DIR", "./data")).join("backups"),
                PathBuf::from,
            ),
            passphrase: vars.optional("BACKUP_PASSPHRASE"),
        }
    }
}

impl FileRules {
    fn read(vars: &mut Vars<'_>) -> Self {
        Self {
            upload_limit: vars.integer("FILE_UPLOAD_LIMIT_BYTES", 512 << 20, 1 << 20, 1 << 40),
            quota: vars.integer("PROXY_FILE_QUOTA_BYTES", 10 << 30, 0, 1 << 50),
            retention_days: vars.integer("PROXY_FILE_RETENTION_DAYS", 30, 0, 100_000) as u32,
            prune_interval: Duration::from_secs(
                60 * vars.integer("PROXY_FILE_RETENTION_PRUNE_INTERVAL_MINUTES", 60, 1, 100_000),
            ),
        }
    }
}

impl UpdateSources {
    fn read(vars: &mut Vars<'_>) -> Self {
        // Both are read, so that both count as known variables.
        let (token, alias) =
            (vars.text("DEPLOY_HELPER_TOKEN", ""), vars.text("UPDATE_CENTER_HELPER_TOKEN", ""));
        Self {
            release_repository: vars.text("UPDATE_CENTER_RELEASE_REPOSITORY", ""),
            releases_url: vars.web_address("UPDATE_CENTER_RELEASES_URL", "https://api.github.com"),
            tags_url: vars.web_address("UPDATE_CENTER_TAGS_URL", "https://hub.docker.com"),
            helper_token: if token.is_empty() { alias } else { token },
            helper_host: vars.address("DEPLOY_HELPER_HOST", IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            helper_port: vars.helper_port(),
            helper_releases: vars.list("DEPLOY_HELPER_RELEASES"),
        }
    }
}

impl JobsConfig {
    fn read(vars: &mut Vars<'_>) -> Self {
        Self {
            jitter: vars.millis("SCHEDULE_JITTER_MAX_MS", 30_000, 0),
            probe_interval: vars.millis("MODEL_AVAILABILITY_PROBE_INTERVAL_MS", 1_800_000, 60_000),
            probe_timeout: vars.millis("MODEL_AVAILABILITY_PROBE_TIMEOUT_MS", 15_000, 3_000),
            probe_concurrency: vars.integer("MODEL_AVAILABILITY_PROBE_CONCURRENCY", 1, 1, 16) as usize,
        }
    }
}

#[cfg(test)]
mod tests;
