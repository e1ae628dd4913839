//! Credentials at rest (data.md D).
//!
//! ```text
//! ACCOUNT_CREDENTIAL_SECRET ──Argon2id, salt──▶ KEK ──wraps──▶ crypto_keys: one `seal` key, one `index` key
//!                                                                  │                 │
//!   enc:2:<key id>:<b64url(nonce 12 ‖ ciphertext ‖ tag 16)>  ◀─AES-256-GCM       HMAC-SHA256─▶ *_hash
//! ```
//!
//! The associated data names table and column, so a value copied into another column does not open.

use std::collections::HashMap;
use std::fmt;

use ring::aead::LessSafeKey;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;

use super::envelope::{aes, decrypt, encrypt, is_reference_form, open_reference};
use super::error::{Error, Result};
use crate::hex;
use crate::routing::Secret;

const PREFIX: &str = "enc:2:";

/// Seals and opens values with the keys of this database.
pub struct Sealer {
    active: i64,
    keys: HashMap<i64, LessSafeKey>,
    index: hmac::Key,
    /// For look-ups in memory, of this process alone: the database may get another index key, and neither a
    /// table of keys nor what a connection remembers is worth less for it.
    lookup: hmac::Key,
    /// The keys of the reference's own format, from the current and each previous secret.
    reference_keys: Vec<LessSafeKey>,
    random: SystemRandom,
}

/// The keys of one database, opened.
pub(super) struct Keys {
    pub(super) active: i64,
    pub(super) seal: HashMap<i64, LessSafeKey>,
    pub(super) index: hmac::Key,
}

impl Sealer {
    /// `secrets`: the current one and those before it, with which the reference sealed. `None` without
    /// randomness.
    pub(super) fn new<'a>(keys: Keys, secrets: impl Iterator<Item = &'a str>) -> Option<Self> {
        let random = SystemRandom::new();
        Some(Self {
            active: keys.active,
            keys: keys.seal,
            index: keys.index,
            lookup: hmac::Key::generate(hmac::HMAC_SHA256, &random).ok()?,
            reference_keys: secrets
                .map(|secret| aes(digest(&SHA256, secret.trim().as_bytes()).as_ref()))
                .collect(),
            random,
        })
    }

    /// The sealed text of a value for this column; empty stays empty.
    pub fn seal(&self, table: &str, column: &str, plain: &str) -> Result<String> {
        if plain.is_empty() {
            return Ok(String::new());
        }
        let sealed = encrypt(&self.keys[&self.active], &self.random, &aad(table, column), plain.as_bytes())
            .ok_or_else(|| Error::Sealed(format!("{table}.{column}: no randomness")))?;
        Ok(format!("{PREFIX}{}:{sealed}", self.active))
    }

    /// Like [`Self::seal`], for a column that may be NULL.
    pub fn seal_opt(&self, table: &str, column: &str, plain: Option<&Secret>) -> Result<Option<String>> {
        plain.map(|plain| self.seal(table, column, plain.expose())).transpose()
    }

    /// Opens a stored text: ours, the reference's `v1:` form, or plain text from an older row.
    pub fn open(&self, table: &str, column: &str, stored: &str) -> Result<Secret> {
        let failed = || Error::Sealed(format!("{table}.{column}"));
        if let Some(rest) = stored.strip_prefix(PREFIX) {
            let (id, body) = rest.split_once(':').ok_or_else(failed)?;
            let key = id.parse().ok().and_then(|id: i64| self.keys.get(&id)).ok_or_else(failed)?;
            let plain = decrypt(key, &aad(table, column), body).ok_or_else(failed)?;
            return String::from_utf8(plain).map(Secret::new).map_err(|_| failed());
        }
        if is_reference_form(stored) {
            let opened = self.reference_keys.iter().find_map(|key| open_reference(key, stored));
            return opened.map(Secret::new).ok_or_else(failed);
        }
        Ok(Secret::new(stored))
    }

    /// Opens a nullable column for reading: NULL and empty are `None`, and so is a value that does
    /// not open, after a line in the log, because one damaged value must not hide all the others.
    pub(super) fn open_column(&self, table: &str, column: &str, stored: Option<&str>) -> Option<Secret> {
        match self.open(table, column, stored.filter(|text| !text.is_empty())?) {
            Ok(secret) => Some(secret),
            Err(error) => {
                log::error!("{error}");
                None
            }
        }
    }

    /// The look-up hash of a token: equal values give equal hashes, and nothing leads back.
    pub fn index(&self, value: &str) -> String {
        hex::encode(&mac(&self.index, value.as_bytes()))
    }

    /// What tables in memory find a token by; another in every process.
    pub fn digest(&self, value: &[u8]) -> [u8; 32] {
        mac(&self.lookup, value)
    }
}

fn mac(key: &hmac::Key, value: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(hmac::sign(key, value.trim_ascii()).as_ref());
    digest
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("active", &self.active).finish_non_exhaustive()
    }
}

fn aad(table: &str, column: &str) -> String {
    format!("{table}|{column}")
}
