//! Daily check-ins (upstreams-jobs.md 13.2).

pub mod verdict;
