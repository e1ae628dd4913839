//! The exit codes of the program: 1 for any failure without a code of its own, and those of sysexits(3).

pub const OTHER: u8 = 1;
pub const USAGE: u8 = 64;
pub const DATA: u8 = 65;
pub const NO_INPUT: u8 = 66;
pub const CANNOT_CREATE: u8 = 73;
pub const IO: u8 = 74;
/// Only a changed configuration can help.
pub const CONFIGURATION: u8 = 78;
