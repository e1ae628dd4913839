//! The actions of an operator and a browser in a login.

use serde_json::{Value, json};

use crate::support::{Answer, Caller, Gateway, Provider};

pub trait Operator {
    fn begin(&self, provider: &Provider, body: &Value) -> Value;
    fn session(&self, started: &Value) -> Value;
    fn paste(&self, started: &Value, url: &str) -> Answer;
    fn connect(&self, provider: &Provider) -> Value;
    fn accounts(&self) -> Vec<Value>;
}

impl Operator for Gateway {
    #[track_caller]
    fn begin(&self, provider: &Provider, body: &Value) -> Value {
        self.admin().post(&format!("/api/oauth/providers/{}/start", provider.id), body).expect(200)
    }

    #[track_caller]
    fn session(&self, started: &Value) -> Value {
        self.admin().get(&format!("/api/oauth/sessions/{}", text(&started["state"]))).expect(200)
    }

    fn paste(&self, started: &Value, url: &str) -> Answer {
        let path = format!("/api/oauth/sessions/{}/manual-callback", text(&started["state"]));
        self.admin().post(&path, &json!({"callbackUrl": url}))
    }

    /// Logs in and returns the finished session.
    #[track_caller]
    fn connect(&self, provider: &Provider) -> Value {
        let started = self.begin(provider, &json!({}));
        let back = provider.agree(text(&started["authorizationUrl"]));
        assert_eq!(browse(&back).status, 200);
        let session = self.session(&started);
        assert_eq!(session["status"], "success", "{session}");
        session
    }

    #[track_caller]
    fn accounts(&self) -> Vec<Value> {
        self.admin().get("/api/accounts?refresh=1").expect(200)["accounts"]
            .as_array()
            .expect("a list")
            .clone()
    }
}

#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}"))
}

/// Follows an address on this machine, as a browser does.
#[track_caller]
pub fn browse(url: &str) -> Answer {
    let (authority, target) = split(url);
    Caller::new(authority).get(&target)
}

#[track_caller]
pub fn split(url: &str) -> (std::net::SocketAddr, String) {
    let rest = url.strip_prefix("http://").expect("an address in clear");
    let (authority, target) = rest.split_once('/').expect("a path");
    let address = authority.replace("localhost", "127.0.0.1").parse().expect("an address");
    (address, format!("/{target}"))
}

pub trait ExpectStatus {
    fn expect_status(&self, status: u16);
}

impl ExpectStatus for Answer {
    #[track_caller]
    fn expect_status(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text());
    }
}
