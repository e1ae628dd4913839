//! The envelope of Google's Code Assist API, `/v1internal:{action}`: requests and answers of gemini's dialect travel in it.
//!
//! ```text
//! {"model":"m","project":"p","request":{…}}    around a request
//! {"request":{"model":"models/m",…}}           around a request whose tokens are to be counted
//! {"response":{…}}                             around an answer, and around each event of a stream
//! ```
//!
//! | module | |
//! |---|---|
//! | `request` | a request put in, and taken out |
//! | `answer` | an answer put in, and taken out |
//! | `agent` | what the requests of an agent say besides, and what must not be in them |
//! | `schema` | the parameters of a function in the form that an agent's requests have |
//!
//! Clients that speak it (Gemini's command line) are served as clients of gemini; upstreams that speak it are asked as
//! upstreams of gemini. What counts tokens, and what failed, is answered without an envelope.

mod agent;
mod answer;
mod request;
mod schema;

pub use agent::{Agent, fit, with_plain_schemas};
pub use answer::{AROUND, Opener, seal_event, seal_whole};
pub use request::{Envelope, Opened, open, seal_count};
