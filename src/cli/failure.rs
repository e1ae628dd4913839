//! The failure of a command.

/// The exit codes of sysexits(3).
pub const USAGE: u8 = 64;
pub const DATA: u8 = 65;
pub const NO_INPUT: u8 = 66;
pub const CANNOT_CREATE: u8 = 73;
pub const IO: u8 = 74;
pub const CONFIGURATION: u8 = 78;

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
