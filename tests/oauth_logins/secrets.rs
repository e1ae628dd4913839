//! Tokens, codes and secrets of logins are seen only by their provider.

use serde_json::json;

use super::operator::Operator;
use super::{MODEL, operator};
use crate::support::{Gateway, Provider, Reply, Request, Setup, eventually};

/// The number of requests that the test's clients send.
const REQUESTS: usize = 4;

/// Returns everything that an operator or a file can see of a gateway.
fn shown(gateway: &Gateway) -> Vec<(String, String)> {
    let admin = gateway.admin();
    let mut paths: Vec<String> = [
        "accounts?refresh=1",
        "events?limit=100",
        "oauth/connections",
        "oauth/providers",
        "routes",
        "settings/runtime",
        "sites",
        "stats/proxy-logs",
        "stats/proxy-debug/traces",
        "tasks",
    ]
    .map(|path| format!("/api/{path}"))
    .into();
    let traces = eventually("every request has left its trace", || {
        let traces = admin.get("/api/stats/proxy-debug/traces").expect(200)["items"].clone();
        traces.as_array().filter(|traces| traces.len() == REQUESTS).cloned()
    });
    let ids = traces.iter().map(|trace| trace["id"].to_string());
    paths.extend(ids.map(|id| format!("/api/stats/proxy-debug/traces/{id}")));
    let mut seen: Vec<(String, String)> = paths
        .into_iter()
        .map(|path| {
            let answer = admin.get(&path);
            assert_eq!(answer.status, 200, "{path}");
            (path, answer.text())
        })
        .collect();
    seen.push(("the log".to_owned(), gateway.output()));
    seen.extend(
        gateway
            .home()
            .files()
            .into_iter()
            .map(|(path, bytes)| (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())),
    );
    seen
}

#[test]
fn no_token_is_shown_stored_in_clear_or_logged_whoever_gave_it() {
    for id in Provider::IDS {
        let provider = Provider::start(id, &[MODEL]);
        let gateway = provider.setup(Setup::default()).with("LOG_LEVEL", "trace").start();
        let hook = gateway.send_notices_to_a_webhook();
        let traced = json!({"proxyDebugTraceEnabled": true, "proxyDebugCaptureHeaders": true,
            "proxyDebugCaptureBodies": true, "proxyDebugCaptureStreamChunks": true});
        gateway.admin().put("/api/settings/runtime", &traced).expect(200);
        let account = gateway.connect(&provider)["accountId"].clone();
        assert_eq!(provider.book().exchanges, 1, "{id}");
        let model = if id == "gemini-cli" { "gemini-2.5-pro" } else { MODEL };
        let chat = |stream: bool| {
            let words = json!([{"role": "user", "content": "Which way?"}]);
            let body = json!({"model": model, "stream": stream, "messages": words});
            gateway.client().stream(Request::post("/v1/chat/completions").json(&body)).whole()
        };
        assert_eq!((chat(false).status, chat(true).status), (200, 200), "{id}");
        // A renewal, and providers that repeat what they received.
        provider.end_access();
        assert_eq!(chat(false).status, 200, "{id}");
        let (access, refresh) = {
            let book = provider.book();
            (book.access.last().expect("a token").clone(), book.refresh.last().expect("a token").clone())
        };
        let models = match id {
            "codex" => "/models",
            "claude" => "/v1/models",
            "gemini-cli" => "/v1/projects/project-of-ada/services/cloudaicompanion.googleapis.com",
            _ => "/v1internal:fetchAvailableModels",
        };
        provider.answer_once(models, Reply::error(503, &format!("Token {access} is over")));
        gateway.admin().post(&format!("/api/models/check/{account}"), &json!({})).expect(200);
        provider.revoke();
        let revoked = json!({"error": "invalid_grant", "error_description": format!("{refresh} is revoked")});
        provider.answer_once("/token", Reply::json(400, &revoked));
        let refused = chat(false);
        assert_ne!(refused.status, 200, "{id}");
        eventually("the account has expired", || {
            (gateway.account(&account)["status"] == "expired").then_some(())
        });
        eventually("the operator is told", || (!hook.asked_for("/hook").is_empty()).then_some(()));
        // A login that fails with an error that repeats what the provider received.
        let started = gateway.begin(&provider, &json!({}));
        let back = provider.agree(operator::text(&started["authorizationUrl"]));
        let code = back.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code");
        let failed = json!({"error": "invalid_grant", "error_description": format!("{code} is no code")});
        provider.answer_once("/token", Reply::json(400, &failed));
        let failed = gateway.paste(&started, &back);
        assert_eq!(failed.status, 500, "{id}");
        let mut seen = shown(&gateway);
        seen.push(("the refusal".to_owned(), refused.text()));
        seen.push(("the failed login".to_owned(), failed.text() + &gateway.session(&started).to_string()));
        let notices = hook.asked_for("/hook");
        seen.extend(
            notices
                .iter()
                .map(|notice| ("a notice".to_owned(), String::from_utf8_lossy(&notice.body).into())),
        );
        let secrets = ["access", "refresh", "code"].map(|kind| format!("{kind}-{id}-"));
        let id_token = provider.book().id_token();
        for (place, text) in seen {
            for secret in secrets.iter().map(String::as_str).chain(["client-secret-of-the-tests", &id_token])
            {
                let found = text.find(secret).map(|at| {
                    let mut end = (at + 200).min(text.len());
                    while !text.is_char_boundary(end) {
                        end -= 1;
                    }
                    text[at..end].to_owned()
                });
                assert_eq!(found, None, "{id}: {place}");
            }
        }
    }
}
