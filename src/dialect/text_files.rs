//! Files that are text: where a dialect takes no such file, its content is sent as text.

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};

use super::canonical::{File, Source};
use super::literal::Text;

const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Media types of text beside `text/…`, `…+json` and `…+xml`.
const TEXT_TYPES: [&str; 12] = [
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/csv",
    "application/javascript",
    "application/typescript",
    "application/x-sh",
    "application/x-sql",
];
/// The endings of the names of text files.
const TEXT_ENDINGS: [&str; 38] = [
    "txt", "md", "markdown", "csv", "tsv", "json", "jsonl", "ndjson", "xml", "yaml", "yml", "toml", "html",
    "htm", "log", "tex", "css", "js", "mjs", "ts", "py", "rb", "php", "rs", "go", "java", "kt", "swift", "c",
    "h", "cc", "cpp", "cs", "sh", "sql", "ini", "diff", "patch",
];

/// Whether the file is text by its type, or by its name where the type is unknown.
fn is_text(file: &File<'_>, mime: &str) -> bool {
    let essence = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    is_text_type(&essence)
        || is_unknown(&essence) && file.name.as_ref().is_some_and(|name| is_text_name(&name.decode()))
}

/// Whether a media type, in lower case and without parameters, is one of text.
pub fn is_text_type(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || TEXT_TYPES.contains(&essence)
}

/// Whether a media type does not tell the kind of file.
pub(super) fn is_unknown(mime: &str) -> bool {
    matches!(mime, "" | "application/octet-stream")
}

/// Whether a file is text by the ending of its name.
pub fn is_text_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| TEXT_ENDINGS.contains(&ending.as_str()))
}

/// Decodes a text: UTF-8, or UTF-16 with a byte order mark. `None` for any other encoding.
pub fn decoded(bytes: Vec<u8>) -> Option<String> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, odd) = rest.as_chunks();
        let letters = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
        letters.collect::<Result<String, _>>().ok().filter(|_| odd.is_empty())
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => String::from_utf8(bytes).ok(),
    }
}

/// Returns the content of a file in base64 where it is text; `None` for any other file, and for one that is not UTF-8.
pub(super) fn inline_text(file: &File<'_>) -> Option<Text<'static>> {
    let Source::Inline { mime, data } = &file.source else { return None };
    if !is_text(file, &mime.decode()) {
        return None;
    }
    let bytes = TOLERANT.decode(data.decode().as_bytes()).ok()?;
    Some(Text::of(&String::from_utf8(bytes).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_decoded_where_its_encoding_is_known() {
        for (bytes, wanted) in [
            ("Grün".as_bytes(), Some("Grün")),
            (b"", Some("")),
            (b"\xff\xfeh\0\xfc\0", Some("hü")),
            (b"\xfe\xff\0h\0\xfc", Some("hü")),
            (b"\xff\xfeh\0\xfc", None),
            (b"Gr\xfcn", None),
        ] {
            assert_eq!(decoded(bytes.to_vec()).as_deref(), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn text_is_told_by_its_type_or_its_name() {
        let read = |mime: &'static str, name: Option<&'static str>, data: &'static str| {
            let source = Source::Inline { mime: Text::plain(mime), data: Text::plain(data) };
            inline_text(&File { source, name: name.map(Text::plain) }).map(|text| text.decode().into_owned())
        };
        let hello = Some("hello".to_owned());
        for (mime, name, wanted) in [
            ("text/markdown", None, &hello),
            ("Text/Plain; charset=utf-8", None, &hello),
            ("application/json", Some("a.bin"), &hello),
            ("application/geo+json", None, &hello),
            ("application/octet-stream", Some("a.MD"), &hello),
            ("", Some("a.log"), &hello),
            ("", Some("main.rs"), &hello),
            ("application/jsonl", None, &hello),
            ("application/x-sql", None, &hello),
            ("", Some("md"), &None),
            ("", None, &None),
            ("application/pdf", Some("a.txt"), &None),
        ] {
            assert_eq!(&read(mime, name, "aGVsbG8="), wanted, "{mime} {name:?}");
        }
        assert_eq!(read("text/plain", None, "aGVsbG8"), hello, "without padding");
        assert_eq!(read("text/plain", None, "gICA"), None, "not UTF-8");
        assert_eq!(read("text/plain", None, "!"), None, "not base64");
    }
}
