//! Instances that start together bring the database up to date one after the other.

use std::thread;

use super::support::{self, Home, ServerDatabase, Setup};

/// Takes the place of an instance that prepares the database: a connection with its lock, which lasts until it is ended.
struct Preparing<'a> {
    server: &'a ServerDatabase,
}

/// What a connection runs that holds the lock.
fn hold(kind: &str) -> &'static str {
    match kind {
        "postgres" => "SELECT pg_advisory_lock(8318115427910541), pg_sleep(600)",
        _ => "SELECT GET_LOCK(CONCAT('switchyard.', SHA1(DATABASE())), 600), SLEEP(600)",
    }
}

// === impl Preparing ===

impl<'a> Preparing<'a> {
    fn begin(server: &'a ServerDatabase) -> Self {
        let (kind, database) = (server.kind(), server.open());
        // It ends with its connection, which is ended for it.
        let _ = thread::Builder::new().spawn(move || database.try_run(hold(kind)));
        let preparing = Self { server };
        support::eventually("the lock is held", || (preparing.number(preparing.holder()) > 0).then_some(()));
        preparing
    }

    fn number(&self, sql: &str) -> i64 {
        self.server.open().number(sql)
    }

    /// The number of the connection that has the lock, and 0 where none has it.
    fn holder(&self) -> &'static str {
        match self.server.kind() {
            "postgres" => {
                "SELECT COALESCE(MAX(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database())"
            }
            _ => "SELECT COALESCE(IS_USED_LOCK(CONCAT('switchyard.', SHA1(DATABASE()))), 0)",
        }
    }

    /// How many connections to the database have asked for something and rest since: those of starts that wait.
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

    /// As if the instance had been killed.
    fn end(self) {
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
            gateway.wait_for_output("another instance prepares the database");
            assert_eq!(gateway.admin().get("/api/sites").status, 200);
        }
    });
}
