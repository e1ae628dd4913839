//! The variables of the providers whose accounts are connected by a login in a browser: their clients, their addresses,
//! and where a browser returns to.
//!
//! Their names begin with `PROVIDER_` and the provider's letter. A client's id and secret may also be named after the
//! vendor's own program (`CODEX_CLIENT_ID`). The addresses are the vendors' own unless a test sets others.

use std::net::{IpAddr, Ipv4Addr};

use super::variables::Vars;
use crate::platform::OAuthProvider;

/// Google's addresses for users, projects and services, used by two providers.
const GOOGLE_ADDRESSES: GoogleAddresses<&str> = GoogleAddresses {
    user_info: "https://www.googleapis.com",
    projects: "https://cloudresourcemanager.googleapis.com",
    services: "https://serviceusage.googleapis.com",
};

/// The configuration of all providers.
pub struct OAuthConfig {
    /// The address of the listeners that a browser is sent back to.
    pub callback_host: IpAddr,
    codex: ProviderSettings,
    claude: ProviderSettings,
    gemini_cli: ProviderSettings,
    antigravity: ProviderSettings,
}

/// The client and addresses of one provider. Carries a secret, so it has no `Debug`.
#[derive(Clone)]
pub struct ProviderSettings {
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// The address where a person consents to the login.
    pub authorization_url: String,
    /// The address where codes and refresh tokens are exchanged.
    pub token_url: String,
    /// The address of the site that its accounts belong to.
    pub site_url: String,
    /// Google's other addresses; `None` for providers of other vendors.
    pub google: Option<GoogleAddresses<String>>,
    /// The port of the callback listener; 0 takes any free port.
    pub callback_port: u16,
    /// Whether the operator has set the port, so that nothing else uses it and it stays open. The vendor's own program
    /// listens on the default port while somebody logs in with it.
    pub keeps_callback_port: bool,
    /// The required variables that are not set.
    pub missing: Vec<String>,
}

/// The addresses of Google's APIs other than the model calls.
#[derive(Clone, Debug)]
pub struct GoogleAddresses<T> {
    pub user_info: T,
    pub projects: T,
    pub services: T,
}

// === impl OAuthConfig ===

impl OAuthConfig {
    pub(super) fn read(vars: &mut Vars<'_>) -> Self {
        Self {
            callback_host: vars.address("OAUTH_CALLBACK_HOST", IpAddr::V4(Ipv4Addr::LOCALHOST)),
            codex: ProviderSettings::read(vars, OAuthProvider::Codex),
            claude: ProviderSettings::read(vars, OAuthProvider::Claude),
            gemini_cli: ProviderSettings::read(vars, OAuthProvider::GeminiCli),
            antigravity: ProviderSettings::read(vars, OAuthProvider::Antigravity),
        }
    }

    /// Returns the settings of a provider.
    pub fn of(&self, provider: OAuthProvider) -> &ProviderSettings {
        match provider {
            OAuthProvider::Codex => &self.codex,
            OAuthProvider::Claude => &self.claude,
            OAuthProvider::GeminiCli => &self.gemini_cli,
            OAuthProvider::Antigravity => &self.antigravity,
        }
    }
}

// === impl ProviderSettings ===

impl ProviderSettings {
    fn read(vars: &mut Vars<'_>, provider: OAuthProvider) -> Self {
        let profile = provider.profile();
        let named = |what: &str| format!("PROVIDER_{}_{what}", profile.letter);
        let of_client = |vars: &Vars<'_>, what: &str| {
            let alias = format!("{}_{what}", profile.alias);
            vars.optional(&named(what)).or_else(|| vars.optional(&alias))
        };
        let client_id = of_client(vars, "CLIENT_ID").or_else(|| profile.client_id.map(str::to_owned));
        let has_secret = profile.wants_client_secret || provider == OAuthProvider::Claude;
        let client_secret = if has_secret { of_client(vars, "CLIENT_SECRET") } else { None };
        let mut missing = Vec::new();
        if client_id.is_none() {
            missing.push(named("CLIENT_ID"));
        }
        if profile.wants_client_secret && client_secret.is_none() {
            missing.push(named("CLIENT_SECRET"));
        }
        let google = matches!(provider, OAuthProvider::GeminiCli | OAuthProvider::Antigravity);
        Self {
            client_id,
            client_secret,
            authorization_url: vars.web_address(&named("AUTH_URL"), profile.authorization_url),
            token_url: vars.web_address(&named("TOKEN_URL"), profile.token_url),
            site_url: vars.web_address(&named("BASE_URL"), profile.site_url),
            google: google.then(|| GoogleAddresses::read(vars, &named("GOOGLE_BASE_URL"))),
            callback_port: vars.port_or_any(&named("CALLBACK_PORT"), profile.callback_port),
            keeps_callback_port: vars.optional(&named("CALLBACK_PORT")).is_some_and(|port| port != "0"),
            missing,
        }
    }
}

// === impl GoogleAddresses ===

impl GoogleAddresses<String> {
    /// Reads one address that replaces all three, if it is set.
    fn read(vars: &mut Vars<'_>, name: &str) -> Self {
        let own = vars.optional(name).map(|_| vars.web_address(name, ""));
        let or = |usual: &str| own.clone().unwrap_or_else(|| usual.to_owned());
        Self {
            user_info: or(GOOGLE_ADDRESSES.user_info),
            projects: or(GOOGLE_ADDRESSES.projects),
            services: or(GOOGLE_ADDRESSES.services),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, read};

    fn config(pairs: &[(&str, &str)]) -> Config {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&values).map(|(config, _)| config).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    #[test]
    fn two_providers_have_a_client_and_two_say_what_they_miss() {
        let oauth = config(&[("PROVIDER_C_CLIENT_ID", "  "), ("PROVIDER_D_CLIENT_SECRET", "s")]).oauth;
        let missing = OAuthProvider::ALL.map(|provider| oauth.of(provider).missing.join(" "));
        let of_c = "PROVIDER_C_CLIENT_ID PROVIDER_C_CLIENT_SECRET";
        assert_eq!(missing, ["", "", of_c, "PROVIDER_D_CLIENT_ID"]);
        assert!(oauth.of(OAuthProvider::Codex).client_id.is_some());
        assert_eq!(oauth.callback_host, IpAddr::V4(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn a_variable_goes_before_its_alias() {
        let oauth = config(&[
            ("PROVIDER_A_CLIENT_ID", "a"),
            ("CODEX_CLIENT_ID", "not a"),
            ("CLAUDE_CLIENT_ID", "b"),
            ("CLAUDE_CLIENT_SECRET", "secret b"),
            ("GEMINI_CLI_CLIENT_ID", "c"),
            ("GEMINI_CLI_CLIENT_SECRET", "secret c"),
            ("ANTIGRAVITY_CLIENT_ID", "d"),
            ("PROVIDER_D_CLIENT_SECRET", "secret d"),
        ])
        .oauth;
        let clients = OAuthProvider::ALL.map(|provider| {
            let settings = oauth.of(provider);
            (settings.client_id.as_deref().unwrap_or(""), settings.client_secret.as_deref().unwrap_or(""))
        });
        assert_eq!(clients, [("a", ""), ("b", "secret b"), ("c", "secret c"), ("d", "secret d")]);
        assert!(OAuthProvider::ALL.iter().all(|provider| oauth.of(*provider).missing.is_empty()));
    }

    #[test]
    fn every_address_can_be_another_one() {
        let oauth = config(&[
            ("PROVIDER_A_AUTH_URL", "http://127.0.0.1:1/authorize"),
            ("PROVIDER_B_TOKEN_URL", "http://127.0.0.1:1/token"),
            ("PROVIDER_C_BASE_URL", "http://127.0.0.1:1"),
            ("PROVIDER_D_GOOGLE_BASE_URL", "http://127.0.0.1:2"),
            ("PROVIDER_D_CALLBACK_PORT", "0"),
            ("OAUTH_CALLBACK_HOST", "0.0.0.0"),
        ])
        .oauth;
        assert_eq!(oauth.of(OAuthProvider::Codex).authorization_url, "http://127.0.0.1:1/authorize");
        assert_eq!(oauth.of(OAuthProvider::Claude).token_url, "http://127.0.0.1:1/token");
        assert_eq!(oauth.of(OAuthProvider::GeminiCli).site_url, "http://127.0.0.1:1");
        let antigravity = oauth.of(OAuthProvider::Antigravity);
        let google = antigravity.google.as_ref().expect("one of Google's");
        for address in [&google.user_info, &google.projects, &google.services] {
            assert_eq!(address, "http://127.0.0.1:2");
        }
        assert_eq!((antigravity.callback_port, oauth.of(OAuthProvider::Codex).callback_port), (0, 1455));
        assert!(oauth.callback_host.is_unspecified());
    }

    #[test]
    fn an_address_that_cannot_be_read_stops_the_start() {
        for (name, value) in [
            ("PROVIDER_A_TOKEN_URL", "auth.openai.com"),
            ("PROVIDER_B_CALLBACK_PORT", "70000"),
            ("OAUTH_CALLBACK_HOST", "localhost"),
        ] {
            let values = [(name.to_owned(), value.to_owned())].into_iter().collect();
            let errors = read(&values).err().unwrap_or_default();
            assert!(errors.iter().any(|error| error.starts_with(name)), "{name}: {errors:?}");
        }
    }

    #[test]
    fn the_lines_to_paste_have_the_ports_of_the_providers() {
        let (page, oauth) = (include_str!("../../docs/accounts.md"), config(&[]).oauth);
        for provider in OAuthProvider::ALL {
            let (port, path) = (oauth.of(provider).callback_port, provider.profile().callback_path);
            assert!(page.contains(&format!("`localhost:{port}{path}`")), "{}", provider.id());
            let line = format!("`ssh -L {port}:127.0.0.1:{port} root@gw.example.com -p 22`");
            assert!(page.contains(&line), "{line}");
            for name in &oauth.of(provider).missing {
                assert!(page.contains(&format!("`{name}`")), "{name}");
            }
        }
    }

    #[test]
    fn every_variable_is_documented() {
        let page = include_str!("../../docs/configuration.md");
        assert!(page.contains("`OAUTH_CALLBACK_HOST`"));
        for provider in OAuthProvider::ALL {
            let profile = provider.profile();
            let mut names: Vec<String> =
                ["CLIENT_ID", "AUTH_URL", "TOKEN_URL", "BASE_URL", "CALLBACK_PORT"].map(str::to_owned).into();
            if provider != OAuthProvider::Codex {
                names.push("CLIENT_SECRET".to_owned());
                assert!(page.contains(&format!("`{}_CLIENT_SECRET`", profile.alias)), "{}", profile.alias);
            }
            if profile.wants_client_secret {
                names.push("GOOGLE_BASE_URL".to_owned());
            }
            for name in names {
                let name = format!("`PROVIDER_{}_{name}`", profile.letter);
                assert!(page.contains(&name), "{name}");
            }
            assert!(page.contains(&format!("`{}_CLIENT_ID`", profile.alias)), "{}", profile.alias);
        }
    }
}
