//! The headers that the operator sets for Codex, over HTTP and over WebSockets.

use serde_json::{Value, json};

use super::codex::{Asked, Codex, Talk};
use super::{MODEL, SWITCH, gateway, gateway_in, question};
use crate::support::{Caller, Gateway, Home, Request, Setup, Upstream};

const AGENT: &str = "CODEX_HEADER_DEFAULTS_USER_AGENT";
const FEATURES: &str = "CODEX_HEADER_DEFAULTS_BETA_FEATURES";

/// Returns the user agent and the beta features of a request.
fn told(asked: &Asked) -> (Option<&str>, Option<&str>) {
    (asked.header("user-agent"), asked.header("x-codex-beta-features"))
}

/// Sends a question with these client headers; returns the request that Codex received.
fn ask(gateway: &Gateway, codex: &Codex, said: &[(&str, &str)]) -> Asked {
    let request = said.iter().fold(question(false), |request, (name, value)| request.header(name, value));
    gateway.client().send(request).expect(200);
    codex.asked().pop().expect("it was asked")
}

fn save(gateway: &Gateway, defaults: &Value) {
    let body = json!({"codexHeaderDefaults": defaults});
    gateway.admin().put("/api/settings/runtime", &body).expect(200);
}

#[test]
fn the_operators_agent_replaces_the_clients_and_features_are_named_on_sockets_alone() {
    let variables = [(AGENT, "operator/1 (x)"), (FEATURES, "one,two")];
    for (over_sockets, method, features) in [("true", "GET", Some("one,two")), ("false", "POST", None)] {
        let codex = Codex::start(Talk::answer);
        let setup =
            Setup::default().with(variables[0].0, variables[0].1).with(variables[1].0, variables[1].1);
        let gateway = gateway_in(setup.with(SWITCH.0, over_sockets), Home::new(), &[&codex]);
        let silent = ask(&gateway, &codex, &[]);
        assert_eq!(silent.method, method);
        assert_eq!(told(&silent), (Some("operator/1 (x)"), features), "{method}");
        let said = [("user-agent", "codex_cli_rs/0.101.0"), ("x-codex-beta-features", "three")];
        let telling = ask(&gateway, &codex, &said);
        assert_eq!(told(&telling), (Some("operator/1 (x)"), Some("three")), "{method}");
    }
}

#[test]
fn without_the_operators_word_the_clients_holds() {
    let codex = Codex::start(Talk::answer);
    let gateway = gateway(&[], &[&codex]);
    let asked = ask(&gateway, &codex, &[("user-agent", "codex_cli_rs/0.101.0")]);
    assert_eq!(told(&asked), (Some("codex_cli_rs/0.101.0"), None));
    let asked = ask(&gateway, &codex, &[]);
    assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("switchyard/")), "{asked:?}");
}

#[test]
fn what_is_saved_holds_at_once_over_the_environment_and_under_a_sites_own_headers() {
    let codex = Codex::start(Talk::answer);
    let gateway = gateway(&[(AGENT, "operator/1"), (FEATURES, "one")], &[&codex]);
    let said = [("user-agent", "codex_cli_rs/0.101.0")];
    for (saved, wanted) in [
        (json!({"userAgent": "operator/2"}), (Some("operator/2"), Some("one"))),
        (json!({"betaFeatures": "two"}), (Some("operator/2"), Some("two"))),
        (json!({"userAgent": "", "betaFeatures": ""}), (Some("codex_cli_rs/0.101.0"), None)),
        (json!({"userAgent": "operator/3", "betaFeatures": "three"}), (Some("operator/3"), Some("three"))),
    ] {
        save(&gateway, &saved);
        assert_eq!(told(&ask(&gateway, &codex, &said)), wanted, "{saved}");
    }
    let site = gateway.admin().get("/api/sites").expect(200)[0]["id"].clone();
    let own = json!({"customHeaders": {"User-Agent": "of-the-site/1", "X-Codex-Beta-Features": "four"}});
    gateway.admin().put(&format!("/api/sites/{site}"), &own).expect(200);
    assert_eq!(told(&ask(&gateway, &codex, &said)), (Some("of-the-site/1"), Some("four")));
}

#[test]
fn other_platforms_are_told_what_the_client_says() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Gateway::with(&[(AGENT, "operator/1"), (FEATURES, "one")]).in_front_of("openai", &upstream);
    let ask: Request = Caller::chat_ask(MODEL, false).header("user-agent", "client/1");
    gateway.client().send(ask).expect(200);
    let asked = upstream.last("/v1/chat/completions");
    let told = (asked.header("user-agent"), asked.header("x-codex-beta-features"));
    assert_eq!(told, (Some("client/1"), None));
}
