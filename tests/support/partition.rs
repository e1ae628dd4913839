//! A relay to a server that can be cut, so that nothing comes through and neither side notices, or ended as if the server
//! had stopped.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A running relay; its port closes when it is dropped.
pub struct Partition {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Whether the relay is cut, and whether it has ended.
    flags: Mutex<(bool, bool)>,
    changed: Condvar,
    /// The open connections; `None` while new ones are refused.
    open: Mutex<Option<Vec<TcpStream>>>,
}

// === impl Partition ===

impl Partition {
    /// Starts a relay to `host:port`.
    pub fn before(server: &str) -> Self {
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State { open: Mutex::new(Some(Vec::new())), ..State::default() });
        let passing = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if passing.is_over() {
                    return;
                }
                if !passing.keep(&client) {
                    continue;
                }
                let (state, server) = (Arc::clone(&passing), server.clone());
                std::thread::spawn(move || {
                    // A connection made while the relay is cut does not reach the other side.
                    if !state.wait() {
                        return;
                    }
                    let Ok(server) = TcpStream::connect(server) else { return };
                    let Ok((from, to)) = client.try_clone().and_then(|from| Ok((from, server.try_clone()?)))
                    else {
                        return;
                    };
                    let back = Arc::clone(&state);
                    std::thread::spawn(move || pass(from, to, &state));
                    pass(server, client, &back);
                });
            }
        });
        Self { address, state }
    }

    /// Replaces the server's port in a database address by the relay's.
    pub fn instead_of(&self, url: &str) -> String {
        let (place, database) = url.rsplit_once('/').expect("an address with a database");
        let (host, _) = place.rsplit_once(':').expect("an address with a port");
        format!("{host}:{}/{database}", self.address.port())
    }

    /// Lets nothing through from now on; bytes that are sent wait, as if they were to be sent again.
    pub fn cut(&self) {
        self.state.set(true, false);
    }

    /// Ends every connection and refuses new ones, as when the server stops.
    pub fn refuse(&self) {
        for connection in self.state.open().take().into_iter().flatten() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub fn heal(&self) {
        self.state.open().get_or_insert_default();
        self.state.set(false, false);
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.state.set(false, true);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn set(&self, is_cut: bool, is_over: bool) {
        *self.flags.lock().expect("no panic there") = (is_cut, is_over);
        self.changed.notify_all();
    }

    fn open(&self) -> MutexGuard<'_, Option<Vec<TcpStream>>> {
        self.open.lock().expect("no panic there")
    }

    /// Remembers a connection; returns false when new ones are refused.
    fn keep(&self, client: &TcpStream) -> bool {
        let mut open = self.open();
        open.as_mut().zip(client.try_clone().ok()).map(|(open, client)| open.push(client)).is_some()
    }

    fn is_over(&self) -> bool {
        self.flags.lock().expect("no panic there").1
    }

    /// Waits while the relay is cut; returns false once it has ended.
    fn wait(&self) -> bool {
        let flags = self.flags.lock().expect("no panic there");
        let flags = self.changed.wait_while(flags, |(is_cut, _)| *is_cut).expect("no panic there");
        !flags.1
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !state.wait() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The end of a connection does not come through either.
    state.wait();
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
