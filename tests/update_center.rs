//! The update center: newer releases are reported once; nothing is deployed by itself.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Reply, Request, Setup, Upstream, eventually, split_events};

const RELEASES: &str = "/repos/acme/switchyard/releases";
const TAGS: &str = "/v2/repositories/acme/switchyard/tags";
const HELPER_TOKEN: &str = "the-token-of-the-helper";

fn sha(digit: char) -> String {
    format!("sha256:{}", String::from(digit).repeat(64))
}

/// Starts a stub of all three services, and a gateway that uses it.
fn world() -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[]);
    upstream.answer(RELEASES, Reply::json(200, &json!([])));
    let setup = Setup::default()
        .with("UPDATE_CENTER_RELEASE_REPOSITORY", "acme/switchyard")
        .with("UPDATE_CENTER_RELEASES_URL", &upstream.url())
        .with("UPDATE_CENTER_TAGS_URL", &upstream.url())
        .with("UPDATE_CENTER_HELPER_TOKEN", HELPER_TOKEN);
    let gateway = setup.start();
    eventually("it has looked once", || (!upstream.asked_for(RELEASES).is_empty()).then_some(()));
    let releases = json!([{"tag_name": "v99.0.0", "html_url": "https://h.example/99", "published_at": "2026-05-01T00:00:00Z"},
        {"tag_name": "v100.0.0-rc.1"}, {"tag_name": "v101.0.0", "prerelease": true}]);
    upstream.answer(RELEASES, Reply::json(200, &releases));
    let tags = json!({"results": [{"name": "latest", "digest": sha('a'), "last_updated": "2026-05-01T00:00:00Z"},
        {"name": "dev", "last_updated": "2026-05-02T00:00:00Z"}]});
    upstream.answer(TAGS, Reply::json(200, &tags));
    let helper = json!({"ok": true, "releaseName": "switchyard", "namespace": "ai", "revision": "7", "healthy": true,
        "imageTag": "latest", "imageDigest": sha('b'), "history": [
            {"revision": "7", "status": "deployed", "updatedAt": "2026-05-01T08:00:00.123456789+08:00"},
            {"revision": "6", "status": "superseded", "updatedAt": "soon"}, {"revision": "5"}]});
    upstream.answer("/helper/status", Reply::json(200, &helper));
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
    let history = status["helper"]["history"].as_array().expect("a history");
    let updated: Vec<_> = history.iter().map(|row| row["updatedAt"].clone()).collect();
    assert_eq!(updated, [json!("2026-05-01T00:00:00.123Z"), Value::Null, Value::Null]);
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
    assert!(error.contains("the notification was not sent"), "{status:#}");
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
fn a_source_that_comes_and_goes_makes_no_news_of_what_was_told() {
    let (gateway, upstream) = world();
    for _ in 0..2 {
        check(&gateway);
        upstream.answer_once(RELEASES, Reply::error(403, "API rate limit exceeded"));
        let status = check(&gateway);
        assert_eq!(status["runtime"]["lastResolvedSource"], "docker-hub-tag");
    }
    let titles: Vec<Value> = reminders(&gateway).iter().map(|event| event["title"].clone()).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
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
        json!({"releaseName": "two", "chartRef": "oci://me:secret@registry.example/charts/one"}),
        json!({"releaseName": "two", "chartRef": "https://me:secret@charts.example/one.tgz"}),
        json!({"releaseName": "two", "imageRepository": "me:secret@registry.example/one"}),
    ] {
        put(&wrong).expect(400);
    }
    let digest = json!({"imageRepository": "registry.example:5000/me/one@sha256:0a"});
    put(&digest).expect(200);
    put(&json!({"imageRepository": ""})).expect(200);
    assert_eq!(put(&json!({"chartRef": "oci://c"})).expect(200)["config"]["releaseName"], "one");
    let status = gateway.admin().get("/api/update-center/status").expect(200);
    assert_eq!((&status["helper"]["ok"], &status["githubRelease"]), (&json!(false), &Value::Null));
    assert!(status["runtime"]["lastCheckedAt"].is_string());
    assert_eq!(gateway.anyone().get("/api/update-center/status").status, 401);
}

#[test]
fn it_looks_by_itself_also_where_nothing_may_be_deployed() {
    let (gateway, upstream) = world();
    let config = gateway.admin().get("/api/update-center/status").expect(200)["config"].clone();
    assert_eq!(config["enabled"], false);
    let asked = upstream.asked_for(TAGS).len();
    let gateway = gateway.restart();
    eventually("it looks after the start", || (upstream.asked_for(TAGS).len() > asked).then_some(()));
    assert!(!reminders(&gateway).is_empty());
}

/// Builds a helper's stream about a change.
fn streamed(result: &Value) -> Reply {
    let log = |line: &str| format!("event: log\ndata: {}\n\n", json!({"message": line}));
    let result = format!("event: result\ndata: {result}\n\n");
    Reply::events([log("upgrade started"), ": keep-alive\n\n".to_owned(), log("rolled out"), result])
}

fn switched_on() -> (Gateway, Upstream) {
    let (gateway, upstream) = world();
    let config = json!({"enabled": true, "chartRef": "oci://r.example/c"});
    gateway.admin().put("/api/update-center/config", &config).expect(200);
    let done = json!({"success": true, "finalRevision": "8", "rolledBack": false, "logLines": ["x"]});
    upstream.answer("/helper/deploy", streamed(&done));
    upstream.answer("/helper/rollback", streamed(&done));
    (gateway, upstream)
}

/// Returns the events of a task's stream, to its end.
fn log_of(gateway: &Gateway, started: &Value) -> Vec<String> {
    let path = format!("/api/update-center/tasks/{}/stream", started["task"]["id"].as_str().expect("an id"));
    let whole = gateway.admin().stream(Request::new("GET", &path)).whole();
    assert_eq!(whole.status, 200);
    split_events(&whole.body)
}

#[test]
fn a_deployment_is_a_task_whose_log_is_streamed_to_its_end() {
    let (gateway, upstream) = switched_on();
    let order = json!({"source": "docker-hub-tag", "targetTag": "latest", "targetDigest": "sha256:short"});
    let started = gateway.admin().post("/api/update-center/deploy", &order).expect(202);
    assert_eq!((&started["success"], &started["reused"]), (&json!(true), &json!(false)));
    let names = (&started["task"]["type"], &started["task"]["dedupeKey"]);
    assert_eq!(names, (&json!("update-center.deploy"), &json!("update-center.deploy")));
    let events = log_of(&gateway, &started);
    assert_eq!(events.last().map(String::as_str), Some("event: done\ndata: {\"status\":\"succeeded\"}\n\n"));
    for line in ["upgrade started", "rolled out", "revision 8 is running"] {
        assert!(
            events.iter().any(|event| event.contains("event: log\n") && event.contains(line)),
            "{line}: {events:?}"
        );
    }
    let asked = upstream.last("/helper/deploy");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {HELPER_TOKEN}").as_str()));
    assert_eq!(
        asked.json(),
        json!({"namespace": "ai", "releaseName": "switchyard", "chartRef": "oci://r.example/c",
            "imageRepository": "acme/switchyard", "source": "docker-hub-tag", "targetTag": "latest", "targetDigest": null})
    );
    let status = gateway.admin().get("/api/update-center/status").expect(200);
    assert_eq!(
        (&status["lastFinishedTask"]["id"], &status["runningTask"]),
        (&started["task"]["id"], &Value::Null)
    );
    let back =
        gateway.admin().post("/api/update-center/rollback", &json!({"targetRevision": "7"})).expect(202);
    assert!(log_of(&gateway, &back).last().is_some_and(|event| event.contains("succeeded")));
    assert_eq!(upstream.last("/helper/rollback").json()["targetRevision"], "7");
    assert_eq!(gateway.admin().get("/api/update-center/tasks/none/stream").status, 404);
}

#[test]
fn the_status_after_a_change_of_the_configuration_or_of_the_release_is_the_present_one() {
    let (gateway, upstream) = switched_on();
    let revision =
        || gateway.admin().get("/api/update-center/status").expect(200)["helper"]["revision"].clone();
    let runs = |revision: &str| {
        upstream.answer("/helper/status", Reply::json(200, &json!({"ok": true, "revision": revision})));
    };
    assert_eq!(revision(), "7", "the configuration was changed after the first check");
    for (number, path, body) in [
        ("8", "deploy", json!({"targetVersion": "99.0.0"})),
        ("9", "rollback", json!({"targetRevision": "7"})),
    ] {
        runs(number);
        let started = gateway.admin().post(&format!("/api/update-center/{path}"), &body).expect(202);
        log_of(&gateway, &started);
        assert_eq!(revision(), number, "{path}");
    }
    runs("10");
    let config = |name: &str| {
        gateway.admin().put("/api/update-center/config", &json!({"releaseName": name})).expect(200);
    };
    config("switchyard");
    assert_eq!(revision(), "9", "nothing has changed, and nobody is asked");
    config("another");
    assert_eq!(revision(), "10");
}

#[test]
fn a_deployment_fails_with_its_helper() {
    let (gateway, upstream) = switched_on();
    let failed = json!({"success": false, "rolledBack": true, "error": "timed out"});
    for (reply, why) in [
        (streamed(&failed), "timed out; the release is back where it was"),
        (Reply::events(["event: log\ndata: {}\n\n"]), "ended without a result"),
        (Reply::error(409, "busy"), "the helper refused (409)"),
    ] {
        upstream.answer("/helper/deploy", reply);
        let started = gateway
            .admin()
            .post("/api/update-center/deploy", &json!({"targetVersion": "99.0.0"}))
            .expect(202);
        let events = log_of(&gateway, &started);
        assert_eq!(events.last().map(String::as_str), Some("event: done\ndata: {\"status\":\"failed\"}\n\n"));
        assert!(events.iter().any(|event| event.contains(why)), "{why}: {events:?}");
    }
}

#[test]
fn a_second_deployment_gets_the_one_that_is_at_work() {
    let (gateway, upstream) = switched_on();
    let gate = Gate::new();
    upstream.answer("/helper/deploy", streamed(&json!({"success": true})).head_waits_for(&gate));
    let deploy =
        || gateway.admin().post("/api/update-center/deploy", &json!({"targetTag": "v99.0.0"})).expect(202);
    let (first, second) = (deploy(), deploy());
    assert_eq!((&second["reused"], &second["task"]["id"]), (&json!(true), &first["task"]["id"]));
    let status = gateway.admin().get("/api/update-center/status").expect(200);
    assert_eq!(status["runningTask"]["id"], first["task"]["id"]);
    gate.open();
    assert!(log_of(&gateway, &first).last().is_some_and(|event| event.contains("succeeded")));
}

#[test]
fn a_deployment_that_cannot_be_meant_is_refused() {
    let (gateway, upstream) = switched_on();
    let deploy = |body: &Value| gateway.admin().post("/api/update-center/deploy", body).status;
    for wrong in [
        json!({}),
        json!({"targetTag": " "}),
        json!({"targetTag": 7}),
        json!({"targetTag": "a", "source": "b"}),
    ] {
        assert_eq!(deploy(&wrong), 400, "{wrong}");
    }
    assert_eq!(
        deploy(&json!({"targetTag": "latest", "targetDigest": sha('b')})),
        409,
        "the digest that runs"
    );
    assert_eq!(
        deploy(&json!({"targetVersion": concat!("v", env!("CARGO_PKG_VERSION"))})),
        409,
        "the version that runs"
    );
    assert_eq!(gateway.admin().post("/api/update-center/rollback", &json!({})).status, 400);
    for missing in ["chartRef", "imageRepository", "releaseName", "helperBaseUrl"] {
        let put = |value: &Value| {
            gateway.admin().put("/api/update-center/config", &json!({missing: value})).expect(200)
        };
        let before = gateway.admin().get("/api/update-center/status").expect(200)["config"][missing].clone();
        put(&json!(""));
        assert_eq!(deploy(&json!({"targetTag": "v99.0.0"})), 400, "{missing}");
        put(&before);
    }
    gateway.admin().put("/api/update-center/config", &json!({"enabled": false})).expect(200);
    assert_eq!(deploy(&json!({"targetTag": "v99.0.0"})), 400);
    assert!(upstream.asked_for("/helper/deploy").is_empty());
}
