//! The format of a sealed value: AES-256-GCM with a fresh random nonce, as text. Pure functions.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

pub(in crate::store) const KEY_LEN: usize = 32;
const TAG_LEN: usize = 16;

pub(in crate::store) fn aes(key: &[u8]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key).expect("every caller gives 32 bytes, the length of the key");
    LessSafeKey::new(key)
}

/// Encrypts to `b64url(nonce ‖ ciphertext ‖ tag)`; `None` when there is no randomness.
pub(in crate::store) fn encrypt(
    key: &LessSafeKey,
    random: &SystemRandom,
    aad: &str,
    plain: &[u8],
) -> Option<String> {
    let mut nonce = [0; NONCE_LEN];
    random.fill(&mut nonce).ok()?;
    let mut body = Vec::with_capacity(NONCE_LEN + plain.len() + TAG_LEN);
    body.extend_from_slice(&nonce);
    body.extend_from_slice(plain);
    let tag = key
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(aad.as_bytes()),
            &mut body[NONCE_LEN..],
        )
        .ok()?;
    body.extend_from_slice(tag.as_ref());
    Some(URL_SAFE_NO_PAD.encode(body))
}

pub(in crate::store) fn decrypt(key: &LessSafeKey, aad: &str, text: &str) -> Option<Vec<u8>> {
    let body = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (nonce, sealed) = body.split_at_checked(NONCE_LEN)?;
    open_sealed(key, nonce.try_into().ok()?, aad, sealed.to_vec())
}

fn open_sealed(key: &LessSafeKey, nonce: [u8; NONCE_LEN], aad: &str, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let length = key.open_in_place(nonce, Aad::from(aad.as_bytes()), &mut sealed).ok()?.len();
    sealed.truncate(length);
    Some(sealed)
}

/// Whether a text has the form `v1:<nonce>:<tag>:<ciphertext>`: sealed by another gateway whose data was
/// imported.
pub(in crate::store) fn is_v1_form(stored: &str) -> bool {
    stored.starts_with("v1:") && stored.split(':').count() == 4
}

pub(in crate::store) fn open_v1(key: &LessSafeKey, stored: &str) -> Option<String> {
    let mut parts = stored.split(':').skip(1).map(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let (nonce, tag, mut sealed) = (parts.next()??, parts.next()??, parts.next()??);
    sealed.extend_from_slice(&tag);
    String::from_utf8(open_sealed(key, nonce.try_into().ok()?, "", sealed)?).ok()
}
