//! The betas of a messages request, which the header `anthropic-beta` lists: more are added, refused ones are left out.

use std::collections::HashSet;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;

use crate::dialect::canonical::ConversionError;
use crate::dialect::json;
use crate::upstream::RequestHeaders;

/// The member of a body that lists betas, as the vendor's SDKs take them for a method's parameter.
pub(super) const MEMBER: &str = "betas";
pub(super) const HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

/// The maximum number of betas in a body: the vendor has some thirty, and they become one header.
const MAX_IN_BODY: usize = 100;
/// The maximum length of the name of a beta in a body, in bytes.
const MAX_NAME: usize = 100;

/// The betas that an upstream refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum RefusedBetas {
    #[default]
    None,
    Named(Vec<String>),
    /// The upstream does not say which.
    All,
}

// === impl RefusedBetas ===

impl RefusedBetas {
    /// The maximum number of names that are kept.
    const MAX: usize = 32;

    /// Adds what another refusal tells.
    pub(super) fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) | (_, Self::None) => {}
            (Self::Named(known), Self::Named(more)) => {
                let new: Vec<String> = more.iter().filter(|beta| !known.contains(beta)).cloned().collect();
                known.extend(new.into_iter().take(Self::MAX.saturating_sub(known.len())));
            }
            (_, other) => *self = other.clone(),
        }
    }

    fn contain(&self, beta: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(named) => named.iter().any(|named| named.eq_ignore_ascii_case(beta)),
            Self::All => true,
        }
    }
}

/// Returns the betas in a list that is separated by commas.
pub(super) fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|beta| !beta.is_empty())
}

/// Reads the member `betas` of a messages body, a list or a text that is separated by commas.
///
/// # Errors
///
/// Fails if it has more or longer names than a header should carry.
pub(super) fn in_body(body: &str) -> Result<Vec<String>, ConversionError> {
    let betas: Vec<String> = match json::member(body, MEMBER).map(serde_json::from_str) {
        Some(Ok(Value::String(text))) => listed(&text).map(str::to_owned).collect(),
        Some(Ok(Value::Array(items))) => {
            items.iter().filter_map(Value::as_str).flat_map(listed).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    if betas.len() > MAX_IN_BODY || betas.iter().any(|beta| beta.len() > MAX_NAME) {
        let problem = format!("must have at most {MAX_IN_BODY} names of at most {MAX_NAME} bytes");
        return Err(ConversionError::invalid(MEMBER, &problem));
    }
    Ok(betas)
}

/// Writes the header anew: `first`, then the betas that it already names, then `more`.
pub(super) fn add(out: &mut RequestHeaders, first: Option<&str>, more: &[String]) {
    let mut seen = HashSet::new();
    let mut all: Vec<&str> =
        first.into_iter().chain(given(out)).chain(more.iter().map(String::as_str)).collect();
    all.retain(|beta| seen.insert(*beta));
    if let Ok(value) = HeaderValue::from_str(&all.join(",")) {
        out.set(HEADER, value);
    }
}

/// Takes refused betas out of the header.
pub(super) fn leave_out(out: &mut RequestHeaders, refused: &RefusedBetas) {
    let left: Vec<&str> = given(out).filter(|beta| !refused.contain(beta)).collect();
    match HeaderValue::from_str(&left.join(",")) {
        Ok(value) if !left.is_empty() => out.set(HEADER, value),
        _ => out.remove(&HEADER),
    }
}

fn given(headers: &RequestHeaders) -> impl Iterator<Item = &str> {
    listed(headers.get(&HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn betas_of_a_body_are_a_list_or_a_text_and_bounded() {
        let betas = |body: &str| in_body(body);
        assert_eq!(betas(r#"{"betas":["a"," b, c ",7]}"#).unwrap(), ["a", "b", "c"]);
        assert_eq!(betas(r#"{"betas":"a, b,,"}"#).unwrap(), ["a", "b"]);
        assert!(betas("{}").unwrap().is_empty() && betas(r#"{"betas":null}"#).unwrap().is_empty());
        let many = |count: usize| format!(r#"{{"betas":"{}"}}"#, "a,".repeat(count));
        assert_eq!(betas(&many(MAX_IN_BODY)).unwrap().len(), MAX_IN_BODY);
        let long = format!(r#"{{"betas":["{}"]}}"#, "a".repeat(MAX_NAME + 1));
        for body in [many(MAX_IN_BODY + 1), long] {
            assert!(matches!(betas(&body), Err(ConversionError::Invalid { field, .. }) if field == MEMBER));
        }
    }

    #[test]
    fn a_beta_is_listed_once() {
        let mut headers = RequestHeaders::default();
        headers.set(HEADER, HeaderValue::from_static("b, a"));
        add(&mut headers, Some("c"), &["a".to_owned(), "d".to_owned()]);
        assert_eq!(headers.get(&HEADER).unwrap(), "c,b,a,d");
    }
}
