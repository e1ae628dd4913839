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

    /// From now on a MySQL server seems to have no TLS.
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
        let _ = pass(&mut client, |bytes| {
            let is_commit = bytes.windows(6).any(|word| word == b"COMMIT");
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

/// A MySQL server's greeting with the flag gone that it speaks TLS: it stands behind the head of the packet, the number
/// of the protocol, the server's version up to its zero byte, the number of the connection and nine bytes (MySQL
/// internals manual, "Protocol::HandshakeV10").
fn without_tls(greeting: &[u8]) -> Vec<u8> {
    let mut greeting = greeting.to_vec();
    let version = greeting[5..].iter().position(|byte| *byte == 0).expect("the server's version");
    greeting[5 + version + 1 + 4 + 9 + 1] &= !0x08;
    greeting
}
