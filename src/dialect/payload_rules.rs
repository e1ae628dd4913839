//! The rules by which an operator has request bodies rewritten on their way to an upstream: this module validates them,
//! [`apply`] applies them.
//!
//! ```text
//! default, defaultRaw      set a path that the body lacks       { models, params: {path: value} }
//! override, overrideRaw    set a path always                    the same
//! filter                   delete a path                        { models, params: [path, …] }
//! ```
//!
//! In the raw sections a value is the JSON text of the value. A model is `{ name, protocol? }`.

mod apply;
mod glob;
mod patch;

use serde_json::{Map, Value, json};

pub use apply::{PayloadRules, Target};

/// The largest array index in a path: no array of a request is longer, and a rule may not pad one beyond this.
const MAX_INDEX: usize = 4095;
/// The most parts of a path: bodies are not nested deeper than about this.
const MAX_DEPTH: usize = 100;

/// The sections in the order they apply, each with a second spelling where one is understood.
const SECTIONS: [(&str, Option<&str>); 5] = [
    ("default", None),
    ("defaultRaw", Some("default-raw")),
    ("override", None),
    ("overrideRaw", Some("override-raw")),
    ("filter", None),
];

/// Reads rules as sent, and returns them with all five sections. The error names section, rule (from 1) and path.
pub fn normal(value: &Value) -> Result<Value, String> {
    let empty = Map::new();
    let given = match value {
        Value::Null => &empty,
        Value::Object(given) => given,
        _ => return Err("they are not an object".to_owned()),
    };
    let known = |name: &str| SECTIONS.iter().any(|(section, alias)| *section == name || *alias == Some(name));
    if let Some(odd) = given.keys().find(|name| !known(name)) {
        return Err(format!("the section `{odd}` is unknown"));
    }
    let mut rules = Map::new();
    for (section, alias) in SECTIONS {
        let by_alias = alias.and_then(|alias| given.get(alias));
        let items = match (given.get(section), by_alias) {
            (Some(_), Some(_)) => return Err(format!("section {section} is given in both spellings")),
            (Some(items), None) | (None, Some(items)) => items,
            (None, None) => &json!([]),
        };
        let items = items.as_array().ok_or_else(|| format!("section {section} is not an array"))?;
        let read = |(index, item)| {
            rule(section, item).map_err(|why| format!("{section}, rule {}: {why}", index + 1))
        };
        let items: Vec<Value> = items.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        rules.insert(section.to_owned(), items.into());
    }
    Ok(rules.into())
}

/// Reads stored rules, and returns them with all five sections. A rule that cannot be read is left out, so that the
/// others still work.
pub fn usable(value: &Value) -> Option<Value> {
    let given = value.as_object()?;
    let readable = |(section, alias): (&'static str, Option<&'static str>)| {
        let items = given.get(section).or_else(|| given.get(alias?)).and_then(Value::as_array);
        let items = items.into_iter().flatten().filter_map(|item| rule(section, item).ok());
        (section.to_owned(), items.collect::<Value>())
    };
    Some(Value::Object(SECTIONS.into_iter().map(readable).collect()))
}

fn rule(section: &str, item: &Value) -> Result<Value, String> {
    let item = item.as_object().ok_or("it is not an object")?;
    let models = item.get("models").and_then(Value::as_array).filter(|models| !models.is_empty());
    let models = models.ok_or("`models` is not an array of at least one model")?;
    let models: Vec<Value> = models.iter().map(model).collect::<Result<_, _>>()?;
    let params = item.get("params").unwrap_or(&Value::Null);
    let params = if section == "filter" { paths(params)? } else { values(params, section.ends_with("Raw"))? };
    Ok(json!({ "models": models, "params": params }))
}

fn model(model: &Value) -> Result<Value, String> {
    let name = model.get("name").and_then(Value::as_str).map(str::trim).filter(|name| !name.is_empty());
    let name = name.ok_or("a model has no `name`")?;
    match model.get("protocol") {
        None | Some(Value::Null) => Ok(json!({ "name": name })),
        Some(Value::String(protocol)) => Ok(json!({ "name": name, "protocol": protocol.trim() })),
        Some(_) => Err(format!("the `protocol` of model {name} is not a string")),
    }
}

fn paths(params: &Value) -> Result<Value, String> {
    let paths = params.as_array().filter(|paths| !paths.is_empty());
    let paths = paths.ok_or("`params` is not an array of at least one path")?;
    let text = |path: &Value| path.as_str().map(trimmed).filter(|path| !path.is_empty()).map(str::to_owned);
    let paths: Option<Vec<String>> = paths.iter().map(text).collect();
    let paths = paths.ok_or("a path in `params` is blank or not a string")?;
    paths.iter().try_for_each(|path| within_bounds(path))?;
    Ok(paths.into())
}

fn values(params: &Value, raw: bool) -> Result<Value, String> {
    let params = params.as_object().filter(|params| !params.is_empty());
    let params = params.ok_or("`params` is not an object of at least one path")?;
    for (path, value) in params {
        if trimmed(path).is_empty() {
            return Err("a path in `params` is blank".to_owned());
        }
        within_bounds(path)?;
        if let (true, Value::String(text)) = (raw, value)
            && let Err(error) = serde_json::from_str::<Value>(text)
        {
            return Err(format!("path {path}: the value is not JSON: {error}"));
        }
    }
    Ok(params.clone().into())
}

/// Returns a path without the blanks around it and without leading dots, which mean nothing.
fn trimmed(path: &str) -> &str {
    path.trim().trim_start_matches('.')
}

/// Splits a path into its parts: names of members, and indexes of arrays.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').map(str::trim).filter(|segment| !segment.is_empty())
}

fn is_index(segment: &str) -> bool {
    segment.bytes().all(|byte| byte.is_ascii_digit())
}

fn within_bounds(path: &str) -> Result<(), String> {
    if segments(path).nth(MAX_DEPTH).is_some() {
        let start: String = path.chars().take(40).collect();
        return Err(format!("path {start}…: it is deeper than {MAX_DEPTH}"));
    }
    let fits = |segment: &str| segment.parse::<usize>().is_ok_and(|index| index <= MAX_INDEX);
    match segments(path).find(|segment| is_index(segment) && !fits(segment)) {
        Some(index) => Err(format!("path {path}: the index {index} is not a number from 0 to {MAX_INDEX}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_with_every_section_in_its_own_spelling() {
        let models = json!([{"name": "gpt-*", "protocol": "codex"}]);
        let given = json!({
            "override": [{"models": models, "params": {"reasoning.effort": "high"}}],
            "override-raw": [{"models": models, "params": {"a": "{\"b\":1}"}}],
            "filter": [{"models": [{"name": " m "}], "params": [" x.y "]}],
        });
        let expected = json!({
            "default": [], "defaultRaw": [],
            "override": given["override"],
            "overrideRaw": given["override-raw"],
            "filter": [{"models": [{"name": "m"}], "params": ["x.y"]}],
        });
        assert_eq!(normal(&given), Ok(expected.clone()));
        assert_eq!(normal(&expected), Ok(expected));
        assert_eq!(normal(&Value::Null), normal(&json!({})));
    }

    #[test]
    fn what_is_no_rule_is_refused_by_place() {
        let models = json!([{"name": "m"}]);
        let good = json!({"models": models, "params": {"a": 1}});
        for (rules, named) in [
            (json!([]), "object"),
            (json!("x"), "object"),
            (json!({"other": []}), "`other`"),
            (json!({"override-raw": [], "overrideRaw": []}), "both spellings"),
            (json!({"default": {}}), "section default"),
            (json!({"override": [{"models": models, "params": {"a.".repeat(101): 1}}]}), "deeper than 100"),
            (json!({"default": [good, 1]}), "default, rule 2"),
            (json!({"default": [{"params": {"a": 1}}]}), "`models`"),
            (json!({"default": [{"models": [], "params": {"a": 1}}]}), "`models`"),
            (json!({"default": [{"models": [{"name": " "}], "params": {"a": 1}}]}), "`name`"),
            (json!({"default": [{"models": ["m"], "params": {"a": 1}}]}), "`name`"),
            (
                json!({"default": [{"models": [{"name": "m", "protocol": 1}], "params": {"a": 1}}]}),
                "`protocol`",
            ),
            (json!({"default": [{"models": models, "params": {}}]}), "`params`"),
            (json!({"default": [{"models": models, "params": ["a"]}]}), "`params`"),
            (json!({"default": [{"models": models, "params": {" . ": 1}}]}), "blank"),
            (json!({"defaultRaw": [{"models": models, "params": {"a.b": "{"}}]}), "path a.b"),
            (
                json!({"overrideRaw": [good, {"models": models, "params": {"a.b": " "}}]}),
                "overrideRaw, rule 2: path a.b",
            ),
            (json!({"default": [{"models": models, "params": {"a.4096": 1}}]}), "path a.4096"),
            (
                json!({"filter": [{"models": models, "params": ["a.99999999999999999999"]}]}),
                "is not a number from 0",
            ),
            (json!({"filter": [{"models": models, "params": {"a": 1}}]}), "`params`"),
            (json!({"filter": [{"models": models, "params": ["a", ""]}]}), "blank"),
        ] {
            let error = normal(&rules).expect_err("refused");
            assert!(error.contains(named), "{rules}: {error}");
        }
    }
}
