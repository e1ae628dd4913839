//! What an operator saved, over what the environment says (data.md C).
//!
//! One immutable value behind an atomic pointer: a saved change makes a new one, and every request
//! sees either the old or the new whole. Reading is tolerant: a row of the wrong type is ignored and
//! the default stays.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use crate::config::{self, Config, PLACEHOLDER_AUTH_TOKEN, PLACEHOLDER_PROXY_TOKEN};
use crate::dialect::judge;
use crate::routing::Weights;
use crate::routing::failure::Cooldown;
use crate::time::Millis;

/// Settings in force. Carries secrets, so it has no `Debug`.
pub struct Settings {
    pub auth_token: String,
    pub proxy_token: String,
    pub admin_ip_allowlist: AllowList,
    pub system_proxy_url: Option<String>,
    pub weights: Weights,
    /// How long a channel at fault is left alone (routing.md 9.1).
    pub cooldown: Cooldown,
    /// Zero is off.
    pub first_byte_timeout: Duration,
    pub judge: judge::Rules,
    /// `globalAllowedModels`; empty allows all.
    pub allowed_models: Vec<String>,
}

/// Who may use the admin interface. A list whose entries are all unreadable admits nobody.
#[derive(Clone, Default)]
pub struct AllowList {
    active: bool,
    networks: Vec<IpNet>,
}

impl AllowList {
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self { active: !networks.is_empty(), networks }
    }

    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let holds = |address| crate::http::address::is_in(address, &self.networks);
        // `::1` and 127.0.0.1 are one (admin-core.md 2.2).
        let (v4, v6) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
        !self.active || holds(address) || (address == v6 && holds(v4)) || (address == v4 && holds(v6))
    }
}

impl Settings {
    /// Saved rows (name to JSON text, secrets opened) over the configuration.
    pub fn new(config: &Config, saved: &HashMap<String, String>) -> Self {
        let saved = Saved(saved);
        let defaults = &config.proxy;
        let cap = saved
            .number("token_router_failure_cooldown_max_sec")
            .filter(|seconds| *seconds >= 1.0)
            .map_or(defaults.failure_cooldown_max, Duration::from_secs_f64)
            .min(Duration::from_secs(2_592_000));
        let keywords = saved.texts("proxy_error_keywords").unwrap_or_else(|| defaults.error_keywords.clone());
        Self {
            auth_token: saved.secret("auth_token").unwrap_or_else(|| config.auth_token.clone()),
            proxy_token: saved.secret("proxy_token").unwrap_or_else(|| config.proxy_token.clone()),
            admin_ip_allowlist: match saved.texts("admin_ip_allowlist") {
                None => AllowList::new(config.admin_ip_allowlist.clone()),
                Some(entries) => AllowList {
                    active: !entries.is_empty(),
                    networks: entries.iter().filter_map(|entry| config::parse_network(entry)).collect(),
                },
            },
            system_proxy_url: match saved.value("system_proxy_url") {
                Some(Value::String(url)) => Some(url).filter(|url| !url.trim().is_empty()),
                _ => config.system_proxy_url.clone(),
            },
            weights: Weights {
                base_weight_factor: saved.weight("baseWeightFactor", defaults.base_weight_factor),
                value_score_factor: saved.weight("valueScoreFactor", defaults.value_score_factor),
                cost_weight: saved.weight("costWeight", defaults.cost_weight),
                balance_weight: saved.weight("balanceWeight", defaults.balance_weight),
                usage_weight: saved.weight("usageWeight", defaults.usage_weight),
                fallback_unit_cost: saved
                    .number("routing_fallback_unit_cost")
                    .filter(|cost| *cost > 0.0)
                    .unwrap_or(defaults.fallback_unit_cost)
                    .max(1e-6),
            },
            cooldown: Cooldown { base_ms: millis(defaults.failure_cooldown), max_ms: millis(cap) },
            first_byte_timeout: saved
                .number("proxy_first_byte_timeout_sec")
                .filter(|seconds| *seconds >= 0.0)
                .map_or(defaults.first_byte_timeout, |seconds| Duration::from_secs(seconds as u64)),
            judge: judge::Rules::new(
                keywords.iter().map(String::as_str),
                match saved.value("proxy_empty_content_fail_enabled") {
                    Some(Value::Bool(enabled)) => enabled,
                    _ => defaults.empty_content_fail,
                },
            ),
            allowed_models: saved.texts("global_allowed_models").unwrap_or_default(),
        }
    }

    pub fn uses_placeholder_auth_token(&self) -> bool {
        self.auth_token == PLACEHOLDER_AUTH_TOKEN
    }

    pub fn uses_placeholder_proxy_token(&self) -> bool {
        self.proxy_token == PLACEHOLDER_PROXY_TOKEN
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// Saved rows, read tolerantly.
struct Saved<'a>(&'a HashMap<String, String>);

impl Saved<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.0.get(name)?).ok()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.as_f64().filter(|number| number.is_finite() && number.abs() < 1e15)
    }

    fn secret(&self, name: &str) -> Option<String> {
        self.value(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A list of texts: a JSON array, or one text split at commas and line ends.
    fn texts(&self, name: &str) -> Option<Vec<String>> {
        let entries: Vec<String> = match self.value(name)? {
            Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
            Value::String(text) => text.split([',', '\n']).map(str::to_owned).collect(),
            _ => return None,
        };
        Some(entries.iter().map(|entry| entry.trim().to_owned()).filter(|entry| !entry.is_empty()).collect())
    }

    fn weight(&self, member: &str, default: f64) -> f64 {
        self.value("routing_weights")
            .and_then(|weights| weights.get(member)?.as_f64())
            .filter(|weight| *weight >= 0.0)
            .unwrap_or(default)
    }
}
