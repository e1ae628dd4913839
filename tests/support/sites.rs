//! Stub sites: each platform's management API as its real program answers, beside the data plane of [`Upstream`]. They have
//! one user, Ada, with a balance, keys, a check-in and a notice.
//!
//! | file | programs | formats from |
//! |---|---|---|
//! | `family.rs` | new-api, anyrouter, one-api, one-hub, done-hub, veloera | the programs' sources, named there |
//! | `sub2api.rs` | sub2api | the program's source, named there |
//!
//! Faults are scripted as on any stub: replies set with [`Upstream::answer`] take precedence.

mod family;
mod sub2api;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;

use super::{ReceivedRequest, Reply, Upstream};

/// The program that the stub plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    NewApi,
    AnyRouter,
    OneApi,
    OneHub,
    DoneHub,
    Veloera,
    Sub2Api,
}

/// A stub site; its port closes when it is dropped.
pub struct Site {
    pub program: Program,
    upstream: Upstream,
    ada: Arc<Mutex<Ada>>,
}

/// The stub's one user, and the site's public data.
pub struct Ada {
    pub id: i64,
    /// The personal access token, or sub2api's JWT.
    pub token: String,
    /// The value of the session cookie.
    pub cookie: String,
    pub password: String,
    /// The balance, in units; sub2api counts dollars, 500,000 units each.
    pub quota: i64,
    pub used: i64,
    /// The number of units per dollar.
    pub quota_per_unit: i64,
    /// The units that a check-in adds.
    pub award: i64,
    pub checked_in: bool,
    pub keys: Vec<StubKey>,
    pub groups: Vec<String>,
    pub notice: String,
    /// sub2api's refresh token; replaced at every use.
    pub refresh_token: String,
    pub refreshes: usize,
    models: Vec<String>,
}

#[derive(Clone)]
pub struct StubKey {
    pub id: i64,
    /// The key as the site keeps it; clients send it with `sk-` in front.
    pub key: String,
    pub name: String,
    pub enabled: bool,
    pub group: String,
}

// === impl Program ===

impl Program {
    pub const ALL: [Self; 7] = [
        Self::NewApi,
        Self::AnyRouter,
        Self::OneApi,
        Self::OneHub,
        Self::DoneHub,
        Self::Veloera,
        Self::Sub2Api,
    ];

    /// Returns the platform's identifier.
    pub fn platform(self) -> &'static str {
        match self {
            Self::NewApi => "new-api",
            Self::AnyRouter => "anyrouter",
            Self::OneApi => "one-api",
            Self::OneHub => "one-hub",
            Self::DoneHub => "done-hub",
            Self::Veloera => "veloera",
            Self::Sub2Api => "sub2api",
        }
    }

    pub fn checks_in(self) -> bool {
        matches!(self, Self::NewApi | Self::AnyRouter | Self::Veloera)
    }
}

// === impl Site ===

impl Site {
    /// Starts a site with these models, where Ada has three dollars left, half a dollar used and one key.
    pub fn start(program: Program, models: &[&str]) -> Self {
        let ada = Arc::new(Mutex::new(Ada {
            id: 7659,
            token: match program {
                Program::Sub2Api => "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln".to_owned(),
                _ => "pat-of-ada-4f1c9b2e77aa".to_owned(),
            },
            cookie: "MTc2NzIyNTYwMHxiZz09fHNpZw".to_owned(),
            password: "correct horse".to_owned(),
            quota: 1_500_000,
            used: 250_000,
            quota_per_unit: 500_000,
            award: 12_500,
            checked_in: false,
            keys: vec![StubKey {
                id: 7,
                key: "abcd0123456789012345678901234567890123456789wxyz".to_owned(),
                name: "cli".to_owned(),
                enabled: true,
                group: "default".to_owned(),
            }],
            groups: vec!["default".to_owned(), "vip".to_owned()],
            notice: "Maintenance on Sunday".to_owned(),
            refresh_token: "rt_first".to_owned(),
            refreshes: 0,
            models: models.iter().map(|&model| model.to_owned()).collect(),
        }));
        let upstream = Upstream::start(models);
        let serving = Arc::clone(&ada);
        upstream.serve(move |asked| {
            let mut ada = serving.lock().expect("no panic there");
            match program {
                Program::Sub2Api => sub2api::answer(&mut ada, asked),
                _ => family::answer(program, &mut ada, asked),
            }
        });
        Self { program, upstream, ada }
    }

    /// Locks the site's state, to look at and to change.
    pub fn ada(&self) -> MutexGuard<'_, Ada> {
        self.ada.lock().expect("no panic there")
    }

    /// Returns the session token as an operator pastes it.
    pub fn token(&self) -> String {
        self.ada().token.clone()
    }
}

impl Deref for Site {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

// === impl Ada ===

impl Ada {
    /// Refuses a request without an enabled key, as the relay does; `None` lets it in.
    fn refuse_key(&self, asked: &ReceivedRequest, kind: &str) -> Option<Reply> {
        let shown = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let shown = shown.or(asked.header("x-api-key")).unwrap_or_default();
        let shown = shown.strip_prefix("sk-").unwrap_or(shown);
        if self.keys.iter().any(|key| key.enabled && key.key.trim_start_matches("sk-") == shown) {
            return None;
        }
        // The answer of new-api's and one-api's relay to an unknown key.
        let error = json!({"error": {"message": "无效的令牌", "type": kind}});
        Some(Reply::json(401, &error))
    }

    fn add_key(&mut self, name: &str, group: &str) -> i64 {
        let id = self.keys.iter().map(|key| key.id).max().unwrap_or(0) + 1;
        self.keys.push(StubKey {
            id,
            key: format!("made{id:040}tail"),
            name: name.to_owned(),
            enabled: true,
            group: group.to_owned(),
        });
        id
    }
}
