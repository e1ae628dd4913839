//! What a statement touches of what is held in memory: of the rows that requests are routed by, row by row.

use super::value::Value;

/// What a row that a statement touches belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A site, its addresses, and by its removal all that is under it.
    Site,
    /// An account, its tokens, and by its removal its channels.
    Account,
    /// The models of an account: they decide what a route unit serves with it, and nothing else that is in memory.
    Models,
    /// A route and the sources of a group, and by its removal its channels.
    Route,
    /// Each channel that a route owns.
    ChannelsOfRoute,
    Channel,
}

/// What a statement touches of the rows that requests are routed by.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Touches {
    /// Decided by its table: everything or nothing.
    #[default]
    Unsaid,
    Nothing,
    /// These parts.
    Of(Part, Vec<Value>),
    /// The row that it inserts.
    Inserted(Part),
}
