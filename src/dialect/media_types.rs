//! Media types of files whose type is not told, and OpenAI's names of audio formats.

pub(super) const PDF: &str = "application/pdf";
/// The beginning of a PDF (`%PDF-`) in base64.
pub(super) const PDF_START: &str = "JVBERi0";

/// Media types with the endings of their files' names.
const TYPES: [(&str, &[&str]); 23] = [
    (PDF, &["pdf"]),
    ("application/json", &["json"]),
    ("application/jsonl", &["jsonl"]),
    ("application/x-ndjson", &["ndjson"]),
    ("text/plain", &["txt"]),
    ("text/markdown", &["md", "markdown"]),
    ("text/csv", &["csv"]),
    ("text/html", &["html", "htm"]),
    ("image/png", &["png"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/gif", &["gif"]),
    ("image/webp", &["webp"]),
    ("image/svg+xml", &["svg"]),
    ("image/avif", &["avif"]),
    ("image/bmp", &["bmp"]),
    ("audio/wav", &["wav"]),
    ("audio/mpeg", &["mp3"]),
    ("audio/mp4", &["m4a"]),
    ("audio/ogg", &["ogg"]),
    ("audio/aac", &["aac"]),
    ("audio/flac", &["flac"]),
    ("audio/webm", &["weba"]),
    ("video/mp4", &["mp4"]),
];

/// Returns the media type for the ending of a file's name or of a path.
pub fn of_name(name: &str) -> Option<&'static str> {
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES.iter().find(|(_, endings)| endings.contains(&ending.as_str())).map(|(name, _)| *name)
}

/// Returns OpenAI's name of an audio format by the subtype of its media type; `None` for one that is not known.
pub(super) fn audio_format(subtype: &str) -> Option<&'static str> {
    match subtype {
        "mpeg" | "mpga" | "mp3" => Some("mp3"),
        "mp4" | "m4a" | "x-m4a" => Some("m4a"),
        "wav" | "x-wav" | "wave" | "vnd.wave" => Some("wav"),
        "ogg" => Some("ogg"),
        "webm" => Some("webm"),
        _ => None,
    }
}
