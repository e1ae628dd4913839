//! Readers for members of a downstream key that may come in several forms: lists as arrays or as text, numbers as text,
//! objects as JSON text. Each returns `None` for an absent field, so that an update keeps the fields it does not name.

use std::collections::HashSet;

use serde_json::Value;

use crate::admin::input::{Fields, Invalid, Patch};
use crate::json_number::MAX_EXACT;
use crate::routing::ModelPattern;

/// Sets the field if a value was sent.
pub(super) fn set<T>(field: &mut T, sent: Option<T>) {
    if let Some(value) = sent {
        *field = value;
    }
}

/// Reads trimmed texts that are not blank from an array, or from one text split at these characters.
pub(super) fn texts(
    fields: &Fields,
    name: &str,
    separators: &[char],
) -> Result<Option<Vec<String>>, Invalid> {
    let invalid = || Invalid::field(name, "string or array of strings");
    let parts: Vec<&str> = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => text.split(separators).collect(),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().ok_or_else(invalid)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(invalid()),
    };
    Ok(Some(parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()))
}

/// Reads model patterns, without duplicates.
pub(super) fn models(fields: &Fields, name: &str) -> Result<Option<Vec<String>>, Invalid> {
    let Some(sent) = texts(fields, name, &[',', '\n'])? else { return Ok(None) };
    let mut models: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for model in sent {
        let pattern = ModelPattern::parse(&model);
        pattern.map_err(|error| Invalid::because(name, format!("{model}: {error}.")))?;
        if seen.insert(model.clone()) {
            models.push(model);
        }
    }
    Ok(Some(models))
}

/// Reads a number of at least 0, also from text; `null` and blank text mean no limit.
pub(super) fn limit(fields: &Fields, name: &str) -> Result<Patch<f64>, Invalid> {
    let number = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(None)),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Some(None)),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_f64(),
    };
    let sane = number.filter(|number: &f64| (0.0..=MAX_EXACT as f64).contains(number));
    let limit = sane.ok_or_else(|| Invalid::field(name, "number from 0 to 9007199254740991, or null"))?;
    Ok(Some(Some(limit)))
}

/// Reads a member as JSON, or from text that holds JSON; blank text and `null` give `null`.
pub(super) fn embedded(fields: &Fields, name: &str, expected: &str) -> Result<Option<Value>, Invalid> {
    Ok(match fields.get(name) {
        None => None,
        Some(Value::String(text)) if text.trim().is_empty() => Some(Value::Null),
        Some(Value::String(text)) => {
            Some(serde_json::from_str(text).map_err(|_| Invalid::field(name, expected))?)
        }
        Some(value) => Some(value.clone()),
    })
}
