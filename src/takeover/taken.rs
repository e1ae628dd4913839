//! The result of reading a file: a document and a list, or the reason why there is none.

use std::fmt;

use jiff::tz::TimeZone;
use serde_json::Value;

/// The kind of file, by the program that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A backup of metapi, which has our own format without our mark.
    MetapiBackup,
    MetapiDatabase,
    AllApiHub,
    NewApi,
    OneApi,
    CliProxyApi,
    LiteLlm,
    Sub2Api,
}

/// The result of taking over a file.
#[derive(Debug)]
pub struct TakenOver {
    pub kind: Kind,
    /// A backup document in the format of our own exports.
    pub document: Value,
    pub left_out: Vec<LeftOut>,
    /// The number of entries left out beyond those listed.
    pub more_left_out: usize,
    /// What was taken from an export of All API Hub, as shown in the response to its import.
    pub summary: Option<Value>,
}

/// Something in the file that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The place in the file, as its owner finds it. Never a secret.
    pub place: String,
    pub reason: String,
}

/// Why a file cannot be taken over, for the person who chose it.
#[derive(Debug)]
pub struct Error(pub String);

/// Information needed for reading that no file contains.
pub struct Context {
    /// Secrets under which passwords in the file may be sealed, the likeliest first.
    pub secrets: Vec<String>,
    /// Reads a variable that a file names in place of a key. `None` when the file does not come from the owner
    /// of this process: such a file could send any variable to an address of its own.
    pub variable: Option<fn(&str) -> Option<String>>,
    /// The time zone in which days begin and end.
    pub zone: TimeZone,
}

impl Kind {
    /// Returns the name for people.
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
