//! Budgets of downstream keys: limits per window, exact to the request, across a kill and a change of the window.

use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{Answer, Gateway, Reply, Request, Setup, Upstream, eventually, path_of_key, wire};

const MODEL: &str = "model-budgets";
const OTHER: &str = "other-model";
const KEY: &str = "sk-team-budgets-0123456789";

fn world() -> (Gateway, Upstream) {
    world_in("UTC")
}

/// Starts a gateway whose days begin at midnight in this time zone.
fn world_in(zone: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL, OTHER]);
    let gateway = Setup::default().with("TZ", zone).start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    gateway.wait_for_channels(OTHER, 1);
    (gateway, upstream)
}

#[track_caller]
fn create(gateway: &Gateway, budgets: Value) -> Value {
    gateway.create_key(KEY, &json!({ "budgets": budgets }))
}

#[test]
fn a_call_that_a_full_disk_keeps_from_being_counted_is_told_so() {
    let upstream = Upstream::start(&[MODEL]);
    let gateway = Setup::default().on_sqlite().start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(MODEL, 1);
    create(&gateway, json!([{"period": "day", "maxRequests": 100}]));
    gateway.limit_file_size("1");
    let answer = gateway.with_token(KEY).chat(MODEL);
    let error = &answer.expect(507)["error"];
    assert_eq!(error["code"], "insufficient_storage");
    assert!(error["message"].as_str().is_some_and(|words| words.contains("disk")), "{error}");
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    gateway.limit_file_size("unlimited");
    eventually("it is counted again", || (gateway.with_token(KEY).chat(MODEL).status == 200).then_some(()));
}

/// Returns the budgets as the list shows them.
#[track_caller]
fn budgets(gateway: &Gateway) -> Vec<Value> {
    let list = gateway.admin().get("/api/downstream-keys").expect(200);
    list["items"][0]["budgets"].as_array().expect("budgets").clone()
}

#[track_caller]
fn over(answer: &Answer, words: &[&str]) {
    let error = &answer.expect(429)["error"];
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("key_over_budget"), &json!("rate_limit_error")),
        "{error}"
    );
    let message = error["message"].as_str().expect("a message");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
    let wait: u64 = answer.header("retry-after").expect("Retry-After").parse().expect("whole seconds");
    assert!(wait >= 1);
}

/// Builds an answer of 110 tokens, 500,000 of which cost a dollar.
fn reply(model: &str) -> Reply {
    let mut reply = wire::chat(model);
    reply["usage"] = json!({"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110});
    Reply::json(200, &reply)
}

#[test]
fn a_request_that_another_budget_refuses_begins_no_window_of_five_hours() {
    for refusing in [
        json!({"period": "day", "maxRequests": 0}),
        json!({"period": "5h", "maxRequests": 0}),
        json!({"period": "total", "maxCost": 0}),
    ] {
        let (gateway, _upstream) = world();
        create(&gateway, json!([{"period": "5h", "maxRequests": 5}, refusing]));
        over(&gateway.with_token(KEY).chat(MODEL), &[" of 0", "does not reset"]);
        assert_eq!(budgets(&gateway)[0]["resetsAt"], json!(null), "{refusing}");
    }
}

#[test]
fn a_budget_shows_what_is_used_of_it_and_when_it_resets() {
    let (gateway, upstream) = world();
    upstream.answer(CHAT, reply(MODEL));
    let set = json!([
        {"period": "day", "maxRequests": 10},
        {"period": "5h", "maxCost": 1.5, "models": ["model-*"]},
        {"period": "total", "maxTokens": 1000},
    ]);
    create(&gateway, set);
    let fresh = budgets(&gateway);
    let nothing = json!({"cost": 0, "requests": 0, "tokens": 0});
    assert!(fresh.iter().all(|budget| budget["used"] == nothing), "{fresh:?}");
    assert!(fresh[0]["resetsAt"].as_str().is_some_and(|at| at.ends_with("T00:00:00.000Z")), "{fresh:?}");
    assert_eq!((&fresh[1]["resetsAt"], &fresh[2]["resetsAt"]), (&json!(null), &json!(null)));
    assert_eq!((&fresh[1]["maxCost"], &fresh[1]["models"]), (&json!(1.5), &json!(["model-*"])));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    gateway.with_token(KEY).chat(OTHER).expect(200);
    let used = budgets(&gateway);
    let both = json!({"cost": 0.00044, "requests": 2, "tokens": 220});
    assert_eq!((&used[0]["used"], &used[2]["used"]), (&both, &both));
    assert_eq!(used[1]["used"], json!({"cost": 0.00022, "requests": 1, "tokens": 110}), "of its models only");
    assert!(used[1]["resetsAt"].is_string(), "its five hours have begun");
    // The shown budgets may be sent back.
    let item = gateway.admin().get("/api/downstream-keys").expect(200)["items"][0].clone();
    assert_eq!(gateway.change_key(&item, &json!({"budgets": used}))["budgets"], json!(used));
    let reset = gateway.admin().post(&path_of_key(&item, "/reset-usage"), &json!({})).expect(200);
    assert_eq!(reset["item"]["budgets"][0]["used"], nothing);
    gateway.with_token(KEY).chat(MODEL).expect(200);
    assert_eq!(budgets(&gateway)[0]["used"]["requests"], 1);
}

#[test]
fn a_budget_of_requests_holds_to_the_request_one_at_a_time() {
    let (gateway, upstream) = world();
    for (period, words) in [
        ("5h", ["5h budget", "maxRequests of 3", "resets at"]),
        ("day", ["day budget", "maxRequests of 3", "T00:00:00.000Z"]),
        ("week", ["week budget", "maxRequests of 3", "T00:00:00.000Z"]),
        ("month", ["month budget", "maxRequests of 3", "-01T00:00:00.000Z"]),
        ("total", ["total budget", "maxRequests of 3", "does not reset"]),
    ] {
        let item = create(&gateway, json!([{"period": period, "maxRequests": 3}]));
        let asked = upstream.asked_for(CHAT).len();
        for _ in 0..3 {
            gateway.with_token(KEY).chat(MODEL).expect(200);
        }
        over(&gateway.with_token(KEY).chat(MODEL), &words);
        assert_eq!(upstream.asked_for(CHAT).len(), asked + 3, "{period}: no upstream is asked");
        gateway.with_token(KEY).get("/v1/models").expect(200);
        // A refused call is not counted anywhere, and a larger budget continues from the amount used.
        assert_eq!(budgets(&gateway)[0]["used"]["requests"], 3, "{period}");
        gateway.change_key(&item, &json!({"budgets": [{"period": period, "maxRequests": 4}]}));
        gateway.with_token(KEY).chat(MODEL).expect(200);
        over(&gateway.with_token(KEY).chat(MODEL), &["maxRequests of 4"]);
        gateway.admin().delete(&path_of_key(&item, "")).expect(200);
    }
}

#[test]
fn of_a_thousand_parallel_requests_exactly_the_budget_passes() {
    let (gateway, upstream) = world();
    create(&gateway, json!([{"period": "month", "maxRequests": 500}, {"period": "5h", "maxRequests": 700}]));
    let refused = |answer: &Answer| over(answer, &["month budget", "500"]);
    let passed = gateway.served_of_crowd((KEY, MODEL), (200, 5), refused);
    assert_eq!((passed, upstream.asked_for(CHAT).len()), (500, 500));
    let used: Vec<_> = budgets(&gateway).iter().map(|budget| budget["used"]["requests"].clone()).collect();
    assert_eq!(used, [500, 500]);
}

#[test]
fn a_kill_never_lets_more_than_the_budget_pass() {
    let (gateway, _upstream) = world();
    let most = 400;
    create(&gateway, json!([{"period": "total", "maxRequests": most}]));
    gateway.lets_pass_despite_kills(most, 2, (KEY, MODEL));
}

#[test]
fn what_was_used_survives_a_stop_and_a_window_of_yesterday_is_over() {
    let (mut gateway, upstream) = world();
    upstream.answer(CHAT, reply(MODEL));
    let set = json!([{"period": "day", "maxRequests": 2, "maxTokens": 1000}, {"period": "5h", "maxCost": 1}]);
    create(&gateway, set);
    for _ in 0..2 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
    let before = budgets(&gateway);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let mut gateway = gateway.restart();
    assert_eq!(budgets(&gateway), before);
    over(&gateway.with_token(KEY).chat(MODEL), &["day budget", "maxRequests of 2"]);
    gateway.kill();
    let a_day_earlier = "UPDATE downstream_key_budgets SET window_start = window_start - 86400000";
    gateway.home().database().run(a_day_earlier);
    let gateway = gateway.restart();
    let nothing = json!({"cost": 0, "requests": 0, "tokens": 0});
    assert!(budgets(&gateway).iter().all(|budget| budget["used"] == nothing));
    for _ in 0..2 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
    over(&gateway.with_token(KEY).chat(MODEL), &["day budget"]);
    assert_eq!(budgets(&gateway)[1]["used"]["requests"], 2, "a refused call counts in no budget");
}

#[test]
fn a_budget_of_a_day_holds_at_two_hundred_requests_at_once_over_a_kill_and_over_midnight() {
    let refused = |answer: &Answer| over(answer, &["day budget", "maxRequests of 100"]);
    let crowd = |gateway: &Gateway| gateway.served_of_crowd((KEY, MODEL), (200, 1), refused);
    // New York's clocks change in March and November.
    for (zone, midnights) in [
        ("Asia/Shanghai", &["T16:00:00.000Z"][..]),
        ("America/New_York", &["T04:00:00.000Z", "T05:00:00.000Z"]),
    ] {
        let (mut gateway, _upstream) = world_in(zone);
        create(&gateway, json!([{"period": "day", "maxRequests": 100}]));
        let resets_at =
            |gateway: &Gateway| budgets(gateway)[0]["resetsAt"].as_str().expect("a time").to_owned();
        let today = resets_at(&gateway);
        assert!(midnights.iter().any(|midnight| today.ends_with(midnight)), "{zone}: {today}");
        let first = crowd(&gateway);
        gateway.kill();
        let mut gateway = gateway.restart();
        let second = crowd(&gateway);
        gateway.kill();
        let yesterday = "UPDATE downstream_key_budgets SET window_start = window_start - 86400000";
        gateway.home().database().run(yesterday);
        let gateway = gateway.restart();
        let third = crowd(&gateway);
        // Unless a new day has begun meanwhile.
        if resets_at(&gateway) == today {
            assert_eq!((first, second, third), (100, 0, 100), "{zone}");
        }
    }
}

#[test]
fn cost_and_tokens_are_charged_when_they_are_known_and_refuse_the_next() {
    let (gateway, upstream) = world();
    upstream.answer(CHAT, reply(MODEL));
    let item = create(&gateway, json!([{"period": "week", "maxTokens": 220}]));
    for _ in 0..2 {
        gateway.with_token(KEY).chat(MODEL).expect(200);
    }
    over(&gateway.with_token(KEY).chat(MODEL), &["week budget", "maxTokens of 220"]);
    gateway.change_key(&item, &json!({"budgets": [{"period": "week", "maxCost": "0.0004"}]}));
    over(&gateway.with_token(KEY).chat(MODEL), &["week budget", "maxCost of 0.0004 USD"]);
    gateway.change_key(&item, &json!({"budgets": [{"period": "week", "maxCost": 0.1}]}));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    assert_eq!(budgets(&gateway)[0]["used"]["tokens"], 330);
}

/// Builds a stream; OpenAI reports its usage if requested, in an event of its own.
fn streamed(asked: &Value) -> Reply {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let text =
        json!([{"index": 0, "delta": {"role": "assistant", "content": "Hello"}, "finish_reason": null}]);
    let end = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let usage = json!({"prompt_tokens": 90, "completion_tokens": 20, "total_tokens": 110});
    let mut events = vec![chunk(text, Value::Null), chunk(end, Value::Null)];
    if asked["stream_options"]["include_usage"] == true {
        events.push(chunk(json!([]), usage));
    }
    events.push("data: [DONE]\n\n".to_owned());
    Reply::events(events)
}

fn question(options: Value) -> Value {
    json!({"model": MODEL, "stream": true, "messages": [{"role": "user", "content": "hi"}], "stream_options": options})
}

#[test]
fn a_stream_is_charged_whose_client_does_not_ask_for_its_usage() {
    let (gateway, upstream) = world();
    upstream.serve(|request| (request.path() == CHAT).then(|| streamed(&request.json())));
    create(&gateway, json!([{"period": "week", "maxTokens": 330}]));
    let of_key = gateway.with_token(KEY);
    for options in [Value::Null, json!({"include_usage": false, "include_obfuscation": false})] {
        let answer = of_key.post(CHAT, &question(options));
        assert_eq!(
            (answer.status, answer.text().contains("total_tokens")),
            (200, false),
            "{}",
            answer.text()
        );
        assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    }
    assert_eq!(
        upstream.last(CHAT).json()["stream_options"],
        json!({"include_usage": true, "include_obfuscation": false})
    );
    let asks = question(json!({"include_usage": true}));
    assert_eq!(of_key.post(CHAT, &asks).text().matches("total_tokens").count(), 1, "who asks is told");
    over(&of_key.post(CHAT, &asks), &["week budget", "maxTokens of 330"]);
    let plain = question(Value::Null);
    gateway.client().post(CHAT, &plain);
    assert_eq!(upstream.last(CHAT).json()["stream_options"], Value::Null, "nobody is charged by it");
}

#[test]
fn who_leaves_before_the_usage_is_told_is_charged_by_what_has_come() {
    let (gateway, upstream) = world();
    upstream.serve(|request| (request.path() == CHAT).then(|| streamed(&request.json()).stalls_after(1)));
    create(&gateway, json!([{"period": "week", "maxTokens": 30}]));
    let of_key = gateway.with_token(KEY);
    let mut asked = question(Value::Null);
    asked["messages"][0]["content"] = "many words ".repeat(20).into();
    let mut stream = of_key.stream(Request::post(CHAT).json(&asked));
    stream.next_event().expect("no break").expect("an event");
    drop(stream);
    let used = eventually("the key is charged", || {
        let used = budgets(&gateway)[0]["used"]["tokens"].as_u64()?;
        (used > 0).then_some(used)
    });
    assert!((50..150).contains(&used), "{used} for about 55 in and 1 out");
    over(&of_key.post(CHAT, &question(Value::Null)), &["week budget", "maxTokens of 30"]);
    let row = &gateway.admin().get("/api/stats/proxy-logs").expect(200)["items"][0];
    assert_eq!((&row["totalTokens"], &row["estimatedCost"]), (&Value::Null, &json!(0)), "{row}");
}

#[test]
fn a_key_without_limits_is_charged_by_what_has_come_too() {
    let (gateway, upstream) = world();
    gateway.admin().post("/api/downstream-keys", &json!({"name": "team", "key": KEY})).expect(200);
    let of_key = gateway.with_token(KEY);
    upstream.serve(|request| (request.path() == CHAT).then(|| words(100).cut_after(100)));
    of_key.post(CHAT, &question(Value::Null));
    assert_eq!(upstream.last(CHAT).json()["stream_options"], Value::Null, "its usage is not asked for");
    let totals = eventually("the key is charged", || {
        let totals = of_key.get("/v1/usage").expect(200)["totals"].clone();
        (totals["cost"].as_f64()? > 0.0).then_some(totals)
    });
    let output = totals["outputTokens"].as_u64().expect("a count");
    assert!((100..150).contains(&output), "{totals} for 125 tokens");
}

/// Streams words in chunks as OpenAI writes them, most of which are no text.
fn words(count: usize) -> Reply {
    let chunk = |word: usize| {
        let choices = json!([{"index": 0, "delta": {"content": format!("w{word:03} ")}, "logprobs": null}]);
        let chunk = json!({"id": "chatcmpl-CmZ8Qx1Yb2Wc3Vd4Ue5Tf6Sg7Rh8", "object": "chat.completion.chunk",
            "created": 1_790_000_000, "model": MODEL, "service_tier": "default", "obfuscation": "q8f3K2mZ0pWx7",
            "system_fingerprint": "fp_44709d6fcb", "choices": choices, "usage": null});
        format!("data: {chunk}\n\n")
    };
    Reply::events((0..count).map(chunk).collect::<Vec<_>>())
}

#[test]
fn a_stream_that_ends_early_is_charged_by_its_text_and_not_by_its_frames() {
    let (gateway, upstream) = world();
    create(&gateway, json!([{"period": "week", "maxTokens": 100_000}]));
    let of_key = gateway.with_token(KEY);
    let used = || budgets(&gateway)[0]["used"]["tokens"].as_u64().expect("a count");
    upstream.serve(|request| (request.path() == CHAT).then(|| words(100).stalls_after(100)));
    let mut stream = of_key.stream(Request::post(CHAT).json(&question(Value::Null)));
    for _ in 0..100 {
        stream.next_event().expect("no break").expect("an event");
    }
    drop(stream);
    let of_client = eventually("the key is charged", || Some(used()).filter(|used| *used > 0));
    assert!((100..200).contains(&of_client), "{of_client} for about 30 in and 125 out");
    upstream.serve(|request| (request.path() == CHAT).then(|| words(100).cut_after(100)));
    of_key.post(CHAT, &question(Value::Null));
    let of_upstream = eventually("the break is charged", || Some(used()).filter(|used| *used > of_client));
    assert!((100..200).contains(&(of_upstream - of_client)), "{of_upstream} after {of_client}");
    // All figures of the key's holder agree, and so does the sum over all keys.
    let told = of_key.get("/v1/usage").expect(200);
    let today = told["daily"].as_array().and_then(|days| days.last().cloned()).expect("today");
    assert_eq!((&today["tokens"], &today["cost"]), (&json!(of_upstream), &told["totals"]["cost"]), "{told}");
    let tokens =
        ["inputTokens", "outputTokens"].map(|member| told["totals"][member].as_u64().expect("a count"));
    assert_eq!(tokens.iter().sum::<u64>(), of_upstream);
    assert_eq!(gateway.client().get("/v1/usage").expect(200)["totals"]["cost"], told["totals"]["cost"]);
}

#[test]
fn cached_tokens_count_in_a_budget_whatever_the_dialect() {
    let gateway = Gateway::start();
    let upstream = Upstream::start(&[MODEL]);
    gateway.add_as(&json!({"name": "site", "platform": "claude"}), &upstream);
    gateway.wait_for_channels(MODEL, 1);
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 3,
        "output_tokens": 2});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
        "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn", "usage": usage});
    upstream.answer("/v1/messages", Reply::json(200, &message));
    create(&gateway, json!([{"period": "week", "maxTokens": 1000}]));
    let asked = json!({"model": MODEL, "messages": [{"role": "user", "content": "Is it so?"}]});
    gateway.with_token(KEY).post(CHAT, &asked).expect(200);
    assert_eq!(budgets(&gateway)[0]["used"]["tokens"], 100);
    let usage = gateway.with_token(KEY).get("/v1/usage").expect(200);
    assert_eq!(
        (&usage["totals"]["inputTokens"], &usage["totals"]["cacheReadTokens"]),
        (&json!(98), &json!(90))
    );
}

#[test]
fn a_site_that_cannot_tell_usage_answers_all_the_same() {
    let (gateway, upstream) = world();
    upstream.serve(|request| {
        (request.path() == CHAT).then(|| match request.json().get("stream_options") {
            Some(_) => Reply::error(400, "Unrecognized request argument supplied: stream_options"),
            None => streamed(&request.json()),
        })
    });
    create(&gateway, json!([{"period": "week", "maxTokens": 330}]));
    let mut question = question(Value::Null);
    question.as_object_mut().expect("an object").remove("stream_options");
    let answer = gateway.with_token(KEY).post(CHAT, &question);
    assert_eq!((answer.status, answer.text().matches("Hello").count()), (200, 1), "{}", answer.text());
}

#[test]
fn a_budget_of_some_models_leaves_the_others_alone() {
    let (gateway, _upstream) = world();
    create(&gateway, json!([{"period": "day", "maxRequests": 1, "models": [MODEL, "re:^x-"]}]));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    over(&gateway.with_token(KEY).chat(MODEL), &["day budget"]);
    for _ in 0..3 {
        gateway.with_token(KEY).chat(OTHER).expect(200);
    }
    assert_eq!(budgets(&gateway)[0]["used"]["requests"], 1);
}

/// A client that waits as told must not be told to wait again then.
#[test]
fn of_several_budgets_that_are_used_up_the_one_that_resets_last_is_told() {
    let (gateway, _upstream) = world();
    let budget = |period: &str| json!({"period": period, "maxRequests": 1});
    for periods in [["day", "month", "5h"], ["day", "total", "month"]] {
        let item = create(&gateway, json!(periods.map(budget)));
        gateway.with_token(KEY).chat(MODEL).expect(200);
        // On the last day of a month several end at once, or the five hours end last.
        let shown = budgets(&gateway);
        let ends = shown.iter().map(|budget| budget["resetsAt"].as_str().unwrap_or("does not reset"));
        let last = ends.max().expect("three budgets");
        assert_eq!(last == "does not reset", periods.contains(&"total"), "{shown:?}");
        over(&gateway.with_token(KEY).chat(MODEL), &[last]);
        gateway.admin().delete(&path_of_key(&item, "")).expect(200);
    }
}

#[test]
fn a_bad_budget_is_refused_with_what_is_wrong() {
    let gateway = Gateway::start();
    let eight: Vec<_> = (0..8).map(|_| json!({"period": "day", "maxRequests": 5})).collect();
    let item = create(&gateway, json!(eight));
    assert_eq!(item["budgets"].as_array().map(Vec::len), Some(8));
    let nine: Vec<_> = (0..9).map(|_| json!({"period": "day", "maxRequests": 5})).collect();
    for (sent, word) in [
        (json!(nine), "at most 8"),
        (json!([{"period": "year"}]), "5h, day, week, month or total"),
        (json!([{"maxCost": 1}]), "budgets[].period"),
        (json!([{"period": "day", "maxCost": -1}]), "budgets[].maxCost"),
        (json!([{"period": "day", "models": ["re:["]}]), "budgets[].models"),
        (json!("day"), "budgets"),
    ] {
        let error = gateway.admin().put(&path_of_key(&item, ""), &json!({ "budgets": sent })).expect(400);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{sent}: {error}");
    }
    assert_eq!(gateway.change_key(&item, &json!({"budgets": null}))["budgets"], json!(null));
}

#[test]
fn what_was_used_in_a_month_counts_in_another_time_zone_too() {
    let (mut gateway, _upstream) = world_in("Asia/Shanghai");
    create(&gateway, json!([{"period": "month", "maxRequests": 9}, {"period": "week", "maxCost": 1}]));
    gateway.with_token(KEY).chat(MODEL).expect(200);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let home = gateway.home().clone();
    drop(gateway);
    let gateway = Setup::default().with("TZ", "America/New_York").start_in(home);
    gateway.with_token(KEY).chat(MODEL).expect(200);
    for budget in budgets(&gateway) {
        assert_eq!(budget["used"]["requests"], 2, "{budget}");
        let resets_at = budget["resetsAt"].as_str().expect("a time");
        assert!(["T04:00:00.000Z", "T05:00:00.000Z"].iter().any(|midnight| resets_at.ends_with(midnight)));
    }
}
