//! A stub WebDAV server (RFC 4918): files in collections, protected by a user name and a password.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::{Gate, Reply, Upstream};

/// One running stub.
pub struct WebDav {
    upstream: Upstream,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    files: BTreeMap<String, Vec<u8>>,
    /// The paths of collections, with a trailing slash.
    collections: BTreeSet<String>,
    /// A refused method, with the status and text of the refusal.
    refused: Option<(String, u16, String)>,
    /// The only path at which a file may be written, if there is such a limit.
    only: Option<String>,
    /// Whether stored files are cut short.
    cuts: bool,
    /// The host to which reads are redirected, to the path with `/stored` in front; empty for this one.
    redirects: Option<String>,
    /// The gate that answers to writes wait for.
    gate: Option<Gate>,
    /// The content shown at every path, which may be none at all.
    shown: Option<Option<Vec<u8>>>,
}

impl WebDav {
    /// Starts a server with only a root, which accepts `ann` with the password `pass-word`.
    pub fn start() -> Self {
        let upstream = Upstream::start(&[]);
        let held =
            Arc::new(Mutex::new(Held { collections: BTreeSet::from(["/".to_owned()]), ..Held::default() }));
        let shared = held.clone();
        upstream.serve(move |request| {
            let mut held = shared.lock().expect("no panic there");
            let path = request.path().to_owned();
            let reply = |status: u16| Some(Reply::bytes(status, "text/plain", ""));
            if let Some(stored) = path.strip_prefix("/stored") {
                let file = held.files.get(stored);
                return file.map(|file| Reply::bytes(200, "application/json", file.clone()));
            }
            if request.header("authorization") != Some("Basic YW5uOnBhc3Mtd29yZA==") {
                return reply(401);
            }
            if let Some((method, status, words)) = held.refused.clone()
                && method == request.method
            {
                return Some(Reply::bytes(status, "text/plain", words));
            }
            let inner = path.strip_suffix('/').unwrap_or(&path);
            let parent = inner.rsplit_once('/').map_or("/".to_owned(), |(above, _)| format!("{above}/"));
            match request.method.as_str() {
                "GET" if held.redirects.is_some() => {
                    let to = held.redirects.as_deref().unwrap_or_default();
                    let location = format!("{to}/stored{path}?sign=x");
                    Some(Reply::bytes(302, "text/plain", "").header("location", &location))
                }
                "GET" => match held.shown.as_ref().unwrap_or(&held.files.get(&path).cloned()) {
                    Some(bytes) => Some(Reply::bytes(200, "application/json", bytes.clone())),
                    None => reply(404),
                },
                "PUT" if held.only.as_ref().is_some_and(|only| *only != path) => reply(403),
                "PUT" if !held.collections.contains(&parent) => reply(409),
                "PUT" => {
                    let mut bytes = request.body.clone();
                    if held.cuts {
                        bytes.truncate(bytes.len() / 2);
                    }
                    held.files.insert(path, bytes);
                    let gate = held.gate.clone().into_iter();
                    reply(201).map(|stored| gate.fold(stored, |stored, gate| stored.head_waits_for(&gate)))
                }
                "MKCOL" if held.collections.contains(&path) => reply(405),
                "MKCOL" if !held.collections.contains(&parent) => reply(409),
                "MKCOL" => {
                    held.collections.insert(path);
                    reply(201)
                }
                _ => reply(501),
            }
        });
        Self { upstream, held }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.upstream.url())
    }

    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.held.lock().expect("no panic there").files.get(path).cloned()
    }

    pub fn store(&self, path: &str, bytes: &[u8]) {
        self.held.lock().expect("no panic there").files.insert(path.to_owned(), bytes.to_vec());
    }

    /// Refuses requests of this method, and of no other, from now on.
    pub fn refuse(&self, method: &str, status: u16, words: &str) {
        self.held.lock().expect("no panic there").refused =
            Some((method.to_owned(), status, words.to_owned()));
    }

    /// Redirects reads to this host, where the path has `/stored` in front, or to such a path of its own if it is empty.
    pub fn redirect_reads_to(&self, host: &str) {
        self.held.lock().expect("no panic there").redirects = Some(host.to_owned());
    }

    /// Answers writes from now on when the gate opens.
    pub fn hold_writes(&self, gate: &Gate) {
        self.held.lock().expect("no panic there").gate = Some(gate.clone());
    }

    /// Accepts a file at this path only from now on.
    pub fn accept_only(&self, path: &str) {
        self.held.lock().expect("no panic there").only = Some(path.to_owned());
    }

    /// Shows this content at every path, whatever is stored there.
    pub fn shows(&self, bytes: Option<&[u8]>) {
        self.held.lock().expect("no panic there").shown = Some(bytes.map(<[u8]>::to_vec));
    }

    /// Refuses and loses nothing any more, and shows what is stored.
    pub fn accept(&self) {
        let mut held = self.held.lock().expect("no panic there");
        (held.refused, held.shown, held.cuts) = (None, None, false);
    }

    /// Loses half of every file written from now on.
    pub fn cut(&self) {
        self.held.lock().expect("no panic there").cuts = true;
    }
}
