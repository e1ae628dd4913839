//! Builds the address at which a person agrees to a login, and the values that tie the browser's return to its start: a
//! state (RFC 6749, 10.12) and a verifier whose hash alone is sent ahead (PKCE, RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::oauth::ProviderSettings;
use crate::platform::OAuthProvider;
use crate::routing::{Secret, encode_component};

/// The secret that the exchange of a code has to show, and that nobody else has seen.
#[derive(Clone, Debug)]
pub struct Verifier(Secret);

// === impl Verifier ===

impl Verifier {
    /// Creates a new verifier; `None` when the system has no randomness.
    pub fn random() -> Option<Self> {
        Some(Self(random_text::<48>()?.into()))
    }

    /// Restores a verifier that was created before.
    pub fn of(text: Secret) -> Self {
        Self(text)
    }

    /// Returns the verifier's text, for the provider and for keeping it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the challenge: the verifier's hash, which the provider is told beforehand.
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.expose().as_bytes()))
    }
}

/// Returns a random state, the name of a login that nobody can guess; `None` when the system has no randomness.
pub fn random_state() -> Option<String> {
    random_text::<24>()
}

fn random_text<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the address to send the browser to.
pub fn authorization_url(
    provider: OAuthProvider,
    settings: &ProviderSettings,
    redirect_uri: &str,
    state: &str,
    verifier: &Verifier,
) -> String {
    let profile = provider.profile();
    let client_id = settings.client_id.as_deref().unwrap_or_default();
    let (scope, challenge) = (profile.scopes.join(" "), verifier.challenge());
    let base = [("client_id", client_id), ("response_type", "code"), ("redirect_uri", redirect_uri)];
    let shared = [
        ("scope", scope.as_str()),
        ("state", state),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ];
    // The parameters that the vendors' own programs send.
    let own: &[(&str, &str)] = match provider {
        OAuthProvider::Codex => &[
            ("prompt", "login"),
            ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"),
        ],
        OAuthProvider::Claude => &[("code", "true")],
        // Without them a second login of a user brings no refresh token.
        OAuthProvider::GeminiCli | OAuthProvider::Antigravity => {
            &[("access_type", "offline"), ("prompt", "consent")]
        }
    };
    let pairs = base.iter().chain(&shared).chain(own);
    let query: Vec<String> =
        pairs.map(|(name, value)| format!("{name}={}", encode_component(value))).collect();
    let address = &settings.authorization_url;
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_one_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = Verifier(Secret::from("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn states_and_verifiers_are_long_and_new_each_time() {
        let [one, other] = [random_state().expect("randomness"), random_state().expect("randomness")];
        assert_eq!((one.len(), one == other), (32, false));
        assert_eq!(Verifier::random().expect("randomness").expose().len(), 64);
    }
}
