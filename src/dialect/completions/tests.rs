//! Requests as the question of one user, and answers in the legacy form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{StreamWriter, echoed, read_request, write_reply};
use crate::dialect::canonical::{
    Candidate, ConversionError, Event, Part, PartKind, Reply, ReplyContext, Request, Role, Stop, Thinking,
};
use crate::dialect::literal::{Json, Text};
use crate::dialect::logprobs::Token;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;

fn with_request<T>(body: &Value, look: impl FnOnce(Result<Request<'_>, ConversionError>) -> T) -> T {
    let body = body.to_string();
    look(read_request(&Node::parse(&body).unwrap()))
}

fn context() -> ReplyContext {
    ReplyContext { usage_chunk: true, now: 7, fallback_id: "r1".to_owned(), ..ReplyContext::default() }
}

fn token(text: &str, logprob: f64, others: Vec<Token<'static>>) -> Token<'static> {
    Token { text: Text::of(text), logprob: Json::of(&logprob.into()), bytes: None, others }
}

fn usage() -> Usage {
    Usage { prompt: Some(5), completion: Some(2), total: Some(7), ..Usage::default() }
}

/// Returns the data of a stream's events.
fn data(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|_| json!(data))).collect()
}

#[test]
fn a_prompt_is_what_one_user_says() {
    for prompt in [json!("Once \"upon\""), json!(["Once \"upon\""])] {
        let body = json!({"model":"m","prompt":prompt,"temperature":0.50,"top_p":1,"seed":7,"user":"u",
            "stop":["\n", "END"],"frequency_penalty":0.1,"presence_penalty":-1,"logit_bias":{"50256":-100},
            "n":2,"best_of":2,"suffix":"","echo":false,"max_tokens":5});
        with_request(&body, |request| {
            let request = request.unwrap();
            let [turn] = &request.turns[..] else { panic!("one turn: {request:?}") };
            assert_eq!((turn.role, turn.listed), (Role::User, false));
            assert_eq!(turn.parts, [Part::Text(Text::of("Once \"upon\""))]);
            assert_eq!((request.max_output, request.n, request.logprobs), (Some(5), Some(2), false));
            assert_eq!(request.stop, [Text::of("\n"), Text::of("END")]);
            let numbers = [&request.temperature, &request.top_p, &request.seed];
            let numbers = numbers.map(|number| number.as_ref().map(|it| it.as_str().to_owned()));
            assert_eq!(numbers.map(Option::unwrap), ["0.5", "1", "7"]);
            assert_eq!(request.logit_bias.unwrap().as_str(), r#"{"50256":-100}"#);
        });
    }
}

#[test]
fn what_nobody_limits_ends_after_sixteen_tokens() {
    let body = json!({"prompt":"x","max_tokens":null});
    assert_eq!(with_request(&body, |request| request.unwrap().max_output), Some(16));
}

#[test]
fn what_only_a_completions_upstream_can_do_is_named() {
    let cases = [
        (json!({"prompt":["a","b"]}), "prompt"),
        (json!({"prompt":[1,2,3]}), "prompt"),
        (json!({"prompt":[7]}), "prompt"),
        (json!({"prompt":[[1,2]]}), "prompt"),
        (json!({"prompt":[]}), "prompt"),
        (json!({"prompt":"x","suffix":"y"}), "suffix"),
        (json!({"prompt":"x","best_of":3}), "best_of"),
        (json!({"prompt":"x","best_of":3,"n":2}), "best_of"),
        (json!({"prompt":"x","echo":true,"logprobs":1}), "echo"),
        (json!({"prompt":"x","max_tokens":0}), "max_tokens"),
    ];
    for (body, wanted) in cases {
        let unfit = with_request(&body, |request| request.map(|_| ()).unwrap_err());
        let ConversionError::Unsupported { field, form } = unfit else { panic!("{body}: {unfit:?}") };
        assert_eq!((field.as_str(), form.is_empty()), (wanted, wanted != "prompt"), "{body}");
    }
    for (body, wanted) in [
        (json!({"model":"m"}), ConversionError::invalid("prompt", "is required")),
        (json!({"prompt":5}), ConversionError::invalid("prompt", "must be a string or a list of one")),
        (
            json!({"prompt":"x".repeat(1 << 20),"echo":true,"n":5}),
            ConversionError::invalid("n", "is too large for answers that repeat such a long prompt (echo)"),
        ),
        (
            json!({"prompt":"x","stop":1}),
            ConversionError::invalid("stop", "must be a string or a list of strings"),
        ),
    ] {
        assert_eq!(with_request(&body, |request| request.map(|_| ()).unwrap_err()), wanted);
    }
}

#[test]
fn tokens_are_weighed_as_far_as_the_client_asks() {
    for (logprobs, wanted) in [
        (json!(null), (false, None)),
        (json!(0), (true, None)),
        (json!(3), (true, Some("3"))),
        (json!(true), (true, None)),
        (json!(false), (false, None)),
    ] {
        let body = json!({"prompt":"x","logprobs":logprobs});
        with_request(&body, |request| {
            let request = request.unwrap();
            let others = request.top_logprobs.as_ref().map(Json::as_str);
            assert_eq!((request.logprobs, others), wanted, "{body}");
        });
    }
}

#[test]
fn an_answer_has_the_legacy_form() {
    let said = vec![
        Part::Thinking(Thinking { text: Text::of("Hm."), signature: None }),
        Part::Text(Text::of(" a time")),
        Part::Text(Text::of(".\n")),
    ];
    let refused = vec![Part::Refusal(Text::of("No."))];
    let reply = Reply {
        id: Text::of("chatcmpl-9"),
        model: Text::of("m"),
        created: Some(5),
        candidates: vec![
            Candidate { parts: said, stop: Stop::OutputLimit, ..Candidate::default() },
            Candidate { parts: refused, stop: Stop::Filtered, ..Candidate::default() },
        ],
        usage: Some(usage()),
    };
    let echoing = ReplyContext { echo_text: Some(Text::of("Once upon")), ..context() };
    for (context, before) in [(&context(), ""), (&echoing, "Once upon")] {
        let answer: Value = serde_json::from_slice(&write_reply(&reply, context)).unwrap();
        let choice = |index: u64, text: &str, reason: &str| {
            let text = format!("{before}{text}");
            json!({"text":text,"index":index,"logprobs":null,"finish_reason":reason})
        };
        let wanted = json!({"id":"cmpl-9","object":"text_completion","created":5,"model":"m",
            "choices":[choice(0, " a time.\n", "length"), choice(1, "No.", "content_filter")],
            "usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,
                "prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}});
        assert_eq!(answer, wanted);
    }
}

#[test]
fn ids_are_of_one_kind() {
    for (id, wanted) in
        [("", "cmpl-r1"), ("cmpl-1", "cmpl-1"), ("chatcmpl-1", "cmpl-1"), ("msg_1", "cmpl-msg_1")]
    {
        let reply = Reply { id: Text::of(id), ..Reply::default() };
        let answer: Value = serde_json::from_slice(&write_reply(&reply, &context())).unwrap();
        assert_eq!(answer["id"], wanted);
    }
}

#[test]
fn tokens_stand_side_by_side() {
    let other = token("Ho", -2.5, Vec::new());
    let logprobs = vec![(0, token("Hé", -0.25, vec![other])), (0, token("!", -0.75, Vec::new()))];
    let parts = vec![Part::Text(Text::of("Hé!"))];
    let mut reply =
        Reply { candidates: vec![Candidate { parts, logprobs, ..Candidate::default() }], ..Reply::default() };
    let told = |reply: &Reply<'_>| {
        let answer: Value = serde_json::from_slice(&write_reply(reply, &context())).unwrap();
        answer["choices"][0]["logprobs"].clone()
    };
    let mut wanted = json!({"tokens":["Hé","!"],"token_logprobs":[-0.25,-0.75],
        "top_logprobs":[{"Ho":-2.5,"Hé":-0.25},{"!":-0.75}],"text_offset":[0,2]});
    assert_eq!(told(&reply), wanted);
    reply.candidates[0].logprobs.iter_mut().for_each(|(_, token)| token.others.clear());
    wanted["top_logprobs"] = Value::Null;
    assert_eq!(told(&reply), wanted);
}

/// Returns the events of a stream of two words.
fn events() -> Vec<Event<'static>> {
    let delta = |key, text: &'static str| Event::Delta { key, text: Text::plain(text) };
    let weighed = |text, logprob| Event::Logprobs { key: 1, tokens: vec![token(text, logprob, Vec::new())] };
    vec![
        Event::Start { id: Text::plain("c1"), model: Text::plain("m"), created: Some(5) },
        Event::PartStart { key: 0, part: PartKind::Thinking },
        delta(0, "Hm."),
        Event::PartStop { key: 0 },
        Event::PartStart { key: 1, part: PartKind::Text },
        weighed("one", -0.5),
        delta(1, "one"),
        delta(1, " two"),
        weighed(" two", -1.0),
        Event::PartStop { key: 1 },
        Event::Usage(usage()),
        Event::Finish(Stop::Sequence(None)),
        Event::End,
    ]
}

fn written(events: &[Event<'_>], context: &ReplyContext) -> Vec<Value> {
    let (mut writer, mut out) = (StreamWriter::default(), String::new());
    events.iter().for_each(|event| writer.write(event, context, &mut out));
    data(&out)
}

#[test]
fn a_stream_has_the_form_of_the_answer() {
    let chunk = |text: &str, logprobs: Value, reason: Value| {
        let choice = json!({"text":text,"index":0,"logprobs":logprobs,"finish_reason":reason});
        json!({"id":"cmpl-c1","object":"text_completion","created":5,"model":"m","choices":[choice],"usage":null})
    };
    let weighed = |token: &str, logprob: f64, at: u64| json!({"tokens":[token],"token_logprobs":[logprob],"top_logprobs":null,"text_offset":[at]});
    let mut wanted = vec![
        chunk("one", weighed("one", -0.5, 0), Value::Null),
        chunk(" two", Value::Null, Value::Null),
        chunk("", weighed(" two", -1.0, 3), Value::Null),
        chunk("", Value::Null, json!("stop")),
        json!({"id":"cmpl-c1","object":"text_completion","created":5,"model":"m","choices":[],
            "usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,
                "prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}),
        json!("[DONE]"),
    ];
    assert_eq!(written(&events(), &context()), wanted);

    let echoing = ReplyContext { echo_text: Some(Text::of("zero ")), ..context() };
    wanted.insert(0, chunk("zero ", Value::Null, Value::Null));
    assert_eq!(written(&events(), &echoing), wanted);

    // A client that did not ask for usage is not shown it.
    let quiet = written(&events(), &ReplyContext { usage_chunk: false, ..context() });
    assert_eq!(quiet.len(), 5);
    assert!(quiet[..4].iter().all(|chunk| chunk.get("usage").is_none()), "{quiet:?}");
}

#[test]
fn a_failed_stream_ends_in_an_error() {
    let mut failing = events()[..7].to_vec();
    failing.push(Event::Fail(UpstreamError::new("gone")));
    failing.push(Event::End);
    let chunks = written(&failing, &context());
    assert_eq!((chunks.len(), &chunks[1]["error"]["message"]), (2, &json!("gone")));
}

#[test]
fn a_prompt_comes_back_to_who_wants_it() {
    for (body, wanted) in [
        (json!({"prompt":"x","echo":true}), Some("x")),
        (json!({"prompt":["x"],"echo":true}), Some("x")),
        (json!({"prompt":"x","echo":false}), None),
        (json!({"prompt":"x"}), None),
        (json!({"prompt":["x","y"],"echo":true}), None),
        (json!({"echo":true}), None),
    ] {
        let body = body.to_string();
        let echoed = echoed(&Node::parse(&body).unwrap());
        assert_eq!(echoed.as_ref().map(|text| text.decode()).as_deref(), wanted, "{body}");
    }
}

proptest! {
    #[test]
    fn a_stream_says_what_the_answer_says(pieces in prop::collection::vec("\\PC{0,6}", 0..6), prompt in "\\PC{0,6}") {
        let context = ReplyContext { echo_text: Some(Text::of(&prompt)), ..context() };
        let mut told = vec![Event::PartStart { key: 0, part: PartKind::Text }];
        told.extend(pieces.iter().map(|piece| Event::Delta { key: 0, text: Text::of(piece) }));
        told.extend([Event::PartStop { key: 0 }, Event::Finish(Stop::End), Event::End]);
        let chunks = written(&told, &context);
        let said: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
        let parts = pieces.iter().map(|piece| Part::Text(Text::of(piece))).collect();
        let reply = Reply { candidates: vec![Candidate { parts, ..Candidate::default() }], ..Reply::default() };
        let answer: Value = serde_json::from_slice(&write_reply(&reply, &context)).unwrap();
        prop_assert_eq!(answer["choices"][0]["text"].as_str(), Some(said.as_str()));
        prop_assert_eq!(said, prompt + &pieces.concat());
    }
}
