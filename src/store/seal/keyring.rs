//! The keys of this database: their rows, wrapped under a key derived from the secret, and how a start opens
//! them.
//!
//! The derivation is slow on purpose and runs on a thread beside the migrations. On the first start there is
//! nothing to open: the new keys are in use at once, and the writer wraps and stores them before anything else.
//! A changed secret only re-wraps these keys; no other row changes.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::LessSafeKey;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::envelope::{KEY_LEN, aes, decrypt, encrypt};
use super::sealer::{IndexKey, Keys, Sealer, StoredKey, wrap_aad};
use super::sweep;
use crate::config::DatabaseKind;
use crate::store::connection::Connection;
use crate::store::error::{Error, OpenError, Result};
use crate::store::options::StoreOptions;
use crate::store::sql::Statement;
use crate::time::now_ms;

const KDF_SETTING: &str = "crypto_kdf_v1";
/// The id of the first seal key; the first index key has the next.
const FIRST_ID: i64 = 1;
/// The number of 1 KiB blocks that makes an allocation larger than 32 MiB. Freeing a smaller one makes glibc
/// keep buffers of that size for the rest of the process instead of returning them; the pages beyond what the
/// derivation needs are never touched.
const MAPPED_ALONE: usize = 33 * 1024;

/// The parameters of the derivation, stored with the keys.
#[derive(Clone, Serialize, Deserialize)]
struct Kdf {
    salt: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl Kdf {
    fn new(random: &SystemRandom) -> Option<Self> {
        let mut salt = [0; 16];
        random.fill(&mut salt).ok()?;
        Some(Self { salt: URL_SAFE_NO_PAD.encode(salt), memory_kib: 19 * 1024, passes: 2, lanes: 1 })
    }

    fn derive(&self, secret: &str) -> Option<LessSafeKey> {
        let salt = URL_SAFE_NO_PAD.decode(&self.salt).ok()?;
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(KEY_LEN)).ok()?;
        let mut key = [0; KEY_LEN];
        let mut memory = Vec::with_capacity(MAPPED_ALONE.max(params.block_count()));
        memory.resize(params.block_count(), Block::default());
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(secret.as_bytes(), &salt, &mut key, &mut memory)
            .ok()?;
        Some(aes(&key))
    }
}

/// The derivation of the current secret's key, running while the schema is brought up to date.
pub(in crate::store) struct Derivation {
    kdf: Kdf,
    is_new: bool,
    kek: JoinHandle<Option<LessSafeKey>>,
}

impl Derivation {
    /// Starts the derivation with a new salt, for a database that is being created.
    pub(in crate::store) fn for_new(secret: &str) -> Result<Self, OpenError> {
        Self::start(Kdf::new(&SystemRandom::new()).ok_or_else(no_randomness)?, true, secret)
    }

    /// Starts the derivation with the salt of the database, or a new one when it has none yet.
    pub(in crate::store) fn for_stored(
        connection: &mut dyn Connection,
        secret: &str,
    ) -> Result<Self, OpenError> {
        let damaged = || OpenError::Unusable(format!("settings.{KDF_SETTING} is damaged"));
        if !connection.tables()?.iter().any(|name| name == "settings") {
            return Self::for_new(secret);
        }
        let rows = connection.select("SELECT value FROM settings WHERE name = ?", &[KDF_SETTING.into()])?;
        match rows.first() {
            Some(row) => {
                let kdf = serde_json::from_str(row.fields().str()?).map_err(|_| damaged())?;
                Self::start(kdf, false, secret)
            }
            None => Self::for_new(secret),
        }
    }

    fn start(kdf: Kdf, is_new: bool, secret: &str) -> Result<Self, OpenError> {
        let (parameters, secret) = (kdf.clone(), secret.to_owned());
        let kek = thread::Builder::new()
            .name("store-kdf".into())
            .spawn(move || parameters.derive(&secret))
            .map_err(|error| OpenError::Unusable(format!("cannot start a thread: {error}")))?;
        Ok(Self { kdf, is_new, kek })
    }

    /// Opens the keys, creates them if there are none, re-wraps them after a change of secret, and seals what
    /// is still plain.
    pub(in crate::store) fn finish(
        self,
        connection: &mut dyn Connection,
        options: &StoreOptions,
    ) -> Result<Sealer, OpenError> {
        let kek = derived_key(self.kek)?;
        let rows = rows(connection)?;
        let mut changes = if self.is_new { vec![store_kdf(&self.kdf)?] } else { Vec::new() };
        let opened = match open(&kek, &self.kdf, &rows, options)? {
            Some(opened) => opened,
            None if options.secret_lost => renewed(&kek, &rows, true)?,
            // On a database server, another instance may be about to seal under these keys.
            None if options.kind == DatabaseKind::Sqlite && !sweep::is_any_sealed(connection)? => {
                renewed(&kek, &rows, false)?
            }
            None => return Err(wrong_secret()),
        };
        changes.extend(opened.changes);
        let sealer = sealer(Arc::new(OnceLock::from(kek)), opened.keys, options)?;
        if opened.are_lost {
            changes.extend(sweep::forget_unreadable(connection, &sealer)?);
        }
        let sealed = sweep::seal_plain(connection, &sealer)?;
        let leaves_plain = !sealed.is_empty();
        changes.extend(sealed);
        if !changes.is_empty() {
            connection.apply(&changes, &[])?;
        }
        if leaves_plain {
            connection.wipe()?;
        }
        Ok(sealer)
    }

    /// Opens the keys of a database that must not be changed.
    pub(in crate::store) fn read(
        self,
        connection: &mut dyn Connection,
        options: &StoreOptions,
    ) -> Result<Sealer, OpenError> {
        let kek = derived_key(self.kek)?;
        let rows = rows(connection)?;
        let formerly =
            |secret: &String| self.kdf.derive(secret).and_then(|former| unwrap_all(&former, &rows));
        let raw = unwrap_all(&kek, &rows).or_else(|| options.previous_secrets.iter().find_map(formerly));
        let keys = match raw {
            Some(raw) => keys(&rows, &raw)?,
            None if !sweep::is_any_sealed(connection)? => opened(FIRST_ID, &new_pair(&SystemRandom::new())?),
            None => return Err(wrong_secret()),
        };
        sealer(Arc::new(OnceLock::from(kek)), keys, options)
    }

    /// Creates the keys of a new database without waiting for the derivation.
    pub(in crate::store) fn begin(self, options: &StoreOptions) -> Result<(Sealer, FirstKeys), OpenError> {
        let raw = new_pair(&SystemRandom::new())?;
        let kek = Arc::new(OnceLock::new());
        let sealer = sealer(Arc::clone(&kek), opened(FIRST_ID, &raw), options)?;
        Ok((sealer, FirstKeys { derivation: self, raw, kek }))
    }
}

fn derived_key(kek: JoinHandle<Option<LessSafeKey>>) -> Result<LessSafeKey, OpenError> {
    let failed = || OpenError::Unusable("cannot derive the key of the stored credentials".into());
    kek.join().ok().flatten().ok_or_else(failed)
}

fn sealer(kek: Arc<OnceLock<LessSafeKey>>, keys: Keys, options: &StoreOptions) -> Result<Sealer, OpenError> {
    let secrets = std::iter::once(&options.secret).chain(&options.previous_secrets);
    Sealer::new(kek, keys, secrets.map(String::as_str)).ok_or_else(no_randomness)
}

/// Keys that are in use but not stored yet. What they seal is worthless without them: nothing may be committed
/// before [`Self::store`].
pub(in crate::store) struct FirstKeys {
    derivation: Derivation,
    raw: [[u8; KEY_LEN]; 2],
    kek: Arc<OnceLock<LessSafeKey>>,
}

impl FirstKeys {
    /// Waits for the derivation, and commits the keys and the derivation's parameters.
    pub(in crate::store) fn store(self, connection: &mut dyn Connection) -> Result<(), OpenError> {
        let kek = derived_key(self.derivation.kek)?;
        let mut changes = vec![store_kdf(&self.derivation.kdf)?];
        changes.extend(insert(&kek, FIRST_ID, &self.raw)?);
        connection.apply(&changes, &[])?;
        // Nothing else sets it.
        let _ = self.kek.set(kek);
        Ok(())
    }
}

/// The keys opened at a start, and the changes to store for them.
struct OpenedKeys {
    keys: Keys,
    changes: Vec<Statement>,
    /// Whether they are new because the old ones are lost.
    are_lost: bool,
}

fn store_kdf(kdf: &Kdf) -> Result<Statement> {
    let text = serde_json::to_string(kdf).map_err(|error| Error::Database(error.to_string()))?;
    let sql = "INSERT INTO settings (name, value, updated_at) VALUES (?, ?, ?)";
    Ok(Statement::new(sql, vec![KDF_SETTING.into(), text.into(), now_ms().into()]))
}

/// Opens the stored keys, or creates the first ones; `None` when no secret opens them.
fn open(
    kek: &LessSafeKey,
    kdf: &Kdf,
    rows: &[StoredKey],
    options: &StoreOptions,
) -> Result<Option<OpenedKeys>, OpenError> {
    if rows.is_empty() {
        let (keys, changes) = create(kek, FIRST_ID)?;
        return Ok(Some(OpenedKeys { keys, changes, are_lost: false }));
    }
    if let Some(raw) = unwrap_all(kek, rows) {
        return Ok(Some(OpenedKeys { keys: keys(rows, &raw)?, changes: Vec::new(), are_lost: false }));
    }
    for previous in &options.previous_secrets {
        let Some(raw) = kdf.derive(previous).and_then(|former| unwrap_all(&former, rows)) else {
            continue;
        };
        let changes = rewrap(kek, rows, &raw)?;
        log::info!(
            "the stored keys are now sealed under the new ACCOUNT_CREDENTIAL_SECRET; the former one is no \
             longer needed"
        );
        return Ok(Some(OpenedKeys { keys: keys(rows, &raw)?, changes, are_lost: false }));
    }
    Ok(None)
}

/// Creates new keys in place of those that no secret opens.
fn renewed(kek: &LessSafeKey, rows: &[StoredKey], are_lost: bool) -> Result<OpenedKeys, OpenError> {
    let next = rows.iter().map(|row| row.id).max().unwrap_or(0) + 1;
    let (keys, mut changes) = create(kek, next)?;
    changes.push(Statement::new("DELETE FROM crypto_keys WHERE id < ?", vec![next.into()]));
    Ok(OpenedKeys { keys, changes, are_lost })
}

fn rows(connection: &mut dyn Connection) -> Result<Vec<StoredKey>> {
    let rows = connection.select(StoredKey::SELECT, &[])?;
    rows.iter().map(|row| StoredKey::read(&mut row.fields())).collect()
}

/// Creates two new keys with the ids `first` and `first + 1`.
fn create(kek: &LessSafeKey, first: i64) -> Result<(Keys, Vec<Statement>), OpenError> {
    let raw = new_pair(&SystemRandom::new())?;
    Ok((opened(first, &raw), insert(kek, first, &raw)?))
}

fn insert(kek: &LessSafeKey, first: i64, raw: &[[u8; KEY_LEN]; 2]) -> Result<Vec<Statement>, OpenError> {
    let row = |(key, (id, purpose)): (&[u8; KEY_LEN], (i64, &str))| {
        let wrapped = encrypt(kek, &SystemRandom::new(), &wrap_aad(id, purpose), key);
        let wrapped = wrapped.ok_or_else(no_randomness)?;
        Ok(Statement::new(
            "INSERT INTO crypto_keys (id, purpose, wrapped, status, created_at) VALUES (?, ?, ?, 'active', ?)",
            vec![id.into(), purpose.into(), wrapped.into(), now_ms().into()],
        ))
    };
    raw.iter().zip([(first, "seal"), (first + 1, "index")]).map(row).collect()
}

fn rewrap(kek: &LessSafeKey, rows: &[StoredKey], raw: &[Vec<u8>]) -> Result<Vec<Statement>, OpenError> {
    let row = |(row, key): (&StoredKey, &Vec<u8>)| {
        let wrapped = encrypt(kek, &SystemRandom::new(), &wrap_aad(row.id, &row.purpose), key);
        let wrapped = wrapped.ok_or_else(no_randomness)?;
        let sql = "UPDATE crypto_keys SET wrapped = ? WHERE id = ?";
        Ok(Statement::new(sql, vec![wrapped.into(), row.id.into()]))
    };
    rows.iter().zip(raw).map(row).collect()
}

/// Creates a seal key and an index key.
fn new_pair(random: &SystemRandom) -> Result<[[u8; KEY_LEN]; 2], OpenError> {
    let mut raw = [[0; KEY_LEN]; 2];
    for key in &mut raw {
        random.fill(key).map_err(|_| no_randomness())?;
    }
    Ok(raw)
}

fn opened(first: i64, raw: &[[u8; KEY_LEN]; 2]) -> Keys {
    Keys {
        active: first,
        seal: HashMap::from([(first, aes(&raw[0]))]),
        index: IndexKey::new(first + 1, &raw[1]),
        retired_index: Vec::new(),
    }
}

/// Decrypts every key; `None` when this KEK does not open one of them.
fn unwrap_all(kek: &LessSafeKey, rows: &[StoredKey]) -> Option<Vec<Vec<u8>>> {
    rows.iter()
        .map(|row| {
            decrypt(kek, &wrap_aad(row.id, &row.purpose), &row.wrapped).filter(|key| key.len() == KEY_LEN)
        })
        .collect()
}

fn keys(rows: &[StoredKey], raw: &[Vec<u8>]) -> Result<Keys, OpenError> {
    let incomplete = |purpose| OpenError::Unusable(format!("crypto_keys has no active {purpose} key"));
    let of = |purpose: &'static str| rows.iter().zip(raw).filter(move |(row, _)| row.purpose == purpose);
    let active = of("seal").find(|(row, _)| row.is_active).ok_or_else(|| incomplete("seal"))?;
    let index = of("index").find(|(row, _)| row.is_active).ok_or_else(|| incomplete("index"))?;
    Ok(Keys {
        active: active.0.id,
        seal: of("seal").map(|(row, key)| (row.id, aes(key))).collect(),
        index: IndexKey::new(index.0.id, index.1),
        retired_index: of("index")
            .filter(|(row, _)| !row.is_active)
            .map(|(row, key)| IndexKey::new(row.id, key))
            .collect(),
    })
}

fn wrong_secret() -> OpenError {
    OpenError::WrongSecret(
        "the credentials in this database are sealed under another secret. Set \
         ACCOUNT_CREDENTIAL_SECRET (or, where it is unset, AUTH_TOKEN) to the value it had, or put \
         the former value into ACCOUNT_CREDENTIAL_SECRET_PREVIOUS. If it is lost for good, \
         CREDENTIAL_SECRET_LOST=1 starts with new keys and empties every stored credential"
            .into(),
    )
}

fn no_randomness() -> OpenError {
    OpenError::Unusable("the operating system gives no randomness".into())
}
