//! The environment, read once at start (data.md B).
//!
//! Rules: a value is trimmed; unset or blank means the default; a number outside its range is
//! clamped, and what is no number means the default, each with a warning. Where guessing would open a
//! door or look in the wrong place (addresses, networks, the database), a value that cannot be read is an
//! error. All errors are collected, so that one start shows every mistake. A `.env` file in the working
//! directory is read first and never overrides the real environment. Names and defaults are the README's
//! table.

pub mod rule;
pub mod runtime;

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use jiff::tz::TimeZone;
use log::LevelFilter;

use crate::dialect::service_tier::TierRules;
use crate::limits::{LeaseRules, RateLimits};
use crate::routing::{BaseUrl, OutboundProxy};

/// The value of AUTH_TOKEN when nobody chose one. Works from loopback peers only (design §5).
pub const PLACEHOLDER_AUTH_TOKEN: &str = "change-me-admin-token";
/// The value of PROXY_TOKEN when nobody chose one. Works from loopback peers only (design §5).
pub const PLACEHOLDER_PROXY_TOKEN: &str = "change-me-proxy-sk-token";

/// What the environment says. Carries secrets, so it has no `Debug`.
pub struct Config {
    pub host: String,
    pub port: u16,
    pub data_dir: PathBuf,
    pub log_level: LevelFilter,
    pub time_zone: TimeZone,
    /// IANA name of `time_zone`, as shown to operators.
    pub time_zone_name: String,

    pub auth_token: String,
    pub proxy_token: String,
    /// Refuse to start while a token still has its built-in value.
    pub require_strong_tokens: bool,
    /// Seals stored credentials (data.md D).
    pub credential_secret: String,
    pub credential_secret_previous: Vec<String>,
    pub credential_secret_lost: bool,
    /// True when `credential_secret` is only the AUTH_TOKEN or a placeholder.
    pub credential_secret_weak: bool,

    pub database: DatabaseConfig,

    pub admin_ip_allowlist: Vec<IpNet>,
    pub trusted_proxies: Vec<IpNet>,
    pub cors_allowed_origins: Vec<String>,
    pub system_proxy_url: Option<String>,
    /// What the test of an outbound proxy asks for through it.
    pub connectivity_url: String,
    pub tls: Option<TlsFiles>,
    /// PEM file with roots trusted beside the built-in ones, for private upstreams.
    pub extra_roots_file: Option<PathBuf>,

    /// Open client connections at once; further ones wait in the kernel's queue.
    pub max_connections: usize,
    pub request_body_limit: usize,
    pub request_header_timeout: Duration,
    /// Longest silence while a request body is being read or a client is not taking its answer.
    pub client_idle_timeout: Duration,
    pub shutdown_grace: Duration,

    pub rate_limits: RateLimits,
    pub proxy: ProxyConfig,
    pub files: FileRules,
    pub proxy_log_retention_days: u32,
    pub proxy_log_prune_interval: Duration,
    pub jobs: JobsConfig,
    /// What the environment says of the settings an operator may save.
    pub runtime: runtime::Values,
}

/// What clients may upload, and how long it stays.
pub struct FileRules {
    /// Bytes of one upload, form and all.
    pub upload_limit: u64,
    /// Bytes of all files of one key; 0 is any number.
    pub quota: u64,
    /// 0 keeps them for ever.
    pub retention_days: u32,
    pub prune_interval: Duration,
}

/// Which database keeps the state.
pub struct DatabaseConfig {
    pub kind: DatabaseKind,
    /// Blank for SQLite means `switchyard.db` in the data directory.
    pub url: String,
    pub tls: bool,
    pub synchronous: Synchronous,
}

/// What an SQLite commit waits for (data.md J).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The disk: an answered change outlives a power cut.
    #[default]
    Full,
    /// The operating system: an answered change outlives the process, not a power cut.
    Normal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    Sqlite,
    MySql,
    Postgres,
}

/// Certificate and key for TLS towards clients, PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Defaults of what the proxy does; most can be overridden by saved settings.
pub struct ProxyConfig {
    pub max_channel_attempts: u32,
    /// Zero is off.
    pub first_byte_timeout: Duration,
    /// Longest silence between two chunks of an upstream answer.
    pub stream_idle_timeout: Duration,
    pub site_leases: LeaseRules,
    /// Whether a conversation stays on the channel that served it last, and how long after its last answer.
    pub sticky_sessions: bool,
    pub sticky_session_ttl: Duration,
    /// Of a session's slot on a channel: its life, and how often it is renewed; less than that.
    pub session_lease_ttl: Duration,
    pub session_lease_keepalive: Duration,
    pub failure_cooldown: Duration,
    pub failure_cooldown_max: Duration,
    pub error_keywords: Vec<String>,
    pub empty_content_fail: bool,
    pub tier_rules: TierRules,
    pub base_weight_factor: f64,
    pub value_score_factor: f64,
    pub cost_weight: f64,
    pub balance_weight: f64,
    pub usage_weight: f64,
    pub fallback_unit_cost: f64,
}

/// How jobs go about their work; when they do is among the saved settings.
pub struct JobsConfig {
    /// How much later than its time a job that asks many sites begins at most.
    pub jitter: Duration,
    pub probe_interval: Duration,
    pub probe_timeout: Duration,
    /// Models of one account probed at once.
    pub probe_concurrency: usize,
}

/// What reading gave: the configuration and remarks for the log, or every mistake at once.
pub type Reading = Result<(Config, Vec<String>), Vec<String>>;

/// Reads the process environment over a `.env` file.
pub fn from_environment() -> Reading {
    let mut values = std::fs::read_to_string(".env").map(|text| parse_env_file(&text)).unwrap_or_default();
    values.extend(std::env::vars_os().filter_map(|(name, value)| {
        // A blank variable means "default", so it does not hide a value of the file either.
        let value = value.into_string().ok().filter(|value| !value.trim().is_empty())?;
        Some((name.into_string().ok()?, value))
    }));
    read(&values)
}

/// Reads a configuration out of names and values; pure, so that tests can give any environment.
pub fn read(values: &HashMap<String, String>) -> Reading {
    let mut vars = Vars { values, errors: Vec::new(), warnings: Vec::new() };

    let auth_token = vars.text("AUTH_TOKEN", PLACEHOLDER_AUTH_TOKEN);
    let proxy_token = vars.text("PROXY_TOKEN", PLACEHOLDER_PROXY_TOKEN);
    let chosen_secret = vars.optional("ACCOUNT_CREDENTIAL_SECRET");
    let (time_zone_name, time_zone) = vars.time_zone();
    let require_strong_tokens = vars.flag("REQUIRE_STRONG_TOKENS", false);
    if require_strong_tokens {
        for (name, value, placeholder) in [
            ("AUTH_TOKEN", &auth_token, PLACEHOLDER_AUTH_TOKEN),
            ("PROXY_TOKEN", &proxy_token, PLACEHOLDER_PROXY_TOKEN),
        ] {
            if value == placeholder {
                vars.errors.push(format!(
                    "{name}: REQUIRE_STRONG_TOKENS is set, but {name} still has its built-in value; set it to a secret of your own"
                ));
            }
        }
    }

    let session_lease_ttl = vars.millis("PROXY_SESSION_CHANNEL_LEASE_TTL_MS", 90_000, 5_000);

    let config = Config {
        host: vars.text("HOST", "0.0.0.0"),
        port: vars.port(),
        data_dir: PathBuf::from(vars.text("DATA_DIR", "./data")),
        log_level: vars.one_of(
            "LOG_LEVEL",
            &[
                ("info", LevelFilter::Info),
                ("error", LevelFilter::Error),
                ("warn", LevelFilter::Warn),
                ("debug", LevelFilter::Debug),
                ("trace", LevelFilter::Trace),
                ("off", LevelFilter::Off),
            ],
        ),
        time_zone,
        time_zone_name,
        require_strong_tokens,
        credential_secret_weak: chosen_secret
            .as_ref()
            .is_none_or(|secret| *secret == auth_token || secret == PLACEHOLDER_AUTH_TOKEN),
        credential_secret: chosen_secret.unwrap_or_else(|| auth_token.clone()),
        credential_secret_previous: vars.list("ACCOUNT_CREDENTIAL_SECRET_PREVIOUS"),
        credential_secret_lost: vars.flag("CREDENTIAL_SECRET_LOST", false),
        auth_token,
        proxy_token,
        database: DatabaseConfig {
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
            tls: vars.flag("DB_SSL", false),
            synchronous: vars.one_of(
                "SQLITE_SYNCHRONOUS",
                &[("full", Synchronous::Full), ("normal", Synchronous::Normal)],
            ),
        },
        admin_ip_allowlist: vars.networks("ADMIN_IP_ALLOWLIST", ""),
        trusted_proxies: vars.networks("TRUSTED_PROXIES", "127.0.0.0/8,::1"),
        cors_allowed_origins: vars.list("CORS_ALLOWED_ORIGINS"),
        system_proxy_url: vars.outbound_proxy("SYSTEM_PROXY_URL"),
        connectivity_url: vars.web_address("CONNECTIVITY_TEST_URL", "https://www.gstatic.com/generate_204"),
        tls: vars.tls_files(),
        extra_roots_file: vars.optional("SSL_CERT_FILE").map(PathBuf::from),
        max_connections: vars.integer("MAX_CONNECTIONS", 16_384, 1, 1_000_000) as usize,
        request_body_limit: vars.integer("REQUEST_BODY_LIMIT_BYTES", 20 << 20, 1 << 20, 1 << 40) as usize,
        request_header_timeout: vars.seconds("REQUEST_HEADER_TIMEOUT_SEC", 60, 1),
        client_idle_timeout: vars.seconds("CLIENT_IDLE_TIMEOUT_SEC", 60, 1),
        shutdown_grace: vars.seconds("SHUTDOWN_GRACE_SEC", 30, 0),
        rate_limits: RateLimits {
            request_max: vars.integer("REQUEST_RATE_LIMIT_MAX", 12_000, 1, u32::MAX.into()) as u32,
            authenticated_max: vars.integer("AUTHENTICATED_RATE_LIMIT_MAX", 1_200, 1, u32::MAX.into()) as u32,
            window: vars.millis("REQUEST_RATE_LIMIT_WINDOW_MS", 60_000, 1_000),
        },
        proxy: ProxyConfig {
            max_channel_attempts: vars.integer("PROXY_MAX_CHANNEL_ATTEMPTS", 3, 1, 1000) as u32,
            first_byte_timeout: vars.seconds("PROXY_FIRST_BYTE_TIMEOUT_SEC", 0, 0),
            stream_idle_timeout: vars.seconds("PROXY_STREAM_IDLE_TIMEOUT_SEC", 300, 1),
            site_leases: vars.site_leases(),
            sticky_sessions: vars.flag("PROXY_STICKY_SESSION_ENABLED", true),
            sticky_session_ttl: vars.millis("PROXY_STICKY_SESSION_TTL_MS", 1_800_000, 30_000),
            session_lease_ttl,
            session_lease_keepalive: vars
                .millis("PROXY_SESSION_CHANNEL_LEASE_KEEPALIVE_MS", 15_000, 1_000)
                .min(session_lease_ttl / 2),
            failure_cooldown: vars.seconds("CHANNEL_FAILURE_COOLDOWN_SEC", 600, 1),
            failure_cooldown_max: vars.cooldown_cap(),
            error_keywords: vars.list("PROXY_ERROR_KEYWORDS"),
            empty_content_fail: vars.flag("PROXY_EMPTY_CONTENT_FAIL", false),
            tier_rules: vars.tier_rules(),
            base_weight_factor: vars.weight("BASE_WEIGHT_FACTOR", 0.5),
            value_score_factor: vars.weight("VALUE_SCORE_FACTOR", 0.5),
            cost_weight: vars.weight("COST_WEIGHT", 0.4),
            balance_weight: vars.weight("BALANCE_WEIGHT", 0.3),
            usage_weight: vars.weight("USAGE_WEIGHT", 0.3),
            fallback_unit_cost: vars.number("ROUTING_FALLBACK_UNIT_COST").unwrap_or(1.0).max(1e-6),
        },
        files: FileRules {
            upload_limit: vars.integer("FILE_UPLOAD_LIMIT_BYTES", 512 << 20, 1 << 20, 1 << 40),
            quota: vars.integer("PROXY_FILE_QUOTA_BYTES", 10 << 30, 0, 1 << 50),
            retention_days: vars.integer("PROXY_FILE_RETENTION_DAYS", 30, 0, 100_000) as u32,
            prune_interval: Duration::from_secs(
                60 * vars.integer("PROXY_FILE_RETENTION_PRUNE_INTERVAL_MINUTES", 60, 1, 100_000),
            ),
        },
        proxy_log_retention_days: vars.integer("PROXY_LOG_RETENTION_DAYS", 30, 0, 100_000) as u32,
        proxy_log_prune_interval: Duration::from_secs(
            60 * vars.integer("PROXY_LOG_RETENTION_PRUNE_INTERVAL_MINUTES", 30, 1, 100_000),
        ),
        jobs: JobsConfig {
            jitter: vars.millis("SCHEDULE_JITTER_MAX_MS", 30_000, 0),
            probe_interval: vars.millis("MODEL_AVAILABILITY_PROBE_INTERVAL_MS", 1_800_000, 60_000),
            probe_timeout: vars.millis("MODEL_AVAILABILITY_PROBE_TIMEOUT_MS", 15_000, 3_000),
            probe_concurrency: vars.integer("MODEL_AVAILABILITY_PROBE_CONCURRENCY", 1, 1, 16) as usize,
        },
        runtime: runtime::from_variables(values, &mut vars.warnings),
    };
    vars.check_database(&config.database);
    if vars.errors.is_empty() { Ok((config, vars.warnings)) } else { Err(vars.errors) }
}

/// The variables being read, with what was wrong about them so far.
struct Vars<'a> {
    values: &'a HashMap<String, String>,
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Vars<'_> {
    fn optional(&self, name: &str) -> Option<String> {
        let value = self.values.get(name)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.optional(name).unwrap_or_else(|| default.to_owned())
    }

    fn tier_rules(&mut self) -> TierRules {
        let names = ["OPENAI_SERVICE_TIER_RULES_JSON", "OPENAI_SERVICE_TIER_RULES"];
        let Some((name, text)) = names.into_iter().find_map(|name| Some((name, self.optional(name)?))) else {
            return TierRules::default();
        };
        let value = serde_json::from_str(&text).map_err(|error| error.to_string());
        value.and_then(|value| TierRules::read(&value)).unwrap_or_else(|why| {
            self.warnings.push(format!("{name} is ignored: {why}"));
            TierRules::default()
        })
    }

    fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name, "");
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.optional(name) else { return default };
        match value.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => {
                self.warnings.push(format!("{name}: `{value}` is neither true nor false, taken as false"));
                false
            }
        }
    }

    /// `None`: the default holds.
    fn number(&mut self, name: &str) -> Option<f64> {
        let value = self.optional(name)?;
        let number = value.parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.warnings.push(format!("{name}: `{value}` is not a number, the default holds"));
        }
        number
    }

    /// Decimal or exponent notation, truncated, clamped to the range.
    fn integer(&mut self, name: &str, default: u64, min: u64, max: u64) -> u64 {
        let Some(number) = self.number(name) else { return default };
        let clamped = number.trunc().clamp(min as f64, max as f64);
        if clamped != number.trunc() {
            self.warnings.push(format!("{name}: {number} is outside {min}..{max}, taken as {clamped}"));
        }
        clamped as u64
    }

    /// Slots of upstream sites: what is not valid means the default (routing.md 14).
    fn site_leases(&mut self) -> LeaseRules {
        let ttl = self.valid("PROXY_SITE_CONCURRENCY_LEASE_TTL_MS", 90_000, 5_000..=2_147_483_647);
        let keepalive = 15_000.min(ttl - 1);
        let keepalive = self.valid("PROXY_SITE_CONCURRENCY_LEASE_KEEPALIVE_MS", keepalive, 1_000..=ttl - 1);
        LeaseRules {
            queue_limit: self.valid("PROXY_SITE_CONCURRENCY_QUEUE_LIMIT", 100, 0..=10_000) as usize,
            queue_wait: Duration::from_millis(self.valid(
                "PROXY_SITE_CONCURRENCY_QUEUE_WAIT_MS",
                1_500,
                0..=600_000,
            )),
            ttl: Duration::from_millis(ttl),
            keepalive: Duration::from_millis(keepalive),
        }
    }

    /// A whole number of the range, else the default.
    fn valid(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.optional(name) else { return default };
        let whole = value.parse().ok().filter(|number: &f64| number.fract() == 0.0 && *number >= 0.0);
        if let Some(number) = whole.map(|number| number as u64).filter(|number| range.contains(number)) {
            return number;
        }
        let (from, to) = (range.start(), range.end());
        self.warnings
            .push(format!("{name}: `{value}` is no whole number from {from} to {to}, taken as {default}"));
        default
    }

    fn seconds(&mut self, name: &str, default: u64, min: u64) -> Duration {
        Duration::from_secs(self.integer(name, default, min, 365 * 86_400))
    }

    /// At most about 24 days.
    fn millis(&mut self, name: &str, default: u64, min: u64) -> Duration {
        Duration::from_millis(self.integer(name, default, min, i32::MAX as u64))
    }

    fn weight(&mut self, name: &str, default: f64) -> f64 {
        match self.number(name) {
            Some(number) if number < 0.0 => {
                self.warnings.push(format!("{name}: {number} is negative, the default holds"));
                default
            }
            Some(number) => number,
            None => default,
        }
    }

    fn port(&mut self) -> u16 {
        let Some(value) = self.optional("PORT") else { return 4000 };
        match value.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => {
                self.errors.push(format!("PORT: `{value}` is not a port; use a number from 1 to 65535"));
                4000
            }
        }
    }

    /// Ceiling of a computed cooldown; zero or less means the default of 30 days (routing.md 9.1).
    fn cooldown_cap(&mut self) -> Duration {
        const DEFAULT: f64 = 2_592_000.0;
        let seconds = self.number("TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC").unwrap_or(DEFAULT).trunc();
        Duration::from_secs(if seconds <= 0.0 { DEFAULT } else { seconds.min(DEFAULT) } as u64)
    }

    fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
        let default = choices[0].1;
        let Some(value) = self.optional(name) else { return default };
        let wanted = value.to_ascii_lowercase();
        if let Some((_, choice)) = choices.iter().find(|(text, _)| *text == wanted) {
            return *choice;
        }
        let known: Vec<&str> = choices.iter().map(|(text, _)| *text).collect();
        self.errors.push(format!("{name}: `{value}` is unknown; use one of {}", known.join(", ")));
        default
    }

    fn networks(&mut self, name: &str, default: &str) -> Vec<IpNet> {
        let text = self.text(name, default);
        let mut networks = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match parse_network(entry) {
                Some(network) => networks.push(network),
                None => {
                    self.errors.push(format!("{name}: `{entry}` is neither an IP address nor a CIDR network"))
                }
            }
        }
        networks
    }

    /// The address of a proxy. It may hold a password, so no message repeats it.
    fn web_address(&mut self, name: &str, default: &str) -> String {
        let url = self.text(name, default);
        if let Err(why) = BaseUrl::parse(&url, None) {
            self.errors.push(format!("{name}: {why}"));
        }
        url
    }

    fn outbound_proxy(&mut self, name: &str) -> Option<String> {
        let url = self.optional(name)?;
        if let Err(why) = OutboundProxy::parse(&url) {
            self.errors.push(format!("{name}: not the address of a proxy: {why}"));
        }
        Some(url)
    }

    /// A server's address without its DB_TYPE would make a file of that name, password included.
    fn check_database(&mut self, database: &DatabaseConfig) {
        let scheme = database.url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let names_a_server = scheme.is_some_and(|scheme| scheme != "sqlite" && scheme != "file");
        if database.kind == DatabaseKind::Sqlite && names_a_server {
            self.errors.push("DB_URL: names a database server, but DB_TYPE is sqlite".to_owned());
        }
    }

    fn time_zone(&mut self) -> (String, TimeZone) {
        const DEFAULT: &str = "Asia/Shanghai";
        let name = self.text("TZ", DEFAULT);
        if let Ok(zone) = TimeZone::get(&name) {
            return (name, zone);
        }
        self.warnings.push(format!("TZ: `{name}` is not a known time zone, using {DEFAULT}"));
        (DEFAULT.to_owned(), TimeZone::get(DEFAULT).unwrap_or(TimeZone::UTC))
    }

    fn tls_files(&mut self) -> Option<TlsFiles> {
        match (self.optional("TLS_CERT_FILE"), self.optional("TLS_KEY_FILE")) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: certificate.into(), key: key.into() })
            }
            (None, None) => None,
            (Some(_), None) => {
                self.errors.push("TLS_KEY_FILE: needed beside TLS_CERT_FILE".to_owned());
                None
            }
            (None, Some(_)) => {
                self.errors.push("TLS_CERT_FILE: needed beside TLS_KEY_FILE".to_owned());
                None
            }
        }
    }
}

/// An address or a network; a mapped IPv4 address counts as IPv4.
pub fn parse_network(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(IpNet::from(address.to_canonical()));
    }
    text.parse::<IpNet>().ok()
}

/// `NAME=value` lines; `#` comments, an optional `export `, and one pair of quotes are understood. A
/// comment may also follow a value, behind a blank.
fn parse_env_file(text: &str) -> HashMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), env_file_value(value.trim()).to_owned()))
        .collect()
}

fn env_file_value(text: &str) -> &str {
    let starts_comment = |rest: &str| rest.is_empty() || rest.trim_start().starts_with('#');
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let (value, rest) = text.strip_prefix(quote)?.split_once(quote)?;
        starts_comment(rest).then_some(value)
    });
    quoted.unwrap_or_else(|| match text.find(" #").or_else(|| text.find("\t#")) {
        Some(comment) => text[..comment].trim_end(),
        None => text,
    })
}

#[cfg(test)]
mod tests;
