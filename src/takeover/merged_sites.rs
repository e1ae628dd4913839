//! Sites that another program keeps apart although they have the same platform and address: they are one site here.
//! The one with the lowest id is kept, and whatever refers to the others then refers to it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::draft::LeftList;
use crate::platform::Platform;
use crate::site_url::SiteUrl;

/// The arrays whose rows refer to a site, and the member that only one row of a site may have with a value; empty
/// where there is no such member.
const DEPENDENTS: [(&str, &str); 4] = [
    ("siteApiEndpoints", "url"),
    ("siteDisabledModels", "modelName"),
    ("accounts", ""),
    ("oauthRouteUnits", ""),
];

/// The sites that were merged, by id, each with the id of the one that is kept.
#[derive(Default)]
pub(super) struct MergedSites(HashMap<i64, i64>);

impl MergedSites {
    /// Merges the sites of an accounts section, and lists those that are merged into others.
    pub(super) fn merge(arrays: &mut Map<String, Value>, list: &mut LeftList) -> Self {
        let Some(Value::Array(sites)) = arrays.get_mut("sites") else { return Self::default() };
        let mut kept: HashMap<(String, String), i64> = HashMap::new();
        for site in sites.iter() {
            let (Some(identity), Some(id)) = (identity(site), site["id"].as_i64()) else { continue };
            let lowest = kept.entry(identity).or_insert(id);
            *lowest = id.min(*lowest);
        }
        let mut merged = Self::default();
        sites.retain(|site| {
            let target = identity(site).and_then(|identity| kept.get(&identity)).copied();
            let (Some(id), Some(target)) = (site["id"].as_i64(), target) else { return true };
            if id != target {
                let name = site["name"].as_str().unwrap_or_default();
                let reason =
                    format!("it has the platform and address of site {target}, and is merged into it");
                list.add(format!("sites {id} ({name})"), reason);
                merged.0.insert(id, target);
            }
            id == target
        });
        if !merged.0.is_empty() {
            merged.redirect(arrays);
        }
        merged
    }

    /// Returns the id of the site that is kept.
    pub(super) fn id_of(&self, id: i64) -> i64 {
        self.0.get(&id).copied().unwrap_or(id)
    }

    fn redirect(&self, arrays: &mut Map<String, Value>) {
        for (array, unique) in DEPENDENTS {
            let Some(Value::Array(rows)) = arrays.get_mut(array) else { continue };
            rows.iter_mut().for_each(|row| self.redirect_member(row));
            let mut seen = HashSet::new();
            rows.retain(|row| unique.is_empty() || seen.insert((row["siteId"].clone(), row[unique].clone())));
        }
        let Some(Value::Array(keys)) = arrays.get_mut("downstreamApiKeys") else { return };
        for key in keys.iter_mut().filter_map(Value::as_object_mut) {
            for policy in ["excludedSiteIds", "siteWeightMultipliers", "excludedCredentialRefs"] {
                let Some(value) = key.get_mut(policy) else { continue };
                let parsed = match &*value {
                    Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
                    other => other.clone(),
                };
                if let Some(redirected) = self.policy(parsed) {
                    *value = redirected;
                }
            }
        }
    }

    /// Returns a policy of a key that names the sites that are kept; `None` for one of no known form.
    fn policy(&self, policy: Value) -> Option<Value> {
        match policy {
            Value::Array(mut entries) => {
                for entry in &mut entries {
                    match entry.as_i64() {
                        Some(id) => *entry = self.id_of(id).into(),
                        None => self.redirect_member(entry),
                    }
                }
                let mut seen = HashSet::new();
                entries.retain(|entry| seen.insert(entry.clone()));
                Some(Value::Array(entries))
            }
            Value::Object(weights) => {
                let target = |id: &str| id.trim().parse().ok().map(|id| self.id_of(id).to_string());
                // The weight of the site that is kept counts more than that of one merged into it.
                let (own, others): (Vec<_>, Vec<_>) = weights
                    .into_iter()
                    .map(|(id, weight)| (target(&id).unwrap_or_else(|| id.clone()), id, weight))
                    .partition(|(target, id, _)| target == id);
                let mut redirected = Map::new();
                for (target, _, weight) in own.into_iter().chain(others) {
                    redirected.entry(target).or_insert(weight);
                }
                Some(Value::Object(redirected))
            }
            _ => None,
        }
    }

    fn redirect_member(&self, row: &mut Value) {
        if let Some(id) = row.get("siteId").and_then(Value::as_i64) {
            row["siteId"] = self.id_of(id).into();
        }
    }
}

/// Returns the platform and the address as they are stored; `None` for a site without a usable address.
fn identity(site: &Value) -> Option<(String, String)> {
    let platform = site["platform"].as_str()?.trim().to_ascii_lowercase();
    let platform = Platform::parse(&platform).map_or(platform, |known| known.id().to_owned());
    let url = SiteUrl::parse_absolute(site["url"].as_str()?.trim()).ok()?;
    Some((platform, url.persisted()))
}
