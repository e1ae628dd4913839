//! Numbers as responses show them.

use serde_json::Value;

use crate::json_number::shortest;

/// Shows a ratio, rounded to six decimals.
pub fn ratio(value: f64) -> Value {
    shortest((value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_six_decimals() {
        assert_eq!(ratio(2.0 / 3.0).to_string(), "0.666667");
        assert_eq!(ratio(1.0).to_string(), "1");
    }
}
