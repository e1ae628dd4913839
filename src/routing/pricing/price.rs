//! What one model costs, as a site publishes it.

use crate::money::Usd;

/// A per-call price as an object counts in units of 0.002 USD.
const CALL_UNIT: Usd = Usd::new(0.002);

/// What one model costs.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPrice {
    pub name: String,
    pub billing: Billing,
    /// Multiplier of the group that the account is billed under.
    pub group_ratio: f64,
    /// What half a million tokens in and as many out cost, or one call; what channels are compared by.
    pub reference_cost: Usd,
    /// The groups that may use the model.
    pub groups: Vec<String>,
    pub labels: Labels,
}

/// How a model is charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Billing {
    PerToken(Ratios),
    /// `None`: the site says "per call" without a price.
    PerCall(Option<CallPrice>),
}

/// Prices as ratios: the model's to 2 USD per million tokens, the others to the model's.
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
    /// In units of 0.002 USD; only the first is charged.
    Sides {
        input: f64,
        output: f64,
    },
}

/// What a site says of a model besides its price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub endpoint_types: Vec<String>,
    pub owner: Option<String>,
}

// === impl ModelPrice ===

impl ModelPrice {
    /// A price whose group and reference cost [`Catalog::new`](super::Catalog::new) settles.
    pub fn new(name: impl Into<String>, billing: Billing, groups: Vec<String>, labels: Labels) -> Self {
        Self { name: name.into(), billing, group_ratio: 1.0, reference_cost: Usd::ZERO, groups, labels }
    }

    /// What a call costs under a group's multiplier; `None` when tokens are charged or no price is known.
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
    /// Under a group's multiplier.
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
