//! Which sections a backup contains.

/// The sections that a backup contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BackupScope {
    #[default]
    All,
    Accounts,
    Preferences,
}

impl BackupScope {
    /// Parses a word in any letter case; `None` for an unknown one.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.trim();
        [Self::All, Self::Accounts, Self::Preferences]
            .into_iter()
            .find(|what| word.eq_ignore_ascii_case(what.as_str()))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Accounts => "accounts",
            Self::Preferences => "preferences",
        }
    }
}
