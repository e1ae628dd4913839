//! The runtime settings: the environment sets their defaults, and an operator may save other values.
//!
//! One table gives for each setting its name on the wire, its name in the store, the source of its default and the rule
//! of its values. Everything else follows from the table: reading variables, stored rows and requests, and the response
//! of `GET /api/settings/runtime`.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Config;
use super::rule::{BOT_API, Rule, WEIGHTS};

/// A runtime setting.
pub struct Setting {
    /// Its field in requests and responses.
    pub field: &'static str,
    /// Another name under which clients may send it.
    pub alias: Option<&'static str>,
    /// Its row in the store; backups carry these names.
    pub key: &'static str,
    pub rule: Rule,
    default: Default,
}

/// The source of the value while nothing is saved.
enum Default {
    /// The first of these variables that is set, else this value.
    Variables(&'static [&'static str], fn() -> Value),
    /// An object: for each member its name, its variable and its default number.
    Members(&'static [(&'static str, &'static str, f64)]),
    /// A value that the configuration has already read, where a mistake stops the start.
    Config(fn(&Config) -> Value),
}

/// The values in force, by the settings' names in the store. Carries secrets, so it has no `Debug`.
#[derive(Clone)]
pub struct Values(HashMap<&'static str, Value>);

const fn setting(
    field: &'static str,
    key: &'static str,
    rule: Rule,
    variables: &'static [&'static str],
    default: fn() -> Value,
) -> Setting {
    Setting { field, alias: None, key, rule, default: Default::Variables(variables, default) }
}

const fn members(
    field: &'static str,
    key: &'static str,
    rule: Rule,
    members: &'static [(&'static str, &'static str, f64)],
) -> Setting {
    Setting { field, alias: None, key, rule, default: Default::Members(members) }
}

const fn configured(
    field: &'static str,
    key: &'static str,
    rule: Rule,
    default: fn(&Config) -> Value,
) -> Setting {
    Setting { field, alias: None, key, rule, default: Default::Config(default) }
}

impl Setting {
    const fn or(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }
}

const NONE: fn() -> Value = || json!("");
const OFF: fn() -> Value = || json!(false);
const ON: fn() -> Value = || json!(true);
const COUNT: i64 = i64::MAX;

/// All runtime settings, in the order in which responses list them.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    setting("checkinCron", "checkin_cron", Rule::Schedule, &["CHECKIN_CRON"], || json!("0 8 * * *")),
    setting("checkinScheduleMode", "checkin_schedule_mode", Rule::Choice(&["cron", "interval"]), &["CHECKIN_SCHEDULE_MODE"], || json!("cron")),
    setting("checkinIntervalHours", "checkin_interval_hours", Rule::Integer(1, 24), &["CHECKIN_INTERVAL_HOURS"], || json!(6)),
    setting("balanceRefreshCron", "balance_refresh_cron", Rule::Schedule, &["BALANCE_REFRESH_CRON"], || json!("0 * * * *")),
    setting("lowBalanceThreshold", "low_balance_threshold", Rule::Amount, &["LOW_BALANCE_THRESHOLD"], || json!(0)),
    setting("dailySummaryCron", "daily_summary_cron", Rule::ScheduleOrOff, &["DAILY_SUMMARY_CRON"], || json!("58 23 * * *")),
    setting("logCleanupCron", "log_cleanup_cron", Rule::Schedule, &["LOG_CLEANUP_CRON"], || json!("0 6 * * *")),
    setting("logCleanupUsageLogsEnabled", "log_cleanup_usage_logs_enabled", Rule::Flag, &["LOG_CLEANUP_USAGE_LOGS_ENABLED"], OFF),
    setting("logCleanupProgramLogsEnabled", "log_cleanup_program_logs_enabled", Rule::Flag, &["LOG_CLEANUP_PROGRAM_LOGS_ENABLED"], OFF),
    setting("logCleanupRetentionDays", "log_cleanup_retention_days", Rule::Integer(1, 100_000), &["LOG_CLEANUP_RETENTION_DAYS"], || json!(30)),
    setting("modelAvailabilityProbeEnabled", "model_availability_probe_enabled", Rule::Flag, &["MODEL_AVAILABILITY_PROBE_ENABLED"], OFF),
    setting("channelRecoveryProbeEnabled", "channel_recovery_probe_enabled", Rule::Flag, &["CHANNEL_RECOVERY_PROBE_ENABLED"], OFF),
    setting("codexUpstreamWebsocketEnabled", "codex_upstream_websocket_enabled", Rule::Flag, &["CODEX_UPSTREAM_WEBSOCKET_ENABLED"], OFF),
    configured("codexHeaderDefaults", "codex_header_defaults", Rule::CodexHeaders, |config| json!({"userAgent": config.codex_user_agent, "betaFeatures": config.codex_beta_features})),
    setting("responsesCompactFallbackToResponsesEnabled", "responses_compact_fallback_to_responses_enabled", Rule::Flag, &["RESPONSES_COMPACT_FALLBACK_TO_RESPONSES_ENABLED"], OFF),
    setting("disableCrossProtocolFallback", "disable_cross_protocol_fallback", Rule::Flag, &["DISABLE_CROSS_PROTOCOL_FALLBACK"], OFF),
    setting("echoRequestedModel", "echo_requested_model", Rule::Flag, &["ECHO_REQUESTED_MODEL"], OFF),
    setting("proxySessionChannelConcurrencyLimit", "proxy_session_channel_concurrency_limit", Rule::Integer(0, COUNT), &["PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT"], || json!(2)),
    setting("proxySessionChannelQueueWaitMs", "proxy_session_channel_queue_wait_ms", Rule::Integer(0, COUNT), &["PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS"], || json!(1500)),
    setting("proxyDebugTraceEnabled", "proxy_debug_trace_enabled", Rule::Flag, &["PROXY_DEBUG_TRACE_ENABLED"], OFF),
    setting("proxyDebugCaptureHeaders", "proxy_debug_capture_headers", Rule::Flag, &["PROXY_DEBUG_CAPTURE_HEADERS"], ON),
    setting("proxyDebugCaptureBodies", "proxy_debug_capture_bodies", Rule::Flag, &["PROXY_DEBUG_CAPTURE_BODIES"], OFF),
    setting("proxyDebugCaptureStreamChunks", "proxy_debug_capture_stream_chunks", Rule::Flag, &["PROXY_DEBUG_CAPTURE_STREAM_CHUNKS"], OFF),
    setting("proxyDebugTargetSessionId", "proxy_debug_target_session_id", Rule::Text, &["PROXY_DEBUG_TARGET_SESSION_ID"], NONE),
    setting("proxyDebugTargetClientKind", "proxy_debug_target_client_kind", Rule::Text, &["PROXY_DEBUG_TARGET_CLIENT_KIND"], NONE),
    setting("proxyDebugTargetModel", "proxy_debug_target_model", Rule::Text, &["PROXY_DEBUG_TARGET_MODEL"], NONE),
    setting("proxyDebugRetentionHours", "proxy_debug_retention_hours", Rule::Integer(1, 1_000_000), &["PROXY_DEBUG_RETENTION_HOURS"], || json!(24)),
    setting("proxyDebugMaxBodyBytes", "proxy_debug_max_body_bytes", Rule::Integer(1024, 1 << 30), &["PROXY_DEBUG_MAX_BODY_BYTES"], || json!(262_144)),
    setting("routingFallbackUnitCost", "routing_fallback_unit_cost", Rule::UnitCost, &["ROUTING_FALLBACK_UNIT_COST"], || json!(1)),
    setting("proxyFirstByteTimeoutSec", "proxy_first_byte_timeout_sec", Rule::Integer(0, 31_536_000), &["PROXY_FIRST_BYTE_TIMEOUT_SEC"], || json!(0)),
    setting("tokenRouterFailureCooldownMaxSec", "token_router_failure_cooldown_max_sec", Rule::CooldownCap, &["TOKEN_ROUTER_FAILURE_COOLDOWN_MAX_SEC"], || json!(2_592_000)),
    setting("cooldownLastResortSec", "cooldown_last_resort_sec", Rule::Integer(0, 31_536_000), &["COOLDOWN_LAST_RESORT_SEC"], || json!(30)),
    setting("accountLimitAvoidPercent", "account_limit_avoid_percent", Rule::Integer(0, 100), &["ACCOUNT_LIMIT_AVOID_PERCENT"], || json!(95)),
    setting("streamHeartbeatSec", "stream_heartbeat_sec", Rule::Integer(0, 31_536_000), &["STREAM_HEARTBEAT_SEC"], || json!(15)),
    setting("streamFirstHeartbeatSec", "stream_first_heartbeat_sec", Rule::Integer(0, 31_536_000), &["STREAM_FIRST_HEARTBEAT_SEC"], || json!(45)),
    members("routingWeights", "routing_weights", Rule::Weights, WEIGHTS),
    setting("proxyErrorKeywords", "proxy_error_keywords", Rule::Words, &["PROXY_ERROR_KEYWORDS"], || json!([])),
    setting("proxyEmptyContentFailEnabled", "proxy_empty_content_fail_enabled", Rule::Flag, &["PROXY_EMPTY_CONTENT_FAIL"], OFF),
    setting("globalBlockedBrands", "global_blocked_brands", Rule::List, &[], || json!([])),
    setting("globalAllowedModels", "global_allowed_models", Rule::List, &[], || json!([])),
    configured("systemProxyUrl", "system_proxy_url", Rule::Proxy, |config| json!(config.system_proxy_url.as_deref().unwrap_or_default())),
    setting("payloadRules", "payload_rules", Rule::PayloadRules, &["PAYLOAD_RULES_JSON", "PAYLOAD_RULES"], || json!({"default": [], "defaultRaw": [], "override": [], "overrideRaw": [], "filter": []})),
    configured("adminIpAllowlist", "admin_ip_allowlist", Rule::Networks, admin_ip_allowlist),
    configured("proxyToken", "proxy_token", Rule::ProxyToken, |config| json!(config.proxy_token)),
    setting("webhookEnabled", "webhook_enabled", Rule::Flag, &["WEBHOOK_ENABLED"], ON),
    setting("webhookUrl", "webhook_url", Rule::Target, &["WEBHOOK_URL"], NONE),
    setting("barkEnabled", "bark_enabled", Rule::Flag, &["PUSH_APP_ENABLED", "BARK_ENABLED"], ON).or("pushAppEnabled"),
    setting("barkUrl", "bark_url", Rule::Target, &["PUSH_APP_URL", "BARK_URL"], NONE).or("pushAppUrl"),
    setting("serverChanEnabled", "serverchan_enabled", Rule::Flag, &["PUSH_SERVICE_ENABLED", "SERVERCHAN_ENABLED"], ON).or("pushServiceEnabled"),
    setting("serverChanKey", "serverchan_key", Rule::Secret, &["PUSH_SERVICE_KEY", "SERVERCHAN_KEY"], NONE).or("pushServiceKey"),
    setting("telegramEnabled", "telegram_enabled", Rule::Flag, &["CHATBOT_ENABLED", "TELEGRAM_ENABLED"], OFF).or("chatbotEnabled"),
    setting("telegramApiBaseUrl", "telegram_api_base_url", Rule::BotApi, &["CHATBOT_API_BASE_URL", "TELEGRAM_API_BASE_URL"], || json!(BOT_API)).or("chatbotApiBaseUrl"),
    setting("telegramBotToken", "telegram_bot_token", Rule::Secret, &["CHATBOT_BOT_TOKEN", "TELEGRAM_BOT_TOKEN"], NONE).or("chatbotBotToken"),
    setting("telegramChatId", "telegram_chat_id", Rule::Text, &["CHATBOT_CHAT_ID", "TELEGRAM_CHAT_ID"], NONE).or("chatbotChatId"),
    setting("telegramUseSystemProxy", "telegram_use_system_proxy", Rule::Flag, &["CHATBOT_USE_SYSTEM_PROXY", "TELEGRAM_USE_SYSTEM_PROXY"], OFF).or("chatbotUseSystemProxy"),
    setting("telegramMessageThreadId", "telegram_message_thread_id", Rule::Topic, &["CHATBOT_MESSAGE_THREAD_ID", "TELEGRAM_MESSAGE_THREAD_ID"], NONE).or("chatbotMessageThreadId"),
    setting("smtpEnabled", "smtp_enabled", Rule::Flag, &["SMTP_ENABLED"], OFF),
    setting("smtpHost", "smtp_host", Rule::Text, &["SMTP_HOST"], NONE),
    setting("smtpPort", "smtp_port", Rule::Integer(1, 65_535), &["SMTP_PORT"], || json!(587)),
    setting("smtpSecure", "smtp_secure", Rule::Flag, &["SMTP_SECURE"], OFF),
    setting("smtpUser", "smtp_user", Rule::Text, &["SMTP_USER"], NONE),
    setting("smtpPass", "smtp_pass", Rule::Secret, &["SMTP_PASS"], NONE),
    setting("smtpFrom", "smtp_from", Rule::Text, &["SMTP_FROM"], NONE),
    setting("smtpTo", "smtp_to", Rule::Text, &["SMTP_TO"], NONE),
    setting("notifyCooldownSec", "notify_cooldown_sec", Rule::Integer(0, COUNT), &["NOTIFY_COOLDOWN_SEC"], || json!(300)),
];

fn admin_ip_allowlist(config: &Config) -> Value {
    let shown = |network: &ipnet::IpNet| {
        let is_one_address = network.prefix_len() == network.max_prefix_len();
        if is_one_address { network.addr().to_string() } else { network.to_string() }
    };
    config.admin_ip_allowlist.iter().map(shown).collect()
}

/// Reads the variables of the table. An unreadable one means the default, with a warning.
pub fn from_variables(variables: &HashMap<String, String>, warnings: &mut Vec<String>) -> Values {
    let mut read = |names: &[&str], rule: Rule, default: &dyn Fn() -> Value| {
        let set = names.iter().find_map(|name| {
            let text = variables.get(*name)?.trim();
            (!text.is_empty()).then_some((*name, text))
        });
        let Some((name, text)) = set else { return default() };
        match rule.variable(text) {
            Ok((value, remark)) => {
                warnings.extend(remark.map(|remark| format!("{name}: {remark}")));
                value
            }
            Err(why) => {
                warnings.push(format!("{name}: {why}; the default is used"));
                default()
            }
        }
    };
    let mut values = HashMap::new();
    for setting in SETTINGS {
        let value = match &setting.default {
            Default::Variables(names, default) => read(names, setting.rule, default),
            Default::Members(members) => members
                .iter()
                .map(|(member, name, default)| {
                    ((*member).to_owned(), read(&[*name], Rule::Amount, &|| json!(default)))
                })
                .collect(),
            Default::Config(_) => continue,
        };
        values.insert(setting.key, value);
    }
    Values(values)
}

/// Returns the names of the table's variables.
pub fn variables() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().flat_map(|setting| match &setting.default {
        Default::Variables(names, _) => names.to_vec(),
        Default::Members(members) => members.iter().map(|(_, name, _)| *name).collect(),
        Default::Config(_) => Vec::new(),
    })
}

impl Values {
    /// Builds the values from saved rows (name to JSON text, secrets opened) over those of the environment.
    pub fn new(config: &Config, saved: &HashMap<String, String>) -> Self {
        let mut values = HashMap::new();
        for setting in SETTINGS {
            let default = match &setting.default {
                Default::Variables(..) | Default::Members(_) => config.runtime.get(setting.key).clone(),
                Default::Config(read) => {
                    let value = read(config);
                    setting.rule.sent(&value, &value).unwrap_or(value)
                }
            };
            let stored = saved.get(setting.key).and_then(|text| serde_json::from_str(text).ok());
            let held = stored.and_then(|value: Value| setting.rule.stored(&value, &default));
            values.insert(setting.key, held.unwrap_or(default));
        }
        Self(values)
    }

    /// Returns the value in force; null if there is no setting of this name.
    pub fn get(&self, key: &str) -> &Value {
        debug_assert!(self.0.contains_key(key), "there is no setting {key}");
        self.0.get(key).unwrap_or(&Value::Null)
    }

    /// Replaces a value.
    pub fn set(&mut self, key: &'static str, value: Value) {
        self.0.insert(key, value);
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).as_bool().unwrap_or(false)
    }

    pub fn number(&self, key: &str) -> f64 {
        self.get(key).as_f64().unwrap_or(0.0)
    }

    /// Returns a count or a duration; never negative.
    pub fn count(&self, key: &str) -> u64 {
        self.get(key).as_u64().unwrap_or(0)
    }

    pub fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_default()
    }

    pub fn texts(&self, key: &str) -> Vec<String> {
        let items = self.get(key).as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_setting_has_names_of_its_own() {
        let mut seen = HashSet::new();
        for setting in SETTINGS {
            assert!(seen.insert(setting.field), "{}", setting.field);
            assert!(seen.insert(setting.key), "{}", setting.key);
            assert!(setting.alias.is_none_or(|alias| seen.insert(alias)), "{:?}", setting.alias);
        }
    }

    #[test]
    fn every_variable_is_documented() {
        let page = include_str!("../../docs/configuration.md");
        for setting in SETTINGS {
            let names = match setting.default {
                Default::Variables([name, ..], _) => vec![*name],
                Default::Members(members) => members.iter().map(|(_, name, _)| *name).collect(),
                _ => continue,
            };
            for name in names {
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
        }
    }

    #[test]
    fn every_default_obeys_its_own_rule() {
        let (config, _) = crate::config::read(&HashMap::new()).expect("defaults");
        let values = Values::new(&config, &HashMap::new());
        for setting in SETTINGS.iter().filter(|setting| setting.rule != Rule::ProxyToken) {
            let value = values.get(setting.key);
            assert!(setting.rule.sent(value, value).is_ok(), "{}: {value}", setting.field);
        }
    }
}
