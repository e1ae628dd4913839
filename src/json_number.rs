//! Numbers in JSON: whole ones, which many programs hold as doubles, exact only up to a bound; and those that programs write
//! as text.

use serde_json::Value;

/// The largest integer that every program reads exactly (RFC 8259, section 6).
pub const MAX_EXACT: i64 = 9_007_199_254_740_991;

/// Returns the integer in a JSON number: `2.0` gives 2. `None` if it has a fraction or is beyond [`MAX_EXACT`].
pub fn exact_integer(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    match number.as_i64() {
        Some(integer) => (integer.unsigned_abs() <= MAX_EXACT.unsigned_abs()).then_some(integer),
        None => whole(number.as_f64()?),
    }
}

/// Returns the number as an integer; `None` if it has a fraction or is beyond [`MAX_EXACT`].
pub fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= MAX_EXACT as f64).then_some(number as i64)
}

/// Reads a finite number, also from text.
pub fn number_or_text(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    number.is_finite().then_some(number)
}

/// Converts to JSON without needless decimals: `1`, not `1.0`.
pub fn shortest(number: f64) -> Value {
    whole(number).map_or_else(|| number.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_integer_is_exact_or_none() {
        for (value, expected) in [
            (json!(-7), Some(-7)),
            (json!(2.0), Some(2)),
            (json!(MAX_EXACT), Some(MAX_EXACT)),
            (json!(-MAX_EXACT), Some(-MAX_EXACT)),
            (json!(MAX_EXACT + 1), None),
            (json!(i64::MIN), None),
            (json!(u64::MAX), None),
            (json!(2.5), None),
            (json!(1e300), None),
            (json!("2"), None),
        ] {
            assert_eq!(exact_integer(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_number_may_be_a_text() {
        for (value, expected) in [
            (json!(-1.5), Some(-1.5)),
            (json!(" 7 "), Some(7.0)),
            (json!("1e3"), Some(1000.0)),
            (json!("inf"), None),
            (json!("NaN"), None),
            (json!("seven"), None),
            (json!(""), None),
            (json!(true), None),
            (json!(null), None),
        ] {
            assert_eq!(number_or_text(&value), expected, "{value}");
        }
    }

    #[test]
    fn numbers_show_no_needless_decimals() {
        for (value, shown) in [(1.0, "1"), (-0.0, "0"), (0.1 + 0.2, "0.30000000000000004"), (2.5, "2.5")] {
            assert_eq!(shortest(value).to_string(), shown);
        }
        assert_eq!(shortest(1e300), json!(1e300));
    }
}
