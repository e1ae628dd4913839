//! Management calls of an account, with each authentication scheme that its site may accept.
//!
//! ```text
//! exchange   one call and its answer, whatever its status
//! ask        the JSON of one successful call
//! as_user    an ask as the session's user: token, cookie, with the user's number; the first way that works
//! ```
//!
//! A session's token is sent as Bearer, a session cookie as `Cookie`; the new-api family also wants the number of the
//! user. The way that worked is remembered. Bot shields are not solved: their page is an error.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::{Method, Request, Response, Uri};
use serde_json::Value;

use super::credential::{bare_credential, is_cookie, is_pair};
use super::error::{SiteError, SiteErrorKind};
use super::memory::{SessionAuth, SiteMemory};
use super::{reply, user_ids};
use crate::mask::Mask;
use crate::platform::Platform;
use crate::routing::{BaseUrl, Secret};
use crate::upstream::{Client, FetchLimits, RedirectedTo};

/// The limits of one operation, all its calls together.
pub const MANAGEMENT_LIMITS: FetchLimits =
    FetchLimits { timeout: Duration::from_secs(15), max_bytes: 1024 * 1024 };

/// A client of a site's management API, as one of its accounts.
#[derive(Clone)]
pub struct SiteClient {
    pub platform: Platform,
    /// The site's own address, with the proxy of the account.
    pub base: BaseUrl,
    /// The token or cookie of a login.
    pub session: Option<Secret>,
    /// API keys of the account, in the order in which they are tried where a key suffices.
    pub keys: Vec<Secret>,
    /// The account's number at the site, where known.
    pub user_id: Option<i64>,
    /// The account's name at the site, which may end in that number.
    pub username: Option<String>,
    /// The site's own headers; they do not replace those of a credential.
    pub custom_headers: Vec<(HeaderName, HeaderValue)>,
    pub limits: FetchLimits,
    pub memory: Arc<SiteMemory>,
}

/// How a call carries a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AuthScheme {
    Bearer(String),
    Cookie(String),
    None,
}

/// A call, apart from who makes it.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub body: Option<&'a Value>,
    /// Whether the call says that a script of the site's own pages makes it.
    pub by_script: bool,
}

// === impl Call ===

impl<'a> Call<'a> {
    pub fn get(path: &'a str) -> Self {
        Self { method: &Method::GET, path, body: None, by_script: false }
    }

    pub fn post(path: &'a str) -> Self {
        Self { method: &Method::POST, ..Self::get(path) }
    }

    pub fn delete(path: &'a str) -> Self {
        Self { method: &Method::DELETE, ..Self::get(path) }
    }

    pub fn with(self, body: &'a Value) -> Self {
        Self { body: Some(body), ..self }
    }

    pub fn by_script(self) -> Self {
        Self { by_script: true, ..self }
    }
}

// === impl SiteClient ===

impl SiteClient {
    /// Creates the client of an account of which only the session is known.
    pub fn new(platform: Platform, base: BaseUrl, session: Option<Secret>) -> Self {
        Self {
            platform,
            base,
            session,
            keys: Vec::new(),
            user_id: None,
            username: None,
            custom_headers: Vec::new(),
            limits: MANAGEMENT_LIMITS,
            memory: Arc::default(),
        }
    }

    /// Returns every credential once, the session first.
    pub(super) fn credentials(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for secret in self.session.iter().chain(&self.keys) {
            let text = bare_credential(secret.expose());
            if !text.is_empty() && !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    /// Returns the account's number at the site, as it is stored or as the site has told it since.
    pub fn known_user_id(&self) -> Option<i64> {
        let session = self.session().ok()?;
        self.user_id.or_else(|| self.memory.session(&self.base, session)?.user_id)
    }

    /// Remembers the account's number that the site tells, unless it is known.
    pub(super) fn learn_user_id(&self, id: i64) {
        if self.known_user_id().is_none()
            && let Ok(session) = self.session()
        {
            let known = self.memory.session(&self.base, session).unwrap_or_default();
            let known = SessionAuth { user_id: Some(id), ..known };
            self.memory.learn_session(&self.base, session, known);
        }
    }

    /// Returns the session, or the error that there is none.
    pub(super) fn session(&self) -> Result<&str, SiteError> {
        let session = self.session.as_ref().map(|session| bare_credential(session.expose()));
        session.filter(|session| !session.is_empty()).ok_or_else(|| {
            SiteError::new(
                SiteErrorKind::Refused,
                "the account has no session, which this needs: only an API key or no credential",
            )
        })
    }

    /// Returns the ways to ask with every credential, one after the other.
    pub(super) fn auth_schemes(&self) -> Vec<AuthScheme> {
        self.credentials().into_iter().flat_map(|credential| self.schemes_for(credential)).collect()
    }

    /// Returns the ways in which a credential may be meant, the likeliest first, with one guess at a cookie at most.
    pub(super) fn schemes_for(&self, credential: &str) -> Vec<AuthScheme> {
        let bearer = AuthScheme::Bearer(credential.to_owned());
        if is_cookie(credential) {
            return vec![AuthScheme::Cookie(credential.to_owned()), bearer];
        }
        let fork = self.platform.profile().new_api_fork();
        let may_be_cookie = fork.is_some_and(|fork| fork.has_cookie_sessions);
        if !may_be_cookie || credential.starts_with("sk-") {
            return vec![bearer];
        }
        let pair = if is_pair(credential) { credential.to_owned() } else { format!("session={credential}") };
        let cookie = AuthScheme::Cookie(pair);
        let known = self.memory.session(&self.base, credential).unwrap_or_default();
        if known.by_cookie { vec![cookie, bearer] } else { vec![bearer, cookie] }
    }

    /// Asks as the session's user, in each way until one works. Of several failures the most telling one is returned; a
    /// site that cannot be reached is asked once.
    pub(super) async fn as_user(&self, client: &Client, call: Call<'_>) -> Result<Value, SiteError> {
        let session = self.session()?;
        let mut failure = None;
        for scheme in self.schemes_for(session) {
            match self.with_number(client, call, session, &scheme).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_final() => return Err(SiteError::of_both_ways(failure, error)),
                Err(error) => failure = Some(SiteError::of_both_ways(failure, error)),
            }
        }
        Err(failure.unwrap_or_else(|| SiteError::new(SiteErrorKind::Refused, "no request was sent")))
    }

    /// Asks in one way. When the site wants the user's number and it is not known, asks again with the number that the
    /// session suggests and the site confirms.
    pub(super) async fn with_number(
        &self,
        client: &Client,
        call: Call<'_>,
        session: &str,
        scheme: &AuthScheme,
    ) -> Result<Value, SiteError> {
        let known = self.memory.session(&self.base, session).unwrap_or_default();
        let user_id = self.user_id.or(known.user_id);
        let by_cookie = matches!(scheme, AuthScheme::Cookie(_));
        let refusal = match self.ask(client, call, scheme, user_id).await {
            Ok(answer) => {
                if known.by_cookie != by_cookie {
                    self.memory.learn_session(&self.base, session, SessionAuth { by_cookie, ..known });
                }
                return Ok(answer);
            }
            Err(error) if error.kind == SiteErrorKind::NeedsUserId && user_id.is_none() => error,
            Err(error) => return Err(error),
        };
        for id in user_ids::candidates(self.username.as_deref(), session) {
            let own = Call::get("/api/user/self");
            let Ok(answer) = self.ask(client, own, scheme, Some(id)).await else { continue };
            if answer.pointer("/data/id").and_then(reply::whole) == Some(id) {
                let known = SessionAuth { by_cookie, user_id: Some(id) };
                self.memory.learn_session(&self.base, session, known);
                return self.ask(client, call, scheme, Some(id)).await;
            }
        }
        Err(refusal)
    }

    /// Returns the JSON of a successful answer: 2xx, and not one that says `success: false`.
    pub(super) async fn ask(
        &self,
        client: &Client,
        call: Call<'_>,
        scheme: &AuthScheme,
        user_id: Option<i64>,
    ) -> Result<Value, SiteError> {
        let answer = self.exchange(client, call, scheme, user_id).await?;
        let (status, body) = (answer.status(), answer.body());
        // What a login page answers says nothing about the call.
        if let Some(RedirectedTo(path)) = answer.extensions().get()
            && is_of_login(path)
            && !is_of_login(call.path)
        {
            return Err(SiteError::redirected_to_login(status));
        }
        let refused = || {
            let error = SiteError::answered_to(status, body, user_id.is_some());
            SiteError { message: self.conceal(error.message), ..error }
        };
        if !status.is_success() {
            return Err(refused());
        }
        match reply::json(body) {
            Ok(json) if json.get("success") == Some(&Value::Bool(false)) => Err(refused()),
            Ok(json) if json.is_object() || json.is_array() => Ok(json),
            Ok(_) | Err(_) => Err(SiteError::malformed(status, body, "the JSON that was asked for")),
        }
    }

    /// Returns the body of a successful answer, as it came.
    pub(super) async fn get(
        &self,
        client: &Client,
        path: &str,
        scheme: &AuthScheme,
    ) -> Result<Bytes, SiteError> {
        let answer = self.exchange(client, Call::get(path), scheme, self.user_id).await?;
        if answer.status() == 200 {
            return Ok(answer.into_body());
        }
        let error = SiteError::answered_to(answer.status(), answer.body(), self.user_id.is_some());
        Err(SiteError { message: self.conceal(error.message), ..error })
    }

    pub(super) async fn exchange(
        &self,
        client: &Client,
        call: Call<'_>,
        scheme: &AuthScheme,
        user_id: Option<i64>,
    ) -> Result<Response<Bytes>, SiteError> {
        let mut request = Request::new(call.body.map_or_else(Bytes::new, |body| body.to_string().into()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = Uri::from(self.base.join(call.path));
        *request.headers_mut() = self.headers(call, scheme, user_id)?;
        let answer = client.fetch(&self.base, request, self.limits).await;
        answer.map_err(|error| {
            let error = SiteError::from(error);
            SiteError { message: self.conceal(error.message), ..error }
        })
    }

    /// Hides secrets in a message: some sites quote what they were sent, such as the credential that they refuse, or a
    /// header.
    pub(super) fn conceal(&self, mut message: String) -> String {
        self.mask().hide(&mut message);
        message
    }

    /// Returns the mask of the secrets that the site is sent.
    pub(super) fn mask(&self) -> Mask {
        let mut mask = Mask::default();
        for credential in self.credentials() {
            mask.add(credential);
            mask.add_cookies(credential);
        }
        for (name, value) in &self.custom_headers {
            mask.add_header(name, value);
        }
        self.base.add_secrets(&mut mask);
        mask
    }

    /// Keeps an operation within the client's time limit, all its calls together. Boxed outside the `async`
    /// block: a large future moved into one is stored in it twice, and so again in every future that awaits it.
    pub(super) fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, SiteError>>,
    ) -> impl Future<Output = Result<T, SiteError>> {
        let (limit, work) = (self.limits.timeout, Box::pin(work));
        async move {
            let timed_out = |_| {
                let message = format!("no complete answer within {} s", limit.as_secs_f64());
                Err(SiteError::new(SiteErrorKind::Timeout, message))
            };
            let done = tokio::time::timeout(limit, work).await.unwrap_or_else(timed_out);
            // This covers also what was read of an answer that lacked something.
            done.map_err(|error| SiteError { message: self.conceal(error.message), ..error })
        }
    }

    fn headers(
        &self,
        call: Call<'_>,
        scheme: &AuthScheme,
        user_id: Option<i64>,
    ) -> Result<HeaderMap, SiteError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.custom_headers {
            headers.insert(name, value.clone());
        }
        headers.remove(AUTHORIZATION);
        if call.body.is_some() || call.method != Method::GET {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if call.by_script {
            headers.insert("x-requested-with", HeaderValue::from_static("XMLHttpRequest"));
        }
        let (name, value) = match scheme {
            AuthScheme::None => return Ok(headers),
            AuthScheme::Bearer(credential) => (AUTHORIZATION, format!("Bearer {credential}")),
            AuthScheme::Cookie(cookie) => (COOKIE, cookie.clone()),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            SiteError::new(SiteErrorKind::Refused, "the credential has characters that a header cannot carry")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        let by_cookie = matches!(scheme, AuthScheme::Cookie(_));
        for name in self.user_id_headers(by_cookie) {
            if let Some(id) = user_id {
                headers.insert(HeaderName::from_static(name), HeaderValue::from(id));
            }
        }
        Ok(headers)
    }

    fn user_id_headers(&self, by_cookie: bool) -> &'static [&'static str] {
        match self.platform.profile().new_api_fork() {
            Some(fork) if by_cookie => fork.cookie_user_id_headers,
            Some(fork) => fork.user_id_headers,
            None => &[],
        }
    }
}

/// Whether a path is that of a page for logins, such as `/login` or `/auth/signin.html`.
fn is_of_login(path: &str) -> bool {
    path.split(['/', '.']).any(|segment| ["login", "signin", "sign-in", "auth"].contains(&segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site_client(platform: Platform, session: &str) -> SiteClient {
        let base = BaseUrl::parse("https://example.com", None).expect("a base address");
        SiteClient { user_id: Some(7), ..SiteClient::new(platform, base, Some(session.into())) }
    }

    #[test]
    fn what_looks_like_a_cookie_goes_as_one_first() {
        let cookie = |text: &str| AuthScheme::Cookie(text.to_owned());
        let bearer = |text: &str| AuthScheme::Bearer(text.to_owned());
        for (platform, credential, auth_schemes) in [
            (Platform::NewApi, "pat", vec![bearer("pat"), cookie("session=pat")]),
            (Platform::NewApi, "Bearer pat", vec![bearer("pat"), cookie("session=pat")]),
            (Platform::NewApi, "session=x", vec![cookie("session=x"), bearer("session=x")]),
            (Platform::NewApi, "token=x", vec![cookie("token=x"), bearer("token=x")]),
            (Platform::NewApi, "a=b; c=d", vec![cookie("a=b; c=d"), bearer("a=b; c=d")]),
            (Platform::NewApi, "cGF0=", vec![bearer("cGF0="), cookie("session=cGF0=")]),
            (Platform::NewApi, "name=cGF0=", vec![bearer("name=cGF0="), cookie("name=cGF0=")]),
            (Platform::AnyRouter, "sk-1", vec![bearer("sk-1")]),
            (Platform::OneApi, "pat", vec![bearer("pat")]),
            (Platform::OneApi, "session=x", vec![cookie("session=x"), bearer("session=x")]),
        ] {
            assert_eq!(site_client(platform, credential).auth_schemes(), auth_schemes, "{credential}");
        }
    }

    #[test]
    fn the_way_that_worked_goes_first_the_next_time() {
        let site_client = site_client(Platform::NewApi, "raw");
        let known = SessionAuth { by_cookie: true, user_id: None };
        site_client.memory.learn_session(&site_client.base, "raw", known);
        assert_eq!(site_client.auth_schemes()[0], AuthScheme::Cookie("session=raw".into()));
    }

    #[test]
    fn the_number_of_the_user_goes_along_where_it_is_wanted() {
        for (platform, scheme, headers) in [
            (Platform::NewApi, AuthScheme::Bearer("k".into()), 7),
            (Platform::NewApi, AuthScheme::Cookie("session=k".into()), 2),
            (Platform::Veloera, AuthScheme::Bearer("k".into()), 4),
            (Platform::OneHub, AuthScheme::Bearer("k".into()), 1),
            (Platform::NewApi, AuthScheme::None, 0),
        ] {
            let map = site_client(platform, "k").headers(Call::get("/"), &scheme, Some(7)).expect("headers");
            assert_eq!(map.len(), headers, "{platform}: {map:?}");
        }
    }
}
