//! The platforms, which are the kinds of upstream that a site can be, and the facts about each.
//!
//! A platform is a file here and a line in the list below. Its file has a [`Profile`] with a value for every field. A fork
//! takes the values that it does not change from its parent. The rest of the program does not ask for the platform of a
//! site: it asks for a field of the profile.
//!
//! | file | |
//! |---|---|
//! | `profile` | the facts that a platform must state |
//! | `oauth` | the providers whose accounts are connected by a login in a browser |
//! | `relay` | the facts shared by platforms that offer several vendors' models in several dialects |
//! | the others | one platform each |
//!
//! These are facts, without I/O. [`upstream::platforms`](crate::upstream::platforms) calls the sites.

mod antigravity;
mod any_router;
mod claude;
mod cli_proxy_api;
mod codex;
mod done_hub;
mod gemini;
mod gemini_cli;
mod new_api;
mod oauth;
mod one_api;
mod one_hub;
mod openai;
mod profile;
mod relay;
mod sub2api;
mod veloera;

use std::fmt;

pub use oauth::OAuthProvider;
pub use profile::{
    Abilities, Address, BodyEdit, CodeAssist, LoginHeaders, Management, MessagesCredential, ModelList,
    NewApiFork, OwnPages, PageAnswer, PriceList, Profile, Title,
};
pub use relay::names_claude;

/// Defines the platforms and their profiles from one list, so that no platform can lack a profile or be missing from
/// the list.
macro_rules! platforms {
    ($($name:ident: $file:ident,)*) => {
        /// The kind of upstream at a site's address.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Platform {
            $($name,)*
        }

        impl Platform {
            /// All platforms; where an address or a page fits several, the first one is meant.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// Returns the facts about it.
            pub fn profile(self) -> &'static Profile {
                match self {
                    $(Self::$name => &$file::PROFILE,)*
                }
            }
        }
    };
}

// Forks stand before what they were forked from, because they still share much of it.
platforms! {
    AnyRouter: any_router,
    Veloera: veloera,
    DoneHub: done_hub,
    OneHub: one_hub,
    Sub2Api: sub2api,
    NewApi: new_api,
    OneApi: one_api,
    OpenAi: openai,
    Claude: claude,
    Gemini: gemini,
    Codex: codex,
    GeminiCli: gemini_cli,
    Antigravity: antigravity,
    CliProxyApi: cli_proxy_api,
}

impl Platform {
    /// Reads an identifier or one of its aliases, in any case and with blanks around it.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim().to_lowercase();
        Self::ALL.into_iter().find(|platform| {
            let profile = platform.profile();
            profile.id == name || profile.aliases.contains(&name.as_str())
        })
    }

    /// Returns the only spelling that is stored and shown.
    pub fn id(self) -> &'static str {
        self.profile().id
    }

    /// Returns what a session can be used for.
    pub fn abilities(self) -> Abilities {
        self.profile().abilities()
    }

    /// Returns the platform whose address this is, as far as host and path alone tell. A query tells nothing, because
    /// anybody may write a vendor's name there.
    pub fn at(address: &Address<'_>) -> Option<Self> {
        let is_official = |platform: &Self| (platform.profile().is_official)(address);
        let is_named =
            |platform: &Self| platform.profile().host_words.iter().any(|word| address.host.contains(word));
        Self::ALL.into_iter().find(is_official).or_else(|| Self::ALL.into_iter().find(is_named))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_identifier_reads_back_as_itself() {
        for platform in Platform::ALL {
            assert_eq!(Platform::parse(platform.id()), Some(platform));
        }
    }

    #[test]
    fn no_two_platforms_share_a_name() {
        let names = Platform::ALL.into_iter().flat_map(|platform| {
            let profile = platform.profile();
            profile.aliases.iter().chain([&profile.id])
        });
        let mut seen = HashSet::new();
        for name in names {
            assert!(seen.insert(*name), "{name}");
            assert_eq!(*name, name.trim().to_lowercase(), "names are compared in lower case");
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

    #[test]
    fn every_platform_that_answers_has_a_way_to_be_asked_in_its_first_dialect() {
        for platform in Platform::ALL {
            let profile = platform.profile();
            let Some(dialect) = profile.plain_dialect() else { continue };
            assert!((profile.path)(dialect).starts_with('/'), "{platform}");
        }
    }
}
