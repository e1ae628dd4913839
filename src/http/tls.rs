//! TLS towards clients: optional, HTTP/1.1 only, the certificate replaceable while running.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;

/// The certificate in use, and the files it came from.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails with a message that says which file cannot be used and why.
    pub fn load(files: TlsFiles) -> Result<Self, String> {
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Self { files, current })
    }

    /// Reads the files again; new connections use them. On an error the old certificate stays.
    pub fn reload(&self) -> Result<(), String> {
        self.current.store(Arc::new(read(&self.files)?));
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

fn read(files: &TlsFiles) -> Result<ServerConfig, String> {
    let certificate = files.certificate.display();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| format!("TLS_CERT_FILE: {certificate}: {error}"))?;
    if chain.is_empty() {
        return Err(format!("TLS_CERT_FILE: {certificate} holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("TLS_KEY_FILE: {}: {error}", files.key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("TLS_CERT_FILE and TLS_KEY_FILE do not fit together: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
