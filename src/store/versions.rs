//! Versions by which several instances on one database tell each other that something they all hold in memory
//! has changed.
//!
//! ```text
//! transaction { change, version of its scope + 1 } ─▶ in force here ─▶ answered
//!      └─▶ the others: notified at once where the database can (PostgreSQL), and they check every second
//! ```
//!
//! The instance that commits a change announces it. Versions of its own changes tell it nothing new; its known
//! version only advances when it has taken a change over, so that a failed attempt is repeated.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::journal;
use super::sql::Statement;
use super::touches::Touches;
use crate::sync::lock;

/// A part of what is held in memory, which changes independently of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Sites, accounts, tokens, routes and channels.
    Routing,
    /// Downstream keys.
    Keys,
    Settings,
    /// The keys by which credentials are sealed and found.
    Keyring,
}

/// All scopes. The keyring comes first: what is read for the others may be sealed with one of its keys.
pub const SCOPES: [Scope; 4] = [Scope::Keyring, Scope::Routing, Scope::Keys, Scope::Settings];

impl Scope {
    pub(super) fn parse(name: &str) -> Option<Self> {
        SCOPES.into_iter().find(|scope| scope.as_str() == name)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Keys => "keys",
            Self::Settings => "settings",
            Self::Keyring => "keyring",
        }
    }

    /// Whether a statement changes what this scope holds in memory.
    fn is_changed_by(self, statement: &Statement) -> bool {
        match (&statement.touches, self) {
            (Touches::Nothing, _) => false,
            (Touches::Of(_, ids), _) => self == Self::Routing && !ids.is_empty(),
            (Touches::Inserted(_), _) => self == Self::Routing,
            (Touches::Undeclared, Self::Routing) => journal::is_routed(&statement.sql),
            (Touches::Undeclared, Self::Keys) => {
                journal::table(&statement.sql) == Some("downstream_api_keys")
            }
            (Touches::Undeclared, Self::Settings) => journal::table(&statement.sql) == Some("settings"),
            (Touches::Undeclared, Self::Keyring) => journal::table(&statement.sql) == Some("crypto_keys"),
        }
    }
}

/// Returns the scopes that these statements change, in the order of [`SCOPES`].
pub(super) fn changed_by(statements: &[Statement]) -> Vec<Scope> {
    let is_changed = |scope: &Scope| statements.iter().any(|statement| scope.is_changed_by(statement));
    SCOPES.into_iter().filter(is_changed).collect()
}

/// A scope and its version number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub scope: Scope,
    pub number: i64,
}

/// The versions in the database that this instance knows; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    known: Arc<Mutex<[KnownVersion; SCOPES.len()]>>,
}

#[derive(Debug, Default)]
struct KnownVersion {
    /// All changes up to this version are in force here.
    number: i64,
    /// Versions of our own changes beyond it.
    own: BTreeSet<i64>,
}

// === impl Versions ===

impl Versions {
    /// Records changes that this instance has committed.
    pub(super) fn note_own(&self, versions: &[Version]) {
        let mut known = lock(&self.known);
        for version in versions {
            let known = &mut known[version.scope as usize];
            if version.number > known.number {
                known.own.insert(version.number);
            }
            known.advance();
        }
    }

    /// Returns the version of a scope up to which all changes are in force here.
    pub fn in_force(&self, scope: Scope) -> i64 {
        lock(&self.known)[scope as usize].number
    }

    /// Returns those of the highest versions that this instance has not taken over.
    pub(super) fn behind(&self, highest: Vec<Version>) -> Vec<Version> {
        let known = lock(&self.known);
        highest.into_iter().filter(|version| known[version.scope as usize].number != version.number).collect()
    }

    /// Records that everything up to this version is in force here.
    pub fn taken_over(&self, version: Version) {
        let known = &mut lock(&self.known)[version.scope as usize];
        known.number = version.number;
        known.own.retain(|own| *own > version.number);
        known.advance();
    }
}

impl KnownVersion {
    /// Advances over changes of our own, up to the first change by another instance.
    fn advance(&mut self) {
        while self.own.remove(&(self.number + 1)) {
            self.number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::Value;
    use crate::store::touches::TouchedKind;

    fn number(versions: &Versions) -> i64 {
        lock(&versions.known)[Scope::Keys as usize].number
    }

    #[test]
    fn own_changes_are_known_and_those_of_others_between_them_are_not() {
        let versions = Versions::default();
        let own = |number: i64| versions.note_own(&[Version { scope: Scope::Keys, number }]);
        own(1);
        own(2);
        assert_eq!(number(&versions), 2);
        own(4);
        assert_eq!(number(&versions), 2, "the third was another's");
        versions.taken_over(Version { scope: Scope::Keys, number: 3 });
        assert_eq!(number(&versions), 4);
        own(4);
        assert_eq!(number(&versions), 4);
    }

    #[test]
    fn a_batch_tells_what_it_changes() {
        let statement = |sql: &'static str| Statement::new(sql, Vec::new());
        let changed = |statement: Statement| changed_by(&[statement]);
        assert_eq!(changed(statement("INSERT INTO settings (name) VALUES (?)")), [Scope::Settings]);
        assert_eq!(changed(statement("UPDATE downstream_api_keys SET enabled = ?")), [Scope::Keys]);
        assert!(changed(statement("UPDATE downstream_api_keys SET x = 1").touching_nothing()).is_empty());
        assert_eq!(changed(statement("UPDATE crypto_keys SET status = 'retired'")), [Scope::Keyring]);
        assert_eq!(changed(statement("DELETE FROM sites")), [Scope::Routing]);
        assert!(changed(statement("DELETE FROM events")).is_empty());
        let touched = statement("UPDATE accounts").touching(TouchedKind::Account, [Value::Int(1)]);
        assert_eq!(changed(touched), [Scope::Routing]);
        assert!(changed(statement("UPDATE accounts").touching(TouchedKind::Account, Vec::new())).is_empty());
    }
}
