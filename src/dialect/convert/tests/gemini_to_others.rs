//! Gemini clients at upstreams of other dialects, and gemini upstreams for other clients.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ReplyContext, Target, Way, request, schema, without_breakpoints};
use crate::dialect::Dialect::{Chat, Gemini, Messages, Responses};
use crate::dialect::canonical::{ConversionError, Vendor};

/// Returns the request of the example, as gemini clients send it.
pub(super) fn example() -> Value {
    json!({"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "generationConfig":{"maxOutputTokens":4000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":32768}},
        "tools":[{"functionDeclarations":[{"name":"add","description":"Add","parametersJsonSchema":schema()}]}],
        "toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},
        "contents":[
            {"role":"user","parts":[{"text":"Sum these."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}]},
            {"role":"model","parts":[{"text":"Adding."},{"functionCall":{"id":"call_1","name":"add","args":{"a":2,"b":3}},
                "thoughtSignature":"skip_thought_signature_validator"}]},
            {"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"add","response":{"result":"5"}}}]}]})
}

/// Returns the example's complete answer, as a gemini upstream gives it.
fn reply() -> Value {
    json!({"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Now 5+1.","thought":true},
            {"text":"5, next:"},{"functionCall":{"id":"call_2","name":"add","args":{"a":5,"b":1}}}]},"finishReason":"STOP"}],
        "usageMetadata":{"promptTokenCount":120,"cachedContentTokenCount":40,"candidatesTokenCount":16,
            "thoughtsTokenCount":9,"totalTokenCount":145},
        "modelVersion":"m","responseId":"msg_01"})
}

#[test]
fn the_request_of_the_example_becomes_chat() {
    let wanted = json!({"model":"m","max_tokens":4000,"reasoning_effort":"high","tool_choice":"auto",
        "tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":schema()}}],
        "messages":[{"role":"system","content":"Be brief."},
        {"role":"user","content":[{"type":"text","text":"Sum these."},
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K"}}]},
        {"role":"assistant","content":"Adding.",
            "tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}}]},
        {"role":"tool","tool_call_id":"call_1","content":"5"}]});
    assert_eq!(request(Gemini, Chat, Vendor::Other, &example()), Ok(wanted));
}

#[test]
fn the_request_of_the_example_becomes_the_others() {
    let mut body = request(Gemini, Messages, Vendor::Anthropic, &example()).unwrap();
    without_breakpoints(&mut body);
    assert_eq!(body["thinking"], json!({"type":"adaptive"}));
    assert_eq!(body["output_config"], json!({"effort":"high"}));
    assert_eq!(
        body["messages"][1]["content"][1],
        json!({"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}})
    );
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], "call_1");
    let body = request(Gemini, Responses, Vendor::OpenAi, &example()).unwrap();
    assert_eq!(body["reasoning"]["effort"], "high");
    assert_eq!(
        body["input"][2],
        json!({"type":"function_call","call_id":"call_1","name":"add","arguments":"{\"a\":2,\"b\":3}"})
    );
    assert_eq!(body["input"][3], json!({"type":"function_call_output","call_id":"call_1","output":"5"}));
    for (to, vendor) in [(Chat, Vendor::OpenAi), (Messages, Vendor::Anthropic), (Responses, Vendor::OpenAi)] {
        let body = request(Gemini, to, vendor, &example()).unwrap();
        assert!(!body.to_string().contains("skip_thought"), "{to:?}");
    }
}

#[test]
fn what_only_google_has_goes_nowhere_else() {
    for (members, field) in [
        (json!({"cachedContent":"cachedContents/1"}), "cachedContent"),
        (json!({"generationConfig":{"responseModalities":["IMAGE"]}}), "responseModalities"),
    ] {
        let mut body = example();
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        for (to, vendor) in
            [(Chat, Vendor::OpenAi), (Messages, Vendor::Anthropic), (Responses, Vendor::OpenAi)]
        {
            assert_eq!(
                request(Gemini, to, vendor, &body),
                Err(ConversionError::unsupported(field)),
                "{to:?}"
            );
        }
    }
    let mut safe = example();
    safe["safetySettings"] = json!([{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]);
    assert!(request(Gemini, Chat, Vendor::OpenAi, &safe).is_ok());
}

#[test]
fn the_reply_of_the_example_becomes_the_others() {
    let out = Way::new(Gemini, Chat).reply(&reply());
    let message = &out["choices"][0]["message"];
    assert_eq!(
        (&message["reasoning_content"], &message["content"]),
        (&json!("Now 5+1."), &json!("5, next:"))
    );
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"a\":5,\"b\":1}");
    assert_eq!(out["choices"][0]["finish_reason"], "tool_calls");
    let counts = json!({"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,
        "prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}});
    assert_eq!(out["usage"], counts);

    let out = Way::new(Gemini, Messages).reply(&reply());
    assert_eq!(out["stop_reason"], "tool_use");
    assert_eq!((&out["usage"]["input_tokens"], &out["usage"]["output_tokens"]), (&json!(80), &json!(25)));
    let out = Way::new(Gemini, Responses).reply(&reply());
    assert_eq!((&out["status"], &out["output"][2]["call_id"]), (&json!("completed"), &json!("call_2")));
}

#[test]
fn the_reply_of_the_example_comes_back_from_chat_whole() {
    let chat = Way::new(Gemini, Chat).reply(&reply());
    assert_eq!(Way::new(Chat, Gemini).reply(&chat), reply());
    let replayed = Way::new(Gemini, Chat).replayed(&reply());
    let events = Way::new(Chat, Gemini).stream(&replayed);
    let parts: Vec<_> =
        events.iter().map(|event| event["candidates"][0]["content"]["parts"][0].clone()).collect();
    assert_eq!(json!(parts), reply()["candidates"][0]["content"]["parts"]);
    assert_eq!(events.last().unwrap()["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn calls_of_the_same_function_stay_apart_over_turns() {
    let answer = |proof: &str| {
        let call = json!({"functionCall":{"name":"add","args":{}},"thoughtSignature":proof});
        json!({"candidates":[{"content":{"parts":[call]},"finishReason":"STOP"}],"responseId":"r","modelVersion":"gemini-3-pro"})
    };
    let mut messages = vec![json!({"role":"user","content":"x"})];
    for (id, proof) in [("r1", "Cq=="), ("r2", "Dq==")] {
        let context = ReplyContext { fallback_id: id.to_owned(), ..ReplyContext::default() };
        let way = Way { context: Arc::new(context), ..Way::new(Gemini, Chat) };
        let message = way.reply(&answer(proof))["choices"][0]["message"].take();
        let call_id = message["tool_calls"][0]["id"].clone();
        messages.extend([message, json!({"role":"tool","tool_call_id":call_id,"content":id})]);
    }
    let body = json!({"model":"m","messages":messages});
    let contents = request(Chat, Gemini, Vendor::Gemini, &body).unwrap()["contents"].take();
    let mut ids = Vec::new();
    for (turn, (id, proof)) in [(1, ("r1", "Cq==")), (3, ("r2", "Dq=="))] {
        let call = &contents[turn]["parts"][0];
        let result = &contents[turn + 1]["parts"][0]["functionResponse"];
        assert_eq!((&call["functionCall"]["id"], &call["thoughtSignature"]), (&result["id"], &json!(proof)));
        assert_eq!((&result["name"], &result["response"]), (&json!("add"), &json!({"result":id})));
        ids.push(result["id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn json_is_spoken_of_where_that_is_asked() {
    let body = |text: &str| {
        json!({"contents":[{"role":"user","parts":[{"text":text}]}],
            "generationConfig":{"responseMimeType":"application/json"}})
    };
    let out = request(Gemini, Chat, Vendor::OpenAi, &body("Two primes")).unwrap();
    assert_eq!(out["messages"][0], json!({"role":"system","content":"Answer with JSON."}));
    let out = request(Gemini, Responses, Vendor::OpenAi, &body("Two primes")).unwrap();
    assert_eq!(out.get("instructions"), None);
    assert_eq!(
        (&out["input"][0]["role"], &out["input"][0]["content"]),
        (&json!("developer"), &json!("Answer with JSON."))
    );
    assert_eq!(out["input"][1]["role"], "user");
    let out = request(Gemini, Chat, Vendor::OpenAi, &body("Two primes as JSON")).unwrap();
    assert_eq!(out["messages"].as_array().unwrap().len(), 1);
    // Instructions do not count as input.
    let mut instructed = body("Two primes");
    instructed["systemInstruction"] = json!({"parts":[{"text":"Speak JSON."}]});
    let out = request(Gemini, Responses, Vendor::OpenAi, &instructed).unwrap();
    assert_eq!(
        (&out["instructions"], &out["input"][0]["content"]),
        (&json!("Speak JSON."), &json!("Answer with JSON."))
    );
    // The same holds for the system message of a chat client.
    let body = json!({"model":"m","response_format":{"type":"json_object"},"messages":[
        {"role":"system","content":"Speak JSON."},{"role":"user","content":"Two primes"}]});
    let out = request(Chat, Responses, Vendor::OpenAi, &body).unwrap();
    assert_eq!(
        (&out["input"][0]["role"], &out["input"][0]["content"]),
        (&json!("developer"), &json!("Answer with JSON."))
    );
}

#[test]
fn one_of_several_texts_is_demanded_in_words() {
    let ask = json!({"contents":[{"parts":[{"text":"Which section?"}]}],"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "generationConfig":{"responseMimeType":"text/x.enum",
            "responseSchema":{"type":"STRING","format":"enum","enum":["Strings","Wood \"winds\""]}}});
    let words =
        "Answer with one of these texts as it is written, and with nothing else:\nStrings\nWood \"winds\"";
    let body = request(Gemini, Messages, Vendor::Anthropic, &ask).unwrap();
    assert_eq!((&body["system"][1]["text"], &body["output_config"]), (&json!(words), &Value::Null), "{body}");
    let body = request(Gemini, Chat, Vendor::OpenAi, &ask).unwrap();
    assert_eq!(body["messages"][0]["content"], format!("Be brief.\n\n{words}"));
    assert_eq!(body["response_format"], Value::Null);
    let body = request(Gemini, Responses, Vendor::OpenAi, &ask).unwrap();
    assert_eq!(body["instructions"], format!("Be brief.\n\n{words}"));
    assert_eq!(body["text"], Value::Null);
    // A schema without texts to choose from stays a schema.
    let mut numbers = ask.clone();
    numbers["generationConfig"]["responseSchema"] =
        json!({"type":"OBJECT","properties":{"a":{"type":"STRING"}}});
    let body = request(Gemini, Chat, Vendor::OpenAi, &numbers).unwrap();
    assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
}

#[test]
fn results_with_ids_and_without_find_their_calls() {
    let with_id = |id: &str, mut body: Value| {
        if !id.is_empty() {
            body["id"] = json!(id);
        }
        body
    };
    let call =
        |(id, n): &(&str, &str)| json!({"functionCall":with_id(id, json!({"name":"f","args":{"n":n}}))});
    let result = |(id, n): &(&str, &str)| json!({"functionResponse":with_id(id, json!({"name":"f","response":{"result":n}}))});
    for (calls, results) in [
        (&[("a", "1"), ("", "2")][..], &[("", "2"), ("a", "1")][..]),
        (&[("", "1"), ("b", "2"), ("", "3")], &[("", "1"), ("b", "2"), ("", "3")]),
        (&[("a", "1"), ("b", "2")], &[("", "2"), ("a", "1")]),
    ] {
        let parts = |of: &[(&str, &str)], part: &dyn Fn(&(&str, &str)) -> Value| {
            of.iter().map(part).collect::<Vec<_>>()
        };
        // A call that was left without a result does not take those of later ones.
        let body = json!({"contents":[{"role":"user","parts":[{"text":"Hi."}]},
            {"role":"model","parts":[call(&("", "9"))]}, {"role":"user","parts":[{"text":"Stop. Anew."}]},
            {"role":"model","parts":parts(calls, &call)}, {"role":"user","parts":parts(results, &result)}]});
        let written = request(Gemini, Chat, Vendor::OpenAi, &body).unwrap();
        let messages = written["messages"].as_array().unwrap();
        let asked = messages[4]["tool_calls"].as_array().unwrap().iter().map(|call| {
            let arguments: Value =
                serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            (call["id"].clone(), arguments["n"].clone())
        });
        let asked: Vec<_> = asked.collect();
        let answered =
            messages[5..].iter().map(|message| (message["tool_call_id"].clone(), message["content"].clone()));
        let mut answered: Vec<_> = answered.collect();
        answered.sort_by_key(|(_, n)| n.to_string());
        assert_eq!(asked, answered, "{body}");
    }
}

#[test]
fn a_picture_of_an_answer_is_told_as_text_and_comes_back_as_a_picture() {
    let parts = json!([{"text":"Here:"},{"inlineData":{"mimeType":"image/png","data":"iVBO"}}]);
    let answer = json!({"responseId":"r","candidates":[{"content":{"role":"model","parts":parts},"finishReason":"STOP"}]});
    let told = "![image](data:image/png;base64,iVBO)";
    for to in [Chat, Responses, Messages] {
        let back = Way::new(Gemini, to);
        assert!(back.reply(&answer).to_string().contains(told), "{to:?}: {}", back.reply(&answer));
        assert!(back.replayed(&answer).contains(told), "{to:?}");
        let stream = back.stream_text(&format!("data: {answer}\n\n"));
        assert!(stream.contains(told), "{to:?}: {stream}");
    }
    let said = json!([{"role":"user","content":"Draw."},{"role":"assistant","content":format!("Here:{told}")},
        {"role":"user","content":"Larger."}]);
    let body = json!({"model":"m","messages":said});
    let asked = request(Chat, Gemini, Vendor::Other, &body).unwrap();
    assert_eq!(asked["contents"][1]["parts"], parts);
}

#[test]
fn the_first_piece_of_a_call_has_its_signature() {
    let parts = json!([{"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"SG"}]);
    let answer = json!({"candidates":[{"content":{"role":"model","parts":parts},"finishReason":"STOP"}]});
    let chunks = Way::new(Gemini, Chat).stream(&format!("data: {answer}\n\n"));
    let delta = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"][0].clone();
    let pieces: Vec<_> = chunks.iter().map(delta).filter(|piece| !piece.is_null()).collect();
    let first = json!({"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""},
        "extra_content":{"google":{"thought_signature":"SG"}}});
    assert_eq!(pieces, [first, json!({"index":0,"function":{"arguments":"{}"}})]);
    // A call of Google's that came over chat keeps it too.
    let back = Way::new(Chat, Gemini).stream(&Way::new(Gemini, Chat).replayed(&answer));
    assert!(back.iter().any(|chunk| chunk["candidates"][0]["content"]["parts"] == parts), "{back:?}");
}

/// Google's older SDK writes enumerations as numbers over HTTP.
#[test]
fn enumerations_are_read_by_number_too() {
    let schema = json!({"type":6,"properties":{"city":{"type":1},"days":{"type":5,"items":{"type":3}},"now":{"type":4}}});
    let body = json!({"contents":[{"role":"user","parts":[{"text":"x"}]}],
        "tools":[{"functionDeclarations":[{"name":"a","parameters":schema},{"name":"b"}]}],
        "toolConfig":{"functionCallingConfig":{"mode":2,"allowedFunctionNames":["b"]}}});
    let sent = request(Gemini, Chat, Vendor::OpenAi, &body).unwrap();
    let wanted = json!({"type":"object","properties":{"city":{"type":"string"},
        "days":{"type":"array","items":{"type":"integer"}},"now":{"type":"boolean"}}});
    assert_eq!(sent["tools"][0]["function"]["parameters"], wanted);
    assert_eq!(sent["tool_choice"], json!({"type":"function","function":{"name":"b"}}));
}

#[test]
fn thoughts_that_shall_be_seen_are_thought() {
    let asked = |model: &str, thinking: Value| {
        let body = json!({"contents":[{"role":"user","parts":[{"text":"x"}]}],
            "generationConfig":{"maxOutputTokens":20_000,"thinkingConfig":thinking}});
        let target = Target { model, stream: false, vendor: Vendor::Other };
        let sent = super::super::request(Gemini, Messages, &body.to_string(), &target).unwrap();
        let sent: Value = serde_json::from_slice(&sent.body).unwrap();
        (sent["thinking"].clone(), sent["output_config"]["effort"].clone())
    };
    let adaptive = json!({"type":"adaptive","display":"summarized"});
    for thinking in [json!({"includeThoughts":true}), json!({"includeThoughts":true,"thinkingBudget":-1})] {
        assert_eq!(asked("claude-opus-4-7", thinking.clone()), (adaptive.clone(), json!("high")));
        let budget = json!({"type":"enabled","budget_tokens":8192});
        assert_eq!(asked("claude-sonnet-4-5", thinking.clone()), (budget, Value::Null));
        assert_eq!(asked("claude-3-5-haiku", thinking), (Value::Null, Value::Null));
    }
    assert_eq!(asked("claude-opus-4-7", json!({"thinkingBudget":-1})), (Value::Null, Value::Null));
}

#[test]
fn searches_are_told_with_what_was_found() {
    let chunks = json!([{"web":{"uri":"https://a.example","title":"A"}}]);
    let grounding = json!({"webSearchQueries":["north","south"],"groundingChunks":chunks});
    let answer = json!({"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP","groundingMetadata":grounding}],
        "usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7},"responseId":"r"});
    let queries = |content: &Value, kind: &str, query: &str| -> Vec<String> {
        let own = content.as_array().unwrap().iter().filter(|one| one["type"] == kind);
        own.map(|one| one.pointer(query).and_then(Value::as_str).unwrap_or_default().to_owned()).collect()
    };
    let to_messages = Way::new(Gemini, Messages);
    let stream = format!("data: {answer}\n\n");
    for told in [to_messages.reply(&answer), to_messages.accumulated(&stream)] {
        let content = &told["content"];
        assert_eq!(queries(content, "server_tool_use", "/input/query"), ["north", "south"], "{told}");
        let found = queries(content, "web_search_tool_result", "/content/0/url");
        assert_eq!(found, ["https://a.example", ""], "{told}");
        assert_eq!(told["usage"]["server_tool_use"]["web_search_requests"], 2, "{told}");
    }
    let to_responses = Way::new(Gemini, Responses);
    for told in [to_responses.reply(&answer), to_responses.accumulated(&stream)] {
        assert_eq!(
            queries(&told["output"], "web_search_call", "/action/query"),
            ["north", "south"],
            "{told}"
        );
    }
    // On the way back, nothing is lost through another form.
    let own = Way::new(Gemini, Gemini).accumulated(&stream);
    assert_eq!(
        own["candidates"][0]["groundingMetadata"]["webSearchQueries"],
        json!(["north", "south"]),
        "{own}"
    );
}
