//! Instances that start together migrate the database one after the other.

use std::thread;

use crate::support::{self, Home, ServerDatabase, Setup};

/// Stands for an instance that migrates the database: a connection that holds its lock until it is ended.
pub struct Preparing<'a> {
    server: &'a ServerDatabase,
}

/// Returns the statement that takes the lock and holds it.
fn hold(kind: &str) -> &'static str {
    match kind {
        "postgres" => "SELECT pg_advisory_lock(8318115427910541), pg_sleep(600)",
        _ => "SELECT GET_LOCK(CONCAT('switchyard.', SHA1(DATABASE())), 600), SLEEP(600)",
    }
}

// === impl Preparing ===

impl<'a> Preparing<'a> {
    pub fn begin(server: &'a ServerDatabase) -> Self {
        let (kind, database) = (server.kind(), server.open());
        // The thread ends with its connection, which the test ends.
        let _ = thread::Builder::new().spawn(move || database.try_run(hold(kind)));
        let preparing = Self { server };
        support::eventually("the lock is held", || (preparing.number(preparing.holder()) > 0).then_some(()));
        preparing
    }

    fn number(&self, sql: &str) -> i64 {
        self.server.open().number(sql)
    }

    /// Returns the query for the id of the connection that holds the lock, or 0 if none does.
    fn holder(&self) -> &'static str {
        match self.server.kind() {
            "postgres" => {
                "SELECT COALESCE(MAX(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database())"
            }
            _ => "SELECT COALESCE(IS_USED_LOCK(CONCAT('switchyard.', SHA1(DATABASE()))), 0)",
        }
    }

    /// Returns how many connections to the database have been idle for a second: those of starts that wait.
    fn waiting(&self) -> i64 {
        self.number(match self.server.kind() {
            "postgres" => {
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' \
                 AND state_change < now() - interval '1 second'"
            }
            _ => {
                "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND command = 'Sleep' \
                 AND time >= 1"
            }
        })
    }

    fn tables(&self) -> usize {
        self.server.open().contents().len()
    }

    /// Ends the connection, as if the instance had been killed.
    pub fn end(self) {
        let holder = self.number(self.holder());
        match self.server.kind() {
            "postgres" => self.server.open().run(&format!("SELECT pg_terminate_backend({holder})")),
            _ => self.server.open().run(&format!("KILL {holder}")),
        }
    }
}

#[test]
fn a_start_waits_for_who_prepares_the_database_and_changes_nothing_meanwhile() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let preparing = Preparing::begin(server);
    thread::scope(|scope| {
        let starting = [(); 2].map(|()| scope.spawn(|| Setup::default().start_in(home.clone())));
        support::eventually("two wait", || (preparing.waiting() >= 2).then_some(()));
        assert!(starting.iter().all(|start| !start.is_finished()));
        assert_eq!(preparing.tables(), 0);
        preparing.end();
        for start in starting {
            let gateway = start.join().expect("it starts once it may");
            gateway.wait_for_output("another instance is preparing the database");
            assert_eq!(gateway.admin().get("/api/sites").status, 200);
        }
    });
}
