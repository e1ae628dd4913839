//! The ids of batches, and an upstream's batch object as its client sees it.

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName};
use ring::rand::{SecureRandom, SystemRandom};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::dialect::batch::{BatchApi, object_with};
use crate::hex;
use crate::store::batches::BatchPlace;

/// The prefixes of the public ids, by interface; 128 random bits follow.
const BATCH: &str = "batch_sy_";
const MESSAGE_BATCH: &str = "msgbatch_sy_";
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The surface whose headers and errors OpenAI's interface shares.
pub(super) const SURFACE: Dialect = Dialect::Embeddings;

/// A file that an upstream has made from a batch: its public id is that of the batch with another prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultFile {
    Output,
    Errors,
}

/// The public id of a result file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResultFileId {
    pub(super) file: ResultFile,
    pub(super) batch_id: String,
}

// === impl ResultFile ===

impl ResultFile {
    const ALL: [Self; 2] = [Self::Output, Self::Errors];

    fn prefix(self) -> &'static str {
        match self {
            Self::Output => "file-sybatchout-",
            Self::Errors => "file-sybatcherr-",
        }
    }

    /// Returns the member of the batch object that names the file.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Output => "output_file_id",
            Self::Errors => "error_file_id",
        }
    }

    fn public_id(self, batch: &str) -> String {
        format!("{}{}", self.prefix(), batch.strip_prefix(BATCH).unwrap_or(batch))
    }
}

// === impl ResultFileId ===

impl ResultFileId {
    /// Reads a public file id; `None` for that of any other file.
    pub(super) fn parse(id: &str) -> Option<Self> {
        let of = |file: ResultFile| {
            let batch_id = format!("{BATCH}{}", id.strip_prefix(file.prefix())?);
            Some(Self { file, batch_id })
        };
        ResultFile::ALL.into_iter().find_map(of)
    }
}

/// Returns the prefix of an interface's public ids.
pub(super) fn prefix(api: BatchApi) -> &'static str {
    match api {
        BatchApi::OpenAi => BATCH,
        BatchApi::Anthropic => MESSAGE_BATCH,
    }
}

/// Makes a new public id; `None` without a source of randomness.
pub(super) fn new_id(api: BatchApi) -> Option<String> {
    let mut bits = [0; 16];
    SystemRandom::new().fill(&mut bits).ok()?;
    Some(format!("{}{}", prefix(api), hex::encode(&bits)))
}

/// Writes an upstream's object with our ids, and with the requested model's name if the operator wants that. `base` is our
/// address.
pub(super) fn public_object(core: &Core, place: &BatchPlace, object: &str, base: &str) -> String {
    let id = place.public_id.as_str();
    let mut texts = vec![("id", id)];
    let results = format!("{base}/v1/messages/batches/{id}/results");
    let files = ResultFile::ALL.map(|file| file.public_id(id));
    match BatchApi::of_id(&place.api) {
        BatchApi::Anthropic => texts.push(("results_url", &results)),
        BatchApi::OpenAi => {
            texts.push(("input_file_id", place.input_file_id.as_deref().unwrap_or_default()));
            texts.extend(ResultFile::ALL.iter().zip(&files).map(|(file, id)| (file.member(), id.as_str())));
        }
    }
    if core.settings.load().echo_model {
        texts.push(("model", &place.model_requested));
    }
    object_with(object, &texts)
}

/// Returns the address at which the client has reached us, for links in its answers. What the client claims about it is
/// shown to nobody else.
pub(super) fn base(core: &Core, headers: &HeaderMap) -> String {
    let first = |name: HeaderName| {
        let value = headers.get(name)?.to_str().ok()?.split(',').next()?.trim();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        Some(value).filter(|value| !value.is_empty() && value.bytes().all(is_plain))
    };
    let scheme = first(X_FORWARDED_PROTO).filter(|scheme| ["http", "https"].contains(scheme));
    let scheme = scheme.unwrap_or(if core.config.tls.is_some() { "https" } else { "http" });
    match first(X_FORWARDED_HOST).or_else(|| first(HOST)) {
        Some(host) => format!("{scheme}://{host}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_result_file_names_its_batch() {
        let id = new_id(BatchApi::OpenAi).unwrap();
        for file in ResultFile::ALL {
            let batch_id = id.clone();
            assert_eq!(ResultFileId::parse(&file.public_id(&id)), Some(ResultFileId { file, batch_id }));
        }
        assert_eq!(ResultFileId::parse("file-sy-0123"), None);
    }
}
