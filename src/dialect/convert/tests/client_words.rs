//! Writes the conversations of [`conversations`](super::conversations) as requests of each dialect's clients.

use serde_json::{Map, Value, json};

use super::conversations::*;
use super::schema;
use crate::dialect::Dialect::{self, Chat, Messages, Responses};
use crate::dialect::literal::Text;
use crate::dialect::signature::{self, Signature};

fn picture() -> String {
    format!("data:image/png;base64,{PICTURE}")
}

/// Returns a signature as a client of another dialect carries it.
fn tagged(thought: Thought) -> Option<String> {
    let text = |text: &'static str| Text::plain(text);
    let signature = match thought {
        Thought::Anthropic => Signature::Anthropic(text("SIG")),
        Thought::Redacted => Signature::AnthropicRedacted(text("RED")),
        Thought::OpenAi => {
            Signature::OpenAi { id: Some(text("rs_1")), encrypted: text("gAAA"), summary: vec![text("Hm.")] }
        }
        _ => return None,
    };
    let said = if thought == Thought::Redacted { Text::EMPTY } else { text("Hm.") };
    signature::tag(&[(said, signature)]).map(|tag| tag.decode().into_owned())
}

fn with(mut body: Value, members: &[(&str, Option<Value>)]) -> Value {
    for (key, value) in members {
        if let Some(value) = value {
            body[*key] = value.clone();
        }
    }
    body
}

fn in_chat(head: &Head, steps: &[Step]) -> Value {
    let mut messages: Vec<Value> =
        head.instructions.iter().map(|text| json!({"role":"system","content":text})).collect();
    for step in steps {
        messages.push(match step {
            Step::Says(text) => json!({"role":"user","content":text}),
            Step::Shows => json!({"role":"user","content":[
                {"type":"text","text":"See."},{"type":"image_url","image_url":{"url":picture(),"detail":"low"}}]}),
            Step::Instructs { developer, text } => {
                json!({"role":if *developer { "developer" } else { "system" },"content":text})
            }
            Step::Answers { thought, text, calls } => {
                let call = |(at, call): (usize, &Call)| {
                    let mut made = json!({"id":head.id(call.number),"type":"function",
                        "function":{"name":TOOLS[call.tool],"arguments":"{\"a\": 1}"}});
                    if *thought == Thought::Gemini && at == 0 {
                        made["extra_content"] = json!({"google":{"thought_signature":"Cq"}});
                    }
                    made
                };
                let calls: Vec<_> = calls.iter().enumerate().map(call).collect();
                with(
                    json!({"role":"assistant","content":text}),
                    &[
                        ("tool_calls", Some(json!(calls)).filter(|_| !calls.is_empty())),
                        ("reasoning_content", Some(json!("Hm.")).filter(|_| *thought != Thought::None)),
                        ("reasoning_signature", tagged(*thought).map(Value::from)),
                    ],
                )
            }
            Step::Results { call, result, .. } => {
                let content = match result {
                    Output::Text => json!("5"),
                    Output::Empty => json!(""),
                    Output::Error => json!([{"type":"text","text":"Error: no"}]),
                    Output::Picture => json!([{"type":"text","text":"5"},
                        {"type":"image_url","image_url":{"url":picture()}}]),
                };
                json!({"role":"tool","tool_call_id":head.id(*call),"content":content})
            }
        });
    }
    if head.marked
        && let Some(last) = messages.last_mut()
    {
        last["cache_control"] = json!({"type":"ephemeral"});
    }
    let tool = |name: &&str| {
        json!({"type":"function",
        "function":{"name":name,"parameters":schema()}})
    };
    let tools: Vec<_> = TOOLS[..head.tools].iter().map(tool).collect();
    let choice = head.choice.map(|choice| match choice {
        "named" => json!({"type":"function","function":{"name":TOOLS[0]}}),
        "allowed" => json!({"type":"allowed_tools","allowed_tools":{"mode":"auto",
            "tools":head.allowed(steps).iter().map(|name| json!({"type":"function","function":{"name":name}})).collect::<Vec<_>>()}}),
        word => json!(word),
    });
    with(
        json!({"model":"m","messages":messages,"tools":tools,"temperature":1}),
        &[
            ("tool_choice", choice),
            ("reasoning_effort", head.effort.map(Value::from)),
            ("max_tokens", head.short.then(|| json!(2000))),
            ("response_format", head.json.then(|| json!({"type":"json_object"}))),
        ],
    )
}

fn in_responses(head: &Head, steps: &[Step]) -> Value {
    let mut input = Vec::new();
    for step in steps {
        match step {
            Step::Says(text) => input.push(json!({"role":"user","content":text})),
            Step::Shows => input.push(json!({"type":"message","role":"user","content":[
                {"type":"input_text","text":"See."},{"type":"input_image","image_url":picture()}]})),
            Step::Instructs { developer, text } => input.push(json!({"type":"message",
                "role":if *developer { "developer" } else { "system" },
                "content":[{"type":"input_text","text":text},{"type":"input_text","text":"And so on."}]})),
            Step::Answers { thought, text, calls } => {
                let summary = json!([{"type":"summary_text","text":"Hm."}]);
                let proof = match thought {
                    Thought::OpenAi => Some("gAAA".to_owned()),
                    other => tagged(*other),
                };
                if *thought != Thought::None {
                    input.push(with(
                        json!({"type":"reasoning","summary":summary}),
                        &[("encrypted_content", proof.map(Value::from))],
                    ));
                }
                input.extend(text.as_ref().map(|text| {
                    json!({"type":"message","role":"assistant","content":[{"type":"output_text","text":text}]})
                }));
                input.extend(calls.iter().map(|call| match call.tool {
                    0 => json!({"type":"custom_tool_call","call_id":head.needed_id(call.number),"name":TOOLS[0],"input":"x"}),
                    tool => json!({"type":"function_call","call_id":head.needed_id(call.number),"name":TOOLS[tool],"arguments":"{}"}),
                }));
            }
            Step::Results { call, result, .. } => {
                let output = match result {
                    Output::Text => json!("5"),
                    Output::Empty => json!(""),
                    Output::Error => json!([{"type":"input_text","text":"no"}]),
                    Output::Picture => json!([{"type":"input_text","text":"5"},
                        {"type":"input_image","image_url":picture()}]),
                };
                input.push(
                    json!({"type":"function_call_output","call_id":head.needed_id(*call),"output":output}),
                );
            }
        }
    }
    let tool = |name: &&str| {
        if *name == TOOLS[0] {
            json!({"type":"custom","name":name})
        } else {
            json!({"type":"function","name":name,"parameters":schema(),"strict":false})
        }
    };
    let tools: Vec<_> = TOOLS[..head.tools].iter().map(tool).collect();
    let choice = head.choice.map(|choice| match choice {
        "named" => json!({"type":"custom","name":TOOLS[0]}),
        "allowed" => json!({"type":"allowed_tools","mode":"auto",
            "tools":head.allowed(steps).iter().map(|name| json!({"type":"function","name":name})).collect::<Vec<_>>()}),
        word => json!(word),
    });
    with(
        json!({"model":"m","input":input,"tools":tools,"store":false}),
        &[
            (
                "instructions",
                Some(json!(head.instructions.concat())).filter(|_| !head.instructions.is_empty()),
            ),
            ("tool_choice", choice),
            ("reasoning", head.effort.map(|effort| json!({"effort":effort}))),
            ("max_output_tokens", head.short.then(|| json!(2000))),
            ("text", head.json.then(|| json!({"format":{"type":"json_object"}}))),
        ],
    )
}

/// Writes a messages request as Claude Code does: the last message is a list with a mark; before it, a lone text is a
/// string.
fn in_messages(head: &Head, steps: &[Step]) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    let mut say = |role: &str, block: Value| match messages.last_mut() {
        Some(last) if last["role"] == role && role != "system" => {
            let blocks = last["content"].as_array_mut().unwrap();
            let first_other =
                blocks.iter().position(|block| block["type"] != "tool_result").unwrap_or(blocks.len());
            let at = if block["type"] == "tool_result" { first_other } else { blocks.len() };
            blocks.insert(at, block);
        }
        _ => messages.push(json!({"role":role,"content":[block]})),
    };
    for step in steps {
        match step {
            Step::Says(text) => say("user", json!({"type":"text","text":text})),
            Step::Shows => say(
                "user",
                json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":PICTURE}}),
            ),
            Step::Instructs { text, .. } => say("system", json!({"type":"text","text":text})),
            Step::Answers { thought, text, calls } => {
                match thought {
                    Thought::None | Thought::Gemini => {}
                    Thought::Redacted => say("assistant", json!({"type":"redacted_thinking","data":"RED"})),
                    other => {
                        let own = Some("SIG".to_owned()).filter(|_| *other == Thought::Anthropic);
                        let signature = own.or_else(|| tagged(*other)).unwrap_or_default();
                        say("assistant", json!({"type":"thinking","thinking":"Hm.","signature":signature}));
                    }
                }
                if let Some(text) = text {
                    say("assistant", json!({"type":"text","text":text}));
                }
                for call in calls {
                    say(
                        "assistant",
                        json!({"type":"tool_use","id":head.needed_id(call.number),"name":TOOLS[call.tool],"input":{"a":1}}),
                    );
                }
            }
            Step::Results { call, result, .. } => {
                let content = match result {
                    Output::Text | Output::Error => json!("5"),
                    Output::Empty => json!([]),
                    Output::Picture => json!([{"type":"text","text":"5"},
                        {"type":"image","source":{"type":"base64","media_type":"image/png","data":PICTURE}}]),
                };
                let result = json!({"type":"tool_result","tool_use_id":head.needed_id(*call),"content":content,
                    "is_error":matches!(result, Output::Error)});
                say("user", result);
            }
        }
    }
    if let Some((last, before)) = messages.split_last_mut() {
        for message in before {
            if let [block] = message["content"].as_array().unwrap().as_slice()
                && block["type"] == "text"
            {
                message["content"] = block["text"].clone();
            }
        }
        last["content"].as_array_mut().unwrap().last_mut().unwrap()["cache_control"] =
            json!({"type":"ephemeral"});
    }
    let tools: Vec<_> =
        TOOLS[..head.tools].iter().map(|name| json!({"name":name,"input_schema":schema()})).collect();
    let choice = head.choice.map(|choice| match choice {
        "named" => json!({"type":"tool","name":TOOLS[0]}),
        // This dialect has no such choice.
        "allowed" => json!({"type":"auto"}),
        "required" => json!({"type":"any"}),
        word => json!({"type":word}),
    });
    let thinking = head.effort.map(|effort| match effort {
        "none" => json!({"type":"disabled"}),
        "low" => json!({"type":"adaptive"}),
        _ => json!({"type":"enabled","budget_tokens":1500}),
    });
    let system: Vec<_> = head.instructions.iter().map(|text| json!({"type":"text","text":text})).collect();
    // The header differs with each request.
    let billing = format!("x-anthropic-billing-header: cch={};", steps.len());
    let system = [vec![json!({"type":"text","text":billing})], system].concat();
    with(
        json!({"model":"m","max_tokens":if head.short { 2000 } else { 32_000 },"messages":messages,"tools":tools,
            "system":system,"metadata":{"user_id":"u"}}),
        &[("tool_choice", choice), ("thinking", thinking)],
    )
}

fn in_gemini(head: &Head, steps: &[Step]) -> Value {
    let mut contents: Vec<Value> = Vec::new();
    let mut say = |role: &str, part: Value| match contents.last_mut() {
        Some(last) if last["role"] == role => last["parts"].as_array_mut().unwrap().push(part),
        _ => contents.push(json!({"role":role,"parts":[part]})),
    };
    let named = |number: usize, name: &str, key: &str, value: Value| {
        let id = Some(json!(head.id(number))).filter(|id| id != "");
        with(json!({"name":name,key:value}), &[("id", id)])
    };
    let mut tools_called = Map::new();
    for step in steps {
        match step {
            Step::Says(text) | Step::Instructs { text, .. } => say("user", json!({"text":text})),
            Step::Shows => say("user", json!({"inlineData":{"mimeType":"image/png","data":PICTURE}})),
            Step::Answers { thought, text, calls } => {
                if *thought != Thought::None {
                    say("model", json!({"text":"Hm.","thought":true}));
                }
                if let Some(text) = text {
                    say("model", json!({"text":text}));
                }
                for (at, call) in calls.iter().enumerate() {
                    let name = TOOLS[call.tool];
                    tools_called.insert(call.number.to_string(), json!(name));
                    let proof = (*thought == Thought::Gemini && at == 0).then(|| json!("Cq"));
                    say(
                        "model",
                        with(
                            json!({"functionCall":named(call.number, name, "args", json!({"a":1}))}),
                            &[("thoughtSignature", proof)],
                        ),
                    );
                }
            }
            Step::Results { call, result, .. } => {
                let name = tools_called[&call.to_string()].as_str().unwrap();
                let response = match result {
                    Output::Text => json!({"result":"5"}),
                    Output::Empty => json!({}),
                    Output::Error => json!({"error":"no"}),
                    Output::Picture => json!({"result":"5","more":[1]}),
                };
                say("user", json!({"functionResponse":named(*call, name, "response", response)}));
            }
        }
    }
    let tool = |name: &&str| json!({"name":name,"parametersJsonSchema":schema()});
    let tools: Vec<_> = TOOLS[..head.tools].iter().map(tool).collect();
    let choice = head.choice.map(|choice| match choice {
        "named" => json!({"mode":"ANY","allowedFunctionNames":[TOOLS[0]]}),
        "allowed" => json!({"mode":"VALIDATED","allowedFunctionNames":head.allowed(steps)}),
        "required" => json!({"mode":"ANY"}),
        word => json!({"mode":word.to_uppercase()}),
    });
    let config = with(
        json!({"temperature":1}),
        &[
            ("responseMimeType", head.json.then(|| json!("application/json"))),
            ("maxOutputTokens", head.short.then(|| json!(2000))),
            ("thinkingConfig", head.effort.map(|effort| json!({"includeThoughts":true,"thinkingBudget":if effort == "none" { 0 } else { 2048 }}))),
        ],
    );
    let system: Vec<_> = head.instructions.iter().map(|text| json!({"text":text})).collect();
    with(
        json!({"contents":contents,"tools":[{"functionDeclarations":tools}],"generationConfig":config}),
        &[
            ("systemInstruction", Some(json!({"parts":system})).filter(|_| !system.is_empty())),
            ("toolConfig", choice.map(|choice| json!({"functionCallingConfig":choice}))),
        ],
    )
}

pub(super) fn in_words_of(client: Dialect, head: &Head, steps: &[Step]) -> Value {
    match client {
        Chat => in_chat(head, steps),
        Responses => in_responses(head, steps),
        Messages => in_messages(head, steps),
        _ => in_gemini(head, steps),
    }
}
