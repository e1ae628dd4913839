//! Logs the start of the service: its address, unsafe settings, and the operator's next step.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::config::Config;
use crate::core::Core;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::events::{self, EventFilter, EventLevel, NewEvent};

/// Logs the start, with commands to paste into a shell and the next step. A built-in token is printed, since it works
/// from this machine only; any other token is named by its variable.
pub fn log_start(core: &Core) {
    let (config, settings) = (&core.config, core.settings.load());
    log::info!(
        "switchyard {} serves on {} port {}, data in {}, time zone {}",
        env!("CARGO_PKG_VERSION"),
        config.host,
        config.port,
        config.data_dir.display(),
        config.time_zone_name
    );
    let tokens = Token::in_force(config, &settings);
    warn_of_unsafe_settings(config, &tokens);
    let shell = Shell::new(&config.host, config.port, config.tls.is_some());
    let [admin, client] = &tokens;
    if config.console_enabled {
        log::info!("console:    {}/", shell.base);
    }
    log::info!("clients:    {base}/v1, such as {base}/v1/chat/completions", base = shell.base);
    log::info!("proxy API:  {}", shell.curl(client, "/v1/models"));
    log::info!("admin API:  {}", shell.curl(admin, "/api/stats/dashboard"));
    if let Some(step) = next_step(&shell, &built_in(&tokens), core.snapshot.load().routes().is_empty()) {
        log::info!("next: {step}");
    }
}

fn warn_of_unsafe_settings(config: &Config, tokens: &[Token<'_>]) {
    for Token { variable, is_saved, .. } in tokens.iter().filter(|token| token.is_built_in) {
        let remedy = if *is_saved {
            "change it in the settings, because what was saved goes before the variable"
        } else {
            "set a secret of your own"
        };
        log::warn!("{variable} has its built-in value, which is accepted from this machine only: {remedy}");
    }
    if config.credential_secret_weak {
        log::warn!(
            "ACCOUNT_CREDENTIAL_SECRET is not set or equals AUTH_TOKEN, so AUTH_TOKEN seals the stored \
             credentials: set ACCOUNT_CREDENTIAL_SECRET to a secret of its own, and keep it"
        );
    }
}

/// Stores a warning about built-in tokens among the operators' events, if there are any.
pub fn store_warning(core: &Arc<Core>) {
    let names = built_in(&Token::in_force(&core.config, &core.settings.load()));
    if names.is_empty() {
        return;
    }
    let store = core.store.clone();
    core.background.spawn("the event of built-in tokens", async move {
        if let Err(error) = warn_of_built_in_tokens(&store, &names).await {
            log::warn!("the event of built-in tokens could not be stored: {error}");
        }
    });
}

/// Names the tokens that have their built-in values.
fn built_in(tokens: &[Token<'_>]) -> String {
    let names: Vec<_> = tokens.iter().filter(|token| token.is_built_in).map(|token| token.variable).collect();
    names.join(" and ")
}

/// Stores one warning among the operators' events, not one for each start.
async fn warn_of_built_in_tokens(store: &Store, names: &str) -> crate::store::Result<()> {
    let title = format!("{names} still built-in");
    let recent = EventFilter { kind: Some("token".to_owned()), limit: 50, ..EventFilter::default() };
    if events::list(store, &recent).await?.iter().any(|event| event.title == title) {
        return Ok(());
    }
    let event = NewEvent {
        kind: "token",
        title,
        message: Some(
            "Built-in tokens are accepted from this machine only. Set secrets of your own and restart, or change \
             the tokens in the settings: what is saved there goes before the variables."
                .to_owned(),
        ),
        level: EventLevel::Warning,
        related_id: None,
        related_type: Some("settings"),
    };
    events::insert(store, event).await.map(drop)
}

/// A token in force.
struct Token<'a> {
    variable: &'static str,
    value: &'a str,
    is_built_in: bool,
    /// Whether an operator saved it through the admin API, which overrides the variable.
    is_saved: bool,
}

/// How a shell on this machine reaches the gateway.
struct Shell {
    base: String,
    /// Whether the address is a loopback address; only from there do built-in tokens work.
    is_local: bool,
    options: &'static str,
}

// === impl Token ===

impl<'a> Token<'a> {
    /// Returns the admin token and the token of clients.
    fn in_force(config: &Config, settings: &'a Settings) -> [Self; 2] {
        [
            Token {
                variable: "AUTH_TOKEN",
                value: &settings.auth_token,
                is_built_in: settings.uses_placeholder_auth_token(),
                is_saved: settings.auth_token != config.auth_token,
            },
            Token {
                variable: "PROXY_TOKEN",
                value: &settings.proxy_token,
                is_built_in: settings.uses_placeholder_proxy_token(),
                is_saved: settings.proxy_token != config.proxy_token,
            },
        ]
    }
}

// === impl Shell ===

impl Shell {
    fn new(host: &str, port: u16, tls: bool) -> Self {
        let address = host.parse::<IpAddr>().ok().map(|address| match address {
            IpAddr::V4(address) if address.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(address) if address.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            address => address,
        });
        let is_local = address.map_or(host == "localhost", |address| address.is_loopback());
        let host = match address {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(address) => address.to_string(),
            None => host.to_owned(),
        };
        let scheme = if tls { "https" } else { "http" };
        // A certificate names the host that clients know, never the loopback address.
        let options = if tls && is_local { " --insecure" } else { "" };
        Self { base: format!("{scheme}://{host}:{port}"), is_local, options }
    }

    fn curl(&self, token: &Token<'_>, path: &str) -> String {
        let Self { base, options, .. } = self;
        let name = token.variable;
        let value = match token {
            Token { is_built_in: true, value, .. } if self.is_local => (*value).to_owned(),
            _ => format!("${name}"),
        };
        let note = match token {
            Token { is_saved: true, is_built_in: false, .. } => {
                format!("  # {name}: use the token that is saved in the settings")
            }
            _ => String::new(),
        };
        format!("curl{options} -H \"Authorization: Bearer {value}\" {base}{path}{note}")
    }
}

/// Returns the operator's next step; `None` if the gateway has routes and tokens of its own.
fn next_step(shell: &Shell, built_in: &str, is_empty: bool) -> Option<String> {
    if !built_in.is_empty() && !shell.is_local {
        return Some(format!("set {built_in} and start again: built-in tokens are refused at this address"));
    }
    if is_empty {
        let program = program();
        return Some(format!(
            "add a site and an account (README.md, \"First steps\"), or watch a demonstration: {program} demo"
        ));
    }
    (!built_in.is_empty()).then(|| format!("set {built_in} before others are to use this gateway"))
}

/// Returns the name by which a shell can run this program.
fn program() -> String {
    let is_plain = |text: &String| text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let name = std::env::args_os().next().and_then(|name| name.into_string().ok());
    name.filter(is_plain).unwrap_or_else(|| "switchyard".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(is_built_in: bool, is_saved: bool) -> Token<'static> {
        Token { variable: "AUTH_TOKEN", value: "built-in", is_built_in, is_saved }
    }

    #[test]
    fn the_lines_name_an_address_that_this_machine_reaches() {
        for (host, tls, command) in [
            ("0.0.0.0", false, "curl -H \"Authorization: Bearer built-in\" http://127.0.0.1:4000/x"),
            ("::", false, "curl -H \"Authorization: Bearer built-in\" http://[::1]:4000/x"),
            (
                "localhost",
                true,
                "curl --insecure -H \"Authorization: Bearer built-in\" https://localhost:4000/x",
            ),
            ("192.0.2.1", false, "curl -H \"Authorization: Bearer $AUTH_TOKEN\" http://192.0.2.1:4000/x"),
            ("gw.example", true, "curl -H \"Authorization: Bearer $AUTH_TOKEN\" https://gw.example:4000/x"),
        ] {
            assert_eq!(Shell::new(host, 4000, tls).curl(&token(true, false), "/x"), command);
        }
        let saved = Shell::new("127.0.0.1", 4000, false).curl(&token(false, true), "/x");
        let note = "http://127.0.0.1:4000/x  # AUTH_TOKEN: use the token that is saved in the settings";
        assert!(saved.ends_with(note), "{saved}");
    }

    #[test]
    fn the_next_step_is_the_one_that_keeps_the_gateway_from_being_used() {
        let step = |host, built_in, is_empty| next_step(&Shell::new(host, 4000, false), built_in, is_empty);
        assert!(
            step("192.0.2.1", "AUTH_TOKEN", true).expect("a step").starts_with("set AUTH_TOKEN and start")
        );
        assert!(
            step("0.0.0.0", "AUTH_TOKEN", true).expect("a step").starts_with("add a site and an account")
        );
        assert!(step("0.0.0.0", "AUTH_TOKEN", false).expect("a step").starts_with("set AUTH_TOKEN before"));
        assert_eq!(step("0.0.0.0", "", false), None);
    }
}
