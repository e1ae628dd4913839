//! Numbers in query strings: which part of a list is wanted, and whose.

use std::ops::RangeInclusive;

use hyper::header::{HeaderName, HeaderValue};

use super::input::Invalid;
use super::schema::{Member, Shape, may};
use crate::http::{Query, Response};
use crate::ids::AccountId;

/// How many items are wanted; moved into what the list allows.
pub const LIMIT: Member = may("limit", Shape::Integer);
/// How many items are left out before them.
pub const OFFSET: Member = may("offset", Shape::Integer);

/// The number under `name`, moved into `range`; `default` when it is absent or not a number.
pub fn number(query: &Query, name: &str, default: i64, range: RangeInclusive<i64>) -> i64 {
    let number = query.get(name).and_then(|text| text.trim().parse::<f64>().ok());
    // The conversion saturates, so a number of any size ends up in the range.
    number
        .filter(|number| number.is_finite())
        .map_or(default, |number| (number as i64).clamp(*range.start(), *range.end()))
}

/// Which part of a list that is whole by default is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    offset: i64,
    limit: i64,
}

/// Says how many items a list has of which a page is given.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

// === impl Page ===

impl Page {
    /// By `limit` and `offset`.
    pub fn of(query: &Query) -> Self {
        Self { offset: offset(query), limit: number(query, "limit", i64::MAX, 1..=i64::MAX) }
    }

    /// How many items are left out before it.
    pub fn offset(self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    /// How many items it has at most.
    pub fn limit(self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Whether nothing is left out.
    pub fn is_whole(self) -> bool {
        self.offset == 0 && self.limit == i64::MAX
    }
}

/// Says in an answer how many items its list has on all pages.
pub fn tell_total(response: &mut Response, total: usize) {
    response.headers_mut().insert(TOTAL, HeaderValue::from(total));
}

/// Whose rows to list, by `accountId`; absent or blank means everybody's.
pub fn account(query: &Query) -> Result<Option<AccountId>, Invalid> {
    let Some(text) = query.get("accountId").filter(|text| !text.is_empty()) else { return Ok(None) };
    let id = text.parse::<i64>().ok().filter(|&id| id > 0 && text.bytes().all(|byte| byte.is_ascii_digit()));
    id.map(|id| Some(AccountId::new(id))).ok_or_else(|| Invalid::field("accountId", "positive integer"))
}

/// Where a list begins.
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
