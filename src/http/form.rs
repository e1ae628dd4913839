//! A `multipart/form-data` body that is held whole: its fields and their places in it, so that one of them can be replaced
//! and every other byte passed on as it came.
//!
//! Forms that are too long to be held are read by [`multipart`](super::multipart), which also explains why so much is
//! refused. Here the boundary may occur nowhere but on its own lines: some parsers accept it inside a content, or after the
//! end.

use std::ops::Range;

use memchr::memmem::Finder;

use super::multipart::{HEAD_TOO_LONG, MAX_HEAD, Malformed, PartHead, UNENDED, boundary};

/// The most fields of a form; no honest form has more.
const MAX_FIELDS: usize = 1000;

/// A parsed form.
#[derive(Debug)]
pub struct Form {
    pub fields: Vec<Field>,
    /// Where another field would be inserted: at the line end before the last boundary.
    pub end: usize,
    pub boundary: String,
}

/// A field of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub head: PartHead,
    /// The place of its head in the body, including the line end before it.
    pub lines: Range<usize>,
    /// The place of its content in the body.
    pub content: Range<usize>,
}

impl Form {
    /// Parses a body with this `Content-Type`.
    pub fn read(content_type: &str, body: &[u8]) -> Result<Self, Malformed> {
        const CUT: Malformed = Malformed("the form ends before its closing boundary");
        const STRAY: Malformed = Malformed("the boundary occurs inside the content of a part");
        let boundary = boundary(content_type)?;
        let mark = format!("--{boundary}");
        let finder = Finder::new(&mark);
        let find = |from: usize| finder.find(&body[from..]).map(|at| from + at).ok_or(CUT);
        let mut fields = Vec::new();
        // The first boundary needs no line end before it.
        let mut at = find(0)?;
        if at > 0 && !body[..at].ends_with(b"\r\n") {
            return Err(STRAY);
        }
        let mut end = at.saturating_sub(2);
        loop {
            let rest = &body[at + mark.len()..];
            if let Some(epilogue) = rest.strip_prefix(b"--") {
                let is_one_line_more = epilogue.is_empty() || epilogue.starts_with(b"\r\n");
                if !is_one_line_more || finder.find(epilogue).is_some() {
                    return Err(UNENDED);
                }
                return Ok(Self { fields, end, boundary });
            }
            if fields.len() == MAX_FIELDS {
                return Err(Malformed("the form has too many fields"));
            }
            if !rest.starts_with(b"\r\n") {
                return Err(if rest.is_empty() { CUT } else { UNENDED });
            }
            let head_end = memchr::memmem::find(rest, b"\r\n\r\n").ok_or(CUT)?;
            if head_end > MAX_HEAD {
                return Err(HEAD_TOO_LONG);
            }
            let head = PartHead::parse(&rest[..head_end])?;
            let start = at + mark.len();
            let lines = start..start + head_end;
            let content = lines.end + 4;
            at = find(content)?;
            if !body[content..at].ends_with(b"\r\n") {
                return Err(STRAY);
            }
            end = at - 2;
            fields.push(Field { head, lines, content: content..end });
        }
    }

    /// Returns the first field with this name.
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
                "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--".to_owned(),
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
        let (a, end) = (part("a", "1"), "--b--");
        for body in [
            format!("x{a}{end}"),
            format!("x\n{a}{end}"),
            format!("{}{end}", part("a", &format!("1\n{}", part("model", "m")))),
            format!("{}{end}", part("a", "in --b it")),
            format!("{a}{end}x"),
            format!("{a}{end} \r\n"),
            format!("{a}{end}\r\n{a}{end}"),
            format!("{a}--b \r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n{end}"),
            "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b--".to_owned(),
        ] {
            assert!(read(&body).is_err(), "{body:?}");
        }
        assert!(read(&part("a", "1")).is_err());
        assert!(Form::read("application/json", b"{}").is_err());
    }
}
