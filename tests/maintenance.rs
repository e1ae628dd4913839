//! Starting over: clearing the caches, or everything.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::paths::FACTORY_RESET;
use crate::support::{
    ADMIN_TOKEN, Gate, Gateway, Home, PROXY_TOKEN, Reply, Request, Setup, Upstream, eventually, wire,
};

const CLEAR_CACHE: &str = "/api/settings/maintenance/clear-cache";
const BUILT_IN_TOKEN: &str = "change-me-admin-token";
/// Sent to a client that announced `Expect: 100-continue` when its body is waited for.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn post(gateway: &Gateway, path: &str) -> Value {
    gateway.admin().post(path, &json!({})).expect(202)
}

#[test]
fn clearing_the_cache_forgets_what_was_discovered_and_asks_anew() {
    let (gateway, upstream) = Gateway::serving(&["alpha", "beta"]);
    let before = gateway.routes();
    upstream.offer(&["beta", "gamma"]);
    let answer = post(&gateway, CLEAR_CACHE);
    assert_eq!(answer["deletedModelAvailability"], 2, "{answer}");
    assert_eq!(answer["deletedRouteChannels"], 2, "{answer}");
    assert_eq!(answer["deletedTokenRoutes"], 2, "{answer}");
    assert_eq!(
        (&answer["success"], &answer["queued"], &answer["reused"]),
        (&true.into(), &true.into(), &false.into())
    );
    let task = gateway.wait_for_task(&answer);
    assert_eq!((&task["type"], &task["status"]), (&"maintenance".into(), &"succeeded".into()), "{task}");
    assert_eq!(gateway.models(), ["beta", "gamma"]);
    let after = gateway.routes();
    assert!(after.iter().all(|route| before.iter().all(|old| old["id"] != route["id"])), "{after:?}");
}

#[test]
fn clearing_the_cache_keeps_what_an_operator_made_by_hand() {
    let (gateway, _upstream, account) = Gateway::with_account(&["alpha"]);
    let id = account["id"].as_i64().expect("an id");
    let admin = gateway.admin();
    admin.post(&format!("/api/accounts/{id}/models/manual"), &json!({"models": ["typed"]})).expect(200);
    let by_hand = admin.post("/api/routes", &json!({"modelPattern": "by-hand"})).expect(200);
    let route = by_hand["id"].as_i64().expect("an id");
    let channel = json!({"accountId": id});
    admin.post(&format!("/api/routes/{route}/channels"), &channel).expect(200);
    assert_eq!(gateway.models(), ["alpha", "by-hand", "typed"]);
    let answer = post(&gateway, CLEAR_CACHE);
    // Models typed by hand and routes with a channel by hand serve throughout.
    let models = gateway.models();
    assert!(models.contains(&"typed".to_owned()) && models.contains(&"by-hand".to_owned()), "{models:?}");
    assert_eq!(answer["deletedModelAvailability"], 1, "{answer}");
    gateway.wait_for_task(&answer);
    assert_eq!(gateway.models(), ["alpha", "by-hand", "typed"]);
    assert_eq!(gateway.channels("by-hand").len(), 1);
}

#[test]
fn clearing_the_cache_brings_a_channel_back_beside_one_that_was_added_by_hand() {
    let (gateway, upstream, account) = Gateway::with_account(&["alpha", "beta"]);
    let routes = gateway.routes();
    let route = routes.iter().find(|route| route["modelPattern"] == "alpha").expect("the route");
    let alias = json!({"accountId": account["id"], "sourceModel": "alias", "priority": 9});
    gateway.admin().post(&format!("/api/routes/{}/channels", route["id"]), &alias).expect(200);
    let sources = || {
        let channels = gateway.channels("alpha").into_iter();
        let mut sources: Vec<_> = channels.map(|channel| channel["sourceModel"].clone()).collect();
        sources.sort_by_key(Value::to_string);
        sources
    };
    assert_eq!(sources(), ["alias", "alpha"]);
    gateway.wait_for_task(&post(&gateway, CLEAR_CACHE));
    assert_eq!(sources(), ["alias", "alpha"]);
    let rebuild = || gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200);
    upstream.offer(&["beta"]);
    rebuild();
    assert_eq!(sources(), ["alias"], "nobody offers the model");
    upstream.offer(&["alpha", "beta"]);
    rebuild();
    assert_eq!(sources(), ["alias", "alpha"]);
}

#[test]
fn clearing_the_cache_during_a_refresh_and_twice_at_once_reads_every_account_again() {
    const MODELS: &str = "/v1/models";
    let (gateway, first) = Gateway::serving(&["alpha"]);
    let second = Upstream::start(&["beta"]);
    gateway.add("second", &second);
    let gate = Gate::new();
    let listed = Reply::json(200, &json!({"data": [{"id": "beta"}]}));
    second.answer(MODELS, listed.head_waits_for(&gate));
    let asked = || first.asked_for(MODELS).len().min(second.asked_for(MODELS).len());
    let before = first.asked_for(MODELS).len().max(second.asked_for(MODELS).len());
    std::thread::scope(|scope| {
        scope.spawn(|| gateway.admin().post("/api/routes/rebuild", &json!({"wait": true})).expect(200));
        eventually("the refresh is at both sites", || (asked() > before).then_some(()));
        let clear = || scope.spawn(|| post(&gateway, CLEAR_CACHE));
        let answers = [clear(), clear()].map(|answer| answer.join().expect("an answer"));
        let reused = answers.iter().filter(|answer| answer["reused"] == true);
        let reused: Vec<_> = reused.map(|answer| &answer["deletedModelAvailability"]).collect();
        assert_eq!(reused, [0], "{answers:?}");
        gate.open();
        gateway.wait_for_task(&answers[0]);
    });
    assert_eq!(gateway.models(), ["alpha", "beta"]);
}

#[test]
fn routes_that_lost_their_channels_get_them_back_with_the_next_request() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    let route = gateway.routes()[0]["id"].clone();
    let group = json!({"routeMode": "explicit_group", "displayName": "team", "sourceRouteIds": [route]});
    gateway.admin().post("/api/routes", &group).expect(200);
    upstream.answer("/v1/models", Reply::error(500, "not now"));
    gateway.wait_for_task(&post(&gateway, CLEAR_CACHE));
    assert!(gateway.channels("alpha").is_empty());
    upstream.answer("/v1/models", Reply::json(200, &json!({"data": [{"id": "alpha"}]})));
    gateway.client().chat("team").expect(200);
    gateway.client().chat("alpha").expect(200);
}

#[test]
fn a_route_that_a_key_names_keeps_its_number() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    upstream.answer("/v1/chat/completions", Reply::json(200, &wire::chat("alpha")));
    let route = gateway.routes()[0]["id"].clone();
    let key = json!({"name": "team", "key": "sk-team-1", "allowedRouteIds": [route]});
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let answer = post(&gateway, CLEAR_CACHE);
    assert_eq!(answer["deletedTokenRoutes"], 0, "{answer}");
    assert_eq!(answer["deletedRouteChannels"], 1, "{answer}");
    gateway.wait_for_task(&answer);
    assert_eq!(gateway.routes()[0]["id"], route);
    let team = gateway.with_token("sk-team-1");
    team.chat("alpha").expect(200);
}

#[test]
fn models_of_a_blocked_brand_are_not_routed() {
    let (gateway, _upstream) = Gateway::serving(&["claude-x", "gpt-4o", "qwen-max", "house"]);
    let names = gateway.admin().get("/api/settings/brand-list").expect(200);
    let names = names["brands"].as_array().expect("names");
    assert_eq!((&names[0], &names[1], names.len()), (&"OpenAI".into(), &"Anthropic".into(), 68));
    let blocked = json!({"globalBlockedBrands": [" anthropic", "通义千问", "nobody"]});
    gateway.admin().put("/api/settings/runtime", &blocked).expect(200);
    eventually("the others are offered", || (gateway.models() == ["gpt-4o", "house"]).then_some(()));
    gateway.admin().put("/api/settings/runtime", &json!({"globalBlockedBrands": []})).expect(200);
    eventually("all are offered again", || (gateway.models().len() == 4).then_some(()));
}

#[test]
fn a_factory_reset_leaves_an_empty_gateway_with_the_built_in_token() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    upstream.answer("/v1/chat/completions", Reply::json(200, &wire::chat("alpha")));
    gateway.client().chat("alpha").expect(200);
    gateway.wait_for_logs(1);
    let key = json!({"name": "team", "key": "sk-team-1", "supportedModels": ["*"]});
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    gateway.admin().put("/api/settings/runtime", &json!({"notifyCooldownSec": 7})).expect(200);

    for not_meant in [json!("reset"), json!(""), json!(true), json!(null)] {
        gateway.admin().post(FACTORY_RESET, &json!({"confirm": not_meant})).expect(400);
    }
    gateway.client().chat("alpha").expect(200);
    let meant = json!({"confirm": "RESET"});
    assert_eq!(gateway.admin().post(FACTORY_RESET, &meant).expect(200), json!({"success": true}));
    gateway.with_token(ADMIN_TOKEN).get("/api/sites").expect(403);
    let check_empty = |gateway: &Gateway| {
        let admin = gateway.with_token(BUILT_IN_TOKEN);
        for path in ["/api/sites", "/api/routes"] {
            assert_eq!(admin.get(path).expect(200), json!([]), "{path}");
        }
        assert_eq!(admin.get("/api/accounts").expect(200)["accounts"], json!([]));
        assert_eq!(admin.get("/api/downstream-keys").expect(200)["items"], json!([]));
        assert_eq!(admin.get("/api/stats/proxy-logs").expect(200)["total"], 0);
        assert_eq!(admin.get("/api/settings/runtime").expect(200)["notifyCooldownSec"], 300);
        gateway.with_token("sk-team-1").get("/v1/models").expect(403);
        assert_eq!(gateway.models(), Vec::<String>::new());
    };
    check_empty(&gateway);
    check_empty(&gateway.restart());
}

/// Returns the files of the data directory that hold this text.
fn holders(home: &Home, text: &str) -> Vec<PathBuf> {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    home.files().into_iter().filter(|(_, bytes)| holds(bytes)).map(|(path, _)| path).collect()
}

#[test]
fn a_factory_reset_leaves_nothing_of_the_old_data_in_the_files() {
    let upstream = Upstream::start(&["alpha-of-the-old-days"]);
    let gateway = Gateway::start();
    gateway.add("the old site", &upstream);
    gateway.client().chat("alpha-of-the-old-days").expect(200);
    gateway.wait_for_logs(1);
    let key = json!({"name": "the old team", "key": "sk-team-1", "supportedModels": ["*"]});
    gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let form = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
                --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"old.txt\"\r\n\r\n\
                the old words\r\n--b--\r\n";
    let upload = Request::post("/v1/files").header("content-type", "multipart/form-data; boundary=b");
    gateway.client().send(upload.body(form)).expect(200);
    let old = ["the old site", "alpha-of-the-old-days", "the old team", "old.txt", "the old words"];
    for text in old {
        assert!(!holders(gateway.home(), text).is_empty(), "{text} was stored");
    }
    gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
    for text in old {
        assert_eq!(holders(gateway.home(), text), Vec::<PathBuf>::new(), "{text}");
    }
}

#[test]
fn old_data_that_a_factory_reset_did_not_wipe_is_wiped_by_the_next_start() {
    let mut gateway = Setup::default().on_sqlite().start();
    let old = "the old site";
    let site = json!({"name": old, "url": "http://127.0.0.1:9", "platform": "openai"});
    gateway.admin().post("/api/sites", &site).expect(200);
    let home = Arc::clone(gateway.home());
    // Nothing can be wiped while somebody else reads.
    let reader = rusqlite::Connection::open(home.data_dir().join("switchyard.db")).expect("a database");
    reader.execute_batch("BEGIN; SELECT count(*) FROM sites").expect("it is read");
    gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
    gateway.kill();
    drop((gateway, reader));
    assert!(!holders(&home, old).is_empty());
    let gateway = Setup::default().on_sqlite().start_in(Arc::clone(&home));
    assert_eq!(gateway.with_token(BUILT_IN_TOKEN).get("/api/sites").expect(200), json!([]));
    assert_eq!(holders(&home, old), Vec::<PathBuf>::new());
}

#[test]
fn a_factory_reset_stops_what_runs_and_the_gateway_serves_at_once() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    let asked = upstream.asked_for("/v1/models").len();
    let gate = Gate::new();
    let models = json!({"object": "list", "data": [{"id": "alpha", "object": "model"}]});
    upstream.answer_once("/v1/models", Reply::json(200, &models).head_waits_for(&gate));
    post(&gateway, CLEAR_CACHE);
    eventually("the task asks", || (upstream.asked_for("/v1/models").len() > asked).then_some(()));
    gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
    gate.open();
    let admin = gateway.with_token(BUILT_IN_TOKEN);
    assert_eq!(admin.get("/api/tasks").expect(200)["tasks"], json!([]));
    let site = json!({"name": "new", "url": upstream.url(), "platform": "openai"});
    let site = admin.post("/api/sites", &site).expect(200);
    let account = json!({"siteId": site["id"], "accessToken": "sk-new", "credentialMode": "apikey"});
    admin.post("/api/accounts", &account).expect(200);
    let client = gateway.with_token(PROXY_TOKEN);
    eventually("the new account serves", || (client.chat("alpha").status == 200).then_some(()));
    assert_eq!(upstream.last("/v1/chat/completions").header("authorization"), Some("Bearer sk-new"));
}

#[test]
fn a_site_that_is_looked_at_during_a_factory_reset_is_not_stored() {
    let site = Upstream::start(&[]);
    let gateway = Gateway::start();
    let gate = Gate::new();
    site.answer("/", Reply::html(200, "<title>Veloera</title>").head_waits_for(&gate));
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            gateway.admin().post("/api/sites", &json!({"name": "n", "url": site.url()})).expect(409)
        });
        site.last("/");
        gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
        gate.open();
        making.join().expect("it was refused");
    });
    assert_eq!(gateway.with_token(BUILT_IN_TOKEN).get("/api/sites").expect(200), json!([]));
}

/// Sends the head of a POST request whose body comes later; returns once the gateway waits for the body.
fn announce(gateway: &Gateway, path: &str, token: &str, media_type: &str, body: &str) -> TcpStream {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-type: {media_type}\r\n\
         content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(gateway.address()).expect("connected");
    socket.write_all(head.as_bytes()).expect("sent");
    let mut asked = [0; CONTINUE.len()];
    socket.read_exact(&mut asked).expect("it waits for the body");
    assert_eq!(asked, *CONTINUE);
    socket
}

/// Sends the body of an announced request; returns the status of the answer.
fn complete(mut socket: TcpStream, body: &str) -> String {
    socket.write_all(body.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn a_change_whose_body_comes_after_a_factory_reset_is_refused() {
    let gateway = Gateway::start();
    let body = json!({"name": "late", "url": "http://127.0.0.1:9", "platform": "openai"}).to_string();
    for (token, refused) in [(ADMIN_TOKEN, "403"), (BUILT_IN_TOKEN, "503")] {
        let socket = announce(&gateway, "/api/sites", token, "application/json", &body);
        gateway.with_token(token).post(FACTORY_RESET, &json!({})).expect(200);
        assert_eq!(complete(socket, &body), refused);
        assert_eq!(gateway.with_token(BUILT_IN_TOKEN).get("/api/sites").expect(200), json!([]));
    }
}

#[test]
fn a_file_that_is_uploaded_during_a_factory_reset_is_not_stored() {
    let gateway = Gateway::start();
    let form =
        "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nlate\r\n--b--\r\n";
    let socket = announce(&gateway, "/v1/files", PROXY_TOKEN, "multipart/form-data; boundary=b", form);
    gateway.admin().post(FACTORY_RESET, &json!({})).expect(200);
    assert_eq!(complete(socket, form), "503");
}

#[test]
fn a_request_under_way_leaves_no_trace_behind_a_factory_reset() {
    let (gateway, upstream) = Gateway::serving(&["alpha"]);
    let gate = Gate::new();
    let answer = Reply::json(200, &wire::chat("alpha")).head_waits_for(&gate);
    upstream.answer_once("/v1/chat/completions", answer);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| gateway.client().chat("alpha").expect(200));
        upstream.last("/v1/chat/completions");
        let reset = scope.spawn(|| gateway.admin().post(FACTORY_RESET, &json!({})).expect(200));
        eventually("nobody is routed any more", || {
            let found = gateway.admin().get("/api/routes/decision?model=alpha");
            (found.status != 200 || found.json()["decision"]["matched"] == false).then_some(())
        });
        gate.open();
        asking.join().expect("it was answered");
        reset.join().expect("it was reset");
    });
    let admin = gateway.with_token(BUILT_IN_TOKEN);
    assert_eq!(admin.get("/api/stats/proxy-logs").expect(200)["total"], 0);
    assert_eq!(admin.get("/api/stats/dashboard").expect(200)["totalUsed"], 0);
}
