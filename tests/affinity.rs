//! A conversation stays on the channel that served it last while that channel works well, and leaves it as soon as it does
//! not.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{self, Answer, Gateway, Pair, Reply, Request, Upstream, eventually};

const MODEL: &str = Pair::MODEL;

/// A surface, headers, a body.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], Value);

/// Builds a request of a conversation.
fn said(name: &str) -> Request {
    Request::post(RESPONSES).json(&json!({"model": MODEL, "input": "And then?"})).header("session_id", name)
}

fn says(gateway: &Gateway, name: &str) -> Answer {
    gateway.client().send(said(name))
}

fn count(upstream: &Upstream) -> usize {
    upstream.asked().iter().filter(|asked| asked.method == "POST").count()
}

fn set_status(gateway: &Gateway, site: &str, status: &str) {
    let sites = gateway.admin().get("/api/sites").expect(200);
    let site = sites.as_array().expect("sites").iter().find(|found| found["name"] == site).expect("the site");
    gateway.admin().put(&format!("/api/sites/{}", site["id"]), &json!({ "status": status })).expect(200);
}

/// Makes the site that is hardly ever selected serve the conversation.
fn bind_to_second(pair: &Pair, name: &str) {
    set_status(&pair.gateway, "first", "disabled");
    says(&pair.gateway, name).expect(200);
    set_status(&pair.gateway, "first", "active");
}

#[test]
fn a_conversation_stays_where_it_was_served_whatever_names_it() {
    let user = format!("user_{}_account_", "0f".repeat(32));
    let message = json!([{"role": "user", "content": "And then?"}]);
    let claude = [
        ("user-agent", "claude-cli/2.0.14 (external, cli)"),
        ("anthropic-beta", "b"),
        ("anthropic-version", "2023-06-01"),
        ("x-app", "cli"),
    ];
    let cases: [Case<'_>; 4] = [
        (RESPONSES, &[("session_id", "s")], json!({"model": MODEL, "input": "x"})),
        (CHAT, &[], json!({"model": MODEL, "messages": message, "prompt_cache_key": "k"})),
        (
            MESSAGES,
            &[("x-claude-code-session-id", "s")],
            json!({"model": MODEL, "max_tokens": 9, "messages": message}),
        ),
        (
            MESSAGES,
            &claude,
            json!({"model": MODEL, "max_tokens": 9, "messages": message, "metadata": {"user_id": user}}),
        ),
    ];
    let pair = Pair::start();
    for (path, headers, body) in cases {
        let ask = headers
            .iter()
            .fold(Request::post(path).json(&body), |ask, (name, value)| ask.header(name, value));
        set_status(&pair.gateway, "first", "disabled");
        pair.gateway.client().send(ask.clone()).expect(200);
        set_status(&pair.gateway, "first", "active");
        let before = count(&pair.second);
        for _ in 0..5 {
            pair.gateway.client().send(ask.clone()).expect(200);
        }
        assert_eq!(count(&pair.second), before + 5, "{path} {headers:?}");
    }
    assert_eq!(count(&pair.first), 0);
}

#[test]
fn other_conversations_models_callers_and_unnamed_requests_are_not_bound() {
    let pair = Pair::start();
    bind_to_second(&pair, "talk");
    let before = count(&pair.second);
    says(&pair.gateway, "Talk").expect(200);
    pair.gateway.client().send(said("talk").header("originator", "codex_cli_rs")).expect(200);
    assert_eq!(
        count(&pair.second),
        before + 1,
        "a session's name keeps its case, the rest of the key does not"
    );
    let key = json!({"name": "k", "key": "sk-managed-key-1", "supportedModels": ["*"]});
    pair.gateway.admin().post("/api/downstream-keys", &key).expect(200);
    let managed = said("talk").header("authorization", "Bearer sk-managed-key-1");
    pair.gateway.client().send(managed).expect(200);
    pair.gateway.client().chat(MODEL).expect(200);
    assert_eq!((count(&pair.first), count(&pair.second)), (3, before + 1));
}

#[test]
fn a_bound_conversation_takes_a_turn_only_where_turns_are_taken() {
    let pair = Pair::start();
    bind_to_second(&pair, "talk");
    let selected = || pair.channel("second")["lastSelectedAt"].clone();
    let before = selected();
    assert!(before.is_string());
    says(&pair.gateway, "talk").expect(200);
    assert_eq!((count(&pair.second), selected()), (2, before.clone()), "weighted has no turns");
    let route = pair.channel("second")["routeId"].clone();
    for strategy in ["round_robin", "stable_first"] {
        let before = selected();
        let body = json!({ "routingStrategy": strategy });
        pair.gateway.admin().put(&format!("/api/routes/{route}"), &body).expect(200);
        eventually(&format!("{strategy} counts the turn"), || {
            says(&pair.gateway, "talk").expect(200);
            (selected() != before).then_some(())
        });
    }
    assert_eq!(count(&pair.first), 0);
}

#[test]
fn who_goes_on_from_a_stored_answer_comes_back_to_its_channel() {
    for streamed in [false, true] {
        let pair = Pair::start();
        let ask = |more: &Value| {
            let mut body = json!({"model": MODEL, "input": "And then?", "stream": streamed});
            body.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
            let answer = pair.gateway.client().send(Request::post(RESPONSES).json(&body));
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.text()
        };
        set_status(&pair.gateway, "first", "disabled");
        let text = ask(&json!({}));
        let id = text.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
        set_status(&pair.gateway, "first", "active");
        for _ in 0..3 {
            ask(&json!({"previous_response_id": id}));
        }
        assert_eq!((count(&pair.first), count(&pair.second)), (0, 4), "streamed: {streamed}");
        // A new conversation goes to the best channel.
        ask(&json!({}));
        assert_eq!(count(&pair.first), 1);
    }
}

/// Only the upstream of one account has the answer: elsewhere the request would be answered without what came before.
#[test]
fn who_goes_on_from_a_stored_answer_is_sent_nowhere_else() {
    let pair = Pair::start();
    let ask = |more: &Value| {
        let mut body = json!({"model": MODEL, "input": "And then?"});
        body.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        pair.gateway.client().send(Request::post(RESPONSES).json(&body))
    };
    let id = ask(&json!({})).expect(200)["id"].clone();
    let mut conversation = json!({"conversation": "conv_1"});
    ask(&conversation).expect(200);
    assert_eq!((count(&pair.first), count(&pair.second)), (2, 0));
    // It fails, and then rests.
    pair.first.answer_once(RESPONSES, Reply::error(500, "boom"));
    ask(&json!({"previous_response_id": id})).expect(500);
    let resting = ask(&json!({"previous_response_id": id}));
    assert!(resting.status == 200 || resting.header("retry-after").is_some(), "{resting:?}");
    set_status(&pair.gateway, "first", "disabled");
    let error = ask(&json!({"previous_response_id": id})).expect(400);
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    conversation["input"] = json!("Go on");
    assert_eq!(ask(&conversation).expect(400)["error"]["param"], "conversation");
    assert_eq!(count(&pair.second), 0);
    ask(&json!({})).expect(200);
    assert_eq!(count(&pair.second), 1);
}

#[test]
fn a_thread_comes_back_to_the_channel_that_keeps_it() {
    for streamed in [false, true] {
        let (gateway, first, second) =
            (Gateway::start(), Upstream::start(&[MODEL]), Upstream::start(&[MODEL]));
        gateway.add_as(&json!({"name": "first", "platform": "claude"}), &first);
        gateway.add_as(&json!({"name": "second", "platform": "claude"}), &second);
        gateway.wait_for_channels(MODEL, 2);
        let ask = |thread: &Value| {
            let body = json!({"model": MODEL, "max_tokens": 5, "stream": streamed, "thread": thread,
                "messages": [{"role": "user", "content": "And then?"}]});
            let answer = gateway.client().send(Request::post(MESSAGES).json(&body));
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.text()
        };
        set_status(&gateway, "first", "disabled");
        let text = ask(&json!({"type": "create"}));
        let id = text.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
        set_status(&gateway, "first", "active");
        for _ in 0..3 {
            ask(&json!({"type": "continue", "previous_message_id": id}));
        }
        let asked = |upstream: &Upstream| upstream.asked_for(MESSAGES).len();
        assert_eq!((asked(&first), asked(&second)), (0, 4), "streamed: {streamed}");
    }
}

#[test]
fn stickiness_can_be_switched_off() {
    let pair = Pair::with(&[("PROXY_STICKY_SESSION_ENABLED", "false")]);
    bind_to_second(&pair, "talk");
    let before = count(&pair.second);
    says(&pair.gateway, "talk").expect(200);
    assert_eq!((count(&pair.first), count(&pair.second)), (1, before));
}

#[test]
fn a_failing_channel_is_left_at_once_and_the_success_elsewhere_binds() {
    let pair = Pair::start();
    says(&pair.gateway, "talk").expect(200);
    assert_eq!(count(&pair.first), 1);
    pair.first.answer_once(RESPONSES, Reply::error(500, "broken"));
    says(&pair.gateway, "talk").expect(200);
    assert_eq!((count(&pair.first), count(&pair.second)), (2, 1));
    let route = pair.channel("first")["routeId"].clone();
    pair.gateway.admin().post(&format!("/api/routes/{route}/cooldown/clear"), &json!({})).expect(200);
    for _ in 0..3 {
        says(&pair.gateway, "talk").expect(200);
    }
    assert_eq!((count(&pair.first), count(&pair.second)), (2, 4), "the conversation has moved");
    says(&pair.gateway, "another").expect(200);
    assert_eq!(count(&pair.first), 3, "others go where they always went");
}

#[test]
fn a_clients_own_mistake_moves_nothing() {
    let pair = Pair::start();
    bind_to_second(&pair, "talk");
    pair.second.answer_once(RESPONSES, Reply::error(400, "input is too long"));
    says(&pair.gateway, "talk").expect(400);
    says(&pair.gateway, "talk").expect(200);
    assert_eq!((count(&pair.first), count(&pair.second)), (0, 3));
}

#[test]
fn a_channel_that_may_not_be_used_is_no_obstacle() {
    let pair = Pair::start();
    bind_to_second(&pair, "talk");
    set_status(&pair.gateway, "second", "disabled");
    says(&pair.gateway, "talk").expect(200);
    assert_eq!(count(&pair.first), 1);
    set_status(&pair.gateway, "second", "active");
    bind_to_second(&pair, "talk");
    let account = pair.channel("second")["accountId"].clone();
    pair.gateway.admin().delete(&format!("/api/accounts/{account}")).expect(200);
    says(&pair.gateway, "talk").expect(200);
    assert_eq!(count(&pair.first), 2);
}

#[test]
fn a_bound_channel_whose_site_is_full_is_passed_over() {
    let pair = Pair::start();
    bind_to_second(&pair, "talk");
    let sites = pair.gateway.admin().get("/api/sites").expect(200);
    let second = sites.as_array().expect("sites").iter().find(|site| site["name"] == "second").expect("it");
    let path = format!("/api/sites/{}", second["id"]);
    pair.gateway.admin().put(&path, &json!({"maxConcurrency": 1})).expect(200);
    let gate = support::Gate::new();
    let answer =
        Reply::json(200, &json!({"id": "r", "object": "response", "status": "completed", "output": []}));
    pair.second.answer_once(RESPONSES, answer.head_waits_for(&gate));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| says(&pair.gateway, "talk"));
        eventually("the second is busy", || (count(&pair.second) == 2).then_some(()));
        says(&pair.gateway, "talk").expect(200);
        assert_eq!(count(&pair.first), 1);
        gate.open();
        running.join().expect("no panic").expect(200);
    });
}
