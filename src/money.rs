//! Money: amounts in US dollars, the unit of upstreams' prices and balances.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::json_number;

/// Billionths per dollar; sums are kept in billionths, since sums of fractions drift.
const NANO: f64 = 1e9;
/// The largest amount that a site is believed to have, in dollars.
const MAX_BELIEVED: f64 = 1e15;

/// An amount in US dollars. In JSON a whole amount has no decimals: `1`, not `1.0`.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(transparent)]
pub struct Usd(f64);

impl Usd {
    pub const ZERO: Self = Self(0.0);

    pub const fn new(dollars: f64) -> Self {
        Self(dollars)
    }

    pub const fn dollars(self) -> f64 {
        self.0
    }

    /// Rounds to millionths of a dollar, as shown to people; without a negative zero. An amount whose millionths are
    /// beyond the range of numbers is whole already.
    pub fn rounded(self) -> Self {
        let rounded = (self.0 * 1e6).round() / 1e6 + 0.0;
        if rounded.is_finite() { Self(rounded) } else { self }
    }

    /// Rounds to millionths of a dollar; negative amounts and NaN become 0.
    pub fn price(self) -> Self {
        Self(self.0.max(0.0)).rounded()
    }

    pub fn from_nano(nano: i64) -> Self {
        Self(nano as f64 / NANO)
    }

    /// Converts to billionths of a dollar; an amount beyond their range is clamped, and NaN becomes 0.
    pub fn nano(self) -> i64 {
        (self.0 * NANO).round() as i64
    }

    /// Whether a site may mean this amount: beyond it, sums and JSON numbers lose their sense.
    pub fn is_believable(self) -> bool {
        self.0.abs() <= MAX_BELIEVED
    }

    pub const fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// Returns the larger of both, and the other one if one is NaN.
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Returns the smaller of both, and the other one if one is NaN.
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<f64> for Usd {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.map(Self::dollars).sum())
    }
}

impl From<Usd> for Value {
    fn from(amount: Usd) -> Self {
        json_number::shortest(amount.0)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::from(*self).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_shown_in_millionths_without_needless_decimals() {
        for (dollars, shown) in [
            (0.1 + 0.2, "0.3"),
            (1e-9, "0"),
            (-1e-9, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (12.345_678_9, "12.345679"),
            (f64::NAN, "null"),
        ] {
            let amount = Usd::new(dollars).rounded();
            assert_eq!(Value::from(amount).to_string(), shown);
            assert_eq!(serde_json::to_string(&amount).unwrap(), shown);
        }
    }

    #[test]
    fn a_price_is_never_below_nothing() {
        for (dollars, price) in [(0.000_000_5, 0.000_001), (0.000_000_4, 0.0), (-1.0, 0.0), (f64::NAN, 0.0)] {
            assert_eq!(Usd::new(dollars).price(), Usd::new(price));
        }
    }

    #[test]
    fn billionths_lead_back_to_the_amount() {
        assert_eq!(Usd::from_nano(Usd::new(0.123_456_789).nano()), Usd::new(0.123_456_789));
        assert_eq!((Usd::new(f64::INFINITY).nano(), Usd::new(f64::NAN).nano()), (i64::MAX, 0));
    }
}
