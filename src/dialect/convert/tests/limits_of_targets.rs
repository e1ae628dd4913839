//! What one dialect can say and the upstream's API refuses.

use serde_json::{Value, json};

use super::{Way, request};
use crate::dialect::Dialect::{self, Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Vendor};
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Signature};

fn sent(from: Dialect, to: Dialect, body: &Value) -> Value {
    request(from, to, Vendor::Other, body).unwrap()
}

#[test]
fn thinking_that_nothing_follows_is_left_out_of_a_turn() {
    let proof = signature::tag(&[(Text::plain("R"), Signature::Anthropic(Text::plain("SIG1")))]).unwrap();
    let thought = json!({"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"R"}],
        "encrypted_content":proof.decode()});
    let said = |role: &str, text: &str| json!({"type":"message","role":role,"content":text});
    let alone = json!({"model":"m","input":[said("user", "q"), thought, said("user", "z")]});
    let messages = sent(Responses, Messages, &alone)["messages"].clone();
    assert_eq!(messages.as_array().map(Vec::len), Some(1), "{messages}");
    let texts: Vec<_> =
        messages[0]["content"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
    assert_eq!(texts, ["q", "z"]);
    let followed =
        json!({"model":"m","input":[said("user", "q"), thought, said("assistant", "a"), said("user", "z")]});
    let messages = sent(Responses, Messages, &followed)["messages"].clone();
    assert_eq!(messages[1]["content"][0]["type"], "thinking", "{messages}");
    assert_eq!(messages[1]["content"][1]["text"], "a", "{messages}");
}

#[test]
fn the_parameters_of_a_tool_are_an_object() {
    for kind in [json!(["object", "null"]), json!("string"), json!(null)] {
        let tool = json!({"type":"function","function":{"name":"f","parameters":{"type":kind,"properties":{"a":{}}}}});
        let body = json!({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[tool]});
        let schema = &sent(Chat, Messages, &body)["tools"][0]["input_schema"];
        assert_eq!(schema, &json!({"type":"object","properties":{"a":{}}}), "{kind}");
    }
}

#[test]
fn a_long_user_id_is_sent_as_its_hash() {
    for (user, length) in [("u".repeat(256), 256), ("u".repeat(257), 64)] {
        let body = json!({"model":"m","messages":[{"role":"user","content":"x"}],"user":user});
        let id = sent(Chat, Messages, &body)["metadata"]["user_id"].as_str().map(str::len);
        assert_eq!(id, Some(length));
    }
}

#[test]
fn files_that_a_target_does_not_read_are_refused_or_sent_as_text() {
    let inline = |mime: &str, data: &str| json!({"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":mime,"data":data}}]}]});
    for to in [Chat, Responses, Messages] {
        let refused = request(Gemini, to, Vendor::Other, &inline("video/mp4", "AAAA")).unwrap_err();
        assert!(format!("{refused:?}").contains("inlineData"), "{to:?}: {refused:?}");
    }
    let refused = request(Gemini, Messages, Vendor::Other, &inline("image/svg+xml", "AAAA"));
    assert!(refused.is_err());
    let file = |kind: &str| {
        json!({"model":"m","messages":[{"role":"user","content":[{"type":"file","file":
            {"filename":"a.json","file_data":format!("data:{kind};base64,e30=")}}]}]})
    };
    assert_eq!(sent(Chat, Gemini, &file("application/json"))["contents"][0]["parts"], json!([{"text":"{}"}]));
    let pdf = sent(Chat, Gemini, &file("application/pdf"));
    assert_eq!(pdf["contents"][0]["parts"][0]["inlineData"]["mimeType"], "application/pdf");
}

#[test]
fn a_blank_name_of_a_file_is_none() {
    let data = "data:application/pdf;base64,JVBERi0=";
    let ask =
        |block: Value| json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":[block]}]});
    let source = json!({"type":"base64","media_type":"application/pdf","data":"JVBERi0="});
    for blank in ["", " "] {
        let of_messages = ask(json!({"type":"document","title":blank,"source":source}));
        let to_chat = sent(Messages, Chat, &of_messages);
        assert_eq!(to_chat["messages"][0]["content"][0]["file"]["filename"], "document.pdf", "{to_chat}");
        let to_responses = sent(Messages, Responses, &of_messages);
        assert_eq!(to_responses["input"][0]["content"][0]["filename"], "document.pdf", "{to_responses}");
        let of_chat = ask(json!({"type":"file","file":{"filename":blank,"file_data":data}}));
        let of_responses = json!({"model":"m","input":[{"role":"user","content":[
            {"type":"input_file","filename":blank,"file_data":data}]}]});
        for (from, body) in [(Chat, of_chat), (Responses, of_responses)] {
            let document = &sent(from, Messages, &body)["messages"][0]["content"][0];
            assert_eq!(document["type"], "document", "{from:?}: {document}");
            assert_eq!(document.get("title"), None, "{from:?}: {document}");
        }
    }
}

#[test]
fn a_response_that_is_still_being_made_is_no_answer_in_other_dialects_and_no_stream() {
    for status in ["queued", "in_progress"] {
        let answer =
            json!({"id":"resp_1","object":"response","status":status,"output":[],"usage":null}).to_string();
        for to in [Chat, Messages, Gemini] {
            let way = Way::new(Responses, to);
            let failed = super::super::reply(Responses, to, &answer, &way.context).unwrap_err();
            assert!(failed.message.contains("still being made") && !failed.is_ours, "{to:?}: {failed:?}");
            assert!(super::super::replayed(Responses, to, &answer, &way.context).is_err(), "{to:?}");
        }
        let own = Way::new(Responses, Responses);
        assert!(super::super::replayed(Responses, Responses, &answer, &own.context).is_err());
        let whole = super::super::reply(Responses, Responses, &answer, &own.context);
        assert!(whole.is_ok(), "{whole:?}");
    }
}

#[test]
fn a_conversation_of_which_nothing_is_left_goes_nowhere() {
    let thinking = json!([{"type":"thinking","thinking":"t","signature":"S"}]);
    for (from, body, field) in [
        (Messages, json!({"max_tokens":9,"messages":[{"role":"assistant","content":thinking}]}), "messages"),
        (Responses, json!({"input":[{"type":"reasoning","summary":[],"encrypted_content":"E"}]}), "input"),
        (Gemini, json!({"contents":[{"role":"user","parts":[{"text":"x","thought":true}]}]}), "contents"),
        (Chat, json!({"messages":[{"role":"assistant","content":null,"reasoning_content":"t"}]}), "messages"),
    ] {
        for to in [Chat, Responses, Messages, Gemini].into_iter().filter(|to| *to != from) {
            let refused = request(from, to, Vendor::Other, &body);
            let wanted = ConversionError::unsupported_form(field, "without content");
            assert_eq!(refused, Err(wanted), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn a_schema_of_parameters_without_a_type_gets_one() {
    let properties = json!({"a":{"type":"integer"}});
    let messages = |schema: Value| {
        json!({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],
            "tools":[{"name":"f","input_schema":schema}]})
    };
    let untyped = json!({"properties":properties});
    let wanted = json!({"type":"object","properties":properties});
    let chat = sent(Messages, Chat, &messages(untyped.clone()));
    assert_eq!(chat["tools"][0]["function"]["parameters"], wanted);
    let responses = sent(Messages, Responses, &messages(untyped));
    assert_eq!(responses["tools"][0]["parameters"], wanted);
    let chat = sent(Messages, Chat, &messages(json!({})));
    assert_eq!(
        chat["tools"][0]["function"]["parameters"],
        json!({}),
        "a schema without members stays as it is"
    );
}
