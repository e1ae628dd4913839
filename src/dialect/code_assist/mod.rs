//! The envelope of Google's Code Assist API, `/v1internal:{action}`, around requests and answers of the gemini
//! dialect.
//!
//! ```text
//! {"model":"m","project":"p","request":{…}}    around a request
//! {"request":{"model":"models/m",…}}           around a request whose tokens are to be counted
//! {"response":{…}}                             around an answer, and around each event of a stream
//! ```
//!
//! | module | |
//! |---|---|
//! | `request` | puts a request into its envelope, and takes it out |
//! | `answer` | puts an answer into its envelope, and takes it out |
//! | `agent` | what requests of an agent have in addition, and what must not be in them |
//! | `schema` | the parameters of functions in the form that requests of an agent have |
//!
//! Clients with this envelope (Gemini's command line) are served like clients of gemini, and upstreams with it are
//! asked like upstreams of gemini. Token counts and failures are answered without an envelope.

mod agent;
mod answer;
mod request;
mod schema;

pub use agent::{Agent, AgentTarget, fit, with_plain_schemas};
pub use answer::{AROUND, EnvelopeOpener, seal_event, seal_whole};
pub use request::{Envelope, Opened, UnusableEnvelope, open, seal_count};
