//! Limits and budgets of keys over three instances, used by one client at a time and by two hundred, while one instance is
//! killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{self, Caller, Database, Gateway, Home, Reply, Setup, Upstream, wire};

const MODEL: &str = "model-shared";
const MANY: usize = 200;
/// The cost of a request, in cents.
const CENTS: i64 = 10;

/// Three instances, and a site for which each of them has a channel.
struct World {
    gateways: Vec<Gateway>,
    upstream: Upstream,
}

/// A key, and the row that counts it.
struct Holder {
    token: String,
    database: Database,
    id: i64,
}

// === impl World ===

impl World {
    /// Starts the instances; `None` if tests do not run on a server.
    fn start() -> Option<Self> {
        support::is_on_server().then_some(())?;
        let (home, upstream) = (Home::new(), Upstream::start(&[MODEL]));
        let mut reply = wire::chat(MODEL);
        // 500,000 tokens cost a dollar.
        reply["usage"] =
            json!({"prompt_tokens": 40_000, "completion_tokens": 10_000, "total_tokens": 50_000});
        upstream.answer(CHAT, Reply::json(200, &reply));
        let gateways: Vec<_> = (0..3).map(|_| Setup::default().start_in(Arc::clone(&home))).collect();
        gateways[0].add("site", &upstream);
        gateways[0].wait_for_channels(MODEL, 1);
        Some(Self { gateways, upstream })
    }

    /// Creates a key with these limits, known to all instances.
    fn key(&self, name: &str, limits: &Value) -> Holder {
        let token = format!("sk-{name}-0123456789");
        let mut key = json!({"name": name, "key": token});
        key.as_object_mut().expect("an object").extend(limits.as_object().expect("limits").clone());
        let made = self.gateways[0].admin().post("/api/downstream-keys", &key).expect(200);
        let id = made["item"]["id"].as_i64().expect("a number");
        let holder = Holder { token, database: self.gateways[0].home().database(), id };
        for caller in self.callers(&holder) {
            support::eventually("every instance knows the key and the channel", || {
                let list = caller.get("/v1/models");
                (list.status == 200 && list.text().contains(MODEL)).then_some(())
            });
        }
        holder
    }

    fn callers(&self, holder: &Holder) -> Vec<Caller> {
        let bearer = format!("Bearer {}", holder.token);
        self.gateways.iter().map(|gateway| gateway.anyone().with("authorization", &bearer)).collect()
    }

    /// Makes several clients go from instance to instance until all instances refuse; one is killed once the given number
    /// of requests has passed. Returns how many passed, as the clients saw it.
    fn spend(&mut self, holder: &Holder, clients: usize, killed_after: Option<i64>) -> i64 {
        let (callers, passed) = (self.callers(holder), AtomicI64::new(0));
        thread::scope(|scope| {
            for client in 0..clients {
                let (callers, passed) = (&callers, &passed);
                scope.spawn(move || go_round(callers, client, || count(passed)));
            }
            if let Some(count) = killed_after {
                support::eventually("some pass", || (passed.load(Ordering::SeqCst) >= count).then_some(()));
                self.gateways[2].kill();
            }
        });
        if killed_after.is_some() {
            let killed = self.gateways.pop().expect("three");
            self.gateways.push(killed.restart());
            go_round(&self.callers(holder), 0, || count(&passed));
        }
        passed.into_inner()
    }

    /// Returns what a key has cost, once each instance has stored what it knows.
    fn stored_cents(&self, holder: &Holder) -> i64 {
        for gateway in &self.gateways {
            gateway.admin().get("/api/stats/proxy-logs?limit=1").expect(200);
        }
        holder.cents()
    }

    fn asked(&self) -> i64 {
        i64::try_from(self.upstream.asked_for(CHAT).len()).expect("a count")
    }
}

fn count(passed: &AtomicI64) {
    passed.fetch_add(1, Ordering::SeqCst);
}

/// Sends one request after the other, each to the next instance, until each of them has refused one. A killed instance does
/// not answer.
fn go_round(callers: &[Caller], first: usize, mut passed: impl FnMut()) {
    let mut refused = 0;
    for place in first.. {
        match callers[place % callers.len()].try_send(Caller::chat_ask(MODEL, false)) {
            Ok(answer) if answer.status == 200 => {
                passed();
                refused = 0;
            }
            Ok(answer) => {
                assert!([403, 429].contains(&answer.status), "{} {}", answer.status, answer.text());
                refused += 1;
            }
            Err(_) => refused += 1,
        }
        if refused == callers.len() {
            return;
        }
    }
}

// === impl Holder ===

impl Holder {
    /// Returns its stored cost, in cents.
    fn cents(&self) -> i64 {
        let sql = format!("SELECT used_cost FROM downstream_api_keys WHERE id = {}", self.id);
        (self.database.text(&sql).parse::<f64>().expect("a sum") * 100.0).round() as i64
    }
}

#[test]
fn limits_of_requests_hold_to_the_request_over_three_instances_of_which_one_is_killed() {
    let Some(mut world) = World::start() else { return };
    let most = 600;
    for (clients, kind, limits) in [
        (1, "budget-by-one", json!({"budgets": [{"period": "day", "maxRequests": most}]})),
        (1, "limit-by-one", json!({"maxRequests": most})),
        (
            MANY,
            "budget-by-many",
            json!({"budgets": [{"period": "day", "maxRequests": most}, {"period": "5h", "maxRequests": 650}]}),
        ),
        (MANY, "limit-by-many", json!({"maxRequests": most, "budgets": [{"period": "day", "maxCost": 1e6}]})),
    ] {
        let before = world.asked();
        let holder = world.key(kind, &limits);
        let passed = world.spend(&holder, clients, Some(most / 4));
        let reached = world.asked() - before;
        assert!(passed <= reached && reached <= most, "{kind}: {passed} passed, {reached} reached the site");
        assert!(reached >= most * 3 / 4, "{kind}: the killed one had little reserved: {reached}");
        let holder = world.key(&format!("{kind}-in-peace"), &limits);
        let passed = world.spend(&holder, clients, None);
        assert_eq!(passed, most, "{kind}");
    }
}

#[test]
fn a_budget_of_money_holds_over_three_instances_for_one_client_whose_requests_are_stored() {
    let Some(world) = World::start() else { return };
    for (kind, limits) in [
        ("day", json!({"budgets": [{"period": "day", "maxCost": 2.0}, {"period": "week", "maxCost": 9.0}]})),
        ("tokens", json!({"budgets": [{"period": "day", "maxTokens": 1_000_000}]})),
        ("total", json!({"maxCost": 2.0})),
    ] {
        let holder = world.key(kind, &limits);
        let mut passed = 0;
        go_round(&world.callers(&holder), 0, || {
            passed += 1;
            support::eventually("it is stored", || (holder.cents() == passed * CENTS).then_some(()));
            assert!(passed < 100, "{kind}: it is never refused");
        });
        assert_eq!(passed, 20, "{kind}");
    }
}

#[test]
fn a_budget_of_money_is_passed_by_no_more_than_what_is_under_way_on_three_instances() {
    let Some(mut world) = World::start() else { return };
    let most = 10_000;
    let limits = json!({"budgets": [{"period": "day", "maxCost": most / 100}], "maxCost": most / 100 + 1});
    for killed_after in [None, Some(300)] {
        let holder = world.key(&format!("spender-{}", killed_after.is_some()), &limits);
        let passed = world.spend(&holder, MANY, killed_after);
        let spent = world.stored_cents(&holder);
        // Each client has one request under way, and one that another instance is still storing.
        let under_way = 2 * i64::try_from(MANY).expect("a count") * CENTS;
        assert!(spent >= most, "{spent} cents of {most}, {passed} passed");
        assert!(spent <= most + under_way, "{spent} cents of {most}, {passed} passed");
        match killed_after {
            None => assert_eq!(spent, passed * CENTS, "all that passed is counted"),
            Some(_) => assert!(spent <= (passed + 200) * CENTS, "{spent} cents, {passed} passed"),
        }
    }
}
