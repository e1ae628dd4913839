//! Numbers as responses show them.

use serde_json::Value;

use super::input;

/// Shows a ratio, rounded to six decimals.
pub fn ratio(value: f64) -> Value {
    number((value * 1e6).round() / 1e6)
}

/// Shows a number without needless decimals: `1`, not `1.0`.
pub fn number(value: f64) -> Value {
    input::whole(value).map_or_else(|| value.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_no_needless_decimals() {
        for (value, shown) in [(1.0, "1"), (-0.0, "0"), (0.1 + 0.2, "0.30000000000000004"), (2.5, "2.5")] {
            assert_eq!(number(value).to_string(), shown);
        }
        assert_eq!(ratio(2.0 / 3.0).to_string(), "0.666667");
    }
}
