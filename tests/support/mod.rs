//! Support for the behaviour tests. Every test starts its own gateway (the real binary, in a directory of its own) and as
//! many stub upstreams as it needs; they communicate through real sockets.
//!
//! | file | contents |
//! |---|---|
//! | `gateway.rs` | [`Gateway`]: the process, its directory, its output, its signals |
//! | `database.rs` | [`Database`]: how a test reads and writes the database, also on a server |
//! | `database_relay.rs` | [`DatabaseRelay`]: a relay to a database server that breaks at a chosen point |
//! | `http.rs` | [`Caller`], [`Connection`], [`Stream`]: a small blocking HTTP/1.1 client |
//! | `socket.rs` | [`Socket`]: a WebSocket client that can also send what no client should |
//! | `upstream.rs` | [`Upstream`]: a scriptable stub upstream that remembers its requests |
//! | `reply.rs` | [`Reply`]: the stub's answers, byte by byte and step by step |
//! | `sites.rs` | [`Site`]: each platform's management API, as its real program answers |
//! | `proxy.rs` | [`Proxy`]: an outbound proxy that remembers its requests |
//! | `partition.rs` | [`Partition`]: a relay to a server that can be cut |
//! | `relay.rs` | [`Relay`]: a stub site of the new-api family, as its users see it |
//! | `billing.rs` | [`PromptCache`]: how much of a prompt a provider finds in its cache |
//! | `sessions.rs` | the requests of recorded sessions of command-line clients |
//! | `wire.rs` | faithful bodies and streams of each dialect, and content encodings |
//! | `connected.rs` | [`Login`]: accounts in the database, as a login leaves them |
//! | `logins.rs` | [`Provider`]: a provider with a browser login, and its upstream |
//! | `mail.rs` | [`MailServer`]: a stub mail server that keeps the mails it received |
//! | `webdav.rs` | [`WebDav`]: a stub WebDAV server with files in collections |
//! | `keys.rs` | an operator's actions with downstream keys |
//! | `paths.rs` | the paths that many tests call |
//! | `description.rs` | checks every answer of the admin API against `docs/openapi.json` |
//! | `certificates.rs` | the tests' own certificate authority, and a certificate for `localhost` |
//! | `secured.rs` | [`secured`]: the server's end of TLS with that certificate |
//! | `operator.rs` | an operator's actions: adding sites and accounts, waiting for routes, reading the log |
//!
//! The scripts `built` and `environment` are for the programs in `tests/api`, `clients`, `console` and `databases`.
//!
//! Nothing here sleeps in the hope that something happens: [`eventually`] polls a condition until it holds or time runs
//! out.

mod billing;
pub mod certificates;
mod connected;
mod database;
mod database_relay;
mod description;
mod gateway;
mod http;
mod keys;
mod logins;
mod mail;
mod operator;
mod partition;
pub mod paths;
mod proxy;
mod relay;
mod reply;
mod secured;
pub mod sessions;
mod sites;
mod socket;
mod upstream;
mod webdav;
pub mod wire;

use std::time::{Duration, Instant};

pub use billing::{Billed, PromptCache};
pub use connected::{ACCESS_TOKEN, Login};
pub use database::{Database, Literal, ServerDatabase, is_on_server};
pub use database_relay::{Cut, DatabaseRelay};
pub use gateway::{ADMIN_TOKEN, Gateway, Home, PROXY_TOKEN, Setup, free_port, run, run_with};
pub use http::{Answer, Caller, Connection, Request, Stream, split_events};
pub use keys::path_of_key;
pub use logins::Provider;
pub use mail::{Mail, MailRules, MailServer};
pub use operator::{Pair, seconds_ahead};
pub use partition::Partition;
pub use proxy::Proxy;
pub use relay::Relay;
pub use reply::{Gate, Reply};
pub use secured::secured;
pub use sites::{Program, Site, StubKey};
pub use socket::{BINARY, CLOSE, CONTINUED, Incoming, PING, Socket, TEXT, head};
pub use upstream::{ReceivedRequest, Upstream};
pub use webdav::WebDav;

/// How long a test waits for anything that should happen soon. Generous: it only limits how long a failure takes.
pub const SOON: Duration = Duration::from_secs(30);

/// Polls until `ask` returns a value; panics with `what` when `limit` has passed.
#[track_caller]
pub fn eventually_within<T>(limit: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(Instant::now() < deadline, "after {limit:?} still not true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Calls [`eventually_within`] with the limit `SOON`.
#[track_caller]
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    eventually_within(SOON, what, ask)
}
