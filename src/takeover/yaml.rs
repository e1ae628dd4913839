//! Reads YAML 1.2 as a JSON value, as far as configuration files need it.
//!
//! The parser emits events; the tree is built here, where its depth and size are limited. An alias and the
//! value that it may stand for later count as much as the value itself, so that a few lines cannot become a
//! billion values. A file with several documents is refused.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The maximum nesting depth of values.
const MAX_DEPTH: usize = 64;
/// The maximum size in memory in bytes, with aliases expanded: of the values and their texts.
const MAX_SIZE: usize = 16 * 1024 * 1024;
const VALUE: usize = size_of::<Value>();
/// The name under which a mapping includes the members of others.
const MERGE: &str = "<<";

/// An open list or mapping, with the name of the next member of a mapping.
enum Open {
    List { items: Vec<Value>, anchor: usize, size: usize },
    Map { members: Map<String, Value>, name: Option<String>, anchor: usize, size: usize },
}

/// A whole value, as its last event gives it.
struct Whole {
    value: Value,
    /// The anchor that names it; 0 for none.
    anchor: usize,
    /// The size of the value, and that of what is new with it: a list's members are counted already.
    size: usize,
    added: usize,
}

/// A value of a document while it is read.
#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    anchors: HashMap<usize, (Value, usize)>,
    total: usize,
}

/// Reads the text, which may have further documents only if they are empty.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut tree = Tree::default();
    let mut found = Value::Null;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("it is not valid YAML: {error}"))?;
        let read = tree.take(event).and_then(|whole| match whole {
            Some(whole) => tree.put(whole),
            None => Ok(None),
        });
        match read.map_err(|error| format!("line {}: {error}", span.start.line()))? {
            None | Some(Value::Null) => {}
            Some(value) if found.is_null() => found = value,
            Some(_) => {
                return Err("it has several YAML documents: put each into a file of its own".to_owned());
            }
        }
    }
    Ok(found)
}

impl Tree {
    /// Reads an event, and returns the value that is whole with it.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Whole>, String> {
        Ok(Some(match event {
            Event::SequenceStart(anchor, _) => {
                self.begin(Open::List { items: Vec::new(), anchor, size: VALUE })?;
                return Ok(None);
            }
            Event::MappingStart(anchor, _) => {
                self.begin(Open::Map { members: Map::new(), name: None, anchor, size: VALUE })?;
                return Ok(None);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (value, anchor, size) = match self.open.pop().ok_or("an end without a start")? {
                    Open::List { items, anchor, size } => (Value::Array(items), anchor, size),
                    Open::Map { members, anchor, size, .. } => (Value::Object(merged(members)), anchor, size),
                };
                Whole { value, anchor, size, added: VALUE }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain
                    || tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let size = text.len() + VALUE;
                let value = if is_text { Value::String(text.into_owned()) } else { plain(&text) };
                Whole { value, anchor, size, added: size }
            }
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).cloned();
                let (value, size) = named.ok_or("an alias inside its own value")?;
                Whole { value, anchor: 0, size, added: size }
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => return Ok(None),
        }))
    }

    fn begin(&mut self, open: Open) -> Result<(), String> {
        self.open.push(open);
        if self.open.len() > MAX_DEPTH {
            return Err(format!("values are nested deeper than {MAX_DEPTH} levels"));
        }
        Ok(())
    }

    /// Puts a value into the list or mapping that is open; returns it if there is none.
    fn put(&mut self, Whole { value, anchor, size, added }: Whole) -> Result<Option<Value>, String> {
        self.total += added + if anchor == 0 { 0 } else { size };
        if self.total > MAX_SIZE {
            return Err(format!(
                "its values take more than {} MiB, those that aliases stand for included",
                MAX_SIZE >> 20
            ));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), size));
        }
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(Open::List { items, size: whole, .. }) => {
                *whole += size;
                items.push(value);
            }
            Some(Open::Map { members, name, size: whole, .. }) => {
                *whole += size;
                match name.take() {
                    None => *name = Some(member_name(value)?),
                    Some(name) => {
                        if members.contains_key(&name) {
                            return Err("a name occurs twice in one mapping".to_owned());
                        }
                        members.insert(name, value);
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Returns the members together with those of the mappings that `<<` names, unless the mapping has its own
/// (YAML's merge key, which is known to readers of 1.1 and most of 1.2).
fn merged(mut members: Map<String, Value>) -> Map<String, Value> {
    let named = match members.remove(MERGE) {
        None => return members,
        Some(Value::Array(list)) if list.iter().all(Value::is_object) => list,
        Some(map @ Value::Object(_)) => vec![map],
        Some(other) => {
            members.insert(MERGE.to_owned(), other);
            return members;
        }
    };
    for map in named {
        let Value::Object(map) = map else { continue };
        for (name, value) in map {
            members.entry(name).or_insert(value);
        }
    }
    members
}

fn member_name(value: Value) -> Result<String, String> {
    match value {
        Value::String(name) => Ok(name),
        Value::Null => Ok(String::new()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err("a list or mapping is used as a name".to_owned()),
    }
}

/// Parses a scalar without quotes (YAML 1.2.2, 10.3.2: the core schema).
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let begins_as_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    if begins_as_number && let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    let is_real = begins_as_number
        && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'));
    if is_real && let Some(number) = text.parse().ok().and_then(serde_json::Number::from_f64) {
        return Value::Number(number);
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_becomes_the_json_that_it_means() {
        let text = "# a comment\nlist:\n  - name: \"a b\"\n    on: yes\n    n: 12\n  - {url: 'http://x', none: ~}\nblock: |\n  two\n  lines\n\
                    share: &x [1, 2.5]\nagain: *x\nkey: 0123abc\nfalse: false\n";
        let expected = json!({"list": [{"name": "a b", "on": "yes", "n": 12}, {"url": "http://x", "none": null}],
            "block": "two\nlines\n", "share": [1, 2.5], "again": [1, 2.5], "key": "0123abc", "false": false});
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn a_mapping_takes_the_members_of_those_it_names() {
        let text = "a: &a {key: k, base: x}\nb: &b {base: y, more: 1}\none:\n  <<: *a\n  base: own\nboth: {<<: [*a, *b]}\nodd: {<<: 1}\n";
        let expected = json!({"a": {"key": "k", "base": "x"}, "b": {"base": "y", "more": 1},
            "one": {"key": "k", "base": "own"}, "both": {"key": "k", "base": "x", "more": 1}, "odd": {"<<": 1}});
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn a_file_of_several_documents_is_refused() {
        for text in ["a: 1", "---\na: 1\n...\n", "---\n---\na: 1", "a: 1\n---\n# nothing\n"] {
            assert_eq!(read(text), Ok(json!({"a": 1})), "{text}");
        }
        assert!(read("a: 1\n---\nb: 2\n").is_err_and(|why| why.contains("several YAML documents")));
        assert!(read("a: 1\n---\nb: [2\n").is_err());
        assert_eq!(read(""), Ok(Value::Null));
    }

    #[test]
    fn a_long_list_counts_once_however_deep_it_stands() {
        let text = format!("{}{}{}", "[".repeat(40), "x, ".repeat(20_000), "]".repeat(40));
        assert!(read(&text).is_ok());
    }

    #[test]
    fn aliases_of_aliases_do_not_grow_without_bound() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = format!("*a{}, ", level - 1).repeat(10);
            text += &format!("a{level}: &a{level} [{}]\n", inner.trim_end_matches(", "));
        }
        assert!(read(&text).unwrap_err().contains("those that aliases stand for included"));
        let deep: String = (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert!(read(&deep).unwrap_err().contains("nested deeper"));
        assert!(read(&"[".repeat(10_000)).is_err());
        for broken in ["a: [1", "a: 1\na: 2", "a: *nowhere", "? [a]\n: b", "a: b: c"] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
