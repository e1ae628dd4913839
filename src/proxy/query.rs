//! The query of a client's request: what of it goes upstream, and the credential in it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters that every API of Google understands (<https://cloud.google.com/apis/docs/system-parameters>), beside
/// those that begin with `$`: credentials, and the form of the answer, which is ours to choose. With `fields` a client could
/// leave out the usage that it is charged by. `prettyPrint` changes blanks alone and is left out of this list.
const SYSTEM_PARAMETERS: [&str; 11] = [
    "access_token",
    "alt",
    "callback",
    "fields",
    "key",
    "oauth_token",
    "quotaUser",
    "uploadType",
    "upload_protocol",
    "userIp",
    "userProject",
];

/// Returns the query that goes upstream: everything but [`SYSTEM_PARAMETERS`] and a model other than the requested one.
pub(super) fn forwarded(raw: &str) -> String {
    let mut out = String::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        if !is_system_parameter(&name_in(pair)) && !names_model(pair) {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(pair);
        }
    }
    out
}

fn is_system_parameter(name: &str) -> bool {
    name.starts_with('$') || SYSTEM_PARAMETERS.contains(&name)
}

/// Returns the caller's credential in the query, decoded.
pub(super) fn key(raw: &str) -> Option<Cow<'_, str>> {
    let key = raw.split('&').find(|pair| name_in(pair) == "key")?.split_once('=')?.1;
    Some(percent_decode_str(key).decode_utf8_lossy())
}

/// Returns the query with `beta=true`, with which the clients of messages count tokens.
pub(super) fn with_beta(query: &str) -> String {
    let others = query.split(['?', '&']).filter(|pair| !pair.is_empty() && name_in(pair) != "beta");
    others.fold(String::from("?beta=true"), |query, pair| query + "&" + pair)
}

/// Returns the decoded name of a query pair.
fn name_in(pair: &str) -> Cow<'_, str> {
    let name = pair.split('=').next().unwrap_or_default();
    percent_decode_str(name).decode_utf8_lossy()
}

/// Whether a query pair names a model, in any spelling that a reader may accept.
fn names_model(pair: &str) -> bool {
    name_in(pair).replace('+', " ").trim().eq_ignore_ascii_case("model")
}

#[cfg(test)]
mod tests {
    use super::{forwarded, with_beta};

    #[test]
    fn the_beta_is_asked_for_once() {
        for (raw, asked) in
            [("", "?beta=true"), ("?a=1&b", "?beta=true&a=1&b"), ("?b%65ta=false&a", "?beta=true&a")]
        {
            assert_eq!(with_beta(raw), asked, "{raw}");
        }
    }

    #[test]
    fn the_key_never_goes_upstream() {
        for (raw, sent) in [
            ("", ""),
            ("key=sk-1", ""),
            ("beta=true&key=sk-1", "?beta=true"),
            ("alt=sse&a=1", "?a=1"),
            ("%6bey=sk-1&a=1&b", "?a=1&b"),
            ("monkey=1", "?monkey=1"),
            ("fields=candidates&a=1&%24alt=proto&$.xgafv=2", "?a=1"),
        ] {
            assert_eq!(forwarded(raw), sent, "{raw}");
        }
    }
}
