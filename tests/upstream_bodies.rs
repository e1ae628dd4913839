//! What some upstreams want of a body before it is theirs (proxy.md 12.2).

mod support;

use serde_json::{Value, json};
use support::{Gateway, Reply, Upstream, wire};

const MODEL: &str = "model-body";
const RESPONSES: &str = "/v1/responses";

#[test]
fn codex_gets_the_words_of_the_system_as_instructions() {
    const OWN: &str = "/responses";
    let (gateway, upstream) = (Gateway::start(), Upstream::start(&[MODEL]));
    gateway.add_codex(&upstream, MODEL);
    upstream.answer(OWN, Reply::events(wire::response_events(MODEL)));
    let user = json!({"role": "user", "content": "Which way?"});
    let system = json!({"type": "message", "role": "system", "content": [
        {"type": "input_text", "text": "Be brief."}, {"type": "input_text", "text": "Be kind."}]});
    for (input, instructions, wanted) in [
        (json!([system, user]), json!("Be sure."), "Be brief.\nBe kind.\n\nBe sure."),
        (json!([system, user]), Value::Null, "Be brief.\nBe kind."),
        (json!([user]), Value::Null, "You are a helpful assistant."),
        (json!([{"role": "system", "content": ""}, user]), json!(""), "You are a helpful assistant."),
    ] {
        let asked = json!({"model": MODEL, "input": input, "instructions": instructions,
            "max_output_tokens": 9, "stream_options": {"include_obfuscation": false}});
        gateway.client().post(RESPONSES, &asked).expect(200);
        let sent = upstream.last(OWN).json();
        let expected =
            json!({"model": MODEL, "input": [user], "instructions": wanted, "store": false, "stream": true});
        assert_eq!(sent, expected);
    }
}
