//! A stub site of the new-api family, as far as its users see it: their session, their balance, the daily check-in, the
//! notice. The formats are those that new-api serves.

use serde_json::{Value, json};

use super::{Gateway, Reply, Upstream};

/// The id of the only user.
pub const USER: i64 = 11;
const SESSION: &str = "pat-of-the-relay";

/// A stub site.
pub struct Relay {
    pub upstream: Upstream,
}

impl Relay {
    /// Starts a site with one user, who has 3 USD left and 0.5 USD used; a check-in adds 0.025 USD.
    pub fn start(models: &[&str]) -> Self {
        let upstream = Upstream::start(models);
        let relay = Self { upstream };
        relay.says(
            "/api/status",
            &json!({"version": "v1.0.0", "start_time": 1_767_225_600,
            "system_name": "Relay", "quota_per_unit": 500_000, "turnstile_check": false, "setup": true,
            "checkin_enabled": true, "quota_display_type": "USD"}),
        );
        relay.has(1_500_000, 250_000);
        relay.says("/api/token/", &json!({"items": [], "total": 0, "page": 1, "page_size": 100}));
        relay.says("/api/log/self", &json!({"items": [], "total": 0, "page": 1, "page_size": 100}));
        relay.says("/api/notice", &json!(""));
        relay.checks_in(&json!({"success": true, "message": "签到成功",
            "data": {"quota_awarded": 12_500, "checkin_date": "2026-03-01"}}));
        relay
    }

    /// Sets what the user has left and has used, in units of which 500,000 are a dollar.
    pub fn has(&self, quota: i64, used: i64) {
        self.says(
            "/api/user/self",
            &json!({"id": USER, "username": "ada", "display_name": "Ada", "role": 1, "status": 1,
                "email": "ada@example.com", "group": "default", "quota": quota, "used_quota": used,
                "request_count": 3}),
        );
    }

    /// Sets the whole answer to a check-in.
    pub fn checks_in(&self, answer: &Value) {
        self.upstream.answer("/api/user/checkin", Reply::json(200, answer));
    }

    /// Sets the `data` of a successful answer.
    pub fn says(&self, path: &str, data: &Value) {
        let answer = json!({"success": true, "message": "", "data": data});
        self.upstream.answer(path, Reply::json(200, &answer));
    }

    /// Returns how many check-ins were requested.
    pub fn check_ins(&self) -> usize {
        self.upstream.asked_for("/api/user/checkin").len()
    }

    /// Creates the site of this stub.
    #[track_caller]
    pub fn site(&self, gateway: &Gateway, name: &str) -> Value {
        gateway.create_site(&json!({"name": name, "platform": "new-api", "url": self.upstream.url()}))
    }

    /// Creates a session account there, and waits until everything about it has been read.
    #[track_caller]
    pub fn account(&self, gateway: &Gateway, site: &Value, username: &str) -> Value {
        let body = json!({"siteId": site["id"], "accessToken": format!("{SESSION}-{username}"),
            "credentialMode": "session", "platformUserId": USER, "username": username});
        let account = gateway.admin().post("/api/accounts", &body).expect(200);
        if account["jobId"].is_string() {
            gateway.wait_for_task(&account);
        }
        account
    }
}

impl Gateway {
    /// Returns an account as the list shows it now.
    #[track_caller]
    pub fn account(&self, id: &Value) -> Value {
        let list = self.admin().get("/api/accounts?refresh=1").expect(200);
        let accounts = list["accounts"].as_array().expect("accounts");
        accounts.iter().find(|account| account["id"] == *id).expect("the account").clone()
    }

    /// Returns the events of a type, newest first.
    #[track_caller]
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.admin().get(&format!("/api/events?limit=500&type={kind}")).expect(200);
        events.as_array().expect("events").clone()
    }

    /// Waits for the task that an answer names; returns its result.
    #[track_caller]
    pub fn result_of_task(&self, answer: &Value) -> Value {
        let task = self.wait_for_task(answer);
        assert_eq!(task["status"], "succeeded", "{task}");
        task["result"].clone()
    }
}
