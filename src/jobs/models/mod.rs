//! The models that accounts reach: asking for them, storing them, and the results for callers.

pub mod coverage;
pub mod discovery;
pub mod outcome;
pub mod refresh;
pub mod runs;
