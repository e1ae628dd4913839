//! Requests other than for answers: counting tokens, compacting a conversation.

use serde_json::{Value, json};

use crate::support::paths::COMPACT;
use crate::support::{self, Gateway, Pair, Reply, Request, Upstream};

const MODEL: &str = "model-small";
const COUNT: &str = "/v1/messages/count_tokens";

fn through(platform: &str) -> (Gateway, Upstream) {
    Gateway::serving_as(platform, &[MODEL])
}

fn to_count() -> Value {
    json!({"model": MODEL, "max_tokens": 5, "stream": false, "betas": ["one-2025", "two-2025"],
           "messages": [{"role": "user", "content": "Which way?"}]})
}

#[test]
fn an_upstream_that_counts_is_asked() {
    let (gateway, upstream) = through("claude");
    let ask =
        Request::post(&format!("{COUNT}?beta=true")).header("anthropic-beta", "one-2025").json(&to_count());
    let answer = gateway.client().send(ask);
    assert_eq!(answer.expect(200), json!({"input_tokens": 42}));
    assert_eq!(answer.header("x-switchyard-estimated"), None);
    let asked = upstream.last(COUNT);
    assert_eq!(asked.json(), json!({"model": MODEL, "messages": to_count()["messages"]}));
    assert_eq!(asked.header("anthropic-beta"), Some("one-2025,two-2025,token-counting-2024-11-01"));
}

#[test]
fn a_count_with_more_betas_in_its_body_than_a_header_carries_is_estimated() {
    let (gateway, upstream) = through("new-api");
    let mut body = to_count();
    let betas: Vec<String> = (0..200_000).map(|number| format!("b{number}")).collect();
    body["betas"] = json!(betas);
    let answer = gateway.client().post(COUNT, &body);
    assert_eq!(answer.expect(200), json!({"input_tokens": 3}));
    assert_eq!(answer.header("x-switchyard-estimated"), Some("1"));
    assert!(upstream.asked_for(COUNT).is_empty());
}

#[test]
fn a_count_is_no_stream_and_is_asked_for_at_the_beta() {
    let (gateway, upstream) = through("new-api");
    let body = json!({"model": MODEL, "stream": true, "messages": to_count()["messages"]});
    let answer = gateway.client().post(COUNT, &body);
    assert_eq!(answer.expect(200), json!({"input_tokens": 42}));
    assert_eq!(answer.header("x-switchyard-estimated"), None, "the upstream's own count");
    assert_eq!(upstream.last(COUNT).target, format!("{COUNT}?beta=true"));
}

#[test]
fn clients_that_put_the_vendors_name_before_the_path_are_served() {
    let (gateway, _upstream) = through("claude");
    let message = json!({"model": MODEL, "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]});
    let answer = gateway.client().post("/anthropic/v1/messages", &message).expect(200);
    assert_eq!(answer["type"], "message", "{answer}");
    let counted = gateway.client().post("/anthropic/v1/messages/count_tokens", &to_count()).expect(200);
    assert_eq!(counted["input_tokens"], 42);
}

#[test]
fn a_version_that_is_said_twice_is_understood() {
    let (gateway, _upstream) = through("new-api");
    let message = json!({"model": MODEL, "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]});
    assert_eq!(gateway.client().post("/v1/v1/messages", &message).expect(200)["type"], "message");
    assert_eq!(gateway.client().get("/v1/v1/models").expect(200)["object"], "list");
    gateway.client().get("/v1/v1/v1/models").expect(404);
    gateway.anyone().post("/v1/v1/messages", &message).expect(401);
}

#[test]
fn the_prefixes_that_other_services_have_before_openais_paths_are_understood() {
    let (gateway, _upstream) = through("new-api");
    let (client, chat) =
        (gateway.client(), json!({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}));
    for prefix in ["/v1beta/openai", "/openai/v1"] {
        let answer = client.post(&format!("{prefix}/chat/completions"), &chat).expect(200);
        assert_eq!(answer["object"], "chat.completion", "{prefix}: {answer}");
        let embedded = client.post(&format!("{prefix}/embeddings"), &json!({"model": MODEL, "input": "x"}));
        assert_eq!(embedded.expect(200)["object"], "list", "{prefix}");
        assert_eq!(client.get(&format!("{prefix}/models/{MODEL}")).expect(200)["id"], MODEL, "{prefix}");
        let refused = gateway.anyone().post(&format!("{prefix}/chat/completions"), &chat).expect(401);
        assert_eq!(refused["error"]["code"], "missing_api_key", "{prefix}");
        let unknown = client.post(&format!("{prefix}/nothing"), &json!({})).expect(404);
        assert_eq!(unknown["error"]["type"], "not_found_error", "{prefix}: {unknown}");
    }
}

#[test]
fn a_model_of_geminis_api_may_be_openais() {
    let (gateway, _upstream) = Gateway::serving(&["openai/model-small"]);
    let ask = json!({"contents": [{"parts": [{"text": "x"}]}]});
    let answer = gateway.client().post("/v1beta/openai/model-small:generateContent", &ask).expect(200);
    assert!(answer["candidates"][0]["content"]["parts"][0]["text"].is_string(), "{answer}");
}

#[test]
fn a_count_goes_on_to_a_site_that_counts() {
    for (path, counted) in [
        (COUNT, json!({"input_tokens": 42})),
        ("/v1/responses/input_tokens", json!({"object": "response.input_tokens", "input_tokens": 42})),
    ] {
        for refusal in [
            Reply::error(404, "Not found"),
            Reply::error(501, "Not implemented"),
            Reply::html(405, "<html><title>405 Not Allowed</title></html>"),
        ] {
            let pair = Pair::start();
            pair.first.answer(path, refusal);
            pair.second.answer(path, Reply::json(200, &counted));
            let mut ask = to_count();
            (ask["model"], ask["input"]) = (json!(Pair::MODEL), json!("Which way?"));
            let answer = pair.gateway.client().post(path, &ask);
            assert_eq!(
                (answer.expect(200), answer.header("x-switchyard-estimated")),
                (counted.clone(), None)
            );
            assert_eq!(pair.first.asked_for(path).len(), 1, "{path}");
            assert_eq!(pair.channel("first")["cooldownUntil"], Value::Null, "{path}");
        }
    }
}

#[test]
fn where_nobody_counts_an_estimate_says_so_and_no_channel_cools() {
    let (gateway, upstream) = through("new-api");
    let without_a_count = json!({"success": false, "message": "no"});
    for refusal in [
        Reply::error(404, "Not found"),
        Reply::error(500, "boom"),
        Reply::error(403, "no"),
        Reply::json(200, &without_a_count),
        Reply::json(200, &json!({"input_tokens": null})),
    ] {
        upstream.answer(COUNT, refusal);
        let answer = gateway.client().post(COUNT, &to_count());
        assert!(answer.expect(200)["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0));
        assert_eq!(answer.header("x-switchyard-estimated"), Some("1"));
    }
    let channels = gateway.channels(MODEL);
    assert_eq!((channels.len(), &channels[0]["cooldownUntil"]), (1, &Value::Null));
    assert_eq!(upstream.asked_for("/v1/messages").len(), 0, "a count is no message");
}

#[test]
fn a_conversation_is_compacted_by_its_own_dialect() {
    let (gateway, upstream) = through("new-api");
    let compacted = json!({"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": [],
                           "usage": {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}});
    upstream.answer(COMPACT, Reply::json(200, &compacted));
    let body = json!({"model": MODEL, "input": "long", "stream": false, "stream_options": {}, "store": true});
    for path in [COMPACT, "/responses/compact"] {
        assert_eq!(gateway.client().post(path, &body).expect(200), compacted, "{path}");
        assert_eq!(upstream.last(COMPACT).json(), json!({"model": MODEL, "input": "long", "store": true}));
    }
    let streamed = json!({"model": MODEL, "input": "long", "stream": true});
    let error = gateway.client().post(COMPACT, &streamed).expect(400);
    assert_eq!(error["error"]["param"], "stream");
}

#[test]
fn an_upstream_that_cannot_compact_says_so_itself() {
    let (gateway, upstream) = through("new-api");
    upstream.answer(COMPACT, Reply::error(400, "input is too short"));
    let error = gateway.client().post(COMPACT, &json!({"model": MODEL, "input": "x"})).expect(400);
    assert_eq!(error["error"]["message"], "input is too short");
    assert_eq!(
        upstream.asked_for("/v1/responses").len() + upstream.asked_for("/v1/chat/completions").len(),
        0
    );
}

#[test]
fn where_nobody_compacts_an_answer_may_stand_in() {
    let (gateway, upstream) = through("new-api");
    let setting = json!({"responsesCompactFallbackToResponsesEnabled": true});
    gateway.admin().put("/api/settings/runtime", &setting).expect(200);
    let body = json!({"model": MODEL, "input": "long", "stream_options": {"include_obfuscation": false}});
    for refusal in [Reply::error(404, "Not found"), Reply::error(400, "compact is unsupported here")] {
        upstream.answer(COMPACT, refusal);
        let asked = upstream.asked_for(COMPACT).len();
        let compacted = gateway.client().post(COMPACT, &body).expect(200);
        assert_eq!(compacted["object"], "response.compaction", "{compacted}");
        assert_eq!(upstream.asked_for(COMPACT).len(), asked + 1, "no other words make one of it");
        let answered = upstream.last("/v1/responses").json();
        assert_eq!(answered, json!({"model": MODEL, "input": "long"}), "without what only a stream has");
    }
}

#[test]
fn models_keep_the_time_that_they_were_made() {
    let (gateway, _upstream) = through("claude");
    let listed = |gateway: &Gateway| {
        let ask = Request::new("GET", "/v1/models").header("anthropic-version", "2023-06-01");
        let openai = gateway.client().get("/v1/models").expect(200)["data"][0]["created"].clone();
        (openai, gateway.client().send(ask).expect(200)["data"][0]["created_at"].clone())
    };
    let before = listed(&gateway);
    assert!(before.0.as_i64().is_some_and(|at| at > 1_700_000_000), "{before:?}");
    assert_eq!(listed(&gateway.restart()), before);
}

#[test]
fn a_search_goes_to_who_offers_one() {
    const SEARCH: &str = "/v1/search";
    let upstream = Upstream::start(&["__search", "model-search"]);
    let found = json!({"data": [{"title": "Signals", "url": "https://a.example/"}]});
    upstream.answer(SEARCH, Reply::json(200, &found));
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    gateway.wait_for_channels("__search", 1);
    let client = gateway.client();
    assert_eq!(client.post(SEARCH, &json!({"query": "which way"})).expect(200), found);
    let asked = upstream.last(SEARCH);
    assert_eq!(asked.json(), json!({"query": "which way", "model": "__search", "max_results": 10}));
    let whole = json!({"query": "way", "model": "model-search", "max_results": 3});
    client.post(SEARCH, &whole).expect(200);
    assert_eq!(upstream.last(SEARCH).json(), whole);
    let asked = upstream.asked_for(SEARCH).len();
    for (body, field) in [
        (json!({}), "query"),
        (json!({"query": "a", "stream": true}), "stream"),
        (json!({"query": "a", "max_results": 21}), "max_results"),
    ] {
        let error = client.post(SEARCH, &body).expect(400)["error"].take();
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &json!(field)));
    }
    assert_eq!(upstream.asked_for(SEARCH).len(), asked);
    upstream.answer(SEARCH, Reply::bytes(200, "text/plain", "nothing here"));
    assert_eq!(client.post(SEARCH, &json!({"query": "a"})).expect(200), json!({"data": []}));
    upstream.answer(SEARCH, Reply::error(400, "query is too long"));
    let refused = client.post(SEARCH, &json!({"query": "a"})).expect(400);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("too long")), "{refused}");
}

#[test]
fn documents_are_put_in_order_in_either_form() {
    let (gateway, upstream) = through("new-api");
    let found = json!({"results": [{"index": 1, "relevance_score": 0.9}],
                       "usage": {"total_tokens": 12}, "model": MODEL});
    let ask = json!({"model": MODEL, "query": "which way", "documents": ["left", {"text": "right"}],
                     "top_n": 1, "stream": true});
    let client = gateway.client();
    upstream.answer("/v1/rerank", Reply::json(200, &found));
    assert_eq!(client.post("/v1/rerank", &ask).expect(200), found);
    assert_eq!(upstream.last("/v1/rerank").json(), ask);
    let row = &gateway.wait_for_logs(1)[0];
    let told = [&row["status"], &row["totalTokens"], &row["isStream"]];
    assert_eq!(told, [&json!("success"), &json!(12), &json!(false)]);
    // A hub that has only the first version is asked for that one.
    assert_eq!(client.post("/v2/rerank", &ask).expect(200), found);
    assert_eq!(upstream.asked_for("/v2/rerank").len(), 1);
    assert_eq!(upstream.last("/v1/rerank").json(), ask);
    let cohere = json!({"id": "1", "results": [], "meta": {"billed_units": {"search_units": 1},
        "tokens": {"input_tokens": 9, "output_tokens": 0}}});
    upstream.answer("/v2/rerank", Reply::json(200, &cohere));
    let asked = upstream.asked_for("/v1/rerank").len();
    assert_eq!(client.post("/v2/rerank", &ask).expect(200), cohere);
    let rows = gateway.wait_for_logs(3);
    assert!(rows.iter().any(|row| row["promptTokens"] == 9 && row["totalTokens"] == 9), "{rows:?}");
    assert_eq!(upstream.asked_for("/v1/rerank").len(), asked);
    let error = client.post("/v1/rerank", &json!({"query": "x", "documents": []})).expect(400);
    assert_eq!(error["error"]["param"], "model");
}

#[test]
fn what_names_no_model_is_moderated_by_the_usual_one() {
    const USUAL: &str = "omni-moderation-latest";
    let upstream = Upstream::start(&[USUAL, "text-moderation"]);
    let verdict = json!({"id": "modr-1", "model": USUAL, "results": [{"flagged": false}]});
    upstream.answer("/v1/moderations", Reply::json(200, &verdict));
    let gateway = Gateway::start().in_front_of("openai", &upstream);
    gateway.wait_for_channels(USUAL, 1);
    for (given, asked) in [
        (json!({"input": "x"}), json!({"input": "x", "model": USUAL})),
        (json!({"input": "x", "model": null}), json!({"input": "x", "model": USUAL})),
        (
            json!({"input": ["x"], "model": "text-moderation"}),
            json!({"input": ["x"], "model": "text-moderation"}),
        ),
    ] {
        assert_eq!(gateway.client().post("/v1/moderations", &given).expect(200), verdict);
        assert_eq!(upstream.last("/v1/moderations").json(), asked);
    }
    let item = gateway
        .admin()
        .post(
            "/api/downstream-keys",
            &json!({"name": "k", "key": "sk-client-mod",
        "supportedModels": ["text-*"]}),
        )
        .expect(200);
    assert_eq!(item["success"], true, "{item}");
    let client = gateway.with_token("sk-client-mod");
    client.post("/v1/moderations", &json!({"input": "x"})).expect(403);
    client.post("/v1/moderations", &json!({"input": "x", "model": "text-moderation"})).expect(200);
}

#[test]
fn codex_asks_below_its_own_base_url() {
    let upstream = Upstream::start(&[MODEL, "__search"]);
    upstream.answer("/v1/search", Reply::json(200, &json!({"data": []})));
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    gateway.wait_for_channels("__search", 1);
    let client = gateway.client();
    let ask = json!({"model": MODEL, "input": "x"});
    assert_eq!(client.post("/backend-api/codex/responses", &ask).expect(200)["object"], "response");
    client.get("/backend-api/codex/responses").expect(426);
    gateway.anyone().post("/backend-api/codex/responses", &ask).expect(401);
    let mut socket = client.try_socket(support::Caller::socket_ask("/backend-api/codex/responses")).unwrap();
    socket.create(&json!({"model": MODEL, "input": "x"}));
    assert_eq!(socket.turn().last().unwrap()["type"], "response.completed");
    assert_eq!(client.post("/v1/alpha/search", &json!({"query": "x"})).expect(200), json!({"data": []}));
    // Its own tool sends a model and commands, but no query.
    let found = json!({"output": "The way is north.", "encrypted_output": "c2VhbGVk"});
    upstream.answer("/v1/alpha/search", Reply::json(200, &found));
    let commands = json!({"search_query": [{"q": "which way", "recency": 7}], "open": [{"ref_id": "https://a.example"}]});
    let item = json!({"type": "function_call_output", "call_id": "unknown", "output": "x"});
    let ask = json!({"id": "session", "model": MODEL, "input": [item], "commands": commands, "max_output_tokens": 2500,
                     "settings": {"search_context_size": "low", "allowed_callers": ["direct"]}});
    for path in ["/v1/alpha/search", "/backend-api/codex/alpha/search"] {
        assert_eq!(client.post(path, &ask).expect(200), found);
        assert_eq!(upstream.last("/v1/alpha/search").json(), ask);
    }
    assert_eq!(
        client.post("/v1/alpha/search", &json!({"commands": {}})).expect(400)["error"]["param"],
        "model"
    );
}

#[test]
fn a_wrong_method_is_refused_in_the_shape_of_the_surface() {
    let gateway = Gateway::start();
    for path in ["/v1/rerank", "/v2/rerank", "/v1/moderations"] {
        let refused = gateway.client().get(path).expect(405);
        assert_eq!(refused["error"]["type"], "invalid_request_error", "{path}: {refused}");
    }
}

#[test]
fn a_site_without_a_surface_gives_way_to_the_next_and_does_not_rest() {
    let pair = Pair::start();
    let client = pair.gateway.client();
    let video = json!({"id": "video_1", "object": "video", "status": "queued"});
    pair.second.answer("/v1/videos", Reply::json(200, &video));
    pair.second.answer("/v1/search", Reply::json(200, &json!({"data": []})));
    let body = json!({"model": Pair::MODEL, "input": "x", "prompt": "x", "query": "x"});
    for path in ["/v1/rerank", "/v2/rerank", "/v1/moderations", "/v1/audio/speech"] {
        pair.second.answer(path, Reply::json(200, &json!({"results": []})));
    }
    for path in [
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/search",
        "/v1/videos",
        "/v1/rerank",
        "/v2/rerank",
        "/v1/moderations",
        "/v1/audio/speech",
    ] {
        let refusals = [
            // The answer of a hub that knows the path but has not implemented it.
            Reply::json(
                501,
                &json!({"error": {"message": "API not implemented", "type": "new_api_error",
                "param": "", "code": "api_not_implemented"}}),
            ),
            Reply::json(404, &json!({"detail": "Not Found"})),
            Reply::error(404, &format!("Invalid URL (POST {path})")),
            Reply::error(405, "Method Not Allowed"),
        ];
        for (number, refusal) in refusals.into_iter().enumerate() {
            pair.first.answer(path, refusal);
            client.post(path, &body).expect(200);
            assert_eq!(pair.first.asked_for(path).len(), number + 1, "{path}");
        }
    }
    assert!(pair.channel("first")["cooldownUntil"].is_null());
    // An error about the model is for the client.
    pair.first.answer("/v1/embeddings", Reply::error(404, "This model has been retired"));
    let asked = pair.second.asked_for("/v1/embeddings").len();
    client.post("/v1/embeddings", &body).expect(404);
    assert_eq!(pair.second.asked_for("/v1/embeddings").len(), asked);
}

#[test]
fn an_error_of_a_hub_with_a_good_status_is_no_answer() {
    let pair = Pair::start();
    let refusal = json!({"success": false, "message": "用户额度不足"});
    let ranked = json!({"results": [{"index": 0, "relevance_score": 0.5}]});
    pair.first.answer("/v1/rerank", Reply::json(200, &refusal));
    pair.second.answer("/v1/rerank", Reply::json(200, &ranked));
    let ask = json!({"model": Pair::MODEL, "query": "q", "documents": ["d"]});
    assert_eq!(pair.gateway.client().post("/v1/rerank", &ask).expect(200), ranked);
    let logged: Vec<_> = pair.gateway.wait_for_logs(2).iter().map(|row| row["status"].clone()).collect();
    assert!(logged.contains(&json!("failed")) || logged.contains(&json!("retried")), "{logged:?}");
}

#[test]
fn a_site_without_googles_embeddings_is_passed_over() {
    let gateway = Gateway::start();
    let lacking = Upstream::start(&["embed-google"]);
    let google = Upstream::start(&["embed-google"]);
    let models = json!({"models": [{"name": "models/embed-google", "supportedGenerationMethods": ["generateContent"]}]});
    for (name, upstream, weight) in [("lacking", &lacking, 100), ("google", &google, 1)] {
        upstream.answer("/v1beta/models", Reply::json(200, &models));
        gateway.add_as(&json!({"name": name, "platform": "gemini", "globalWeight": weight}), upstream);
    }
    gateway.wait_for_channels("embed-google", 2);
    let path = "/v1beta/models/embed-google:embedContent";
    let numbers = json!({"embedding": {"values": [0.5]}});
    google.answer(path, Reply::json(200, &numbers));
    for status in [404, 405, 501] {
        lacking.answer(path, Reply::error(status, "page not found"));
        let ask = json!({"content": {"parts": [{"text": "north"}]}});
        let told = gateway.client().post(path, &ask).expect(200);
        assert_eq!(told["embedding"], numbers["embedding"], "{status}");
    }
    let channels = gateway.channels("embed-google");
    assert!(channels.iter().all(|channel| channel["cooldownUntil"].is_null()), "{channels:?}");
}

#[test]
fn embeddings_are_made_by_upstreams_of_the_other_form() {
    let (gateway, openai, google) =
        (Gateway::start(), Upstream::start(&[MODEL]), Upstream::start(&["embed-google"]));
    gateway.add_as(&json!({"name": "openai", "platform": "openai"}), &openai);
    let models = json!({"models": [{"name": "models/embed-google", "supportedGenerationMethods": ["generateContent"]}]});
    google.answer("/v1beta/models", Reply::json(200, &models));
    gateway.add_as(&json!({"name": "google", "platform": "gemini"}), &google);
    gateway.wait_for_channels(MODEL, 1);
    gateway.wait_for_channels("embed-google", 1);
    let client = gateway.client();
    let numbers = json!({"object": "list", "model": MODEL, "usage": {"prompt_tokens": 7, "total_tokens": 7},
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}]});
    openai.answer("/v1/embeddings", Reply::json(200, &numbers));
    let content = json!({"parts": [{"text": "north"}]});
    let ask = json!({"content": content, "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 2});
    let path = format!("/v1beta/models/{MODEL}");
    let usage = json!({"promptTokenCount": 7, "totalTokenCount": 7});
    let told = client.post(&format!("{path}:embedContent"), &ask).expect(200);
    assert_eq!(told, json!({"embedding": {"values": [0.5, -1.0]}, "usageMetadata": usage}));
    let sent = openai.last("/v1/embeddings").json();
    assert_eq!(sent, json!({"model": MODEL, "input": "north", "dimensions": 2, "encoding_format": "float"}));
    let several = json!({"requests": [{"model": format!("models/{MODEL}"), "content": content}]});
    let told = client.post(&format!("{path}:batchEmbedContents"), &several).expect(200);
    assert_eq!(told["embeddings"], json!([{"values": [0.5, -1.0]}]));
    let picture = json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "eA=="}}]}});
    let refused = client.post(&format!("{path}:embedContent"), &picture).expect(400);
    assert!(
        refused["error"]["message"].as_str().is_some_and(|text| text.contains("content.parts")),
        "{refused}"
    );
    // And OpenAI's format where only Google's is known.
    let there = "/v1beta/models/embed-google:batchEmbedContents";
    google.answer(
        there,
        Reply::json(200, &json!({"embeddings": [{"values": [0.5, -1.0]}, {"values": [2.0]}]})),
    );
    let ask = json!({"model": "embed-google", "input": ["north", "south"], "dimensions": 2, "encoding_format": "base64"});
    let told = client.post("/v1/embeddings", &ask).expect(200);
    assert_eq!(
        (&told["data"][0]["embedding"], &told["data"][1]["index"]),
        (&json!("AAAAPwAAgL8="), &json!(1))
    );
    let sent = google.last(there).json();
    assert_eq!(sent["requests"][1]["content"], json!({"parts": [{"text": "south"}]}));
    assert_eq!(sent["requests"][0]["outputDimensionality"], 2);
    let tokens = json!({"model": "embed-google", "input": [[1, 2]]});
    let refused = client.post("/v1/embeddings", &tokens).expect(400);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("input")), "{refused}");
    let rows = gateway.wait_for_logs(6);
    assert_eq!(rows[0]["promptTokens"], 7);
}
