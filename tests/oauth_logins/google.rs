//! The projects of Google accounts, and the revocation of Google's grant.

use serde_json::json;

use super::operator::{Operator, text};
use crate::support::{self, Provider, Reply, Upstream};

#[test]
fn gemini_cli_finds_its_project_and_switches_the_service_on() {
    for (projects, onboarded, tier, wanted, expected) in [
        (vec!["p-first", "p-second"], None, "standard-tier", None, Ok("p-first")),
        (vec!["p-first"], None, "standard-tier", Some("p-wanted"), Ok("p-wanted")),
        (vec!["p-first"], Some("p-of-google"), "free-tier", None, Ok("p-of-google")),
        (vec!["gen-lang-client-1"], Some("p-of-google"), "standard-tier", None, Ok("p-of-google")),
        (vec!["p-first"], Some("p-of-google"), "standard-tier", None, Ok("p-first")),
        (vec![], None, "standard-tier", None, Err("no Google Cloud projects available for this account")),
    ] {
        let provider = Provider::start("gemini-cli", &[]);
        {
            let mut book = provider.book();
            book.projects = projects.iter().map(|&project| project.to_owned()).collect();
            book.onboarded = onboarded.map(str::to_owned);
            book.tier = tier.to_owned();
            book.enabled.clear();
        }
        let gateway = provider.gateway();
        let started = gateway.begin(&provider, &json!({"projectId": wanted.unwrap_or(" ")}));
        let url = provider.agree(text(&started["authorizationUrl"]));
        // The service is switched on, and is on when models are requested.
        let project = expected.unwrap_or("none");
        let service = format!("/v1/projects/{project}/services/cloudaicompanion.googleapis.com");
        provider.answer_once(&service, Reply::json(200, &json!({"state": "DISABLED"})));
        provider.book().enabled.push(project.to_owned());
        let answer = gateway.paste(&started, &url);
        match expected {
            Ok(project) => {
                answer.expect(200);
                assert_eq!(provider.asked_for(&format!("{service}:enable")).len(), 1);
                let id = gateway.session(&started)["accountId"].clone();
                assert_eq!(gateway.account(&id)["oauthProjectId"], project);
            }
            Err(message) => assert_eq!(answer.expect(500)["message"], message),
        }
    }
}

#[test]
fn a_service_that_is_switched_on_is_waited_for() {
    let provider = Provider::start("gemini-cli", &[]);
    let service = "/v1/projects/project-of-ada/services/cloudaicompanion.googleapis.com";
    for _ in 0..2 {
        provider.answer_once(service, Reply::json(200, &json!({"state": "DISABLED"})));
    }
    let gateway = provider.gateway();
    gateway.connect(&provider);
    assert_eq!(provider.asked_for(&format!("{service}:enable")).len(), 1);
    assert_eq!(gateway.channels("gemini-2.5-pro").len(), 1);
}

#[test]
fn a_free_user_whose_own_project_is_refused_gets_one_of_google() {
    let provider = Provider::start("gemini-cli", &[]);
    {
        let mut book = provider.book();
        book.tier = "free-tier".to_owned();
        book.onboarded = Some("p-of-google".to_owned());
        book.enabled.push("p-of-google".to_owned());
    }
    let onboarding = "/v1internal:onboardUser";
    provider.answer_once(onboarding, Reply::error(400, "Precondition check failed."));
    let gateway = provider.gateway();
    let session = gateway.connect(&provider);
    assert_eq!(gateway.account(&session["accountId"])["oauthProjectId"], "p-of-google");
    let asked = provider.asked_for(onboarding);
    let projects: Vec<_> =
        asked.iter().map(|asked| asked.json()["cloudaicompanionProject"].clone()).collect();
    assert_eq!(projects, [json!("project-of-ada"), json!(null)]);
}

#[test]
fn onboarding_is_asked_for_until_it_is_done() {
    let provider = Provider::start("antigravity", &["model-a"]);
    provider.book().onboarded = Some("p-of-google".to_owned());
    let onboarding = "/v1internal:onboardUser";
    provider.answer_once(onboarding, Reply::json(200, &json!({"name": "operations/1", "done": false})));
    let gateway = provider.gateway();
    let session = gateway.connect(&provider);
    assert_eq!(gateway.account(&session["accountId"])["oauthProjectId"], "p-of-google");
    let asked = provider.asked_for(onboarding);
    assert_eq!(asked.len(), 2);
    let wanted = json!({"tierId": "standard-tier", "metadata": {"ideType": "ANTIGRAVITY",
        "platform": "PLATFORM_UNSPECIFIED", "pluginType": "GEMINI"}});
    assert_eq!((asked[0].json(), asked[1].json()), (wanted.clone(), wanted));
}

#[test]
fn models_of_antigravity_are_asked_for_at_the_next_address_where_one_lists_none() {
    let provider = Provider::start("antigravity", &["model-a"]);
    let gateway = provider.gateway();
    let session = gateway.connect(&provider);
    let first = Upstream::start(&[]);
    let list = "/v1internal:fetchAvailableModels";
    let pool = json!([{"url": first.url(), "sortOrder": 0}, {"url": provider.url(), "sortOrder": 1}]);
    gateway
        .admin()
        .put(&format!("/api/sites/{}", session["siteId"]), &json!({"apiEndpoints": pool}))
        .expect(200);
    provider.book().models.push("model-b".to_owned());
    for (asks, answer) in [(1, Reply::json(200, &json!({"models": {}}))), (2, Reply::error(503, "not now"))] {
        first.answer(list, answer);
        gateway.admin().post(&format!("/api/models/check/{}", session["accountId"]), &json!({})).expect(200);
        assert_eq!(first.asked_for(list).len(), asks);
        assert_eq!(gateway.channels("model-b").len(), 1);
    }
}

#[test]
fn google_is_told_that_a_deleted_connection_ends_and_nobody_waits_for_its_consent() {
    for (id, status) in [("gemini-cli", 200), ("antigravity", 500)] {
        let provider = Provider::start(id, &["model-a"]);
        provider.answer("/revoke", Reply::json(status, &json!({})));
        let gateway = provider.gateway();
        let account = gateway.connect(&provider)["accountId"].clone();
        let refresh = provider.book().refresh[0].clone();
        gateway.admin().delete(&format!("/api/oauth/connections/{account}")).expect(200);
        let asked = support::eventually("Google is told", || provider.asked_for("/revoke").pop());
        assert_eq!(String::from_utf8_lossy(&asked.body), format!("token={refresh}"), "{id}");
        assert_eq!(gateway.accounts().len(), 0, "{id}");
    }
}
