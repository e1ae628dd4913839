//! Videos: created like an answer, and retrieved under ids of ours, only by the key that created them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::paths::VIDEOS;
use crate::support::wire::form_field;
use crate::support::{
    self, Answer, Caller, Gateway, Pair, ReceivedRequest, Reply, Request, Setup, Upstream, eventually,
};

const MODEL: &str = "sora-2";
const KIND: &str = "multipart/form-data; boundary=\"b 1\"";
/// A video as this test's upstream writes it, including its blanks.
const BEGUN: &str = "{ \"id\" : \"video_up/1\",\"object\":\"video\", \"model\":\"sora-2\",\n \"status\":\"queued\",\"progress\":0, \
                     \"created_at\":1790000000, \"seconds\":\"4\",\"extra\":{\"id\":\"inner\",\"n\":1.50}, \"error\":null }\n";
const ITS_PATH: &str = "/v1/videos/video_up%2F1";

fn begun() -> Reply {
    Reply::bytes(200, "application/json", BEGUN)
}

fn state(status: &str, progress: u32) -> Reply {
    let body = json!({"id": "video_up/1", "object": "video", "status": status, "progress": progress});
    Reply::json(200, &body).header("openai-poll-after-ms", "250")
}

fn started() -> (Gateway, Upstream) {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    upstream.answer(VIDEOS, begun());
    (gateway, upstream)
}

fn create(client: &Caller) -> String {
    let video = client.post(VIDEOS, &json!({"model": MODEL, "prompt": "A signal box"})).expect(200);
    video["id"].as_str().expect("an id").to_owned()
}

fn path(id: &str) -> String {
    format!("{VIDEOS}/{id}")
}

/// Builds a form with an image of arbitrary bytes, and these models.
fn form(models: &[&str]) -> Vec<u8> {
    let head = "name=\"input_reference\"; filename=\"a.png\"\r\nContent-Type: image/png";
    let mut body = form_field(head, b"\x89PNG\r\n\x1a\n\0\xff--b");
    for model in models {
        body.extend(form_field("name=\"model\"", model.as_bytes()));
    }
    body.extend(form_field("name=prompt", "A signal böx".as_bytes()));
    body.extend(b"--b 1--\r\n");
    body
}

fn send(client: &Caller, form: Vec<u8>) -> Answer {
    client.send(Request::post(VIDEOS).header("content-type", KIND).body(form))
}

fn managed(gateway: &Gateway, key: &str, more: &Value) -> Caller {
    let mut body = json!({"name": key, "key": key, "supportedModels": ["*"]});
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    gateway.add_key(&body)
}

fn number(gateway: &Gateway, sql: &str) -> i64 {
    gateway.home().database().number(sql)
}

fn text(gateway: &Gateway, sql: &str) -> String {
    gateway.home().database().text(sql)
}

#[test]
fn a_video_is_asked_for_in_json_and_told_under_a_name_of_ours() {
    let (gateway, upstream) = started();
    let body =
        r#"{"prompt":"A signal box", "model" : "sora-2","seconds":"4","size":"1280x720","stream":true}"#;
    let ask = Request::post(&format!("{VIDEOS}?key=sk-no&a=1")).json_text(body);
    let answer = gateway.client().send(ask.header("session_id", "s").header("cookie", "c=1"));
    let id = answer.expect(200)["id"].as_str().expect("an id").to_owned();
    assert_eq!(answer.text(), BEGUN.replace("video_up/1", &id), "every other byte is the upstream's");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let parts: Vec<&str> = id.split('_').collect();
    let is_base36 = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z'));
    assert_eq!((parts.len(), parts[0], parts[2].len()), (3, "vid", 8), "{id}");
    assert!(is_base36(parts[1]) && is_base36(parts[2]), "{id}");

    let asked = upstream.last(VIDEOS);
    assert_eq!(String::from_utf8_lossy(&asked.body), body);
    assert_eq!(asked.target, "/v1/videos?a=1");
    assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
    assert_eq!((asked.header("session_id"), asked.header("cookie")), (None, None));
    let row = &gateway.wait_for_logs(1)[0];
    for (name, value) in
        [("status", json!("success")), ("modelRequested", json!(MODEL)), ("isStream", json!(false))]
    {
        assert_eq!(row[name], value, "{name}");
    }
}

#[test]
fn a_form_goes_upstream_byte_for_byte_but_for_the_models_name() {
    let (gateway, upstream) = started();
    let mapping = json!({"my-video": MODEL}).to_string();
    let route = json!({"modelPattern": "re:^(my-video|sora-2)$", "modelMapping": mapping});
    gateway.admin().post("/api/routes", &route).expect(200);
    for (asked, sent) in [(MODEL, MODEL), ("my-video", MODEL)] {
        let video = send(&gateway.client(), form(&[asked])).expect(200);
        assert!(video["id"].as_str().is_some_and(|id| id.starts_with("vid_")), "{video}");
        let heard = upstream.last(VIDEOS);
        assert_eq!(heard.body, form(&[sent]));
        assert_eq!(heard.header("content-type"), Some(KIND));
    }
    let names = "SELECT requested_model || ' ' || actual_model FROM proxy_video_tasks ORDER BY id DESC";
    assert_eq!(text(&gateway, names), "my-video sora-2");
}

#[test]
fn what_is_wrong_is_named_and_nobody_is_asked() {
    let (gateway, upstream) = started();
    for (body, param) in [
        ("{}", json!("model")),
        (r#"{"model":" "}"#, json!("model")),
        (r#"{"model":7}"#, json!("model")),
        (r#"{"model":"a","model":"b"}"#, json!("model")),
        ("[]", Value::Null),
        ("", Value::Null),
    ] {
        let error = gateway.client().send(Request::post(VIDEOS).json_text(body)).expect(400)["error"].clone();
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &param), "{body}");
    }
    for (body, param) in [
        (form(&[]), json!("model")),
        (form(&[" "]), json!("model")),
        (form(&[MODEL, "another"]), json!("model")),
        (b"--b 1--\r\n".to_vec(), Value::Null),
        (b"no form".to_vec(), Value::Null),
    ] {
        let error = send(&gateway.client(), body).expect(400)["error"].clone();
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &param), "{error}");
    }
    let long = vec![b'x'; (64 << 20) + 1];
    assert_eq!(send(&gateway.client(), long).status, 413);
    assert_eq!(upstream.asked_for(VIDEOS).len(), 0);
    gateway.anyone().post(VIDEOS, &json!({"model": MODEL})).expect(401);
    gateway.anyone().get(&path("vid_1_00000000")).expect(401);
}

#[test]
fn a_channel_that_refuses_gives_way_to_the_next() {
    for failing in [
        Reply::error(500, "boom"),
        Reply::json(200, &json!({"error": {"message": "out of steam", "type": "server_error"}})),
        Reply::bytes(200, "text/html", "<html><title>Hello</title></html>"),
    ] {
        let pair = Pair::start();
        pair.first.answer(VIDEOS, failing);
        pair.second.answer(VIDEOS, begun());
        let body = form(&[Pair::MODEL]);
        let video = send(&pair.gateway.client(), body.clone()).expect(200);
        assert_eq!((pair.first.last(VIDEOS).body, pair.second.last(VIDEOS).body), (body.clone(), body));
        let rows = pair.gateway.wait_for_logs(2);
        assert_eq!(
            (&rows[0]["status"], &rows[1]["status"]),
            (&json!("failed"), &json!("success")),
            "{rows:#?}"
        );
        // Its state is requested where it is created.
        pair.second.answer(ITS_PATH, state("completed", 100));
        let id = video["id"].as_str().expect("an id");
        assert_eq!(pair.gateway.client().get(&path(id)).expect(200)["status"], "completed");
        assert!(pair.first.asked_for(ITS_PATH).is_empty());
        assert!(!pair.channel("first")["cooldownUntil"].is_null(), "the first one rests");
    }
}

#[test]
fn an_answer_that_names_no_video_is_a_bad_gateway() {
    for nameless in [json!({"status": "queued"}), json!({"id": " ", "object": "video", "status": "queued"})] {
        let pair = Pair::start();
        pair.first.answer(VIDEOS, Reply::json(200, &nameless));
        let error =
            pair.gateway.client().post(VIDEOS, &json!({"model": Pair::MODEL})).expect(502)["error"].clone();
        assert_eq!(error["type"], "upstream_error");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("without an id")), "{error}");
        assert_eq!(number(&pair.gateway, "SELECT COUNT(*) FROM proxy_video_tasks"), 0);
        assert!(pair.second.asked_for(VIDEOS).is_empty(), "it may be made already");
    }
    let (gateway, _upstream) = started();
    let error = gateway.client().post(VIDEOS, &json!({"model": "unheard-of"})).expect(503)["error"].clone();
    assert_eq!(error["type"], "server_error");
}

#[test]
fn a_video_is_followed_to_its_end_and_what_is_known_of_it_kept() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    let id = create(&client);
    let known = "SELECT status_snapshot || ' ' || last_upstream_status FROM proxy_video_tasks";
    assert!(text(&gateway, known).contains("\"status\":\"queued\""));
    for (status, progress) in [("in_progress", 40), ("completed", 100)] {
        upstream.answer(ITS_PATH, state(status, progress));
        let ask = Request::new("GET", &format!("{}?key=sk-1&b=2", path(&id))).header("user-agent", "me/1");
        let answer = client.send(ask);
        let told = json!({"id": id, "object": "video", "status": status, "progress": progress});
        assert_eq!(answer.expect(200), told);
        assert_eq!(answer.header("openai-poll-after-ms"), Some("250"));
        let asked = upstream.last(ITS_PATH);
        assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/v1/videos/video_up%2F1?b=2"));
        assert_eq!(asked.header("authorization"), Some("Bearer sk-upstream-key"));
        assert_eq!((asked.header("user-agent"), asked.header("content-type")), (Some("me/1"), None));
        let kept = text(&gateway, known);
        assert!(kept.contains(&format!("\"status\":\"{status}\"")) && kept.ends_with(" 200"), "{kept}");
    }
    assert_eq!(
        number(&gateway, "SELECT COUNT(*) FROM proxy_video_tasks WHERE last_polled_at >= created_at"),
        1
    );

    // A failed video says why; that is its state, not a failure of ours.
    let failed = json!({"id": "video_up/1", "status": "failed", "error": {"code": "x", "message": "no"}});
    upstream.answer(ITS_PATH, Reply::json(200, &failed));
    assert_eq!(client.get(&path(&id)).expect(200)["error"], failed["error"]);

    // An upstream's refusal is passed on, and what is known of the video stays.
    upstream.answer(ITS_PATH, Reply::error(404, "gone"));
    assert_eq!(client.get(&path(&id)).expect(404)["error"]["message"], "gone");
    upstream.answer(ITS_PATH, Reply::bytes(200, "text/html", "<html><title>Hi</title></html>"));
    assert_eq!(client.get(&path(&id)).expect(502)["error"]["type"], "upstream_error");
    let kept = text(&gateway, "SELECT status_snapshot FROM proxy_video_tasks");
    assert!(kept.contains("\"status\":\"failed\""), "{kept}");
    assert_eq!(gateway.wait_for_logs(1).len(), 1, "asking after a video is no call");
}

#[test]
fn only_who_asked_for_a_video_finds_it() {
    let (gateway, upstream) = started();
    upstream.answer(ITS_PATH, state("completed", 100));
    let (one, other) =
        (managed(&gateway, "sk-managed-1", &json!({})), managed(&gateway, "sk-managed-2", &json!({})));
    let id = create(&one);
    one.get(&path(&id)).expect(200);
    let before = upstream.asked_for(ITS_PATH).len();
    let foreign = other.get(&path(&id)).expect(404);
    assert_eq!(foreign["error"]["type"], "not_found_error");
    let unknown = "vid_mubdzlog_00000000";
    for (client, name) in
        [(&other, id.as_str()), (&gateway.client(), &id), (&one, unknown), (&one, "video_up")]
    {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/content")] {
            let answer = client.send(Request::new(method, &format!("{}{rest}", path(name)))).expect(404);
            let same = foreign.to_string().replace(&id, name);
            assert_eq!(answer.to_string(), same, "{method} {name}{rest}");
        }
    }
    assert_eq!(upstream.asked_for(ITS_PATH).len(), before);
    one.get(&path(&id)).expect(200);
}

#[test]
fn a_key_asks_for_what_it_may_and_pays_for_the_asking_alone() {
    let (gateway, upstream) = started();
    upstream.answer(ITS_PATH, state("completed", 100));
    let strict = managed(&gateway, "sk-managed-strict", &json!({"supportedModels": ["gpt-*"]}));
    for answer in [strict.post(VIDEOS, &json!({"model": MODEL})), send(&strict, form(&[MODEL]))] {
        assert_eq!(answer.expect(403)["error"]["param"], "model");
    }
    let once = managed(&gateway, "sk-managed-once", &json!({"maxRequests": 1}));
    let id = create(&once);
    // Its own videos can still be retrieved, but its requests are used up.
    assert_eq!(once.post(VIDEOS, &json!({"model": MODEL})).expect(403)["error"]["code"], "key_over_requests");
    let twice = managed(&gateway, "sk-managed-twice", &json!({"maxRequests": 2}));
    let own = create(&twice);
    for _ in 0..3 {
        twice.get(&path(&own)).expect(200);
    }
    create(&twice);
    assert_eq!(upstream.asked_for(VIDEOS).len(), 3);
    twice.get(&path(&id)).expect(403);
}

#[test]
fn an_id_that_was_told_survives_a_kill() {
    let (mut gateway, upstream) = started();
    upstream.answer(ITS_PATH, state("completed", 100));
    for _ in 0..5 {
        let id = create(&gateway.client());
        gateway = gateway.restart();
        assert_eq!(gateway.client().get(&path(&id)).expect(200)["id"], id);
    }
}

#[test]
fn a_deleted_video_is_gone_here_and_there() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    let id = create(&client);
    upstream.answer(ITS_PATH, Reply::error(500, "boom"));
    client.delete(&path(&id)).expect(500);
    upstream.answer(ITS_PATH, Reply::json(200, &json!({"id": "video_up/1", "deleted": true})));
    let answer = client.delete(&path(&id));
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    assert_eq!(upstream.last(ITS_PATH).method, "DELETE");
    client.get(&path(&id)).expect(404);
    client.delete(&path(&id)).expect(404);

    // Some upstreams do not know deletion, and some have forgotten the video.
    for status in [404, 405] {
        let id = create(&client);
        upstream.answer(ITS_PATH, Reply::error(status, "no"));
        assert_eq!(client.delete(&path(&id)).status, 204);
        client.get(&path(&id)).expect(404);
    }
}

/// Returns the credentials of an upstream's requests, newest first.
fn keys(asked: &[ReceivedRequest]) -> Vec<String> {
    asked.iter().rev().filter_map(|asked| asked.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn the_account_is_asked_as_it_is_now_and_what_was_kept_once_it_is_gone() {
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    let (site, account) = gateway.add("site", &upstream);
    upstream.answer(VIDEOS, begun());
    upstream.answer(ITS_PATH, state("in_progress", 1));
    let client = gateway.client();
    let id = create(&client);
    let account = format!("/api/accounts/{}", account["id"]);
    gateway.admin().put(&account, &json!({"apiToken": "sk-upstream-new"})).expect(200);
    client.get(&path(&id)).expect(200);
    assert_eq!(keys(&upstream.asked_for(ITS_PATH))[0], "Bearer sk-upstream-new");

    gateway.admin().delete(&account).expect(200);
    client.get(&path(&id)).expect(200);
    assert_eq!(keys(&upstream.asked_for(ITS_PATH))[0], "Bearer sk-upstream-key");
    gateway.admin().delete(&format!("/api/sites/{}", site["id"])).expect(200);
    client.get(&path(&id)).expect(200);
    for (file, bytes) in gateway.home().files() {
        let holds = bytes.windows(15).any(|window| window == b"sk-upstream-key");
        assert!(!holds, "the key stands in {}", file.display());
    }

    gateway.home().database().run("UPDATE proxy_video_tasks SET token_value = NULL");
    let error = client.get(&path(&id)).expect(410)["error"].clone();
    assert_eq!(error["code"], "video_unreachable");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("credential")), "{error}");
    client.send(Request::new("GET", &format!("{}/content", path(&id)))).expect(410);
    assert_eq!(client.delete(&path(&id)).status, 204);
    client.get(&path(&id)).expect(404);
}

#[test]
fn nothing_goes_around_a_proxy_that_led_to_a_video() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    let id = create(&client);
    let account = gateway.admin().get("/api/accounts").expect(200)["accounts"][0]["id"].clone();
    gateway.admin().delete(&format!("/api/accounts/{account}")).expect(200);
    gateway.home().database().run("UPDATE proxy_video_tasks SET through_proxy = TRUE");
    client.get(&path(&id)).expect(410);
    assert!(upstream.asked_for(ITS_PATH).is_empty());
}

#[test]
fn the_next_address_of_a_site_is_asked_when_one_fails() {
    let gateway = Gateway::start();
    let (first, second) = (Upstream::start(&[MODEL]), Upstream::start(&[MODEL]));
    let pool = json!([{"url": first.url(), "sortOrder": 0}, {"url": second.url(), "sortOrder": 1}]);
    gateway.add_as(&json!({"name": "pool", "platform": "openai", "apiEndpoints": pool}), &first);
    first.answer(VIDEOS, begun());
    let client = gateway.client();
    let id = create(&client);
    first.answer(ITS_PATH, Reply::error(503, "boom"));
    second.answer(ITS_PATH, state("completed", 100));
    assert_eq!(client.get(&path(&id)).expect(200)["status"], "completed");
    assert_eq!((first.asked_for(ITS_PATH).len(), second.asked_for(ITS_PATH).len()), (1, 1));
    // The first one is cooling, so it is left alone.
    client.get(&path(&id)).expect(200);
    assert_eq!((first.asked_for(ITS_PATH).len(), second.asked_for(ITS_PATH).len()), (1, 2));
    second.answer(ITS_PATH, Reply::error(400, "bad"));
    client.get(&path(&id)).expect(400);
}

#[test]
fn content_passes_as_it_comes() {
    let (gateway, upstream) = started();
    let client = gateway.client();
    let id = create(&client);
    let (content, its) = (format!("{}/content", path(&id)), format!("{ITS_PATH}/content"));
    let bytes: Vec<u8> = (0..5_000_000u32).map(|at| (at * 31 % 251) as u8).collect();
    upstream.answer(&its, Reply::bytes(200, "video/mp4", bytes.clone()).header("etag", "\"e\""));
    let answer = client.send(
        Request::new("GET", &format!("{content}?variant=video&key=sk-1"))
            .header("accept", "application/binary")
            .header("range", "bytes=0-"),
    );
    assert_eq!(answer.status, 200);
    assert!(answer.body == bytes, "{} bytes came", answer.body.len());
    for (name, value) in [
        ("content-type", "video/mp4"),
        ("content-length", "5000000"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
        ("etag", "\"e\""),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let asked = upstream.last(&its);
    assert_eq!(asked.target, format!("{its}?variant=video"));
    assert_eq!(
        (asked.header("accept"), asked.header("range")),
        (Some("application/binary"), Some("bytes=0-"))
    );

    // Piece by piece: the first one arrives before the second is sent.
    let gate = support::Gate::new();
    upstream.answer(&its, Reply::events(["one", "two"]).waits_for(1, &gate));
    let mut stream = client.stream(Request::new("GET", &content));
    assert_eq!(stream.next_piece().expect("a piece").as_deref(), Some(b"one".as_slice()));
    gate.open();
    assert_eq!(stream.rest().0, b"two");

    upstream.answer(&its, Reply::error(400, "not ready"));
    assert_eq!(client.get(&content).expect(400)["error"]["message"], "not ready");
    upstream.answer(&its, Reply::bytes(200, "text/html", "<html></html>"));
    client.get(&content).expect(502);
}

#[test]
fn a_client_that_hangs_up_ends_the_download_and_frees_its_slot() {
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_as(&json!({"name": "few", "platform": "openai", "maxConcurrency": 1}), &upstream);
    upstream.answer(VIDEOS, begun());
    upstream.answer(ITS_PATH, state("completed", 100));
    let client = gateway.client();
    let id = create(&client);
    let (content, its) = (format!("{}/content", path(&id)), format!("{ITS_PATH}/content"));
    upstream.answer(&its, Reply::events(["one", "two"]).stalls_after(1));
    let mut stream = client.stream(Request::new("GET", &content));
    stream.next_piece().expect("a piece");
    let full = client.get(&path(&id)).expect(503);
    assert_eq!(full["error"]["type"], "site_concurrency_limit");
    drop(stream);
    eventually("the upstream sees it", || upstream.last(&its).hung_up().then_some(()));
    client.get(&path(&id)).expect(200);
}

#[test]
fn old_videos_are_forgotten() {
    let (mut gateway, _upstream) = started();
    let (old, young) = (create(&gateway.client()), create(&gateway.client()));
    gateway.kill();
    let age = "UPDATE proxy_video_tasks SET created_at = created_at - 2678400000 WHERE public_id = ?";
    gateway.home().database().execute(age, &[&old]);
    let gateway = gateway.restart();
    eventually("one is left", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_video_tasks") == 1).then_some(())
    });
    assert_eq!(text(&gateway, "SELECT public_id FROM proxy_video_tasks"), young);
}

#[test]
fn a_hundred_clients_get_a_hundred_names() {
    let (gateway, _upstream) = started();
    let ids = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..10 {
            let (client, ids) = (gateway.client(), &ids);
            scope.spawn(move || {
                for _ in 0..10 {
                    ids.lock().expect("no panic").push(create(&client));
                }
            });
        }
    });
    let mut ids = ids.lock().expect("no panic").clone();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    assert_eq!(number(&gateway, "SELECT COUNT(*) FROM proxy_video_tasks"), 100);
}

#[test]
fn the_requested_name_is_told_where_an_operator_wants_it() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway =
        Setup::default().with("ECHO_REQUESTED_MODEL", "true").start().in_front_of("openai", &upstream);
    let mapping = json!({"my-video": MODEL}).to_string();
    let route = json!({"modelPattern": "re:^(my-video|sora-2)$", "modelMapping": mapping});
    gateway.admin().post("/api/routes", &route).expect(200);
    upstream.answer(VIDEOS, begun());
    upstream.answer(ITS_PATH, begun());
    let video = gateway.client().post(VIDEOS, &json!({"model": "my-video"})).expect(200);
    assert_eq!(video["model"], "my-video");
    let id = video["id"].as_str().expect("an id");
    assert_eq!(gateway.client().get(&path(id)).expect(200), video);
}

#[test]
fn on_a_full_disk_a_video_is_found_and_cannot_be_deleted() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Setup::default().on_sqlite().start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    upstream.answer(VIDEOS, begun());
    let client = gateway.client();
    let its_path = path(&create(&client));
    upstream.answer(ITS_PATH, state("completed", 100));
    gateway.limit_file_size("1");
    assert_eq!(client.get(&its_path).expect(200)["status"], "completed");
    assert_eq!(client.delete(&its_path).expect(507)["error"]["code"], "insufficient_storage");
    gateway.limit_file_size("unlimited");
    eventually("it is deleted", || (client.delete(&its_path).status == 204).then_some(()));
}
