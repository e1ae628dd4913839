//! A login with each provider, from the browser to a revoked grant.

use serde_json::json;

use super::MODEL;
use super::operator::Operator;
use crate::support::{Provider, Request, eventually};

/// Returns the requests of each kind of client, whole and streamed.
fn questions(model: &str) -> Vec<(&'static str, Request)> {
    let words = json!([{"role": "user", "content": "Which way?"}]);
    let mut questions = Vec::new();
    for stream in [false, true] {
        let chat = json!({"model": model, "stream": stream, "messages": words});
        questions.push(("chat", Request::post("/v1/chat/completions").json(&chat)));
        let responses = json!({"model": model, "stream": stream, "input": "Which way?"});
        questions.push(("responses", Request::post("/v1/responses").json(&responses)));
        let messages = json!({"model": model, "stream": stream, "max_tokens": 64, "messages": words});
        questions.push(("messages", Request::post("/v1/messages").json(&messages)));
        let action = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Which way?"}]}]});
        questions
            .push(("gemini", Request::post(&format!("/v1beta/models/{model}:{action}")).json(&contents)));
    }
    questions
}

#[test]
fn the_story_of_a_login_with_each_provider() {
    for id in Provider::IDS {
        // A person logs in, and the account's models are routed.
        let provider = Provider::start(id, &[MODEL]);
        let gateway = provider.gateway();
        let account = gateway.connect(&provider)["accountId"].clone();
        let model = if id == "gemini-cli" { "gemini-2.5-pro" } else { MODEL };
        assert_eq!(gateway.channels(model).len(), 1, "{id}");
        // Every client is served, whole and streamed.
        for (client, question) in questions(model) {
            let answer = gateway.client().stream(question).whole();
            assert!(
                answer.status == 200 && answer.text().contains("Signals"),
                "{id} {client}: {}",
                answer.text()
            );
        }
        // The token expires: one renewal, and no client notices.
        provider.end_access();
        gateway.client().chat(model).expect(200);
        assert_eq!(provider.book().refreshes, 1, "{id}");
        gateway.client().chat(model).expect(200);
        // The grant is revoked: the account has expired, until somebody logs in again.
        provider.revoke();
        assert_ne!(gateway.client().chat(model).status, 200, "{id}");
        eventually("the account has expired", || {
            (gateway.account(&account)["status"] == "expired").then_some(())
        });
        assert_eq!(gateway.connect(&provider)["accountId"], account, "{id}");
        assert_eq!(gateway.account(&account)["status"], "active", "{id}");
    }
}

#[test]
fn a_login_with_claude_is_probed_with_its_token_as_a_bearer() {
    let provider = Provider::start("claude", &[MODEL]);
    let gateway = provider.gateway();
    let account = gateway.connect(&provider)["accountId"].clone();
    let body = json!({"accountId": account, "wait": true});
    let probed = gateway.admin().post("/api/models/probe", &body).expect(200);
    assert_eq!(probed["summary"]["supported"], 1, "{probed}");
    let asked = provider.asked_for("/v1/messages");
    let [question] = &asked[..] else { panic!("{} questions", asked.len()) };
    assert_eq!(question.header("x-api-key"), None);
    assert_eq!(question.header("anthropic-beta"), Some("oauth-2025-04-20"));
}
