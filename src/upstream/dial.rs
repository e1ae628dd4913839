//! Makes a connection: name, TCP, outbound proxy and TLS, within one time limit.
//!
//! When an outbound proxy is configured, every connection goes through it: by a tunnel, or, for `http` targets and a
//! proxy that speaks HTTP, by requests that name the whole address. When the proxy fails, the request fails. There is
//! no fallback to a direct connection: an operator who set a proxy may have set it because the direct way must not be
//! taken.

use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV4, SocksV5};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::dns::Resolver;
use super::error::{ErrorKind, SendError};
use super::stream::Stream;
use super::tunnel;
use crate::open_files;
use crate::routing::{Origin, OutboundProxy, ProxyScheme};

/// How long one address of a name is tried alone before the next one is tried beside it (RFC 8305, 5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The longest time for making a connection through an outbound proxy.
const PROXY_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Dialer {
    tls: TlsConnector,
    /// Names no protocol: for connections that carry something other than HTTP.
    other_tls: TlsConnector,
    names: Arc<Resolver>,
    /// The time limit for name, connection, tunnel and TLS together.
    timeout: Duration,
}

impl Dialer {
    /// Creates a dialer that trusts the public roots and `extra_roots`.
    pub(crate) fn new(extra_roots: Vec<CertificateDer<'static>>, timeout: Duration) -> Self {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let (_, ignored) = roots.add_parsable_certificates(extra_roots);
        if ignored > 0 {
            log::warn!("SSL_CERT_FILE: {ignored} certificate(s) cannot be used as roots and are not trusted");
        }
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("ring supports TLS 1.2 and 1.3")
                .with_root_certificates(roots)
                .with_no_client_auth();
        let other_tls = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { tls: TlsConnector::from(Arc::new(config)), other_tls, names: Arc::default(), timeout }
    }

    pub(crate) async fn dial(&self, origin: &Origin) -> Result<Stream, SendError> {
        let limit = if origin.proxy.is_some() { self.timeout.min(PROXY_TIMEOUT) } else { self.timeout };
        let timeout = tokio::time::timeout(limit, self.connect(origin)).await;
        timeout.unwrap_or_else(|_elapsed| {
            let seconds = limit.as_secs_f64();
            let target = target(origin);
            let message = match &origin.proxy {
                None => format!("no connection to {target} within {seconds} s"),
                Some(proxy) => {
                    format!("no connection to {target} through {} within {seconds} s", name(proxy))
                }
            };
            Err(SendError::new(ErrorKind::Timeout, message))
        })
    }

    async fn connect(&self, origin: &Origin) -> Result<Stream, SendError> {
        let stream = match &origin.proxy {
            None => self.tcp(&origin.host, origin.port).await?.into(),
            Some(proxy) => self.through(proxy, origin).await?,
        };
        if origin.tls { secure(&self.tls, stream, &origin.host).await } else { Ok(stream) }
    }

    /// Starts TLS for a protocol other than HTTP; the caller sets a time limit.
    pub(crate) async fn secure_other(&self, stream: Stream, host: &str) -> Result<Stream, SendError> {
        secure(&self.other_tls, stream, host).await
    }

    async fn through(&self, proxy: &OutboundProxy, origin: &Origin) -> Result<Stream, SendError> {
        let unreachable = |error: SendError| {
            let kind = match error.kind() {
                ErrorKind::Exhausted => ErrorKind::Exhausted,
                _ => ErrorKind::NoProxy,
            };
            SendError::new(kind, format!("outbound proxy {}: {}", name(proxy), error.message()))
        };
        if origin.forwarder().is_some() {
            return self.to_proxy(proxy).await.map_err(unreachable);
        }
        // Names are resolved before the proxy is asked: a name without an address is not the proxy's fault.
        let target = match proxy.scheme {
            ProxyScheme::Socks4 => {
                authority(&self.pick(&origin.host, origin.port, SocketAddr::is_ipv4).await?)
            }
            ProxyScheme::Socks5 => authority(&self.pick(&origin.host, origin.port, |_| true).await?),
            _ => target(origin),
        };
        let stream = self.to_proxy(proxy).await.map_err(unreachable)?;
        handshake(proxy, stream, &target).await.map_err(|reason| {
            SendError::new(
                ErrorKind::Proxy,
                format!("outbound proxy {} cannot reach {target}: {reason}", name(proxy)),
            )
        })
    }

    async fn to_proxy(&self, proxy: &OutboundProxy) -> Result<Stream, SendError> {
        let stream = self.tcp(&proxy.host, proxy.port).await?.into();
        match proxy.scheme {
            ProxyScheme::Https => secure(&self.tls, stream, &proxy.host).await,
            _ => Ok(stream),
        }
    }

    /// Returns the addresses of `host`, with the two families alternating.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, SendError> {
        if let Ok(address) = bare(host).parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        Ok(alternate(self.names.resolve(host, port).await?))
    }

    async fn pick(
        &self,
        host: &str,
        port: u16,
        suits: impl Fn(&SocketAddr) -> bool,
    ) -> Result<SocketAddr, SendError> {
        let addresses = self.resolve(host, port).await?;
        addresses.into_iter().find(suits).ok_or_else(|| {
            SendError::new(ErrorKind::Dns, format!("{host} has no IPv4 address, which a socks4 proxy needs"))
        })
    }

    /// Connects to the first address of `host` that answers.
    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, SendError> {
        let addresses = self.resolve(host, port).await?;
        let stream = first_to_connect(addresses).await.map_err(|error| {
            let message = format!("no connection to {}: {error}", authority_of(host, port));
            SendError::new(own_or(ErrorKind::Connect, &error), message)
        })?;
        // Small events must not wait for the acknowledgement of the previous one.
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("TCP_NODELAY towards {host}: {error}");
        }
        Ok(stream)
    }
}

async fn secure(tls: &TlsConnector, stream: Stream, host: &str) -> Result<Stream, SendError> {
    let failed = |reason: String| {
        SendError::new(ErrorKind::Tls, format!("the TLS handshake with {host} failed: {reason}"))
    };
    let name =
        ServerName::try_from(bare(host).to_owned()).map_err(|_| failed("not a valid host name".into()))?;
    let tls = tls.connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
    Ok(Stream::Tls(Box::new(tls)))
}

/// Asks the proxy at the other end of `stream` to connect to `target`, a `host:port`.
async fn handshake(proxy: &OutboundProxy, stream: Stream, target: &str) -> Result<Stream, String> {
    // The SOCKS connectors of hyper-util want the target as a Uri with an explicit port, and dial the proxy themselves.
    // Instead of dialing they get the connection that is already there.
    let uri: Uri = format!("http://{target}").parse().map_err(|_| "not a valid host name".to_owned())?;
    let here = Uri::from_static("http://proxy");
    match proxy.scheme {
        ProxyScheme::Http | ProxyScheme::Https => {
            tunnel::open(stream, target, proxy.authorization().as_deref()).await
        }
        ProxyScheme::Socks4 | ProxyScheme::Socks4a => {
            let mut socks = SocksV4::new(here, Connected(Some(stream)));
            socks.call(uri).await.map(TokioIo::into_inner).map_err(|error| chain(&error))
        }
        ProxyScheme::Socks5 | ProxyScheme::Socks5h => {
            let mut socks = SocksV5::new(here, Connected(Some(stream)));
            if let Some((user, password)) = &proxy.credentials {
                socks = socks.with_auth(user.clone(), password.clone());
            }
            socks.call(uri).await.map(TokioIo::into_inner).map_err(|error| chain(&error))
        }
    }
}

/// A connector that has connected already.
struct Connected(Option<Stream>);

impl Service<Uri> for Connected {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _proxy: Uri) -> Self::Future {
        ready(self.0.take().map(TokioIo::new).ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

async fn first_to_connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    if let [address] = addresses[..] {
        return TcpStream::connect(address).await;
    }
    let mut addresses = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last_error = io::Error::from(io::ErrorKind::NotConnected);
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        let ended = if addresses.len() > 0 {
            tokio::time::timeout(NEXT_ADDRESS_AFTER, attempts.join_next()).await
        } else {
            Ok(attempts.join_next().await)
        };
        match ended {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => last_error = error,
            Ok(Some(Err(error))) => last_error = io::Error::other(error),
            Ok(None) if addresses.len() == 0 => return Err(last_error),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Returns the kind of a system error: `kind`, unless it is this process that lacks something.
fn own_or(kind: ErrorKind, error: &io::Error) -> ErrorKind {
    if open_files::is_lack(error) { ErrorKind::Exhausted } else { kind }
}

/// Reorders addresses: the families alternate, beginning with the resolver's first; within each its order stays.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut alternating = Vec::new();
    loop {
        match (first.next(), second.next()) {
            (None, None) => return alternating,
            (a, b) => alternating.extend(a.into_iter().chain(b)),
        }
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn target(origin: &Origin) -> String {
    authority_of(&origin.host, origin.port)
}

/// Formats `host:port`, with an IPv6 address in brackets.
fn authority_of(host: &str, port: u16) -> String {
    let host = bare(host);
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn authority(address: &SocketAddr) -> String {
    address.to_string()
}

/// Returns the name of the proxy for messages: without credentials.
pub(super) fn name(proxy: &OutboundProxy) -> String {
    authority_of(&proxy.host, proxy.port)
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate_in_the_resolvers_order() {
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]
            .map(|a| a.parse().expect("an address"));
        let ordered: Vec<String> = alternate(all.to_vec()).iter().map(SocketAddr::to_string).collect();
        assert_eq!(ordered, ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
    }

    #[test]
    fn a_lack_of_our_own_is_told_apart_from_an_upstream_that_refuses() {
        let error = |code| io::Error::from_raw_os_error(code);
        for (code, kind) in
            [(24, ErrorKind::Exhausted), (23, ErrorKind::Exhausted), (111, ErrorKind::Connect)]
        {
            assert_eq!(own_or(ErrorKind::Connect, &error(code)), kind, "{code}");
        }
    }
}
