//! A way to a database server that a test can break where it wants: what a client sends and what the server answers go
//! through it unread, but for the word that ends a transaction.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// COMMIT does not reach the server.
    BeforeCommit,
    /// The server commits, and its answer does not come back.
    BeforeAnswer,
}

/// One running relay; its port closes when it is dropped.
pub struct DatabaseRelay {
    port: u16,
    rules: Arc<Rules>,
    closed: Arc<AtomicBool>,
}

#[derive(Default)]
struct Rules {
    /// What becomes of the next commits.
    cuts: Mutex<Vec<Cut>>,
    hides_tls: AtomicBool,
    /// The transaction with this in it is the last one that gets through.
    last: Mutex<Option<String>>,
    /// Nothing gets through any more.
    is_dead: AtomicBool,
}

// === impl DatabaseRelay ===

impl DatabaseRelay {
    /// Leads to `host:port`.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (rules, closed) = (Arc::new(Rules::default()), Arc::new(AtomicBool::new(false)));
        let (obeyed, over, server) = (Arc::clone(&rules), Arc::clone(&closed), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                if obeyed.is_dead.load(Ordering::SeqCst) {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(&server) {
                    // An error is one side's end: there is nobody left to tell.
                    drop(lead(client, server, &obeyed));
                }
            }
        });
        Self { port, rules, closed }
    }

    /// An address of a database with the relay's port in place of the server's.
    pub fn instead_of(&self, url: &str) -> String {
        let (place, database) = url.rsplit_once('/').expect("an address with a database");
        let (host, _) = place.rsplit_once(':').expect("an address with a port");
        format!("{host}:{}/{database}", self.port)
    }

    /// Cuts the connections of the next commits, this one first.
    pub fn cut(&self, cuts: &[Cut]) {
        *self.rules.cuts.lock().expect("no panic there") = cuts.iter().rev().copied().collect();
    }

    /// Whether every cut was made.
    pub fn has_cut(&self) -> bool {
        self.rules.cuts.lock().expect("no panic there").is_empty()
    }

    /// Nothing gets through any more once the transaction is committed that prepares this statement, its answer neither.
    pub fn break_after(&self, statement: &str) {
        *self.rules.last.lock().expect("no panic there") = Some(statement.to_owned());
    }

    /// From now on the server seems to have no TLS.
    pub fn hide_tls(&self) {
        self.rules.hides_tls.store(true, Ordering::SeqCst);
    }
}

impl Drop for DatabaseRelay {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn lead(mut client: TcpStream, mut server: TcpStream, rules: &Arc<Rules>) -> Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut to_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    // What the server says from then on is not passed on.
    let is_mute = Arc::new(AtomicBool::new(false));
    let (mute, obeyed) = (Arc::clone(&is_mute), Arc::clone(rules));
    std::thread::spawn(move || {
        let mut is_last = false;
        let _ = pass(&mut client, |bytes| {
            if obeyed.is_dead.load(Ordering::SeqCst) {
                return Ok(false);
            }
            let has = |text: &[u8]| bytes.windows(text.len()).any(|word| word == text);
            let is_commit = has(b"COMMIT");
            let last = obeyed.last.lock().expect("no panic there").clone();
            is_last |= last.is_some_and(|last| has(last.as_bytes()));
            if is_commit && is_last {
                mute.store(true, Ordering::SeqCst);
                obeyed.is_dead.store(true, Ordering::SeqCst);
            }
            let cut = is_commit.then(|| obeyed.cuts.lock().expect("no panic there").pop()).flatten();
            match cut {
                Some(Cut::BeforeCommit) => return Ok(false),
                Some(Cut::BeforeAnswer) => mute.store(true, Ordering::SeqCst),
                None => {}
            }
            to_server.write_all(bytes)?;
            Ok(true)
        });
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    });
    let obeyed = Arc::clone(rules);
    std::thread::spawn(move || {
        let mut is_first = true;
        let _ = pass(&mut server, |bytes| {
            if is_mute.load(Ordering::SeqCst) {
                return Ok(false);
            }
            if std::mem::take(&mut is_first) && obeyed.hides_tls.load(Ordering::SeqCst) {
                to_client.write_all(&without_tls(bytes))?;
                return Ok(true);
            }
            to_client.write_all(bytes)?;
            Ok(true)
        });
        let _ = server.shutdown(Shutdown::Both);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Hands on what comes until its end, or until `each` has had enough.
fn pass(from: &mut TcpStream, mut each: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 || !each(&buffer[..count])? {
            return Ok(());
        }
    }
}

/// What a server says first, as one without TLS says it. PostgreSQL's whole answer to the question for TLS is one letter
/// (PostgreSQL documentation, "SSL Session Encryption"). In MySQL's greeting it is a flag behind the head of the packet,
/// the number of the protocol, the server's version up to its zero byte, the number of the connection and nine bytes
/// (MySQL internals manual, "Protocol::HandshakeV10").
fn without_tls(said: &[u8]) -> Vec<u8> {
    if said == b"S" {
        return b"N".to_vec();
    }
    let mut greeting = said.to_vec();
    let version = greeting[5..].iter().position(|byte| *byte == 0).expect("the server's version");
    greeting[5 + version + 1 + 4 + 9 + 1] &= !0x08;
    greeting
}
