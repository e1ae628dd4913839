//! Media types of files whose type is not told.

pub(super) const PDF: &str = "application/pdf";
/// The beginning of a PDF (`%PDF-`) in base64.
pub(super) const PDF_START: &str = "JVBERi0";

/// Returns the media type for the ending of a file's name or of a path.
pub(super) fn of_name(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "txt" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "pdf" => PDF,
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp3" => "audio/mp3",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => return None,
    })
}
