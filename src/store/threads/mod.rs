//! The threads that speak with the database, whichever it is.
//!
//! | file | what it holds |
//! |---|---|
//! | `queue`, `writer` | what waits for the one thread that changes; that thread |
//! | `readers` | the threads that answer questions |

pub(super) mod queue;
pub(super) mod readers;
pub(super) mod writer;
