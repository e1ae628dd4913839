//! A document encrypted with a passphrase, piece by piece, so that a file of any size is opened in little
//! memory.
//!
//! ```text
//! {"format":"switchyard-sealed",…}⏎   then pieces: length (4 bytes, big-endian) ‖ ciphertext ‖ tag
//! ```
//!
//! The key is Argon2id of the passphrase and a salt that no other file has, so the nonce may count the pieces.
//! The nonce of the last piece marks it as such: a file that was cut off does not open. The first line has a
//! tag made with the key, which distinguishes a wrong passphrase from a damaged file.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// The format name in a sealed file.
const FORMAT: &str = "switchyard-sealed";
/// The number of plain bytes in a piece.
const PIECE: usize = 64 << 10;
const TAG: usize = 16;
/// The maximum length in bytes of the first line of a sealed file.
const MAX_HEAD: u64 = 1024;
/// The limits of a key derivation: a file must not choose how much memory it takes.
const MAX_MEMORY_KIB: u32 = 64 * 1024;
const MAX_PASSES: u32 = 16;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    format: String,
    version: u32,
    salt: String,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    /// The tag of an empty text, made with the key and a nonce that no piece has. Older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

/// The source of the passphrase for a file that may be sealed.
#[derive(Clone, Copy)]
pub enum Passphrase<'p> {
    /// No passphrase is known: only a file that is not sealed can be read.
    Missing,
    /// The instance's passphrase for its own backups: it is tried if the file is sealed.
    Configured(&'p str),
    /// The passphrase that was given with the file, which must then be sealed.
    Given(&'p str),
}

struct Pieces {
    key: LessSafeKey,
    /// The first line, which every piece authenticates.
    head: Vec<u8>,
    count: u64,
}

/// A writer that seals what is written to it. [`Self::finish`] writes the last piece: without it the file does
/// not open.
pub struct Sealing<W> {
    out: W,
    pieces: Pieces,
    open: Vec<u8>,
}

/// A reader that returns what was sealed, and fails at the first piece that was changed.
pub struct Opening<R> {
    source: R,
    pieces: Pieces,
    plain: Vec<u8>,
    at: usize,
    is_over: bool,
    /// Whether the passphrase was verified before the first piece was read.
    is_checked: bool,
}

/// The first bytes of a sealed file.
const BEGINNING: &[u8] = b"{\"format\":\"switchyard-sealed\"";

/// Whether a file that begins with these bytes is sealed.
pub fn is_sealed(beginning: &[u8]) -> bool {
    beginning.starts_with(BEGINNING)
}

/// Returns the content of a file: opened when it is sealed, else unchanged.
///
/// # Errors
/// `InvalidData` when it is sealed and the passphrase is missing or wrong, and when a passphrase was given for
/// a file that is not sealed.
pub fn open<'r>(mut file: impl Read + 'r, passphrase: Passphrase<'_>) -> io::Result<Box<dyn Read + 'r>> {
    let mut beginning = Vec::with_capacity(BEGINNING.len());
    file.by_ref().take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    let is_sealed = is_sealed(&beginning);
    let whole = Cursor::new(beginning).chain(file);
    match (is_sealed, passphrase) {
        (true, Passphrase::Missing) => Err(refused("The backup is sealed: its passphrase is missing")),
        (true, Passphrase::Configured(passphrase) | Passphrase::Given(passphrase)) => {
            Ok(Box::new(Opening::new(BufReader::with_capacity(PIECE, whole), passphrase)?))
        }
        (false, Passphrase::Given(_)) => {
            Err(refused("A passphrase was given, but the backup is not sealed, or its first line is damaged"))
        }
        (false, _) => Ok(Box::new(whole)),
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Head {
    fn key(&self, passphrase: &str) -> io::Result<LessSafeKey> {
        let unusable = || refused("The first line of the sealed file is damaged");
        if self.format != FORMAT || self.version != 1 {
            return Err(refused("The file is sealed in a format that this release does not know"));
        }
        if self.memory_kib > MAX_MEMORY_KIB || self.passes > MAX_PASSES {
            return Err(unusable());
        }
        let salt = URL_SAFE_NO_PAD.decode(&self.salt).map_err(|_| unusable())?;
        let params =
            Params::new(self.memory_kib, self.passes, self.lanes, Some(32)).map_err(|_| unusable())?;
        let mut key = [0; 32];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), &salt, &mut key)
            .map_err(|_| unusable())?;
        Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).map_err(|_| unusable())?))
    }
}

/// Computes the tag by which the right key is recognised.
fn check(key: &LessSafeKey) -> io::Result<String> {
    let nonce = Nonce::assume_unique_for_key([0xff; NONCE_LEN]);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(FORMAT), &mut []);
    Ok(URL_SAFE_NO_PAD.encode(tag.map_err(|_| io::Error::other("the tag of a key could not be made"))?))
}

impl Pieces {
    fn nonce(&mut self, is_last: bool) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.count.to_be_bytes());
        nonce[11] = u8::from(is_last);
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl<W: Write> Sealing<W> {
    pub fn new(mut out: W, passphrase: &str) -> io::Result<Self> {
        let mut salt = [0; 16];
        SystemRandom::new().fill(&mut salt).map_err(|_| io::Error::other("no randomness"))?;
        let mut head = Head {
            format: FORMAT.to_owned(),
            version: 1,
            salt: URL_SAFE_NO_PAD.encode(salt),
            memory_kib: 19 * 1024,
            passes: 2,
            lanes: 1,
            check: None,
        };
        let key = head.key(passphrase)?;
        head.check = Some(check(&key)?);
        let mut head = serde_json::to_vec(&head)?;
        head.push(b'\n');
        out.write_all(&head)?;
        Ok(Self { out, pieces: Pieces { key, head, count: 0 }, open: Vec::with_capacity(PIECE + TAG) })
    }

    /// Writes the last piece and returns the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_piece(true)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_piece(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = self.pieces.nonce(is_last);
        let aad = Aad::from(self.pieces.head.as_slice());
        let sealed = self.pieces.key.seal_in_place_append_tag(nonce, aad, &mut self.open);
        sealed.map_err(|_| io::Error::other("a part of the backup could not be encrypted"))?;
        let length = u32::try_from(self.open.len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(&self.open)?;
        self.open.clear();
        Ok(())
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.len() == PIECE {
            self.write_piece(false)?;
        }
        let count = bytes.len().min(PIECE - self.open.len());
        self.open.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<R: BufRead> Opening<R> {
    /// Reads the first line, and verifies the passphrase by it.
    pub fn new(mut source: R, passphrase: &str) -> io::Result<Self> {
        let mut line = Vec::new();
        source.by_ref().take(MAX_HEAD).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(refused("The file is not a sealed backup of Switchyard"));
        }
        let head: Head = serde_json::from_slice(&line)
            .map_err(|_| refused("The file is not a sealed backup of Switchyard"))?;
        let key = head.key(passphrase)?;
        let is_checked = head.check.is_some();
        if is_checked && head.check != Some(check(&key)?) {
            return Err(refused(
                "The passphrase is wrong: the backup was sealed with another, or its first line is damaged",
            ));
        }
        let pieces = Pieces { key, head: line, count: 0 };
        Ok(Self { source, pieces, plain: Vec::new(), at: 0, is_over: false, is_checked })
    }
}

impl<R: Read> Opening<R> {
    fn read_piece(&mut self) -> io::Result<()> {
        let mut length = [0; 4];
        self.source.read_exact(&mut length).map_err(|_| refused("The sealed file was cut off"))?;
        let length = u32::from_be_bytes(length) as usize;
        if !(TAG..=PIECE + TAG).contains(&length) {
            return Err(refused("The sealed file is damaged"));
        }
        let mut piece = vec![0; length];
        self.source.read_exact(&mut piece).map_err(|_| refused("The sealed file was cut off"))?;
        // Both are tried, because a full piece may be the last one or not.
        for is_last in [false, true] {
            let nonce = self.pieces.nonce(is_last);
            let mut plain = piece.clone();
            let aad = Aad::from(self.pieces.head.as_slice());
            let opened = self.pieces.key.open_in_place(nonce, aad, &mut plain).map(|plain| plain.len());
            if let Ok(length) = opened {
                plain.truncate(length);
                (self.plain, self.at, self.is_over) = (plain, 0, is_last);
                return Ok(());
            }
            self.pieces.count -= 1;
        }
        Err(refused(match self.pieces.count {
            0 if !self.is_checked => "The passphrase is wrong, or the sealed file is damaged",
            _ => "The sealed file is damaged",
        }))
    }
}

impl<R: Read> Read for Opening<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.plain.len() {
            if self.is_over {
                return match self.source.read(&mut [0])? {
                    0 => Ok(0),
                    _ => Err(refused("The sealed file has extra data after its end")),
                };
            }
            self.read_piece()?;
        }
        let count = buffer.len().min(self.plain.len() - self.at);
        buffer[..count].copy_from_slice(&self.plain[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(sealed: &[u8], passphrase: &str) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        Opening::new(sealed, passphrase)?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn what_was_sealed_opens_whole_or_not_at_all() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut sealing = Sealing::new(Vec::new(), "a passphrase").expect("a head");
            sealing.write_all(&plain).expect("sealed");
            let sealed = sealing.finish().expect("sealed");
            assert!(is_sealed(&sealed));
            assert_eq!(opened(&sealed, "a passphrase").expect("opened"), plain, "{length}");
            let why = opened(&sealed, "another").expect_err("another passphrase").to_string();
            assert!(why.contains("passphrase is wrong"), "{length}: {why}");
            assert!(opened(&sealed[..sealed.len() - 1], "a passphrase").is_err(), "{length}");
            let mut damaged = sealed.clone();
            let last = damaged.len() - 1;
            damaged[last] ^= 1;
            let why = opened(&damaged, "a passphrase").expect_err("damaged").to_string();
            assert!(why.contains("damaged") && !why.contains("passphrase is wrong"), "{length}: {why}");
            assert!(opened(&[sealed.as_slice(), b"x"].concat(), "a passphrase").is_err(), "{length}");
        }
        assert!(opened(b"{\"timestamp\":1}", "a passphrase").is_err());
    }

    #[test]
    fn a_file_without_the_tag_of_its_key_opens_with_its_passphrase_only() {
        let mut sealing = Sealing::new(Vec::new(), "a passphrase").expect("a head");
        let head = sealing.pieces.head.clone();
        let mut older: serde_json::Value = serde_json::from_slice(&head).expect("JSON");
        older.as_object_mut().expect("an object").remove("check");
        let older: Head = serde_json::from_value(older).expect("a head");
        sealing.pieces.head = [serde_json::to_vec(&older).expect("JSON"), b"\n".to_vec()].concat();
        sealing.out.clone_from(&sealing.pieces.head);
        sealing.write_all(b"{}").expect("sealed");
        let sealed = sealing.finish().expect("sealed");
        assert_eq!(opened(&sealed, "a passphrase").expect("opened"), b"{}");
        assert!(opened(&sealed, "another").is_err());
    }

    #[test]
    fn what_is_not_sealed_is_read_as_it_is_unless_a_passphrase_came_with_it() {
        let read = |passphrase| -> io::Result<Vec<u8>> {
            let mut text = Vec::new();
            open(&b"{}"[..], passphrase)?.read_to_end(&mut text)?;
            Ok(text)
        };
        assert_eq!(read(Passphrase::Missing).expect("as it is"), b"{}");
        assert_eq!(read(Passphrase::Configured("p")).expect("as it is"), b"{}");
        assert!(read(Passphrase::Given("p")).is_err());
    }
}
