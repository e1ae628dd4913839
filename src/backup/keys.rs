//! Conversion of downstream keys in documents: what the API would not accept is left out, or refuses the key.

use serde_json::{Map, Value as Json};

use crate::mask;
use crate::networks;
use crate::one_line::one_line;
use crate::store::keys::{BudgetSettings, ExcludedCredential, cut_group, distinct_tags};

/// A member that cannot be used, and what was expected.
pub(super) type Unfit = (&'static str, &'static str);

/// Converts a member of a list; `None` if it cannot be read.
type Convert = fn(&Json) -> Option<Json>;

/// Checks a downstream key. A limit that cannot be read refuses the document: the key would have no limit, or
/// let nobody in without saying why.
pub(super) fn amend(row: &mut Map<String, Json>, left_out: &mut Vec<String>) -> Result<(), Unfit> {
    // Stored, it would be a key that everyone knows who has seen the mask.
    if row.get("key").and_then(Json::as_str).is_some_and(mask::is_of_secret) {
        return Err(("key", "whole key, not a mask"));
    }
    for member in [
        "usedCost",
        "usedRequests",
        "maxCost",
        "maxRequests",
        "maxConcurrency",
        "requestsPerMinute",
        "tokensPerMinute",
    ] {
        if row.get(member).and_then(Json::as_f64).is_some_and(|number| number < 0.0) {
            return Err((member, "number of at least 0"));
        }
    }
    let says_nothing = |row: &Map<String, Json>, member: &str| row.get(member).is_none_or(Json::is_null);
    if says_nothing(row, "supportedModels") && says_nothing(row, "allowedRouteIds") {
        row.insert("supportedModels".to_owned(), "[\"*\"]".into());
    }
    for (member, is_list) in [
        ("tags", true),
        ("supportedModels", true),
        ("allowedRouteIds", true),
        ("excludedSiteIds", true),
        ("excludedCredentialRefs", true),
        ("siteWeightMultipliers", false),
        ("allowedIps", true),
        ("budgets", true),
    ] {
        list_or_object(row, member, is_list)?;
    }
    convert_lists(row, left_out)?;
    amend_texts(row, left_out);
    let networks = |list: &Json| {
        list.as_array().is_none_or(|list| {
            list.iter().all(|network| network.as_str().is_some_and(|text| networks::parse(text).is_some()))
        })
    };
    if row.get("allowedIps").map(parsed).is_some_and(|list| !networks(&list)) {
        return Err(("allowedIps", "addresses and networks, such as 192.0.2.7 or 10.0.0.0/8"));
    }
    if row.get("budgets").map(parsed).is_some_and(|budgets| !are_budgets(budgets)) {
        return Err(("budgets", "array of budgets, each an object with a period"));
    }
    if let Some(Json::Object(multipliers)) = row.get("siteWeightMultipliers").map(parsed) {
        let is_sound = |factor: &Json| factor.as_f64().is_some_and(|factor| factor > 0.0);
        if !multipliers.values().all(is_sound) {
            left_out
                .push("values of siteWeightMultipliers that are not numbers above 0 are left out".to_owned());
            let sound = multipliers.into_iter().filter(|(_, factor)| is_sound(factor));
            row.insert("siteWeightMultipliers".to_owned(), Json::Object(sound.collect()));
        }
    }
    Ok(())
}

fn are_budgets(budgets: Json) -> bool {
    budgets.is_null() || serde_json::from_value::<Vec<BudgetSettings>>(budgets).is_ok()
}

/// Returns a value, parsed if it is a text that holds JSON.
pub(super) fn parsed(value: &Json) -> Json {
    match value {
        Json::String(text) => serde_json::from_str(text).unwrap_or_default(),
        value => value.clone(),
    }
}

/// Converts the lists of a key as the API does. A member that cannot be read is left out where the key then has fewer
/// rights; an exclusion that cannot be read refuses the key.
fn convert_lists(row: &mut Map<String, Json>, left_out: &mut Vec<String>) -> Result<(), Unfit> {
    let lists: [(&str, Convert); 3] = [("tags", text), ("supportedModels", text), ("allowedRouteIds", id)];
    for (member, convert) in lists {
        let lost = convert_list(row, member, convert);
        if lost > 0 {
            left_out.push(format!("{lost} member(s) of {member} cannot be read: they are left out"));
        }
    }
    if convert_list(row, "excludedSiteIds", id) > 0 {
        return Err(("excludedSiteIds", "array of positive integers"));
    }
    if convert_list(row, "excludedCredentialRefs", credential) > 0 {
        return Err(("excludedCredentialRefs", "array of {kind, siteId, accountId, tokenId}"));
    }
    Ok(())
}

/// Converts the members of a list. Returns the number of those that cannot be read, which are removed.
fn convert_list(row: &mut Map<String, Json>, member: &str, convert: Convert) -> usize {
    let Some(Json::Array(list)) = row.get(member).map(parsed) else { return 0 };
    let converted: Vec<Json> = list.iter().filter_map(convert).collect();
    let lost = list.len() - converted.len();
    if converted != list {
        row.insert(member.to_owned(), Json::Array(converted));
    }
    lost
}

fn text(member: &Json) -> Option<Json> {
    member.as_str().map(str::trim).filter(|text| !text.is_empty()).map(Json::from)
}

/// Reads an id, which other programs also write as text.
fn id(member: &Json) -> Option<Json> {
    let id = match member {
        Json::String(text) => text.trim().parse().ok()?,
        number => number.as_f64().filter(|number| number.fract() == 0.0)? as i64,
    };
    (id > 0).then(|| id.into())
}

fn credential(member: &Json) -> Option<Json> {
    let mut members = member.as_object()?.clone();
    for name in ["siteId", "accountId", "tokenId"] {
        if let Some(number) = members.get(name).and_then(id) {
            members.insert(name.to_owned(), number);
        }
    }
    let credential: ExcludedCredential = serde_json::from_value(Json::Object(members)).ok()?;
    serde_json::to_value(credential).ok()
}

/// Makes the texts of a key what the API would accept: the name, the tags and the name of the group are lines, the latter two
/// shortened; the description has line breaks and tabs, but no other control characters.
fn amend_texts(row: &mut Map<String, Json>, left_out: &mut Vec<String>) {
    line(row, "name", left_out);
    line(row, "groupName", left_out);
    if let Some(Json::String(group)) = row.get_mut("groupName") {
        *group = cut_group(group.trim());
    }
    if let Some(Json::Array(tags)) = row.get("tags").map(parsed) {
        let texts = tags.iter().filter_map(Json::as_str);
        let lines =
            texts.map(|tag| if tag.contains(char::is_control) { one_line(tag) } else { tag.to_owned() });
        row.insert("tags".to_owned(), distinct_tags(lines.filter(|tag| !tag.is_empty())).into());
    }
    if let Some(Json::String(text)) = row.get_mut("description") {
        text.retain(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    }
}

/// Makes a text one line, and reports it; one that is a line stays as it is.
pub(super) fn line(row: &mut Map<String, Json>, member: &str, left_out: &mut Vec<String>) {
    if let Some(Json::String(text)) = row.get_mut(member)
        && text.contains(char::is_control)
    {
        *text = one_line(text);
        left_out.push(format!("{member} has line breaks or control characters: it becomes one line"));
    }
}

/// Checks that a member is a list or an object, itself or as JSON text.
fn list_or_object(row: &mut Map<String, Json>, member: &'static str, is_list: bool) -> Result<(), Unfit> {
    let value = match row.get(member) {
        None | Some(Json::Null) => return Ok(()),
        Some(Json::String(text)) if text.trim().is_empty() => return Ok(()),
        Some(Json::String(text)) => serde_json::from_str(text).ok(),
        Some(value) => Some(value.clone()),
    };
    match value {
        Some(Json::Null) => {
            row.remove(member);
            Ok(())
        }
        Some(Json::Array(_)) if is_list => Ok(()),
        Some(Json::Object(_)) if !is_list => Ok(()),
        _ if is_list => Err((member, "JSON text of an array")),
        _ => Err((member, "JSON text of an object")),
    }
}
