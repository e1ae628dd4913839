//! The price of one model, as a site publishes it.

use crate::money::Usd;

/// The unit of a per-call price that is published as an object: 0.002 USD.
const CALL_UNIT: Usd = Usd::new(0.002);

/// The price of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPrice {
    pub name: String,
    pub billing: Billing,
    /// The multiplier of the group under which the account is billed.
    pub group_ratio: f64,
    /// The price of half a million tokens in and as many out, or of one call; channels are compared by it.
    pub reference_cost: Usd,
    /// The groups that may use the model.
    pub groups: Vec<String>,
    pub labels: Labels,
}

/// How a model is charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Billing {
    PerToken(Ratios),
    /// `None` when the site publishes "per call" without a price.
    PerCall(Option<CallPrice>),
}

/// Prices as ratios: `model` is relative to 2 USD per million tokens, the others are relative to `model`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    pub model: f64,
    pub completion: f64,
    pub cache_read: f64,
    pub cache_creation: f64,
}

/// The price of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallPrice {
    Flat(Usd),
    /// Prices of input and output, in units of 0.002 USD; only `input` is charged.
    Sides {
        input: f64,
        output: f64,
    },
}

/// What a site publishes about a model besides its price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub endpoint_types: Vec<String>,
    pub owner: Option<String>,
}

// === impl ModelPrice ===

impl ModelPrice {
    /// Builds a price whose group multiplier and reference cost [`Catalog::new`](super::Catalog::new) settles.
    pub fn new(name: impl Into<String>, billing: Billing, groups: Vec<String>, labels: Labels) -> Self {
        Self { name: name.into(), billing, group_ratio: 1.0, reference_cost: Usd::ZERO, groups, labels }
    }

    /// Returns the price of a call under a group's multiplier; `None` when tokens are charged or no price is known.
    #[cfg(test)]
    pub fn per_call(&self, group_ratio: f64) -> Option<Usd> {
        match self.billing {
            Billing::PerCall(Some(price)) => Some(price.under(group_ratio)),
            _ => None,
        }
    }
}

// === impl CallPrice ===

impl CallPrice {
    /// Returns the price under a group's multiplier.
    pub fn under(self, group_ratio: f64) -> Usd {
        match self {
            Self::Flat(price) => (price * group_ratio).price(),
            Self::Sides { input, .. } => (CALL_UNIT * (input * group_ratio)).price(),
        }
    }
}

impl Default for Ratios {
    fn default() -> Self {
        Self { model: 1.0, completion: 1.0, cache_read: 1.0, cache_creation: 1.0 }
    }
}
