//! A file on a WebDAV server (RFC 4918): read whole, written whole and read back. Where the server refuses to return
//! the file, or returns something else, the write has succeeded all the same and the caller gets a warning.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode, Uri};
use serde::de::IgnoredAny;
use tokio::task::block_in_place;
use tokio::time::{Instant, timeout, timeout_at};

use crate::backup;
use crate::mask::Mask;
use crate::routing::{BaseUrl, Origin};
use crate::upstream::{Client, Request, RequestBody, absolute_target, redirect_target};

/// The time limit for a request, and then for its answer, without the time that their files take at [`SLOWEST`].
const LIMIT: Duration = Duration::from_secs(15);
/// The slowest connection on which files are sent and read, in bytes a second: one megabit.
const SLOWEST: u64 = 128 * 1024;
/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;
/// The longest file that is written, in bytes: it is in memory while it is sent.
pub const MAX_SENT: u64 = 64 << 20;
/// The most redirects that a read follows: some servers keep their files elsewhere.
const MAX_REDIRECTS: usize = 3;
/// The longest part of a server's text that goes into a message, in characters.
const MAX_SAID: usize = 120;
/// The most missing collections that are created above a file.
const MAX_COLLECTIONS: usize = 16;

/// A file on a WebDAV server, with our credential there.
pub struct RemoteFile<'a> {
    client: &'a Client,
    base: BaseUrl,
    path: String,
    query: String,
    authorization: Option<HeaderValue>,
    /// Hides the credential in what the server says.
    mask: Mask,
    /// The directory of the scratch files that hold answers.
    dir: &'a Path,
}

/// The result of a GET.
enum GetOutcome {
    File(File, u64),
    /// The server has no such file; the text says so to people.
    Nothing(String),
    /// The status of the refusal, and its reason in words for people.
    Refused(StatusCode, String),
}

/// Where a request goes.
struct Address {
    origin: Arc<Origin>,
    target: PathAndQuery,
}

struct Answered {
    status: StatusCode,
    redirects_to: Option<String>,
    body: File,
    length: u64,
}

impl<'a> RemoteFile<'a> {
    pub fn new(
        client: &'a Client,
        url: &str,
        username: &str,
        password: &str,
        dir: &'a Path,
    ) -> Result<Self, String> {
        let base = BaseUrl::parse(url, None)?;
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let target = rest.find(['/', '?']).map_or("/", |start| &rest[start..]);
        let target = target.split('#').next().unwrap_or_default();
        let (path, query) = target
            .split_once('?')
            .map_or((target, String::new()), |(path, query)| (path, format!("?{query}")));
        let authorization = (!username.is_empty() || !password.is_empty()).then(|| {
            let plain = format!("{username}:{password}");
            HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(plain)))
        });
        let authorization = authorization.transpose().map_err(|error| error.to_string())?;
        let mut mask = Mask::default();
        mask.add_pair(username, password);
        mask.add(username);
        Ok(Self { client, base, path: path.to_owned(), query, authorization, mask, dir })
    }

    /// Reads the file.
    pub async fn read(&self) -> Result<File, String> {
        match self.find().await? {
            GetOutcome::File(file, _) => Ok(file),
            GetOutcome::Nothing(why) | GetOutcome::Refused(_, why) => Err(why),
        }
    }

    async fn find(&self) -> Result<GetOutcome, String> {
        self.find_at(&self.path).await
    }

    /// Reads the file at a path of the server, also where the server redirects to it.
    async fn find_at(&self, path: &str) -> Result<GetOutcome, String> {
        let mut address = self.address(path)?;
        let mut answer = self.send(Method::GET, &address, Bytes::new()).await?;
        for _ in 0..MAX_REDIRECTS {
            let Some(location) = answer.redirects_to.take() else { break };
            address = address.redirected(&location)?;
            answer = self.send(Method::GET, &address, Bytes::new()).await?;
        }
        Ok(match answer.status {
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::CONFLICT => {
                GetOutcome::Nothing(self.refusal(answer, "GET"))
            }
            status if status.is_success() => GetOutcome::File(answer.body, answer.length),
            status => GetOutcome::Refused(status, self.refusal(answer, "GET")),
        })
    }

    /// Writes the file. Keeps the former content beside it as `.1`, if the server lets it be read. Reads the file back
    /// afterwards. Returns a warning if the server refuses to return the former content or to take the copy, or if reading
    /// the file back fails or gives something other than what was sent.
    ///
    /// # Errors
    /// When the server does not take the file, keeps only its beginning or that of the copy, or already has a longer
    /// file than can be kept. Where the copy was cut, or the former content cannot be read at the moment, the file itself
    /// is not touched.
    pub async fn write(&self, text: Bytes) -> Result<Option<String>, String> {
        let refused_copy = match self.find().await? {
            GetOutcome::File(_, length) if length > MAX_SENT => {
                return Err(format!(
                    "The file on the server is larger than {} MiB, more than a backup may have: it is not \
                     overwritten",
                    MAX_SENT >> 20
                ));
            }
            GetOutcome::File(mut file, 1..) => {
                let mut bytes = Vec::new();
                block_in_place(|| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
                if bytes == text { None } else { self.keep(bytes.into()).await? }
            }
            GetOutcome::File(..) | GetOutcome::Nothing(_) => None,
            GetOutcome::Refused(status, why) if is_passing(status) => return Err(why),
            GetOutcome::Refused(_, why) => {
                Some(format!("No copy of a former file was kept, because it could not be read: {why}"))
            }
        };
        self.put(text.clone()).await?;
        let difference = self.compare(&text).await?;
        let warnings: Vec<String> = refused_copy.into_iter().chain(difference).collect();
        Ok((!warnings.is_empty()).then(|| warnings.join(". ")))
    }

    /// Reads the written file back. Returns a warning if that fails or gives something other than what was sent.
    ///
    /// # Errors
    /// When the server keeps only the beginning.
    async fn compare(&self, text: &[u8]) -> Result<Option<String>, String> {
        let mut file = match self.find().await {
            Ok(GetOutcome::File(file, _)) => file,
            Ok(GetOutcome::Nothing(_)) => {
                return Ok(Some(
                    "The server accepted the file, but has no file when it is read back".to_owned(),
                ));
            }
            Ok(GetOutcome::Refused(_, why)) | Err(why) => {
                return Ok(Some(format!(
                    "The file was written, but could not be read back and compared with what was sent: {why}"
                )));
            }
        };
        let mut back = Vec::new();
        block_in_place(|| Read::take(&mut file, MAX_SENT).read_to_end(&mut back))
            .map_err(|error| error.to_string())?;
        if back == text {
            Ok(None)
        } else if !back.is_empty() && text.starts_with(&back) {
            Err(format!("The server kept {} of {} bytes: the file is cut short", back.len(), text.len()))
        } else {
            Ok(Some("The file on the server differs from what was sent".to_owned()))
        }
    }

    /// Stores the former content of the file beside it, and compares it. A file that was cut, by an earlier write or by
    /// another program, does not replace a former copy, which may be the last good backup. Returns a warning if the server
    /// refuses the copy: it may accept this one file only.
    async fn keep(&self, former: Bytes) -> Result<Option<String>, String> {
        let copy = format!("{}.1", self.path);
        let is_whole = serde_json::from_slice::<IgnoredAny>(&former).is_ok();
        if !is_whole && matches!(self.find_at(&copy).await?, GetOutcome::File(_, 1..)) {
            return Ok(None);
        }
        let answer = self.ask(Method::PUT, &copy, former.clone()).await?;
        if answer.status.is_client_error() {
            let (status, words) = (answer.status.as_u16(), self.words(answer));
            return Ok(Some(format!("The former file could not be kept as {copy}: HTTP {status}{words}")));
        }
        if !answer.status.is_success() {
            return Err(self.refusal(answer, "PUT"));
        }
        // A server that does not show the copy, or changes it, is told of when the file itself is read back.
        let Ok(GetOutcome::File(mut file, _)) = self.find_at(&copy).await else { return Ok(None) };
        let mut back = Vec::new();
        block_in_place(|| Read::take(&mut file, MAX_SENT).read_to_end(&mut back))
            .map_err(|error| error.to_string())?;
        if back.len() < former.len() && former.starts_with(&back) {
            return Err(format!(
                "The server kept {} of {} bytes of the copy of the former file, which is cut short: the file itself is left as it is",
                back.len(),
                former.len()
            ));
        }
        Ok(None)
    }

    async fn put(&self, text: Bytes) -> Result<(), String> {
        let mut answer = self.ask(Method::PUT, &self.path, text.clone()).await?;
        if matches!(answer.status, StatusCode::CONFLICT | StatusCode::NOT_FOUND) {
            // The collection that the file stands in is missing (RFC 4918 §9.7.1).
            self.make_collections().await?;
            answer = self.ask(Method::PUT, &self.path, text).await?;
        }
        if answer.status.is_success() { Ok(()) } else { Err(self.refusal(answer, "PUT")) }
    }

    /// Creates the missing collections above the file. Tries the innermost first, then each one above it.
    async fn make_collections(&self) -> Result<(), String> {
        let make = Method::from_bytes(b"MKCOL").map_err(|error| error.to_string())?;
        let mut missing: Vec<&str> = Vec::new();
        let mut next = parent(&self.path);
        while let Some(collection) = next.filter(|_| missing.len() < MAX_COLLECTIONS) {
            let answer = self.ask(make.clone(), collection, Bytes::new()).await?;
            match answer.status {
                StatusCode::CONFLICT | StatusCode::NOT_FOUND => missing.push(collection),
                // It exists already (RFC 4918 §9.3.1), or was just created.
                StatusCode::METHOD_NOT_ALLOWED => break,
                status if status.is_success() => break,
                _ => return Err(self.refusal(answer, "MKCOL")),
            }
            next = parent(collection);
        }
        for collection in missing.into_iter().rev() {
            let answer = self.ask(make.clone(), collection, Bytes::new()).await?;
            if !answer.status.is_success() && answer.status != StatusCode::METHOD_NOT_ALLOWED {
                return Err(self.refusal(answer, "MKCOL"));
            }
        }
        Ok(())
    }

    /// Builds the message of a refusal: the status, its meaning where it is a known one, and the server's own words.
    fn refusal(&self, answer: Answered, method: &str) -> String {
        let status = answer.status.as_u16();
        let meaning = match status {
            301 | 302 | 303 | 307 | 308 if method == "GET" => {
                ": the server redirects again and again, or nowhere"
            }
            301 | 302 | 303 | 307 | 308 => ": the server redirects, which only reads follow",
            401 | 403 => ": the server refuses the login; check user name and password",
            404 | 410 if method == "GET" => ": the server has no file at this address",
            409 if method == "GET" => ": the collection for the file does not exist",
            409 => ": the collection for the file does not exist and could not be created",
            423 => ": the file is locked by somebody else on the server",
            507 => ": the server has no room for the file",
            _ => "",
        };
        format!("WebDAV {method} failed with HTTP {status}{meaning}{}", self.words(answer))
    }

    /// Returns the beginning of the server's own words in parentheses; nothing if it says nothing.
    fn words(&self, mut answer: Answered) -> String {
        let mut said = Vec::new();
        let _ = Read::take(&mut answer.body, 4096).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        // Some servers repeat the login that they refuse.
        let said: String = self.mask.hide_in(said.trim()).chars().take(MAX_SAID).collect();
        if said.is_empty() { said } else { format!(" ({said})") }
    }

    fn address(&self, path: &str) -> Result<Address, String> {
        let target = format!("{path}{}", self.query).parse().map_err(|_| "the address cannot be used")?;
        Ok(Address { origin: self.base.origin.clone(), target })
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Answered, String> {
        self.send(method, &self.address(path)?, body).await
    }

    /// Sends a request; the credential goes to the configured server only.
    async fn send(&self, method: Method, address: &Address, body: Bytes) -> Result<Answered, String> {
        let name = method.clone();
        let limit = limit_of(body.len() as u64);
        let has_body = method == Method::PUT;
        let mut request = Request::new(method, address.target.clone(), RequestBody::from(body));
        if has_body {
            request.headers.set(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.authorization
            && address.origin == self.base.origin
        {
            request.headers.set(AUTHORIZATION, authorization.clone());
        }
        let answer = timeout(limit, self.client.send_boxed(&address.origin, Box::new(request))).await;
        let answer = answer
            .map_err(|_| format!("no answer to {name} within {} s", limit.as_secs()))?
            .map_err(|error| error.to_string())?;
        let redirects_to = redirect_target(&answer);
        let disk = |error: std::io::Error| format!("the disk: {error}");
        let mut file = backup::scratch_file(self.dir).map_err(disk)?;
        let (mut body, mut length, began) = (answer.body, 0, Instant::now());
        loop {
            let piece = timeout_at(began + limit_of(length), body.data()).await;
            let piece = piece.map_err(|_| format!("the answer to {name} does not come to its end"))?;
            let Some(piece) = piece.transpose().map_err(|error| error.to_string())? else { break };
            length += piece.len() as u64;
            if length > MAX_FILE {
                return Err(format!("the answer is longer than {} MiB", MAX_FILE >> 20));
            }
            block_in_place(|| file.write_all(&piece)).map_err(disk)?;
        }
        file.rewind().map_err(disk)?;
        Ok(Answered { status: answer.head.status, redirects_to, body: file, length })
    }
}

// === impl Address ===

impl Address {
    /// Returns the address that this one is redirected to.
    fn redirected(&self, location: &str) -> Result<Self, String> {
        let url = absolute_target(&self.origin, self.target.path(), location);
        let unusable = |_| "the server redirects to an address that cannot be used";
        let target: Uri = url.parse().map_err(unusable)?;
        let origin = BaseUrl::parse(&url, None)?.origin;
        if self.origin.tls && !origin.tls {
            return Err("the server redirects from https to http, which is not followed".to_owned());
        }
        let root = || PathAndQuery::from_static("/");
        Ok(Self { origin, target: target.path_and_query().cloned().unwrap_or_else(root) })
    }
}

fn limit_of(length: u64) -> Duration {
    LIMIT + Duration::from_secs(length / SLOWEST)
}

/// Whether a refusal to return a file may be over soon: it does not tell whether there is a file.
fn is_passing(status: StatusCode) -> bool {
    let is_busy = matches!(status.as_u16(), 408 | 423 | 425 | 429);
    is_busy || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}

/// Returns the collection that contains a path; `None` at the top.
fn parent(path: &str) -> Option<&str> {
    let inner = path.strip_suffix('/').unwrap_or(path);
    let (above, _) = inner.rsplit_once('/')?;
    (!above.is_empty()).then(|| &path[..=above.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collections_above_a_file_are_found_to_the_top() {
        let mut found = Vec::new();
        let mut next = parent("/dav/a/b.json");
        while let Some(collection) = next {
            found.push(collection);
            next = parent(collection);
        }
        assert_eq!(found, ["/dav/a/", "/dav/"]);
        assert_eq!(parent("/b.json"), None);
    }
}
