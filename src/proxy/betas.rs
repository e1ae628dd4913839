//! The betas of a messages request, which the header `anthropic-beta` lists: more are added, refused ones are left out.

use hyper::header::{HeaderName, HeaderValue};

use crate::upstream::RequestHeaders;

pub(super) const HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

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

/// Writes the header anew: `first`, then the betas that it already names, then `more`.
pub(super) fn add(out: &mut RequestHeaders, first: Option<&str>, more: &[String]) {
    let mut all: Vec<&str> = Vec::new();
    for beta in first.into_iter().chain(given(out)).chain(more.iter().map(String::as_str)) {
        if !all.contains(&beta) {
            all.push(beta);
        }
    }
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
