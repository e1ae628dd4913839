//! The media types that are accepted, and the type by file name where the client names none.

use crate::dialect::media_types;
use crate::dialect::text_files::{is_text_name, is_text_type};

/// The documents that are stored, besides images and sounds.
const STORED: [&str; 6] = [
    "application/pdf",
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "text/plain",
    "text/markdown",
];

/// Returns the type under which a file is stored, from the type of its part or, if that says nothing, from its name. `None`
/// if the type is not accepted.
pub(super) fn stored_type(said: Option<&str>, filename: &str) -> Option<String> {
    let said = said.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if said.is_empty() || said == "application/octet-stream" {
        return by_extension(filename).map(str::to_owned);
    }
    is_stored(&said).then_some(said)
}

fn is_stored(mime_type: &str) -> bool {
    let is_of = |kind: &str| {
        mime_type.strip_prefix(kind).is_some_and(|rest| {
            !rest.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
        })
    };
    STORED.contains(&mime_type) || is_of("image/") || is_of("audio/")
}

/// Documents that are accepted inside a body beside text, since the dialects' own upstreams read them.
const DOCUMENTS: [&str; 3] = ["application/rtf", "application/msword", "application/epub+zip"];
const OFFICE: [&str; 3] = [
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/vnd.ms-",
];
/// The file name extensions of such documents, used where no type is named.
const DOCUMENT_ENDINGS: [&str; 9] = ["rtf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "epub"];

/// Returns the type of a file inside a body; `None` when it is not accepted.
pub(super) fn inline_type(said: Option<&str>, filename: &str) -> Option<String> {
    stored_type(said, filename).or_else(|| {
        let said = said.unwrap_or_default().split(';').next()?.trim().to_ascii_lowercase();
        if said.is_empty() || said == "application/octet-stream" {
            let is_read = is_text_name(filename) || is_document_name(filename);
            return is_read.then(|| "application/octet-stream".to_owned());
        }
        let is_read = is_text_type(&said)
            || DOCUMENTS.contains(&said.as_str())
            || OFFICE.iter().any(|family| said.starts_with(family));
        is_read.then_some(said)
    })
}

fn is_document_name(filename: &str) -> bool {
    let ending = filename.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| DOCUMENT_ENDINGS.contains(&ending.as_str()))
}

fn by_extension(filename: &str) -> Option<&'static str> {
    media_types::of_name(filename).filter(|mime_type| is_stored(mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_what_the_part_says_else_what_the_name_says() {
        for (said, filename, expected) in [
            (Some("application/pdf"), "x", Some("application/pdf")),
            (Some("Text/Plain; charset=utf-8"), "x.pdf", Some("text/plain")),
            (Some("image/x-icon"), "x", Some("image/x-icon")),
            (Some("audio/x-wav"), "x", Some("audio/x-wav")),
            (Some("application/zip"), "x.pdf", None),
            (Some("text/html"), "x.txt", None),
            (Some("image/"), "x.png", None),
            (Some("image/png\u{1}"), "x.png", None),
            (Some("video/mp4"), "x.mp4", None),
            (Some(""), "x.md", Some("text/markdown")),
            (None, "a.b.MARKDOWN", Some("text/markdown")),
            (Some("application/octet-stream"), "x.weba", Some("audio/webm")),
            (None, "x.exe", None),
            (None, "pdf", None),
            (None, "", None),
        ] {
            assert_eq!(stored_type(said, filename).as_deref(), expected, "{said:?} {filename}");
        }
    }

    #[test]
    fn what_stands_in_a_body_may_be_what_upstreams_read() {
        for (said, filename, taken) in [
            (Some("text/csv"), "", true),
            (Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"), "", true),
            (Some("application/ld+json"), "", true),
            (Some("image/png"), "", true),
            (Some("application/zip"), "a.pdf", false),
            (Some("application/x-msdownload"), "", false),
            (Some("video/mp4"), "", false),
            (None, "a.docx", true),
            (None, "a.rs", true),
            (None, "a.exe", false),
        ] {
            assert_eq!(inline_type(said, filename).is_some(), taken, "{said:?} {filename}");
        }
    }

    #[test]
    fn every_listed_ending_has_its_type() {
        for (endings, expected) in [
            ("pdf", "application/pdf"),
            ("txt", "text/plain"),
            ("md markdown", "text/markdown"),
            ("json", "application/json"),
            ("jsonl", "application/jsonl"),
            ("ndjson", "application/x-ndjson"),
            ("png", "image/png"),
            ("jpg jpeg", "image/jpeg"),
            ("gif", "image/gif"),
            ("webp", "image/webp"),
            ("svg", "image/svg+xml"),
            ("avif", "image/avif"),
            ("bmp", "image/bmp"),
            ("wav", "audio/wav"),
            ("mp3", "audio/mpeg"),
            ("m4a", "audio/mp4"),
            ("ogg", "audio/ogg"),
            ("aac", "audio/aac"),
            ("flac", "audio/flac"),
            ("weba", "audio/webm"),
        ] {
            for ending in endings.split(' ') {
                assert_eq!(by_extension(&format!("file.{ending}")), Some(expected), "{ending}");
            }
        }
    }
}
