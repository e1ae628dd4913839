//! Servers that are set up otherwise than ours: other defaults of a session, logins that are refused for a while, and
//! schemas of other releases.

use std::thread;

use serde_json::json;

use super::soon;
use crate::support::{self, Gateway, Home, ServerDatabase, Setup, Upstream};

/// A user of the server who may do what the documentation asks for, and nothing else.
struct Guest<'a> {
    server: &'a ServerDatabase,
    name: String,
}

// === impl Guest ===

impl<'a> Guest<'a> {
    fn of(server: &'a ServerDatabase) -> Self {
        let name = server.url().rsplit('/').next().expect("a name").replace("test", "guest");
        let guest = Self { server, name };
        guest.remove();
        match server.kind() {
            "postgres" => {
                guest.run(&format!("CREATE ROLE {0} LOGIN; GRANT ALL ON SCHEMA public TO {0}", guest.name));
            }
            _ => guest.run(&format!(
                "CREATE USER {0}; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, \
                 CREATE TEMPORARY TABLES ON {1}.* TO {0}",
                guest.accounts(),
                server.url().rsplit('/').next().expect("a name")
            )),
        }
        guest
    }

    /// Returns the address of the database for this user.
    fn url(&self) -> String {
        let url = self.server.url();
        let (scheme, rest) = url.split_once("://").expect("an address");
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("{scheme}://{}@{place}", self.name)
    }

    /// Returns the accounts of this user on MySQL, which has one for each host.
    fn accounts(&self) -> String {
        format!("{0}@'127.0.0.1', {0}@localhost", self.name)
    }

    /// Refuses further logins, and ends the connections of this user.
    fn lock_out(&self) {
        match self.server.kind() {
            "postgres" => self.run(&format!(
                "ALTER ROLE {0} NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{0}'",
                self.name
            )),
            _ => self.run(&format!("ALTER USER {} ACCOUNT LOCK; KILL USER {}", self.accounts(), self.name)),
        }
    }

    fn let_in(&self) {
        self.run(&match self.server.kind() {
            "postgres" => format!("ALTER ROLE {} LOGIN", self.name),
            _ => format!("ALTER USER {} ACCOUNT UNLOCK", self.accounts()),
        });
    }

    fn run(&self, script: &str) {
        self.server.open().run(script);
    }

    fn remove(&self) {
        match self.server.kind() {
            "postgres" => self.run(&format!(
                "DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{0}') THEN DROP OWNED BY {0}; DROP ROLE {0}; \
                 END IF; END $$",
                self.name
            )),
            _ => self.run(&format!("DROP USER IF EXISTS {}", self.accounts())),
        }
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.remove();
        }
    }
}

/// Returns a row of the settings in which an instance numbers what it changes.
const VERSION: &str = "cache_versions SET version = version WHERE scope = 'settings'";

fn save(gateway: &Gateway) -> u16 {
    gateway.admin().put("/api/settings/runtime", &json!({ "notifyCooldownSec": 77 })).status
}

#[test]
fn a_change_is_made_whatever_isolation_the_server_gives_a_transaction_by_default() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "postgres") else { return };
    let url = format!("{}?options=-c%20default_transaction_isolation%3Dserializable", server.url());
    let gateway = Setup::default().with("DB_URL", &url).start_in(home.clone());
    assert_eq!(save(&gateway), 200);
    thread::scope(|scope| {
        // Others change the same row all the time.
        let others = scope.spawn(|| {
            let once = format!("UPDATE {VERSION}; PERFORM pg_sleep(0.05); COMMIT;");
            server.open().run(&format!("DO $$ BEGIN FOR i IN 1..100 LOOP {once} END LOOP; END $$"));
        });
        while !others.is_finished() {
            assert_eq!(save(&gateway), 200);
        }
    });
}

#[test]
fn texts_are_kept_whatever_the_server_sets_up_at_a_login() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "mysql") else { return };
    let guest = Guest::of(server);
    // Only users without further rights are concerned by this setting.
    server.open().run("SET GLOBAL init_connect = 'SET NAMES latin1, autocommit = 0'");
    let gateway = Setup::default().with("DB_URL", &guest.url()).start_in(home.clone());
    let name = "\u{1f642} \u{5317}\u{4eac} \u{e9}";
    let site = json!({ "name": name, "url": "http://127.0.0.1:9", "platform": "openai" });
    gateway.admin().post("/api/sites", &site).expect(200);
    let gateway = gateway.restart();
    server.open().run("SET GLOBAL init_connect = ''");
    assert_eq!(gateway.admin().get("/api/sites").expect(200)[0]["name"], name);
    assert_eq!(home.database().texts("SELECT HEX(name) FROM sites"), ["F09F998220E58C97E4BAAC20C3A9"]);
}

#[test]
fn a_server_that_refuses_the_login_for_a_while_counts_as_unreachable() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let guest = Guest::of(server);
    let gateway = Setup::default().with("DB_URL", &guest.url()).start_in(home.clone());
    let upstream = Upstream::start(&["model-guest"]);
    gateway.add("site", &upstream);
    gateway.wait_for_channels("model-guest", 1);
    guest.lock_out();
    assert_eq!(save(&gateway), 503);
    assert_eq!(gateway.admin().get("/api/checkin/logs").status, 503);
    let health = gateway.anyone().get("/api/desktop/health").expect(200);
    assert!(health["storage"].is_string(), "{health}");
    gateway.client().chat("model-guest").expect(200);
    guest.let_in();
    soon("changes are made again", || save(&gateway) == 200);
    let rows = "SELECT COUNT(*) FROM proxy_logs WHERE status = 'success'";
    soon("the log has the row", || home.database().number(rows) == 1);
}

#[test]
fn a_schema_of_a_newer_release_is_refused_and_left_as_it_is() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    drop(Setup::default().start_in(home.clone()));
    let newer = "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES (9999, '9999_newer', 'x', 1)";
    server.open().run(newer);
    let said = support::run(&Setup::default().with("PORT", "4999"), &home, &["serve"]);
    assert_eq!(said.status.code(), Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("newer release (schema 9999"), "{}", said.stderr);
}

#[test]
fn a_start_goes_on_where_a_killed_one_has_left_the_schema() {
    let home = Home::new();
    // Elsewhere a killed start leaves nothing.
    let Some(server) = home.server().filter(|server| server.kind() == "mysql") else { return };
    drop(Setup::default().start_in(home.clone()));
    let steps = server.open().number("SELECT COUNT(*) FROM schema_migrations");
    server.open().run("DELETE FROM schema_migrations WHERE version > 60");
    let gateway = Setup::default().start_in(home.clone());
    assert_eq!(gateway.admin().get("/api/sites").status, 200);
    assert_eq!(server.open().number("SELECT COUNT(*) FROM schema_migrations"), steps);
}

#[test]
fn a_user_who_may_not_read_the_tables_is_told_so() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "postgres") else { return };
    drop(Setup::default().start_in(home.clone()));
    let guest = Guest::of(server);
    let setup = Setup::default().with("PORT", "4999").with("DB_URL", &guest.url());
    let said = support::run(&setup, &home, &["serve"]);
    assert!(said.stderr.contains("permission denied for table"), "{}", said.stderr);
}

#[test]
fn what_is_too_large_for_the_server_does_not_hold_up_the_log() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "mysql") else { return };
    let before = server.open().number("SELECT @@GLOBAL.max_allowed_packet");
    server.open().run(&format!("SET GLOBAL max_allowed_packet = {}", 2 << 20));
    let gateway = Setup::default().start_in(home.clone());
    // A connection keeps the limit that it began with.
    server.open().run(&format!("SET GLOBAL max_allowed_packet = {before}"));
    let upstream = Upstream::start(&["model-large"]);
    gateway.add("site", &upstream);
    gateway.wait_for_channels("model-large", 1);
    let traces = json!({
        "proxyDebugTraceEnabled": true, "proxyDebugCaptureBodies": true, "proxyDebugMaxBodyBytes": 8 << 20
    });
    gateway.admin().put("/api/settings/runtime", &traces).expect(200);
    let large =
        json!({ "model": "model-large", "messages": [{ "role": "user", "content": "x".repeat(4 << 20) }] });
    gateway.client().post("/v1/chat/completions", &large).expect(200);
    gateway.wait_for_output("max_allowed_packet");
    gateway.client().chat("model-large").expect(200);
    let rows = "SELECT COUNT(*) FROM proxy_logs WHERE status = 'success'";
    support::eventually_within(support::SOON * 3, "the log has the row", || {
        (home.database().number(rows) == 2).then_some(())
    });
    assert_eq!(save(&gateway), 200);
}
