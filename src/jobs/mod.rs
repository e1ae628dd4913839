//! What the service does by itself, and what it does after an operator's request has been answered.
//!
//! ```text
//! schedule        repeats each job; a job never overlaps itself
//! tasks           long operations an operator started and looks up by id
//! crew            owns every detached piece of work; stops it with the service
//! flight          lets everybody who asks for the same costly thing share one run of it
//! outcome         what discovery and rebuild tell their askers
//! ```

pub mod crew;
pub mod flight;
pub mod outcome;
pub mod schedule;
pub mod tasks;
