//! The life of the process.
fn main() {}
