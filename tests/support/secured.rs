//! The server's end of a TLS connection, with the tests' certificate.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::{CERTIFICATE, KEY};

/// Starts TLS as the server on a connection that a client has opened.
pub fn secured(stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate");
    let session = ServerConnection::new(Arc::new(config)).expect("a session");
    StreamOwned::new(session, stream)
}
