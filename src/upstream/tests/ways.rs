//! The ways to an upstream: TLS, and outbound proxies, willing or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::certificates::{AUTHORITY, CERTIFICATE, KEY};
use super::{Upstream, client, get, read_request, text, within};
use crate::routing::{BaseUrl, OutboundProxy};
use crate::upstream::{Client, ClientOptions, ErrorKind, SendError, roots_from_pem};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn trusting() -> Client {
    let extra_roots = roots_from_pem(AUTHORITY.as_bytes()).expect("the authority");
    Client::new(ClientOptions { extra_roots, ..ClientOptions::default() })
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    while read_request(&mut stream).await.is_some() {
        stream.write_all(OK).await.expect("a reader");
        stream.flush().await.expect("a reader");
    }
}

async fn secure_upstream() -> Upstream {
    let acceptor = acceptor();
    Upstream::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
                answer(stream).await;
            }
        }
    })
    .await
}

/// Takes whatever arrives first for a request.
async fn answers_anything(answer: &'static [u8]) -> Upstream {
    Upstream::start(move |mut stream, _| async move {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(answer).await;
    })
    .await
}

/// Asks `https://<host>:<port>` twice on one connection, and returns the last answer.
async fn ask(client: &Client, url: &str, proxy: Option<&str>) -> Result<String, SendError> {
    let proxy = proxy.map(|proxy| Arc::new(OutboundProxy::parse(proxy).expect("a proxy")));
    let base = BaseUrl::parse(url, proxy).expect("a base address");
    let mut last = String::new();
    for _ in 0..2 {
        let response = within(client.send(&base.origin, get("/"))).await?;
        last = text(response.body).await.expect("a body");
        assert_eq!(client.idle(&base.origin), 1);
    }
    Ok(last)
}

#[tokio::test]
async fn a_private_authority_is_trusted_when_told_so() {
    let upstream = secure_upstream().await;
    let client = trusting();
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{}", upstream.port);
        assert_eq!(ask(&client, &url, None).await.expect("a response"), "ok");
    }
    assert_eq!(upstream.connections(), 2);
}

#[tokio::test]
async fn a_body_until_the_end_of_the_connection_may_end_without_a_goodbye_of_tls() {
    for (head, is_whole) in [
        ("HTTP/1.1 200 OK\r\n\r\nok", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", false),
    ] {
        let acceptor = acceptor();
        let upstream = Upstream::start(move |stream, _| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await.expect("a client that trusts us");
                read_request(&mut stream).await;
                stream.write_all(head.as_bytes()).await.expect("a reader");
                stream.flush().await.expect("a reader");
                // Dropped, it says nothing more.
                drop(stream);
            }
        })
        .await;
        let base = BaseUrl::parse(&format!("https://localhost:{}", upstream.port), None).expect("an address");
        let response = within(trusting().send(&base.origin, get("/"))).await.expect("a response");
        match text(response.body).await {
            Ok(body) => assert!(is_whole && body == "ok", "{head}: {body}"),
            Err(error) => {
                assert!(!is_whole, "{head}: {error:?}");
                assert_eq!(error.1.kind(), ErrorKind::Closed, "{head}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_good_ends_the_connection() {
    let upstream = secure_upstream().await;
    let unknown = ask(&client(), &format!("https://localhost:{}", upstream.port), None).await;
    let plain = answers_anything(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
    let not_tls = ask(&trusting(), &format!("https://localhost:{}", plain.port), None).await;
    for error in [unknown.expect_err("an unknown authority"), not_tls.expect_err("no TLS")] {
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    }
    // The name is checked, too: through a proxy any name leads to the server, whose certificate has another.
    let proxy = Proxy::start(ProxyKind::Connect, None).await;
    let other =
        ask(&trusting(), &format!("https://other.example:{}", upstream.port), Some(&proxy.url("http", "")))
            .await;
    assert_eq!(other.expect_err("another name").kind(), ErrorKind::Tls);
}

#[tokio::test]
async fn a_file_without_certificates_is_refused() {
    assert!(roots_from_pem(b"nothing").is_err());
    assert!(roots_from_pem(KEY.as_bytes()).is_err());
    assert_eq!(roots_from_pem(format!("{AUTHORITY}{CERTIFICATE}").as_bytes()).expect("two").len(), 2);
}

#[derive(Clone, Copy, PartialEq)]
enum ProxyKind {
    Connect,
    ConnectTls,
    Socks,
}

/// A proxy that leads every name to 127.0.0.1, if the credentials are right.
struct Proxy {
    inner: Upstream,
    served: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(kind: ProxyKind, credentials: Option<&'static str>) -> Self {
        let acceptor = acceptor();
        let served = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&served);
        let inner = Upstream::start(move |stream, _| {
            let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
            async move {
                let _ended = match kind {
                    ProxyKind::Connect => connect(stream, credentials, &count).await,
                    ProxyKind::Socks => socks(stream, credentials, &count).await,
                    ProxyKind::ConnectTls => match acceptor.accept(stream).await {
                        Ok(stream) => connect(stream, credentials, &count).await,
                        Err(_) => None,
                    },
                };
            }
        })
        .await;
        Self { inner, served }
    }

    fn url(&self, scheme: &str, credentials: &str) -> String {
        format!("{scheme}://{credentials}localhost:{}", self.inner.port)
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

async fn relay<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    port: u16,
    served: &AtomicUsize,
) -> Option<()> {
    let mut target = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    served.fetch_add(1, Ordering::SeqCst);
    copy_bidirectional(&mut stream, &mut target).await.ok()?;
    Some(())
}

async fn connect<S>(mut stream: S, credentials: Option<&str>, served: &AtomicUsize) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = read_request(&mut stream).await?;
    let passed_on = request.split_once(" http://").map(|(method, rest)| {
        let (authority, rest) = rest.split_once('/').expect("a path");
        (authority.to_owned(), format!("{method} /{rest}"))
    });
    let target = match &passed_on {
        Some((authority, _)) => authority,
        None => request.strip_prefix("CONNECT ")?.split(' ').next()?,
    };
    let port = target.rsplit(':').next()?.parse().ok()?;
    let expected = credentials.map(|c| format!("proxy-authorization: basic {}", BASE64_STANDARD.encode(c)));
    let allowed = expected.is_none_or(|expected| request.to_lowercase().contains(&expected.to_lowercase()));
    if !allowed {
        stream
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            .await
            .ok()?;
        return None;
    }
    if let Some((_, request)) = passed_on {
        let mut target = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        served.fetch_add(1, Ordering::SeqCst);
        target.write_all(request.as_bytes()).await.ok()?;
        copy_bidirectional(&mut stream, &mut target).await.ok()?;
        return Some(());
    }
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    relay(stream, port, served).await
}

async fn socks(mut stream: TcpStream, credentials: Option<&str>, served: &AtomicUsize) -> Option<()> {
    if stream.read_u8().await.ok()? == 4 {
        return socks4(stream, served).await;
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await.ok()?)];
    stream.read_exact(&mut methods).await.ok()?;
    let method = if credentials.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        stream.write_all(&[5, 0xff]).await.ok()?;
        return None;
    }
    stream.write_all(&[5, method]).await.ok()?;
    if let Some(credentials) = credentials {
        stream.read_u8().await.ok()?;
        let mut given = Vec::new();
        for _ in 0..2 {
            let mut part = vec![0; usize::from(stream.read_u8().await.ok()?)];
            stream.read_exact(&mut part).await.ok()?;
            given.push(String::from_utf8(part).ok()?);
        }
        let allowed = given.join(":") == credentials;
        stream.write_all(&[1, u8::from(!allowed)]).await.ok()?;
        if !allowed {
            return None;
        }
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await.ok()?;
    let length = if request[3] == 3 { usize::from(stream.read_u8().await.ok()?) } else { 4 };
    let mut host = vec![0; length];
    stream.read_exact(&mut host).await.ok()?;
    let port = stream.read_u16().await.ok()?;
    let status = if host == b"forbidden.example" { 2 } else { 0 };
    stream.write_all(&[5, status, 0, 1, 0, 0, 0, 0, 0, 0]).await.ok()?;
    if status == 0 { relay(stream, port, served).await } else { None }
}

async fn socks4(mut stream: TcpStream, served: &AtomicUsize) -> Option<()> {
    stream.read_u8().await.ok()?;
    let port = stream.read_u16().await.ok()?;
    let address = stream.read_u32().await.ok()?;
    let names = if (1..256).contains(&address) { 2 } else { 1 };
    for _ in 0..names {
        while stream.read_u8().await.ok()? != 0 {}
    }
    stream.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).await.ok()?;
    relay(stream, port, served).await
}

#[tokio::test]
async fn every_kind_of_proxy_leads_to_the_upstream() {
    let (plain, secure) = (Upstream::always(OK).await, secure_upstream().await);
    let client = trusting();
    for (kind, scheme, credentials) in [
        (ProxyKind::Connect, "http", None),
        (ProxyKind::Connect, "http", Some("ada:pass word")),
        (ProxyKind::ConnectTls, "https", Some("ada:pass word")),
        (ProxyKind::Socks, "socks4", None),
        (ProxyKind::Socks, "socks4a", None),
        (ProxyKind::Socks, "socks5", None),
        (ProxyKind::Socks, "socks5", Some("ada:pass word")),
        (ProxyKind::Socks, "socks5h", Some("ada:pass word")),
        (ProxyKind::Socks, "socks", None),
    ] {
        let proxy = Proxy::start(kind, credentials).await;
        let given = if credentials.is_some() { "ada:pass%20word@" } else { "" };
        for url in [format!("http://localhost:{}", plain.port), format!("https://localhost:{}", secure.port)]
        {
            let body = ask(&client, &url, Some(&proxy.url(scheme, given))).await;
            assert_eq!(body.expect(scheme), "ok");
        }
        assert_eq!(proxy.served(), 2, "{scheme}");
    }
}

#[tokio::test]
async fn names_are_resolved_at_the_proxy_when_its_scheme_says_so() {
    let upstream = Upstream::always(OK).await;
    let url = format!("http://only-the-proxy-knows.invalid:{}", upstream.port);
    for scheme in ["http", "socks4a", "socks5h", "socks"] {
        let proxy =
            Proxy::start(if scheme == "http" { ProxyKind::Connect } else { ProxyKind::Socks }, None).await;
        assert_eq!(ask(&client(), &url, Some(&proxy.url(scheme, ""))).await.expect(scheme), "ok");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_fails_the_request() {
    let upstream = Upstream::always(OK).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let nobody = free.local_addr().expect("its address").port();
    drop(free);
    let answers_403 = Upstream::once("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
    let hangs_up = answers_anything(b"").await;
    let (connect, socks) = (
        Proxy::start(ProxyKind::Connect, Some("ada:right")).await,
        Proxy::start(ProxyKind::Socks, Some("ada:right")).await,
    );
    let open = Proxy::start(ProxyKind::Socks, None).await;
    let here = format!("http://localhost:{}", upstream.port);
    let tunnelled = format!("https://localhost:{}", upstream.port);
    for (proxy, url, told) in [
        (format!("http://ada:wrong@localhost:{nobody}"), here.as_str(), "no connection"),
        (format!("http://ada:wrong@localhost:{}", answers_403.port), &tunnelled, "answered 403 Forbidden"),
        (format!("http://ada:wrong@localhost:{}", hangs_up.port), &tunnelled, "without an answer"),
        (format!("https://ada:wrong@localhost:{}", hangs_up.port), &here, "TLS handshake"),
        (connect.url("http", "ada:wrong@"), &here, "login, or refuses the one it was given (407)"),
        (connect.url("http", "ada:wrong@"), &tunnelled, "login, or refuses the one it was given (407)"),
        (connect.url("http", ""), &tunnelled, "(407)"),
        (connect.url("http", ""), &here, "(407)"),
        (socks.url("socks5", "ada:wrong@"), &here, "cannot reach"),
        (socks.url("socks5h", ""), &here, "cannot reach"),
        (open.url("socks5h", ""), "http://forbidden.example", "cannot reach"),
    ] {
        let error = ask(&client(), url, Some(&proxy)).await.expect_err(&proxy);
        assert!(matches!(error.kind(), ErrorKind::NoProxy | ErrorKind::Proxy), "{proxy}: {error}");
        assert!(error.message().contains("proxy localhost:") && error.message().contains(told), "{error}");
        assert!(!format!("{error} {error:?}").contains("wrong"), "{error}");
    }
    assert_eq!(upstream.connections(), 0);
}
