//! The settings in force: an operator's saved values over those of the environment.
//!
//! They are one immutable value behind an atomic pointer: a saved change makes a new one, and every request sees either
//! the old or the new one as a whole. Reading is tolerant: a row of the wrong type is ignored and the default stays.

pub mod update_center;
mod webdav;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use ipnet::IpNet;
use serde_json::Value;

use crate::config::runtime::Values;
use crate::config::{Config, PLACEHOLDER_AUTH_TOKEN, PLACEHOLDER_PROXY_TOKEN};
use crate::cron::Cron;
use crate::dialect::judge;
use crate::dialect::payload_rules::PayloadRules;
use crate::limits::{LeaseRules, SessionRules};
use crate::networks;
use crate::routing::brands::BlockedBrands;
use crate::routing::failure::Cooldown;
use crate::routing::{OutboundProxy, Weights};
use crate::time::{Millis, millis};
pub use webdav::{WEBDAV_KEY, WebDav, is_password_mask, mask_password};

/// The settings that replace the retention of the configuration as soon as one of them is saved.
pub const LOG_CLEANUP_KEYS: [&str; 4] = [
    "log_cleanup_cron",
    "log_cleanup_usage_logs_enabled",
    "log_cleanup_program_logs_enabled",
    "log_cleanup_retention_days",
];

/// A member of a configuration that cannot be used.
pub struct UnusableMember {
    pub name: &'static str,
    pub expected: String,
}

/// Settings in force. Carries secrets, so it has no `Debug`.
pub struct Settings {
    /// All runtime settings; the fields below are what requests read of them.
    pub values: Values,
    pub auth_token: String,
    pub proxy_token: String,
    pub admin_ip_allowlist: AllowList,
    pub system_proxy_url: Option<String>,
    pub weights: Weights,
    /// The rules for how long a failing channel cools down.
    pub cooldown: Cooldown,
    /// The time that a cooling channel must rest before it may be tried as a last resort, in milliseconds; `None` for
    /// never.
    pub last_resort: Option<Millis>,
    /// The usage of an account's limit, in percent, from which other accounts are preferred; `None` for never.
    pub limit_avoid: Option<f64>,
    /// Zero means off.
    pub first_byte_timeout: Duration,
    pub heartbeats: Heartbeats,
    pub judge: judge::Rules,
    /// `responsesCompactFallbackToResponsesEnabled`: whether an upstream that cannot compact is asked for a response
    /// instead.
    pub compact_fallback: bool,
    /// The payload rules; `None` if there are none.
    pub payload_rules: Option<PayloadRules>,
    /// `disableCrossProtocolFallback`: whether only the first dialect of a site is tried.
    pub single_dialect: bool,
    /// `codexUpstreamWebsocketEnabled`: whether Codex is reached over WebSockets.
    pub codex_websocket: bool,
    pub codex_headers: CodexHeaders,
    /// `echoRequestedModel`: whether responses name the model as the client did, not as the upstream does.
    pub echo_model: bool,
    /// The time after its last response for which a conversation stays on its channel; `None` means not at all.
    pub sticky_ttl: Option<Duration>,
    pub session_leases: SessionRules,
    /// `globalAllowedModels`; an empty list allows all.
    pub allowed_models: Vec<String>,
    pub blocked_brands: BlockedBrands,
    pub log_cleanup: LogCleanup,
    /// The WebDAV configuration; `None` if it was never set.
    pub webdav: Option<WebDav>,
    /// The rules for which requests are recorded in full; `None` if none are.
    pub trace: Option<Arc<TraceRules>>,
}

/// The times at which a silent stream gets a heartbeat, so that no intermediary closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats {
    /// The time after the request if no part of a response has come; `None` for never.
    pub first: Option<Duration>,
    /// The time after the last output to the client, once there is output; `None` for never.
    pub pause: Option<Duration>,
}

/// `codexHeaderDefaults`: the operator's header values for Codex; `None` for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodexHeaders {
    /// The user agent sent in place of the client's.
    pub user_agent: Option<HeaderValue>,
    /// The beta features sent on WebSockets if the client names none.
    pub beta_features: Option<HeaderValue>,
}

/// The rules for which requests are recorded, and how much of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRules {
    pub headers: bool,
    pub bodies: bool,
    /// Whether streamed responses are recorded, which `bodies` does not cover.
    pub stream_chunks: bool,
    /// Maximum recorded length of each body, in bytes.
    pub max_body_bytes: usize,
    /// Only this session is recorded; a blank target matches everything.
    target_session: String,
    target_client: String,
    target_model: String,
}

/// When old logs are deleted. Once an operator saves any of these settings, the schedule replaces the retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogCleanup {
    /// Nothing was ever saved: the proxy log is pruned at intervals.
    Retention { days: u32 },
    /// The operator's saved schedule.
    Scheduled { cron: Cron, usage: bool, program: bool, days: u32 },
}

/// The addresses that may use the admin API: all where no list is set. A list whose entries are all unreadable admits nobody.
#[derive(Clone, Default)]
pub struct AllowList(Option<Vec<IpNet>>);

impl UnusableMember {
    fn new(name: &'static str, expected: impl Into<String>) -> Self {
        Self { name, expected: expected.into() }
    }
}

impl AllowList {
    /// Builds the list from saved entries. An unreadable entry admits nobody.
    pub fn of(entries: &[String]) -> Self {
        let networks = || entries.iter().filter_map(|entry| networks::parse(entry)).collect();
        Self((!entries.is_empty()).then(networks))
    }

    /// Whether the address is in the list, or no list is set.
    pub fn admits(&self, address: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|networks| networks::contain(networks, address))
    }
}

impl CodexHeaders {
    fn of(values: &Values) -> Self {
        let header = |member: &str| {
            let text = values.get("codex_header_defaults").get(member)?.as_str()?;
            HeaderValue::from_str(text).ok().filter(|value| !value.is_empty())
        };
        Self { user_agent: header("userAgent"), beta_features: header("betaFeatures") }
    }
}

impl TraceRules {
    fn of(values: &Values) -> Self {
        Self {
            headers: values.flag("proxy_debug_capture_headers"),
            bodies: values.flag("proxy_debug_capture_bodies"),
            stream_chunks: values.flag("proxy_debug_capture_stream_chunks"),
            max_body_bytes: values.count("proxy_debug_max_body_bytes") as usize,
            target_session: values.text("proxy_debug_target_session_id").to_owned(),
            target_client: values.text("proxy_debug_target_client_kind").to_owned(),
            target_model: values.text("proxy_debug_target_model").to_owned(),
        }
    }

    /// Whether a request is recorded: it must match every target that is set, the session exactly.
    pub fn wants(&self, model: &str, client: Option<&str>, session: Option<&str>) -> bool {
        let meets = |target: &str, found: Option<&str>| {
            target.is_empty() || found.is_some_and(|found| found.to_lowercase() == target.to_lowercase())
        };
        meets(&self.target_model, Some(model))
            && meets(&self.target_client, client)
            && (self.target_session.is_empty() || session == Some(self.target_session.as_str()))
    }
}

impl LogCleanup {
    /// Reads the schedule's settings. While none of them is saved, `values` shows the retention in their place.
    fn of(config: &Config, saved: &HashMap<String, String>, values: &mut Values) -> Self {
        let is_saved = LOG_CLEANUP_KEYS.iter().any(|key| saved.contains_key(*key));
        let days = config.proxy_log_retention_days;
        if !is_saved {
            if days > 0 {
                values.set("log_cleanup_usage_logs_enabled", true.into());
                values.set("log_cleanup_program_logs_enabled", false.into());
                values.set("log_cleanup_retention_days", days.into());
            }
            return Self::Retention { days };
        }
        match Cron::parse(values.text("log_cleanup_cron")) {
            Ok(cron) => Self::Scheduled {
                cron,
                usage: values.flag("log_cleanup_usage_logs_enabled"),
                program: values.flag("log_cleanup_program_logs_enabled"),
                days: u32::try_from(values.count("log_cleanup_retention_days")).unwrap_or(u32::MAX),
            },
            // Saved and sent schedules are checked, so this one is from the environment.
            Err(_) => Self::Retention { days },
        }
    }
}

/// Logs saved values that are unusable and lock the gateway until they are corrected, which nobody would notice
/// otherwise.
fn warn_of_unusable(values: &Values) {
    for entry in values.texts("admin_ip_allowlist") {
        if networks::parse(&entry).is_none() {
            log::warn!(
                "admin_ip_allowlist: `{entry}` is neither an IP address nor a network and admits nobody: \
                 correct or remove it"
            );
        }
    }
    let proxy = values.text("system_proxy_url");
    if !proxy.is_empty()
        && let Err(why) = OutboundProxy::parse(proxy)
    {
        log::warn!("system_proxy_url is invalid, so requests through the system proxy fail: {why}");
    }
}

impl Settings {
    /// Builds the settings from saved rows (name to JSON text, secrets opened) over the configuration.
    pub fn new(config: &Config, saved: &HashMap<String, String>) -> Self {
        let mut values = Values::new(config, saved);
        warn_of_unusable(&values);
        let log_cleanup = LogCleanup::of(config, saved, &mut values);
        let secret = |name: &str, default: &str| -> String {
            let saved = saved.get(name).and_then(|text| serde_json::from_str::<String>(text).ok());
            let saved = saved.as_deref().map(str::trim).filter(|text| !text.is_empty());
            saved.unwrap_or(default).to_owned()
        };
        let keywords = values.texts("proxy_error_keywords");
        let weight =
            |name: &str| values.get("routing_weights").get(name).and_then(Value::as_f64).unwrap_or(0.0);
        // Zero seconds means never.
        let some_seconds =
            |name: &str| Some(values.count(name)).filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Self {
            auth_token: secret("auth_token", &config.auth_token),
            proxy_token: secret("proxy_token", &config.proxy_token),
            admin_ip_allowlist: AllowList::of(&values.texts("admin_ip_allowlist")),
            system_proxy_url: Some(values.text("system_proxy_url").to_owned()).filter(|url| !url.is_empty()),
            weights: Weights {
                base_weight_factor: weight("baseWeightFactor"),
                value_score_factor: weight("valueScoreFactor"),
                cost_weight: weight("costWeight"),
                balance_weight: weight("balanceWeight"),
                usage_weight: weight("usageWeight"),
                fallback_unit_cost: values.number("routing_fallback_unit_cost"),
            },
            cooldown: Cooldown {
                base_ms: millis(config.proxy.failure_cooldown),
                max_ms: millis(Duration::from_secs(values.count("token_router_failure_cooldown_max_sec"))),
            },
            last_resort: some_seconds("cooldown_last_resort_sec").map(millis),
            limit_avoid: Some(values.count("account_limit_avoid_percent"))
                .filter(|percent| *percent > 0)
                .map(|percent| percent as f64),
            heartbeats: Heartbeats {
                first: some_seconds("stream_first_heartbeat_sec"),
                pause: some_seconds("stream_heartbeat_sec"),
            },
            first_byte_timeout: Duration::from_secs(values.count("proxy_first_byte_timeout_sec")),
            judge: judge::Rules::new(
                keywords.iter().map(String::as_str),
                values.flag("proxy_empty_content_fail_enabled"),
            ),
            compact_fallback: values.flag("responses_compact_fallback_to_responses_enabled"),
            payload_rules: PayloadRules::compile(values.get("payload_rules")),
            sticky_ttl: config.proxy.sticky_sessions.then_some(config.proxy.sticky_session_ttl),
            session_leases: SessionRules {
                limit: usize::try_from(values.count("proxy_session_channel_concurrency_limit"))
                    .unwrap_or(usize::MAX),
                lease: LeaseRules {
                    queue_limit: usize::MAX,
                    queue_wait: Duration::from_millis(values.count("proxy_session_channel_queue_wait_ms")),
                    ttl: config.proxy.session_lease_ttl,
                    keepalive: config.proxy.session_lease_keepalive,
                },
            },
            allowed_models: values.texts("global_allowed_models"),
            blocked_brands: BlockedBrands::of(&values.texts("global_blocked_brands")),
            single_dialect: values.flag("disable_cross_protocol_fallback"),
            codex_websocket: values.flag("codex_upstream_websocket_enabled"),
            codex_headers: CodexHeaders::of(&values),
            echo_model: values.flag("echo_requested_model"),
            log_cleanup,
            webdav: WebDav::of(saved),
            trace: values.flag("proxy_debug_trace_enabled").then(|| Arc::new(TraceRules::of(&values))),
            values,
        }
    }

    /// Whether nobody has chosen an admin token yet.
    pub fn uses_placeholder_auth_token(&self) -> bool {
        self.auth_token == PLACEHOLDER_AUTH_TOKEN
    }

    /// Whether nobody has chosen a proxy token yet.
    pub fn uses_placeholder_proxy_token(&self) -> bool {
        self.proxy_token == PLACEHOLDER_PROXY_TOKEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_instance_weighs_by_the_defaults_of_routing() {
        let (config, _) = crate::config::read(&HashMap::new()).expect("defaults");
        assert_eq!(Settings::new(&config, &HashMap::new()).weights, Weights::default());
    }
}
