//! Where a video is rendered and how it is reached: through its account in its current state, or, once that is
//! deleted, by what was stored at the creation.
//!
//! | account | addresses | credential |
//! |---|---|---|
//! | exists | the site's pool, in order | its current one, else the stored one |
//! | deleted, the site exists | the stored one, through the site's outbound proxy | the stored one |
//! | deleted with its site | the stored one, unless that led through a proxy | the stored one |

use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderName, IF_RANGE, RANGE};

use crate::core::Core;
use crate::dialect::Dialect;
use crate::http::Request;
use crate::platform::MessagesCredential;
use crate::proxy::resource_upstream::{
    ResourceRequest, ResourceUpstream, Unreachable, current_credential, login, site_of,
};
use crate::routing::{BaseUrl, Endpoint, EndpointLive, EndpointState, Site, encode_component};
use crate::store::accounts;
use crate::store::videos::VideoRow;

/// The part of a video that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    /// The video object.
    Video,
    /// The bytes of the video.
    Content,
}

// === impl Resource ===

impl Resource {
    /// Returns the part of the path after the id.
    fn suffix(self) -> &'static str {
        match self {
            Self::Video => "",
            Self::Content => "/content",
        }
    }

    /// Returns the path for error messages and the log, which do not show the upstream's id.
    fn path_label(self) -> &'static str {
        match self {
            Self::Video => "/v1/videos/{id}",
            Self::Content => "/v1/videos/{id}/content",
        }
    }
}

/// Builds the upstream request for a client's request about a video.
pub(super) fn request<'r>(
    method: Method,
    resource: Resource,
    video: &VideoRow,
    request: &'r Request,
) -> ResourceRequest<'r> {
    const RANGES: &[HeaderName] = &[RANGE, IF_RANGE];
    let path = format!("/v1/videos/{}{}", encode_component(&video.upstream_id), resource.suffix());
    let (accept, forwarded) = match resource {
        Resource::Video => ("application/json", [].as_slice()),
        Resource::Content => ("*/*", RANGES),
    };
    ResourceRequest {
        method,
        dialect: Dialect::Embeddings,
        path,
        label: resource.path_label(),
        accept,
        forwarded,
        client: Some(request),
    }
}

/// Looks up how a video is reached.
pub(super) async fn of(core: &Core, video: &VideoRow) -> Result<ResourceUpstream, Unreachable> {
    let account = accounts::get(&core.store, video.source.account_id).await?;
    let login = account.as_ref().and_then(|account| login(account, video.source.token_id));
    let (site_id, endpoints, custom_headers, own) = match account {
        Some(account) => {
            let site = site_of(core, &account).await?;
            let own = current_credential(&core.store, video.source.token_id, &account).await?;
            (site.id, site.endpoints, site.custom_headers, own)
        }
        None => {
            let snapshot = core.snapshot.load();
            let site = snapshot.site(video.source.site_id);
            if let Some(problem) = site.and_then(|site| site.misconfigured.clone()) {
                return Err(Unreachable::Misconfigured(problem.to_string()));
            }
            let custom = site.map(|site| site.custom_headers.clone()).unwrap_or_default();
            (video.source.site_id, vec![stored_endpoint(video, site.map(Arc::as_ref))?], custom, None)
        }
    };
    let Some(secret) = own.or_else(|| video.token.clone()) else {
        return Err(Unreachable::Gone(
            "The credential that this video was created with is no longer available",
        ));
    };
    Ok(ResourceUpstream {
        site_id,
        endpoints,
        custom_headers,
        credential: secret.into(),
        login,
        messages_credential: MessagesCredential::Both,
    })
}

/// Builds the endpoint at which the video was created, through the outbound proxy that its site uses now.
fn stored_endpoint(video: &VideoRow, site: Option<&Site>) -> Result<Arc<Endpoint>, Unreachable> {
    const GONE: Unreachable = Unreachable::Gone(
        "The account that this video was created with was deleted, and its site cannot be reached without it",
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
