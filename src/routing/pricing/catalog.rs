//! The price list of a site, as one account sees it.
//!
//! Sites of the new-api family price a model as a ratio to one base price (2 USD per million tokens),
//! with further ratios for output and cache, and multiply by the ratio of the caller's group.

use std::collections::HashMap;
use std::fmt;

use super::bill;
use crate::money::Usd;

/// A price of 0 counts as this much where prices are compared: nothing weighs infinitely.
const LEAST_REFERENCE: Usd = Usd::new(1e-6);
/// A per-call price as an object counts in units of 0.002 USD.
const CALL_UNIT: Usd = Usd::new(0.002);

/// The prices of one site for one account.
#[derive(Default, PartialEq)]
pub struct Catalog {
    /// As published.
    models: Vec<ModelPrice>,
    exact: HashMap<Box<str>, usize>,
    /// By lower-cased name; of several that differ in case only, the first.
    folded: HashMap<Box<str>, usize>,
    /// Multipliers of the groups in the published order; always with `default`.
    groups: Vec<(String, f64)>,
}

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
    /// USD.
    Flat(Usd),
    /// In units of 0.002 USD; only the first is charged.
    Sides { input: f64, output: f64 },
}

/// What a site says of a model besides its price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub endpoint_types: Vec<String>,
    pub owner: Option<String>,
}

// === impl Catalog ===

impl Catalog {
    /// From what a site publishes. Settles which group's multiplier counts for each model.
    pub fn new(models: Vec<ModelPrice>, mut groups: Vec<(String, f64)>) -> Self {
        groups.retain(|(_, ratio)| ratio.is_finite() && *ratio > 0.0);
        if !groups.iter().any(|(name, _)| name == "default") {
            groups.push(("default".to_owned(), 1.0));
        }
        let mut catalog = Self { groups, ..Self::default() };
        for mut model in models {
            model.group_ratio = multiplier(&model.groups, &catalog.groups);
            model.reference_cost = model.reference();
            let index = catalog.models.len();
            catalog.exact.entry(model.name.as_str().into()).or_insert(index);
            catalog.folded.entry(model.name.to_lowercase().into()).or_insert(index);
            catalog.models.push(model);
        }
        catalog
    }

    /// The price of a model: by its very name, else ignoring case.
    pub fn price(&self, model: &str) -> Option<&ModelPrice> {
        let index = self.exact.get(model).or_else(|| self.folded.get(model.to_lowercase().as_str()))?;
        self.models.get(*index)
    }

    /// Every model of the list.
    pub fn models(&self) -> &[ModelPrice] {
        &self.models
    }

    /// The multiplier of a group, when the site names one.
    pub fn group_ratio(&self, group: &str) -> Option<f64> {
        ratio_of(&self.groups, group)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog of {} models", self.models.len())
    }
}

/// The `default` group's ratio where the model is open to it; else that of the first of its groups
/// that has one; else the first there is.
fn multiplier(enabled: &[String], groups: &[(String, f64)]) -> f64 {
    let default = enabled.iter().any(|group| group == "default").then_some("default");
    default
        .into_iter()
        .chain(enabled.iter().map(String::as_str))
        .find_map(|group| ratio_of(groups, group))
        .or_else(|| groups.first().map(|(_, ratio)| *ratio))
        .unwrap_or(1.0)
}

fn ratio_of(groups: &[(String, f64)], name: &str) -> Option<f64> {
    groups.iter().find(|(group, _)| group == name).map(|(_, ratio)| *ratio)
}

// === impl ModelPrice ===

impl ModelPrice {
    /// A price whose group [`Catalog::new`] settles.
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

    fn reference(&self) -> Usd {
        let cost = match self.billing {
            Billing::PerToken(ratios) => bill::reference(&ratios, self.group_ratio),
            Billing::PerCall(Some(price)) => price.under(self.group_ratio),
            Billing::PerCall(None) => return Usd::ZERO,
        };
        if cost < LEAST_REFERENCE { LEAST_REFERENCE } else { cost }
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
