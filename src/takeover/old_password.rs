//! Passwords of metapi's accounts: `v1:iv:tag:data` in base64url, AES-256-GCM under the SHA-256 of a secret
//! (`accountCredentialService.ts` of metapi).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};

/// The secret that metapi uses when none is set.
const BUILT_IN: &str = "change-me-admin-token";

/// Opens a password with the first of the secrets that fits; `None` when none does.
pub fn open(sealed: &str, secrets: &[String]) -> Option<String> {
    let mut parts = sealed.strip_prefix("v1:")?.split(':');
    let mut part = || URL_SAFE_NO_PAD.decode(parts.next()?.trim_end_matches('=')).ok();
    let (nonce, tag, data) = (part()?, part()?, part()?);
    let secrets = secrets.iter().map(String::as_str).chain([BUILT_IN]);
    secrets.filter(|secret| !secret.is_empty()).find_map(|secret| {
        let key = digest(&SHA256, secret.as_bytes());
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).ok()?);
        let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
        let mut sealed = [&data[..], &tag[..]].concat();
        let plain = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(plain.to_vec()).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sealed by node:crypto as metapi does it, under `the old secret`.
    const SEALED: &str = "v1:AAECAwQFBgcICQoL:Gx1e1cB8mXbBoL6xndVSLg:0_zTFYvhFvujzc93";

    #[test]
    fn a_password_opens_under_the_secret_it_was_sealed_with_and_no_other() {
        let secrets = |list: &[&str]| list.iter().map(|secret| (*secret).to_owned()).collect::<Vec<_>>();
        assert_eq!(open(SEALED, &secrets(&["another", "the old secret"])).as_deref(), Some("pässword: 1"));
        assert_eq!(open(SEALED, &secrets(&["another"])), None);
        for broken in ["", "v1:", "v1:a:b", "v1:!:!:!", "v2:a:b:c", "v1:AAAA:AAAA:AAAA"] {
            assert_eq!(open(broken, &secrets(&["the old secret"])), None, "{broken}");
        }
    }
}
