//! The answer of a provider to a login (RFC 6749, 4.1.2), as a browser brings it or as a person pastes it.
//!
//! | pasted | |
//! |---|---|
//! | `http://localhost:1455/auth/callback?code=…&state=…` | also behind `#`, and without `http://` |
//! | `code=…&state=…` | the query alone |
//! | `CODE#STATE` | as Claude's page shows it |
//! | `CODE` | the login is known from where it is pasted |

use crate::http::Query;
use crate::one_line::short_line;
use crate::routing::Secret;

/// The longest code that is accepted, in bytes.
const MAX_CODE: usize = 8 * 1024;
/// The shortest text that counts as a code when it stands alone, in bytes: a shorter one is a slip.
const MIN_CODE: usize = 20;
/// The most of a provider's words that is kept, in characters.
const MAX_WORDS: usize = 500;

/// The answer of a provider to one login.
#[derive(Clone, Debug)]
pub struct Callback {
    pub state: String,
    pub outcome: Outcome,
}

/// The decision of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Code(Secret),
    /// `error: description`, in one line.
    Denied(String),
}

// === impl Callback ===

impl Callback {
    /// Reads the query of a callback; `None` when it has no state, or neither a code nor an error.
    pub fn of_query(query: &Query) -> Option<Self> {
        Self::of(&|name| query.get(name), None)
    }

    /// Reads the text that a person has pasted for the login with this state; `None` when it is no callback.
    pub fn of_pasted(text: &str, state: &str) -> Option<Self> {
        let text = text.trim();
        let is_address = ["://", "?", "code=", "error="].iter().any(|sign| text.contains(sign));
        if !is_address {
            let (code, own) = text.split_once('#').map_or((text, None), |(code, own)| (code, Some(own)));
            let is_code = code.len() >= MIN_CODE || own.is_some_and(|own| !own.is_empty());
            let is_code = is_code && !code.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            let callback =
                |state: &str| Self { state: state.to_owned(), outcome: Outcome::Code(Secret::from(code)) };
            return is_code.then(|| callback(own.filter(|own| !own.is_empty()).unwrap_or(state)));
        }
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let query = before
            .split_once('?')
            .map_or_else(|| if before.contains("://") { "" } else { before }, |(_, query)| query);
        let (query, fragment) = (Query::new(query), Query::new(fragment.trim_start_matches(['?', '/'])));
        // Claude's page appends the state to the code.
        let tail = Some(fragment.raw()).filter(|tail| !tail.is_empty() && !tail.contains('='));
        Self::of(&|name| query.get(name).or_else(|| fragment.get(name)), tail)
    }

    fn of(get: &dyn Fn(&str) -> Option<String>, tail: Option<&str>) -> Option<Self> {
        let get = |name: &str| get(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let code = get("code").filter(|code| code.len() <= MAX_CODE);
        let (code, of_code) = match code.as_deref().and_then(|code| code.split_once('#')) {
            Some((code, state)) => (Some(code.to_owned()), Some(state.to_owned())),
            None => (code, None),
        };
        let state = get("state").or(of_code).or_else(|| tail.map(str::to_owned))?;
        let outcome = match (get("error"), code) {
            (Some(error), _) => Outcome::Denied(words(&error, get("error_description").as_deref())),
            (None, Some(code)) => Outcome::Code(Secret::from(code)),
            (None, None) => return None,
        };
        Some(Self { state, outcome })
    }
}

/// Joins a provider's error and its description into one bounded line without control characters.
fn words(error: &str, description: Option<&str>) -> String {
    let text = match description {
        Some(description) => format!("{error}: {description}"),
        None => error.to_owned(),
    };
    short_line(&text, MAX_WORDS, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "ac_0123456789-0123456789";

    fn pasted(text: &str) -> Option<(String, String)> {
        Callback::of_pasted(text, "own").map(|callback| match callback.outcome {
            Outcome::Code(code) => (callback.state, code.expose().to_owned()),
            Outcome::Denied(words) => (callback.state, format!("! {words}")),
        })
    }

    #[test]
    fn every_form_of_what_is_pasted_is_read() {
        let long = format!("{LONG}#s");
        for (text, state, outcome) in [
            ("http://localhost:1455/auth/callback?code=a%2Fb&state=s", "s", "a/b"),
            ("  http://localhost:1455/auth/callback?state=s&code=a\n", "s", "a"),
            ("localhost:1455/auth/callback?code=a&state=s", "s", "a"),
            ("https://console.example/cb#code=a&state=s", "s", "a"),
            ("https://console.example/cb?code=a#s", "s", "a"),
            ("https://console.example/cb?code=a&state=s#", "s", "a"),
            ("http://localhost/cb?code=a%23s", "s", "a"),
            ("code=a&state=s", "s", "a"),
            ("?code=a&state=s", "s", "a"),
            ("a#s", "s", "a"),
            (&long, "s", LONG),
            ("0123456789-0123456789==#s", "s", "0123456789-0123456789=="),
            (LONG, "own", LONG),
            (
                "http://l/?error=access_denied&error_description=Not%0D%0Atoday&state=s",
                "s",
                "! access_denied: Not today",
            ),
            ("http://l/?error=access_denied&state=s&code=a", "s", "! access_denied"),
        ] {
            assert_eq!(pasted(text), Some((state.to_owned(), outcome.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_brings_nothing_back_is_refused() {
        for text in [
            "",
            "not a url",
            "short",
            "http://localhost:1455/auth/callback",
            "http://localhost:1455/auth/callback?code=a",
            "http://localhost:1455/auth/callback?state=s",
            "http://localhost:1455/auth/callback?code=&state=s",
            "#s",
            "a code with blanks in it, long enough",
        ] {
            assert_eq!(pasted(text), None, "{text}");
        }
        assert_eq!(pasted(&format!("http://l/?code={}&state=s", "x".repeat(MAX_CODE + 1))), None);
    }
}
