//! The addresses and the names of models by which Google's own interface is asked.

use serde_json::{Value, json};

use super::{CALL, MODEL, answer, body};
use crate::support::{Gateway, Reply, Upstream};

#[test]
fn a_site_with_the_compatible_address_is_asked_natively_beside_it() {
    let upstream = Upstream::start(&[MODEL]);
    let listed = Reply::json(200, &json!({"data": [{"id": MODEL, "object": "model"}]}));
    upstream.answer("/v1beta/openai/models", listed);
    upstream.answer(CALL, Reply::json(200, &answer("North.")));
    let count = format!("/v1beta/models/{MODEL}:countTokens");
    upstream.answer(&count, Reply::json(200, &json!({"totalTokens": 3})));
    let gateway = Gateway::start();
    let url = format!("{}/v1beta/openai", upstream.url());
    let site = gateway.create_site(&json!({"name": "google", "platform": "gemini", "url": url}));
    let account = gateway.create_account(&site, "sk-google");
    gateway.wait_for_task(&account);
    gateway.wait_for_channels(MODEL, 1);

    assert_eq!(gateway.client().post(CALL, &body()).expect(200), answer("North."));
    assert_eq!(upstream.last(CALL).json(), body());
    assert_eq!(gateway.client().post(&count, &body()).expect(200), json!({"totalTokens": 3}));
    gateway.client().post(&CALL.replace("v1beta", "gemini/v1alpha"), &body()).expect(200);
    assert_eq!(upstream.asked_for(CALL).len(), 2, "the address keeps its version");
    let compatible = "/v1beta/openai/chat/completions";
    upstream.answer(compatible, Reply::json(200, &crate::support::wire::chat(MODEL)));
    gateway.client().chat(MODEL).expect(200);
    assert_eq!(upstream.asked_for(compatible).len(), 1);
}

#[test]
fn a_body_that_repeats_the_model_of_its_path_gets_the_upstreams_name() {
    const THERE: &str = "gemini-there";
    let upstream = Upstream::of_google(&[THERE]);
    let gateway = Gateway::start();
    let (_, account) = gateway.add_as(&json!({"name": "google", "platform": "gemini"}), &upstream);
    let route = gateway.admin().post("/api/routes", &json!({"modelPattern": MODEL})).expect(200);
    let channel = json!({"accountId": account["id"], "sourceModel": THERE});
    gateway.admin().post(&format!("/api/routes/{}/channels", route["id"]), &channel).expect(200);

    let content = json!({"parts": [{"text": "x"}]});
    let of = |action: &str, model: &str| -> Value {
        let name = json!(format!("models/{model}"));
        match action {
            "embedContent" => json!({"model": name, "content": content}),
            "batchEmbedContents" => json!({"requests": [{"model": name, "content": content},
                {"model": name, "content": content}, {"model": "models/another", "content": content}]}),
            "countTokens" => json!({"generateContentRequest": {"model": name, "contents": [content]}}),
            "batchGenerateContent" => json!({"batch": {"model": name, "inputConfig": {}}}),
            _ => json!({"model": model, "contents": [content]}),
        }
    };
    let done = json!({"totalTokens": 3, "embedding": {"values": [0.5]}, "embeddings": [{"values": [0.5]}],
        "name": "batches/1", "candidates": answer("North.")["candidates"]});
    for action in
        ["embedContent", "batchEmbedContents", "countTokens", "batchGenerateContent", "generateContent"]
    {
        let there = format!("/v1beta/models/{THERE}:{action}");
        upstream.answer(&there, Reply::json(200, &done));
        let here = format!("/v1beta/models/{MODEL}:{action}");
        gateway.client().post(&here, &of(action, MODEL)).expect(200);
        assert_eq!(upstream.last(&there).json(), of(action, THERE), "{action}");
        gateway.client().post(&here, &of(action, "not-asked-for")).expect(200);
        assert_eq!(upstream.last(&there).json(), of(action, "not-asked-for"), "{action}");
    }
}
