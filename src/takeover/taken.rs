//! What comes of a file: a document and a list, or the reason why there is none.

use std::fmt;

use jiff::tz::TimeZone;
use serde_json::Value;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A backup of metapi, which has the form of our own without our mark.
    MetapiBackup,
    MetapiDatabase,
    AllApiHub,
    NewApi,
    OneApi,
    CliProxyApi,
    LiteLlm,
    Sub2Api,
}

/// What a file gives.
#[derive(Debug)]
pub struct TakenOver {
    pub kind: Kind,
    /// A backup document, as an export of ours has it.
    pub document: Value,
    pub left_out: Vec<LeftOut>,
    /// How many more were left out than are listed.
    pub more_left_out: usize,
    /// What was taken of an export of All API Hub, as the answer to its import shows it.
    pub summary: Option<Value>,
}

/// Something in the file that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where it stands, as the file's owner finds it. Never a secret.
    pub place: String,
    pub reason: String,
}

/// Why a file gives nothing, for the person who chose it.
#[derive(Debug)]
pub struct Error(pub String);

/// What reading needs to know that no file says.
pub struct Context {
    /// What the passwords in the file may be sealed under, the likeliest first.
    pub secrets: Vec<String>,
    /// Reads a variable that a file names in place of a key. `None` where the file comes from somebody else than the
    /// owner of this process: a file could send any variable to an address of its own.
    pub variable: Option<fn(&str) -> Option<String>>,
    /// Where days begin and end.
    pub zone: TimeZone,
}

impl Kind {
    /// What a person calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MetapiBackup => "a backup of metapi",
            Self::MetapiDatabase => "a database of metapi",
            Self::AllApiHub => "an export of All API Hub",
            Self::NewApi => "a database of new-api",
            Self::OneApi => "a database of one-api",
            Self::CliProxyApi => "a configuration of CLIProxyAPI",
            Self::LiteLlm => "a configuration of LiteLLM",
            Self::Sub2Api => "an export of sub2api",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
