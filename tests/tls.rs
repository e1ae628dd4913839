//! TLS towards clients, with certificates made on the spot by the `openssl` command. Without that command nothing can be
//! tested, and the tests say so.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::support::{self, Caller, Home, SOON, Setup, TEXT, eventually, head, run};

const REQUEST: &[u8] = b"GET /api/desktop/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// Writes `cert.pem` and `key.pem` for `localhost`; returns false without `openssl`.
fn make_certificate(folder: &Path) -> bool {
    let config = "[req]\ndistinguished_name=n\nx509_extensions=e\nprompt=no\n[n]\nCN=localhost\n\
        [e]\nsubjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n";
    std::fs::write(folder.join("openssl.cnf"), config).expect("written");
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-config", "openssl.cnf", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem"])
        .output();
    let made = made.is_ok_and(|output| output.status.success());
    if !made {
        eprintln!("no `openssl` here: nothing to test");
    }
    made
}

fn setup(folder: &Path) -> Setup {
    let path = |name: &str| folder.join(name).display().to_string();
    Setup::default().with("TLS_CERT_FILE", &path("cert.pem")).with("TLS_KEY_FILE", &path("key.pem"))
}

/// Opens a TLS connection as a client that trusts only this certificate.
fn connect(
    gateway: &support::Gateway,
    trusted: &CertificateDer<'static>,
) -> Result<rustls::StreamOwned<rustls::ClientConnection, TcpStream>, std::io::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(gateway.address())?;
    socket.set_read_timeout(Some(SOON))?;
    Ok(rustls::StreamOwned::new(session, socket))
}

/// Sends one request.
fn ask(gateway: &support::Gateway, trusted: &CertificateDer<'static>) -> Result<String, std::io::Error> {
    let mut stream = connect(gateway, trusted)?;
    stream.write_all(REQUEST)?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]), "HTTP/1.1 and nothing else");
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn certificate(folder: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(folder.join("cert.pem")).expect("a certificate")
}

#[test]
fn a_gateway_with_a_certificate_speaks_tls_and_takes_a_new_one_without_a_restart() {
    let home = Home::new();
    if !make_certificate(home.path()) {
        return;
    }
    let gateway = setup(home.path()).start_in(home.clone());
    let first = certificate(home.path());
    let answer = ask(&gateway, &first).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("{\"ok\":true}"), "{answer}");

    assert!(make_certificate(home.path()));
    let second = certificate(home.path());
    assert!(ask(&gateway, &second).is_err(), "not before it is told");
    gateway.signal("HUP");
    eventually("the new certificate is served", || ask(&gateway, &second).ok());
    assert!(ask(&gateway, &first).is_err());

    // With a broken file, the old certificate stays in service.
    std::fs::write(home.path().join("cert.pem"), "nonsense").expect("written");
    gateway.signal("HUP");
    gateway.wait_for_output("TLS_CERT_FILE");
    ask(&gateway, &second).expect("the last good certificate");
}

#[test]
fn a_websocket_opens_over_tls_too() {
    let home = Home::new();
    if !make_certificate(home.path()) {
        return;
    }
    let gateway = setup(home.path()).start_in(home.clone());
    let mut stream = connect(&gateway, &certificate(home.path())).expect("a connection");
    stream.write_all(&gateway.client().bytes(Caller::socket_ask("/v1/responses"))).expect("sent");
    let mut heard = String::new();
    let mut hears = |stream: &mut dyn Read, end: &str| {
        let mut piece = [0; 4096];
        while !heard.contains(end) {
            let count = stream.read(&mut piece).expect("more");
            assert!(count > 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        heard.clone()
    };
    assert!(hears(&mut stream, "\r\n\r\n").starts_with("HTTP/1.1 101 "));
    // Masked with zeros, the payload is unchanged.
    let frame = br#"{"type":"response.create","model":"m","input":[],"generate":false}"#;
    let head = head(true, TEXT, frame.len(), true);
    stream.write_all(&[&head[..], &[0; 4], frame].concat()).expect("sent");
    hears(&mut stream, "\"type\":\"response.completed\"");
}

#[test]
fn a_certificate_that_cannot_be_used_stops_the_start() {
    let home = Home::new();
    for (name, text) in [("cert.pem", "nonsense"), ("key.pem", "nonsense")] {
        std::fs::write(home.path().join(name), text).expect("written");
    }
    let finished = run(&setup(home.path()).with("PORT", "1"), &home, &[]);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("cert.pem"), "{}", finished.stderr);

    let alone = Setup::default().with("TLS_CERT_FILE", "cert.pem");
    let finished = run(&alone, &Home::new(), &[]);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("TLS_KEY_FILE"), "{}", finished.stderr);
}
