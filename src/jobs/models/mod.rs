//! The models that accounts reach: asked for, stored, and told to who asked.

pub mod coverage;
pub mod discovery;
pub mod outcome;
pub mod refresh;
pub mod runs;
