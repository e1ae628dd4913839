//! A `multipart/form-data` body that is here whole: its fields, and where in it they stand, so that one of
//! them can be replaced and every other byte goes on as it came.
//!
//! Forms that are too long to be held are read by [`multipart`](super::multipart).

use std::ops::Range;

use memchr::memmem::Finder;

use super::multipart::{HEAD_TOO_LONG, MAX_HEAD, MAX_PADDING, Malformed, PartHead, boundary};

/// So many fields has no form that is meant well.
const MAX_FIELDS: usize = 1000;

/// A form.
#[derive(Debug)]
pub struct Form {
    pub fields: Vec<Field>,
    /// Where another field would begin: at the line end before the last boundary.
    pub end: usize,
    pub boundary: String,
}

/// One of its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub head: PartHead,
    /// Where its head stands in the body, the line end before it included.
    pub lines: Range<usize>,
    /// Where its content stands in the body.
    pub content: Range<usize>,
}

impl Form {
    /// Reads a body of this `Content-Type`.
    pub fn read(content_type: &str, body: &[u8]) -> Result<Self, Malformed> {
        const CUT: Malformed = Malformed("the form ended before its last boundary");
        let boundary = boundary(content_type)?;
        let line = format!("\r\n--{boundary}");
        let delimiter = Finder::new(&line);
        let mut fields = Vec::new();
        // The first boundary needs no line end before it.
        let first = &line.as_bytes()[2..];
        let (mut end, mut at) = match body.starts_with(first) {
            true => (0, first.len()),
            false => delimiter.find(body).map(|at| (at, at + line.len())).ok_or(CUT)?,
        };
        loop {
            let rest = body.get(at..).unwrap_or_default();
            if rest.starts_with(b"--") {
                return Ok(Self { fields, end, boundary });
            }
            let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let head = rest.get(padding..).filter(|rest| rest.starts_with(b"\r\n")).ok_or(CUT)?;
            if padding > MAX_PADDING || fields.len() == MAX_FIELDS {
                return Err(Malformed("the form has too many fields, or a boundary too many blanks"));
            }
            let head_end = memchr::memmem::find(head, b"\r\n\r\n").ok_or(CUT)?;
            if head_end > MAX_HEAD {
                return Err(HEAD_TOO_LONG);
            }
            let lines = at + padding..at + padding + head_end;
            let content = lines.end + 4;
            let parsed = PartHead::parse(&head[..head_end])?;
            end = content + delimiter.find(&body[content..]).ok_or(CUT)?;
            fields.push(Field { head: parsed, lines, content: content..end });
            at = end + line.len();
        }
    }

    /// The first field of a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.head.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=b";

    fn read(body: &str) -> Result<Vec<(String, String)>, Malformed> {
        let form = Form::read(KIND, body.as_bytes())?;
        let shown = |field: &Field| (field.head.name.clone(), body[field.content.clone()].to_owned());
        assert!(body[form.end..].trim_start().starts_with("--b--"), "{body:?}");
        Ok(form.fields.iter().map(shown).collect())
    }

    fn part(name: &str, content: &str) -> String {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
    }

    #[test]
    fn fields_are_found_where_they_stand() {
        let fields = |pairs: &[(&str, &str)]| {
            Ok(pairs.iter().map(|(name, content)| (name.to_string(), content.to_string())).collect())
        };
        let two = part("model", "m") + &part("image", "x\r\n--c\r\n\r\n");
        for (body, expected) in [
            (format!("{two}--b--"), fields(&[("model", "m"), ("image", "x\r\n--c\r\n\r\n")])),
            (
                format!("preamble\r\n{two}--b--\r\nepilogue"),
                fields(&[("model", "m"), ("image", "x\r\n--c\r\n\r\n")]),
            ),
            (part("empty", "") + "--b--\r\n", fields(&[("empty", "")])),
            ("--b--\r\n".to_owned(), fields(&[])),
            (
                "--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--".to_owned(),
                fields(&[("a", "1")]),
            ),
        ] {
            assert_eq!(read(&body), expected, "{body:?}");
        }
    }

    #[test]
    fn what_is_no_whole_form_is_refused() {
        for body in ["", "x", "--b", "--b\r\n", "--bx\r\n\r\n", "--b\r\nno head\r\n--b--"] {
            assert!(read(body).is_err(), "{body:?}");
        }
        assert!(read(&part("a", "1")).is_err());
        assert!(Form::read("application/json", b"{}").is_err());
    }
}
