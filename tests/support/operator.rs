//! An operator's actions with the admin API, and the most common requests of clients.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Caller, Gateway, Reply, Request, Upstream, eventually};

/// Returns how many seconds from now a time in an answer is (`2026-05-01T08:00:00.000Z`).
#[track_caller]
pub fn seconds_ahead(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    let numbers: Vec<i64> =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, second, ..] = numbers[..] else { panic!("no time: {text}") };
    // Days since 1970 of a Gregorian date, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    days * 86_400 + hour * 3600 + minute * 60 + second - since_1970.as_secs() as i64
}

/// Two upstreams with the same model behind one gateway. Selection is weighted, and the first weighs so much more that the
/// second is never drawn first.
pub struct Pair {
    pub gateway: Gateway,
    pub first: Upstream,
    pub second: Upstream,
}

impl Pair {
    pub const MODEL: &'static str = "model-pair";

    pub fn start() -> Self {
        Self::with(&[])
    }

    pub fn with(variables: &[(&str, &str)]) -> Self {
        Self::on("openai", variables)
    }

    /// Creates the pair with both sites on this platform.
    pub fn on(platform: &str, variables: &[(&str, &str)]) -> Self {
        let pair = Self::of_sites(platform, variables);
        pair.gateway.make_first_choice(Self::MODEL, "first");
        pair
    }

    /// Creates a pair whose first *site* weighs ten thousand times as much as the second; channels keep their default
    /// weights.
    pub fn of_sites(platform: &str, variables: &[(&str, &str)]) -> Self {
        // One attempt per upstream: trying another dialect of the same site is not tested here.
        let one_dialect = ("DISABLE_CROSS_PROTOCOL_FALLBACK", "true");
        let gateway = Gateway::with(&[variables, &[one_dialect]].concat());
        let (first, second) = (Upstream::start(&[Self::MODEL]), Upstream::start(&[Self::MODEL]));
        let offers = [(&first, "first", 100.0), (&second, "second", 0.01)];
        let accounts = offers.map(|(upstream, name, weight)| {
            let site = gateway.create_site(&json!({"name": name, "url": upstream.url(),
                "platform": platform, "globalWeight": weight}));
            gateway.create_account(&site, "sk-upstream-key")
        });
        // A listed channel is not yet routed: that is sure only once its task is done.
        for account in &accounts {
            gateway.wait_for_task(account);
        }
        gateway.wait_for_channels(Self::MODEL, 2);
        Self { gateway, first, second }
    }

    /// Returns the channel of the site `first` or `second`.
    #[track_caller]
    pub fn channel(&self, name: &str) -> Value {
        let channels = self.gateway.channels(Self::MODEL);
        let found = channels.into_iter().find(|channel| channel["site"]["name"] == name);
        found.unwrap_or_else(|| panic!("no channel of the site {name}"))
    }
}

impl Gateway {
    /// Starts a gateway and an upstream with these models behind it.
    #[track_caller]
    pub fn serving(models: &[&str]) -> (Self, Upstream) {
        Self::serving_as("openai", models)
    }

    /// Does what [`Gateway::serving`] does, and also returns the account.
    #[track_caller]
    pub fn with_account(models: &[&str]) -> (Self, Upstream, Value) {
        let (gateway, upstream) = (Self::start(), Upstream::start(models));
        let (_, account) = gateway.add("site", &upstream);
        (gateway, upstream, account)
    }

    /// Does what [`Gateway::serving`] does, with a site of this platform.
    #[track_caller]
    pub fn serving_as(platform: &str, models: &[&str]) -> (Self, Upstream) {
        let stub = if platform == "gemini" { Upstream::of_google } else { Upstream::start };
        let upstream = stub(models);
        (Self::start().in_front_of(platform, &upstream), upstream)
    }

    /// Adds a site of this platform for a stub, with an account, and routes its models.
    #[track_caller]
    pub fn in_front_of(self, platform: &str, upstream: &Upstream) -> Self {
        self.add_as(&json!({"name": "site", "platform": platform}), upstream);
        self
    }

    /// Makes several clients with this key request the model at once, each several times. Returns how many requests were
    /// served; `refused` checks the other answers.
    #[track_caller]
    pub fn served_of_crowd(
        &self,
        (key, model): (&str, &str),
        (clients, requests): (usize, usize),
        refused: impl Fn(&Answer) + Sync,
    ) -> usize {
        let served = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    let client = self.with_token(key);
                    for _ in 0..requests {
                        let answer = client.chat(model);
                        match answer.status {
                            200 => drop(served.fetch_add(1, Ordering::Relaxed)),
                            _ => refused(&answer),
                        }
                    }
                });
            }
        });
        served.into_inner()
    }

    /// Kills it several times while four clients request this model with this key, then sends requests until the key has
    /// nothing left: no more than `most` requests pass, and nearly as many do.
    #[track_caller]
    pub fn lets_pass_despite_kills(mut self, most: usize, kills: usize, (key, model): (&str, &str)) {
        let mut passed = 0;
        for round in 1..=kills {
            let here = AtomicUsize::new(0);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let (client, here, over) = (self.with_token(key), &here, &over);
                    scope.spawn(move || {
                        while !over.load(Ordering::SeqCst) {
                            match client.try_send(Caller::chat_ask(model, false)) {
                                Ok(answer) if answer.status == 200 => {
                                    here.fetch_add(1, Ordering::SeqCst);
                                }
                                _ => break,
                            }
                        }
                    });
                }
                eventually("some pass", || (here.load(Ordering::SeqCst) >= 40).then_some(()));
                self.kill();
                over.store(true, Ordering::SeqCst);
            });
            passed += here.into_inner();
            self = self.restart();
            assert!(passed <= most, "round {round}: {passed}");
        }
        let client = self.with_token(key);
        while client.chat(model).status == 200 {
            passed += 1;
            assert!(passed <= most, "{passed} passed");
        }
        assert!(
            passed >= most - kills * 40,
            "a kill loses no more than what was reserved or under way: {passed}"
        );
    }

    /// Gives a site's channel of a model so much weight that a weighted choice always takes it if it may be chosen: sites'
    /// weights differ by a factor of ten thousand at most, so a thousand tests would meet the other one now and then.
    #[track_caller]
    pub fn make_first_choice(&self, model: &str, site: &str) {
        let channels = self.channels(model);
        let first = channels.iter().find(|channel| channel["site"]["name"] == site);
        let id = &first.unwrap_or_else(|| panic!("no channel of the site {site}"))["id"];
        self.admin().put(&format!("/api/channels/{id}"), &json!({"weight": 1_000_000_000})).expect(200);
    }

    /// Starts a stub that receives the gateway's notices at `/hook`.
    #[track_caller]
    pub fn send_notices_to_a_webhook(&self) -> Upstream {
        let hook = Upstream::start(&[]);
        hook.answer("/hook", Reply::json(200, &json!({})));
        let url = format!("{}/hook", hook.url());
        let settings = json!({"webhookEnabled": true, "webhookUrl": url});
        self.admin().put("/api/settings/runtime", &settings).expect(200);
        hook
    }

    #[track_caller]
    pub fn create_site(&self, site: &Value) -> Value {
        self.admin().post("/api/sites", site).expect(200)
    }

    /// Adds a site of Codex with a key. It lists no models, so the operator names one.
    #[track_caller]
    pub fn add_codex(&self, upstream: &Upstream, model: &str) {
        let site = self.create_site(&json!({"name": "codex", "platform": "codex", "url": upstream.url()}));
        let account = json!({"siteId": site["id"], "accessToken": "sk-upstream-key",
            "credentialMode": "apikey", "skipModelFetch": true});
        let account = self.admin().post("/api/accounts", &account).expect(200);
        let models = format!("/api/accounts/{}/models/manual", account["id"]);
        self.admin().post(&models, &json!({"models": [model]})).expect(200);
        self.wait_for_channels(model, 1);
    }

    /// Creates an API-key account on a site; discovery runs in the background.
    #[track_caller]
    pub fn create_account(&self, site: &Value, key: &str) -> Value {
        let account = json!({"siteId": site["id"], "accessToken": key, "credentialMode": "apikey"});
        self.admin().post("/api/accounts", &account).expect(200)
    }

    /// Adds a site and an account for a stub, and routes its models.
    #[track_caller]
    pub fn add(&self, name: &str, upstream: &Upstream) -> (Value, Value) {
        self.add_as(&json!({"name": name, "platform": "openai"}), upstream)
    }

    /// Does what [`Gateway::add`] does, with more fields of the site.
    #[track_caller]
    pub fn add_as(&self, site: &Value, upstream: &Upstream) -> (Value, Value) {
        let mut site = site.clone();
        site["url"] = json!(upstream.url());
        let site = self.create_site(&site);
        let account = self.create_account(&site, "sk-upstream-key");
        self.wait_for_task(&account);
        (site, account)
    }

    /// Waits for the task named by `jobId` in an answer; returns the finished task.
    #[track_caller]
    pub fn wait_for_task(&self, answer: &Value) -> Value {
        let id = answer["jobId"].as_str();
        let path = format!("/api/tasks/{}", id.unwrap_or_else(|| panic!("no jobId in {answer}")));
        eventually("the background task ends", || {
            // Rarely enough for the limit of requests, where a test leaves it at its default.
            std::thread::sleep(Duration::from_millis(20));
            let task = self.admin().get(&path).expect(200)["task"].clone();
            matches!(task["status"].as_str(), Some("succeeded" | "failed")).then_some(task)
        })
    }

    /// Waits until a model has this many channels.
    #[track_caller]
    pub fn wait_for_channels(&self, model: &str, count: usize) -> Vec<Value> {
        eventually(&format!("{model} has {count} channels"), || {
            // Rarely enough for the rate limit of this list, where a test leaves it at its default.
            std::thread::sleep(Duration::from_millis(40));
            let channels = self.channels(model);
            (channels.len() == count).then_some(channels)
        })
    }

    #[track_caller]
    pub fn routes(&self) -> Vec<Value> {
        let routes = self.admin().get("/api/routes").expect(200);
        routes.as_array().expect("an array of routes").clone()
    }

    /// Returns the route with exactly this pattern.
    #[track_caller]
    pub fn route(&self, pattern: &str) -> Value {
        let found = self.routes().into_iter().find(|route| route["modelPattern"] == pattern);
        found.unwrap_or_else(|| panic!("no route {pattern}"))
    }

    /// Returns the channels of the route with exactly this pattern; none without a route.
    #[track_caller]
    pub fn channels(&self, model: &str) -> Vec<Value> {
        let routes = self.routes();
        let route = routes.iter().find(|route| route["modelPattern"] == model);
        route.and_then(|route| route["channels"].as_array().cloned()).unwrap_or_default()
    }

    /// Returns the ids that a client sees at `/v1/models`.
    #[track_caller]
    pub fn models(&self) -> Vec<String> {
        let list = self.client().get("/v1/models").expect(200);
        let items = list["data"].as_array().expect("a list").iter();
        items.map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Returns the proxy log, newest first.
    #[track_caller]
    pub fn logs(&self) -> Vec<Value> {
        let page = self.admin().get("/api/stats/proxy-logs?limit=100").expect(200);
        page["items"].as_array().expect("items").clone()
    }

    /// Waits for this many rows about one upstream path; returns them oldest first.
    #[track_caller]
    pub fn wait_for_logs_of(&self, path: &str, count: usize) -> Vec<Value> {
        let tag = format!("[upstream:{path}]");
        let of_path = |row: &Value| row["errorMessage"].as_str().is_some_and(|text| text.contains(&tag));
        let mut rows = eventually(&format!("the log has {count} rows about {path}"), || {
            let rows: Vec<_> = self.logs().into_iter().filter(of_path).collect();
            (rows.len() >= count).then_some(rows)
        });
        assert_eq!(rows.len(), count, "{rows:#?}");
        rows.reverse();
        rows
    }

    /// Waits until the log has this many rows; returns them oldest first.
    #[track_caller]
    pub fn wait_for_logs(&self, count: usize) -> Vec<Value> {
        let mut rows = eventually(&format!("the log has {count} rows"), || {
            let rows = self.logs();
            (rows.len() >= count).then_some(rows)
        });
        assert_eq!(rows.len(), count, "{rows:#?}");
        rows.sort_by_key(|row| row["id"].as_i64());
        rows
    }
}

impl Caller {
    /// Requests a chat completion for a model, not streamed.
    pub fn chat(&self, model: &str) -> Answer {
        self.send(Self::chat_ask(model, false))
    }

    /// Requests a streamed chat completion for a model, and reads it to its clean end.
    #[track_caller]
    pub fn chat_streamed(&self, model: &str) -> Answer {
        self.stream(Self::chat_ask(model, true)).whole()
    }

    pub fn chat_ask(model: &str, streamed: bool) -> Request {
        let body = json!({"model": model, "stream": streamed,
            "messages": [{"role": "user", "content": "Which way?"}]});
        Request::post("/v1/chat/completions").json(&body)
    }
}
