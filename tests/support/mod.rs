//! What the behaviour tests stand on. Every test starts its own gateway, the real binary in a
//! directory of its own, and as many stub upstreams as it needs; both speak through real sockets.
//!
//! | file | gives |
//! |---|---|
//! | `gateway.rs` | [`Gateway`]: the process, its directory, its output, its signals |
//! | `database.rs` | [`Database`]: what a test writes into the database and reads there, also where it runs on a server |
//! | `database_relay.rs` | [`DatabaseRelay`]: a way to a database server that breaks where a test wants it |
//! | `http.rs` | [`Caller`], [`Connection`], [`Stream`]: a small blocking HTTP/1.1 client |
//! | `socket.rs` | [`Socket`]: a WebSocket client that can also send what no client should |
//! | `upstream.rs` | [`Upstream`]: a scriptable stub upstream that remembers what it was asked |
//! | `reply.rs` | [`Reply`]: what the stub answers, byte by byte and step by step |
//! | `sites.rs` | [`Site`]: each platform's management API, as its real program answers it |
//! | `proxy.rs` | [`Proxy`]: an outbound proxy that remembers who asked it for what |
//! | `partition.rs` | [`Partition`]: a way to a server that can be cut |
//! | `relay.rs` | [`Relay`]: a stub site of the new-api family, as its users see it |
//! | `billing.rs` | [`PromptCache`]: how much of a prompt a provider finds in its cache |
//! | `sessions.rs` | the requests of recorded sessions of command-line clients |
//! | `wire.rs` | faithful bodies and streams of each dialect, and the content encodings |
//! | `connected.rs` | [`Login`]: accounts that are in the database as a login leaves them |
//! | `logins.rs` | [`Provider`]: a provider with a login in a browser, and its upstream |
//! | `mail.rs` | [`MailServer`]: a stub mail server that keeps what it was handed |
//! | `webdav.rs` | [`WebDav`]: a stub WebDAV server with files in collections |
//! | `description.rs` | every answer of the admin API, held against `docs/openapi.json` |
//! | `certificates.rs` | an authority of the tests' own and a certificate for `localhost` |
//! | `secured.rs` | [`secured`]: the server's end of TLS with that certificate |
//! | `operator.rs` | what an operator does by hand: sites, accounts, waiting for routes, reading the log |
//!
//! Nothing here sleeps for luck: [`eventually`] polls a condition until it holds or its time is up.

// Each test file is a crate of its own and uses only a part of this.
#![allow(dead_code, unused_imports)]

mod billing;
pub mod certificates;
mod connected;
mod database;
mod database_relay;
mod description;
mod gateway;
mod http;
mod logins;
mod mail;
mod operator;
mod partition;
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
pub use logins::{Book, Provider};
pub use mail::{Mail, MailRules, MailServer};
pub use operator::{Pair, seconds_ahead};
pub use partition::Partition;
pub use proxy::{Crossing, Proxy};
pub use relay::Relay;
pub use reply::{Gate, Reply};
pub use secured::secured;
pub use sites::{Ada, Program, Site, StubKey};
pub use socket::{BINARY, CLOSE, CONTINUED, Incoming, PING, Socket, TEXT, head};
pub use upstream::{ReceivedRequest, Upstream};
pub use webdav::WebDav;

/// Time a test gives to anything that should happen soon. Generous: it only bounds a failure.
pub const SOON: Duration = Duration::from_secs(15);

/// Polls until `ask` gives a value; panics with `what` when `limit` has passed.
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

/// [`eventually_within`] the usual time.
#[track_caller]
pub fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    eventually_within(SOON, what, ask)
}
