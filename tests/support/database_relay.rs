//! A relay to a database server that a test can break at a chosen point. It passes on the bytes of client and server
//! without parsing them, but looks for the commit of a transaction.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The point at which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// COMMIT does not reach the server.
    BeforeCommit,
    /// The server commits, but its answer does not come back.
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
    /// The cuts for the next commits.
    cuts: Mutex<Vec<Cut>>,
    hides_tls: AtomicBool,
    /// The last transaction to get through is the one that contains this statement.
    last: Mutex<Option<String>>,
    /// Whether nothing gets through any more.
    is_dead: AtomicBool,
}

// === impl DatabaseRelay ===

impl DatabaseRelay {
    /// Starts a relay to `host:port`.
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
                    // An error means that one side is gone, so nobody is left to be told.
                    drop(lead(client, server, &obeyed));
                }
            }
        });
        Self { port, rules, closed }
    }

    /// Replaces the server's port in a database address by the relay's.
    pub fn instead_of(&self, url: &str) -> String {
        let (place, database) = url.rsplit_once('/').expect("an address with a database");
        let (host, _) = place.rsplit_once(':').expect("an address with a port");
        format!("{host}:{}/{database}", self.port)
    }

    /// Cuts the connections of the next commits, in this order.
    pub fn cut(&self, cuts: &[Cut]) {
        *self.rules.cuts.lock().expect("no panic there") = cuts.iter().rev().copied().collect();
    }

    /// Returns whether all cuts have been made.
    pub fn has_cut(&self) -> bool {
        self.rules.cuts.lock().expect("no panic there").is_empty()
    }

    /// Lets nothing through any more after the commit of the transaction that contains this statement, not even its answer.
    pub fn break_after(&self, statement: &str) {
        *self.rules.last.lock().expect("no panic there") = Some(statement.to_owned());
    }

    /// Makes the server appear to have no TLS from now on.
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
    // From then on, the server's answers are not passed on.
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

/// Passes bytes on until their end, or until `each` returns false.
fn pass(from: &mut TcpStream, mut each: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 || !each(&buffer[..count])? {
            return Ok(());
        }
    }
}

/// Changes a server's first message so that it offers no TLS. PostgreSQL's whole answer to the request for TLS is one
/// letter (PostgreSQL documentation, "SSL Session Encryption"). In MySQL's greeting it is a flag after the packet's head,
/// the protocol number, the server's version up to its zero byte, the connection's number and nine bytes (MySQL internals
/// manual, "Protocol::HandshakeV10").
fn without_tls(said: &[u8]) -> Vec<u8> {
    if said == b"S" {
        return b"N".to_vec();
    }
    let mut greeting = said.to_vec();
    let version = greeting[5..].iter().position(|byte| *byte == 0).expect("the server's version");
    greeting[5 + version + 1 + 4 + 9 + 1] &= !0x08;
    greeting
}
