//! Canonical JSON: members sorted by name, no whitespace, integers without a fraction. Equal values have the
//! same text, whoever wrote them, so that a digest of it survives reformatting.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_number::whole;

/// Writes a value in its canonical form. (A map of serde_json is sorted by name.)
pub fn write(value: &mut Value, out: &mut impl Write) -> io::Result<()> {
    settle(value);
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// Writes JSON in its canonical form, except for numbers, which keep the text that they have in it: programs differ in how
/// they write them. `json` must have been parsed as a [`Value`] before, which bounds its depth.
pub fn write_with_numbers_kept(json: &RawValue, out: &mut dyn Write) -> io::Result<()> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            out.write_all(b"{")?;
            for (index, (name, member)) in members.into_iter().enumerate() {
                out.write_all(if index == 0 { b"" } else { b"," })?;
                serde_json::to_writer(&mut *out, &name)?;
                out.write_all(b":")?;
                write_with_numbers_kept(member, out)?;
            }
            out.write_all(b"}")
        }
        Some(b'[') => {
            out.write_all(b"[")?;
            for (index, item) in serde_json::from_str::<Vec<&RawValue>>(text)?.into_iter().enumerate() {
                out.write_all(if index == 0 { b"" } else { b"," })?;
                write_with_numbers_kept(item, out)?;
            }
            out.write_all(b"]")
        }
        Some(b'"') => Ok(serde_json::to_writer(out, &serde_json::from_str::<String>(text)?)?),
        _ => out.write_all(text.as_bytes()),
    }
}

/// Formats compact JSON for people, with an indentation of two spaces for each level.
pub fn pretty(text: &[u8]) -> Vec<u8> {
    let mut laid_out = Vec::with_capacity(text.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    let begin_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            laid_out.push(byte);
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        let is_empty = |open: u8, close: u8| text.get(at.wrapping_sub(1)) == Some(&open) && byte == close;
        match byte {
            b'{' | b'[' => {
                laid_out.push(byte);
                depth += 1;
                if !matches!(text.get(at + 1), Some(b'}' | b']')) {
                    begin_line(&mut laid_out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !is_empty(b'{', b'}') && !is_empty(b'[', b']') {
                    begin_line(&mut laid_out, depth);
                }
                laid_out.push(byte);
            }
            b',' => {
                laid_out.push(byte);
                begin_line(&mut laid_out, depth);
            }
            b':' => laid_out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                laid_out.push(byte);
            }
        }
    }
    laid_out
}

/// Converts every number within a value to its canonical form: `1`, not `1.0`.
pub fn settle(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Object(members) => members.values_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_laid_out_without_being_changed() {
        let text = r#"{"a":[],"b":{"c":[1,"x,{\"y\":\\"]},"d":{}}"#;
        let expected = serde_json::from_str::<Value>(text).map(|value| serde_json::to_string_pretty(&value));
        let expected = expected.expect("JSON").expect("text");
        assert_eq!(String::from_utf8(pretty(text.as_bytes())), Ok(expected));
    }

    #[test]
    fn equal_values_have_one_text() {
        for text in [r#"{"b":1,"a":[1.0,2.50,"\u00e9"]}"#, "{ \"a\": [1, 25e-1, \"é\"],\n \"b\": 1.0e0 }"] {
            let mut written = Vec::new();
            let mut value = serde_json::from_str(text).expect("JSON");
            write(&mut value, &mut written).expect("written");
            assert_eq!(String::from_utf8(written).as_deref(), Ok(r#"{"a":[1,2.5,"é"],"b":1}"#), "{text}");
        }
    }

    #[test]
    fn numbers_keep_their_text_where_that_counts() {
        let text = "{ \"b\": [3e-05, -0, 12.0, true],\n \"a\": {\"\\u00e9\": null, \"d\": \"1.0\"}, \"b\": [ 1E5 ] }";
        let mut written = Vec::new();
        let json: &RawValue = serde_json::from_str(text).expect("JSON");
        write_with_numbers_kept(json, &mut written).expect("written");
        assert_eq!(String::from_utf8(written).as_deref(), Ok(r#"{"a":{"d":"1.0","é":null},"b":[1E5]}"#));
    }
}
