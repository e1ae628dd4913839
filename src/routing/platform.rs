//! The kinds of upstream a site can be.

use std::fmt;

/// What answers behind a site's address: decides its management API, its data paths and its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    NewApi,
    OneApi,
    OneHub,
    DoneHub,
    Veloera,
    AnyRouter,
    Sub2Api,
    OpenAi,
    Claude,
    Gemini,
    Codex,
    GeminiCli,
    Antigravity,
    CliProxyApi,
}

impl Platform {
    pub const ALL: [Self; 14] = [
        Self::NewApi,
        Self::OneApi,
        Self::OneHub,
        Self::DoneHub,
        Self::Veloera,
        Self::AnyRouter,
        Self::Sub2Api,
        Self::OpenAi,
        Self::Claude,
        Self::Gemini,
        Self::Codex,
        Self::GeminiCli,
        Self::Antigravity,
        Self::CliProxyApi,
    ];

    /// Reads an identifier or one of its aliases, in any case and with blanks around it.
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.trim().to_lowercase();
        if let Some(platform) = Self::ALL.into_iter().find(|platform| platform.id() == id) {
            return Some(platform);
        }
        Some(match id.as_str() {
            "newapi" | "new api" | "wong-gongyi" | "vo-api" | "super-api" | "rix-api" | "neo-api" => {
                Self::NewApi
            }
            "oneapi" | "one api" => Self::OneApi,
            "onehub" => Self::OneHub,
            "donehub" => Self::DoneHub,
            "chatgpt-codex" | "chatgpt codex" => Self::Codex,
            "anthropic" => Self::Claude,
            "google" => Self::Gemini,
            "anti-gravity" => Self::Antigravity,
            "cpa" | "cli-proxy-api" => Self::CliProxyApi,
            _ => return None,
        })
    }

    /// Endings of a site's address that belong to the data plane only: its management calls go without.
    pub fn data_paths(self) -> &'static [&'static str] {
        match self {
            Self::Sub2Api => {
                &["/antigravity/v1beta", "/antigravity/v1", "/antigravity", "/api/v1", "/v1beta", "/v1"]
            }
            _ => &["/v1"],
        }
    }

    /// The one spelling that is stored and shown.
    pub fn id(self) -> &'static str {
        match self {
            Self::NewApi => "new-api",
            Self::OneApi => "one-api",
            Self::OneHub => "one-hub",
            Self::DoneHub => "done-hub",
            Self::Veloera => "veloera",
            Self::AnyRouter => "anyrouter",
            Self::Sub2Api => "sub2api",
            Self::OpenAi => "openai",
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Antigravity => "antigravity",
            Self::CliProxyApi => "cliproxyapi",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_identifier_reads_back_as_itself() {
        for platform in Platform::ALL {
            assert_eq!(Platform::parse(platform.id()), Some(platform));
        }
    }

    #[test]
    fn aliases_and_loose_spellings_are_resolved() {
        for (text, platform) in [
            (" NewAPI ", Platform::NewApi),
            ("wong-gongyi", Platform::NewApi),
            ("One API", Platform::OneApi),
            ("donehub", Platform::DoneHub),
            ("ChatGPT Codex", Platform::Codex),
            ("anthropic", Platform::Claude),
            ("google", Platform::Gemini),
            ("anti-gravity", Platform::Antigravity),
            ("cpa", Platform::CliProxyApi),
        ] {
            assert_eq!(Platform::parse(text), Some(platform), "{text}");
        }
        for text in ["", "azure", "new_api"] {
            assert_eq!(Platform::parse(text), None, "{text}");
        }
    }
}
