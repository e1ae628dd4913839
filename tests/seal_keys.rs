//! New keys for stored secrets: everything goes on working, and the former keys are removed.

use serde_json::{Value, json};

use crate::support::paths::FACTORY_RESET;
use crate::support::{
    Answer, Caller, Connection, Database, Gateway, Home, Program, Proxy, Site, Upstream, eventually,
};

const ROTATE: &str = "/api/settings/maintenance/rotate-seal-key";
const REPLACE_INDEX: &str = "/api/settings/maintenance/replace-index-key";

const BY_KEY: &str = "model-by-key";
const BY_SESSION: &str = "model-by-session";
const CLIENT_KEY: &str = "sk-team-a-0123456789";
const WEBHOOK: &str = "https://hooks.example/secret-part-of-the-address";

/// Every column that this test fills with sealed text.
const SEALED: [(&str, &str); 7] = [
    ("sites", "custom_headers"),
    ("sites", "proxy_url"),
    ("accounts", "access_token"),
    ("accounts", "api_token"),
    ("account_tokens", "token_enc"),
    ("downstream_api_keys", "key_enc"),
    ("settings", "value"),
];

/// A gateway with a value in every sealed column, all of which [`World::works`] needs.
struct World {
    gateway: Gateway,
    /// Behind an outbound proxy, with custom headers, used with a key.
    upstream: Upstream,
    proxy: Proxy,
    /// Used with a session, with account tokens.
    site: Site,
    key_account: Value,
    session_account: Value,
}

impl World {
    fn start() -> Self {
        let gateway = Gateway::start();
        let (upstream, proxy) = (Upstream::start(&[BY_KEY]), Proxy::start());
        let headers = json!({"x-team": "headers-are-sealed"}).to_string();
        let fields = json!({"name": "by-key", "platform": "openai", "customHeaders": headers,
            "proxyUrl": proxy.url("http", "ada:secret@")});
        let (_, key_account) = gateway.add_as(&fields, &upstream);
        let site = Site::start(Program::NewApi, &[BY_SESSION]);
        let fields = json!({"name": "by-session", "url": site.url(), "platform": site.program.platform()});
        let site_id = gateway.create_site(&fields)["id"].clone();
        let account = json!({"siteId": site_id, "accessToken": site.token(), "platformUserId": 7659});
        let session_account = gateway.admin().post("/api/accounts", &account).expect(200);
        gateway.wait_for_task(&session_account);
        let key = json!({"name": "team", "key": CLIENT_KEY, "supportedModels": ["*"]});
        gateway.admin().post("/api/downstream-keys", &key).expect(200);
        gateway.admin().put("/api/settings/runtime", &json!({"webhookUrl": WEBHOOK})).expect(200);
        gateway.wait_for_channels(BY_KEY, 1);
        gateway.wait_for_channels(BY_SESSION, 1);
        Self { gateway, upstream, proxy, site, key_account, session_account }
    }

    fn client(&self) -> Caller {
        self.gateway.with_token(CLIENT_KEY)
    }

    /// Asserts that every credential works.
    #[track_caller]
    fn works(&self) {
        let crossings = self.proxy.seen().len();
        self.client().chat(BY_KEY).expect(200);
        let asked = self.upstream.last("/v1/chat/completions");
        assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
        assert_eq!(asked.header("x-team"), Some("headers-are-sealed"));
        assert!(crossings > 0 && self.proxy.seen().iter().all(|seen| seen.credentials.is_some()));
        self.client().chat(BY_SESSION).expect(200);
        let admin = self.gateway.admin();
        let tokens = admin.get("/api/account-tokens").expect(200);
        let value = admin.get(&format!("/api/account-tokens/{}/value", tokens[0]["id"])).expect(200);
        assert_eq!(value["token"], format!("sk-{}", self.site.ada().keys[0].key));
        let balance = format!("/api/accounts/{}/balance", self.session_account["id"]);
        admin.post(&balance, &json!({})).expect(200);
        assert_eq!(admin.get("/api/downstream-keys/1/value").expect(200)["key"], CLIENT_KEY);
        let webhook = admin.get("/api/settings/runtime").expect(200)["webhookUrl"].clone();
        assert_eq!(webhook, "https://hooks.example/****");
        let output = self.gateway.output();
        let failed = output.lines().find(|line| line.contains("cannot open") || line.contains("decrypt"));
        assert_eq!(failed, None);
    }

    /// Starts one with so many further accounts that replacing the seal key takes a while.
    fn with_many_accounts() -> Self {
        let mut world = Self::start();
        world.gateway.kill();
        let columns = "access_token, api_token, credential_mode, created_at, updated_at";
        let copies = |of: &str| {
            format!(
                "INSERT INTO accounts (site_id, username, status, {columns}) \
                 SELECT site_id, 'copy', 'disabled', {columns} FROM accounts WHERE {of}"
            )
        };
        let database = world.gateway.home().database();
        let one = copies("id = ?");
        for _ in 0..10 {
            database.execute(&one, &[&world.key_account["id"].as_i64()]);
        }
        for _ in 0..10 {
            database.execute(&copies("username = 'copy'"), &[]);
        }
        world.gateway = world.gateway.restart();
        world
    }
}

/// Returns `id purpose status` of every key.
fn key_rows(home: &Home) -> Vec<String> {
    key_rows_of(&home.database())
}

fn key_rows_of(database: &Database) -> Vec<String> {
    let rows = database.rows("SELECT id, purpose, status FROM crypto_keys ORDER BY id");
    rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns how many values of each column are sealed with this key.
fn sealed_with(home: &Home, id: i64) -> [i64; SEALED.len()] {
    let database = home.database();
    SEALED.map(|(table, column)| {
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE 'enc:2:{id}:%'");
        database.number(&sql)
    })
}

#[track_caller]
fn start(gateway: &Gateway, path: &str) -> Value {
    gateway.admin().post(path, &json!({})).expect(202)
}

#[track_caller]
fn finish(gateway: &Gateway, answer: &Value) -> Value {
    let task = gateway.wait_for_task(answer);
    assert_eq!(task["status"], "succeeded", "{task}");
    task["result"].clone()
}

/// Requests the models on a connection that stays open, with the managed key.
fn ask_again(connection: &mut Connection) -> Answer {
    let ask = format!("GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {CLIENT_KEY}\r\n\r\n");
    connection.exchange(ask.as_bytes())
}

#[test]
fn a_rotated_seal_key_seals_everything_anew_and_the_former_one_is_deleted() {
    let mut world = World::start();
    world.works();
    let mut connection = world.gateway.anyone().connect();
    ask_again(&mut connection).expect(200);
    let before = sealed_with(world.gateway.home(), 1);
    assert!(before.iter().all(|&count| count > 0), "{before:?}");

    let answer = start(&world.gateway, ROTATE);
    for (field, value) in [("success", json!(true)), ("queued", json!(true)), ("reused", json!(false))] {
        assert_eq!(answer[field], value, "{answer}");
    }
    let result = finish(&world.gateway, &answer);
    let count = before.iter().sum::<i64>();
    let expected = json!({"activeKeyId": 3, "resealed": count, "unreadable": 0, "deletedKeys": 1});
    assert_eq!(result, expected);
    assert_eq!(key_rows(world.gateway.home()), ["2 index active", "3 seal active"]);
    assert_eq!(sealed_with(world.gateway.home(), 1), [0; SEALED.len()]);
    assert_eq!(sealed_with(world.gateway.home(), 3), before);
    ask_again(&mut connection).expect(200);
    world.works();
    let events = world.gateway.admin().get("/api/events").expect(200);
    let told = |event: &Value| event["title"] == "Rotate the seal key" && event["relatedType"] == "task";
    assert_eq!(events.as_array().expect("events").iter().filter(|event| told(event)).count(), 2, "{events}");

    world.gateway = world.gateway.restart();
    world.works();
    let again = start(&world.gateway, ROTATE);
    assert_eq!(finish(&world.gateway, &again)["activeKeyId"], 4);
    assert_eq!(key_rows(world.gateway.home()), ["2 index active", "4 seal active"]);
    world.works();
}

#[test]
fn a_replaced_index_key_still_finds_every_key_and_refuses_a_second_one() {
    let mut world = World::start();
    let mut connection = world.gateway.anyone().connect();
    ask_again(&mut connection).expect(200);
    let hashes = |world: &World| -> Vec<String> {
        let sql = "SELECT key_hash FROM downstream_api_keys UNION ALL SELECT token_hash FROM account_tokens";
        world.gateway.home().database().texts(sql)
    };
    let before = hashes(&world);
    let refuses_a_second_one = |world: &World| {
        let admin = world.gateway.admin();
        let key = json!({"name": "second", "key": CLIENT_KEY});
        admin.post("/api/downstream-keys", &key).expect(409);
        let token = format!("sk-{}", world.site.ada().keys[0].key);
        let token = json!({"accountId": world.session_account["id"], "token": token});
        admin.post("/api/account-tokens", &token).expect(409);
    };
    refuses_a_second_one(&world);

    let answer = start(&world.gateway, REPLACE_INDEX);
    refuses_a_second_one(&world);
    let result = finish(&world.gateway, &answer);
    let expected = json!({"activeKeyId": 3, "rehashed": before.len(), "unreadable": 0, "deletedKeys": 1});
    assert_eq!(result, expected);
    assert_eq!(key_rows(world.gateway.home()), ["1 seal active", "3 index active"]);
    let after = hashes(&world);
    assert!(before.iter().all(|hash| !after.contains(hash)), "{before:?} {after:?}");
    ask_again(&mut connection).expect(200);
    world.works();
    refuses_a_second_one(&world);
    world.gateway = world.gateway.restart();
    world.works();
    refuses_a_second_one(&world);
}

#[test]
fn a_rotation_that_was_killed_half_way_goes_on_by_itself() {
    let mut world = World::with_many_accounts();
    let mut former = 1;
    // If the rotation was already through, it is tried anew: the machine was busy with other work.
    loop {
        let left = |world: &World| sealed_with(world.gateway.home(), former).iter().sum::<i64>();
        let all = left(&world);
        let answer = start(&world.gateway, ROTATE);
        let again = start(&world.gateway, ROTATE);
        if again["reused"] == false {
            finish(&world.gateway, &again);
            former = sealing_key(&world);
            continue;
        }
        assert_eq!((&again["jobId"], &again["reused"]), (&answer["jobId"], &json!(true)));
        let refused = world.gateway.admin().post(REPLACE_INDEX, &json!({}));
        if refused.status == 202 {
            finish(&world.gateway, &refused.json());
            former = sealing_key(&world);
            continue;
        }
        let refused = refused.expect(409);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains(answer["jobId"].as_str().expect("an id")), "{message}");

        eventually("some values are sealed anew", || (left(&world) < all).then_some(()));
        world.gateway.kill();
        if left(&world) > 0 {
            break;
        }
        world.gateway = world.gateway.restart();
        former = sealing_key(&world);
    }
    assert_eq!(key_rows(world.gateway.home()).len(), 3);
    world.gateway = world.gateway.restart();
    world.works();
    world
        .gateway
        .wait_for_output("finish the rotation of the seal key: values under a retired key are still left");
    let rows = eventually("the retired key is deleted", || {
        Some(key_rows(world.gateway.home())).filter(|rows| rows.len() == 2)
    });
    assert!(rows.iter().all(|row| row.ends_with(" active")), "{rows:?}");
    assert_eq!(sealed_with(world.gateway.home(), former), [0; SEALED.len()]);
    world.works();
    world.gateway = world.gateway.restart();
    world.works();
}

/// Returns the id of the active seal key.
fn sealing_key(world: &World) -> i64 {
    let sql = "SELECT id FROM crypto_keys WHERE purpose = 'seal' AND status = 'active'";
    world.gateway.home().database().number(sql)
}

#[test]
fn what_is_edited_during_a_rotation_is_not_lost() {
    let mut world = World::with_many_accounts();
    let answer = start(&world.gateway, ROTATE);
    let admin = world.gateway.admin();
    let path = format!("/api/accounts/{}", world.key_account["id"]);
    for number in 0..10 {
        let key = json!({"name": "team", "key": format!("sk-edited-{number}-0123456789")});
        admin.post("/api/downstream-keys", &key).expect(200);
        let webhook = json!({"webhookUrl": format!("{WEBHOOK}-{number}")});
        admin.put("/api/settings/runtime", &webhook).expect(200);
    }
    for key in ["sk-upstream-other", "sk-upstream-key"] {
        admin.put(&path, &json!({"apiToken": key})).expect(200);
    }
    assert_eq!(finish(&world.gateway, &answer)["deletedKeys"], 1);
    world.gateway = world.gateway.restart();
    world.works();
    for number in 0..10 {
        let team = format!("Bearer sk-edited-{number}-0123456789");
        world.gateway.anyone().with("authorization", &team).get("/v1/models").expect(200);
    }
}

#[test]
fn a_factory_reset_during_a_rotation_leaves_one_key_of_each_kind() {
    let world = World::with_many_accounts();
    start(&world.gateway, ROTATE);
    world.gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
    let with_built_in_token = |gateway: &Gateway| {
        let admin = gateway.with_token("change-me-admin-token");
        assert_eq!(admin.get("/api/sites").expect(200), json!([]));
    };
    with_built_in_token(&world.gateway);
    let home = world.gateway.home();
    let (database, keys) = match home.server() {
        None => (home.database(), ["2 index active", "3 seal active"]),
        // A reset leaves a server for the default database, which has its own keys.
        Some(_) => {
            (Database::file(home.data_dir().join("switchyard.db")), ["1 seal active", "2 index active"])
        }
    };
    eventually("no retired key is left", || (key_rows_of(&database) == keys).then_some(()));
    with_built_in_token(&world.gateway.restart());
}
