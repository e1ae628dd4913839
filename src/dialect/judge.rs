//! Tells a failed answer that came with a good status (proxy.md 9).

use super::{Dialect, usage::Usage};

/// The operator's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    keywords: Vec<String>,
    empty_content_fails: bool,
}

impl Rules {
    /// Keywords are trimmed and compared without case; blank ones are ignored.
    pub fn new<'a>(_keywords: impl IntoIterator<Item = &'a str>, empty_content_fails: bool) -> Self {
        Self { keywords: Vec::new(), empty_content_fails }
    }
}

/// Why an answer with a 2xx status is a failure (502 for the client, a fault of the channel).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An HTML page; with its title.
    Html(String),
    NotJson,
    /// The body is an error object.
    Error(super::errors::UpstreamError),
    Keyword(String),
    Empty,
}

impl Fault {
    /// What the client and the log are told.
    pub fn message(&self) -> String {
        String::new()
    }
}

/// Judges a complete 2xx answer and reads its usage.
pub fn reply(_dialect: Dialect, _body: &[u8], rules: &Rules) -> Result<Option<Usage>, Fault> {
    let _ = (&rules.keywords, rules.empty_content_fails);
    Ok(None)
}
