//! Probes of which models are really served: small questions to sites, and the effects of their answers.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{self, Gate, Gateway, Program, Reply, Request, Site, Upstream, eventually, wire};

#[track_caller]
fn probe(gateway: &Gateway, account: &Value) -> Value {
    gateway.admin().post("/api/models/probe", &json!({"accountId": account["id"], "wait": true})).expect(200)
}

fn missing(model: &str) -> Reply {
    // OpenAI's answer for a model that it does not have.
    let error = json!({"error": {"message": format!("The model `{model}` does not exist or you do not have access to it."),
        "type": "invalid_request_error", "param": null, "code": "model_not_found"}});
    Reply::json(404, &error)
}

#[test]
fn a_probe_finds_out_which_models_are_served() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["m-good", "m-gone", "m-odd", "text-embedding-3-small"]);
    let (site, account) = gateway.add("Relay A", &upstream);
    upstream.answer_model(CHAT, "m-gone", missing("m-gone"));
    upstream.answer_model(CHAT, "m-odd", Reply::error(400, "max_tokens is too small"));
    let probed = probe(&gateway, &account);
    assert_eq!(
        (&probed["success"], &probed["status"], &probed["reused"]),
        (&json!(true), &json!("succeeded"), &json!(false))
    );
    let result = &probed["results"][0];
    assert_eq!((&result["accountId"], &result["siteId"]), (&account["id"], &site["id"]));
    for (field, value) in [
        ("status", json!("success")),
        ("scanned", json!(4)),
        ("supported", json!(1)),
        ("unsupported", json!(1)),
        ("inconclusive", json!(1)),
        ("skipped", json!(1)),
        ("updatedRows", json!(2)),
    ] {
        assert_eq!(result[field], value, "{field}");
    }
    assert_eq!(
        probed["summary"],
        json!({"totalAccounts": 1, "success": 1, "failed": 0, "skipped": 0, "scanned": 4, "supported": 1,
            "unsupported": 1, "inconclusive": 1, "skippedModels": 1, "updatedRows": 2, "rebuiltRoutes": true})
    );
    // The route of the missing model is deleted, the others stay.
    assert!(gateway.channels("m-gone").is_empty());
    for model in ["m-good", "m-odd", "text-embedding-3-small"] {
        assert_eq!(gateway.channels(model).len(), 1, "{model}");
    }
    let asked = upstream.asked_for(CHAT);
    assert_eq!(asked.len(), 3);
    let body = asked
        .iter()
        .map(support::ReceivedRequest::json)
        .find(|body| body["model"] == "m-good")
        .expect("asked");
    assert_eq!(
        body,
        json!({"model": "m-good", "messages": [{"role": "user", "content": "Reply with OK."}], "max_tokens": 8, "stream": false})
    );
    // A probe does not appear as a client's request.
    let logs = gateway.admin().get("/api/stats/proxy-logs").expect(200);
    assert_eq!(logs["total"], 0, "{logs}");
    // The second probe changes nothing, and the missing model may come back.
    let again = probe(&gateway, &account);
    assert_eq!(
        (&again["summary"]["rebuiltRoutes"], &again["summary"]["updatedRows"]),
        (&json!(false), &json!(2))
    );
    upstream.answer_faithfully();
    assert_eq!(probe(&gateway, &account)["summary"]["rebuiltRoutes"], true);
    assert_eq!(gateway.channels("m-gone").len(), 1);
}

#[test]
fn a_model_that_reasons_is_asked_with_the_limit_that_it_takes() {
    let (gateway, upstream, account) = Gateway::with_account(&["m-thinks"]);
    let refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                   'max_completion_tokens' instead.";
    upstream.answer_once(CHAT, Reply::error(400, refusal));
    assert_eq!(probe(&gateway, &account)["results"][0]["supported"], 1);
    let asked: Vec<Value> = upstream.asked_for(CHAT).iter().map(support::ReceivedRequest::json).collect();
    let limits: Vec<_> =
        asked.iter().map(|body| (&body["max_tokens"], &body["max_completion_tokens"])).collect();
    assert_eq!(limits, [(&json!(8), &Value::Null), (&Value::Null, &json!(256))]);
}

#[test]
fn a_site_in_trouble_is_left_alone_and_keeps_its_models() {
    let gateway = Gateway::with(&[("MODEL_AVAILABILITY_PROBE_TIMEOUT_MS", "3000")]);
    for (name, reply) in [
        ("429", Reply::error(429, "slow down, the model is not available right now")),
        ("503", Reply::error(503, "no available channel for model")),
        ("a time-out", Reply::stall()),
        ("a closed connection", Reply::silence()),
    ] {
        let upstream = Upstream::start(&["m-a", "m-b", "m-c", "m-d", "m-e"]);
        let (_, account) = gateway.add(name, &upstream);
        upstream.answer(CHAT, reply);
        let result = &probe(&gateway, &account)["results"][0];
        assert_eq!((&result["scanned"], &result["inconclusive"]), (&json!(3), &json!(3)), "{name}");
        let message = result["message"].as_str().expect("a message");
        assert!(message.ends_with(", the rest was not probed"), "{message}");
        assert_eq!(upstream.asked_for(CHAT).len(), 3, "{name}");
        // The next pass begins with the rest.
        upstream.answer_faithfully();
        let result = &probe(&gateway, &account)["results"][0];
        assert_eq!((&result["scanned"], &result["supported"]), (&json!(5), &json!(5)), "{name}");
        let asked: Vec<_> =
            upstream.asked_for(CHAT)[3..5].iter().map(|asked| asked.json()["model"].clone()).collect();
        assert_eq!(asked, ["m-d", "m-e"], "{name}");
    }
    assert_eq!(gateway.channels("m-a").len(), 4);
    for (name, reply) in [
        ("html", Reply::html(200, "<html>sign in</html>")),
        ("silence", Reply::silence()),
        ("garbage", Reply::bytes(200, "application/json", vec![b'x'; 1 << 20])),
    ] {
        let upstream = Upstream::start(&["m-h"]);
        let (_, account) = gateway.add(name, &upstream);
        upstream.answer(CHAT, reply);
        let result = &probe(&gateway, &account)["results"][0];
        assert_eq!((&result["inconclusive"], &result["updatedRows"]), (&json!(1), &json!(0)), "{name}");
    }
    assert_eq!(gateway.channels("m-h").len(), 3);
}

/// A hub keeps answering 503 for a model for which it has no channel.
#[test]
fn a_model_that_overloads_its_site_does_not_keep_the_others_from_being_probed() {
    let (gateway, upstream, account) =
        Gateway::with_account(&["m-dead", "m-dead-too", "m-gone", "m-good", "m-slow"]);
    for model in ["m-dead", "m-dead-too"] {
        upstream.answer_model(CHAT, model, Reply::error(503, "no available channel for this model"));
    }
    upstream.answer_model(CHAT, "m-slow", Reply::error(429, "slow down"));
    upstream.answer_model(CHAT, "m-gone", missing("m-gone"));
    let result = &probe(&gateway, &account)["results"][0];
    assert_eq!(
        (&result["scanned"], &result["message"]),
        (&json!(5), &json!("1 supported, 1 unsupported, 3 inconclusive, 0 skipped"))
    );
    assert!(gateway.channels("m-gone").is_empty(), "what was found out holds");
    assert_eq!(gateway.channels("m-dead").len(), 1, "nothing was found out");
}

#[test]
fn a_claude_site_is_asked_in_its_own_dialect() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["claude-x"]);
    let site = gateway.create_site(&json!({"name": "C", "platform": "claude", "url": upstream.url()}));
    let account = gateway.create_account(&site, "sk-ant-key");
    gateway.wait_for_task(&account);
    assert_eq!(probe(&gateway, &account)["summary"]["supported"], 1);
    let asked = upstream.last("/v1/messages");
    assert_eq!(asked.header("x-api-key"), Some("sk-ant-key"));
    assert!(asked.header("authorization").is_none());
}

#[test]
fn what_is_no_account_is_refused() {
    let gateway = Gateway::start();
    let post = |body: Value, status| gateway.admin().post("/api/models/probe", &body).expect(status);
    for bad in [
        json!("1e2"),
        json!(9_007_199_254_740_993_i64),
        json!("0"),
        json!(-1),
        json!(1.5),
        json!("one"),
        json!(true),
        json!("+1"),
    ] {
        post(json!({"accountId": bad}), 400);
    }
    post(json!({"wait": "yes"}), 400);
    gateway.admin().post("/api/models/probe", &json!([])).expect(400);
    post(json!({"accountId": 999, "wait": true}), 404);
    for all in [json!(null), json!("")] {
        let answer = post(json!({"accountId": all, "wait": true}), 200);
        assert_eq!(answer["summary"]["totalAccounts"], 0);
    }
}

#[test]
fn a_probe_under_way_is_joined() {
    let (gateway, upstream, account) = Gateway::with_account(&["m-a"]);
    let gate = Gate::default();
    let answer = wire::faithful("POST", CHAT, &json!({"model": "m-a"}), &[]);
    upstream.answer(CHAT, answer.head_waits_for(&gate));
    let body = json!({"accountId": account["id"]});
    let queued = gateway.admin().post("/api/models/probe", &body).expect(202);
    assert_eq!((&queued["queued"], &queued["reused"]), (&json!(true), &json!(false)));
    eventually("the model is asked for", || upstream.asked_for(CHAT).pop());
    // A pass over all accounts leaves out one that is being probed.
    let all = gateway.admin().post("/api/models/probe", &json!({"wait": true})).expect(200);
    assert_eq!(all["results"][0]["status"], "skipped");
    let again = gateway.admin().post("/api/models/probe", &body).expect(202);
    assert_eq!((&again["reused"], &again["jobId"]), (&json!(true), &queued["jobId"]));
    gate.open();
    let task = gateway.wait_for_task(&queued);
    assert_eq!(
        (&task["type"], &task["dedupeKey"]),
        (&json!("model-probe"), &json!(format!("model-availability-probe-{}", account["id"])))
    );
    assert_eq!(task["result"]["summary"]["supported"], 1);
}

#[test]
fn a_check_asks_for_the_models_and_rebuilds_the_routes() {
    let (gateway, upstream, account) = Gateway::with_account(&["m-a"]);
    upstream.offer(&["m-a", "m-b"]);
    let path = format!("/api/models/check/{}", account["id"]);
    let checked = gateway.admin().post(&path, &json!({})).expect(200);
    let refresh = &checked["refresh"];
    assert_eq!(
        (&checked["success"], &refresh["status"], &refresh["modelCount"]),
        (&json!(true), &json!("success"), &json!(2))
    );
    assert_eq!(refresh["modelsPreview"], json!(["m-a", "m-b"]));
    assert_eq!(checked["rebuild"]["createdRoutes"], 1);
    // A failing upstream does not empty the list.
    for (reply, code) in [
        (Reply::html(502, "<html><title>Bad gateway</title></html>"), "unknown"),
        (Reply::error(401, "invalid key"), "unauthorized"),
        (Reply::json(200, &json!({"object": "list", "data": []})), "empty_models"),
        (Reply::html(200, "<html></html>"), "unknown"),
        (Reply::bytes(200, "application/json", "{\"data\":[{\"id\":\"m-"), "unknown"),
        (Reply::bytes(200, "application/json", vec![b'x'; 10 << 20]), "unknown"),
    ] {
        upstream.answer("/v1/models", reply);
        let failed = gateway.admin().post(&path, &json!({})).expect(200);
        assert_eq!((&failed["success"], &failed["refresh"]["status"]), (&json!(true), &json!("failed")));
        assert_eq!(failed["refresh"]["errorCode"], code);
        assert_eq!(gateway.channels("m-b").len(), 1, "{code}");
    }
    assert_eq!(gateway.account(&account["id"])["runtimeHealth"]["state"], "unhealthy");
    let unknown = gateway.admin().post("/api/models/check/999", &json!({})).expect(200);
    assert_eq!(unknown["refresh"]["errorCode"], "account_not_found");
    gateway.admin().post("/api/models/check/x", &json!({})).expect(400);
}

#[test]
fn a_site_may_wish_to_be_probed_after_each_discovery() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["m-0", "m-a", "m-b", "m-c"]);
    let (site, account) = gateway.add("Relay A", &upstream);
    // A model that is too busy says nothing about the next one.
    upstream.answer_model(CHAT, "m-0", Reply::error(429, "slow down"));
    upstream.answer_model(CHAT, "m-b", missing("m-b"));
    upstream.answer_model(CHAT, "m-c", Reply::error(400, "max_tokens is too small"));
    let wish = json!({"postRefreshProbeEnabled": true, "postRefreshProbeScope": "all"});
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &wish).expect(200);
    let checked =
        gateway.admin().post(&format!("/api/models/check/{}", account["id"]), &json!({})).expect(200);
    let probed = &checked["refresh"]["postProbeResult"];
    assert_eq!(
        (&probed["scope"], &probed["probed"], &probed["unsupported"]),
        (&json!("all"), &json!(4), &json!(1))
    );
    let statuses: Vec<_> = probed["details"]
        .as_array()
        .expect("details")
        .iter()
        .map(|one| (&one["modelName"], &one["status"]))
        .collect();
    assert_eq!(
        statuses,
        [
            (&json!("m-0"), &json!("inconclusive")),
            (&json!("m-a"), &json!("supported")),
            (&json!("m-b"), &json!("unsupported")),
            (&json!("m-c"), &json!("inconclusive"))
        ]
    );
    let off = gateway.admin().get(&format!("/api/sites/{}/disabled-models", site["id"])).expect(200);
    assert_eq!(off["models"], json!(["m-b"]));
    assert_eq!((gateway.channels("m-b").len(), gateway.channels("m-c").len()), (0, 1));
    assert_eq!(gateway.account(&account["id"])["runtimeHealth"]["source"], "post-refresh-probe");

    let now = format!("/api/sites/{}/probe-now", site["id"]);
    let one = gateway.admin().post(&now, &json!({"modelName": "M-A"})).expect(200);
    assert_eq!(
        (&one["success"], &one["scope"], &one["unsupported"]),
        (&json!(true), &json!("single"), &json!(0))
    );
    assert_eq!(one["details"][0]["modelName"], "m-a");
    gateway.admin().post(&now, &json!({"scope": "some"})).expect(400);
    gateway.admin().post("/api/sites/999/probe-now", &json!({})).expect(422);
}

#[test]
fn a_probe_after_a_discovery_ends_where_the_site_does_not_answer() {
    let gateway = Gateway::with(&[("MODEL_AVAILABILITY_PROBE_TIMEOUT_MS", "3000")]);
    let upstream = Upstream::start(&["m-a", "m-b", "m-c", "m-d"]);
    let (site, _) = gateway.add("Relay A", &upstream);
    upstream.answer(CHAT, Reply::stall());
    let path = format!("/api/sites/{}/probe-now", site["id"]);
    let probed = gateway.admin().post(&path, &json!({"scope": "all"})).expect(200);
    assert_eq!(probed["probed"], 2, "{probed}");
    assert_eq!(probed["details"][0]["reason"], "no complete answer within 3 s");
    assert_eq!(upstream.asked_for(CHAT).len(), 2);
}

#[test]
fn a_probe_that_names_no_model_asks_for_one_that_talks() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["a-rerank-2", "b-embedding-3", "m-a", "tts-1"]);
    let (site, _) = gateway.add("Relay A", &upstream);
    let probed =
        gateway.admin().post(&format!("/api/sites/{}/probe-now", site["id"]), &json!({})).expect(200);
    assert_eq!((&probed["probed"], &probed["details"][0]["modelName"]), (&json!(1), &json!("m-a")));
    assert_eq!(upstream.last(CHAT).json()["model"], "m-a");
    // A misspelled name is not another model, which might be disabled because of it.
    let asked = upstream.asked_for(CHAT).len();
    let unknown = json!({"modelName": "m-b"});
    gateway.admin().post(&format!("/api/sites/{}/probe-now", site["id"]), &unknown).expect(422);
    assert_eq!(upstream.asked_for(CHAT).len(), asked);
}

#[test]
fn a_site_is_probed_with_an_account_that_has_the_model_and_a_key() {
    let gateway = Gateway::start();
    let site = Site::start(Program::Sub2Api, &["m-a"]);
    let key = site.ada().keys.remove(0);
    let made = gateway.create_site(&json!({"name": "Relay", "url": site.url(), "platform": "sub2api"}));
    let session = json!({"siteId": made["id"], "accessToken": site.token(), "credentialMode": "session"});
    let session = gateway.admin().post("/api/accounts", &session).expect(200);
    gateway.wait_for_task(&session);
    let models = format!("/api/accounts/{}/models/manual", session["id"]);
    gateway.admin().post(&models, &json!({"models": ["m-own"]})).expect(200);
    let probe = |body: &Value| gateway.admin().post(&format!("/api/sites/{}/probe-now", made["id"]), body);
    let refused = probe(&json!({"scope": "all"})).expect(422);
    assert_eq!(refused["message"], "Active account with a usable key not found", "{refused}");

    let text = format!("sk-{}", key.key);
    site.ada().keys.push(key);
    gateway.wait_for_task(&gateway.create_account(&made, &text));
    for body in [json!({"modelName": "m-a"}), json!({"scope": "all"}), json!({})] {
        let probed = probe(&body).expect(200);
        assert_eq!(
            (&probed["probed"], &probed["details"][0]["modelName"]),
            (&json!(1), &json!("m-a")),
            "{body}"
        );
    }
    probe(&json!({"modelName": "m-own"})).expect(422);
}

#[test]
fn a_probe_says_why_a_model_is_not_known_to_be_served() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["m-a", "m-b", "m-c"]);
    let (site, account) = gateway.add("Relay A", &upstream);
    upstream.answer_model(CHAT, "m-b", missing("m-b"));
    upstream.answer_model(CHAT, "m-c", Reply::error(503, "no capacity for sk-upstream-key"));
    let probe = |body: &Value| {
        let probed = gateway.admin().post(&format!("/api/sites/{}/probe-now", site["id"]), body).expect(200);
        let details = probed["details"].as_array().expect("details");
        details.iter().map(|detail| detail["reason"].clone()).collect::<Vec<_>>()
    };
    let denied = "HTTP 404: The model `m-b` does not exist or you do not have access to it.";
    let reasons = probe(&json!({"scope": "all"}));
    assert_eq!(reasons, [json!(null), json!(denied), json!("HTTP 503: no capacity for [key]")]);
    let health = &gateway.account(&account["id"])["runtimeHealth"];
    assert_eq!(health["reason"], json!(format!("not served: m-b: {denied}")));
    drop(upstream);
    let reasons = probe(&json!({"modelName": "m-a"}));
    assert!(reasons[0].as_str().is_some_and(|reason| !reason.is_empty()), "{reasons:?}");
}

#[test]
fn a_probe_of_a_site_is_told_as_it_happens() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&["m-a", "m-b"]);
    let (site, _) = gateway.add("Relay A", &upstream);
    upstream.answer_model(CHAT, "m-b", missing("m-b"));
    let watch = |query: &str| {
        let path = format!("/api/sites/{}/probe-stream{query}", site["id"]);
        let stream = gateway.admin().stream(Request::new("GET", &path));
        assert_eq!(
            (stream.status, stream.header("content-type")),
            (200, Some("text/event-stream; charset=utf-8"))
        );
        let told = String::from_utf8(stream.rest().0).expect("UTF-8");
        let event = |event: &str| {
            let (name, data) = event.split_once('\n').expect("two lines");
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            (name.strip_prefix("event: ").expect("a name").to_owned(), data)
        };
        told.split_terminator("\n\n").map(event).collect::<Vec<_>>()
    };
    let told = watch("?scope=all");
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["start", "model", "model", "action", "complete"]);
    assert_eq!(told[0].1, json!({"scope": "all", "modelsCount": 2, "modelsToProbe": ["m-a", "m-b"]}));
    assert_eq!((&told[2].1["modelName"], &told[2].1["status"]), (&json!("m-b"), &json!("unsupported")));
    assert_eq!(told[3].1, json!({"modelName": "m-b", "action": "disabled"}));
    assert_eq!((&told[4].1["success"], &told[4].1["unsupported"]), (&json!(true), &json!(1)));
    assert!(gateway.channels("m-b").is_empty());
    let one = watch("?modelName=M-A");
    assert_eq!((one.len(), &one[0].1["modelsToProbe"]), (3, &json!(["m-a"])));
    let path = format!("/api/sites/{}/probe-stream", site["id"]);
    gateway.admin().get(&format!("{path}?scope=some")).expect(400);
    gateway.admin().get(&format!("{path}?latencyThresholdMs=-1")).expect(400);
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({"status": "disabled"})).expect(200);
    assert_eq!(watch(""), [("error".to_owned(), json!({"message": "Active site not found"}))]);
}
