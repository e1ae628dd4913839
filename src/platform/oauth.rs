//! The providers whose accounts are connected by a login in a browser (OAuth 2.0, RFC 6749), and the facts about
//! each.

use super::Platform;

/// A provider of logins. The identifiers are those of the admin API and of `accounts.oauth_provider`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OAuthProvider {
    Codex,
    Claude,
    GeminiCli,
    Antigravity,
}

/// The facts that must be stated about a provider.
pub struct OAuthProfile {
    /// The only spelling of its identifier that is stored and shown.
    pub id: &'static str,
    /// The name that people read.
    pub label: &'static str,
    pub platform: Platform,
    /// The letter in the names of its environment variables: `PROVIDER_A_…`.
    pub letter: char,
    /// The other prefix that is accepted for the environment variables of its client: `CODEX_CLIENT_ID`.
    pub alias: &'static str,
    /// The client that the vendor publishes for programs on a user's machine; `None` where the operator brings one.
    pub client_id: Option<&'static str>,
    /// Whether its token endpoint requires the client's secret.
    pub wants_client_secret: bool,
    pub site_name: &'static str,
    pub site_url: &'static str,
    pub authorization_url: &'static str,
    pub token_url: &'static str,
    /// The scopes, in the order in which they are asked for.
    pub scopes: &'static [&'static str],
    /// The port of the address on `localhost` to which the browser is sent back.
    pub callback_port: u16,
    pub callback_path: &'static str,
    /// Whether a login works better with a Google Cloud project named.
    pub requires_project_id: bool,
    /// The time before its end at which a token is renewed, in seconds.
    pub refresh_lead_seconds: u64,
}

// === impl OAuthProvider ===

impl OAuthProvider {
    /// All providers, in the order of lists.
    pub const ALL: [Self; 4] = [Self::Codex, Self::Claude, Self::GeminiCli, Self::Antigravity];

    /// Reads an identifier, in any case and with blanks around it.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim();
        Self::ALL.into_iter().find(|provider| provider.id().eq_ignore_ascii_case(name))
    }

    /// Returns the only spelling that is stored and shown.
    pub fn id(self) -> &'static str {
        self.profile().id
    }

    /// Returns the facts about it.
    pub fn profile(self) -> &'static OAuthProfile {
        match self {
            Self::Codex => &CODEX,
            Self::Claude => &CLAUDE,
            Self::GeminiCli => &GEMINI_CLI,
            Self::Antigravity => &ANTIGRAVITY,
        }
    }
}

// Addresses, clients and scopes are those of the vendors' own published programs.

static CODEX: OAuthProfile = OAuthProfile {
    id: "codex",
    label: "Codex",
    platform: Platform::Codex,
    letter: 'A',
    alias: "CODEX",
    client_id: Some("app_EMoamEEZ73f0CkXaXp7hrann"),
    wants_client_secret: false,
    site_name: "ChatGPT Codex OAuth",
    site_url: "https://chatgpt.com/backend-api/codex",
    authorization_url: "https://auth.openai.com/oauth/authorize",
    token_url: "https://auth.openai.com/oauth/token",
    scopes: &["openid", "email", "profile", "offline_access"],
    callback_port: 1455,
    callback_path: "/auth/callback",
    requires_project_id: false,
    refresh_lead_seconds: 5 * 24 * 3600,
};

static CLAUDE: OAuthProfile = OAuthProfile {
    id: "claude",
    label: "Claude",
    platform: Platform::Claude,
    letter: 'B',
    alias: "CLAUDE",
    client_id: Some("9d1c250a-e61b-44d9-88ed-5944d1962f5e"),
    wants_client_secret: false,
    site_name: "Anthropic Claude OAuth",
    site_url: "https://api.anthropic.com",
    authorization_url: "https://claude.ai/oauth/authorize",
    token_url: "https://api.anthropic.com/v1/oauth/token",
    scopes: &["org:create_api_key", "user:profile", "user:inference"],
    callback_port: 54545,
    callback_path: "/callback",
    requires_project_id: false,
    refresh_lead_seconds: 4 * 3600,
};

static GEMINI_CLI: OAuthProfile = OAuthProfile {
    id: "gemini-cli",
    label: "Gemini CLI",
    platform: Platform::GeminiCli,
    letter: 'C',
    alias: "GEMINI_CLI",
    client_id: None,
    wants_client_secret: true,
    site_name: "Google Gemini CLI OAuth",
    site_url: "https://cloudcode-pa.googleapis.com",
    authorization_url: "https://accounts.google.com/o/oauth2/v2/auth",
    token_url: "https://oauth2.googleapis.com/token",
    scopes: &[
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/userinfo.email",
        "https://www.googleapis.com/auth/userinfo.profile",
    ],
    callback_port: 8085,
    callback_path: "/oauth2callback",
    requires_project_id: true,
    refresh_lead_seconds: 300,
};

static ANTIGRAVITY: OAuthProfile = OAuthProfile {
    id: "antigravity",
    label: "Antigravity",
    platform: Platform::Antigravity,
    letter: 'D',
    alias: "ANTIGRAVITY",
    client_id: None,
    wants_client_secret: true,
    site_name: "Google Antigravity OAuth",
    site_url: "https://cloudcode-pa.googleapis.com",
    authorization_url: "https://accounts.google.com/o/oauth2/v2/auth",
    token_url: "https://oauth2.googleapis.com/token",
    scopes: &[
        "https://www.googleapis.com/auth/cloud-platform",
        "https://www.googleapis.com/auth/userinfo.email",
        "https://www.googleapis.com/auth/userinfo.profile",
        "https://www.googleapis.com/auth/cclog",
        "https://www.googleapis.com/auth/experimentsandconfigs",
    ],
    callback_port: 51121,
    callback_path: "/oauth-callback",
    requires_project_id: false,
    refresh_lead_seconds: 300,
};
