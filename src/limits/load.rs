//! The load of something with a limit on concurrent use.

/// The number of users at work at a gate, and of those in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub active: usize,
    pub waiting: usize,
    /// The maximum number at work at once; 0 is any number.
    pub limit: usize,
}
