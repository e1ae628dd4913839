//! Paths of interfaces that this gateway does not serve, but that clients ask for all the same: they get a 404 in the
//! form in which they read errors.
//!
//! | paths | interface | its errors |
//! |---|---|---|
//! | `/v2/…`, but for `/v2/rerank` | Cohere's | `{"message": …}` |
//! | `/api/chat`, `/api/tags`, … | Ollama's, which shares its first segment with the admin interface | `{"error": …}` |
//!
//! Further paths of Azure and Google get errors of the dialects that are served here
//! ([`ErrorShape::at`](super::reply::ErrorShape::at)).

use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::http::{self, Response};

/// The first path segments after `/api/` in the API of Ollama 0.9, as its documentation lists them. None is a path of the
/// admin interface.
const OLLAMA: [&str; 14] = [
    "blobs",
    "chat",
    "copy",
    "create",
    "delete",
    "embed",
    "embeddings",
    "generate",
    "ps",
    "pull",
    "push",
    "show",
    "tags",
    "version",
];

/// An interface that is not served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignApi {
    Cohere,
    Ollama,
}

impl ForeignApi {
    /// Returns the interface to which a path without a handler belongs, where it is known.
    pub fn at(path: &str) -> Option<Self> {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let mut segments = path.split('/').skip(1);
        match (segments.next()?, segments.next()) {
            ("v2", _) => Some(Self::Cohere),
            ("api", Some(name)) if OLLAMA.contains(&name) => Some(Self::Ollama),
            _ => None,
        }
    }

    /// Builds a 404 in the form that the interface's clients read.
    pub fn no_such_path(self) -> Response {
        let body = match self {
            Self::Cohere => json!({ "message": "Not found: Cohere's v2 API is not supported here, use /v1" }),
            Self::Ollama => json!({ "error": "Not found: Ollama's API is not supported here, use /v1" }),
        };
        http::json(StatusCode::NOT_FOUND, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_path_is_known_by_its_first_segments() {
        for (path, expected) in [
            ("/v2/rerank", Some(ForeignApi::Cohere)),
            ("/v2", Some(ForeignApi::Cohere)),
            ("/api/chat", Some(ForeignApi::Ollama)),
            ("/%61pi/tags", Some(ForeignApi::Ollama)),
            ("/api/blobs/sha256:0", Some(ForeignApi::Ollama)),
            ("/api/chats", None),
            ("/api/sites", None),
            ("/api", None),
            ("/v1/rerank", None),
            ("/v22/x", None),
            ("/", None),
        ] {
            assert_eq!(ForeignApi::at(path), expected, "{path}");
        }
    }
}
