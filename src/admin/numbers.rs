//! Amounts and numbers as answers show them.

use serde_json::Value;

use super::input;

/// USD rounded as answers show it: six decimals, and no negative zero.
pub fn money(usd: f64) -> f64 {
    (usd * 1e6).round() / 1e6 + 0.0
}

/// A number as people write it: `1`, not `1.0`.
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
        for (usd, shown) in [(0.1 + 0.2, "0.3"), (1e-9, "0"), (-1e-9, "0"), (12.3456789, "12.345679")] {
            assert_eq!(number(money(usd)).to_string(), shown);
        }
    }
}
