//! The way to where a video is made: by the account as it is now, and where that is gone, by what was kept
//! of it.
//!
//! | the account | addresses | key |
//! |---|---|---|
//! | is there | the site's pool, one after the other | its own of today, else the kept one |
//! | is gone, the site is there | the kept one, the way the site's calls go | the kept one |
//! | is gone with its site | the kept one, if no proxy led there | the kept one |

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HOST, HeaderName, HeaderValue, IF_RANGE, RANGE};
use hyper::http::response::Parts;
use hyper::{Method, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::app::App;
use crate::http::Request;
use crate::proxy::call::forwarded_query;
use crate::proxy::exchange::{Timeouts, answered, read_some};
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::trace::Trace;
use crate::routing::{BaseUrl, Credential, Endpoint, EndpointLive, EndpointState, Secret, Site, pool};
use crate::store::accounts::{self, AccountRow};
use crate::store::snapshot::{credential, site_of_account};
use crate::store::videos::VideoRow;
use crate::store::{self, sites, tokens};
use crate::time::now_ms;
use crate::upstream::{RequestBody, UpstreamBody};

/// As much as an upstream may say of a video, and how long it may take for it once it has begun.
const MAX_TOLD: usize = 2 << 20;
const TELLING: Duration = Duration::from_secs(60);
/// What of an upstream's id stands in a path as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// Where a video is made, and how it is reached.
pub(super) struct Way {
    pub(super) site_id: i64,
    endpoints: Vec<Arc<Endpoint>>,
    custom_headers: Vec<(HeaderName, HeaderValue)>,
    credential: Credential,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum NoWay {
    /// For good; a text for the client.
    Lost(&'static str),
    /// As the site is set up now; a text for the log.
    Misconfigured(String),
    Unreadable(store::Error),
}

/// What a client asks of a video.
pub(super) struct Question<'r> {
    pub(super) method: Method,
    pub(super) subject: Subject,
    pub(super) request: &'r Request,
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Video,
    /// Its bytes.
    Content,
}

/// A good answer, of which the body is still to come.
pub(super) struct Answer {
    pub(super) head: Parts,
    pub(super) body: UpstreamBody,
    pub(super) idle: Duration,
}

impl From<store::Error> for NoWay {
    fn from(error: store::Error) -> Self {
        Self::Unreadable(error)
    }
}

// === impl Subject ===

impl Subject {
    /// What follows the id in the path.
    fn rest(self) -> &'static str {
        match self {
            Self::Video => "",
            Self::Content => "/content",
        }
    }

    /// What errors and the log call the path: the upstream's id stays out of both.
    fn path(self) -> &'static str {
        match self {
            Self::Video => "/v1/videos/{id}",
            Self::Content => "/v1/videos/{id}/content",
        }
    }
}

// === impl Answer ===

impl Answer {
    /// The whole of it, which is short.
    pub(super) async fn whole(self) -> Result<(Parts, Bytes), Failure> {
        match read_some(self.body, MAX_TOLD, TELLING).await {
            (body, true) => Ok((self.head, body)),
            (_, false) => Err(Failure::judged("the answer is too long, or broke off".to_owned())),
        }
    }
}

// === impl Way ===

impl Way {
    /// The way to a video.
    pub(super) async fn to(app: &App, video: &VideoRow) -> Result<Self, NoWay> {
        let account = accounts::get(&app.store, video.made_at.account_id).await?;
        let (site_id, endpoints, custom_headers, own) = match account {
            Some(account) => {
                let site = site_now(app, &account).await?;
                let own = own_credential(app, video, &account).await?;
                (site.id, site.endpoints, site.custom_headers, own)
            }
            None => {
                let snapshot = app.snapshot.load();
                let site = snapshot.site(video.made_at.site_id);
                if let Some(problem) = site.and_then(|site| site.misconfigured.clone()) {
                    return Err(NoWay::Misconfigured(problem));
                }
                let custom = site.map(|site| site.custom_headers.clone()).unwrap_or_default();
                (video.made_at.site_id, vec![kept_address(video, site.map(Arc::as_ref))?], custom, None)
            }
        };
        let Some(secret) = own.or_else(|| video.token.clone()) else {
            return Err(NoWay::Lost("The account that made this video is gone, and its key with it"));
        };
        Ok(Self { site_id, endpoints, custom_headers, credential: secret.into() })
    }

    /// Asks one address after the other until one gives a good status (proxy.md 8.1).
    pub(super) async fn ask(
        &self,
        app: &App,
        video: &VideoRow,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let mut last = None;
        for endpoint in pool::order(&self.endpoints, now_ms()) {
            let live = &endpoint.live;
            let note = |dirty: bool| {
                if dirty {
                    app.store.telemetry().dirty_endpoint(live.clone());
                }
            };
            note(live.record_selection(now_ms()));
            match self.ask_at(app, endpoint, video, question).await {
                Ok(answer) => {
                    note(live.record_success());
                    return Ok(answer);
                }
                Err(failure) if failure.rotates_address() => {
                    let now = now_ms();
                    note(live.record_failure(now, now + pool::COOLDOWN_MS, &failure.text));
                    last = Some(failure);
                }
                Err(failure) => {
                    note(live.record_other_failure(now_ms(), &failure.text));
                    return Err(failure);
                }
            }
        }
        Err(last.unwrap_or_else(|| Failure::local("the site has no address".to_owned())))
    }

    async fn ask_at(
        &self,
        app: &App,
        endpoint: &Endpoint,
        video: &VideoRow,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let Some(values) = self.credential.headers() else {
            return Err(Failure::local("the account has no key that can stand in a header".to_owned()));
        };
        let Question { method, subject, request } = question;
        let id = utf8_percent_encode(&video.upstream_id, ENCODED);
        let query = forwarded_query(request.query.raw());
        let target = endpoint.base.join(&format!("/v1/videos/{id}{}{query}", subject.rest()));
        let mut asked = hyper::Request::new(RequestBody::empty());
        *asked.method_mut() = method.clone();
        *asked.uri_mut() = Uri::from(target);
        let accept = match subject {
            Subject::Video => "application/json",
            Subject::Content => "*/*",
        };
        *asked.headers_mut() = headers::question(&request.headers, &self.custom_headers, values, accept);
        if *subject == Subject::Content {
            for name in [RANGE, IF_RANGE] {
                if let Some(value) = request.headers.get(&name) {
                    asked.headers_mut().insert(name, value.clone());
                }
            }
        }
        asked.headers_mut().insert(HOST, endpoint.base.authority.clone());
        let timeouts = Timeouts::of(app, request.timer.clone());
        let sending = app.client.send(&endpoint.base.origin, asked);
        let answer = answered(pin!(sending), subject.path(), &timeouts, &Trace::default()).await;
        let (head, body) = answer.map_err(|failure| failure.without(Some(self.credential.secret())))?;
        Ok(Answer { head, body, idle: timeouts.idle })
    }
}

/// The site as its calls for this account go now.
async fn site_now(app: &App, account: &AccountRow) -> Result<Site, NoWay> {
    let row = sites::get(&app.store, account.site_id).await?.ok_or(store::Error::NotFound)?;
    let settings = app.settings.load();
    let mut site = site_of_account(&row, account, &app.live, settings.system_proxy_url.as_deref());
    match site.misconfigured.take() {
        Some(problem) => Err(NoWay::Misconfigured(format!("site {} cannot be used: {problem}", site.name))),
        None => Ok(site),
    }
}

/// What the account presents there today.
async fn own_credential(app: &App, video: &VideoRow, account: &AccountRow) -> Result<Option<Secret>, NoWay> {
    let token = match video.made_at.token_id {
        Some(id) => tokens::get(&app.store, id).await?,
        None => None,
    };
    Ok(credential(video.made_at.token_id, account, token.as_ref()))
}

/// The address that the video was asked for at, by the way that calls to its site go now.
fn kept_address(video: &VideoRow, site: Option<&Site>) -> Result<Arc<Endpoint>, NoWay> {
    const LOST: NoWay =
        NoWay::Lost("The account that made this video is gone, and the way to its site with it");
    let first = site.and_then(|site| site.endpoints.first());
    let proxy = first.and_then(|endpoint| endpoint.base.origin.proxy.clone());
    if video.made_at.through_proxy && proxy.is_none() {
        return Err(LOST);
    }
    let base = BaseUrl::parse(&video.made_at.url, proxy).map_err(|_| LOST)?;
    let live = Arc::new(EndpointLive::new(None, EndpointState::default()));
    Ok(Arc::new(Endpoint { id: None, base, sort_order: 0, live }))
}
