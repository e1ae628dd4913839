//! Query parameters of lists: which part is wanted, and of which account.

use std::ops::RangeInclusive;

use hyper::header::{HeaderName, HeaderValue};

use super::input::Invalid;
use super::schema::{Member, Shape, may};
use crate::http::{Query, Response};
use crate::ids::AccountId;

/// The maximum number of items wanted; clamped to the list's bounds.
pub const LIMIT: Member = may("limit", Shape::Integer);
/// The number of items to skip.
pub const OFFSET: Member = may("offset", Shape::Integer);

/// Reads the number under `name`, clamped to `range`; `default` when it is absent or not a number.
pub fn number(query: &Query, name: &str, default: i64, range: RangeInclusive<i64>) -> i64 {
    let number = query.get(name).and_then(|text| text.trim().parse::<f64>().ok());
    // The conversion saturates, so a number of any size ends up in the range.
    number
        .filter(|number| number.is_finite())
        .map_or(default, |number| (number as i64).clamp(*range.start(), *range.end()))
}

/// The wanted part of a list that is returned whole by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    offset: i64,
    limit: i64,
}

/// The response header with the number of items in the whole list.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

// === impl Page ===

impl Page {
    /// Reads `limit` and `offset`.
    pub fn of(query: &Query) -> Self {
        Self { offset: offset(query), limit: number(query, "limit", i64::MAX, 1..=i64::MAX) }
    }

    /// The number of items to skip.
    pub fn offset(self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    /// The maximum number of items.
    pub fn limit(self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Whether the whole list is wanted.
    pub fn is_whole(self) -> bool {
        self.offset == 0 && self.limit == i64::MAX
    }
}

/// Sets the response header with the number of items on all pages.
pub fn tell_total(response: &mut Response, total: usize) {
    response.headers_mut().insert(TOTAL, HeaderValue::from(total));
}

/// Reads the account whose rows are wanted from `accountId`; absent or empty means all accounts.
pub fn account(query: &Query) -> Result<Option<AccountId>, Invalid> {
    let Some(text) = query.get("accountId").filter(|text| !text.is_empty()) else { return Ok(None) };
    let id = text.parse::<i64>().ok().filter(|&id| id > 0 && text.bytes().all(|byte| byte.is_ascii_digit()));
    id.map(|id| Some(AccountId::new(id))).ok_or_else(|| Invalid::field("accountId", "positive integer"))
}

/// Reads the number of items to skip.
pub fn offset(query: &Query) -> i64 {
    number(query, "offset", 0, 0..=i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_moved_into_their_range_and_other_text_is_the_default() {
        for (text, expected) in [
            ("limit=7", 7),
            ("limit=+7", 7),
            ("limit=7.9", 7),
            ("limit=0", 1),
            ("limit=-3", 1),
            ("limit=1e30", 100),
            ("limit=many", 50),
            ("limit=NaN", 50),
            ("limit=", 50),
            ("", 50),
        ] {
            assert_eq!(number(&Query::new(text), "limit", 50, 1..=100), expected, "{text}");
        }
    }

    #[test]
    fn an_account_is_named_by_a_strict_id() {
        for (text, id) in [
            ("", Ok(None)),
            ("7", Ok(Some(AccountId::new(7)))),
            ("7abc", Err(())),
            ("0", Err(())),
            ("-1", Err(())),
        ] {
            assert_eq!(account(&Query::new(&format!("accountId={text}"))).map_err(drop), id, "{text}");
        }
        assert_eq!(account(&Query::new("")), Ok(None));
    }
}
