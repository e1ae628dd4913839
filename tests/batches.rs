//! Batches: bound to one account, under ids of ours, and only visible to the key that created them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::FILES;
use crate::support::{Caller, Gate, Gateway, Pair, Reply, Request, Upstream, eventually};

const ASKED: &str = "model-asked-for";
/// The upstream's name of the model.
const THERE: &str = "vendor/model-2026";
const BATCHES: &str = "/v1/batches";
const ENDPOINT: &str = "/v1/chat/completions";
const UP: &str = "/v1/batches/batch_up1";
const MESSAGES: &str = "/v1/messages/batches";
/// Later than a gateway that does not wait would have ended.
const LATE: Duration = Duration::from_millis(500);
const UP_MESSAGES: &str = "/v1/messages/batches/msgbatch_up1";

/// Builds a batch object as OpenAI writes it.
fn openai(status: &str, output: Option<&str>) -> Value {
    json!({"id": "batch_up1", "object": "batch", "endpoint": ENDPOINT, "errors": null, "input_file_id": "file-up1",
           "completion_window": "24h", "status": status, "output_file_id": output, "error_file_id": null,
           "created_at": 1_790_000_000, "request_counts": {"total": 2, "completed": 2, "failed": 0},
           "metadata": {"run": "7"}})
}

/// Builds a batch object as Anthropic writes it.
fn anthropic(status: &str, results: Option<&str>) -> Value {
    json!({"id": "msgbatch_up1", "type": "message_batch", "processing_status": status,
           "request_counts": {"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0},
           "ended_at": null, "created_at": "2026-05-01T00:00:00Z", "expires_at": "2026-05-02T00:00:00Z",
           "cancel_initiated_at": null, "results_url": results})
}

fn lines(model: &str) -> String {
    let line = |number: u32| {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Which way?"}]});
        json!({"custom_id": format!("r{number}"), "method": "POST", "url": ENDPOINT, "body": body})
            .to_string()
    };
    format!("{}\n{}\n", line(1), line(2))
}

/// Builds results with 11 tokens each.
fn results(model: &str) -> String {
    let line = |number: u32| {
        let body = json!({"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [],
                          "usage": {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}});
        let response = json!({"status_code": 200, "request_id": "x", "body": body});
        json!({"id": "b", "custom_id": format!("r{number}"), "response": response, "error": null}).to_string()
    };
    format!("{}\n{}\n", line(1), line(2))
}

fn message_results(model: &str) -> String {
    let line = |number: u32| {
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
                             "usage": {"input_tokens": 7, "output_tokens": 4}});
        json!({"custom_id": format!("r{number}"), "result": {"type": "succeeded", "message": message}})
            .to_string()
    };
    let failed = json!({"custom_id": "r3", "result": {"type": "errored", "error": {"type": "error"}}});
    format!("{}\n{}\n{failed}\n", line(1), line(2))
}

fn requests(model: &str) -> Value {
    let one = |id: &str| {
        let params =
            json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]});
        json!({"custom_id": id, "params": params})
    };
    json!({"requests": [one("r1"), one("r2")]})
}

fn takes_batches(upstream: &Upstream) {
    upstream
        .answer(FILES, Reply::json(200, &json!({"id": "file-up1", "object": "file", "purpose": "batch"})));
    upstream.answer(BATCHES, Reply::json(200, &openai("validating", None)));
    upstream.answer(UP, Reply::json(200, &openai("in_progress", None)));
    upstream.answer(MESSAGES, Reply::json(200, &anthropic("in_progress", None)));
    upstream.answer(UP_MESSAGES, Reply::json(200, &anthropic("in_progress", None)));
}

/// Starts a gateway and a site at which the model has another name.
fn world(platform: &str, variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let (gateway, upstream) = (Gateway::with(variables), Upstream::start(&[THERE]));
    gateway.add_as(&json!({"name": "site", "platform": platform}), &upstream);
    let route = json!({"modelPattern": "re:^vendor/model-2026$", "displayName": ASKED});
    gateway.admin().post("/api/routes", &route).expect(200);
    gateway.wait_for_channels(THERE, 1);
    takes_batches(&upstream);
    (gateway, upstream)
}

fn upload(client: &Caller, purpose: &str, content: &str) -> String {
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n{purpose}\r\n--b\r\nContent-Disposition: \
         form-data; name=\"file\"; filename=\"in.jsonl\"\r\nContent-Type: application/octet-stream\r\n\r\n{content}\r\n--b--\r\n"
    );
    let form = Request::post(FILES).header("content-type", "multipart/form-data; boundary=b").body(body);
    client.send(form).expect(200)["id"].as_str().expect("an id").to_owned()
}

fn ask(file: &str) -> Value {
    json!({"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h", "metadata": {"run": "7"}})
}

/// Creates a batch; returns its id and that of its input file.
fn create(client: &Caller, model: &str) -> (String, String) {
    let file = upload(client, "batch", &lines(model));
    let batch = client.post(BATCHES, &ask(&file)).expect(200);
    (batch["id"].as_str().expect("an id").to_owned(), file)
}

fn key(gateway: &Gateway, name: &str, more: &Value) -> Caller {
    let key = format!("sk-batch-key-{name}-0123456789");
    let mut body = json!({"name": name, "key": key, "supportedModels": ["*"]});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    gateway.add_key(&body)
}

/// Creates a key with a budget that counts its usage.
fn counted(gateway: &Gateway) -> Caller {
    key(gateway, "team", &json!({"budgets": [{"period": "day", "maxTokens": 1000}]}))
}

#[test]
fn a_batch_goes_to_one_account_with_its_file_under_the_name_of_the_model_there() {
    let (gateway, upstream) = world("openai", &[]);
    let client = gateway.client();
    let (id, file) = create(&client, ASKED);
    assert!(id.starts_with("batch_sy_"), "{id}");
    let sent = upstream.last(FILES);
    let form = String::from_utf8_lossy(&sent.body).into_owned();
    assert!(form.contains("name=\"purpose\"\r\n\r\nbatch\r\n"), "{form}");
    assert!(form.contains(&format!("\r\n\r\n{}\r\n--", lines(THERE))), "{form}");
    let mut asked = ask(&file);
    asked["input_file_id"] = json!("file-up1");
    assert_eq!(upstream.last(BATCHES).json(), asked);
    let shown = client.get(&format!("{BATCHES}/{id}")).expect(200);
    let mut expected = openai("in_progress", None);
    expected["id"] = json!(id);
    expected["input_file_id"] = json!(file);
    assert_eq!(shown, expected);
    let row = gateway.wait_for_logs_of(BATCHES, 1)[0].clone();
    assert_eq!((&row["modelRequested"], &row["modelActual"]), (&json!(ASKED), &json!(THERE)), "{row}");
    assert_eq!((&row["status"], &row["estimatedCost"]), (&json!("success"), &json!(0)), "{row}");
}

#[test]
fn a_batch_outlives_a_restart_and_is_there_for_its_key_alone() {
    let (gateway, upstream) = world("openai", &[]);
    let one = key(&gateway, "one", &json!({}));
    let (id, _) = create(&one, ASKED);
    let path = format!("{BATCHES}/{id}");
    let two = key(&gateway, "two", &json!({}));
    for stranger in [&two, &gateway.client()] {
        stranger.get(&path).expect(404);
        stranger.post(&format!("{path}/cancel"), &json!({})).expect(404);
        assert_eq!(stranger.get(BATCHES).expect(200)["data"], json!([]));
    }
    let gateway = gateway.restart();
    let one = gateway.with_token("sk-batch-key-one-0123456789");
    one.get(&path).expect(200);
    upstream.answer(&format!("{UP}/cancel"), Reply::json(200, &openai("cancelling", None)));
    let cancelled = one.post(&format!("{path}/cancel"), &json!({})).expect(200);
    assert_eq!((&cancelled["id"], &cancelled["status"]), (&json!(id), &json!("cancelling")));
    one.get(&format!("{MESSAGES}/{id}")).expect(404);
}

#[test]
fn batches_are_listed_page_by_page_the_newest_first() {
    let (gateway, _upstream) = world("openai", &[]);
    let client = gateway.client();
    let mut ids: Vec<String> = (0..3).map(|_| create(&client, ASKED).0).collect();
    ids.reverse();
    let first = client.get(&format!("{BATCHES}?limit=2")).expect(200);
    assert_eq!((&first["object"], &first["has_more"]), (&json!("list"), &json!(true)));
    assert_eq!((&first["first_id"], &first["last_id"]), (&json!(ids[0]), &json!(ids[1])));
    assert_eq!((&first["data"][0]["id"], &first["data"][1]["id"]), (&json!(ids[0]), &json!(ids[1])));
    let rest = client.get(&format!("{BATCHES}?limit=2&after={}", ids[1])).expect(200);
    assert_eq!((&rest["data"][0]["id"], &rest["has_more"]), (&json!(ids[2]), &json!(false)));
    for query in ["limit=0", "limit=101", "limit=x", "after=batch_sy_none"] {
        client.get(&format!("{BATCHES}?{query}")).expect(400);
    }
}

#[test]
fn what_cannot_be_a_batch_is_refused_before_anybody_is_asked() {
    let (gateway, upstream) = world("openai", &[]);
    let client = gateway.client();
    let good = upload(&client, "batch", &lines(ASKED));
    let mixed = upload(&client, "batch", &(lines(ASKED) + &lines("another")));
    let other = upload(&client, "user_data", &lines(ASKED));
    let empty = upload(&client, "batch", "\n");
    let with = |member: &str, value: Value| {
        let mut ask = ask(&good);
        ask[member] = value;
        ask
    };
    for (ask, status, param) in [
        (ask(&mixed), 400, "input_file_id"),
        (ask(&other), 400, "input_file_id"),
        (ask(&empty), 400, "input_file_id"),
        (ask("file-sy-unknown"), 404, "input_file_id"),
        (with("input_file_id", Value::Null), 400, "input_file_id"),
        (with("endpoint", json!("/v1/files")), 400, "endpoint"),
        (with("endpoint", json!("/v1/embeddings")), 400, "input_file_id"),
        (with("completion_window", Value::Null), 400, "completion_window"),
    ] {
        let refused = client.post(BATCHES, &ask).expect(status);
        assert_eq!(refused["error"]["param"], param, "{ask}: {refused}");
    }
    client.send(Request::post(BATCHES).json_text("[1]")).expect(400);
    let limited = key(&gateway, "limited", &json!({"supportedModels": ["something-else"]}));
    let file = upload(&limited, "batch", &lines(ASKED));
    limited.post(BATCHES, &ask(&file)).expect(403);
    client.post(BATCHES, &ask(&file)).expect(404);
    let advised = |line: String| line.replace(r#""messages":"#, r#""tools":[{"model":"dear"}],"messages":"#);
    let advised = advised(lines(ASKED));
    assert!(advised.contains("dear"), "{advised}");
    let allowed = key(&gateway, "allowed", &json!({"supportedModels": [ASKED]}));
    let file = upload(&allowed, "batch", &advised);
    let refused = allowed.post(BATCHES, &ask(&file)).expect(403);
    assert_eq!(refused["error"]["message"], "Model dear is not allowed for this key", "{refused}");
    let array = json!({"requests": [{"custom_id": "a", "params": {"model": ASKED, "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}], "tools": [{"name": "advisor", "model": "dear"}]}}]});
    allowed.post(MESSAGES, &array).expect(403);
    assert!(upstream.asked_for(BATCHES).is_empty() && upstream.asked_for(FILES).is_empty());
}

#[test]
fn a_batch_whose_client_leaves_while_it_is_made_is_made_once_and_kept() {
    for (platform, path, waits_at) in
        [("openai", BATCHES, FILES), ("openai", BATCHES, BATCHES), ("claude", MESSAGES, MESSAGES)]
    {
        let (gateway, upstream) = world(platform, &[("MAX_CONNECTIONS", "1")]);
        let client = counted(&gateway);
        let ask = match path {
            BATCHES => ask(&upload(&client, "batch", &lines(ASKED))),
            _ => requests(ASKED),
        };
        let gate = Gate::new();
        let reply = match waits_at {
            FILES => Reply::json(200, &json!({"id": "file-up1", "object": "file", "purpose": "batch"})),
            BATCHES => Reply::json(200, &openai("validating", None)),
            _ => Reply::json(200, &anthropic("in_progress", None)),
        };
        upstream.answer(waits_at, reply.head_waits_for(&gate));
        let mut connection = client.connect();
        connection.write(&client.bytes(Request::post(path).json(&ask))).expect("it is sent");
        eventually("the upstream is asked", || (!upstream.asked_for(waits_at).is_empty()).then_some(()));
        drop(connection);
        // Answered once the first client is known to be gone, since there is only one place.
        assert_eq!(client.get(path).expect(200)["data"], json!([]), "{waits_at}");
        gate.open();
        let batch = eventually("the batch is listed", || {
            client.get(path).expect(200)["data"].as_array().and_then(|list| list.first().cloned())
        });
        let id = batch["id"].as_str().expect("an id");
        client.get(&format!("{path}/{id}")).expect(200);
        assert_eq!(upstream.asked_for(path).len(), 1, "{waits_at}");
        eventually("it is counted", || (gateway.used_of_budget().1 == 1).then_some(()));
    }
}

#[test]
fn a_stop_waits_for_a_batch_that_is_made_though_its_client_has_left() {
    let (mut gateway, upstream) = world("openai", &[("MAX_CONNECTIONS", "1")]);
    let client = gateway.client();
    let file = upload(&client, "batch", &lines(ASKED));
    let gate = Gate::new();
    upstream.answer(BATCHES, Reply::json(200, &openai("validating", None)).head_waits_for(&gate).after(LATE));
    let mut connection = client.connect();
    connection.write(&client.bytes(Request::post(BATCHES).json(&ask(&file)))).expect("it is sent");
    eventually("the upstream is asked", || (!upstream.asked_for(BATCHES).is_empty()).then_some(()));
    drop(connection);
    client.get(BATCHES).expect(200);
    gateway.signal("TERM");
    gateway.wait_for_output("requests in flight have");
    gate.open();
    assert!(gateway.wait_for_exit().success());
    let gateway = gateway.restart();
    let batches = gateway.client().get(BATCHES).expect(200);
    assert_eq!(batches["data"].as_array().map(Vec::len), Some(1), "{batches}");
}

#[test]
fn a_batch_of_too_many_requests_is_refused_before_anybody_is_asked() {
    let (gateway, upstream) = world("openai", &[]);
    let client = gateway.client();
    let line = json!({"url": ENDPOINT, "body": {"model": ASKED}});
    let file = upload(&client, "batch", &format!("{line}\n").repeat(50_001));
    let refused = client.post(BATCHES, &ask(&file)).expect(400);
    let message = refused["error"]["message"].as_str().expect("a message");
    assert_eq!(message, "Line 50001 of the input file: a batch has at most 50000 requests");
    let one = json!({"params": {"model": ASKED}}).to_string();
    let body = format!("{{\"requests\":[{}]}}", vec![one; 100_001].join(","));
    let refused = client.send(Request::post(MESSAGES).json_text(body)).expect(400);
    let message = refused["error"]["message"].as_str().expect("a message");
    assert_eq!(message, "requests.100000.params: a batch has at most 100000 requests");
    assert!([FILES, BATCHES, MESSAGES].iter().all(|path| upstream.asked_for(path).is_empty()));
}

#[test]
fn a_site_without_the_path_is_passed_over_and_does_not_rest() {
    let pair = Pair::start();
    pair.first.answer(FILES, Reply::error(404, "Invalid URL (POST /v1/files)"));
    takes_batches(&pair.second);
    let client = pair.gateway.client();
    let (id, _) = create(&client, Pair::MODEL);
    assert_eq!((pair.first.asked_for(FILES).len(), pair.second.asked_for(BATCHES).len()), (1, 1));
    assert_eq!(pair.channel("first")["cooldownUntil"], Value::Null);
    pair.second.answer(UP, Reply::json(200, &openai("in_progress", None)));
    client.get(&format!("{BATCHES}/{id}")).expect(200);
    assert!(pair.first.asked_for(UP).is_empty());
}

#[test]
fn a_failing_site_is_followed_by_the_next_and_keeps_no_file_that_is_of_no_batch() {
    let pair = Pair::start();
    takes_batches(&pair.first);
    pair.first.answer(BATCHES, Reply::error(500, "out of order"));
    pair.first.answer("/v1/files/file-up1", Reply::json(200, &json!({"id": "file-up1", "deleted": true})));
    takes_batches(&pair.second);
    create(&pair.gateway.client(), Pair::MODEL);
    let removed = pair.first.asked_for("/v1/files/file-up1");
    assert_eq!(removed.iter().map(|asked| asked.method.as_str()).collect::<Vec<_>>(), ["DELETE"]);
    assert_eq!(pair.second.asked_for(BATCHES).len(), 1);
}

#[test]
fn the_files_that_a_batch_makes_are_read_and_deleted_through_its_account() {
    let (gateway, upstream) = world("openai", &[("ECHO_REQUESTED_MODEL", "true")]);
    let client = key(&gateway, "one", &json!({}));
    let (id, _) = create(&client, ASKED);
    upstream.answer(UP, Reply::json(200, &openai("completed", Some("file-out1"))));
    let lines = Reply::bytes(200, "application/octet-stream", results(THERE));
    upstream.answer("/v1/files/file-out1/content", lines);
    let about = json!({"id": "file-out1", "object": "file", "purpose": "batch_output", "bytes": 9});
    upstream.answer("/v1/files/file-out1", Reply::json(200, &about));
    let batch = client.get(&format!("{BATCHES}/{id}")).expect(200);
    let output = format!("{FILES}/{}", batch["output_file_id"].as_str().expect("a file"));
    assert!(!output.contains("file-out1"), "{output}");
    let content = client.get(&format!("{output}/content"));
    assert_eq!((content.status, content.text()), (200, results(ASKED)));
    let shown = client.get(&output).expect(200);
    assert_eq!((&shown["id"], &shown["purpose"]), (&batch["output_file_id"], &json!("batch_output")));
    for path in [output.clone(), format!("{output}/content")] {
        gateway.client().get(&path).expect(404);
    }
    client.get(&output.replace("batchout", "batcherr")).expect(404);
    upstream.answer("/v1/files/file-out1", Reply::json(200, &json!({"id": "file-out1", "deleted": true})));
    assert_eq!(client.delete(&output).expect(200)["id"], batch["output_file_id"]);
}

#[test]
fn what_a_batch_has_used_is_booked_once_on_its_key_from_its_results() {
    let (gateway, upstream) = world("openai", &[]);
    let client = counted(&gateway);
    let (id, _) = create(&client, ASKED);
    let path = format!("{BATCHES}/{id}");
    client.get(&path).expect(200);
    assert_eq!(gateway.used_of_budget(), (0, 1), "it is still worked off");
    upstream.answer(UP, Reply::json(200, &openai("completed", Some("file-out1"))));
    let lines = Reply::bytes(200, "application/octet-stream", results(THERE));
    upstream.answer("/v1/files/file-out1/content", lines);
    for _ in 0..3 {
        client.get(&path).expect(200);
        eventually("it is booked", || (gateway.used_of_budget() == (22, 1)).then_some(()));
    }
    let row = gateway.wait_for_logs_of(BATCHES, 1)[0].clone();
    assert_eq!((&row["promptTokens"], &row["completionTokens"]), (&json!(14), &json!(8)), "{row}");
}

#[test]
fn a_batch_that_ended_while_the_gateway_was_down_is_booked_at_its_start() {
    let (gateway, upstream) = world("openai", &[]);
    create(&counted(&gateway), ASKED);
    let mut done = openai("completed", Some("file-out1"));
    done["usage"] = json!({"input_tokens": 14, "output_tokens": 8, "total_tokens": 22});
    upstream.answer(UP, Reply::json(200, &done));
    gateway.wait_for_logs_of(BATCHES, 1);
    let gateway = gateway.restart();
    eventually("it is booked", || (gateway.used_of_budget() == (22, 1)).then_some(()));
    assert!(upstream.asked_for("/v1/files/file-out1/content").is_empty(), "its object says it");
}

#[test]
fn once_its_account_is_deleted_a_batch_that_has_ended_is_shown_and_another_is_gone() {
    let (gateway, upstream) = world("openai", &[]);
    let client = gateway.client();
    let (open, _) = create(&client, ASKED);
    let (ended, _) = create(&client, ASKED);
    upstream.answer(UP, Reply::json(200, &openai("failed", None)));
    client.get(&format!("{BATCHES}/{ended}")).expect(200);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["id"].clone();
    gateway.admin().delete(&format!("/api/accounts/{account}")).expect(200);
    assert_eq!(client.get(&format!("{BATCHES}/{ended}")).expect(200)["status"], "failed");
    let gone = client.get(&format!("{BATCHES}/{open}")).expect(410);
    assert_eq!(gone["error"]["code"], "batch_unreachable");
}

#[test]
fn a_batch_of_messages_goes_to_one_account_and_its_results_come_from_here() {
    let (gateway, upstream) = world("claude", &[]);
    let client = counted(&gateway).with("host", "gateway.example:4000");
    let batch = client.post(MESSAGES, &requests(ASKED)).expect(200);
    let sent = upstream.last(MESSAGES);
    assert_eq!(sent.json(), requests(THERE));
    assert_eq!((sent.header("x-api-key"), sent.header("authorization")), (Some("sk-upstream-key"), None));
    let id = batch["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("msgbatch_sy_"), "{id}");
    let path = format!("{MESSAGES}/{id}");
    let vendor = "https://api.anthropic.com/v1/messages/batches/msgbatch_up1/results";
    upstream.answer(UP_MESSAGES, Reply::json(200, &anthropic("ended", Some(vendor))));
    let lines = message_results(THERE);
    let answer = Reply::bytes(200, "application/x-jsonl", lines.clone());
    upstream.answer(&format!("{UP_MESSAGES}/results"), answer);
    let shown = client.get(&path).expect(200);
    let mut expected = anthropic("ended", Some(&format!("http://gateway.example:4000{path}/results")));
    expected["id"] = json!(id);
    assert_eq!(shown, expected);
    let asked = upstream.last(UP_MESSAGES);
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!((asked.header("x-api-key"), asked.header("authorization")), (Some("sk-upstream-key"), None));
    let read = client.get(&format!("{path}/results"));
    assert_eq!((read.status, read.text()), (200, lines));
    eventually("it is booked", || (gateway.used_of_budget() == (22, 1)).then_some(()));
    let row = gateway.wait_for_logs_of(MESSAGES, 1)[0].clone();
    assert_eq!((&row["promptTokens"], &row["completionTokens"]), (&json!(14), &json!(8)), "{row}");
}

#[test]
fn batches_of_messages_are_listed_both_ways_cancelled_and_deleted() {
    let (gateway, upstream) = world("claude", &[]);
    let client = gateway.client();
    let mut ids: Vec<String> = (0..3)
        .map(|_| {
            let batch = client.post(MESSAGES, &requests(ASKED)).expect(200);
            batch["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    ids.reverse();
    let listed = |query: &str| {
        let list = client.get(&format!("{MESSAGES}{query}")).expect(200);
        let ids: Vec<String> = list["data"]
            .as_array()
            .expect("data")
            .iter()
            .map(|one| one["id"].as_str().expect("an id").into())
            .collect();
        assert_eq!(list["first_id"], ids[0]);
        (ids, list["has_more"].as_bool().expect("has_more"))
    };
    assert_eq!(listed(""), (ids.clone(), false));
    assert_eq!(listed(&format!("?limit=1&after_id={}", ids[0])), (ids[1..2].to_vec(), true));
    assert_eq!(listed(&format!("?limit=1&before_id={}", ids[2])), (ids[1..2].to_vec(), true));
    let path = format!("{MESSAGES}/{}", ids[0]);
    upstream.answer(&format!("{UP_MESSAGES}/cancel"), Reply::json(200, &anthropic("canceling", None)));
    let cancelled = client.post(&format!("{path}/cancel"), &json!({})).expect(200);
    assert_eq!((&cancelled["id"], &cancelled["processing_status"]), (&json!(ids[0]), &json!("canceling")));
    upstream.answer(
        UP_MESSAGES,
        Reply::json(200, &json!({"id": "msgbatch_up1", "type": "message_batch_deleted"})),
    );
    let deleted = client.delete(&path).expect(200);
    assert_eq!(deleted, json!({"id": ids[0], "type": "message_batch_deleted"}));
    let unknown = client.get(&path).expect(404);
    assert_eq!((&unknown["type"], &unknown["error"]["type"]), (&json!("error"), &json!("not_found_error")));
}

#[test]
fn a_batch_is_not_deleted_before_its_usage_is_booked() {
    let (gateway, upstream) = world("claude", &[]);
    let client = counted(&gateway);
    let id = client.post(MESSAGES, &requests(ASKED)).expect(200)["id"].as_str().expect("an id").to_owned();
    let path = format!("{MESSAGES}/{id}");
    upstream.answer(UP_MESSAGES, Reply::json(200, &anthropic("ended", Some("http://site/results"))));
    let results = format!("{UP_MESSAGES}/results");
    upstream.answer(&results, Reply::json(500, &json!({"error": {"message": "down"}})));
    let refused = client.delete(&path).expect(503);
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("usage")), "{refused}");
    let gate = Gate::new();
    let lines = Reply::bytes(200, "application/x-jsonl", message_results(THERE)).head_waits_for(&gate);
    upstream.answer(&results, lines);
    let asked = upstream.asked_for(&results).len();
    std::thread::scope(|scope| {
        client.get(&path).expect(200);
        eventually("its results are read", || (upstream.asked_for(&results).len() > asked).then_some(()));
        let deleting = scope.spawn(|| client.delete(&path).expect(200));
        gate.open();
        deleting.join().expect("it was deleted");
    });
    assert_eq!(gateway.used_of_budget().0, 22, "tokens");
}

#[test]
fn the_usage_of_a_batch_is_written_with_what_its_key_has_used_or_not_at_all() {
    let (gateway, upstream) = world("claude", &[]);
    let client = counted(&gateway);
    let id = client.post(MESSAGES, &requests(ASKED)).expect(200)["id"].as_str().expect("an id").to_owned();
    let path = format!("{MESSAGES}/{id}");
    upstream.answer(UP_MESSAGES, Reply::json(200, &anthropic("ended", Some("http://site/results"))));
    let lines = Reply::bytes(200, "application/x-jsonl", message_results(THERE));
    upstream.answer(&format!("{UP_MESSAGES}/results"), lines);
    let database = gateway.home().database();
    database.refuse_updates("downstream_api_keys", "NEW.used_cost <> OLD.used_cost");
    client.delete(&path).expect(503);
    let row = || gateway.wait_for_logs_of(MESSAGES, 1)[0].clone();
    assert_eq!(row()["totalTokens"], json!(null), "{}", row());
    database.allow_changes("downstream_api_keys");
    client.delete(&path).expect(200);
    let booked = |gateway: &Gateway| {
        let key = gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone();
        (key["usedCost"].clone(), gateway.used_of_budget())
    };
    assert_eq!((&row()["totalTokens"], booked(&gateway)), (&json!(22), (json!(0.000044), (22, 1))));
    assert_eq!(booked(&gateway.restart()), (json!(0.000044), (22, 1)));
}

#[test]
fn a_batch_counts_in_the_window_in_which_it_ends() {
    let (mut gateway, upstream) = world("openai", &[]);
    create(&counted(&gateway), ASKED);
    gateway.wait_for_logs_of(BATCHES, 1);
    assert_eq!(gateway.used_of_budget(), (0, 1));
    gateway.kill();
    let yesterday = "UPDATE downstream_key_budgets SET window_start = window_start - 86400000";
    gateway.home().database().run(yesterday);
    let mut done = openai("completed", Some("file-out1"));
    done["usage"] = json!({"input_tokens": 14, "output_tokens": 8, "total_tokens": 22});
    upstream.answer(UP, Reply::json(200, &done));
    let gateway = gateway.restart();
    eventually("it counts today, though nothing is asked today", || {
        (gateway.used_of_budget() == (22, 0)).then_some(())
    });
}

#[test]
fn a_batch_that_ended_while_the_gateway_was_down_costs_what_the_price_list_says() {
    let (mut gateway, upstream) = world("openai", &[]);
    create(&counted(&gateway), ASKED);
    gateway.wait_for_logs_of(BATCHES, 1);
    gateway.kill();
    let mut done = openai("completed", Some("file-out1"));
    done["usage"] = json!({"input_tokens": 14, "output_tokens": 8, "total_tokens": 22});
    upstream.answer(UP, Reply::json(200, &done));
    let prices = Gate::new();
    let list = json!({"success": true, "data": [{"model_name": THERE, "model_ratio": 50}]});
    upstream.answer("/api/pricing", Reply::json(200, &list).head_waits_for(&prices));
    let gateway = gateway.restart();
    eventually("the batch is read", || (!upstream.asked_for(UP).is_empty()).then_some(()));
    gateway.client().chat(THERE).expect(200);
    gateway.wait_for_logs(2);
    prices.open();
    eventually("it is booked", || (gateway.used_of_budget() == (22, 1)).then_some(()));
    let key = &gateway.admin().get("/api/downstream-keys").expect(200)["items"][0];
    assert_eq!(key["usedCost"], 0.0022, "100 USD for a million tokens");
}

#[test]
fn messages_for_several_models_or_none_are_refused_in_the_shape_of_the_surface() {
    let (gateway, upstream) = world("claude", &[]);
    let client = gateway.client();
    let mut mixed = requests(ASKED);
    mixed["requests"][1]["params"]["model"] = json!("another");
    for body in [json!({}), json!({"requests": []}), json!({"requests": [{"custom_id": "a"}]}), mixed] {
        let refused = client.post(MESSAGES, &body).expect(400);
        assert_eq!(refused["type"], "error", "{refused}");
        assert_eq!(refused["error"]["type"], "invalid_request_error", "{refused}");
    }
    assert!(upstream.asked_for(MESSAGES).is_empty());
}
