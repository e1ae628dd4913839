//! Numbers in query strings: which part of a list is wanted.

use std::ops::RangeInclusive;

use crate::http::Query;

/// The number under `name`, moved into `range`; `default` when it is absent or not a number.
pub fn number(query: &Query, name: &str, default: i64, range: RangeInclusive<i64>) -> i64 {
    let number = query.get(name).and_then(|text| text.trim().parse::<f64>().ok());
    // The conversion saturates, so a number of any size ends up in the range.
    number
        .filter(|number| number.is_finite())
        .map_or(default, |number| (number as i64).clamp(*range.start(), *range.end()))
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
}
