//! The tokens of an account, brought in line with what its site lists.

pub mod set;
pub mod sync;
