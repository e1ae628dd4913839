//! An upstream that keeps a resource of a client, such as a video or a response. It is asked through the account that made
//! the resource, in the account's current state.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::time::timeout;

use crate::core::Core;
use crate::dialect::Dialect;
use crate::http::{Request, Response};
use crate::ids::{AccountId, SiteId, TokenId};
use crate::limits::Lease;
use crate::mask::Mask;
use crate::platform::{MessagesCredential, Platform};
use crate::proxy::Proxy;
use crate::routing::{Credential, CredentialHeaders, Endpoint, Secret, Site, add_secrets};
use crate::store::accounts::{self, AccountRow};
use crate::store::snapshot::{credential, site_of_account};
use crate::store::{self, Store, sites, tokens};
use crate::upstream::{self, AnswerHead, RequestBody, RequestHeaders, RetryScope, UpstreamBody, WorkKind};

use super::betas;
use super::channel_addresses::ChannelAddresses;
use super::failure::Failure;
use super::headers::{self, X_API_KEY};
use super::media_type::is_page;
use super::query;
use super::reply::ErrorShape;
use super::retry::token_renewal;
use super::send::{Timeouts, answered, read_object};
use super::trace::record::Trace;

/// The upstream of one resource.
pub(super) struct ResourceUpstream {
    pub(super) site_id: SiteId,
    pub(super) endpoints: Vec<Arc<Endpoint>>,
    pub(super) custom_headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) credential: Credential,
    /// The connected account whose access token the credential is; `None` for any other credential.
    pub(super) login: Option<AccountId>,
    /// How requests to the messages API show the credential.
    pub(super) messages_credential: MessagesCredential,
}

/// Why a resource cannot be reached.
#[derive(Debug)]
pub(super) enum Unreachable {
    /// The resource is gone for good; the message is for the client.
    Gone(&'static str),
    /// The site's current configuration is wrong; the message is for the log.
    Misconfigured(String),
    Store(store::Error),
}

/// A request for a resource.
pub(super) struct ResourceRequest<'r> {
    pub(super) method: Method,
    /// The dialect whose headers it uses: the messages API has its own.
    pub(super) dialect: Dialect,
    /// The path with the upstream's id, without a query: the client's is added.
    pub(super) path: String,
    /// The path in error messages and in the log, which do not show the upstream's id.
    pub(super) label: &'static str,
    /// The `Accept` header for clients that send none.
    pub(super) accept: &'static str,
    /// The names of the client's headers that are forwarded.
    pub(super) forwarded: &'static [HeaderName],
    /// The client's request, whose query and whose headers that always cross are forwarded too; `None` where the service asks
    /// by itself.
    pub(super) client: Option<&'r Request>,
}

/// A 2xx answer whose body has not been read.
pub(super) struct UpstreamResponse {
    pub(super) head: AnswerHead,
    pub(super) body: UpstreamBody,
    pub(super) idle: Duration,
}

/// An upstream's answer about a resource, and the slot at its site that is held for it.
pub(super) struct ResourceAnswer {
    pub(super) upstream: ResourceUpstream,
    pub(super) response: UpstreamResponse,
    pub(super) slot: Lease,
}

impl From<store::Error> for Unreachable {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

// === impl UpstreamResponse ===

impl UpstreamResponse {
    /// Returns the refusal of an answer that is a page, which comes from something in front of the upstream.
    pub(super) fn page(&self, shape: ErrorShape) -> Option<Response> {
        let is_page = self.head.headers.get(&CONTENT_TYPE).is_some_and(is_page);
        is_page.then(|| Failure::judged("Upstream returned an HTML page".to_owned()).into_response(shape))
    }

    /// Reads the next bytes of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let next = timeout(self.idle, self.body.data()).await.map_err(|_| Failure::silence(self.idle))?;
        next.transpose().map_err(|error| Failure::cut(&error))
    }

    /// Reads on until the end, or until more than `limit` bytes are held; returns whether that is all.
    pub(super) async fn hold(&mut self, held: &mut BytesMut, limit: usize) -> Result<bool, Failure> {
        while held.len() <= limit {
            match self.next().await? {
                None => return Ok(true),
                Some(bytes) => held.extend_from_slice(&bytes),
            }
        }
        Ok(false)
    }

    /// Reads the body, which must be short.
    pub(super) async fn read(self) -> Result<(AnswerHead, Bytes), Failure> {
        Ok((self.head, read_object(self.body).await?))
    }
}

// === impl ResourceAnswer ===

impl ResourceAnswer {
    /// Writes the headers of the client's response: those of the upstream that are passed on, and the request's id.
    pub(super) fn put_headers(&self, shape: ErrorShape, out: &mut HeaderMap) {
        let secrets = self.upstream.secrets();
        headers::downstream(&self.response.head.headers, |value| secrets.is_in(value), out);
        headers::request_id(shape.dialect, shape.id, out);
    }
}

// === impl ResourceUpstream ===

impl ResourceUpstream {
    /// Looks up the upstream by the account, and its token where one was used.
    ///
    /// # Errors
    /// Fails when the account is gone, or no longer has a credential.
    pub(super) async fn of(
        core: &Core,
        account: AccountId,
        token: Option<TokenId>,
    ) -> Result<Self, Unreachable> {
        let account = accounts::get(&core.store, account).await?;
        let account = account.ok_or(Unreachable::Gone("The account that holds it was deleted"))?;
        let site = site_of(core, &account).await?;
        let secret = current_credential(&core.store, token, &account).await?;
        let secret =
            secret.ok_or(Unreachable::Gone("The account that holds it has no credential any more"))?;
        let messages_credential =
            site.platform.profile().messages_credential(account.oauth_provider.is_some());
        Ok(Self {
            login: login(&account, token),
            messages_credential,
            site_id: site.id,
            endpoints: site.endpoints,
            custom_headers: site.custom_headers,
            credential: secret.into(),
        })
    }

    /// Takes a slot at the site.
    pub(super) async fn slot(&self, core: &Core, shape: ErrorShape) -> Result<Lease, Response> {
        let lease = core.leases.lease(self.site_id).await;
        lease.map_err(|_| shape.site_saturated(core.leases.rules().retry_after_secs()))
    }

    /// Sends a request, and once more with a renewed token where the upstream has refused that of a login.
    pub(super) async fn send(
        &mut self,
        proxy: &Proxy,
        request: &ResourceRequest<'_>,
    ) -> Result<UpstreamResponse, Failure> {
        let answer = self.send_to_any(proxy, request).await;
        match &answer {
            Err(failure) if Box::pin(self.renew(proxy, request, failure)).await => {
                self.send_to_any(proxy, request).await
            }
            _ => answer,
        }
    }

    /// Renews the refused token of a login, in the store and here. Returns whether the request may be sent with it.
    async fn renew(&mut self, proxy: &Proxy, request: &ResourceRequest<'_>, failure: &Failure) -> bool {
        let (Some(login), Some(refusal)) = (self.login, failure.token_refusal()) else { return false };
        let stale = self.credential.secret();
        if failure.retry_scope(WorkKind::of_method(&request.method)) != RetryScope::Here
            || !token_renewal::is_renewed(proxy, login, stale, refusal).await
        {
            return false;
        }
        let Ok(Some(account)) = accounts::get(&proxy.core.store, login).await else { return false };
        let Some(fresh) = credential(None, &account, None).filter(|fresh| fresh != stale) else {
            return false;
        };
        self.credential = fresh.into();
        true
    }

    /// Sends a request to one address after the other until one answers with a 2xx status.
    async fn send_to_any(
        &self,
        proxy: &Proxy,
        request: &ResourceRequest<'_>,
    ) -> Result<UpstreamResponse, Failure> {
        let work = WorkKind::of_method(&request.method);
        let mut addresses = ChannelAddresses::new(&proxy.core, &self.endpoints, work);
        while let Some(endpoint) = addresses.next_address() {
            if let Some(answer) =
                addresses.record(self.send_to(proxy, endpoint, request).await).map_err(|failure| *failure)?
            {
                return Ok(answer);
            }
        }
        Err(addresses.exhausted())
    }

    /// Builds the mask of the secrets in requests to this upstream.
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
        request: &ResourceRequest<'_>,
    ) -> Result<UpstreamResponse, Failure> {
        let Some(values) = self.credential.headers() else {
            return Err(Failure::local("the account has no key that can be sent in a header".to_owned()));
        };
        let ResourceRequest { method, dialect, path, label, accept, forwarded, client } = request;
        let no_headers = HeaderMap::new();
        let headers = client.map_or(&no_headers, |client| &client.headers);
        let query = client.map_or_else(String::new, |client| query::forwarded(client.query.raw()));
        let target = endpoint.base.join(&format!("{path}{query}"));
        let mut outgoing = Box::new(upstream::Request::new(method.clone(), target, RequestBody::empty()));
        outgoing.headers = headers::of_resource(headers, &self.custom_headers, values, accept);
        if *dialect == Dialect::Messages {
            headers::as_messages(&mut outgoing.headers, headers);
            show_to_messages(self.messages_credential, values, &mut outgoing.headers);
        }
        for name in *forwarded {
            if let Some(value) = headers.get(name) {
                outgoing.headers.set(name.clone(), value.clone());
            }
        }
        let timer = client.map(|client| client.timer.clone()).unwrap_or_default();
        let timeouts = Timeouts::of(proxy, &proxy.core.settings.load(), timer);
        let sending = proxy.core.client.send_boxed(&endpoint.base.origin, outgoing);
        let answer = answered(pin!(sending), label, &timeouts, &Trace::default(), None).await;
        let (head, body) = answer.map_err(|failure| failure.redacted(&self.secrets()))?;
        Ok(UpstreamResponse { head, body, idle: timeouts.idle })
    }
}

/// Shows a credential in the headers of the messages API, where it is a bearer so far.
fn show_to_messages(form: MessagesCredential, credential: &CredentialHeaders, out: &mut RequestHeaders) {
    if form.has_key() {
        out.set(X_API_KEY, credential.key.clone());
    }
    if !form.has_bearer() {
        out.remove(&AUTHORIZATION);
    }
    if form == MessagesCredential::Bearer {
        // The beta under which the vendor takes a login's token.
        let login_headers = Platform::Claude.profile().login_headers.as_ref();
        if let Some(beta) = login_headers.and_then(|headers| headers.beta) {
            betas::add(out, Some(beta), &[]);
        }
    }
}

/// Returns the account if it is a connected one and its own credential is used.
pub(super) fn login(account: &AccountRow, token: Option<TokenId>) -> Option<AccountId> {
    (account.oauth_provider.is_some() && token.is_none()).then_some(account.id)
}

/// Returns the site as requests of this account reach it now.
pub(super) async fn site_of(core: &Core, account: &AccountRow) -> Result<Site, Unreachable> {
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

/// Returns the current credential of the account, or of the token.
pub(super) async fn current_credential(
    store: &Store,
    token_id: Option<TokenId>,
    account: &AccountRow,
) -> Result<Option<Secret>, Unreachable> {
    let token = match token_id {
        Some(id) => tokens::get(store, id).await?,
        None => None,
    };
    Ok(credential(token_id, account, token.as_ref()))
}
