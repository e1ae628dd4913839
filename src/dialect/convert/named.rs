//! What a client calls the field that stands in the way.
//!
//! A writer that cannot say something does not know in which dialect it was asked: it names the field as
//! chat does. A client of another dialect sent no such field, and reads its own word for it.

use crate::dialect::Dialect;
use crate::dialect::canonical::Unfit;

/// An error about a request of a client of `from`.
pub(super) fn in_words_of(from: Dialect, unfit: Unfit) -> Unfit {
    match unfit {
        Unfit::Unsupported { field } => Unfit::Unsupported { field: word(from, field) },
        Unfit::Invalid { field, message } => {
            let own = word(from, field.clone());
            let problem = message.strip_prefix(&field).map(|rest| format!("{own}{rest}"));
            Unfit::Invalid { field: own, message: problem.unwrap_or(message) }
        }
    }
}

fn word(from: Dialect, field: String) -> String {
    let own = match (from, field.as_str()) {
        (Dialect::Gemini, "n") => "candidateCount",
        (Dialect::Gemini, "logprobs") => "responseLogprobs",
        (Dialect::Gemini, "messages") => "contents",
        (Dialect::Gemini, "input_audio" | "image_url" | "file") => "inlineData",
        (Dialect::Gemini, "file_url") => "fileData",
        (Dialect::Responses, "logprobs") => "include",
        (Dialect::Responses, "messages") => "input",
        (Dialect::Responses, "image_url") => "input_image",
        (Dialect::Responses, "file") => "input_file",
        (Dialect::Messages, "image_url") => "image",
        (Dialect::Messages, "file") => "document",
        (Dialect::Messages, "file_url") => "document.source.url",
        _ => return field,
    };
    own.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_its_own_word() {
        for (from, field, wanted) in [
            (Dialect::Chat, "n", "n"),
            (Dialect::Gemini, "n", "candidateCount"),
            (Dialect::Responses, "messages", "input"),
            (Dialect::Messages, "file_url", "document.source.url"),
            (Dialect::Messages, "mcp_servers", "mcp_servers"),
        ] {
            assert_eq!(in_words_of(from, Unfit::unsupported(field)), Unfit::unsupported(wanted));
        }
        let said = in_words_of(Dialect::Gemini, Unfit::invalid("messages", "must say something"));
        assert_eq!(said, Unfit::invalid("contents", "must say something"));
    }
}
