//! Reads single variables: numbers, switches, lists and addresses; and collects errors and warnings about invalid ones.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use jiff::tz::TimeZone;

use super::rule;
use super::values::{DEFAULT_PORT, DatabaseConfig, DatabaseKind, TlsFiles};
use crate::dialect::service_tier::TierRules;
use crate::limits::LeaseRules;
use crate::networks;
use crate::routing::{BaseUrl, OutboundProxy};

/// Variables that are known but not used, and the reason.
const UNUSED: &[(&str, &str)] = &[
    (
        "TOKEN_ROUTER_CACHE_TTL_MS",
        "routes are kept in memory and replaced at each change, so there is no cache that could expire",
    ),
    (
        "LLM_METADATA_MODELS_URLS",
        "models are described by the sites that offer them; no other list of models is fetched",
    ),
];

/// The variables being read, with the errors and warnings so far.
pub(super) struct Vars<'a> {
    values: &'a HashMap<String, String>,
    /// Names whose values are not text.
    unreadable: &'a HashSet<String>,
    asked_for: RefCell<BTreeSet<String>>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Vars<'a> {
    pub(super) fn new(values: &'a HashMap<String, String>, unreadable: &'a HashSet<String>) -> Self {
        Self { values, unreadable, asked_for: RefCell::default(), errors: Vec::new(), warnings: Vec::new() }
    }

    /// Adds an error for each variable whose value is not text, among those that were read and `more`.
    pub(super) fn refuse_unreadable(&mut self, more: impl Iterator<Item = &'static str>) {
        more.for_each(|name| self.ask_for(name));
        self.errors.extend(self.asked_for.take().into_iter().map(|name| {
            format!("{name}: the value of this environment variable is not UTF-8; set it anew, as plain text")
        }));
    }

    fn ask_for(&self, name: &str) {
        if self.unreadable.contains(name) {
            self.asked_for.borrow_mut().insert(name.to_owned());
        }
    }

    /// Adds an error if a token still has the publicly known built-in value.
    pub(super) fn refuse_placeholder(&mut self, name: &str, value: &str, placeholder: &str) {
        if value == placeholder {
            self.errors.push(format!(
                "{name}: REQUIRE_STRONG_TOKENS is set, but {name} still has its built-in value; set it to a secret of your own"
            ));
        }
    }

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        self.ask_for(name);
        let value = self.values.get(name)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    pub(super) fn text(&self, name: &str, default: &str) -> String {
        self.optional(name).unwrap_or_else(|| default.to_owned())
    }

    /// Reads the value of a header; blank for none.
    pub(super) fn header(&mut self, name: &str) -> String {
        let value = self.text(name, "");
        if !rule::is_header_text(&value) {
            self.errors.push(format!(
                "{name}: the value cannot be sent in a header; use printable ASCII characters"
            ));
        }
        value
    }

    pub(super) fn tier_rules(&mut self) -> TierRules {
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

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name, "");
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    /// Reads origins as browsers write them, or `*`; adds an error for anything that no browser sends.
    pub(super) fn origins(&mut self, name: &str) -> Vec<String> {
        let listed = self.list(name).into_iter();
        let read = |item: String| {
            let origin = item.strip_suffix('/').unwrap_or(&item).to_ascii_lowercase();
            let own_port = if origin.starts_with("https://") { ":443" } else { ":80" };
            let origin = origin.strip_suffix(own_port).unwrap_or(&origin).to_owned();
            let address = origin.split_once("://").map(|(_, address)| address);
            let is_origin =
                address.is_some_and(|address| !address.is_empty() && !address.contains(['/', '?', '#', '@']));
            if is_origin || origin == "*" || origin == "null" {
                return Some(origin);
            }
            let problem =
                "it is not an origin; write only scheme, host and port, such as https://pages.example";
            self.errors.push(format!("{name}: `{item}`: {problem}"));
            None
        };
        listed.filter_map(read).collect()
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        let Some(value) = self.optional(name) else { return default };
        let (flag, remark) = rule::flag(&value);
        self.warnings.extend(remark.map(|remark| format!("{name}: {remark}")));
        flag
    }

    /// Reads a number; `None` means that the default applies.
    fn number(&mut self, name: &str) -> Option<f64> {
        let value = self.optional(name)?;
        let number = value.parse().ok().filter(|number: &f64| number.is_finite());
        if number.is_none() {
            self.warnings.push(format!("{name}: `{value}` is not a number; the default is used"));
        }
        number
    }

    /// Reads an integer in decimal or exponent notation, truncated and clamped to the range.
    pub(super) fn integer(&mut self, name: &str, default: u64, min: u64, max: u64) -> u64 {
        let Some(number) = self.number(name) else { return default };
        let clamped = number.trunc().clamp(min as f64, max as f64);
        if clamped != number.trunc() {
            self.warnings
                .push(format!("{name}: {number} is outside {min}..{max}; {clamped} is used instead"));
        }
        clamped as u64
    }

    /// Reads the rules of site leases: a value out of range means the default.
    pub(super) fn site_leases(&mut self) -> LeaseRules {
        let ttl = self.valid("PROXY_SITE_CONCURRENCY_LEASE_TTL_MS", 90_000, 5_000..=2_147_483_647);
        let keepalive = 15_000.min(ttl - 1);
        let keepalive = self.valid("PROXY_SITE_CONCURRENCY_LEASE_KEEPALIVE_MS", keepalive, 1_000..=ttl - 1);
        // A timer may fire a little late: a lease that is renewed at the last moment would sometimes have expired.
        let keepalive = keepalive.min(ttl - ttl / 10);
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

    /// Reads a whole number in the range, else returns the default.
    fn valid(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.optional(name) else { return default };
        let whole = value.parse().ok().filter(|number: &f64| number.fract() == 0.0 && *number >= 0.0);
        if let Some(number) = whole.map(|number| number as u64).filter(|number| range.contains(number)) {
            return number;
        }
        let (from, to) = (range.start(), range.end());
        self.warnings.push(format!(
            "{name}: `{value}` is not a whole number from {from} to {to}; {default} is used instead"
        ));
        default
    }

    pub(super) fn seconds(&mut self, name: &str, default: u64, min: u64) -> Duration {
        Duration::from_secs(self.integer(name, default, min, 365 * 86_400))
    }

    /// Reads a duration in milliseconds, of at most about 24 days.
    pub(super) fn millis(&mut self, name: &str, default: u64, min: u64) -> Duration {
        Duration::from_millis(self.integer(name, default, min, i32::MAX as u64))
    }

    pub(super) fn port(&mut self) -> u16 {
        let Some(value) = self.optional("PORT") else { return DEFAULT_PORT };
        match value.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => {
                self.errors.push(format!("PORT: `{value}` is not a port; use a number from 1 to 65535"));
                DEFAULT_PORT
            }
        }
    }

    /// Reads the port of the desktop, also under its former name; `None` lets the desktop choose.
    pub(super) fn desktop_port(&mut self) -> Option<u16> {
        let names = ["SWITCHYARD_DESKTOP_SERVER_PORT", "METAPI_DESKTOP_SERVER_PORT"];
        let (name, value) = names.into_iter().find_map(|name| Some((name, self.optional(name)?)))?;
        let port = value.parse().ok().filter(|port| *port > 0);
        if port.is_none() {
            self.warnings.push(format!("{name}: `{value}` is not a port; any free port is used"));
        }
        port
    }

    /// Warns of set variables that other gateways use and this one does not, with the reason.
    pub(super) fn warn_of_unused(&mut self) {
        for (name, why) in UNUSED {
            if self.optional(name).is_some() {
                self.warnings.push(format!("{name} is not used: {why}"));
            }
        }
    }

    /// Reads the port of the deploy helper, which a gateway itself does not listen on; 0 takes any free port.
    pub(super) fn helper_port(&mut self) -> u16 {
        const DEFAULT: u16 = 9850;
        let Some(value) = self.optional("DEPLOY_HELPER_PORT") else { return DEFAULT };
        value.parse().unwrap_or_else(|_| {
            self.warnings.push(format!("DEPLOY_HELPER_PORT: `{value}` is not a port; {DEFAULT} is used"));
            DEFAULT
        })
    }

    /// Reads a port to listen on; 0 takes any free port.
    pub(super) fn port_or_any(&mut self, name: &str, default: u16) -> u16 {
        let Some(value) = self.optional(name) else { return default };
        value.parse().unwrap_or_else(|_| {
            self.errors.push(format!("{name}: `{value}` is not a port; use a number from 0 to 65535"));
            default
        })
    }

    /// Reads an IP address to listen on.
    pub(super) fn address(&mut self, name: &str, default: IpAddr) -> IpAddr {
        let Some(value) = self.optional(name) else { return default };
        value.parse().unwrap_or_else(|_| {
            self.errors.push(format!("{name}: `{value}` is not an IP address"));
            default
        })
    }

    pub(super) fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
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

    pub(super) fn networks(&mut self, name: &str, default: &str) -> Vec<IpNet> {
        let text = self.text(name, default);
        let mut networks = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match networks::parse(entry) {
                Some(network) => networks.push(network),
                None => {
                    self.errors.push(format!("{name}: `{entry}` is neither an IP address nor a CIDR network"))
                }
            }
        }
        networks
    }

    pub(super) fn web_address(&mut self, name: &str, default: &str) -> String {
        let url = self.text(name, default);
        if let Err(why) = BaseUrl::parse(&url, None) {
            self.errors.push(format!("{name}: {why}"));
        }
        url
    }

    /// Reads the address of a proxy. It may hold a password, so no message repeats it.
    pub(super) fn outbound_proxy(&mut self, name: &str) -> Option<String> {
        let url = self.optional(name)?;
        if let Err(why) = OutboundProxy::parse(&url) {
            self.errors.push(format!("{name}: not the address of a proxy: {why}"));
        }
        Some(url)
    }

    /// Refuses a server's address without its DB_TYPE: it would create a file of that name, password included.
    pub(super) fn check_database(&mut self, database: &DatabaseConfig) {
        let scheme = database.url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let names_a_server = scheme.is_some_and(|scheme| scheme != "sqlite" && scheme != "file");
        if database.kind == DatabaseKind::Sqlite && names_a_server {
            self.errors.push("DB_URL: names a database server, but DB_TYPE is sqlite".to_owned());
        }
    }

    pub(super) fn time_zone(&mut self) -> (String, TimeZone) {
        const DEFAULT: &str = "Asia/Shanghai";
        let name = self.text("TZ", DEFAULT);
        if let Ok(zone) = TimeZone::get(&name) {
            return (name, zone);
        }
        self.warnings.push(format!("TZ: `{name}` is not a known time zone, using {DEFAULT}"));
        (DEFAULT.to_owned(), TimeZone::get(DEFAULT).unwrap_or(TimeZone::UTC))
    }

    pub(super) fn tls_files(&mut self) -> Option<TlsFiles> {
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
