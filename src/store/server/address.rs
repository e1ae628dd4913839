//! The address of a database server, and the TLS settings for connections to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::masked::masked;
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::{DatabaseKind, DatabaseTls};
use crate::store::error::OpenError;

/// What to do about an address that cannot be parsed.
pub(super) const ENCODE: &str =
    "In a user name or a password, write %40 for @, %2F for /, %3F for ?, %23 for # and %25 for %";

/// A parsed DB_URL.
pub(in crate::store) struct ServerAddress {
    /// The URL as given, which the driver parses.
    pub url: String,
    /// The TLS configuration; `None` for connections without encryption.
    pub tls: Option<Arc<ClientConfig>>,
    /// The TLS settings from the environment, for a driver that sets up TLS itself.
    #[cfg(feature = "mysql")]
    pub tls_options: DatabaseTls,
}

impl ServerAddress {
    pub(in crate::store) fn read(
        kind: DatabaseKind,
        url: &str,
        options: &DatabaseTls,
    ) -> Result<Self, OpenError> {
        let url = url.trim();
        let schemes = kind.schemes();
        let parts = url.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
        let Some((scheme, rest)) = parts.filter(|(scheme, _)| schemes.contains(&scheme.as_str())) else {
            return Err(OpenError::Unsupported(format!(
                "DB_URL: DB_TYPE={} needs {}://user:password@host:port/database",
                kind.as_str(),
                schemes[0]
            )));
        };
        // Drivers would take what follows the first one for the host.
        if rest.split('?').next().is_some_and(|place| place.matches('@').count() > 1) {
            return Err(OpenError::Unsupported(format!("DB_URL: it has more than one @. {ENCODE}")));
        }
        let url = format!("{scheme}://{rest}");
        let is_required = options.is_required || asks_for_tls(&url);
        let tls = is_required.then(|| client_config(options)).transpose()?;
        Ok(Self {
            url,
            tls,
            #[cfg(feature = "mysql")]
            tls_options: options.clone(),
        })
    }
}

/// Shows the address without its password.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.url))
    }
}

/// Whether the address itself asks for TLS, in one of the ways that programs write it.
fn asks_for_tls(url: &str) -> bool {
    let Some((_, query)) = url.split_once('?') else { return false };
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8_lossy().to_ascii_lowercase();
        match name.to_ascii_lowercase().as_str() {
            "sslmode" | "ssl-mode" => matches!(
                value.as_str(),
                "require" | "required" | "verify-ca" | "verify_ca" | "verify-full" | "verify_identity"
            ),
            "ssl" => value == "true" || value == "1" || value.starts_with('{'),
            "require_ssl" => value == "true",
            _ => false,
        }
    })
}

fn client_config(options: &DatabaseTls) -> Result<Arc<ClientConfig>, OpenError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Unusable(format!("TLS: {error}")))?;
    if options.is_insecure {
        log::warn!("DB_SSL_INSECURE: the certificate of the database server is not verified");
        let verifier = Arc::new(Unverified { provider });
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        return Ok(Arc::new(config));
    }
    let mut roots = RootCertStore::empty();
    match &options.ca_file {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong_ca(path, &error))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let pem = std::fs::read(path).map_err(|error| wrong_ca(path, &error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| wrong_ca(path, &error))?;
    if found.is_empty() { Err(wrong_ca(path, &"the file has no certificate")) } else { Ok(found) }
}

fn wrong_ca(path: &Path, error: &dyn fmt::Display) -> OpenError {
    OpenError::Unsupported(format!("DB_SSL_CA: {}: {error}", path.display()))
}

/// A verifier that accepts any certificate, because the operator allows it.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_ask_for_tls_itself() {
        for url in [
            "postgres://db/sw?sslmode=require",
            "postgres://db/sw?a=b&sslmode=verify-full",
            "mysql://db/sw?ssl={\"rejectUnauthorized\":true}",
            "mysql://db/sw?ssl-mode=REQUIRED",
        ] {
            assert!(asks_for_tls(url), "{url}");
        }
        assert!(!asks_for_tls("postgres://db/sw?sslmode=prefer"));
    }

    #[test]
    fn an_unwritten_at_sign_in_a_password_is_refused_at_once() {
        let read = |url: &str| ServerAddress::read(DatabaseKind::Postgres, url, &DatabaseTls::default());
        let refused = read("postgres://me:se@cret@db/sw").err().map(|error| error.to_string());
        assert!(refused.is_some_and(|error| error.contains("%40") && !error.contains("cret")));
        assert!(read("postgres://me:se%40cret@db/sw?application_name=a@b").is_ok());
    }
}
