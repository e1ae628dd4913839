//! `POST /v1/files`: a form is read as it comes, and its file is handed to the store chunk by chunk. If an upload does
//! not end as a file, its chunks are removed again.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use ring::digest::{Context as Hasher, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::core::Core;
use crate::hex;
use crate::http::multipart::{Event, Malformed, PartHead, Reader};
use crate::http::{self, BodyError, Request, Response};
use crate::limits::FREE_BODY;
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::store::files::{self, CHUNK, FileRow, NewFile};
use crate::store::owner::Owner;
use crate::store::uploads::Upload;
use crate::time::now_ms;

use super::lookup::{owner, shape};
use super::mime;
use super::refusal::FileRefusal;
use super::shown;

/// The purpose of an upload that names none.
const DEFAULT_PURPOSE: &str = "assistants";
const MAX_PURPOSE: usize = 64;
/// The maximum length of a file's name, and of an extension that a longer name keeps, in characters.
const MAX_FILENAME: usize = 255;
const MAX_EXTENSION: usize = 16;
/// The names of the fields by which OpenAI's clients say how long a file is to be kept, and the longest content of one.
const EXPIRY_ANCHOR: &str = "expires_after[anchor]";
const EXPIRY_SECONDS: &str = "expires_after[seconds]";
const MAX_EXPIRY: usize = 32;
/// The maximum size of the form around a file, in bytes: boundaries, heads, other fields.
const FORM: u64 = 64 * 1024;
/// The memory that a file of any length takes on its way, in bytes: the chunk being filled, and the one being stored.
const IN_HAND: usize = 2 * CHUNK;
/// The longest duration of an upload. It ends long before its chunks would count as abandoned.
const MAX_DURATION: Duration = Duration::from_secs(6 * 3600);

/// The pause before another try to remove chunks that could not be removed.
const REMOVAL_RETRY: Duration = Duration::from_secs(60);

/// Serves `POST /v1/files`.
pub(in crate::proxy) async fn upload(proxy: Arc<Proxy>, mut request: Request, caller: Caller) -> Response {
    let shape = shape(&request);
    match receive(&proxy.core, &mut request, &owner(&caller)).await {
        Ok(file) => http::json(StatusCode::OK, &shown::file(&proxy.core, shape, &file)),
        Err(refusal) => refusal.answer(shape),
    }
}

/// The part being read.
enum Field {
    File,
    Purpose,
    ExpiryAnchor,
    ExpirySeconds,
    /// A field without meaning here, which is skipped.
    Other,
}

async fn receive(core: &Arc<Core>, request: &mut Request, owner: &Owner) -> Result<FileRow, FileRefusal> {
    let resets = core.resets();
    let mut reader = Reader::new(header(request, CONTENT_TYPE.as_str()))?;
    let allowance = UploadAllowance::of(core, owner).await?;
    if let Ok(claimed) = header(request, CONTENT_LENGTH.as_str()).parse() {
        allowance.check_whole(claimed)?;
    }
    request.body.bound(usize::try_from(allowance.limit.saturating_add(FORM)).unwrap_or(usize::MAX));
    let deadline = Instant::now() + MAX_DURATION;
    let mut taken = 0;
    let mut form = UploadForm {
        core,
        allowance,
        field: Field::Other,
        file: None,
        purpose: Vec::new(),
        anchor: None,
        seconds: None,
    };
    let mut memory = request.memory.take();
    while let Some(piece) = request.piece().await? {
        taken += piece.len() as u64;
        form.allowance.check_whole(taken)?;
        if Instant::now() > deadline {
            return Err(FileRefusal::new(408, "The upload took too long"));
        }
        if let Some(memory) = memory.as_mut().filter(|_| taken > FREE_BODY as u64) {
            // The maximum that an upload takes: a longer file needs no more.
            memory.grow_to(IN_HAND).await.map_err(BodyError::from)?;
        }
        reader.feed(&piece);
        while let Some(event) = reader.event()? {
            form.take(event).await?;
        }
    }
    if !reader.is_ended() {
        return Err(FileRefusal::new(400, "The form ends before its closing boundary"));
    }
    check_expiry(core, form.anchor.as_deref(), form.seconds.as_deref())?;
    let UploadForm { file, purpose, .. } = form;
    let file =
        file.ok_or_else(|| FileRefusal::bad("file", "file is required: send it as a part of the form"))?;
    let purpose =
        std::str::from_utf8(&purpose).map_err(|_| FileRefusal::bad("purpose", "purpose is not UTF-8"))?;
    if core.resets() != resets {
        return Err(FileRefusal::new(503, "A factory reset took place during the upload"));
    }
    file.finish(purpose.trim().to_owned()).await
}

/// The form as far as it has been read.
struct UploadForm<'a> {
    core: &'a Arc<Core>,
    allowance: UploadAllowance,
    field: Field,
    file: Option<Incoming>,
    purpose: Vec<u8>,
    /// The contents of the fields about the file's expiry.
    anchor: Option<Vec<u8>>,
    seconds: Option<Vec<u8>>,
}

impl UploadForm<'_> {
    async fn take(&mut self, event: Event) -> Result<(), FileRefusal> {
        match (event, &self.field) {
            (Event::Part(head), _) => {
                self.field = match head.name.as_str() {
                    "file" if self.file.is_some() => {
                        return Err(FileRefusal::bad("file", "Send one file per request"));
                    }
                    "file" => {
                        self.file = Some(Incoming::begin(self.core, self.allowance.upload.clone(), &head)?);
                        Field::File
                    }
                    "purpose" => Field::Purpose,
                    EXPIRY_ANCHOR => Field::ExpiryAnchor,
                    EXPIRY_SECONDS => Field::ExpirySeconds,
                    _ => Field::Other,
                };
            }
            (Event::Data(data), Field::File) => {
                if let Some(file) = &mut self.file {
                    self.allowance.check(file.size as u64 + data.len() as u64)?;
                    file.write(&data).await?;
                }
            }
            (Event::Data(data), Field::Purpose) => {
                self.purpose.extend_from_slice(&data);
                if self.purpose.len() > MAX_PURPOSE {
                    return Err(FileRefusal::bad(
                        "purpose",
                        format!("purpose is longer than {MAX_PURPOSE} bytes"),
                    ));
                }
            }
            (Event::Data(data), Field::ExpiryAnchor) => append_expiry(&mut self.anchor, &data)?,
            (Event::Data(data), Field::ExpirySeconds) => append_expiry(&mut self.seconds, &data)?,
            (Event::Data(_), Field::Other) => {}
            (Event::PartEnd | Event::End, _) => self.field = Field::Other,
        }
        Ok(())
    }
}

fn append_expiry(held: &mut Option<Vec<u8>>, data: &[u8]) -> Result<(), FileRefusal> {
    let held = held.get_or_insert_default();
    held.extend_from_slice(data);
    if held.len() > MAX_EXPIRY {
        Err(FileRefusal::bad("expires_after", "A field of expires_after is too long"))
    } else {
        Ok(())
    }
}

/// Checks whether a file goes as early as its client wants. All files are kept for the same time, so an earlier end is
/// refused: the client would rely on it.
fn check_expiry(core: &Core, anchor: Option<&[u8]>, seconds: Option<&[u8]>) -> Result<(), FileRefusal> {
    let bad = |message: String| Err(FileRefusal::bad("expires_after", message));
    if anchor.is_none() && seconds.is_none() {
        return Ok(());
    }
    if anchor != Some(b"created_at") {
        return bad("expires_after[anchor] must be created_at".to_owned());
    }
    let seconds =
        seconds.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse::<i64>().ok());
    let Some(seconds) = seconds.filter(|seconds| *seconds > 0) else {
        return bad("expires_after[seconds] must be a positive number".to_owned());
    };
    match i64::from(core.config.files.retention_days) {
        0 => bad("Files do not expire here: leave out expires_after, and delete the file in time".to_owned()),
        days if seconds < days * shown::DAY_SECS => bad(format!(
            "Files are kept for {days} days here: leave out expires_after, and delete the file in time"
        )),
        _ => Ok(()),
    }
}

fn header<'r>(request: &'r Request, name: &str) -> &'r str {
    request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// How much may still be uploaded.
struct UploadAllowance {
    /// The limit for one file, in bytes.
    limit: u64,
    /// The upload's reservation of its owner's quota.
    upload: Arc<Upload>,
}

impl UploadAllowance {
    async fn of(core: &Core, owner: &Owner) -> Result<Self, FileRefusal> {
        let rules = &core.config.files;
        let (stored, most) = match rules.quota {
            0 => (0, None),
            quota => {
                let stored = files::used_bytes(&core.store, owner).await?;
                (u64::try_from(stored).unwrap_or(0), Some(quota))
            }
        };
        let upload = core.uploads.begin(*owner, new_id()?, stored, most);
        Ok(Self { limit: rules.upload_limit, upload: Arc::new(upload) })
    }

    /// Checks whether an upload of this size, including the form, can contain a file that there is room for.
    fn check_whole(&self, bytes: u64) -> Result<(), FileRefusal> {
        self.check(bytes.saturating_sub(FORM))
    }

    /// Checks whether there is room for a file of this size, and reserves it.
    fn check(&self, bytes: u64) -> Result<(), FileRefusal> {
        if bytes > self.limit {
            return Err(FileRefusal::new(413, format!("The file is larger than {} bytes", self.limit)));
        }
        if !self.upload.reserve(bytes) {
            return Err(over_quota());
        }
        Ok(())
    }
}

fn over_quota() -> FileRefusal {
    let message = "This upload would exceed the space for files of this key: delete some files";
    FileRefusal { code: Some("file_quota_exceeded"), ..FileRefusal::new(413, message) }
}

/// A file being received. Dropped unfinished, it removes its chunks from the store again.
struct Incoming {
    core: Arc<Core>,
    /// The upload, whose id becomes the public id of the file.
    upload: Arc<Upload>,
    filename: String,
    mime_type: String,
    hasher: Hasher,
    /// The bytes of the next chunk.
    buffer: Vec<u8>,
    /// The number of chunks handed to the store.
    chunks: i64,
    size: i64,
    finished: bool,
}

impl Incoming {
    fn begin(core: &Arc<Core>, upload: Arc<Upload>, head: &PartHead) -> Result<Self, FileRefusal> {
        let filename = tidy_filename(head.filename.as_deref().unwrap_or_default());
        let Some(mime_type) = mime::stored_type(head.content_type.as_deref(), &filename) else {
            let message = "Unsupported file type: send PDF, JSON, plain text, Markdown, an image or audio";
            return Err(FileRefusal {
                code: Some("unsupported_file_type"),
                ..FileRefusal::bad("file", message)
            });
        };
        Ok(Self {
            core: core.clone(),
            upload,
            filename,
            mime_type,
            hasher: Hasher::new(&SHA256),
            buffer: Vec::new(),
            chunks: 0,
            size: 0,
            finished: false,
        })
    }

    async fn write(&mut self, mut data: &[u8]) -> Result<(), FileRefusal> {
        self.hasher.update(data);
        self.size += data.len() as i64;
        while !data.is_empty() {
            if self.buffer.capacity() == 0 {
                // A small file gets a small buffer; a large one gets its whole chunk at the second piece.
                self.buffer.reserve_exact(data.len().min(CHUNK));
            }
            let (now, later) = data.split_at(data.len().min(CHUNK - self.buffer.len()));
            if self.buffer.capacity() - self.buffer.len() < now.len() {
                self.buffer.reserve_exact(CHUNK - self.buffer.len());
            }
            self.buffer.extend_from_slice(now);
            data = later;
            if self.buffer.len() == CHUNK {
                self.hand_over().await?;
            }
        }
        Ok(())
    }

    async fn hand_over(&mut self) -> Result<(), FileRefusal> {
        let position = self.chunks;
        // Counted first: a chunk whose commit nobody waited for is stored all the same.
        self.chunks += 1;
        let chunk = std::mem::take(&mut self.buffer);
        Ok(files::append(&self.core.store, self.upload.id(), position, chunk, now_ms()).await?)
    }

    async fn finish(mut self, purpose: String) -> Result<FileRow, FileRefusal> {
        if !self.buffer.is_empty() {
            self.hand_over().await?;
        }
        let core = self.core.clone();
        // Carried through even when the client hangs up: either the file is stored, or its chunks are removed.
        let stored =
            core.background.run_to_completion("the end of an upload", Box::pin(self.store(purpose))).await;
        stored.map_err(|why| FileRefusal::new(503, format!("The upload was not completed: {why}")))?
    }

    async fn store(mut self, purpose: String) -> Result<FileRow, FileRefusal> {
        let sum = self.hasher.clone().finish();
        let file = NewFile {
            public_id: self.upload.id().to_owned(),
            filename: self.filename.clone(),
            mime_type: self.mime_type.clone(),
            purpose: if purpose.is_empty() { DEFAULT_PURPOSE.to_owned() } else { purpose },
            byte_size: self.size,
            sha256: hex::encode(sum.as_ref()),
            created_at: now_ms(),
        };
        let stored = files::finish(&self.core.store, self.upload.owner(), self.upload.quota(), file).await?;
        let stored = stored.ok_or_else(over_quota)?;
        self.upload.finished(u64::try_from(stored.byte_size).unwrap_or(0));
        self.finished = true;
        Ok(stored)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.finished || self.chunks == 0 {
            return;
        }
        // The chunks count towards the quota until they are removed.
        let (store, upload) = (self.core.store.clone(), self.upload.clone());
        self.core.background.spawn("the removal of an unfinished upload", async move {
            while let Err(error) = files::discard(&store, upload.id()).await {
                log::warn!(
                    "the chunks of the unfinished upload {} could not be deleted yet: {error}",
                    upload.id()
                );
                tokio::time::sleep(REMOVAL_RETRY).await;
            }
        });
    }
}

impl From<Malformed> for FileRefusal {
    fn from(malformed: Malformed) -> Self {
        Self::new(400, format!("The upload is not a form with a file: {}", malformed.0))
    }
}

/// Makes an id: `file-sy-` and 128 random bits, so that it cannot be guessed.
fn new_id() -> Result<String, FileRefusal> {
    let mut bits = [0; 16];
    SystemRandom::new()
        .fill(&mut bits)
        .map_err(|_| FileRefusal::new(503, "The operating system gives no random bytes for an id"))?;
    Ok(format!("file-sy-{}", hex::encode(&bits)))
}

/// Returns the last part of a path, without control characters and not too long; `upload.bin` when nothing is left.
fn tidy_filename(said: &str) -> String {
    let last = said.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = last.chars().filter(|c| !c.is_control()).collect();
    let name = name.trim();
    if name.is_empty() { "upload.bin".to_owned() } else { shortened(name) }
}

/// Shortens a name to [`MAX_FILENAME`]. Its extension stays, since it may be all that tells the file's type.
fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_FILENAME {
        return name.to_owned();
    }
    let stem = name.rfind('.').filter(|dot| name[*dot..].chars().count() <= MAX_EXTENSION);
    let (stem, extension) = name.split_at(stem.unwrap_or(name.len()));
    let room = MAX_FILENAME - extension.chars().count();
    stem.chars().take(room).chain(extension.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tidied() {
        let long = "x".repeat(300);
        let long_stem = format!("{long}.txt");
        let long_extension = format!("a.{long}");
        for (said, expected) in [
            ("a b.pdf", "a b.pdf"),
            ("", "upload.bin"),
            ("  ", "upload.bin"),
            ("C:\\dir\\x.pdf", "x.pdf"),
            ("../../etc/passwd", "passwd"),
            ("dir/", "upload.bin"),
            ("a\r\nb\0.txt", "ab.txt"),
            ("caf\u{e9}.pdf", "caf\u{e9}.pdf"),
            (&long, &long[..255]),
            (&long_stem, &long_stem[49..]),
            (&long_extension, &long_extension[..255]),
        ] {
            assert_eq!(tidy_filename(said), expected, "{said:?}");
        }
    }

    #[test]
    fn ids_are_local_and_never_the_same() {
        let ids: std::collections::HashSet<String> = (0..100).map(|_| new_id().unwrap()).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.iter().all(|id| id.len() == 8 + 32 && id.starts_with("file-sy-")));
    }
}
