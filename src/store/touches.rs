//! The rows held in memory that a statement touches: those that routing depends on, row by row.

use super::value::Value;

/// The kind of row that a statement touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchedKind {
    /// A site and its endpoints; when deleted, also everything that belongs to it.
    Site,
    /// An account and its tokens; when deleted, also its channels.
    Account,
    /// The models of an account: in memory they only decide what a route unit serves with it.
    Models,
    /// A route and the sources of a group; when deleted, also its channels.
    Route,
    /// All channels that a route owns.
    ChannelsOfRoute,
    Channel,
}

/// The rows that a statement touches, among those that routing depends on.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Touches {
    /// Not declared: decided by its table, everything or nothing.
    #[default]
    Undeclared,
    Nothing,
    /// Rows of this kind, by their ids.
    Of(TouchedKind, Vec<Value>),
    /// The row that it inserts.
    Inserted(TouchedKind),
}
