//! Parses price lists from the answers of sites.
//!
//! | answer | form |
//! |---|---|
//! | `/api/pricing` of the new-api family | an array of models, bare or in `data`, with `group_ratio` beside it |
//! | `/api/available_model` of the hubs | `data` by model: `groups`, `owned_by`, `price` |
//! | `/api/user_group_map` of the hubs | `data` by group: `ratio` |
//!
//! A model that cannot be read is left out, and a nonsensical number is replaced by its default: one odd entry must not
//! cost a site its prices.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::catalog::Catalog;
use super::price::{Billing, CallPrice, Labels, ModelPrice, Ratios};
use crate::json_number::number_or_text;
use crate::money::Usd;

/// The most models read; the rest of a longer list is ignored.
const MAX_MODELS: usize = 20_000;
/// The longest name of a model, group or tag, in bytes.
const MAX_NAME: usize = 256;
/// The most items of a list within an entry.
const MAX_ITEMS: usize = 64;
/// The largest ratio or price accepted. A larger one would make every sum of costs infinite.
const MAX_NUMBER: f64 = 1e9;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 2_000;

/// Reads `/api/pricing`. The error is a message for people.
pub fn ratio_list(body: &[u8]) -> Result<Catalog, String> {
    let answer = Envelope::read(body)?;
    let list = answer.data.ok_or_else(|| answer.complaint())?;
    let Ok(Listed(entries)) = serde_json::from_str(list.get()) else { return Err(answer.complaint()) };
    let groups = answer.group_ratio.map(ratios).unwrap_or_default();
    let models: Vec<_> = entries.iter().filter_map(ratio_entry).collect();
    if models.is_empty() && !entries.is_empty() {
        return Err("the price list has no entry that can be read".to_owned());
    }
    Ok(Catalog::new(models, groups))
}

/// Reads `/api/available_model` with `/api/user_group_map`. Without the latter, every group has a ratio of 1.
pub fn hub_list(models: &[u8], groups: Option<&[u8]>) -> Result<Catalog, String> {
    let answer = Envelope::read(models)?;
    let list = answer.data.ok_or_else(|| answer.complaint())?;
    let Ok(Ordered(entries)) = serde_json::from_str(list.get()) else { return Err(answer.complaint()) };
    let groups = groups.and_then(|body| Envelope::read(body).ok()?.data.map(ratios)).unwrap_or_default();
    let models: Vec<_> =
        entries.iter().take(MAX_MODELS).filter_map(|(name, entry)| hub_entry(name, entry)).collect();
    if models.is_empty() && !entries.is_empty() {
        return Err("the price list has no entry that can be read".to_owned());
    }
    Ok(Catalog::new(models, groups))
}

/// Reads `{model_name, quota_type, model_ratio, …}`, in snake or camel case.
fn ratio_entry(entry: &Value) -> Option<ModelPrice> {
    let name = name(field(entry, &["model_name", "modelName"])?.as_str()?)?;
    let ratio = |names: &[&str]| field(entry, names).and_then(number).filter(|ratio| *ratio > 0.0);
    let cache = |names: &[&str]| field(entry, names).and_then(number).filter(|ratio| *ratio >= 0.0);
    let billing = if field(entry, &["quota_type", "quotaType"]).and_then(number) == Some(1.0) {
        Billing::PerCall(field(entry, &["model_price", "modelPrice"]).and_then(call_price))
    } else {
        Billing::PerToken(Ratios {
            model: ratio(&["model_ratio", "modelRatio"]).unwrap_or(1.0),
            completion: ratio(&["completion_ratio", "completionRatio"]).unwrap_or(1.0),
            cache_read: cache(&["cache_ratio", "cacheRatio"]).unwrap_or(1.0),
            cache_creation: cache(&[
                "cache_creation_ratio",
                "cacheCreationRatio",
                "create_cache_ratio",
                "createCacheRatio",
            ])
            .unwrap_or(1.0),
        })
    };
    let labels = Labels {
        description: field(entry, &["model_description", "modelDescription", "description"])
            .and_then(Value::as_str)
            .map(|text| text.trim().chars().take(MAX_DESCRIPTION).collect::<String>())
            .filter(|text| !text.is_empty()),
        tags: names(field(entry, &["tags"])),
        endpoint_types: names(field(entry, &["supported_endpoint_types", "supportedEndpointTypes"])),
        owner: field(entry, &["owner_by", "ownerBy"]).and_then(Value::as_str).and_then(self::name),
    };
    let groups = groups_of(field(entry, &["enable_groups", "enableGroups"]));
    Some(ModelPrice::new(name, billing, groups, labels))
}

/// Reads `{groups, owned_by, price{type, input, output, …}}`. Prices are ratios to the same base as elsewhere.
fn hub_entry(name: &str, entry: &Value) -> Option<ModelPrice> {
    let name = self::name(name)?;
    let price = &entry["price"];
    let amount = |names: &[&str]| field(price, names).and_then(number).filter(|amount| *amount >= 0.0);
    let input = amount(&["input"])?;
    let output = amount(&["output"]).unwrap_or(input);
    let billing = if price["type"].as_str().is_none_or(|kind| kind == "tokens") {
        // Cache prices are given beside the other prices, or as ratios in `extra_ratios`.
        let extra = |names: &[&str]| field(&price["extra_ratios"], names).and_then(number);
        let relative = |amount: Option<f64>| amount.filter(|_| input > 0.0).map(|amount| amount / input);
        let cache_read = relative(amount(&["input_cache_read"]));
        let cache_creation = relative(amount(&["input_cache_write"]));
        Billing::PerToken(Ratios {
            model: input,
            completion: relative(Some(output)).unwrap_or(1.0),
            cache_read: cache_read
                .or_else(|| extra(&["cached_read_tokens", "cached_tokens"]))
                .filter(|ratio| *ratio >= 0.0)
                .unwrap_or(1.0),
            cache_creation: cache_creation
                .or_else(|| extra(&["cached_write_tokens"]))
                .filter(|ratio| *ratio >= 0.0)
                .unwrap_or(1.0),
        })
    } else {
        Billing::PerCall(Some(CallPrice::Sides { input, output }))
    };
    let owner = entry["owned_by"].as_str().and_then(self::name);
    Some(ModelPrice::new(
        name,
        billing,
        groups_of(entry.get("groups")),
        Labels { owner, ..Labels::default() },
    ))
}

fn call_price(price: &Value) -> Option<CallPrice> {
    let amount = |value: &Value| number(value).filter(|usd| *usd >= 0.0);
    match price {
        Value::Object(sides) => {
            let side = |name: &str| sides.get(name).and_then(amount);
            let input = side("input")?;
            Some(CallPrice::Sides { input, output: side("output").unwrap_or(0.0) })
        }
        price => amount(price).map(|usd| CallPrice::Flat(Usd::new(usd))),
    }
}

fn groups_of(groups: Option<&Value>) -> Vec<String> {
    let groups = names(groups);
    if groups.is_empty() { vec!["default".to_owned()] } else { groups }
}

/// Reads ratios by group, in their written order: plain numbers, or objects that hold one.
fn ratios(text: &RawValue) -> Vec<(String, f64)> {
    let Ok(Ordered(groups)) = serde_json::from_str(text.get()) else { return Vec::new() };
    let ratio = |value: &Value| number(value).or_else(|| number(value.get("ratio")?));
    groups.iter().filter_map(|(group, value)| Some((name(group)?, ratio(value)?))).collect()
}

/// Returns the first of these members that is there, unless it is `null`.
pub(super) fn field<'v>(entry: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().find_map(|name| entry.get(name)).filter(|value| !value.is_null())
}

/// Reads a number of at most `MAX_NUMBER` in size, also if it is written as text.
fn number(value: &Value) -> Option<f64> {
    number_or_text(value).filter(|number| number.abs() <= MAX_NUMBER)
}

fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let usable = !text.is_empty() && text.len() <= MAX_NAME && !text.contains(char::is_control);
    usable.then(|| text.to_owned())
}

/// Reads a list of names, or a string of names separated by commas.
fn names(list: Option<&Value>) -> Vec<String> {
    match list {
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| name(item.as_str()?)).take(MAX_ITEMS).collect()
        }
        Some(Value::String(text)) => text.split(',').filter_map(name).take(MAX_ITEMS).collect(),
        _ => Vec::new(),
    }
}

/// The members of an answer that are needed. The rest is skipped without being built.
#[derive(Default)]
struct Envelope<'b> {
    data: Option<&'b RawValue>,
    group_ratio: Option<&'b RawValue>,
    message: Option<String>,
}

impl<'b> Envelope<'b> {
    fn read(body: &'b [u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Members<'b> {
            #[serde(borrow)]
            data: Option<&'b RawValue>,
            #[serde(borrow)]
            group_ratio: Option<&'b RawValue>,
            success: Option<bool>,
            message: Option<String>,
        }
        let text = std::str::from_utf8(body).map_err(|_| "the price list is not text".to_owned())?;
        if text.trim_start().starts_with('[') {
            let list = serde_json::from_str(text);
            return list
                .map(|list| Self { data: Some(list), ..Self::default() })
                .map_err(|_| "the price list is not valid JSON".to_owned());
        }
        let members: Members = serde_json::from_str(text)
            .map_err(|_| "the answer is not a JSON object of a known form".to_owned())?;
        let Members { data, group_ratio, success, message } = members;
        let envelope = Self { data, group_ratio, message };
        if success == Some(false) { Err(envelope.complaint()) } else { Ok(envelope) }
    }

    fn complaint(&self) -> String {
        let said = self.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
        said.unwrap_or("the answer has no price list").chars().take(300).collect()
    }
}

/// The entries of an array, at most `MAX_MODELS` of them.
struct Listed(Vec<Value>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Listed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Listed, A::Error> {
                let mut entries = Vec::new();
                while entries.len() < MAX_MODELS {
                    let Some(entry) = items.next_element()? else { return Ok(Listed(entries)) };
                    entries.push(entry);
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Listed(entries))
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}

/// The members of an object, in their written order.
struct Ordered(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests;
