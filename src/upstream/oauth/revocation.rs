//! Revokes a refresh token that is not needed any more (RFC 7009), where the provider has a way to do so.

use super::grant::TokenError;
use super::provider_client::{Credentials, Payload, ProviderClient};
use crate::platform::OAuthProvider;
use crate::routing::Secret;

/// Revokes what Google granted for this refresh token; does nothing at another provider.
///
/// # Errors
/// When the provider cannot be asked, or refuses.
pub async fn revoke(provider: &ProviderClient<'_>, token: &Secret) -> Result<(), TokenError> {
    if !matches!(provider.provider, OAuthProvider::GeminiCli | OAuthProvider::Antigravity) {
        return Ok(());
    }
    // The revocation endpoint stands beside the token endpoint.
    let Some(base) = provider.settings.token_url.strip_suffix("/token") else { return Ok(()) };
    let pairs = [("token", token.expose())];
    let credentials = Credentials { hidden: vec![token.expose()], ..Credentials::default() };
    let answer = provider.call(&format!("{base}/revoke"), Payload::Form(&pairs), credentials).await?;
    if answer.status.is_success() { Ok(()) } else { Err(provider.refusal("token revocation", &answer)) }
}
