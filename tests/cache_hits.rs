//! A converted coding session finds as much of its prompts in an upstream's cache as an unconverted one. The sessions are
//! recorded from real clients, and go from each dialect to each other, to upstreams that bill as providers do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Billed, Gateway, PromptCache, Reply, Upstream, eventually, sessions, wire};

const GEMINI: &str = ":generateContent";

/// An upstream of one dialect, and a model that it offers.
#[derive(Clone, Copy)]
struct Side {
    path: &'static str,
    platform: &'static str,
    model: &'static str,
}

const fn side(path: &'static str, platform: &'static str, model: &'static str) -> Side {
    Side { path, platform, model }
}

const SIDES: [Side; 7] = [
    side(CHAT, "openai", "gpt-5.2"),
    side(RESPONSES, "openai", "gpt-5.2"),
    // The first model chooses how long it thinks, the second gets a budget.
    side(MESSAGES, "claude", "claude-opus-4-6"),
    side(MESSAGES, "claude", "claude-sonnet-4-5"),
    side(GEMINI, "gemini", "gemini-3-pro"),
    // Sites that offer other vendors' models.
    side(CHAT, "new-api", "glm-4.6"),
    side(MESSAGES, "new-api", "glm-4.6"),
];

fn path_of(path: &str, model: &str) -> String {
    if path == GEMINI { format!("/v1beta/models/{model}{GEMINI}") } else { path.to_owned() }
}

/// Builds an answer with the usage, in the dialect's own members.
fn reply(path: &str, model: &str, Billed { prompt, found }: Billed) -> Reply {
    let mut answer = match path {
        CHAT => wire::chat(model),
        RESPONSES => wire::response(model),
        MESSAGES => wire::message(model),
        _ => {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]})
        }
    };
    match path {
        CHAT => {
            answer["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7,
                "prompt_tokens_details": {"cached_tokens": found}});
        }
        RESPONSES => {
            answer["usage"] = json!({"input_tokens": prompt, "output_tokens": 7, "total_tokens": prompt + 7,
                "input_tokens_details": {"cached_tokens": found}});
        }
        MESSAGES => {
            answer["usage"] =
                json!({"input_tokens": prompt - found, "cache_read_input_tokens": found, "output_tokens": 7});
        }
        _ => {
            answer["usageMetadata"] = json!({"promptTokenCount": prompt, "candidatesTokenCount": 7,
                "totalTokenCount": prompt + 7, "cachedContentTokenCount": found});
        }
    }
    Reply::json(200, &answer)
}

/// The record of a session at an upstream: the requests that arrived, and how they were billed.
struct Led {
    asked: Vec<Value>,
    billed: Vec<Billed>,
}

impl Led {
    /// Returns the fraction of all prompts that was found.
    fn share(&self) -> f64 {
        let sum = |of: fn(&Billed) -> usize| self.billed.iter().map(of).sum::<usize>() as f64;
        sum(|billed| billed.found) / sum(|billed| billed.prompt)
    }
}

/// Plays a session of a client of one dialect to an upstream of another, with a turn every twenty seconds.
fn lead(from: &str, session: &[Value], side: Side) -> Led {
    let Side { path, platform, model } = side;
    let upstream = Upstream::with_one_path(model, path);
    let billed = Arc::new(Mutex::new((PromptCache::default(), Vec::new())));
    let bills = Arc::clone(&billed);
    let asked_at = path_of(path, model);
    upstream.serve(move |asked| {
        let listed = json!({"models": [{"name": format!("models/{model}"), "supportedGenerationMethods": ["generateContent"]}]});
        if asked.path() == "/v1beta/models" {
            return Some(Reply::json(200, &listed));
        }
        (asked.path() == asked_at).then(|| {
            let (cache, billed) = &mut *bills.lock().expect("no panic there");
            cache.wait(Duration::from_secs(20));
            billed.push(cache.bill(path, &asked.body));
            reply(path, model, *billed.last().expect("one"))
        })
    });
    let gateway = Gateway::start().in_front_of(platform, &upstream);
    gateway.wait_for_channels(model, 1);
    for body in session {
        let mut body = body.clone();
        body["stream"] = json!(false);
        body["model"] = json!(model);
        if from == GEMINI {
            body.as_object_mut()
                .expect("an object")
                .retain(|name, _| !["stream", "model"].contains(&name.as_str()));
        }
        gateway.client().post(&path_of(from, model), &body).expect(200);
    }
    let asked: Vec<_> = upstream.asked_for(&path_of(path, model)).iter().map(|asked| asked.json()).collect();
    let billed = billed.lock().expect("no panic there").1.clone();
    assert_eq!((asked.len(), billed.len()), (session.len(), session.len()), "each turn is asked once");

    let found: u64 = billed.iter().map(|billed| billed.found as u64).sum();
    eventually("the log tells what was found", || {
        (gateway.logs().iter().filter_map(|row| row["cacheReadTokens"].as_u64()).sum::<u64>() == found)
            .then_some(())
    });
    Led { asked, billed }
}

/// The least that a converted session must find, as a fraction of what an unconverted one finds.
const ENOUGH: f64 = 0.95;

#[track_caller]
fn a_converted_session_finds_as_much(from: &'static str, session: &[Value]) {
    assert!(session.len() >= 20, "{} turns", session.len());
    let own = SIDES.into_iter().find(|side| side.path == from).expect("every dialect is offered");
    let direct = lead(from, session, own).share();
    assert!(direct > 0.7, "{from}: {direct}");
    for side in SIDES.into_iter().filter(|side| side.path != from) {
        let led = lead(from, session, side);
        let share = led.share();
        println!("{from} at {} of {}: {share:.3}, direct {direct:.3}", side.path, side.model);
        assert!(
            share >= ENOUGH * direct,
            "{from} at {} of {}: {share} of {direct}: {:?}",
            side.path,
            side.model,
            led.billed
        );
    }
}

/// Returns Claude Code's session as an upstream of another dialect receives it, which a client of that dialect could send,
/// too.
fn claude_code_in(path: &str) -> Vec<Value> {
    let side = SIDES.into_iter().find(|side| side.path == path).expect("every dialect is offered");
    lead(MESSAGES, &sessions::claude_code(), side).asked
}

#[test]
fn a_session_of_claude_code_finds_as_much_in_caches_of_other_dialects() {
    a_converted_session_finds_as_much(MESSAGES, &sessions::claude_code());
}

#[test]
fn a_session_of_codex_finds_as_much_in_caches_of_other_dialects() {
    a_converted_session_finds_as_much(RESPONSES, &sessions::codex());
}

#[test]
fn a_session_over_chat_finds_as_much_in_caches_of_other_dialects() {
    a_converted_session_finds_as_much(CHAT, &claude_code_in(CHAT));
}

#[test]
fn a_session_over_gemini_finds_as_much_in_caches_of_other_dialects() {
    a_converted_session_finds_as_much(GEMINI, &claude_code_in(GEMINI));
}

/// Tests the stub itself: without this test, a cache that always finds everything would pass.
#[test]
fn an_upstream_finds_the_beginning_of_a_prompt_for_five_minutes() {
    let words = "word ".repeat(4_000);
    let body = |first: &str, more: &str| {
        let turns = json!([{"role": "user", "content": format!("{first}{words}")}, {"role": "user", "content": more}]);
        json!({"model": "m", "messages": turns}).to_string()
    };
    let mut cache = PromptCache::default();
    let mut found = |first: &str, more: &str, seconds: u64| {
        cache.wait(Duration::from_secs(seconds));
        cache.bill(CHAT, body(first, more).as_bytes()).found
    };
    assert_eq!(found("", "a", 0), 0);
    assert_eq!(found("", "b", 299), 4 * 1_024);
    assert_eq!(found("", "b", 301), 0, "nobody has asked for five minutes");
    assert_eq!(found("x", "b", 1), 0, "it begins otherwise");

    let marked = |mark: bool, more: &str| {
        let mut block = json!({"type": "text", "text": words});
        if mark {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        json!({"model": "m", "messages": [{"role": "user", "content": [block, {"type": "text", "text": more}]}]}).to_string()
    };
    let mut cache = PromptCache::default();
    let mut found = |mark: bool, more: &str| cache.bill(MESSAGES, marked(mark, more).as_bytes()).found;
    assert_eq!((found(false, "a"), found(true, "a")), (0, 0), "only what is marked is kept");
    assert!(found(true, "b") > 4 * 1_024);
    assert_eq!(found(false, "b"), 0);
}
