//! The update center: what is newer than what runs, told once; nothing is deployed by itself.

mod support;

use serde_json::{Value, json};
use support::{Gateway, Reply, Setup, Upstream, eventually};

const RELEASES: &str = "/repos/acme/switchyard/releases";
const TAGS: &str = "/v2/repositories/acme/switchyard/tags";
const HELPER_TOKEN: &str = "the-token-of-the-helper";

fn sha(digit: char) -> String {
    format!("sha256:{}", String::from(digit).repeat(64))
}

/// A stub of all three services, and a gateway that asks it.
fn world() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[]);
    let releases = json!([{"tag_name": "v99.0.0", "html_url": "https://h.example/99", "published_at": "2026-05-01T00:00:00Z"},
        {"tag_name": "v100.0.0-rc.1"}, {"tag_name": "v101.0.0", "prerelease": true}]);
    upstream.answer(RELEASES, Reply::json(200, &releases));
    let tags = json!({"results": [{"name": "latest", "digest": sha('a'), "last_updated": "2026-05-01T00:00:00Z"},
        {"name": "dev", "last_updated": "2026-05-02T00:00:00Z"}]});
    upstream.answer(TAGS, Reply::json(200, &tags));
    let helper = json!({"ok": true, "releaseName": "switchyard", "namespace": "ai", "revision": "7", "healthy": true,
        "imageTag": "latest", "imageDigest": sha('b'), "history": [{"revision": "7", "status": "deployed"}]});
    upstream.answer("/helper/status", Reply::json(200, &helper));
    let setup = Setup::default()
        .with("UPDATE_CENTER_RELEASE_REPOSITORY", "acme/switchyard")
        .with("UPDATE_CENTER_RELEASES_URL", &upstream.url())
        .with("UPDATE_CENTER_TAGS_URL", &upstream.url())
        .with("UPDATE_CENTER_HELPER_TOKEN", HELPER_TOKEN);
    let gateway = setup.start();
    let config = json!({"helperBaseUrl": format!("{}/helper", upstream.url()), "namespace": "ai",
        "releaseName": " switchyard ", "imageRepository": "acme/switchyard"});
    let saved = gateway.admin().put("/api/update-center/config", &config).expect(200);
    assert_eq!(saved["config"]["releaseName"], "switchyard");
    (gateway, upstream)
}

fn check(gateway: &Gateway) -> Value {
    gateway.admin().post("/api/update-center/check", &json!({})).expect(200)
}

fn reminders(gateway: &Gateway) -> Vec<Value> {
    let events = gateway.admin().get("/api/events").expect(200);
    let events = events.as_array().expect("events").iter();
    events.filter(|event| event["relatedType"] == "update_center").cloned().collect()
}

#[test]
fn a_check_tells_what_is_newer_than_what_runs() {
    let (gateway, upstream) = world();
    let status = check(&gateway);
    assert_eq!(status["currentVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["githubRelease"]["rawVersion"], "v99.0.0");
    assert_eq!(status["githubRelease"]["normalizedVersion"], "99.0.0");
    assert_eq!(status["githubRelease"]["source"], "github-release");
    assert_eq!(status["dockerHubTag"]["displayVersion"], "latest @ sha256:aaaaaaaaaaaa");
    assert_eq!(status["dockerHubRecentTags"][0]["rawVersion"], "dev");
    assert_eq!(status["helper"]["revision"], "7");
    assert_eq!((&status["runningTask"], &status["lastFinishedTask"]), (&Value::Null, &Value::Null));
    assert_eq!(status["runtime"]["lastResolvedCandidateKey"], "github-release:v99.0.0");
    assert_eq!(status["runtime"]["lastCheckError"], Value::Null, "{status:#}");
    let bearer = format!("Bearer {HELPER_TOKEN}");
    assert_eq!(upstream.last("/helper/status").header("authorization"), Some(bearer.as_str()));
    assert!(
        upstream
            .asked()
            .iter()
            .all(|asked| asked.path() == "/helper/status" || asked.header("authorization").is_none())
    );
    let asked = upstream.asked().len();
    let kept = gateway.admin().get("/api/update-center/status").expect(200);
    assert_eq!(
        (&kept["githubRelease"], upstream.asked().len()),
        (&status["githubRelease"], asked),
        "nobody is asked"
    );
}

#[test]
fn the_same_candidate_is_told_once_over_checks_and_restarts() {
    let (gateway, upstream) = world();
    let hook = gateway.send_notices_to_a_webhook();
    check(&gateway);
    check(&gateway);
    assert_eq!((reminders(&gateway).len(), hook.asked_for("/hook").len()), (1, 1));
    assert_eq!(reminders(&gateway)[0]["title"], "Update available: v99.0.0");
    let gateway = gateway.restart();
    check(&gateway);
    assert_eq!((reminders(&gateway).len(), hook.asked_for("/hook").len()), (1, 1));
    upstream.answer(RELEASES, Reply::json(200, &json!([{"tag_name": "v99.1.0"}])));
    check(&gateway);
    assert_eq!((reminders(&gateway).len(), hook.asked_for("/hook").len()), (2, 2));
}

#[test]
fn a_candidate_whose_notice_was_not_sent_is_not_told_again() {
    let (gateway, _upstream) = world();
    let hook = gateway.send_notices_to_a_webhook();
    hook.answer("/hook", Reply::error(500, "down"));
    let status = check(&gateway);
    let error = status["runtime"]["lastCheckError"].as_str().unwrap_or_default();
    assert!(error.contains("the notice was not sent"), "{status:#}");
    assert_eq!(status["runtime"]["lastNotifiedCandidateKey"], "github-release:v99.0.0");
    let asked = hook.asked_for("/hook").len();
    check(&gateway);
    assert_eq!((reminders(&gateway).len(), hook.asked_for("/hook").len()), (1, asked));
}

#[test]
fn a_source_that_fails_leaves_the_others_as_they_are() {
    let (gateway, upstream) = world();
    upstream.answer(RELEASES, Reply::error(403, "rate limited"));
    upstream.answer("/helper/status", Reply::error(401, "no"));
    let status = check(&gateway);
    assert_eq!(status["githubRelease"], Value::Null);
    assert_eq!(status["dockerHubTag"]["rawVersion"], "latest");
    assert_eq!((&status["helper"]["ok"], &status["helper"]["history"]), (&json!(false), &json!([])));
    let error = status["runtime"]["lastCheckError"].as_str().unwrap_or_default();
    assert!(error.contains("releases: answered with 403") && error.contains("helper: "), "{error}");
}

#[test]
fn another_image_of_the_tag_that_runs_is_a_candidate() {
    let (gateway, _upstream) = world();
    gateway.admin().put("/api/update-center/config", &json!({"githubReleasesEnabled": false})).expect(200);
    let status = check(&gateway);
    assert_eq!(status["githubRelease"], Value::Null);
    assert_eq!(status["runtime"]["lastResolvedCandidateKey"], format!("docker-hub-tag:latest@{}", sha('a')));
}

#[test]
fn a_configuration_is_changed_field_by_field_and_a_wrong_one_not_at_all() {
    let gateway = Gateway::start();
    let put = |body: &Value| gateway.admin().put("/api/update-center/config", body);
    let config = put(&json!({"releaseName": "one", "namespace": " "})).expect(200)["config"].clone();
    assert_eq!(
        config,
        json!({"enabled": false, "helperBaseUrl": "", "namespace": "default", "releaseName": "one", "chartRef": "",
            "imageRepository": "", "githubReleasesEnabled": true, "dockerHubTagsEnabled": true,
            "defaultDeploySource": "github-release"})
    );
    for wrong in [
        json!({"releaseName": "two", "enabled": "yes"}),
        json!({"releaseName": "two", "namespace": 7}),
        json!({"releaseName": "two", "helperBaseUrl": "ftp://h"}),
        json!({"releaseName": "two", "defaultDeploySource": "elsewhere"}),
    ] {
        put(&wrong).expect(400);
    }
    assert_eq!(put(&json!({"chartRef": "oci://c"})).expect(200)["config"]["releaseName"], "one");
    let status = gateway.admin().get("/api/update-center/status").expect(200);
    assert_eq!((&status["helper"]["ok"], &status["githubRelease"]), (&json!(false), &Value::Null));
    assert!(status["runtime"]["lastCheckedAt"].is_string());
    assert_eq!(gateway.anyone().get("/api/update-center/status").status, 401);
}

#[test]
fn once_it_is_on_it_looks_by_itself() {
    let (gateway, upstream) = world();
    assert!(upstream.asked_for(RELEASES).is_empty(), "while it is off nobody is asked");
    gateway.admin().put("/api/update-center/config", &json!({"enabled": true})).expect(200);
    let gateway = gateway.restart();
    eventually("it looks after the start", || (!reminders(&gateway).is_empty()).then_some(()));
}
