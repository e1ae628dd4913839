//! The tokens of an account, and their sync with what its site lists.

pub mod set;
pub mod sync;
