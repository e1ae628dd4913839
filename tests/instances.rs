//! Several instances on one database: what one does for all is done once, whatever is killed or cut off. They need a
//! server, which `make test-databases` starts.

mod support;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Answer, Gate, Gateway, Home, Partition, Provider, Relay, Reply, Request, Setup};

const MODEL: &str = "model-shared";
/// A lease lasts half of that, and who waits for it looks every second.
const A_LEASE: Duration = Duration::from_secs(75);

/// Instances on one database.
fn instances<const N: usize>(home: &Arc<Home>, setup: &Setup) -> [Gateway; N] {
    [(); N].map(|()| setup.clone().start_in(home.clone()))
}

fn ask(gateway: &Gateway) -> Answer {
    gateway.client().send(
        Request::post("/v1/responses").json(&json!({"model": MODEL, "stream": true, "input": "Which way?"})),
    )
}

/// Gives the account of a stub to a gateway, as a file of the CLI has it.
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
    // More tries than a failure of another kind gets.
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

/// Has check-ins begin in two seconds, and not again for a day.
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
    support::eventually_within(A_LEASE, "its lease may be another's", || {
        lost.output().contains("is lost to another instance, or may be").then_some(())
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
