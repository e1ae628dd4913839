//! `/v1/batches` and `/v1/messages/batches`: many requests for one model that one account works off in its own time.
//!
//! ```text
//! POST    requests ─ one model ─ pipeline: channel after channel, until one takes it ─ stored under a public id     creation
//! GET     public id ─ its account ─ the upstream ─ shown with our ids                       lookup, upstream, object
//! GET     a page of them, as they were last seen                                                                    list
//! GET     results, streamed: the files that OpenAI's batches name, or Anthropic's own path                          results
//! ended   its usage is booked once, by the first party that learns of the end             watch, booking, unbooked
//! ```
//!
//! The paths are in `openai` and `anthropic`; `mapping` holds the ids, and shows an object with them. A batch is
//! pinned to the account that took it, and belongs to the key that made it: for another it does not exist. Only its
//! creation is a model call: the key's policy, budgets and rates apply to it, and it is logged.

mod anthropic;
mod booking;
mod creation;
mod list;
mod lookup;
mod mapping;
mod object;
mod openai;
mod results;
mod unbooked;
mod upstream;
mod watch;

pub(super) use anthropic::{
    cancel as cancel_messages, create as create_messages, delete as delete_messages, get as get_messages,
    list as list_messages, results as results_of_messages,
};
pub(super) use creation::NewBatch;
pub(super) use openai::{cancel, create, file, file_content, file_deletion, get, list};
pub(super) use unbooked::Bookings;
pub use watch::watch;
