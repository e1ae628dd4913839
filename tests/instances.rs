//! Several instances on one database: work for all is done once, even if instances are killed or cut off. The tests need a
//! server, which `make test-databases` starts.

mod budgets;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    self, Answer, Gate, Gateway, Home, Partition, Provider, Relay, Reply, Request, Setup, Upstream, wire,
};

const MODEL: &str = "model-shared";
/// Long enough for a lease, which lasts at least 30 seconds, to end, and for another instance to notice.
const A_LEASE: Duration = Duration::from_secs(75);

/// Starts instances on one database.
fn instances<const N: usize>(home: &Arc<Home>, setup: &Setup) -> [Gateway; N] {
    [(); N].map(|()| setup.clone().start_in(home.clone()))
}

/// Starts two instances, if there is a server that they can share.
fn two_instances() -> Option<[Gateway; 2]> {
    support::is_on_server().then(|| instances(&Home::new(), &Setup::default()))
}

fn ask(gateway: &Gateway) -> Answer {
    gateway.client().send(
        Request::post("/v1/responses").json(&json!({"model": MODEL, "stream": true, "input": "Which way?"})),
    )
}

/// Imports the stub's account into a gateway, from a file of the CLI.
fn import(gateway: &Gateway, provider: &Provider) {
    provider.book().access.push("access-of-the-file".to_owned());
    provider.book().refresh.push("refresh-of-the-file".to_owned());
    let id_token = provider.book().id_token();
    let file = json!({"OPENAI_API_KEY": null, "last_refresh": "2026-01-01T00:00:00Z", "tokens": {
        "id_token": id_token, "access_token": "access-of-the-file", "refresh_token": "refresh-of-the-file"}});
    let done = gateway.admin().post("/api/oauth/import", &json!({"data": file})).expect(200);
    assert_eq!(done["imported"], 1, "{done}");
}

#[test]
fn one_of_three_instances_renews_a_token_and_the_others_take_it() {
    if !support::is_on_server() {
        return;
    }
    let provider = Provider::start("codex", &[MODEL]);
    let home = Home::new();
    let gateways: [Gateway; 3] = instances(&home, &provider.setup(Setup::default()));
    import(&gateways[0], &provider);
    for gateway in &gateways {
        support::eventually("every instance has the account", || (ask(gateway).status == 200).then_some(()));
    }
    for round in 1..=3 {
        let before = provider.book().refreshes;
        provider.end_access();
        thread::scope(|scope| {
            let asks: Vec<_> = (0..12).map(|at| scope.spawn(move || at)).collect();
            let asks: Vec<_> = asks
                .into_iter()
                .map(|at| at.join().expect("a number"))
                .map(|at: usize| {
                    let gateway = &gateways[at % 3];
                    scope.spawn(move || ask(gateway).status)
                })
                .collect();
            for ask in asks {
                assert_eq!(ask.join().expect("no panic"), 200, "round {round}");
            }
        });
        assert_eq!(provider.book().refreshes, before + 1, "round {round}");
    }
}

#[test]
fn a_token_that_a_provider_gave_while_the_database_is_away_is_not_lost() {
    if !support::is_on_server() {
        return;
    }
    let provider = Provider::start("codex", &[MODEL]);
    let home = Home::new();
    let server = home.server().expect("tests run on a server");
    let way = Partition::before(server.place());
    let setup = provider.setup(Setup::default()).with("DB_URL", &way.instead_of(&server.url()));
    let gateway = setup.start_in(home.clone());
    import(&gateway, &provider);
    support::eventually("the account serves", || (ask(&gateway).status == 200).then_some(()));
    let before = provider.book().refreshes;
    provider.end_access();
    let asked = provider.asked_for("/token").len();
    let gate = Gate::new();
    let (access, refresh) = ("access-of-the-outage", "refresh-of-the-outage");
    provider.answer_once(
        "/token",
        Reply::json(
            200,
            &json!({"access_token": access, "refresh_token": refresh, "expires_in": 3600, "token_type": "Bearer"}),
        )
        .head_waits_for(&gate),
    );
    let client = gateway.client();
    let question =
        Request::post("/v1/responses").json(&json!({"model": MODEL, "stream": true, "input": "Now?"}));
    let asking = thread::spawn(move || client.send(question).status);
    support::eventually("the provider is asked", || {
        (provider.asked_for("/token").len() == asked + 1).then_some(())
    });
    way.refuse();
    {
        let mut book = provider.book();
        book.access.push(access.to_owned());
        book.refresh = vec![refresh.to_owned()];
    }
    gate.open();
    // More attempts than another kind of failure gets.
    support::eventually_within(A_LEASE, "it is tried again and again", || {
        (gateway.output().matches("is not stored yet").count() >= 7).then_some(())
    });
    way.heal();
    assert_eq!(asking.join().expect("no panic"), 200, "the new token is used once it is stored");
    assert_eq!(provider.book().refreshes, before, "it was asked for once");
    drop(gateway);
    let gateway = provider.setup(Setup::default()).start_in(home);
    assert_eq!(ask(&gateway).status, 200);
    assert_eq!(provider.book().refreshes, before);
}

fn logs(gateway: &Gateway) -> Vec<Value> {
    gateway.admin().get("/api/checkin/logs").expect(200).as_array().expect("rows").clone()
}

/// Schedules check-ins to begin in about three seconds, and not again for a day.
fn check_in_soon(gateway: &Gateway) {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs();
    let at = now + 3;
    let cron = format!("{} {} {} * * *", at % 60, at / 60 % 60, at / 3600 % 24);
    gateway.admin().put("/api/checkin/schedule", &json!({"mode": "cron", "cron": cron})).expect(200);
}

#[test]
fn an_instance_that_is_cut_off_in_the_middle_of_a_job_leaves_it_and_writes_nothing_afterwards() {
    if !support::is_on_server() {
        return;
    }
    let home = Home::new();
    let server = home.server().expect("tests run on a server");
    let way = Partition::before(server.place());
    let utc = Setup::default().with("TZ", "UTC").with("SCHEDULE_JITTER_MAX_MS", "0");
    let lost = utc.clone().with("DB_URL", &way.instead_of(&server.url())).start_in(home.clone());
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&lost, "Relay A");
    relay.account(&lost, &site, "ada");
    let gate = Gate::new();
    relay.upstream.answer_once(
        "/api/user/checkin",
        Reply::json(200, &json!({"success": true, "message": "签到成功"})).head_waits_for(&gate),
    );
    check_in_soon(&lost);
    support::eventually("the check-in is under way", || (relay.check_ins() == 1).then_some(()));
    let other = utc.start_in(home);
    way.cut();
    support::eventually_within(A_LEASE, "what came of the first cannot be stored", || {
        lost.output().contains("could not be stored").then_some(())
    });
    support::eventually_within(A_LEASE, "its lease may be another's", || {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_millis();
        let held = format!("SELECT COUNT(*) FROM job_leases WHERE job = 'check-in' AND expires_at > {now}");
        (other.home().database().number(&held) == 0).then_some(())
    });
    check_in_soon(&other);
    support::eventually_within(A_LEASE, "the other checks in", || (logs(&other).len() == 1).then_some(()));
    gate.open();
    way.heal();
    support::eventually_within(A_LEASE, "the first one is back", || {
        (lost.admin().get("/api/checkin/logs").status == 200).then_some(())
    });
    support::eventually("it hears of the schedule", || {
        let shown =
            |gateway: &Gateway| gateway.admin().get("/api/settings/runtime").json()["checkinCron"].clone();
        (shown(&lost) == shown(&other)).then_some(())
    });
    assert_eq!(relay.check_ins(), 2, "each of the two times was served once");
    assert_eq!(logs(&other).len(), 1, "what came of the first is nobody's any more");
}

#[test]
fn every_instance_lists_those_that_are_there() {
    if !support::is_on_server() {
        let gateway = Gateway::start();
        let listed = gateway.admin().get("/api/tasks").expect(200)["instances"].clone();
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(listed[0]["isThis"], true);
        return;
    }
    let home = Home::new();
    let [one, mut other] = instances(&home, &Setup::default());
    let listed = |gateway: &Gateway| {
        let listed = gateway.admin().get("/api/tasks").expect(200)["instances"].clone();
        listed.as_array().expect("a list").clone()
    };
    for gateway in [&one, &other] {
        let both = support::eventually("both are listed", || {
            let both = listed(gateway);
            (both.len() == 2).then_some(both)
        });
        assert_eq!(both.iter().filter(|instance| instance["isThis"] == true).count(), 1);
        for instance in both {
            assert_eq!(instance["version"], env!("CARGO_PKG_VERSION"));
            assert!(instance["startedAt"].is_string() && instance["lastSeenAt"].is_string(), "{instance}");
        }
    }
    let metrics = one.admin().get("/metrics").text();
    assert!(metrics.contains("\nswitchyard_instances 2\n"), "{metrics}");
    assert_eq!(metrics.matches("\nswitchyard_instance_info{").count(), 2, "{metrics}");
    other.kill();
    support::eventually_within(A_LEASE, "one that was killed is listed no more", || {
        (listed(&one).len() == 1).then_some(())
    });
}

#[test]
fn who_is_started_in_place_of_a_killed_one_frees_its_leases_and_takes_it_off_the_list() {
    if !support::is_on_server() {
        return;
    }
    let gateway = Gateway::start();
    let home = gateway.home().clone();
    let killed = support::eventually("it is there, and has leases", || {
        let ids = home.database().texts("SELECT id FROM instances");
        let owners = home.database().texts("SELECT owner FROM job_leases WHERE expires_at > 0");
        ids.into_iter().find(|id| owners.contains(id))
    });
    // With kill -9.
    let gateway = gateway.restart();
    let database = home.database();
    assert!(!database.texts("SELECT id FROM instances").contains(&killed));
    let owners = database.texts("SELECT owner FROM job_leases WHERE expires_at > 0");
    assert!(!owners.contains(&killed), "{owners:?}");
    drop(gateway);
}

#[test]
fn a_job_at_an_interval_holds_its_lease_for_half_a_minute_at_a_time_until_its_pass_is_over() {
    if !support::is_on_server() {
        return;
    }
    let gateway = Gateway::start();
    let relay = Relay::start(&["m-a"]);
    let site = relay.site(&gateway, "Relay A");
    relay.account(&gateway, &site, "ada");
    let gate = Gate::new();
    relay.upstream.answer(
        "/api/status",
        Reply::json(200, &json!({"success": true, "data": {"announcements": []}})).head_waits_for(&gate),
    );
    let before = relay.upstream.asked_for("/api/status").len();
    let gateway = gateway.restart();
    support::eventually("the announcements are asked for", || {
        (relay.upstream.asked_for("/api/status").len() > before).then_some(())
    });
    let rest = || {
        let ends = "SELECT expires_at FROM job_leases WHERE job = 'announcements'";
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_millis();
        gateway.home().database().number(ends) - i64::try_from(now).expect("a time")
    };
    assert!((1..=30_000).contains(&rest()), "a killed instance would hold it for {} ms", rest());
    gate.open();
    support::eventually("it is held until well after the next pass", || (rest() > 600_000).then_some(()));
}

const KEY: &str = "sk-shared-by-all-0123456789";

/// Creates a site whose channel for [`MODEL`] every instance has, and a key with these limits.
fn with_key<const N: usize>(gateways: &[Gateway; N], limits: &Value) -> (Upstream, Value) {
    let upstream = Upstream::start(&[MODEL]);
    gateways[0].add("site", &upstream);
    gateways[0].wait_for_channels(MODEL, 1);
    let mut key = json!({"name": "shared", "key": KEY});
    key.as_object_mut().expect("an object").extend(limits.as_object().expect("limits").clone());
    let made = gateways[0].admin().post("/api/downstream-keys", &key).expect(200)["item"].clone();
    for gateway in gateways {
        support::eventually("every instance knows the key and the channel", || {
            let list = gateway.with_token(KEY).get("/v1/models");
            (list.status == 200 && list.text().contains(MODEL)).then_some(())
        });
    }
    (upstream, made)
}

fn chat(gateway: &Gateway) -> Answer {
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]});
    gateway.with_token(KEY).post(CHAT, &body)
}

#[test]
fn a_cooldown_is_seen_by_all_and_so_is_its_end() {
    let Some(gateways) = two_instances() else { return };
    let (upstream, _) = with_key(&gateways, &json!({}));
    let [one, other] = &gateways;
    let cooling = |gateway: &Gateway| {
        gateway.admin().get("/metrics").text().contains("\nswitchyard_channels_cooling 1\n")
    };
    let routes = other.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == MODEL).expect("the route")["id"].clone();
    for _ in 0..2 {
        upstream.answer(CHAT, Reply::json(500, &json!({"error": {"message": "broken"}})));
        assert_ne!(chat(one).status, 200);
        assert!(cooling(one));
        support::eventually("the other leaves it alone", || cooling(other).then_some(()));
        upstream.answer_faithfully();
        other.admin().post(&format!("/api/routes/{route}/cooldown/clear"), &json!({})).expect(200);
        support::eventually("it is cleared everywhere", || (!cooling(one)).then_some(()));
        // The next write of the first instance does not bring the cooldown back.
        assert_eq!(chat(one).status, 200);
        one.admin().get("/api/stats/proxy-logs?limit=1").expect(200);
        support::eventually("it is selected at the other", || (chat(other).status == 200).then_some(()));
        assert!(!cooling(one) && !cooling(other));
    }
}

#[test]
fn what_a_key_uses_at_one_instance_counts_at_all_and_so_does_its_reset() {
    let Some(gateways) = two_instances() else { return };
    let limits = json!({"maxRequests": 1000, "budgets": [{"period": "total", "maxTokens": 1}]});
    let (_upstream, key) = with_key(&gateways, &limits);
    let [one, other] = &gateways;
    assert_eq!(chat(other).status, 200, "its window is open here, and unused: nobody has told of tokens yet");
    support::eventually("the tokens are known where they were used", || {
        (chat(other).status == 429).then_some(())
    });
    support::eventually("and at the other instance", || (chat(one).status == 429).then_some(()));
    one.admin().post(&format!("/api/downstream-keys/{}/reset-usage", key["id"]), &json!({})).expect(200);
    support::eventually("the other hears of the reset", || (chat(other).status == 200).then_some(()));
}

#[test]
fn what_a_key_without_limits_has_used_is_told_alike_by_all() {
    let Some(gateways) = two_instances() else { return };
    let (_upstream, key) = with_key(&gateways, &json!({}));
    let told =
        |gateway: &Gateway| gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone();
    let agree = |requests: i64| {
        support::eventually("both tell the same", || {
            let [one, other] = [0, 1].map(|place| told(&gateways[place]));
            let fields = ["usedRequests", "usedCost", "lastUsedAt"];
            (one["usedRequests"] == requests && fields.iter().all(|field| one[field] == other[field]))
                .then_some(())
        });
    };
    for place in [0, 1, 1, 0, 1] {
        assert_eq!(chat(&gateways[place]).status, 200);
    }
    agree(5);
    gateways[1]
        .admin()
        .post(&format!("/api/downstream-keys/{}/reset-usage", key["id"]), &json!({}))
        .expect(200);
    agree(0);
    assert_eq!(chat(&gateways[0]).status, 200);
    agree(1);
}

#[test]
fn a_key_far_from_its_limit_is_served_while_the_database_is_away() {
    if !support::is_on_server() {
        return;
    }
    let home = Home::new();
    let server = home.server().expect("tests run on a server");
    let way = Partition::before(server.place());
    let gateways = [Setup::default().with("DB_URL", &way.instead_of(&server.url())).start_in(home.clone())];
    let (upstream, _) = with_key(
        &gateways,
        &json!({"maxRequests": 100_000, "budgets": [{"period": "total", "maxRequests": 200_000}]}),
    );
    let before = upstream.asked_for(CHAT).len();
    for _ in 0..160 {
        assert_eq!(chat(&gateways[0]).status, 200);
    }
    way.cut();
    for place in 0..60 {
        assert_eq!(chat(&gateways[0]).status, 200, "request {place} without the database");
    }
    way.heal();
    assert_eq!(upstream.asked_for(CHAT).len(), before + 220);
    support::eventually_within(A_LEASE, "what was used is counted", || {
        let list = gateways[0].admin().get("/api/downstream-keys");
        let used = || list.json()["items"][0]["usedRequests"].clone();
        (list.status == 200 && used() == 220).then_some(())
    });
}

#[test]
fn a_new_seal_key_is_used_by_all() {
    let Some(gateways) = two_instances() else { return };
    let (_upstream, _) = with_key(&gateways, &json!({}));
    let [one, other] = &gateways;
    for _ in 0..2 {
        let task = one.admin().post("/api/settings/maintenance/rotate-seal-key", &json!({})).expect(202);
        one.wait_for_task(&task);
    }
    let opens = |gateway: &Gateway, key: &str| gateway.with_token(key).get("/v1/models").status == 200;
    for (name, maker, reader) in [("from-one", one, other), ("from-other", other, one)] {
        let key = format!("sk-{name}-0123456789");
        maker.admin().post("/api/downstream-keys", &json!({"name": name, "key": key})).expect(200);
        support::eventually("what one has sealed opens at the other", || opens(reader, &key).then_some(()));
    }
    // The upstream's credential and the key were sealed anew.
    support::eventually("the other serves on", || (chat(other).status == 200).then_some(()));
    assert_eq!(chat(one).status, 200);
}

#[test]
fn a_login_may_end_at_another_instance_than_it_began_at() {
    if !support::is_on_server() {
        return;
    }
    let provider = Provider::start("codex", &[MODEL]);
    let home = Home::new();
    let [one, other]: [Gateway; 2] = instances(&home, &provider.setup(Setup::default()));
    let begin = || one.admin().post("/api/oauth/providers/codex/start", &json!({})).expect(200);
    let told = |gateway: &Gateway, login: &Value| {
        let state = login["state"].as_str().expect("a state");
        gateway.admin().get(&format!("/api/oauth/sessions/{state}")).expect(200)["status"].clone()
    };
    let paste = |gateway: &Gateway, login: &Value, back: &str| {
        let state = login["state"].as_str().expect("a state");
        let path = format!("/api/oauth/sessions/{state}/manual-callback");
        gateway.admin().post(&path, &json!({"callbackUrl": back})).status
    };
    let login = begin();
    assert_eq!((told(&one, &login), told(&other, &login)), (json!("pending"), json!("pending")));
    let back = provider.agree(login["authorizationUrl"].as_str().expect("an address"));
    assert_eq!(paste(&other, &login, &back), 200);
    assert_eq!((told(&one, &login), told(&other, &login)), (json!("success"), json!("success")));
    assert_eq!(paste(&one, &login, &back), 409, "a code is used once, wherever it is brought");
    // A login that was denied there has ended here, too.
    let login = begin();
    let denied = format!(
        "http://localhost/cb?error=access_denied&state={}",
        login["state"].as_str().expect("a state")
    );
    assert_eq!(paste(&other, &login, &denied), 500);
    assert_eq!(told(&one, &login), "error");
    let back = provider.agree(login["authorizationUrl"].as_str().expect("an address"));
    assert_eq!(paste(&one, &login, &back), 409);
    assert_eq!((told(&one, &login), told(&other, &login)), (json!("error"), json!("error")));
    // The database holds only sealed details, so its readers cannot complete a login.
    let details = home.database().texts("SELECT details FROM oauth_sessions");
    assert!(details.len() == 2 && details.iter().all(|text| text.starts_with("enc:")), "{details:?}");
}

#[test]
fn a_conversation_goes_on_at_another_instance_although_the_record_of_its_answer_is_late() {
    let home = Home::new();
    let Some(server) = home.server() else { return };
    let [first, second] = instances(&home, &Setup::default());
    let upstream = Upstream::start(&[MODEL]);
    first.add_as(&json!({"name": "site", "platform": "openai"}), &upstream);
    // Where there are several keys, an id that was given to nobody is refused.
    for name in ["ann", "bob"] {
        let key = json!({"name": name, "key": format!("sk-managed-key-of-{name}"), "supportedModels": ["*"]});
        first.admin().post("/api/downstream-keys", &key).expect(200);
    }
    let [at_first, at_second] = [&first, &second].map(|gateway| gateway.with_token("sk-managed-key-of-ann"));
    let asked = json!({"model": MODEL, "stream": true, "input": "One"});
    support::eventually("the second serves the key", || {
        (at_second.post("/v1/responses", &asked).status == 200).then_some(())
    });
    // The record can be read and not written.
    let (lock, is_locked) = match server.kind() {
        "postgres" => (
            "BEGIN; LOCK TABLE proxy_response_ids IN SHARE MODE; SELECT pg_sleep(0.5)",
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
        ),
        _ => (
            "LOCK TABLES proxy_response_ids READ; SELECT SLEEP(0.5); UNLOCK TABLES",
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User sleep'",
        ),
    };
    let say = json!({"role": "user", "content": "Two"});
    for (id, two) in [
        ("late", json!({"model": MODEL, "input": [say], "previous_response_id": "resp_late"})),
        ("later", json!({"model": MODEL, "input": [{"type": "item_reference", "id": "msg_later"}, say]})),
    ] {
        let events = wire::response_events(MODEL).into_iter().map(|event| event.replace("stub", id));
        upstream.answer_once("/v1/responses", Reply::events(events));
        thread::scope(|scope| {
            scope.spawn(|| server.open().run(lock));
            support::eventually("the table is locked", || {
                (server.open().number(is_locked) > 0).then_some(())
            });
            let one = at_first.post("/v1/responses", &asked);
            assert!(one.status == 200 && one.text().contains(id), "{}", one.text());
            at_second.post("/v1/responses", &two).expect(200);
        });
        let sent = upstream.last("/v1/responses").json();
        assert_eq!(
            (&sent["previous_response_id"], &sent["input"]),
            (&two["previous_response_id"], &two["input"])
        );
    }
}
