//! Changes, since they were last read, of the rows that routing depends on.
//!
//! ```text
//! statement ── names what it touches ──▶ batch committed ──▶ Journal ── taken ──▶ the next snapshot
//! ```
//!
//! The writer notes a batch once it is committed and before its caller is told, so that a caller who publishes
//! after his change finds it here. A statement on one of [`ROUTED`] that does not name what it touches counts
//! as touching everything: an omission costs a full load, never a stale route.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::sql::{Outcome, Statement, Value};
use super::touches::{TouchedKind, Touches};
use crate::ids::{AccountId, ChannelId, RouteId, SiteId};
use crate::sync::lock;

/// The tables from which the snapshot is built.
const ROUTED: &[&str] = &[
    "sites",
    "site_api_endpoints",
    "accounts",
    "account_tokens",
    "token_routes",
    "route_group_sources",
    "route_channels",
    "oauth_route_units",
    "oauth_route_unit_members",
    // A route unit serves a model with those members that have it.
    "model_availability",
];
/// The number of rows noted one by one; beyond it everything counts as touched.
const MAX_NOTED: usize = 65_536;

/// The ids of the rows that were touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    pub everything: bool,
    pub sites: BTreeSet<SiteId>,
    pub accounts: BTreeSet<AccountId>,
    /// Accounts whose available models may have changed.
    pub models: BTreeSet<AccountId>,
    pub routes: BTreeSet<RouteId>,
    /// Routes whose channels may all have changed or been deleted.
    pub channels_of_routes: BTreeSet<RouteId>,
    pub channels: BTreeSet<ChannelId>,
}

/// The rows that were touched and are not yet in a snapshot; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    touched: Arc<Mutex<Touched>>,
}

/// The content taken out of a [`Journal`]; it returns there unless it is [`Self::settled`].
#[derive(Debug)]
pub struct TakenChanges {
    pub touched: Touched,
    journal: Journal,
}

// === impl Journal ===

impl Journal {
    /// Notes a committed batch.
    pub(super) fn note(&self, statements: &[Statement], outcomes: &[Outcome]) {
        let mut touched = Touched::default();
        for (statement, outcome) in statements.iter().zip(outcomes) {
            touched.note(statement, outcome, outcomes);
        }
        self.add(touched);
    }

    /// Makes the next snapshot load all rows.
    pub fn note_everything(&self) {
        lock(&self.touched).everything = true;
    }

    /// Makes the next snapshot reload an account from the database.
    pub fn note_account(&self, id: AccountId) {
        self.add(Touched { accounts: BTreeSet::from([id]), ..Touched::default() });
    }

    pub fn take(&self) -> TakenChanges {
        TakenChanges { touched: std::mem::take(&mut *lock(&self.touched)), journal: self.clone() }
    }

    fn add(&self, touched: Touched) {
        if touched != Touched::default() {
            lock(&self.touched).add(touched);
        }
    }
}

// === impl TakenChanges ===

impl TakenChanges {
    /// Drops the changes, because a snapshot that contains them is in force.
    pub fn settled(mut self) {
        self.touched = Touched::default();
    }
}

impl Drop for TakenChanges {
    fn drop(&mut self) {
        self.journal.add(std::mem::take(&mut self.touched));
    }
}

// === impl Touched ===

impl Touched {
    fn note(&mut self, statement: &Statement, outcome: &Outcome, outcomes: &[Outcome]) {
        match &statement.touches {
            Touches::Nothing => {}
            Touches::Undeclared => self.everything |= is_routed(&statement.sql),
            Touches::Inserted(part) => self.insert(*part, outcome.last_id),
            Touches::Of(part, ids) => {
                for id in ids {
                    match id {
                        Value::Int(id) => self.insert(*part, *id),
                        Value::IdOf(other) if *other < outcomes.len() => {
                            self.insert(*part, outcomes[*other].last_id);
                        }
                        _ => self.everything = true,
                    }
                }
            }
        }
    }

    fn insert(&mut self, part: TouchedKind, number: i64) {
        match part {
            TouchedKind::Site => drop(self.sites.insert(SiteId::new(number))),
            TouchedKind::Account => drop(self.accounts.insert(AccountId::new(number))),
            TouchedKind::Models => drop(self.models.insert(AccountId::new(number))),
            TouchedKind::Route => drop(self.routes.insert(RouteId::new(number))),
            TouchedKind::ChannelsOfRoute => drop(self.channels_of_routes.insert(RouteId::new(number))),
            TouchedKind::Channel => drop(self.channels.insert(ChannelId::new(number))),
        }
    }

    fn add(&mut self, other: Self) {
        self.sites.extend(other.sites);
        self.accounts.extend(other.accounts);
        self.models.extend(other.models);
        self.routes.extend(other.routes);
        self.channels_of_routes.extend(other.channels_of_routes);
        self.channels.extend(other.channels);
        if self.everything || other.everything || self.len() > MAX_NOTED {
            *self = Self { everything: true, ..Self::default() };
        }
    }

    fn len(&self) -> usize {
        self.to_read() + self.models.len()
    }

    /// Returns the number of rows to be read again. Accounts whose models changed are not counted: only their
    /// route units are read.
    pub fn to_read(&self) -> usize {
        let of_routes = self.routes.len() + self.channels_of_routes.len();
        self.sites.len() + self.accounts.len() + of_routes + self.channels.len()
    }
}

/// Whether a statement changes a table of [`ROUTED`], judging by its text; a statement that is not understood
/// counts as one that does.
pub(super) fn is_routed(sql: &str) -> bool {
    table(sql).is_none_or(|table| ROUTED.contains(&table))
}

/// Returns the table that a statement changes, judging by its text.
pub(super) fn table(sql: &str) -> Option<&str> {
    let mut words = sql.split_ascii_whitespace();
    match words.next() {
        Some("UPDATE") => words.next(),
        Some("INSERT" | "DELETE") => words.nth(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(last_id: i64) -> Outcome {
        Outcome { rows: 1, last_id }
    }

    #[test]
    fn a_statement_that_says_nothing_touches_everything_if_its_table_is_routed_by() {
        for (sql, everything) in [
            ("UPDATE accounts SET status = 'active'", true),
            ("INSERT INTO sites (name) VALUES ('a')", true),
            ("DELETE FROM route_channels", true),
            ("DELETE FROM model_availability WHERE is_manual = ?", true),
            ("DELETE FROM token_model_availability", false),
            ("REPLACE INTO sites VALUES (1)", true),
            ("UPDATE channel_stats SET fail_count = 0", false),
            ("INSERT INTO events (type) VALUES ('a')", false),
            ("DELETE FROM proxy_logs WHERE id = 1", false),
        ] {
            let journal = Journal::default();
            journal.note(&[Statement::new(sql, Vec::new())], &[outcome(1)]);
            assert_eq!(journal.take().touched.everything, everything, "{sql}");
        }
    }

    #[test]
    fn rows_are_noted_by_their_numbers_also_by_those_that_the_batch_gave() {
        let journal = Journal::default();
        let statement = |sql: &'static str| Statement::new(sql, Vec::new());
        journal.note(
            &[
                statement("INSERT INTO token_routes").inserting(TouchedKind::Route),
                statement("INSERT INTO route_channels").inserting(TouchedKind::Channel),
                statement("INSERT INTO route_group_sources").touching(TouchedKind::Route, [Value::IdOf(0)]),
                statement("UPDATE accounts").touching(TouchedKind::Account, [Value::Int(3), Value::Int(4)]),
                statement("UPDATE accounts").touching_nothing(),
            ],
            &[outcome(10), outcome(20), outcome(0), outcome(0), outcome(0)],
        );
        let touched = journal.take().touched.clone();
        assert_eq!(touched.routes, BTreeSet::from([RouteId::new(10)]));
        assert_eq!(touched.channels, BTreeSet::from([ChannelId::new(20)]));
        assert_eq!(touched.accounts, BTreeSet::from([3, 4].map(AccountId::new)));
        assert!(!touched.everything && touched.sites.is_empty());
    }

    #[test]
    fn what_was_taken_and_not_settled_is_there_again() {
        let journal = Journal::default();
        let touch = |id: i64| {
            let statement = Statement::new("UPDATE sites", Vec::new());
            journal.note(&[statement.touching(TouchedKind::Site, [Value::Int(id)])], &[outcome(0)]);
        };
        touch(1);
        let taken = journal.take();
        touch(2);
        drop(taken);
        let taken = journal.take();
        assert_eq!(taken.touched.sites, BTreeSet::from([1, 2].map(SiteId::new)));
        taken.settled();
        assert_eq!(journal.take().touched, Touched::default());
    }

    #[test]
    fn beyond_a_bound_it_is_everything() {
        let journal = Journal::default();
        let ids = (0..=MAX_NOTED as i64).map(Value::Int);
        journal.note(
            &[Statement::new("UPDATE sites", Vec::new()).touching(TouchedKind::Site, ids)],
            &[outcome(0)],
        );
        assert_eq!(journal.take().touched, Touched { everything: true, ..Touched::default() });
    }
}
