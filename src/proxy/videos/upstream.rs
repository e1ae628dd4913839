//! Where a video is rendered and how it is reached: through its account as it is now, or, once that is
//! deleted, by what was stored at the creation.
//!
//! | account | addresses | credential |
//! |---|---|---|
//! | exists | the site's pool, in order | its current one, else the stored one |
//! | deleted, the site exists | the stored one, through the site's outbound proxy | the stored one |
//! | deleted with its site | the stored one, unless that led through a proxy | the stored one |

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue, IF_RANGE, RANGE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::core::Core;
use crate::http::Request;
use crate::mask::Mask;
use crate::proxy::Proxy;
use crate::proxy::call::forwarded_query;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::send::{Timeouts, answered, read_some};
use crate::proxy::trace::Trace;
use crate::routing::{
    BaseUrl, Credential, Endpoint, EndpointLive, EndpointState, Secret, Site, add_secrets, pool,
};
use crate::store::Store;
use crate::store::accounts::{self, AccountRow};
use crate::store::snapshot::{credential, site_of_account};
use crate::store::videos::VideoRow;
use crate::store::{self, sites, tokens};
use crate::time::now_ms;
use crate::upstream::{self, AnswerHead, RequestBody, UpstreamBody, Work};

/// The longest video object, and how long its bytes may take.
const MAX_BODY: usize = 2 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of an upstream's id that stand in a path as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The upstream of one video.
pub(super) struct VideoUpstream {
    pub(super) site_id: i64,
    endpoints: Vec<Arc<Endpoint>>,
    custom_headers: Vec<(HeaderName, HeaderValue)>,
    credential: Credential,
}

/// Why a video cannot be reached.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// For good; the message is for the client.
    Gone(&'static str),
    /// As the site is configured now; the message is for the log.
    Misconfigured(String),
    Store(store::Error),
}

/// A client's request for a video.
pub(super) struct UpstreamRequest<'r> {
    pub(super) method: Method,
    pub(super) resource: Resource,
    pub(super) request: &'r Request,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The video object.
    Video,
    /// Its bytes.
    Content,
}

/// A 2xx answer whose body has not been read.
pub(super) struct UpstreamResponse {
    pub(super) head: AnswerHead,
    pub(super) body: UpstreamBody,
    pub(super) idle: Duration,
}

impl From<store::Error> for Unreachable {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

// === impl Resource ===

impl Resource {
    /// What follows the id in the path.
    fn suffix(self) -> &'static str {
        match self {
            Self::Video => "",
            Self::Content => "/content",
        }
    }

    /// The path in error messages and in the log, which do not show the upstream's id.
    fn path_label(self) -> &'static str {
        match self {
            Self::Video => "/v1/videos/{id}",
            Self::Content => "/v1/videos/{id}/content",
        }
    }
}

// === impl UpstreamResponse ===

impl UpstreamResponse {
    /// Reads the body, which must be short.
    pub(super) async fn read(self) -> Result<(AnswerHead, Bytes), Failure> {
        match read_some(self.body, MAX_BODY, BODY_TIMEOUT).await {
            (body, true) => Ok((self.head, body)),
            (_, false) => Err(Failure::judged("the answer is too long, or broke off".to_owned())),
        }
    }
}

// === impl VideoUpstream ===

impl VideoUpstream {
    /// Looks up how a video is reached.
    pub(super) async fn of(core: &Core, video: &VideoRow) -> Result<Self, Unreachable> {
        let account = accounts::get(&core.store, video.source.account_id).await?;
        let (site_id, endpoints, custom_headers, own) = match account {
            Some(account) => {
                let site = site_of(core, &account).await?;
                let own = current_credential(&core.store, video, &account).await?;
                (site.id, site.endpoints, site.custom_headers, own)
            }
            None => {
                let snapshot = core.snapshot.load();
                let site = snapshot.site(video.source.site_id);
                if let Some(problem) = site.and_then(|site| site.misconfigured.clone()) {
                    return Err(Unreachable::Misconfigured(problem));
                }
                let custom = site.map(|site| site.custom_headers.clone()).unwrap_or_default();
                (video.source.site_id, vec![stored_endpoint(video, site.map(Arc::as_ref))?], custom, None)
            }
        };
        let Some(secret) = own.or_else(|| video.token.clone()) else {
            return Err(Unreachable::Gone(
                "The credential this video was created with is no longer available",
            ));
        };
        Ok(Self { site_id, endpoints, custom_headers, credential: secret.into() })
    }

    /// Sends a request to one address after the other until one answers with a 2xx status.
    pub(super) async fn send(
        &self,
        proxy: &Proxy,
        video: &VideoRow,
        request: &UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, Failure> {
        let mut last = None;
        for endpoint in pool::order(&self.endpoints, now_ms()) {
            let live = &endpoint.live;
            let persist = |dirty: bool| {
                if dirty {
                    proxy.core.store.telemetry().dirty_endpoint(live.clone());
                }
            };
            persist(live.record_selection(now_ms()));
            match self.send_to(proxy, endpoint, video, request).await {
                Ok(answer) => {
                    persist(live.record_success());
                    return Ok(answer);
                }
                Err(failure) if failure.rotates_address(Work::of_method(&request.method)) => {
                    let now = now_ms();
                    persist(live.record_failure(now, now + pool::COOLDOWN_MS, &failure.text));
                    last = Some(failure);
                }
                Err(failure) => {
                    persist(live.record_other_failure(now_ms(), &failure.text));
                    return Err(failure);
                }
            }
        }
        Err(last.unwrap_or_else(|| Failure::local("the site has no address".to_owned())))
    }

    /// What a request to it carries that is not to be told.
    pub(super) fn secrets(&self) -> Mask {
        let mut mask = Mask::default();
        mask.add(self.credential.secret().expose());
        add_secrets(&mut mask, &self.custom_headers, &self.endpoints);
        mask
    }

    async fn send_to(
        &self,
        proxy: &Proxy,
        endpoint: &Endpoint,
        video: &VideoRow,
        request: &UpstreamRequest<'_>,
    ) -> Result<UpstreamResponse, Failure> {
        let Some(values) = self.credential.headers() else {
            return Err(Failure::local("the account has no key that can stand in a header".to_owned()));
        };
        let UpstreamRequest { method, resource, request } = request;
        let id = utf8_percent_encode(&video.upstream_id, ENCODED);
        let query = forwarded_query(request.query.raw());
        let target = endpoint.base.join(&format!("/v1/videos/{id}{}{query}", resource.suffix()));
        let mut outgoing = Box::new(upstream::Request::new(method.clone(), target, RequestBody::empty()));
        let accept = match resource {
            Resource::Video => "application/json",
            Resource::Content => "*/*",
        };
        outgoing.headers = headers::of_resource(&request.headers, &self.custom_headers, values, accept);
        if *resource == Resource::Content {
            for name in [RANGE, IF_RANGE] {
                if let Some(value) = request.headers.get(&name) {
                    outgoing.headers.set(name, value.clone());
                }
            }
        }
        let timeouts = Timeouts::of(proxy, &proxy.core.settings.load(), request.timer.clone());
        let sending = proxy.core.client.send_boxed(&endpoint.base.origin, outgoing);
        let answer = answered(pin!(sending), resource.path_label(), &timeouts, &Trace::default(), None).await;
        let (head, body) = answer.map_err(|failure| failure.without(&self.secrets()))?;
        Ok(UpstreamResponse { head, body, idle: timeouts.idle })
    }
}

/// The site as requests of this account reach it now.
async fn site_of(core: &Core, account: &AccountRow) -> Result<Site, Unreachable> {
    let row = sites::get(&core.store, account.site_id).await?.ok_or(store::Error::NotFound)?;
    let settings = core.settings.load();
    let mut site = site_of_account(&row, account, &core.live, settings.system_proxy_url.as_deref());
    match site.misconfigured.take() {
        Some(problem) => {
            Err(Unreachable::Misconfigured(format!("site {} cannot be used: {problem}", site.name)))
        }
        None => Ok(site),
    }
}

/// The credential of the account, or of the token, as it is now.
async fn current_credential(
    store: &Store,
    video: &VideoRow,
    account: &AccountRow,
) -> Result<Option<Secret>, Unreachable> {
    let token = match video.source.token_id {
        Some(id) => tokens::get(store, id).await?,
        None => None,
    };
    Ok(credential(video.source.token_id, account, token.as_ref()))
}

/// The address of the creation, through the outbound proxy that its site uses now.
fn stored_endpoint(video: &VideoRow, site: Option<&Site>) -> Result<Arc<Endpoint>, Unreachable> {
    const GONE: Unreachable = Unreachable::Gone(
        "The account this video was created with was deleted, and its site cannot be reached without it",
    );
    let first = site.and_then(|site| site.endpoints.first());
    let proxy = first.and_then(|endpoint| endpoint.base.origin.proxy.clone());
    if video.source.through_proxy && proxy.is_none() {
        return Err(GONE);
    }
    let base = BaseUrl::parse(&video.source.url, proxy).map_err(|_| GONE)?;
    let live = Arc::new(EndpointLive::new(None, EndpointState::default()));
    Ok(Arc::new(Endpoint { id: None, base, sort_order: 0, live }))
}
