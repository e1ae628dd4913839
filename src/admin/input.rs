//! JSON objects as clients send them, read field by field.
//!
//! No coercion: `"1"` is not an integer and `"true"` is not a boolean. A reader returns `None` for an
//! absent field; where `null` clears a field, the reader returns `Some(None)` for it. Reading stops at the first bad
//! field, and the message names it: `Invalid <field>. Expected <kind>.` Fields that no handler reads are ignored. The
//! description ([`super::schema`]) says which fields there are, the bounds of an integer and the texts of a choice; the
//! request's schema is generated from it.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use super::schema::{Object, Shape};
use crate::ids::Id;
use crate::json_number::{MAX_EXACT, exact_integer};
use crate::settings::UnusableMember;
use crate::time::{self, Millis};

/// The value of a field that may be left alone (`None`), cleared (`Some(None)`) or set.
pub type Patch<T> = Option<Option<T>>;

/// Maximum length of an indexed text column, in characters.
pub const MAX_KEY_CHARS: usize = 191;
/// Maximum length of a name, in characters, so that a list can still show it.
pub const MAX_NAME_CHARS: usize = 500;

/// A refusal of a field, or of the whole request, for the person who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The name of the refused field.
    field: Option<String>,
    /// What is wrong, in a sentence.
    message: String,
}

/// The JSON object of one request, read by its description.
#[derive(Clone, Debug)]
pub struct Fields {
    sent: Map<String, Value>,
    described: &'static Object,
}

// === impl Invalid ===

impl Invalid {
    /// Builds the refusal of a field that has the wrong type or is outside its range.
    pub fn field(name: &str, expected: &str) -> Self {
        Self::because(name, format!("Expected {expected}."))
    }

    /// Builds the refusal of a field for another reason.
    pub fn because(name: &str, message: String) -> Self {
        Self { field: Some(name.to_owned()), message }
    }

    /// Builds the refusal of a whole request.
    pub fn request(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }

    /// Renames the field to `<list>[].<field>`, for a field of an item of `list`.
    pub fn within(self, list: &str) -> Self {
        let field = match self.field {
            Some(field) => format!("{list}[].{field}"),
            None => format!("{list}[]"),
        };
        Self { field: Some(field), ..self }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(out, "Invalid {field}. {}", self.message),
            None => out.write_str(&self.message),
        }
    }
}

impl From<UnusableMember> for Invalid {
    fn from(member: UnusableMember) -> Self {
        Self::field(member.name, &member.expected)
    }
}

// === impl Fields ===

impl Fields {
    /// Wraps the members that were sent, to be read by their description.
    pub fn of(described: &'static Object, sent: Map<String, Value>) -> Self {
        Self { sent, described }
    }

    /// Returns the first member that the description does not have.
    pub fn unknown(&self) -> Option<&str> {
        self.sent.keys().map(String::as_str).find(|name| self.described.shape(name).is_none())
    }

    /// Returns the field as sent, `null` included.
    pub fn get(&self, name: &str) -> Option<&Value> {
        debug_assert!(
            self.described.is_open || self.described.shape(name).is_some(),
            "{name} is read and not described: add it to {} in the schema.rs of the resource, then run `make openapi`",
            self.described.name
        );
        self.sent.get(name)
    }

    /// Whether the field was sent at all, `null` included.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the field was sent and is not `null`.
    pub fn is_given(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    /// Builds the refusal of a field, which says what its description expects.
    pub fn unexpected(&self, name: &str) -> Invalid {
        let shape = self.described.shape(name);
        Invalid::field(name, &shape.map_or_else(|| "another value".to_owned(), |shape| shape.in_words()))
    }

    /// Reads a text exactly as sent.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Invalid::field(name, "string")),
        }
    }

    /// Reads a text, or `null` to clear.
    pub fn nullable_text(&self, name: &str) -> Result<Patch<&str>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(Value::String(text)) => Ok(Some(Some(text))),
            Some(_) => Err(Invalid::field(name, "string or null")),
        }
    }

    /// Reads a trimmed text of one line that is neither blank nor longer than `MAX_NAME_CHARS`.
    pub fn name(&self, name: &str) -> Result<Option<String>, Invalid> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let text = text.trim();
        if text.is_empty() || text.chars().count() > MAX_NAME_CHARS || text.contains(char::is_control) {
            return Err(Invalid::field(name, "non-empty line of at most 500 characters"));
        }
        Ok(Some(text.to_owned()))
    }

    pub fn bool(&self, name: &str) -> Result<Option<bool>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(Invalid::field(name, "boolean")),
        }
    }

    /// Reads an integer; the description says whether it may be zero or negative.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let least = match self.described.shape(name) {
            Some(Shape::Id) => 1,
            Some(Shape::Count) => 0,
            _ => i64::MIN,
        };
        let integer = exact_integer(value).filter(|&value| value >= least);
        integer.map(Some).ok_or_else(|| self.unexpected(name))
    }

    /// Reads one of the described texts, converted by `parse`.
    pub fn one_of<T>(&self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Invalid> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| self.unexpected(name))
    }

    /// Reads the id of a row; the field is required.
    pub fn required_id<I: Id>(&self, name: &str) -> Result<I, Invalid> {
        let id = self.get(name).and_then(exact_id);
        id.ok_or_else(|| Invalid::field(name, "positive integer"))
    }

    /// Reads the id of a row, or `null` for none.
    pub fn nullable_id<I: Id>(&self, name: &str) -> Result<Patch<I>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => match exact_id(value) {
                Some(id) => Ok(Some(Some(id))),
                None => Err(Invalid::field(name, "positive integer or null")),
            },
        }
    }

    /// Reads a time as a number (seconds or milliseconds) or a text; `null` and blank text mean none.
    pub fn nullable_time(&self, name: &str) -> Result<Patch<Millis>, Invalid> {
        let at = match self.get(name) {
            None => return Ok(None),
            Some(Value::Null) => return Ok(Some(None)),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(Some(None)),
            Some(Value::String(text)) => time::parse(text),
            Some(Value::Number(number)) => number.as_f64().and_then(time::from_number),
            Some(_) => None,
        };
        let at = at.ok_or_else(|| Invalid::field(name, "time as number or string, or null"))?;
        Ok(Some(Some(at)))
    }

    /// Reads a number, drops its fraction and raises negative numbers to 0: 3.8 gives 3, -7.2 gives 0.
    pub fn truncated(&self, name: &str) -> Result<Option<i64>, Invalid> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| Invalid::field(name, "number"))?;
        Ok(Some(number.trunc().clamp(0.0, MAX_EXACT as f64) as i64))
    }

    /// Reads a finite number, or `null` to clear.
    pub fn nullable_number(&self, name: &str) -> Result<Patch<f64>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(Value::Number(number)) => match number.as_f64().filter(|number| number.is_finite()) {
                Some(number) => Ok(Some(Some(number))),
                None => Err(Invalid::field(name, "number or null")),
            },
            Some(_) => Err(Invalid::field(name, "number or null")),
        }
    }

    /// Reads a list of texts, trimmed, without blank ones and duplicates, in the order sent.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Invalid> {
        let invalid = || Invalid::field(name, "array of strings");
        let Some(value) = self.get(name) else { return Ok(None) };
        let mut texts: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for item in value.as_array().ok_or_else(invalid)? {
            let text = item.as_str().ok_or_else(invalid)?.trim();
            if text.chars().count() > MAX_KEY_CHARS {
                return Err(Invalid::field(name, "array of strings of at most 191 characters"));
            }
            if !text.is_empty() && seen.insert(text) {
                texts.push(text.to_owned());
            }
        }
        Ok(Some(texts))
    }

    /// Reads a list of row ids without duplicates, in the order sent.
    pub fn id_list<I: Id>(&self, name: &str) -> Result<Option<Vec<I>>, Invalid> {
        let invalid = || Invalid::field(name, "array of positive integers");
        let Some(value) = self.get(name) else { return Ok(None) };
        let mut ids = Vec::new();
        let mut seen = HashSet::new();
        for item in value.as_array().ok_or_else(invalid)? {
            let id = exact_id(item).ok_or_else(invalid)?;
            if seen.insert(id) {
                ids.push(id);
            }
        }
        Ok(Some(ids))
    }

    /// Reads the `ids` of a batch; at least one is required.
    pub fn ids<I: Id>(&self) -> Result<Vec<I>, Invalid> {
        let ids = self.id_list("ids")?.filter(|ids| !ids.is_empty());
        ids.ok_or_else(|| Invalid::field("ids", "non-empty array of positive integers"))
    }
}

/// Returns the id in a JSON number; `None` unless it is a positive integer.
pub fn exact_id<I: Id>(value: &Value) -> Option<I> {
    exact_integer(value).filter(|id| *id > 0).map(I::new)
}

/// Asserts that `read` refuses `body` with each of the values in place of the named member, and that the message names
/// the member.
#[cfg(test)]
pub fn refuses_each<T>(read: impl Fn(Value) -> Result<T, Invalid>, body: &Value, cases: &[(&str, Value)]) {
    for (field, values) in cases {
        for value in values.as_array().expect("values") {
            let mut body = body.clone();
            body[*field] = value.clone();
            let Err(refused) = read(body) else { panic!("{field}: {value} was accepted") };
            let message = refused.to_string();
            assert!(message.contains(field), "{field}: {value}: {message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::schema::may;
    use crate::ids::AccountId;
    use serde_json::json;

    static DESCRIBED: Object =
        Object::new("Described", &[may("f", Shape::Count), may("ids", Shape::List(&Shape::Id))]);

    fn fields(value: Value) -> Fields {
        Fields::of(&DESCRIBED, value.as_object().cloned().expect("an object"))
    }

    #[test]
    fn a_value_of_another_type_is_refused_by_name() {
        let every_type = [json!(null), json!(true), json!(1), json!(1.5), json!("x"), json!([]), json!({})];
        for (reader, accepted) in [
            ((|f| f.text("f").map(drop)) as fn(&Fields) -> Result<(), Invalid>, vec![4]),
            (|f| f.nullable_text("f").map(drop), vec![0, 4]),
            (|f| f.name("f").map(drop), vec![4]),
            (|f| f.bool("f").map(drop), vec![1]),
            (|f| f.integer("f").map(drop), vec![2]),
            (|f| f.required_id::<AccountId>("f").map(drop), vec![2]),
            (|f| f.nullable_id::<AccountId>("f").map(drop), vec![0, 2]),
            (|f| f.truncated("f").map(drop), vec![2, 3]),
            (|f| f.nullable_number("f").map(drop), vec![0, 2, 3]),
            (|f| f.texts("f").map(drop), vec![5]),
        ] {
            for (index, value) in every_type.iter().enumerate() {
                let result = reader(&fields(json!({"f": value})));
                assert_eq!(result.is_ok(), accepted.contains(&index), "{value}: {result:?}");
                if let Err(refused) = result {
                    assert!(refused.to_string().starts_with("Invalid f. Expected "), "{refused}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_of_an_item_names_its_list() {
        for (refused, expected) in [
            (Invalid::field("id", "integer"), "Invalid rows[].id. Expected integer."),
            (Invalid::because("id", "No such row: 7.".to_owned()), "Invalid rows[].id. No such row: 7."),
            (Invalid::request("Name a row."), "Invalid rows[]. Name a row."),
        ] {
            assert_eq!(refused.within("rows").to_string(), expected);
        }
    }

    #[test]
    fn integers_are_exact_and_in_range() {
        for (value, expected) in [
            (json!(0), Some(0)),
            (json!(2.0), Some(2)),
            (json!(-1), None),
            (json!(2.5), None),
            (json!(1e300), None),
            (json!(9_007_199_254_740_992_i64), None),
            (json!(u64::MAX), None),
        ] {
            assert_eq!(fields(json!({"f": value})).integer("f").ok().flatten(), expected, "{value}");
        }
    }

    #[test]
    fn batch_ids_are_distinct_positive_integers() {
        assert_eq!(fields(json!({"ids": [3, 1, 3]})).ids(), Ok(vec![AccountId::new(3), AccountId::new(1)]));
        let many: Vec<i64> = (1..=200_000).collect();
        assert_eq!(fields(json!({ "ids": many })).ids::<AccountId>().map(|ids| ids.len()), Ok(200_000));
        for body in [
            json!({}),
            json!({"ids": []}),
            json!({"ids": ["1"]}),
            json!({"ids": [0]}),
            json!({"ids": 1}),
            json!({"ids": [1.5]}),
        ] {
            assert!(fields(body.clone()).ids::<AccountId>().is_err(), "{body}");
        }
    }

    #[test]
    fn texts_are_trimmed_and_distinct() {
        assert_eq!(
            fields(json!({"f": [" a", "b", "a ", " "]})).texts("f"),
            Ok(Some(vec!["a".into(), "b".into()]))
        );
        assert!(fields(json!({"f": ["a", 1]})).texts("f").is_err());
        assert!(fields(json!({"f": ["x".repeat(192)]})).texts("f").is_err());
    }
}
