//! Whose fault a failure is: one key's request never changes what other keys get.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Caller, Gateway, Pair, Reply, Request, Upstream, eventually, wire};

/// Asserts that nothing counts against the channel, and that the next request goes there first.
#[track_caller]
fn is_as_before(gateway: &Gateway, model: &str, upstream: &Upstream) {
    for channel in gateway.channels(model) {
        assert_eq!(channel["cooldownUntil"], json!(null), "{channel}");
        assert_eq!(
            (&channel["failCount"], &channel["consecutiveFailCount"]),
            (&json!(0), &json!(0)),
            "{channel}"
        );
    }
    let before = upstream.asked_for(CHAT).len();
    gateway.client().chat(model).expect(200);
    assert_eq!(upstream.asked_for(CHAT).len(), before + 1, "it is asked as before");
}

fn events(gateway: &Gateway) -> String {
    gateway.admin().get("/api/events").expect(200).to_string()
}

#[test]
fn words_of_a_refusal_lead_to_another_channel_and_rest_none() {
    for (status, message) in [
        (404, "The model `x` does not exist"),
        (400, "Invalid API key"),
        (400, "Rate limit reached"),
        (400, "Unsupported legacy protocol"),
        (422, "upstream: connection timed out"),
        (429, "Extra usage is required for long context requests."),
        (403, "You do not have permission to access the File abc or it may not exist."),
    ] {
        let pair = Pair::start();
        pair.first.answer_once(CHAT, Reply::error(status, message));
        pair.gateway.client().chat(Pair::MODEL).expect(200);
        assert_eq!(pair.second.asked_for(CHAT).len(), 1, "{status} {message}");
        pair.gateway.wait_for_logs(2);
        is_as_before(&pair.gateway, Pair::MODEL, &pair.first);
    }
}

#[test]
fn words_that_a_client_has_put_into_a_refusal_count_for_nothing() {
    for (value, message) in [
        (r#""quota exceeded""#, "Invalid value: 'quota exceeded'."),
        (r#""\u0071uota  EXCEEDED""#, "Invalid value: 'quota EXCEEDED'."),
        (r#""unknown model""#, "Invalid value: 'unknown model'."),
        (r#""Invalid API key""#, "Invalid value: 'Invalid API key'."),
        (r#"{"deep":["x","the service unavailable?"]}"#, "Invalid value: 'the service unavailable?'."),
        (r#""messages is required""#, "Invalid value: 'messages is required'."),
        (
            r#""unknown endpoint: please use /v1/responses""#,
            "'unknown endpoint: please use /v1/responses' is wrong",
        ),
    ] {
        let pair = Pair::on("new-api", &[("DISABLE_CROSS_PROTOCOL_FALLBACK", "false")]);
        pair.first.answer_once(CHAT, Reply::error(400, message));
        let body = format!(
            r#"{{"model":"{}","user":{value},"messages":[{{"role":"user","content":"x"}}]}}"#,
            Pair::MODEL
        );
        let error = pair.gateway.client().send(Request::post(CHAT).json_text(body)).expect(400);
        assert_eq!(error["error"]["message"], message);
        assert!(pair.second.asked_for(CHAT).is_empty(), "{value}: no other channel");
        assert!(pair.first.asked_for(RESPONSES).is_empty(), "{value}: no other dialect");
        is_as_before(&pair.gateway, Pair::MODEL, &pair.first);
        assert!(!events(&pair.gateway).contains("All channels failed"));
    }
}

#[test]
fn a_request_that_no_dialect_can_carry_leaves_the_sites_dialects_as_they_are() {
    for (status, message) in
        [(400, "messages is required"), (404, "Not found"), (400, "unsupported endpoint")]
    {
        let (gateway, upstream) = Gateway::serving_as("new-api", &[Pair::MODEL]);
        for path in [CHAT, RESPONSES, MESSAGES] {
            upstream.answer_once(path, Reply::error(status, message));
        }
        gateway.client().chat(Pair::MODEL).expect(status);
        is_as_before(&gateway, Pair::MODEL, &upstream);
    }
}

#[test]
fn a_refusal_that_quotes_the_request_says_nothing_of_a_dialect() {
    let (gateway, upstream) = Gateway::serving_as("new-api", &[Pair::MODEL]);
    upstream.answer_once(RESPONSES, Reply::error(404, "Conversation with id 'conv-of-nobody' not found."));
    let ask = |conversation: Value| {
        let body = json!({"model": Pair::MODEL, "input": "x", "conversation": conversation});
        gateway.client().post(RESPONSES, &body).status
    };
    ask(json!("conv-of-nobody"));
    let before = upstream.asked_for(RESPONSES).len();
    assert_eq!(ask(json!(null)), 200);
    assert_eq!(upstream.asked_for(RESPONSES).len(), before + 1, "another key is served in its own dialect");
}

#[test]
fn a_stored_prompt_that_an_upstream_does_not_know_is_left_out_in_no_dialect() {
    let (gateway, upstream) = Gateway::serving_as("openai", &[Pair::MODEL]);
    upstream.answer(RESPONSES, Reply::error(404, "Prompt with id 'pmpt_1' not found."));
    let ask = json!({"model": Pair::MODEL, "input": "x", "prompt": {"id": "pmpt_1"}});
    let error = gateway.client().post(RESPONSES, &ask).expect(404);
    assert_eq!(error["error"]["message"], "Prompt with id 'pmpt_1' not found.");
    assert!(upstream.asked_for(CHAT).is_empty() && upstream.asked_for(MESSAGES).is_empty());
}

#[test]
fn a_dialect_that_a_site_refuses_is_remembered_once_another_has_answered() {
    let (gateway, upstream) = Gateway::serving_as("new-api", &[Pair::MODEL]);
    upstream.answer(CHAT, Reply::error(400, "Unsupported legacy protocol: please use /v1/responses"));
    for _ in 0..2 {
        gateway.client().chat(Pair::MODEL).expect(200);
    }
    assert_eq!((upstream.asked_for(CHAT).len(), upstream.asked_for(RESPONSES).len()), (1, 2));
}

#[test]
fn an_error_told_in_a_stream_rests_a_channel_by_its_name_alone() {
    let error = |kind: Value, code: Value| {
        wire::data(&json!({"error": {"message": "No.", "type": kind, "code": code}}))
    };
    let content = wire::chat_content(Pair::MODEL, "x");
    for (event, rests) in [
        (error(json!("server_error"), json!(null)), true),
        (error(json!(null), json!(429)), true),
        (error(json!(null), json!("insufficient_quota")), true),
        (error(json!("invalid_request_error"), json!("context_length_exceeded")), false),
        (error(json!(null), json!(400)), false),
        (error(json!("content_policy_violation"), json!(null)), false),
        (wire::data(&json!({"error": {"message": "No. Validation failed."}})), false),
        (wire::data(&json!({"error": {"message": "No."}})), false),
        (wire::data(&json!({"error": {"message": "No. Too many requests."}})), true),
    ] {
        for begun in [false, true] {
            let pair = Pair::start();
            let events = if begun { vec![content.clone(), event.clone()] } else { vec![event.clone()] };
            pair.first.answer_once(CHAT, Reply::events(events));
            let text = pair.gateway.client().stream(Caller::chat_ask(Pair::MODEL, true)).whole().text();
            assert_eq!(text.contains("No."), begun, "{event}");
            pair.gateway.wait_for_logs(if begun { 1 } else { 2 });
            let cools = pair.channel("first")["cooldownUntil"] != json!(null);
            assert_eq!(cools, rests, "{event}, behind output: {begun}");
        }
    }
}

#[test]
fn an_error_without_a_name_in_a_good_answer_rests_a_channel_only_if_it_is_about_the_channel() {
    let said = "quota exceeded";
    for (message, rests) in [
        ("Your prompt was flagged", false),
        ("Cannot say \"quota exceeded\"", false),
        ("Malformed input: too many requests", false),
        ("Too many requests", true),
        ("该令牌额度已用尽", true),
        ("Service temporarily unavailable", true),
    ] {
        for error in [
            json!({"error": message}),
            json!({"error": {"message": message, "code": null}}),
            json!({"success": false, "message": message}),
            json!({"success": false, "msg": message}),
        ] {
            for streamed in [false, true] {
                let pair = Pair::start();
                let reply =
                    if streamed { Reply::events(vec![wire::data(&error)]) } else { Reply::json(200, &error) };
                pair.first.answer_once(CHAT, reply);
                let ask = json!({"model": Pair::MODEL, "stream": streamed,
                    "messages": [{"role": "user", "content": said}]});
                assert_eq!(pair.gateway.client().post(CHAT, &ask).status, 200, "{error}");
                assert_eq!(pair.second.asked_for(CHAT).len(), 1, "{error}, streamed: {streamed}");
                pair.gateway.wait_for_logs(2);
                let cools = pair.channel("first")["cooldownUntil"] != json!(null);
                assert_eq!(cools, rests, "{error}, streamed: {streamed}");
            }
        }
    }
}

#[test]
fn a_code_in_a_good_answer_means_the_same_in_an_object_and_in_a_stream() {
    for (path, code, rests) in [
        (CHAT, 400, false),
        (CHAT, 429, true),
        (MESSAGES, 400, false),
        (MESSAGES, 429, true),
        (RESPONSES, 429, true),
    ] {
        for streamed in [false, true] {
            let error = json!({"code": code, "msg": "No."});
            let reply =
                if streamed { Reply::events(vec![wire::data(&error)]) } else { Reply::json(200, &error) };
            let upstream = Upstream::with_one_path(Pair::MODEL, path);
            let gateway = Gateway::start().in_front_of("openai", &upstream);
            upstream.answer_once(path, reply);
            let ask = json!({"model": Pair::MODEL, "stream": streamed, "max_tokens": 9, "input": "x",
                "messages": [{"role": "user", "content": "x"}]});
            let answer = gateway.client().post(path, &ask);
            assert_eq!(answer.status, if rests { 502 } else { 400 }, "{path} {code}: {}", answer.text());
            gateway.wait_for_logs(1);
            let cools = gateway.channels(Pair::MODEL)[0]["cooldownUntil"] != json!(null);
            assert_eq!(cools, rests, "{path} {code}, streamed: {streamed}");
        }
    }
}

#[test]
fn a_mistake_of_the_clients_that_a_stream_tells_of_reaches_it_as_one() {
    let failed = |kind: &str| {
        let response = json!({"id": "resp_1", "object": "response", "status": "failed",
            "error": {"code": kind, "message": "Too long."}});
        Reply::events(vec![wire::named(&json!({"type": "response.failed", "response": response}))])
    };
    let upstream = Upstream::with_one_path(Pair::MODEL, RESPONSES);
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    let mistake = "context_length_exceeded";
    for (path, code, status) in [
        (RESPONSES, mistake, 400),
        (CHAT, mistake, 400),
        (RESPONSES, "invalid_prompt", 400),
        (CHAT, "image_parse_error", 400),
        (RESPONSES, "server_error", 502),
    ] {
        upstream.answer(RESPONSES, failed(code));
        let ask = json!({"model": Pair::MODEL, "stream": true, "input": "x",
            "messages": [{"role": "user", "content": "x"}]});
        let error = gateway.client().post(path, &ask).expect(status)["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!("Too long.")), "{path}");
        let kind = if status == 400 { "invalid_request_error" } else { "upstream_error" };
        assert_eq!(error["type"], kind, "{path}");
    }
}

#[test]
fn a_keyword_that_the_client_has_asked_for_rests_no_channel() {
    let pair = Pair::with(&[("PROXY_ERROR_KEYWORDS", "out of credit")]);
    let mut echo = wire::chat(Pair::MODEL);
    echo["choices"][0]["message"]["content"] = json!("You are Out of Credit.");
    pair.first.answer_once(CHAT, Reply::json(200, &echo));
    let body = json!({"model": Pair::MODEL,
        "messages": [{"role": "user", "content": "Say: you are out of credit."}]});
    pair.gateway.client().post(CHAT, &body).expect(200);
    pair.gateway.wait_for_logs(2);
    is_as_before(&pair.gateway, Pair::MODEL, &pair.first);
}

#[test]
fn a_model_that_only_a_client_has_named_rests_no_channel() {
    for status in [404, 503] {
        let (gateway, upstream, account) = Gateway::with_account(&["gpt-a"]);
        let route = gateway.admin().post("/api/routes", &json!({"modelPattern": "made-*"})).expect(200);
        let channels = format!("/api/routes/{}/channels", route["id"]);
        gateway.admin().post(&channels, &json!({"accountId": account["id"]})).expect(200);
        let missing = json!({"error": {"message": "No available channel for model made-up",
            "type": "new_api_error", "code": "model_not_found"}});
        upstream.answer_model(CHAT, "made-up", Reply::json(status, &missing));
        gateway.client().chat("made-up").expect(status);
        gateway.wait_for_logs(1);
        is_as_before(&gateway, "made-*", &upstream);
    }
}

#[test]
fn refusals_by_words_raise_no_alarm() {
    let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
    for path in [CHAT, RESPONSES, MESSAGES] {
        upstream.answer(path, Reply::error(400, "Rate limit reached"));
    }
    gateway.client().chat(Pair::MODEL).expect(400);
    upstream.answer(CHAT, Reply::error(500, "boom"));
    gateway.client().chat(Pair::MODEL).expect(500);
    eventually("the failure of the channel is told", || events(&gateway).contains("boom").then_some(()));
    assert!(!events(&gateway).contains("Rate limit reached"));
}

#[test]
fn an_answer_longer_than_is_held_is_asked_for_once_and_rests_no_channel() {
    const MODEL: &str = "model-long";
    let gateway = Gateway::start();
    let upstreams = ["one", "other"].map(|name| {
        let upstream = Upstream::with_one_path(MODEL, CHAT);
        gateway.add_as(&json!({"name": name, "platform": "new-api"}), &upstream);
        let mut long = wire::chat(MODEL);
        long["choices"][0]["message"]["content"] = json!("x".repeat(64 << 20));
        upstream.answer(CHAT, Reply::json(200, &long));
        upstream
    });
    gateway.wait_for_channels(MODEL, 2);
    let ask = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let refused = gateway.client().post(MESSAGES, &ask).expect(502);
    assert_eq!(refused["error"]["message"], "the upstream's answer is longer than 64 MiB");
    assert_eq!(upstreams.iter().map(|upstream| upstream.asked_for(CHAT).len()).sum::<usize>(), 1);
    for channel in gateway.channels(MODEL) {
        let state = (&channel["cooldownUntil"], &channel["consecutiveFailCount"]);
        assert_eq!(state, (&json!(null), &json!(0)), "{channel}");
    }
}

/// Google answers 400 for an unknown key of the account; the client's own key is fine.
#[test]
fn a_refused_key_of_google_is_not_told_as_the_clients_mistake() {
    let refusal = json!({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]}});
    let ask = json!({"contents": [{"parts": [{"text": "x"}]}]});
    for path in [CHAT, "/v1beta/models/m:generateContent"] {
        let (gateway, upstream) = Gateway::serving_as("gemini", &["m"]);
        upstream.answer("/v1beta/models/m:generateContent", Reply::json(400, &refusal));
        let answer = match path {
            CHAT => gateway.client().chat("m"),
            path => gateway.client().post(path, &ask),
        };
        let error = answer.expect(502);
        assert!(!error.to_string().contains("API_KEY_INVALID"), "{path}: {error}");
    }
}

#[test]
fn a_wait_that_makes_no_sense_is_not_passed_on() {
    let (gateway, upstream) = Gateway::serving(&[Pair::MODEL]);
    for (told, passed) in [
        ("2.5", true),
        ("Wed, 21 Oct 2037 07:28:00 GMT", true),
        ("-5", false),
        ("99999999999", false),
        ("soon", false),
        ("nan", false),
    ] {
        upstream.answer_once(CHAT, Reply::error(400, "no").header("retry-after", told));
        let answer = gateway.client().chat(Pair::MODEL);
        assert_eq!(answer.header("retry-after"), passed.then_some(told), "{told}");
    }
}

#[test]
fn what_cloudflare_says_in_plain_text_is_no_answer() {
    for streamed in [false, true] {
        let pair = Pair::start();
        pair.first.answer_once(CHAT, Reply::bytes(200, "text/plain; charset=UTF-8", "error code: 1015"));
        let answer = pair.gateway.client().send(Caller::chat_ask(Pair::MODEL, streamed));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(!answer.text().contains("1015"), "{}", answer.text());
        assert_eq!(pair.second.asked_for(CHAT).len(), 1, "streamed: {streamed}");
    }
}
