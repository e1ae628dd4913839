//! Everything that goes out: the HTTP client, and what each kind of upstream site expects of it.
//!
//! ```text
//! client     send: one exchange on a pooled connection          fetch: a whole answer, bounded
//! body       the answer's body; drives the connection it came on, and hands it back at its end
//! connection one connection, driven by its exchange  pool: the idle ones, by origin
//! repeat     whether a request may be sent once more
//! request    a request, its headers as a list            outgoing: the part that is still to be sent
//! http1      heads and framing, pure
//! dial       TCP, outbound proxies, TLS              tunnel: a way through a proxy that speaks HTTP
//! dns        resolves names, one question at a time
//! websocket  requests over a WebSocket             socket_body: its frames as the bytes of a body
//!            kept_sockets: those that wait for the next turn of their conversation
//! socket     a WebSocket over which both ends send   upgrade: the opening handshake of both
//! oauth      the calls that connect an account by a login in a browser
//! platforms  the requests of the management calls, by platform
//! ```
//!
//! **No task for an exchange**: only looking up a name, connecting to one of several addresses and sweeping idle
//! connections take tasks of their own. A connection belongs to the exchange that uses it: the future of
//! [`Client::send`], then the [`UpstreamBody`], poll it from the task that wants the bytes. So no chunk costs a wake-up
//! across tasks, back-pressure is the caller not polling, and dropping the exchange closes the socket at once: there is
//! nothing else to stop.
//!
//! Time-outs on answers are up to the caller (drop the future); only connecting has one here.

mod body;
mod client;
mod connection;
mod dial;
mod dns;
mod error;
mod fetch;
pub mod http1;
mod kept_sockets;
pub mod oauth;
mod outgoing;
pub mod platforms;
mod pool;
mod repeat;
mod request;
mod socket;
mod socket_body;
mod stream;
#[cfg(test)]
mod tests;
mod tunnel;
mod upgrade;
mod websocket;

pub use body::UpstreamBody;
pub use client::{Answer, Client, ClientOptions, roots_from_pem};
pub use error::{BodyError, ErrorKind, FetchError, SendError};
pub use fetch::{FetchLimits, RedirectedTo, absolute_target, redirect_target};
pub use http1::{AnswerHead, AnswerHeaders};
pub use kept_sockets::SocketKey;
pub use repeat::{ExchangeProgress, ReplyKind, RetryScope, SentPart, WorkKind};
pub use request::{Request, RequestBody, RequestHeaders};
pub use socket::{FromUpstream, OpenError, SocketReceiver, SocketSender, UpstreamSocket};
pub(crate) use stream::Stream;
pub use upgrade::RefusedUpgrade;
pub use websocket::SocketOutcome;
