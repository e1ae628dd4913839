//! The cost of a conversion when a request grows: twice the parts may cost twice the steps, not four times.

use serde_json::json;

use super::*;
use crate::dialect::literal::looks;

/// Builds requests with `n` parts of one kind each, in a dialect.
fn shapes(dialect: Dialect, n: usize) -> Vec<(&'static str, Value)> {
    let conversations = [
        ("texts in one turn", vec![user((0..n).map(text).collect())]),
        ("turns", (0..n).flat_map(|at| [user(vec![text(at)]), model(vec![text(at)])]).collect()),
        ("turns of one side", (0..n).map(|at| model(vec![text(at)])).chain([user(vec![text(0)])]).collect()),
        ("pictures", vec![user((0..n).map(|_| Said::Picture).collect())]),
        (
            "thoughts",
            vec![user(vec![text(0)]), model((0..n).map(|_| Said::Thought).collect()), user(vec![text(1)])],
        ),
        ("calls in one turn", vec![user(vec![text(0)]), model(calls(0..n)), user(results(0..n))]),
        ("results in reverse", vec![user(vec![text(0)]), model(calls(0..n)), user(results((0..n).rev()))]),
        ("calls without results", vec![user(vec![text(0)]), model(calls(0..n)), user(vec![text(1)])]),
        ("results without calls", vec![user(results(0..n)), user(vec![text(1)])]),
        ("rounds", (0..n).flat_map(|at| [model(calls(at..at + 1)), user(results(at..at + 1))]).collect()),
        ("all calls, then all results, a turn each", {
            let calls = (0..n).map(|at| model(calls(at..at + 1)));
            calls.chain((0..n).rev().map(|at| user(results(at..at + 1)))).collect()
        }),
        ("late results", {
            let calls = (0..n).flat_map(|at| [model(calls(at..at + 1)), user(vec![text(at)])]);
            calls.chain([user(results(0..n))]).collect()
        }),
        ("texts before a call, then turns", {
            let first = (0..n).map(text).chain(calls(0..1)).collect();
            [model(first)]
                .into_iter()
                .chain((0..n).map(|at| model(vec![text(at)])))
                .chain([user(results(0..1))])
                .collect()
        }),
        (
            "calls of one id",
            vec![
                model((0..n).map(|_| Said::Call("same".into(), "f".into())).collect()),
                user((0..n).map(|_| Said::Result("same".into(), "f".into())).collect()),
            ],
        ),
        (
            "calls without ids",
            vec![
                model((0..n).map(|_| Said::Call(String::new(), "f".into())).collect()),
                user((0..n).map(|_| Said::Result(String::new(), "f".into())).collect()),
            ],
        ),
        (
            "calls of many tools without ids",
            vec![
                model((0..n).map(|at| Said::Call(String::new(), format!("f{at}"))).collect()),
                user((0..n).rev().map(|at| Said::Result(String::new(), format!("f{at}"))).collect()),
            ],
        ),
        (
            "odd names",
            vec![
                model(
                    (0..n)
                        .map(|at| Said::Call(format!("c{at}"), format!("{}.{at}", "x".repeat(70))))
                        .collect(),
                ),
                user(
                    (0..n)
                        .map(|at| Said::Result(format!("c{at}"), format!("{}.{at}", "x".repeat(70))))
                        .collect(),
                ),
            ],
        ),
        (
            "names that become one",
            vec![
                model(
                    (0..n)
                        .map(|at| Said::Call(format!("c{at}"), format!("{at}{}", "x".repeat(70))))
                        .collect(),
                ),
                user(
                    (0..n)
                        .map(|at| Said::Result(format!("c{at}"), format!("{at}{}", "x".repeat(70))))
                        .collect(),
                ),
            ],
        ),
        (
            "odd ids",
            vec![
                model((0..n).map(|at| Said::Call(format!("c:{at}{}", "x".repeat(70)), "f".into())).collect()),
                user(
                    (0..n).map(|at| Said::Result(format!("c:{at}{}", "x".repeat(70)), "f".into())).collect(),
                ),
            ],
        ),
        ("instructions", (0..n).map(|_| Turned::Instructions).chain([user(vec![text(0)])]).collect()),
        (
            "instructions between",
            (0..n).flat_map(|at| [Turned::Instructions, user(vec![text(at)])]).collect(),
        ),
        ("instructions before results", {
            let head = [user(vec![text(0)]), model(calls(0..n))];
            head.into_iter()
                .chain((0..n).map(|_| Turned::Instructions))
                .chain((0..n).map(|at| user(results(at..at + 1))))
                .collect()
        }),
        ("results of many parts", vec![model(calls(0..1)), user(vec![Said::LongResult(n)])]),
    ];
    let mut shapes: Vec<_> =
        conversations.into_iter().map(|(name, turns)| (name, written(dialect, &turns, 0, ""))).collect();
    let hello = [user(vec![text(0)])];
    shapes.push(("tools", written(dialect, &hello, n, "")));
    shapes.push(("odd tools", written(dialect, &hello, n, &"tool.".repeat(20))));
    shapes.push((
        "tools and calls",
        written(dialect, &[user(vec![text(0)]), model(calls(0..n)), user(results(0..n))], n, "f"),
    ));
    shapes.push(("members of a tool", with_members(dialect, n)));
    shapes.extend(stopped(dialect, n).map(|request| ("stop sequences", request)));
    shapes
}

/// Builds a request with a strict tool of `n` members, each of which it requires.
fn with_members(dialect: Dialect, n: usize) -> Value {
    let names: Vec<_> = (0..n).map(|at| format!("m{at}")).collect();
    let members: serde_json::Map<_, _> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let schema =
        json!({"type": "object", "properties": members, "required": names, "additionalProperties": false});
    let mut request = written(dialect, &[user(vec![text(0)])], 1, "f");
    let tool = &mut request["tools"][0];
    match dialect {
        Dialect::Chat => {
            tool["function"]["strict"] = json!(true);
            tool["function"]["parameters"] = schema;
        }
        Dialect::Responses => {
            tool["strict"] = json!(true);
            tool["parameters"] = schema;
        }
        Dialect::Messages => {
            tool["strict"] = json!(true);
            tool["input_schema"] = schema;
        }
        _ => tool["functionDeclarations"][0]["parametersJsonSchema"] = schema,
    }
    request
}

/// Builds a request with `n` stop sequences, where the dialect has them.
fn stopped(dialect: Dialect, n: usize) -> Option<Value> {
    let stops: Vec<_> = (0..n).map(|at| format!("stop {at}")).collect();
    let mut request = written(dialect, &[user(vec![text(0)])], 0, "");
    match dialect {
        Dialect::Chat => request["stop"] = json!(stops),
        Dialect::Messages => request["stop_sequences"] = json!(stops),
        Dialect::Gemini => request["generationConfig"] = json!({"stopSequences": stops}),
        _ => return None,
    }
    Some(request)
}

enum Said {
    Text(usize),
    Picture,
    Thought,
    Call(String, String),
    Result(String, String),
    LongResult(usize),
}

enum Turned {
    User(Vec<Said>),
    Model(Vec<Said>),
    Instructions,
}

fn text(at: usize) -> Said {
    Said::Text(at)
}
fn user(said: Vec<Said>) -> Turned {
    Turned::User(said)
}
fn model(said: Vec<Said>) -> Turned {
    Turned::Model(said)
}
fn calls(places: impl Iterator<Item = usize>) -> Vec<Said> {
    places.map(|at| Said::Call(format!("c{at}"), format!("f{at}"))).collect()
}
fn results(places: impl Iterator<Item = usize>) -> Vec<Said> {
    places.map(|at| Said::Result(format!("c{at}"), format!("f{at}"))).collect()
}

fn written(dialect: Dialect, turns: &[Turned], tools: usize, stem: &str) -> Value {
    match dialect {
        Dialect::Chat => chat(turns, tools, stem),
        Dialect::Responses => responses(turns, tools, stem),
        Dialect::Messages => messages(turns, tools, stem),
        _ => gemini(turns, tools, stem),
    }
}

fn chat(turns: &[Turned], tools: usize, stem: &str) -> Value {
    let mut messages = Vec::new();
    for turn in turns {
        match turn {
            Turned::Instructions => messages.push(json!({"role":"system","content":"Be brief."})),
            Turned::Model(said) => {
                let calls: Vec<_> = said
                    .iter()
                    .filter_map(|said| match said {
                        Said::Call(id, name) => {
                            Some(json!({"id":id,"type":"function","function":{"name":name,"arguments":"{}"}}))
                        }
                        _ => None,
                    })
                    .collect();
                let content: Vec<_> = said
                    .iter()
                    .filter_map(|said| match said {
                        Said::Text(at) => Some(json!({"type":"text","text":at.to_string()})),
                        Said::Thought => Some(json!({"type":"thinking","thinking":"hm"})),
                        _ => None,
                    })
                    .collect();
                let mut message = json!({"role":"assistant","content":content});
                if !calls.is_empty() {
                    message["tool_calls"] = calls.into();
                }
                messages.push(message);
            }
            Turned::User(said) => {
                let content: Vec<_> = said
                    .iter()
                    .filter_map(|said| match said {
                        Said::Text(at) => Some(json!({"type":"text","text":at.to_string()})),
                        Said::Picture => {
                            Some(json!({"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}))
                        }
                        _ => None,
                    })
                    .collect();
                for said in said {
                    match said {
                        Said::Result(id, name) if id.is_empty() => messages.push(json!({"role":"function","name":name,"content":"ok"})),
                        Said::Result(id, _) => messages.push(json!({"role":"tool","tool_call_id":id,"content":"ok"})),
                        Said::LongResult(n) => messages.push(json!({"role":"tool","tool_call_id":"c0","content":vec![json!({"type":"text","text":"ok"}); *n]})),
                        _ => {}
                    }
                }
                if !content.is_empty() {
                    messages.push(json!({"role":"user","content":content}));
                }
            }
        }
    }
    let tools: Vec<_> = (0..tools)
        .map(|at| json!({"type":"function","function":{"name":format!("{stem}{at}"),"parameters":{}}}))
        .collect();
    json!({"model":"m","messages":messages,"tools":tools})
}

fn responses(turns: &[Turned], tools: usize, stem: &str) -> Value {
    let mut items = Vec::new();
    for turn in turns {
        match turn {
            Turned::Instructions => {
                items.push(json!({"type":"message","role":"developer","content":"Be brief."}))
            }
            Turned::User(said) | Turned::Model(said) => {
                let is_model = matches!(turn, Turned::Model(_));
                let content: Vec<_> = said.iter().filter_map(|said| match said {
                    Said::Text(at) => Some(json!({"type":if is_model {"output_text"} else {"input_text"},"text":at.to_string()})),
                    Said::Picture => Some(json!({"type":"input_image","image_url":"data:image/png;base64,AA=="})),
                    _ => None,
                }).collect();
                if !content.is_empty() {
                    items.push(json!({"type":"message","role":if is_model {"assistant"} else {"user"},"content":content}));
                }
                for said in said {
                    match said {
                        Said::Thought => items.push(json!({"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]})),
                        Said::Call(id, name) => items.push(json!({"type":"function_call","call_id":id,"name":name,"arguments":"{}"})),
                        Said::Result(id, _) => items.push(json!({"type":"function_call_output","call_id":id,"output":"ok"})),
                        Said::LongResult(n) => items.push(json!({"type":"function_call_output","call_id":"c0","output":vec![json!({"type":"input_text","text":"ok"}); *n]})),
                        _ => {}
                    }
                }
            }
        }
    }
    let tools: Vec<_> = (0..tools)
        .map(|at| json!({"type":"function","name":format!("{stem}{at}"),"parameters":{}}))
        .collect();
    json!({"model":"m","input":items,"tools":tools})
}

fn messages(turns: &[Turned], tools: usize, stem: &str) -> Value {
    let messages: Vec<_> = turns.iter().map(|turn| {
        let (role, said) = match turn {
            Turned::Instructions => return json!({"role":"system","content":"Be brief."}),
            Turned::User(said) => ("user", said),
            Turned::Model(said) => ("assistant", said),
        };
        let content: Vec<_> = said.iter().map(|said| match said {
            Said::Text(at) => json!({"type":"text","text":at.to_string()}),
            Said::Picture => json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}),
            Said::Thought => json!({"type":"thinking","thinking":"hm","signature":"s"}),
            Said::Call(id, name) => json!({"type":"tool_use","id":id,"name":name,"input":{}}),
            Said::Result(id, _) => json!({"type":"tool_result","tool_use_id":id,"content":"ok"}),
            Said::LongResult(n) => json!({"type":"tool_result","tool_use_id":"c0","content":vec![json!({"type":"text","text":"ok"}); *n]}),
        }).collect();
        json!({"role":role,"content":content})
    }).collect();
    let tools: Vec<_> =
        (0..tools).map(|at| json!({"name":format!("{stem}{at}"),"input_schema":{}})).collect();
    json!({"model":"m","max_tokens":9,"messages":messages,"tools":tools})
}

fn gemini(turns: &[Turned], tools: usize, stem: &str) -> Value {
    let mut system = Vec::new();
    let mut contents = Vec::new();
    for turn in turns {
        let (role, said) = match turn {
            Turned::Instructions => {
                system.push(json!({"text":"Be brief."}));
                continue;
            }
            Turned::User(said) => ("user", said),
            Turned::Model(said) => ("model", said),
        };
        let named = |id: &String, mut call: Value| {
            if !id.is_empty() {
                call["id"] = id.as_str().into();
            }
            call
        };
        let parts: Vec<_> = said.iter().map(|said| match said {
            Said::Text(at) => json!({"text":at.to_string()}),
            Said::Picture => json!({"inlineData":{"mimeType":"image/png","data":"AA=="}}),
            Said::Thought => json!({"text":"hm","thought":true}),
            Said::Call(id, name) => json!({"functionCall":named(id, json!({"name":name,"args":{}}))}),
            Said::Result(id, name) => json!({"functionResponse":named(id, json!({"name":name,"response":{"result":"ok"}}))}),
            Said::LongResult(n) => json!({"functionResponse":{"name":"f0","response":{"result":"ok"},"parts":vec![json!({"inlineData":{"mimeType":"image/png","data":"AA=="}}); *n]}}),
        }).collect();
        contents.push(json!({"role":role,"parts":parts}));
    }
    let tools: Vec<_> = (0..tools).map(|at| json!({"name":format!("{stem}{at}"),"parameters":{}})).collect();
    json!({"contents":contents,"systemInstruction":{"parts":system},"tools":[{"functionDeclarations":tools}]})
}

const ALL: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini];

/// Returns how many texts a conversion looks at.
fn steps(from: Dialect, to: Dialect, vendor: Vendor, body: &str) -> u64 {
    let target = Target { model: "m", stream: false, vendor };
    looks::take();
    let converted = crate::dialect::convert::request(from, to, body, &target);
    let steps = looks::take();
    assert!(converted.is_ok() || steps > 0, "{converted:?}");
    steps
}

#[test]
fn twice_the_parts_are_twice_the_steps() {
    const PARTS: usize = 150;
    for from in ALL {
        for ((name, once), (_, twice)) in shapes(from, PARTS).into_iter().zip(shapes(from, 2 * PARTS)) {
            let (once, twice) = (once.to_string(), twice.to_string());
            for (to, vendor) in ALL.into_iter().flat_map(|to| [(to, Vendor::Other), (to, Vendor::OpenAi)]) {
                let (once, twice) = (steps(from, to, vendor, &once), steps(from, to, vendor, &twice));
                // Maps look at a text twice now and then. A search for each part would cost nearly four times as much.
                assert!(twice <= 3 * once, "{from:?} to {to:?}, {name}: {once} steps, then {twice}");
            }
        }
    }
}

/// Thinking between calls, each with its signature: the client's stream stays in proportion.
#[test]
fn a_stream_of_signed_thinking_grows_as_its_answer_does() {
    let told = |turns: u64| {
        let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
        let mut stream =
            event(json!({"type":"message_start","message":{"id":"m","type":"message","role":"assistant",
            "model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}));
        for index in 0..2 * turns {
            let (block, delta) = match index % 2 {
                0 => (
                    json!({"type":"thinking","thinking":"","signature":""}),
                    json!({"type":"signature_delta","signature":"a signature of some length"}),
                ),
                _ => (
                    json!({"type":"tool_use","id":format!("t{index}"),"name":"f","input":{}}),
                    json!({"type":"input_json_delta","partial_json":"{}"}),
                ),
            };
            stream += &event(json!({"type":"content_block_start","index":index,"content_block":block}));
            if index % 2 == 0 {
                let thought = json!({"type":"thinking_delta","thinking":"hm"});
                stream += &event(json!({"type":"content_block_delta","index":index,"delta":thought}));
            }
            stream += &event(json!({"type":"content_block_delta","index":index,"delta":delta}));
            stream += &event(json!({"type":"content_block_stop","index":index}));
        }
        stream += &event(
            json!({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}),
        );
        stream += &event(json!({"type":"message_stop"}));
        Way::new(Dialect::Messages, Dialect::Chat).stream_text(&stream).len()
    };
    let (some, twice) = (told(500), told(1000));
    assert!(twice < some * 5 / 2, "{some} bytes, {twice} for twice as much");
}
