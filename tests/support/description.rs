//! Checks the admin API's answers against `docs/openapi.json`, so that every test of the API also tests its description: a
//! status or member that is not described, or one that is described and missing, fails the test that met it.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::Answer;

/// Statuses of requests that fail before they are routed.
const BEFORE_ROUTES: [u16; 5] = [405, 414, 417, 431, 501];

/// The longest body that is checked, in bytes: tests that send or receive longer ones are about the length.
const MOST: usize = 4 * 1024 * 1024;

/// A request whose answer is checked against its description; `None` if it has none.
pub struct Asked(Option<Described>);

struct Described {
    what: String,
    operation: &'static Value,
    sent: Vec<u8>,
}

impl Asked {
    pub fn of(method: &str, target: &str, sent: &[u8]) -> Self {
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let described = operation(method, path).filter(|_| sent.len() <= MOST);
        Self(described.map(|operation| Described {
            what: format!("{method} {path}"),
            operation,
            sent: sent.to_vec(),
        }))
    }

    /// Panics when the answer does not match its description.
    #[track_caller]
    pub fn hold(&self, answer: &Answer) {
        match &self.0 {
            Some(described) if !BEFORE_ROUTES.contains(&answer.status) && answer.body.len() <= MOST => {
                described.hold(answer);
            }
            _ => {}
        }
    }
}

impl Described {
    #[track_caller]
    fn hold(&self, answer: &Answer) {
        let what = format!("{} answered {}", self.what, answer.status);
        let class = format!("{}XX", answer.status / 100);
        let responses = &self.operation["responses"];
        let Some(response) = responses.get(answer.status.to_string()).or_else(|| responses.get(&class))
        else {
            panic!(
                "{what}, which its description in src/admin does not have (then `make openapi`): {}",
                answer.text()
            );
        };
        let Some(content) = resolve(response)["content"].as_object() else { return };
        let found = answer.header("content-type").unwrap_or_default();
        let Some(media) = content.get("application/json").filter(|_| found.starts_with("application/json"))
        else {
            assert!(content.keys().any(|kind| found.starts_with(kind.as_str())), "{what} with {found}");
            return;
        };
        let body = answer.json();
        if let Err(problem) = (Check { is_closed: true }).value(&media["schema"], &body, "") {
            panic!(
                "{what} off its description in src/admin (after a change there `make openapi`): {problem} in {body}"
            );
        }
        if answer.status < 300 && body["success"] != false {
            self.hold_request(&what);
        }
    }

    /// Checks that an accepted body matches the described one; members that are not read may be sent.
    #[track_caller]
    fn hold_request(&self, what: &str) {
        let schema = &self.operation["requestBody"]["content"]["application/json"]["schema"];
        let Ok(sent) = serde_json::from_slice::<Value>(&self.sent) else { return };
        if let Err(problem) = (Check { is_closed: false }).value(schema, &sent, "") {
            panic!("{what} to a body that its description does not allow: {problem} in {sent}");
        }
    }
}

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
        let text = std::fs::read_to_string(file).expect("docs/openapi.json: run `make openapi`");
        serde_json::from_str(&text).expect("JSON")
    })
}

/// Finds the described operation of an admin route; a path without parameters comes before one with.
fn operation(method: &str, path: &str) -> Option<&'static Value> {
    if !path.starts_with("/api/") {
        return None;
    }
    let fits = |template: &str| {
        let (mut wanted, mut found) = (template.split('/'), path.split('/'));
        loop {
            match (wanted.next(), found.next()) {
                (None, None) => return true,
                (Some(wanted), Some(found))
                    if wanted == found || (wanted.starts_with('{') && !found.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let paths = document()["paths"].as_object()?;
    let fitting = paths.iter().filter(|(template, _)| fits(template));
    let (_, methods) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
    methods.get(method.to_lowercase())
}

fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => document().pointer(&reference[1..]).unwrap_or_else(|| panic!("no {reference}")),
        None => value,
    }
}

/// A checker for the part of JSON Schema that the description uses.
struct Check {
    /// Whether members that are not described are errors.
    is_closed: bool,
}

impl Check {
    fn value(&self, schema: &'static Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = resolve(schema);
        let refuse = |why: String| Err(format!("{at}: {why}"));
        if let Some(choices) = schema["anyOf"].as_array() {
            let tried: Vec<_> =
                choices.iter().filter_map(|schema| self.value(schema, value, at).err()).collect();
            return if tried.len() < choices.len() { Ok(()) } else { Err(tried.join(", or ")) };
        }
        if let Some(kinds) = schema.get("type") {
            let is = |kind: &Value| is_of_kind(value, kind.as_str().unwrap_or_default());
            if !(is(kinds) || kinds.as_array().is_some_and(|kinds| kinds.iter().any(is))) {
                return refuse(format!("{value} is not {kinds}"));
            }
        }
        // Requests may write a word in capitals, or with blanks around it.
        let plain = |text: &str| text.trim().to_lowercase();
        let is = |known: &Value| match (known.as_str(), value.as_str()) {
            (Some(known), Some(found)) if !self.is_closed => plain(known) == plain(found),
            _ => known == value,
        };
        if schema["enum"].as_array().is_some_and(|values| !values.iter().any(is))
            || schema.get("const").is_some_and(|only| only != value)
        {
            return refuse(format!("{value} is not {}{}", schema["enum"], schema["const"]));
        }
        if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
            && number < least
        {
            return refuse(format!("{number} is below {least}"));
        }
        if let (Some(most), Some(number)) = (schema["maximum"].as_f64(), value.as_f64())
            && number > most
        {
            return refuse(format!("{number} is above {most}"));
        }
        match value {
            Value::Array(items) if schema.get("items").is_some() => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| {
                    self.value(&schema["items"], item, &format!("{at}/{index}"))
                })
            }
            Value::Object(members) => self.members(schema, members, at),
            _ => Ok(()),
        }
    }

    fn members(&self, schema: &'static Value, members: &Map<String, Value>, at: &str) -> Result<(), String> {
        let parts = parts_of(schema);
        let required = parts.iter().filter_map(|part| part["required"].as_array()).flatten();
        if let Some(missing) = required.filter_map(Value::as_str).find(|name| !members.contains_key(*name)) {
            return Err(format!("{at}: no {missing}"));
        }
        let properties = |name| parts.iter().find_map(|part| part["properties"].get(name));
        let others = parts.iter().find_map(|part| part.get("additionalProperties"));
        let is_described = parts.iter().any(|part| part.get("properties").is_some());
        for (name, value) in members {
            let at = format!("{at}/{name}");
            match (properties(name), others) {
                (Some(schema), _) => self.value(schema, value, &at)?,
                (None, Some(Value::Bool(true))) => {}
                (None, Some(schema)) => self.value(schema, value, &at)?,
                (None, None) if self.is_closed && is_described => {
                    return Err(format!("{at} is not described"));
                }
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// Returns all the schemas that an object has to match.
fn parts_of(schema: &'static Value) -> Vec<&'static Value> {
    let schema = resolve(schema);
    let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(parts_of);
    std::iter::once(schema).chain(parts).collect()
}

fn is_of_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
