//! The threads that use the database, whichever it is.
//!
//! | file | what it holds |
//! |---|---|
//! | `queue`, `writer` | the queue of the one thread that makes changes; that thread |
//! | `readers` | the threads that run queries |

pub(super) mod queue;
pub(super) mod readers;
pub(super) mod writer;
