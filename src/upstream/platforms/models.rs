//! Model discovery: which models a key may use. The models of a session's user are asked for by
//! [`SiteClient::models_of_session`](super::SiteClient::models_of_session).
//!
//! | [`ModelList`] | asked |
//! |---|---|
//! | `OpenAi` | `/v1/models`, Bearer; a credential that may be a cookie of new-api also as one |
//! | `PerSurface` | the same, then the surfaces of its other vendors |
//! | `Anthropic` | `/v1/models`, `x-api-key`; below `/anthropic` then the parent's list, Bearer |
//! | `Google` | native `/v1beta/models`, `x-goog-api-key`; then, or below `/openai`, the OpenAI form, Bearer |
//! | `WithSignIn` | nothing: such lists come with an OAuth login |

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{Request, StatusCode, Uri};

use super::credential::{is_pair, leave_out};
use super::reply;
use crate::dialect::messages::API_VERSION;
use crate::error_words::sites;
use crate::mask::Mask;
use crate::platform::{ModelList, Platform};
use crate::routing::BaseUrl;
use crate::time::in_seconds;
use crate::upstream::{Client, FetchError, FetchLimits};

/// The limits of one discovery, all its requests together.
pub const DISCOVERY_LIMITS: FetchLimits =
    FetchLimits { timeout: Duration::from_secs(12), max_bytes: 4 * 1024 * 1024 };

/// The classes of failure that the admin interface tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryKind {
    Timeout,
    Unauthorized,
    EmptyModels,
    Unknown,
}

impl DiscoveryKind {
    /// Returns the `errorCode` of a refresh result.
    pub fn code(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unauthorized => "unauthorized",
            Self::EmptyModels => "empty_models",
            Self::Unknown => "unknown",
        }
    }
}

/// Why there is no model list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryError {
    pub kind: DiscoveryKind,
    /// The upstream's status, when it answered.
    pub status: Option<u16>,
    /// One short line for people; never the credential.
    pub message: String,
    /// Whether the page of a bot shield answered, or one like it.
    pub is_shield: bool,
    /// Whether the outbound proxy could not be reached, so that nobody was asked.
    pub lacks_proxy: bool,
}

impl DiscoveryError {
    /// Builds the error for a site that did not answer.
    pub fn new(kind: DiscoveryKind, message: impl Into<String>) -> Self {
        Self { kind, status: None, message: message.into(), is_shield: false, lacks_proxy: false }
    }

    fn answered(kind: DiscoveryKind, status: StatusCode, message: impl Into<String>) -> Self {
        Self { status: Some(status.as_u16()), ..Self::new(kind, message) }
    }

    /// Whether this failure tells more than `first`: a refused credential tells most, an empty list least.
    fn says_more_than(&self, first: &Self) -> bool {
        match (first.kind, self.kind) {
            (_, DiscoveryKind::EmptyModels) => false,
            (DiscoveryKind::EmptyModels, _) | (_, DiscoveryKind::Unauthorized) => true,
            _ => false,
        }
    }
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DiscoveryError {}

/// Asks the site at `base` for the models that `credential` may use. `custom_headers` are the site's own; they may
/// replace any header but the credential's.
pub async fn list_models(
    client: &Client,
    base: &BaseUrl,
    platform: Platform,
    credential: &str,
    custom_headers: &[(HeaderName, HeaderValue)],
    limits: FetchLimits,
) -> Result<Vec<String>, DiscoveryError> {
    let list = platform.profile().model_list;
    let model_requests = model_requests(base, platform)?;
    let asking = async {
        let mut failure: Option<DiscoveryError> = None;
        for request in model_requests {
            let mut request = request.request(credential, custom_headers)?;
            if is_also_a_cookie(platform, credential) {
                request.headers_mut().insert(COOKIE, header_value(credential.to_owned())?);
            }
            let error = match ask(client, base, request, credential, limits).await {
                Ok(names) => return Ok(names),
                // A key of such a relay is valid on every surface, or on none.
                Err(error) if list == ModelList::PerSurface && error.kind == DiscoveryKind::Unauthorized => {
                    return Err(error);
                }
                Err(error) => error,
            };
            if failure.as_ref().is_none_or(|first| error.says_more_than(first)) {
                failure = Some(error);
            }
        }
        Err(failure.expect("every platform has a question"))
    };
    match tokio::time::timeout(limits.timeout, asking).await {
        Ok(result) => result,
        Err(_elapsed) => {
            let message = format!("no model list within {} s", in_seconds(limits.timeout));
            Err(DiscoveryError::new(DiscoveryKind::Timeout, message))
        }
    }
}

/// How a request carries the credential.
#[derive(Clone, Copy)]
enum AuthHeader {
    Bearer,
    AnthropicKey,
    GoogleKey,
}

struct ModelsRequest {
    path: PathAndQuery,
    auth: AuthHeader,
}

impl ModelsRequest {
    fn request(
        self,
        credential: &str,
        custom_headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Request<Bytes>, DiscoveryError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::from(self.path);
        for (name, value) in custom_headers {
            request.headers_mut().insert(name, value.clone());
        }
        authenticate(request.headers_mut(), self.auth, credential)?;
        Ok(request)
    }
}

/// Returns the requests to make, in order, until one has an answer.
fn model_requests(base: &BaseUrl, platform: Platform) -> Result<Vec<ModelsRequest>, DiscoveryError> {
    let bearer = |path: &str| ModelsRequest { path: base.join(path), auth: AuthHeader::Bearer };
    Ok(match platform.profile().model_list {
        ModelList::OpenAi => vec![bearer("/v1/models")],
        ModelList::PerSurface => paths_of_surfaces(base).iter().map(|path| bearer(path)).collect(),
        ModelList::Anthropic => {
            // Anthropic's pages have 20 models by default.
            let path = base.join("/v1/models?limit=1000");
            let mut model_requests = vec![ModelsRequest { path, auth: AuthHeader::AnthropicKey }];
            if base.path.ends_with("/anthropic") {
                let parent = base.clone().without(&["/anthropic"]);
                model_requests
                    .push(ModelsRequest { path: parent.join("/v1/models"), auth: AuthHeader::Bearer });
            }
            model_requests
        }
        ModelList::Google if base.path.contains("/openai") => vec![bearer("/models")],
        ModelList::Google => {
            let version = if base.names_version() { "" } else { "/v1beta" };
            // Google's pages have 50 models by default.
            let path = base.join(&format!("{version}/models?pageSize=1000"));
            let native = ModelsRequest { path, auth: AuthHeader::GoogleKey };
            vec![native, bearer(&format!("{version}/openai/models"))]
        }
        ModelList::WithSignIn => {
            let message =
                format!("{} has no model list for a key: its models come with an OAuth login", platform.id());
            return Err(DiscoveryError::new(DiscoveryKind::Unknown, message));
        }
    })
}

/// Returns the list paths of a relay with a surface for each vendor; an address may name one surface, or a version.
fn paths_of_surfaces(base: &BaseUrl) -> &'static [&'static str] {
    if base.names_version() {
        &["/v1/models"]
    } else if base.path.ends_with("/antigravity") {
        &["/v1/models", "/v1beta/models"]
    } else {
        &["/v1/models", "/api/v1/models", "/v1beta/models", "/antigravity/v1beta/models"]
    }
}

async fn ask(
    client: &Client,
    base: &BaseUrl,
    request: Request<Bytes>,
    credential: &str,
    limits: FetchLimits,
) -> Result<Vec<String>, DiscoveryError> {
    let mut mask = Mask::default();
    mask.add(credential);
    for (name, value) in request.headers() {
        mask.add_header(name, value);
    }
    base.add_secrets(&mut mask);
    let response = client.fetch(base, request, limits).await.map_err(|error| unanswered(&error))?;
    let status = response.status();
    let result = if status.is_success() {
        let names = reply::read(response.body().clone(), reply::model_names).await;
        names.map(|names| leave_out(names, &mask))
    } else {
        Err(reply::failure(status, response.body()))
    };
    match result {
        Ok(names) if names.is_empty() => {
            Err(DiscoveryError::answered(DiscoveryKind::EmptyModels, status, "the site lists no models"))
        }
        Ok(names) => Ok(names),
        Err(message) => {
            // Some upstreams quote what they were sent.
            let message = mask.hide_in(&message).into_owned();
            let kind = if is_refusal(status, &message) {
                DiscoveryKind::Unauthorized
            } else {
                DiscoveryKind::Unknown
            };
            let is_shield = reply::is_script_page(response.body());
            Err(DiscoveryError { is_shield, ..DiscoveryError::answered(kind, status, message) })
        }
    }
}

fn authenticate(headers: &mut HeaderMap, auth: AuthHeader, credential: &str) -> Result<(), DiscoveryError> {
    let (name, value) = match auth {
        AuthHeader::Bearer => (AUTHORIZATION, format!("Bearer {credential}")),
        AuthHeader::AnthropicKey => {
            headers.entry("anthropic-version").or_insert(HeaderValue::from_static(API_VERSION));
            (HeaderName::from_static("x-api-key"), credential.to_owned())
        }
        AuthHeader::GoogleKey => (HeaderName::from_static("x-goog-api-key"), credential.to_owned()),
    };
    headers.insert(name, header_value(value)?);
    Ok(())
}

/// Whether the site has cookies for sessions, and the credential can be one.
fn is_also_a_cookie(platform: Platform, credential: &str) -> bool {
    let has_cookies = platform.profile().new_api_fork().is_some_and(|fork| fork.has_cookie_sessions);
    has_cookies && !credential.starts_with("sk-") && is_pair(credential)
}

fn header_value(credential: String) -> Result<HeaderValue, DiscoveryError> {
    let mut value = HeaderValue::try_from(credential).map_err(|_| {
        let message = "the credential has characters that a header cannot carry";
        DiscoveryError::new(DiscoveryKind::Unauthorized, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn unanswered(error: &FetchError) -> DiscoveryError {
    let kind = if error.is_timeout() { DiscoveryKind::Timeout } else { DiscoveryKind::Unknown };
    DiscoveryError { lacks_proxy: error.lacks_proxy(), ..DiscoveryError::new(kind, error.to_string()) }
}

/// Whether the answer means that the credential is not accepted. "Invalid URL" (a relay without the route) does not.
fn is_refusal(status: StatusCode, message: &str) -> bool {
    match status.as_u16() {
        401 | 403 => true,
        404 | 405 | 500.. => false,
        _ => sites::refuses_key(&message.to_lowercase()),
    }
}
