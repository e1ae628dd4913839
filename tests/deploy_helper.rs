//! `switchyard deploy-helper`: deploys releases with helm and kubectl, here replaced by the test's own programs; called
//! directly, and through the update center of a gateway.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{Caller, Gateway, Home, Request, Setup, Stream, eventually, run, split_events};

const TOKEN: &str = "the-token-of-the-helper";

/// Records its arguments, one call per line; the files `slow` and `broken` beside it decide how a rollout goes.
const HELM: &str = r#"#!/bin/sh
printf 'helm' >> "$PLACE/calls"
for argument in "$@"; do printf ' [%s]' "$argument" >> "$PLACE/calls"; done
printf '\n' >> "$PLACE/calls"
case "$1" in
  history) echo '[{"revision":3,"status":"superseded"},{"revision":10,"status":"deployed","updated":"2026-05-01T08:00:00.123456789+08:00"},{"revision":9,"status":"superseded"}]' ;;
  status) echo '{"name":"gateway","version":11,"info":{"status":"deployed"}}' ;;
  get)
    if [ -e "$PLACE/numbered" ]; then echo '{"image":{"repository":"acme/gateway","tag":20260501}}'; exit; fi
    echo '{"image":{"repository":"acme/gateway","tag":"v1","digest":""}}' ;;
  upgrade)
    if [ -e "$PLACE/holding" ]; then (while [ -e "$PLACE/holding" ]; do sleep 0.02; done) & fi
    if [ -e "$PLACE/chatty" ]; then head -c 6000000 /dev/zero | tr '\0' x; fi
    echo "Release \"gateway\" has been upgraded."; echo "a remark" >&2 ;;
  rollback) echo "Rollback was a success." ;;
  *) exit 9 ;;
esac
"#;
const KUBECTL: &str = r#"#!/bin/sh
printf 'kubectl' >> "$PLACE/calls"
for argument in "$@"; do printf ' [%s]' "$argument" >> "$PLACE/calls"; done
printf '\n' >> "$PLACE/calls"
case "$1" in
  rollout)
    while [ -e "$PLACE/slow" ]; do sleep 0.02; done
    if [ -e "$PLACE/broken" ]; then echo "error: timed out waiting for the condition" >&2; exit 1; fi
    echo "deployment successfully rolled out" ;;
  get) echo '{"items":[{"status":{"phase":"Running","containerStatuses":[{"ready":true,"imageID":"docker.io/acme/gateway@sha256:DIGEST"}]}}]}' | sed "s/DIGEST/$(printf 'b%.0s' $(seq 64))/" ;;
esac
"#;

/// A running helper, and the calls of its programs.
struct Helper {
    child: Child,
    address: SocketAddr,
    home: Arc<Home>,
}

impl Helper {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        for (name, text) in [("helm", HELM), ("kubectl", KUBECTL)] {
            let file = home.path().join(name);
            std::fs::write(&file, text).expect("written");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("runnable");
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_switchyard"))
            .arg("deploy-helper")
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", home.path().display()))
            .env("PLACE", home.path())
            .env("DEPLOY_HELPER_TOKEN", TOKEN)
            .env("DEPLOY_HELPER_HOST", "127.0.0.1")
            .env("DEPLOY_HELPER_PORT", "0")
            .envs(variables.iter().copied())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = Arc::<Mutex<String>>::default();
        let (pipe, heard) = (child.stderr.take().expect("piped"), said.clone());
        std::thread::spawn(move || {
            use std::io::BufRead;
            for line in std::io::BufReader::new(pipe).lines().map_while(Result::ok) {
                heard.lock().expect("no panic there").push_str(&(line + "\n"));
            }
        });
        let address = eventually("it tells its address", || {
            let said = said.lock().expect("no panic there").clone();
            let (_, rest) = said.split_once("the deploy helper serves on ")?;
            rest.split_once('\n').and_then(|(address, _)| address.trim().parse().ok())
        });
        Self { child, address, home }
    }

    fn caller(&self) -> Caller {
        Caller::new(self.address).with("authorization", &format!("Bearer {TOKEN}"))
    }

    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.home.path().join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn mark(&self, name: &str) {
        std::fs::write(self.home.path().join(name), "").expect("written");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        for mark in ["slow", "holding"] {
            let _ = std::fs::remove_file(self.home.path().join(mark));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn order() -> Value {
    json!({"namespace": "ai", "releaseName": "gateway", "chartRef": "oci://r.example/charts/gateway",
        "imageRepository": "acme/gateway", "source": "docker-hub-tag", "targetTag": "v1.2.3",
        "targetDigest": format!("sha256:{}", "A".repeat(64))})
}

#[test]
fn a_deployment_upgrades_waits_for_the_rollout_and_tells_its_steps() {
    let helper = Helper::start();
    let summary = helper.caller().post("/deploy", &order()).expect(200);
    let digest = format!("sha256:{}", "a".repeat(64));
    for (name, value) in [
        ("success", json!(true)),
        ("targetSource", json!("docker-hub-tag")),
        ("targetTag", json!("v1.2.3")),
        ("targetDigest", json!(digest)),
        ("previousRevision", json!("10")),
        ("finalRevision", json!("11")),
        ("rolledBack", json!(false)),
    ] {
        assert_eq!(summary[name], value, "{summary:#}");
    }
    let lines = summary["logLines"].as_array().expect("lines");
    for line in ["Release \"gateway\" has been upgraded.", "a remark", "deployment successfully rolled out"] {
        assert!(lines.contains(&json!(line)), "{lines:?}");
    }
    assert_eq!(
        helper.calls(),
        [
            "helm [history] [gateway] [-n] [ai] [-o] [json]".to_owned(),
            format!(
                "helm [upgrade] [gateway] [oci://r.example/charts/gateway] [--namespace] [ai] [--reuse-values] \
                 [--set] [image.repository=acme/gateway] [--set] [image.tag=v1.2.3] [--set-string] [image.digest={digest}]"
            ),
            "kubectl [rollout] [status] [deployment] [-n] [ai] [-l] [app.kubernetes.io/instance=gateway] [--timeout=300s]".to_owned(),
            "helm [status] [gateway] [-n] [ai] [-o] [json]".to_owned(),
        ]
    );
}

#[test]
fn a_deployment_that_names_neither_source_nor_digest_is_one_of_a_release_by_its_tag() {
    let helper = Helper::start();
    let mut order = order();
    let members = order.as_object_mut().expect("an object");
    members.remove("source");
    members.remove("targetDigest");
    let summary = helper.caller().post("/deploy", &order).expect(200);
    assert_eq!(summary["targetSource"], "github-release", "{summary:#}");
    assert_eq!(summary.get("targetDigest"), Some(&Value::Null), "{summary:#}");
}

#[test]
fn a_rollout_that_fails_is_taken_back_and_told_as_a_failure() {
    let helper = Helper::start();
    helper.mark("broken");
    let request = Request::post("/deploy").header("accept", "text/event-stream").json(&order());
    let answer = helper.caller().stream(request).whole();
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    let events = split_events(&answer.body);
    assert!(
        events.iter().any(|event| event.starts_with("event: log\ndata: {\"message\":\"error: timed out")),
        "{events:?}"
    );
    let result =
        events.last().and_then(|event| event.strip_prefix("event: result\ndata: ")).expect("a result last");
    let result: Value = serde_json::from_str(result).expect("JSON");
    assert_eq!((&result["success"], &result["rolledBack"]), (&json!(false), &json!(true)), "{result:#}");
    assert!(result["error"].as_str().is_some_and(|error| error.contains("timed out waiting")), "{result:#}");
    assert!(
        helper.calls().contains(&"helm [rollback] [gateway] [10] [-n] [ai]".to_owned()),
        "{:?}",
        helper.calls()
    );
    assert_eq!(helper.caller().post("/deploy", &order()).status, 500);
}

#[test]
fn an_earlier_revision_is_gone_back_to() {
    let helper = Helper::start();
    let order = json!({"namespace": "ai", "releaseName": "gateway", "targetRevision": "9"});
    let summary = helper.caller().post("/rollback", &order).expect(200);
    assert_eq!(
        (&summary["success"], &summary["targetRevision"], &summary["finalRevision"]),
        (&json!(true), &json!("9"), &json!("11"))
    );
    assert_eq!(helper.calls()[0], "helm [rollback] [gateway] [9] [-n] [ai]");
}

#[test]
fn the_status_tells_what_runs_and_the_newest_revisions() {
    let helper = Helper::start();
    let status = helper.caller().get("/status?namespace=ai&releaseName=gateway").expect(200);
    assert_eq!(
        (&status["ok"], &status["healthy"], &status["revision"]),
        (&json!(true), &json!(true), &json!("11"))
    );
    assert_eq!((&status["imageRepository"], &status["imageTag"]), (&json!("acme/gateway"), &json!("v1")));
    assert_eq!(status["imageDigest"], format!("sha256:{}", "b".repeat(64)));
    let revisions: Vec<_> =
        status["history"].as_array().expect("a history").iter().map(|row| row["revision"].clone()).collect();
    assert_eq!(revisions, ["10", "9", "3"]);
    assert!(
        helper.calls().contains(
            &"helm [get] [values] [gateway] [-n] [ai] [--all] [--revision] [10] [-o] [json]".to_owned()
        ),
        "{:?}",
        helper.calls()
    );
    // `helm --set` stores a tag of digits as a number.
    helper.mark("numbered");
    let status = helper.caller().get("/status?namespace=ai&releaseName=gateway").expect(200);
    assert_eq!(
        (&status["imageTag"], &status["history"][0]["imageTag"]),
        (&json!("20260501"), &json!("20260501"))
    );
    for unnamed in ["?namespace=ai", "?namespace=&releaseName=gateway", "?namespace=ai&releaseName="] {
        let refused = helper.caller().get(&format!("/status{unnamed}")).expect(400);
        assert!(refused["message"].as_str().is_some_and(|why| why.ends_with(" is required")), "{refused}");
    }
}

#[test]
fn one_change_is_at_work_at_a_time() {
    let helper = Helper::start();
    helper.mark("slow");
    let caller = helper.caller();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| caller.post("/deploy", &order()).expect(200));
        eventually("the rollout is waited for", || {
            helper.calls().iter().any(|call| call.starts_with("kubectl [rollout]")).then_some(())
        });
        let refused = caller
            .post("/rollback", &json!({"namespace": "ai", "releaseName": "gateway", "targetRevision": "9"}));
        std::fs::remove_file(helper.home.path().join("slow")).expect("removed");
        assert_eq!((refused.status, &refused.json()["success"]), (409, &json!(false)));
        first.join().expect("it went on");
    });
    helper.caller().post("/deploy", &order()).expect(200);
}

#[test]
fn a_program_that_leaves_another_behind_or_prints_without_end_holds_nothing_up() {
    let helper = Helper::start();
    helper.mark("holding");
    let summary = helper.caller().post("/deploy", &order()).expect(200);
    assert_eq!(summary["success"], true, "{summary}");
    assert!(helper.home.path().join("holding").exists(), "what was left behind still runs");
    std::fs::remove_file(helper.home.path().join("holding")).expect("removed");
    helper.mark("chatty");
    let summary = helper.caller().post("/deploy", &order()).expect(200);
    assert_eq!(summary["success"], true);
}

#[test]
fn no_release_is_touched_that_is_not_among_those_named() {
    let helper = Helper::with(&[("DEPLOY_HELPER_RELEASES", "ai/gateway, ai/other")]);
    helper.caller().post("/deploy", &order()).expect(200);
    let calls = helper.calls().len();
    let mut elsewhere = order();
    elsewhere["namespace"] = json!("kube-system");
    let back = json!({"namespace": "ai", "releaseName": "database", "targetRevision": "9"});
    for refused in [
        helper.caller().post("/deploy", &elsewhere),
        helper.caller().post("/rollback", &back),
        helper.caller().get("/status?namespace=ai&releaseName=database"),
    ] {
        assert_eq!((refused.status, &refused.json()["success"]), (400, &json!(false)));
        assert!(refused.text().contains("DEPLOY_HELPER_RELEASES"), "{}", refused.text());
    }
    assert_eq!(helper.calls().len(), calls);
}

#[test]
fn nobody_without_the_token_and_nothing_but_plain_data_gets_to_the_programs() {
    let helper = Helper::start();
    let anyone = Caller::new(helper.address);
    assert_eq!(anyone.get("/health").expect(200), json!({"ok": true}));
    for caller in [anyone.clone(), anyone.clone().with("authorization", "Bearer wrong")] {
        for answer in [
            caller.post("/deploy", &order()),
            caller.get("/status?namespace=ai&releaseName=gateway"),
            caller.get("/x"),
        ] {
            assert_eq!((answer.status, &answer.json()["success"]), (401, &json!(false)));
        }
    }
    for (name, value) in [
        ("namespace", json!("--kubeconfig=/etc/passwd")),
        ("releaseName", json!("a;id")),
        ("chartRef", json!("--post-renderer")),
        ("imageRepository", json!("a,service.type=LoadBalancer")),
        ("targetTag", json!("v1,b=c")),
        ("targetTag", json!(["v1"])),
        ("targetDigest", json!("sha256:1")),
    ] {
        let mut wrong = order();
        wrong[name] = value;
        let refused = helper.caller().post("/deploy", &wrong);
        assert_eq!((refused.status, &refused.json()["success"]), (400, &json!(false)), "{wrong}");
    }
    helper.caller().send(Request::post("/deploy").body("no JSON")).expect(400);
    assert_eq!(helper.caller().get("/elsewhere").status, 404);
    assert_eq!(helper.calls(), Vec::<String>::new());
}

#[test]
fn without_a_token_the_helper_does_not_start() {
    let finished = run(&Setup::default(), &Home::new(), &["deploy-helper"]);
    assert!(
        !finished.status.success() && finished.stderr.contains("DEPLOY_HELPER_TOKEN"),
        "{}",
        finished.stderr
    );
}

/// Starts a gateway whose update center deploys through this helper, with this token.
fn gateway_over(helper: &Helper, token: &str) -> Gateway {
    let gateway = Setup::default().with("UPDATE_CENTER_HELPER_TOKEN", token).start();
    configure(
        &gateway,
        json!({"enabled": true, "helperBaseUrl": format!("http://{}", helper.address), "namespace": "ai",
        "releaseName": "gateway", "chartRef": "oci://r.example/charts/gateway", "imageRepository": "acme/gateway",
        "githubReleasesEnabled": false, "dockerHubTagsEnabled": false}),
    );
    gateway
}

fn configure(gateway: &Gateway, config: Value) {
    gateway.admin().put("/api/update-center/config", &config).expect(200);
}

/// Starts a change, and returns the log stream of its task.
fn changed(gateway: &Gateway, what: &str, order: Value) -> Stream {
    let started = gateway.admin().post(&format!("/api/update-center/{what}"), &order).expect(202);
    let id = started["task"]["id"].as_str().expect("an id");
    gateway.admin().stream(Request::new("GET", &format!("/api/update-center/tasks/{id}/stream")))
}

/// Returns the rest of a task's log, which must end with this status.
fn ends(stream: Stream, status: &str) -> String {
    let log = String::from_utf8(stream.whole().body).expect("text");
    assert!(log.ends_with(&format!("event: done\ndata: {{\"status\":\"{status}\"}}\n\n")), "{log}");
    log
}

#[test]
fn a_gateway_deploys_through_the_helper_and_streams_each_step_as_it_comes() {
    let helper = Helper::start();
    let gateway = gateway_over(&helper, TOKEN);
    helper.mark("slow");
    let digest = format!("sha256:{}", "a".repeat(64));
    let order = json!({"source": "docker-hub-tag", "targetTag": "v1.2.3", "targetDigest": digest});
    let mut log = changed(&gateway, "deploy", order);
    while let Some(event) = log.next_event().expect("the rollout is still waited for") {
        if event.contains("has been upgraded") {
            assert!(event.contains("event: log\n") && event.contains("\"seq\":"), "{event}");
            break;
        }
    }
    std::fs::remove_file(helper.home.path().join("slow")).expect("removed");
    let rest = ends(log, "succeeded");
    assert!(rest.contains("successfully rolled out") && rest.contains("revision 11 is running"), "{rest}");
    let upgrade =
        helper.calls().into_iter().find(|call| call.starts_with("helm [upgrade]")).expect("an upgrade");
    assert!(upgrade.contains("[image.repository=acme/gateway] [--set] [image.tag=v1.2.3]"), "{upgrade}");
    assert!(upgrade.ends_with(&format!("[image.digest={digest}]")), "{upgrade}");
    let status = gateway.admin().post("/api/update-center/check", &json!({})).expect(200);
    assert_eq!(
        (&status["helper"]["ok"], &status["helper"]["revision"]),
        (&json!(true), &json!("11")),
        "{status:#}"
    );
    assert_eq!(status["lastFinishedTask"]["status"], "succeeded");
}

#[test]
fn a_gateway_tells_that_a_rollout_failed_and_goes_back_on_request() {
    let helper = Helper::start();
    let gateway = gateway_over(&helper, TOKEN);
    helper.mark("broken");
    let log = ends(changed(&gateway, "deploy", json!({"targetTag": "v1.2.3"})), "failed");
    assert!(log.contains("timed out waiting") && log.contains("the release is back where it was"), "{log}");
    assert!(
        helper.calls().contains(&"helm [rollback] [gateway] [10] [-n] [ai]".to_owned()),
        "{:?}",
        helper.calls()
    );
    std::fs::remove_file(helper.home.path().join("broken")).expect("removed");
    ends(changed(&gateway, "rollback", json!({"targetRevision": "9"})), "succeeded");
    assert!(
        helper.calls().contains(&"helm [rollback] [gateway] [9] [-n] [ai]".to_owned()),
        "{:?}",
        helper.calls()
    );
}

#[test]
fn a_gateway_with_a_wrong_token_or_anything_but_plain_data_changes_nothing() {
    let helper = Helper::start();
    let stranger = gateway_over(&helper, "a-token-of-another-helper");
    let log = ends(changed(&stranger, "deploy", json!({"targetTag": "v1.2.3"})), "failed");
    assert!(log.contains("the helper refused (401)"), "{log}");
    let gateway = gateway_over(&helper, TOKEN);
    for (what, order) in [
        ("deploy", json!({"targetTag": "v1,service.type=LoadBalancer"})),
        ("deploy", json!({"targetTag": "$(touch x)"})),
        ("deploy", json!({"targetTag": "--post-renderer=/bin/sh"})),
        ("rollback", json!({"targetRevision": "--force"})),
        ("rollback", json!({"targetRevision": "9;id"})),
    ] {
        let log = ends(changed(&gateway, what, order.clone()), "failed");
        assert!(log.contains("the helper refused (400)"), "{order}: {log}");
    }
    for (name, good, wrong) in [
        ("namespace", "ai", "--kubeconfig=/etc/passwd"),
        ("releaseName", "gateway", "a b"),
        ("chartRef", "oci://r.example/charts/gateway", "--post-renderer"),
        ("imageRepository", "acme/gateway", "a,b=c"),
    ] {
        configure(&gateway, json!({ name: wrong }));
        let log = ends(changed(&gateway, "deploy", json!({"targetTag": "v1.2.3"})), "failed");
        assert!(log.contains("the helper refused (400)"), "{name}: {log}");
        configure(&gateway, json!({ name: good }));
    }
    let is_change =
        |call: &String| ["[upgrade]", "[rollback]", "[rollout]"].iter().any(|verb| call.contains(verb));
    assert_eq!(helper.calls().into_iter().filter(is_change).collect::<Vec<_>>(), Vec::<String>::new());
}
