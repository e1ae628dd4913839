//! The threads that use the database, whichever it is.
//!
//! | file | what it holds |
//! |---|---|
//! | `queue`, `writer` | the queue of the one thread that makes changes; that thread |
//! | `salvage` | how it writes a group piece by piece that is refused as a whole |
//! | `readers` | the threads that run queries |

pub(super) mod queue;
pub(super) mod readers;
mod salvage;
pub(super) mod writer;
