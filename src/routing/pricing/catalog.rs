//! The price list of a site, as one account gets it.
//!
//! Sites of the new-api family price a model as a ratio to one base price (2 USD per million tokens),
//! with further ratios for output and cache, and multiply by the ratio of the caller's group.

use std::collections::HashMap;
use std::fmt;

use super::bill;
use super::price::ModelPrice;

/// The prices of one site for one account.
#[derive(Default, PartialEq)]
pub struct Catalog {
    /// All models, in the published order.
    models: Vec<ModelPrice>,
    exact: HashMap<Box<str>, usize>,
    /// Places by lower-cased name; of names that differ only in case, the first counts.
    folded: HashMap<Box<str>, usize>,
    /// Multipliers of the groups in the published order; `default` is always among them.
    groups: Vec<(String, f64)>,
}

// === impl Catalog ===

impl Catalog {
    /// Builds the list from what a site publishes, and settles which group's multiplier applies to each model.
    pub fn new(models: Vec<ModelPrice>, mut groups: Vec<(String, f64)>) -> Self {
        groups.retain(|(_, ratio)| ratio.is_finite() && *ratio > 0.0);
        if !groups.iter().any(|(name, _)| name == "default") {
            groups.push(("default".to_owned(), 1.0));
        }
        let mut catalog = Self { groups, ..Self::default() };
        for mut model in models {
            model.group_ratio = multiplier(&model.groups, &catalog.groups);
            model.reference_cost = bill::reference(&model);
            let index = catalog.models.len();
            catalog.exact.entry(model.name.as_str().into()).or_insert(index);
            catalog.folded.entry(model.name.to_lowercase().into()).or_insert(index);
            catalog.models.push(model);
        }
        catalog
    }

    /// Returns the price of a model: by its exact name, else ignoring case.
    pub fn price(&self, model: &str) -> Option<&ModelPrice> {
        let index = self.exact.get(model).or_else(|| self.folded.get(model.to_lowercase().as_str()))?;
        self.models.get(*index)
    }

    /// Returns every model of the list.
    pub fn models(&self) -> &[ModelPrice] {
        &self.models
    }

    /// Returns the multiplier of a group, if the site publishes one.
    pub fn group_ratio(&self, group: &str) -> Option<f64> {
        ratio_of(&self.groups, group)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog of {} models", self.models.len())
    }
}

/// Returns the multiplier of the `default` group if the model is open to it; else that of the first of the model's groups
/// that has one; else the first published one.
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
