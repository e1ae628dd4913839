//! The edge: HTTP/1.1 towards clients. It has no business logic.
//!
//! | module | purpose |
//! |---|---|
//! | `server`, `tls` | the accept loop with its limits and its drain; certificates and their reload |
//! | `stream`, `framing` | the guards of a socket; where a client is in its requests |
//! | `pace`, `heads` | how slowly a body may come; how much memory incomplete heads take |
//! | `strict`, `timer` | heads that hyper accepts and we refuse; reusable timers |
//! | `router`, `route` | paths to handlers; an entry of a route table |
//! | `request`, `address` | a handler's input; the client's address |
//! | `body`, `body_error`, `response` | request and response bodies; why a body cannot be read; JSON and text answers |
//! | `coded`, `form`, `multipart` | compressed requests; forms held whole; forms read as they come |
//! | `event_stream`, `file_body` | answers of server-sent events; answers from files |
//! | `connection_state`, `wire_body` | state shared by a stream and its requests; a body on its connection |
//! | `unread`, `upgrade` | the unread rest of a body; another protocol after the answer |
//! | `stop`, `wake_flag` | how far the stop of the server has come; a waker that knows whether its task waits |
//! | `too_many` | the refusals of rate limits, alike on every surface |
//! | `bearer`, `origin`, `cors` | tokens in headers; the origin of a browser's request; cross-origin rules |
//! | `websocket` | WebSockets |

pub mod address;
pub mod bearer;
pub mod body;
mod body_error;
mod coded;
mod connection_state;
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
pub mod stop;
mod stream;
pub mod strict;
pub mod timer;
pub mod tls;
mod too_many;
mod unread;
mod upgrade;
mod wake_flag;
pub mod websocket;
pub mod wire_body;

pub use body::ResponseBody;
pub use body_error::BodyError;
pub use file_body::file;
pub use request::{Params, Query, Request};
pub use response::{Response, is_event_stream, json, json_bytes, set_retry_after, text};
pub use route::{Access, Endpoint, Route};
pub use too_many::{too_many_of_identity, too_many_of_peer};
