//! Counts the parts and calls of a request before anything is built of it.
//!
//! Each part costs a conversion some hundred bytes and some look-ups, however short it is, so a body of tiny parts
//! costs more than its length suggests. The elements of the lists that a reader walks through are counted: turns, their
//! parts, calls and results, tools, instructions. Text that is passed on as it is, such as a schema or the arguments of
//! a call, may be of any length.

use super::Dialect;
use super::canonical::ConversionError;
use super::json::{Scan, Stopped};

/// The number of members of an object that do not count as parts: no object of a dialect has more, and those beyond
/// count.
const MEMBERS: usize = 64;
/// Members whose object, in turn, has members with lists of parts.
const WRAPPERS: [&str; 4] =
    ["functionResponse", "function_response", "systemInstruction", "system_instruction"];
/// The shortest element of a list, in bytes, with its comma.
const SHORTEST: usize = 2;

/// Refuses a body with more than `most` parts and calls. A body that is not JSON is left to its reader.
pub fn check(dialect: Dialect, body: &str, most: usize) -> Result<(), ConversionError> {
    if body.len() / SHORTEST <= most || count(body) <= most {
        return Ok(());
    }
    let field = match dialect {
        Dialect::Gemini => "contents",
        Dialect::Responses => "input",
        Dialect::Completions => "prompt",
        _ => "messages",
    };
    Err(ConversionError::invalid(field, &format!("must have no more than {most} parts and calls together")))
}

fn count(body: &str) -> usize {
    let mut scan = Scan::new(body);
    scan.blanks();
    let mut parts = 0;
    if scan.peek() == Some(b'{') && object(&mut scan, 1, &mut parts).is_err() {
        return 0;
    }
    parts
}

fn object(scan: &mut Scan<'_>, depth: usize, parts: &mut usize) -> Result<(), Stopped> {
    let mut members = 0;
    scan.object(depth, |scan, key, depth| {
        members += 1;
        *parts += usize::from(members > MEMBERS);
        match scan.peek() {
            Some(b'[') => list(scan, depth + 1, parts),
            Some(b'{') if depth == 1 || WRAPPERS.contains(&&*key.name()) => object(scan, depth + 1, parts),
            _ => scan.value(depth),
        }
    })
}

fn list(scan: &mut Scan<'_>, depth: usize, parts: &mut usize) -> Result<(), Stopped> {
    scan.array(depth, |scan, depth| {
        *parts += 1;
        match scan.peek() {
            Some(b'{') => object(scan, depth + 1, parts),
            _ => scan.value(depth),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_walks_through_is_counted() {
        for (body, parts) in [
            (r#"{"messages":[{"role":"user","content":"x"}]}"#, 1),
            (
                r#"{"messages":[{"content":[{"type":"text"},{}],"tool_calls":[{"function":{"arguments":"[1,2]"}}]}]}"#,
                4,
            ),
            (r#"{"messages":[{"content":[{"type":"tool_result","content":[{},{}]}]}],"system":[{}]}"#, 5),
            (r#"{"messages":[{"content":[{"type":"tool_use","input":{"rows":[1,2,3,[4]]}}]}]}"#, 2),
            (r#"{"contents":{"parts":[{},{}]},"systemInstruction":{"parts":[{}]}}"#, 3),
            (
                r#"{"contents":[{"parts":[{"functionResponse":{"response":{"rows":[1,2]},"parts":[{}]}}]}]}"#,
                3,
            ),
            (
                r#"{"tools":[{"function":{"parameters":{"required":["a","b"]}}},{"functionDeclarations":[{}]}]}"#,
                3,
            ),
            (r#"{"input":["a",{"output":[{}]}]}"#, 3),
            (r#"{"input":[1,2"#, 0),
            ("[1,2]", 0),
        ] {
            assert_eq!(count(body), parts, "{body}");
        }
        let members: Vec<_> = (0..=MEMBERS).map(|number| format!("\"m{number}\":0")).collect();
        assert_eq!(count(&format!("{{{}}}", members.join(","))), 1);
    }

    #[test]
    fn too_many_parts_are_refused_by_the_name_of_their_list() {
        let body =
            |parts: usize| format!(r#"{{"contents":[{{"parts":[{}{{}}]}}]}}"#, "{},".repeat(parts - 1));
        assert_eq!(check(Dialect::Gemini, &body(99), 100), Ok(()));
        let refused = check(Dialect::Gemini, &body(100), 100);
        let wanted =
            ConversionError::invalid("contents", "must have no more than 100 parts and calls together");
        assert_eq!(refused, Err(wanted));
    }
}
