//! Listens for browsers that come back from a login: one listener for each provider.
//!
//! A listener at a port that an operator has set lives as long as the service. Otherwise the port is the one that the
//! vendor uses for its own program, which may need it on the same machine: the listener then lives only while a login
//! of the provider is remembered, ten minutes from its begin, so that a browser that comes back twice is answered; the
//! next login opens it again. A port that is taken is no failure: the browser's address bar has the callback, which can
//! be pasted.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::callback::Callback;
use super::callback_ports::CallbackPort;
use super::completion;
use super::pages::page;
use crate::http::server::{self, BoxedHandler, ServerOptions};
use crate::http::{self, Query, Response};
use crate::jobs::Jobs;
use crate::platform::OAuthProvider;

/// The limits of a listener. Few browsers come back; further connections wait.
const OPTIONS: ServerOptions = ServerOptions {
    max_connections: 32,
    header_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(10),
    tls: None,
};
/// How long an answer of one page may take when a listener is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Opens the listeners at ports that an operator has set, for providers whose settings are complete.
pub async fn open_kept(jobs: Arc<Jobs>) {
    for provider in OAuthProvider::ALL {
        let settings = jobs.core.config.oauth.of(provider);
        if settings.keeps_callback_port && settings.missing.is_empty() {
            drop(open(&jobs, provider).await);
        }
    }
}

/// Opens the provider's listener unless it is open. Where that fails, logs it and returns the port all the same.
pub async fn open(jobs: &Arc<Jobs>, provider: OAuthProvider) -> CallbackPort<'_> {
    let mut slot = jobs.logins.ports.slot(provider).lock().await;
    if let Some(port) = *slot {
        return CallbackPort { port, _slot: slot };
    }
    let config = &jobs.core.config.oauth;
    let wanted = config.of(provider).callback_port;
    let address = SocketAddr::new(config.callback_host, wanted);
    let bound = TcpListener::bind(address).await;
    match bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener))) {
        Ok((port, listener)) => {
            *slot = Some(port);
            let work = listen(jobs.clone(), provider, listener);
            jobs.core.background.spawn("the listener of a login", work);
            CallbackPort { port, _slot: slot }
        }
        Err(error) => {
            let id = provider.id();
            log::warn!(
                "cannot listen for the browser of a login of {id} at {address}: {error}; paste the address \
                 that it ends at instead"
            );
            let port = if wanted == 0 { provider.profile().callback_port } else { wanted };
            CallbackPort { port, _slot: slot }
        }
    }
}

/// Listens while a login is remembered, or for as long as the service runs.
async fn listen(jobs: Arc<Jobs>, provider: OAuthProvider, listener: TcpListener) {
    let stays = jobs.core.config.oauth.of(provider).keeps_callback_port;
    let (stop, stopped) = watch::channel(None);
    let handler_for = |_| -> BoxedHandler {
        let jobs = jobs.clone();
        Box::new(move |request, connection| {
            let fault = connection.head_fault().is_some();
            let head = (request.method().clone(), request.uri().clone());
            Box::pin(answer(jobs.clone(), provider, head, fault))
        })
    };
    let mut serving = pin!(server::serve(listener, OPTIONS, handler_for, stopped, || ()));
    let unneeded = async {
        if stays {
            std::future::pending::<()>().await;
        }
        loop {
            jobs.logins.sessions.until_forgotten(provider).await;
            let slot = jobs.logins.ports.slot(provider).lock().await;
            // Another login may have begun meanwhile.
            if !jobs.logins.sessions.remembers(provider) {
                break slot;
            }
        }
    };
    let mut slot = tokio::select! {
        _ = &mut serving => jobs.logins.ports.slot(provider).lock().await,
        slot = unneeded => {
            stop.send_replace(Some(GRACE));
            serving.await;
            slot
        }
    };
    *slot = None;
}

async fn answer(
    jobs: Arc<Jobs>,
    provider: OAuthProvider,
    (method, uri): (Method, hyper::Uri),
    has_fault: bool,
) -> Response {
    if has_fault {
        return http::text(StatusCode::BAD_REQUEST, "Bad request\n");
    }
    if method != Method::GET {
        let mut refusal = http::text(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return refusal;
    }
    if uri.path() != provider.profile().callback_path {
        return http::text(StatusCode::NOT_FOUND, "Not found\n");
    }
    let callback = Callback::of_query(&Query::new(uri.query().unwrap_or_default()));
    let is_connected = match callback {
        Some(callback) => completion::complete(&jobs, provider, callback).await.is_ok(),
        None => false,
    };
    let status = if is_connected { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    page(status, is_connected)
}
