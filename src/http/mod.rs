//! The edge: HTTP/1.1 towards clients. It knows no business.
//!
//! | module | what it is for |
//! |---|---|
//! | `server`, `tls` | the accept loop with its limits and its drain; certificates and their reload |
//! | `stream`, `framing`, `pace`, `heads` | the guards of a socket: where a client is in its requests, how slowly a body may come, what unfinished heads hold |
//! | `strict`, `timer` | heads that hyper lets through and we refuse; timers that are used again |
//! | `router`, `route`, `request`, `address` | paths to handlers; a line of a table of routes; what a handler is given; the address of the client |
//! | `body`, `body_error`, `response` | request and response bodies; why a body cannot be read; answers in one line |
//! | `coded`, `form`, `multipart`, `file_body` | compressed requests; forms held whole; forms read as they come; answers that stand in a file |
//! | `wire`, `wire_body`, `unread`, `upgrade` | what a stream and the requests on it tell each other; a body on its connection; what a handler has left of it; another protocol after the answer |
//! | `too_many` | the refusals of rate limits, alike on every surface |
//! | `bearer`, `origin`, `cors`, `websocket` | tokens in headers; whose page asks; cross-origin rules; the protocol a connection may go on with |

pub mod address;
pub mod bearer;
pub mod body;
mod body_error;
mod coded;
pub mod cors;
pub mod event_stream;
mod file_body;
pub mod form;
mod framing;
mod heads;
pub mod multipart;
pub mod origin;
pub mod pace;
pub mod request;
mod response;
pub mod route;
pub mod router;
pub mod server;
mod stream;
pub mod strict;
pub mod timer;
pub mod tls;
mod too_many;
mod unread;
mod upgrade;
pub mod websocket;
mod wire;
pub mod wire_body;

pub use body::ResponseBody;
pub use body_error::BodyError;
pub use file_body::file;
pub use request::{Params, Query, Request};
pub use response::{Response, is_event_stream, json, json_bytes, text};
pub use route::{Access, Endpoint, Route};
pub use too_many::{too_many_of_identity, too_many_of_peer};
