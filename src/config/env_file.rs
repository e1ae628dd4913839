//! The `.env` file of the working directory.
//!
//! Without the file the built-in tokens may apply, so it is never read in part: a file that exists and cannot be read
//! stops the start, and only a missing one counts as none.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::byte_order_mark;

/// The content of the file.
#[derive(Default)]
pub(super) struct EnvFile {
    pub values: HashMap<String, String>,
    /// Warnings about lines that are not understood.
    pub warnings: Vec<String>,
}

/// Reads the file; the result is empty if there is none.
///
/// # Errors
/// Says why the file cannot be read, and what to do.
pub(super) fn read(path: &Path) -> Result<EnvFile, String> {
    let tell = |why: &str| format!("{}: {why}", path.display());
    // Reading a pipe or a device may never end.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err(tell("is neither a file nor a link to one: put a file in its place, or remove it"));
    }
    match std::fs::read(path) {
        Ok(bytes) => {
            let mut file = parse(decode(&bytes).map_err(|why| tell(&why))?);
            file.warnings.iter_mut().for_each(|warning| *warning = tell(warning));
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => Ok(EnvFile::default()),
        Err(error) => Err(tell(&match error.kind() {
            ErrorKind::NotFound => "is a link to a file that does not exist: repair or remove it".to_owned(),
            ErrorKind::IsADirectory => "is a directory: put a file in its place, or remove it".to_owned(),
            ErrorKind::PermissionDenied => {
                "cannot be read: allow the user that runs switchyard to read it, or remove it".to_owned()
            }
            _ => format!("cannot be read ({error}): repair or remove it"),
        })),
    }
}

/// Decodes a file that must be UTF-8, without the byte order mark that some editors put before it.
fn decode(bytes: &[u8]) -> Result<&str, String> {
    let is_wide = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") || bytes.contains(&0);
    if is_wide {
        return Err("is UTF-16 or not text: save it as UTF-8".to_owned());
    }
    let bytes = byte_order_mark::strip(bytes);
    // Everything would be one line, and all but the first name a part of its value.
    if bytes.contains(&b'\r') && !bytes.contains(&b'\n') {
        return Err("has line ends of carriage returns alone: save it with line feeds".to_owned());
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        format!("line {line} is not UTF-8: save the file as UTF-8")
    })
}

/// Parses `NAME=value` lines; `#` comments, an optional `export `, and one pair of quotes are understood. A comment may
/// also follow a value, behind a blank. Other lines are reported by their numbers only: they may contain a secret.
fn parse(text: &str) -> EnvFile {
    let EnvFile { mut values, mut warnings } = EnvFile::default();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
            warnings.push(format!("line {number} is not of the form NAME=value and is ignored"));
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if let Some(quote @ ('"' | '\'')) = value.chars().next()
            && !value[1..].contains(quote)
        {
            warnings.push(format!(
                "line {number}: the quotation mark of {name} is not closed and is part of the value"
            ));
        }
        values.insert(name.to_owned(), value_of(value).to_owned());
    }
    EnvFile { values, warnings }
}

fn value_of(text: &str) -> &str {
    let starts_comment = |rest: &str| rest.is_empty() || rest.trim_start().starts_with('#');
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let (value, rest) = text.strip_prefix(quote)?.split_once(quote)?;
        starts_comment(rest).then_some(value)
    });
    quoted.unwrap_or_else(|| match text.find(" #").or_else(|| text.find("\t#")) {
        Some(comment) => text[..comment].trim_end(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_env_file_has_comments_quotes_and_exports() {
        let text = "# a comment\nexport PORT=5000\n\nAUTH_TOKEN=\"with = inside\"\nbroken line\nTZ='UTC\n";
        let EnvFile { values, warnings } = parse(text);
        assert_eq!(values["PORT"], "5000");
        assert_eq!(values["AUTH_TOKEN"], "with = inside");
        assert_eq!(values["TZ"], "'UTC");
        assert_eq!(values.len(), 3);
        let [broken, open] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(
            broken.starts_with("line 5 ") && open.starts_with("line 6: ") && open.contains("TZ"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_comment_may_follow_a_value_of_an_env_file() {
        for (text, value) in [
            ("4000 # the port", "4000"),
            ("a#b", "a#b"),
            ("a\t# b", "a"),
            ("\"a # b\" # c", "a # b"),
            ("'a' ", "a"),
            ("\"a\"b\"", "\"a\"b\""),
            ("\"", "\""),
            ("", ""),
        ] {
            assert_eq!(value_of(text.trim()), value, "{text:?}");
        }
    }

    #[test]
    fn only_utf_8_is_a_text_and_its_mark_is_skipped() {
        assert_eq!(decode(b"\xef\xbb\xbfA=1"), Ok("A=1"));
        assert_eq!(decode("A=\u{e4}".as_bytes()), Ok("A=\u{e4}"));
        for (bytes, word) in [
            (&b"\xff\xfeA\x00=\x001\x00"[..], "UTF-16"),
            (b"\xfe\xff\x00A\x00=\x001", "UTF-16"),
            (b"A\x00=\x001\x00", "UTF-16"),
            (b"A=1\nB=2\nC=\xe4\n", "line 3"),
            (b"A=1\rB=2\r", "line feeds"),
        ] {
            let said = decode(bytes).expect_err("no text");
            assert!(said.contains(word), "{said}");
        }
    }
}
