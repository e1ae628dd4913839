//! The failure of a command.

pub use crate::exit_code::{CANNOT_CREATE, CONFIGURATION, DATA, IO, NO_INPUT, OTHER, USAGE};

/// The reason why a command did nothing, or not everything.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
