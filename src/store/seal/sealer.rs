//! Sealing and opening of credentials.
//!
//! ```text
//! ACCOUNT_CREDENTIAL_SECRET ──Argon2id, salt──▶ KEK ──wraps──▶ crypto_keys: the `seal` keys, the `index` key
//!                                                                  │                 │
//!   enc:2:<key id>:<b64url(nonce 12 ‖ ciphertext ‖ tag 16)>  ◀─AES-256-GCM       HMAC-SHA256─▶ *_hash
//! ```
//!
//! The associated data names table and column, so a value copied into another column does not open. One key of
//! each purpose is active; the others are retired: they still open what they sealed, and are deleted once
//! `rekey` has replaced it. The current keys are the [`Ring`], which is replaced as a whole after the rows of
//! `crypto_keys` have changed, while others seal and open.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use ring::aead::LessSafeKey;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::timeout;

use super::envelope::{KEY_LEN, aes, decrypt, encrypt, is_v1_form, open_v1};
use super::sealed::{Claim, Claims, Sealed};
use crate::hex;
use crate::routing::Secret;
use crate::store::error::{Error, Result};
use crate::store::sql::Fields;

const PREFIX: &str = "enc:2:";

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Seals and opens values.
    Seal,
    /// Computes the hashes by which equal values are found.
    Index,
}

/// Seals and opens values with the keys of this database.
pub struct Sealer {
    /// The key under which all keys are wrapped, including new ones. On the very first start it is set some 40
    /// ms late.
    kek: Arc<OnceLock<LessSafeKey>>,
    ring: ArcSwap<Ring>,
    /// Locked for reading from making a hash to its commit, and for writing while the index key changes.
    hashing: RwLock<()>,
    /// The key for look-ups in memory, different in every process. It does not depend on the index key, whose
    /// replacement must not invalidate key tables and what connections remember.
    lookup: hmac::Key,
    /// The keys of the `v1:` form, from the current and each previous secret.
    v1_keys: Vec<LessSafeKey>,
    random: SystemRandom,
}

/// The keys of one database, opened.
pub(in crate::store) struct Keys {
    /// The active seal key.
    pub(in crate::store) active: i64,
    /// All seal keys, including retired ones.
    pub(in crate::store) seal: HashMap<i64, LessSafeKey>,
    pub(in crate::store) index: IndexKey,
    pub(in crate::store) retired_index: Vec<IndexKey>,
}

#[derive(Clone)]
pub(in crate::store) struct IndexKey {
    pub(in crate::store) id: i64,
    pub(in crate::store) key: hmac::Key,
}

/// The keys that are in use.
#[derive(Clone)]
struct Ring {
    active: i64,
    /// Cloned into every text that the active key seals.
    claim: Claim,
    claims: Claims,
    /// All seal keys, including those deleted since the start: a reader may open a value that it read before
    /// the value was sealed again.
    seal: HashMap<i64, Arc<LessSafeKey>>,
    retired_seal: Vec<RetiredSeal>,
    index: IndexKey,
    retired_index: Vec<IndexKey>,
}

#[derive(Clone)]
struct RetiredSeal {
    id: i64,
    /// Claims of the texts it has sealed since the start; `None` when it was retired before.
    claims: Option<Claims>,
}

/// A key that is not in use yet.
pub(in crate::store) struct NewKey {
    pub(in crate::store) id: i64,
    pub(in crate::store) purpose: Purpose,
    pub(in crate::store) wrapped: String,
    raw: [u8; KEY_LEN],
}

/// A key as stored.
pub(in crate::store) struct StoredKey {
    pub(in crate::store) id: i64,
    pub(in crate::store) purpose: String,
    pub(in crate::store) wrapped: String,
    pub(in crate::store) is_active: bool,
}

impl StoredKey {
    /// Selects what [`read`](Self::read) reads, by id.
    pub(in crate::store) const SELECT: &str =
        "SELECT id, purpose, wrapped, status FROM crypto_keys ORDER BY id";

    pub(in crate::store) fn read(row: &mut Fields<'_>) -> Result<Self> {
        let (id, purpose, wrapped) = (row.int()?, row.text()?, row.text()?);
        Ok(Self { id, purpose, wrapped, is_active: row.str()? == "active" })
    }

    fn purpose(&self) -> Option<Purpose> {
        [Purpose::Seal, Purpose::Index].into_iter().find(|purpose| purpose.as_str() == self.purpose)
    }
}

/// A turn during which the index key does not change: hold it until the hashes made with it are committed.
pub struct Hashing<'a> {
    ring: Arc<Ring>,
    _turn: RwLockReadGuard<'a, ()>,
}

// === impl Purpose ===

impl Purpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Index => "index",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Sealer ===

impl Sealer {
    /// Builds a sealer. `secrets` are the current one and those before it, which may have sealed in the `v1:`
    /// form. `None` when there is no randomness.
    pub(in crate::store) fn new<'a>(
        kek: Arc<OnceLock<LessSafeKey>>,
        keys: Keys,
        secrets: impl Iterator<Item = &'a str>,
    ) -> Option<Self> {
        let random = SystemRandom::new();
        Some(Self {
            kek,
            ring: ArcSwap::from_pointee(Ring::new(keys)),
            hashing: RwLock::new(()),
            lookup: hmac::Key::generate(hmac::HMAC_SHA256, &random).ok()?,
            v1_keys: secrets.map(|secret| aes(digest(&SHA256, secret.trim().as_bytes()).as_ref())).collect(),
            random,
        })
    }

    /// Seals a value for this column; an empty value stays empty.
    pub fn seal(&self, table: &str, column: &str, plain: &str) -> Result<Sealed> {
        let ring = self.ring.load();
        if plain.is_empty() {
            return Ok(Sealed::new(String::new(), ring.claim.clone()));
        }
        let body = encrypt(&ring.seal[&ring.active], &self.random, &aad(table, column), plain.as_bytes())
            .ok_or_else(|| Error::Sealed(format!("{table}.{column}: no randomness")))?;
        Ok(Sealed::new(format!("{PREFIX}{}:{body}", ring.active), ring.claim.clone()))
    }

    /// Seals a value like [`Self::seal`], for a column that may be NULL.
    pub fn seal_opt(&self, table: &str, column: &str, plain: Option<&Secret>) -> Result<Option<Sealed>> {
        plain.map(|plain| self.seal(table, column, plain.expose())).transpose()
    }

    /// Opens a stored text: a sealed one, one in the `v1:` form of imported rows, or plain text from an older
    /// row.
    pub fn open(&self, table: &str, column: &str, stored: &str) -> Result<Secret> {
        let failed = || Error::Sealed(format!("{table}.{column}"));
        if let Some(rest) = stored.strip_prefix(PREFIX) {
            let (id, body) = rest.split_once(':').ok_or_else(failed)?;
            let ring = self.ring.load();
            let key = id.parse().ok().and_then(|id: i64| ring.seal.get(&id)).ok_or_else(failed)?;
            let plain = decrypt(key, &aad(table, column), body).ok_or_else(failed)?;
            return String::from_utf8(plain).map(Secret::new).map_err(|_| failed());
        }
        if is_v1_form(stored) {
            let opened = self.v1_keys.iter().find_map(|key| open_v1(key, stored));
            return opened.map(Secret::new).ok_or_else(failed);
        }
        Ok(Secret::new(stored))
    }

    /// Opens a nullable column for reading: NULL and empty give `None`, and so does a value that does not open,
    /// which is logged, because one damaged value must not hide all the others.
    pub(in crate::store) fn open_column(
        &self,
        table: &str,
        column: &str,
        stored: Option<&str>,
    ) -> Option<Secret> {
        match self.open(table, column, stored.filter(|text| !text.is_empty())?) {
            Ok(secret) => Some(secret),
            Err(error) => {
                log::error!("a stored credential is read as missing: {error}");
                None
            }
        }
    }

    /// Returns the look-up hash of a token: equal values give equal hashes, and the value cannot be recovered.
    /// To store a hash while the service runs, make it in a turn of [`Self::hashing`].
    pub fn index(&self, value: &str) -> String {
        self.ring.load().index.hash(value)
    }

    /// Waits for a turn to make hashes and store them.
    pub async fn hashing(&self) -> Hashing<'_> {
        let turn = self.hashing.read().await;
        Hashing { ring: self.ring.load_full(), _turn: turn }
    }

    /// Derives an identifier from these pieces that may be shown to others: without the index key nobody can
    /// compute it or recover the pieces.
    pub fn derive(&self, pieces: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.ring.load().index.key);
        pieces.iter().for_each(|piece| context.update(piece));
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// Returns the digest by which tables in memory find a token; it differs in every process.
    pub fn digest(&self, value: &[u8]) -> [u8; 32] {
        mac(&self.lookup, value)
    }
}

// === The change of keys ===

impl Sealer {
    /// Returns the id of the active key.
    pub(in crate::store) fn active(&self, purpose: Purpose) -> i64 {
        let ring = self.ring.load();
        match purpose {
            Purpose::Seal => ring.active,
            Purpose::Index => ring.index.id,
        }
    }

    /// Returns the retired keys whose values are not replaced yet.
    pub(in crate::store) fn retired(&self, purpose: Purpose) -> Vec<i64> {
        let ring = self.ring.load();
        match purpose {
            Purpose::Seal => ring.retired_seal.iter().map(|key| key.id).collect(),
            Purpose::Index => ring.retired_index.iter().map(|key| key.id).collect(),
        }
    }

    /// Waits until no hash is being stored, and keeps new ones from being made while the guard is held.
    pub(in crate::store) async fn pause_hashing(&self) -> RwLockWriteGuard<'_, ()> {
        self.hashing.write().await
    }

    /// Creates a new key, wrapped for storage.
    pub(in crate::store) fn make(&self, purpose: Purpose, id: i64) -> Result<NewKey> {
        let no_randomness = || Error::Sealed(format!("crypto_keys.wrapped of a new {purpose} key"));
        let mut raw = [0; KEY_LEN];
        self.random.fill(&mut raw).map_err(|_| no_randomness())?;
        let wrapped = encrypt(self.kek.wait(), &self.random, &wrap_aad(id, purpose.as_str()), &raw);
        Ok(NewKey { id, purpose, wrapped: wrapped.ok_or_else(no_randomness)?, raw })
    }

    /// Uses a new key from now on, and retires the one before it. The new key must already be committed.
    pub(in crate::store) fn adopt(&self, new: &NewKey) {
        self.ring.rcu(|ring| Ring::clone(ring).with(new));
    }

    /// Uses the stored keys. Fails with [`Error::Sealed`] when a new one does not open with our secret.
    pub(in crate::store) fn follow(&self, stored: &[StoredKey]) -> Result<()> {
        let known = self.ring.load_full();
        let mut new = Vec::new();
        for key in stored.iter().filter(|key| !known.knows(key)) {
            let raw = decrypt(self.kek.wait(), &wrap_aad(key.id, &key.purpose), &key.wrapped);
            let raw = raw.and_then(|raw| <[u8; KEY_LEN]>::try_from(raw).ok());
            new.push((
                key,
                raw.ok_or_else(|| Error::Sealed(format!("crypto_keys.wrapped of key {}", key.id)))?,
            ));
        }
        self.ring.rcu(|ring| {
            let mut ring = Ring::clone(ring);
            for (key, raw) in &new {
                ring.add(key, raw);
            }
            let is_there = |id: i64| stored.iter().any(|key| key.id == id);
            ring.retired_seal.retain(|key| is_there(key.id));
            ring.retired_index.retain(|key| is_there(key.id));
            ring
        });
        Ok(())
    }

    /// Waits, at most `limit`, until nothing sealed with a retired key is still on its way to the database.
    pub(in crate::store) async fn settle(&self, limit: Duration) {
        let retired = self.ring.load().retired_seal.clone();
        let settled = async {
            for claims in retired.iter().filter_map(|key| key.claims.as_ref()) {
                claims.released().await;
            }
        };
        // Keys with claims left are kept: see `is_settled`.
        let _ = timeout(limit, settled).await;
    }

    /// Whether everything that a retired seal key has sealed is stored or given up.
    pub(in crate::store) fn is_settled(&self, id: i64) -> bool {
        let ring = self.ring.load();
        let key = ring.retired_seal.iter().find(|key| key.id == id);
        key.and_then(|key| key.claims.as_ref()).is_none_or(Claims::are_released)
    }

    /// Removes deleted keys from the retired ones: nothing is left to do for them.
    pub(in crate::store) fn forget(&self, deleted: &[i64]) {
        self.ring.rcu(|ring| {
            let mut ring = Ring::clone(ring);
            ring.retired_seal.retain(|key| !deleted.contains(&key.id));
            ring.retired_index.retain(|key| !deleted.contains(&key.id));
            ring
        });
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("active", &self.ring.load().active).finish_non_exhaustive()
    }
}

// === impl Ring ===

impl Ring {
    fn new(keys: Keys) -> Self {
        let (claims, claim) = Claims::new();
        let retired = keys.seal.keys().filter(|&&id| id != keys.active);
        Self {
            active: keys.active,
            claim,
            claims,
            retired_seal: retired.map(|&id| RetiredSeal { id, claims: None }).collect(),
            seal: keys.seal.into_iter().map(|(id, key)| (id, Arc::new(key))).collect(),
            index: keys.index,
            retired_index: keys.retired_index,
        }
    }

    fn with(mut self, new: &NewKey) -> Self {
        self.use_key(new.purpose, new.id, &new.raw);
        self
    }

    /// Uses this key from now on, and retires the active one.
    fn use_key(&mut self, purpose: Purpose, id: i64, raw: &[u8]) {
        match purpose {
            Purpose::Seal => {
                let (claims, claim) = Claims::new();
                // The replaced ring and everyone who is sealing with it hold claims of their own on the former
                // key; this ring keeps none.
                self.claim = claim;
                let claims = std::mem::replace(&mut self.claims, claims);
                self.retired_seal.push(RetiredSeal { id: self.active, claims: Some(claims) });
                self.seal.insert(id, Arc::new(aes(raw)));
                self.active = id;
            }
            Purpose::Index => {
                let former = std::mem::replace(&mut self.index, IndexKey::new(id, raw));
                self.retired_index.push(former);
            }
        }
    }

    fn knows(&self, key: &StoredKey) -> bool {
        match key.purpose() {
            Some(Purpose::Seal) => self.seal.contains_key(&key.id),
            Some(Purpose::Index) => {
                self.index.id == key.id || self.retired_index.iter().any(|known| known.id == key.id)
            }
            None => true,
        }
    }

    /// Adds a key that another instance has created and may have retired since.
    fn add(&mut self, key: &StoredKey, raw: &[u8]) {
        match (key.purpose(), key.is_active) {
            (Some(purpose), true) => self.use_key(purpose, key.id, raw),
            (Some(Purpose::Seal), false) => {
                self.seal.insert(key.id, Arc::new(aes(raw)));
                self.retired_seal.push(RetiredSeal { id: key.id, claims: None });
            }
            (Some(Purpose::Index), false) => self.retired_index.push(IndexKey::new(key.id, raw)),
            (None, _) => {}
        }
    }
}

// === impl IndexKey ===

impl IndexKey {
    pub(in crate::store) fn new(id: i64, raw: &[u8]) -> Self {
        Self { id, key: hmac::Key::new(hmac::HMAC_SHA256, raw) }
    }

    fn hash(&self, value: &str) -> String {
        hex::encode(&mac(&self.key, value.as_bytes()))
    }
}

// === impl Hashing ===

impl Hashing<'_> {
    /// Returns the hash to store.
    pub(in crate::store) fn index(&self, value: &str) -> String {
        self.ring.index.hash(value)
    }

    /// Returns the hashes of the retired index keys, under which a row with this value may still be stored.
    pub(in crate::store) fn former(&self, value: &str) -> impl Iterator<Item = String> {
        self.ring.retired_index.iter().map(move |key| key.hash(value))
    }
}

fn mac(key: &hmac::Key, value: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(hmac::sign(key, value.trim_ascii()).as_ref());
    digest
}

fn aad(table: &str, column: &str) -> String {
    format!("{table}|{column}")
}

/// Returns the associated data that binds a wrapped key to its row.
pub(in crate::store) fn wrap_aad(id: i64, purpose: &str) -> String {
    format!("switchyard|key|{id}|{purpose}")
}
