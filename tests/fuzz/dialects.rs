//! The parsers and writers of every dialect: requests, whole answers and streams, from each dialect to each.

use std::sync::Arc;

use switchyard::dialect::canonical::{ReplyContext, Target, Vendor};
use switchyard::dialect::convert::{self, StreamConverter};
use switchyard::dialect::errors::UpstreamError;
use switchyard::dialect::estimate::estimate_tokens;
use switchyard::dialect::observe::StreamObserver;
use switchyard::dialect::stream_event::StreamEvent;
use switchyard::dialect::tree::Node;
use switchyard::dialect::{Dialect, chat, messages, responses};

use super::bodies::{self, WORDS};
use super::{Random, fuzz, pieces};

const ALL: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini];
/// The dialects in which clients are answered.
const CLIENTS: [Dialect; 5] =
    [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini, Dialect::Completions];

/// Asserts that a written body is a whole JSON object.
fn is_object(body: &[u8]) {
    let text = std::str::from_utf8(body).expect("text");
    let node = Node::parse(text).unwrap_or_else(|error| panic!("{error:?} in {text}"));
    assert!(node.is_object(), "{text}");
}

/// Asserts that every event is JSON, except for chat's end marker.
fn are_events(stream: &str) {
    assert!(stream.is_empty() || stream.ends_with("\n\n"), "{stream:?}");
    for data in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(data == "[DONE]" || Node::parse(data).is_ok(), "{data}");
    }
}

fn context(random: &mut Random) -> ReplyContext {
    let custom_tools = if random.below(2) == 0 { vec!["add".to_owned()] } else { Vec::new() };
    ReplyContext {
        usage_chunk: random.below(2) == 0,
        custom_tools,
        several: random.below(4) == 0,
        fallback_id: "req-1".to_owned(),
        ..ReplyContext::default()
    }
}

/// Converts a request of this dialect to every other one, unless it is refused.
fn requests(from: Dialect, seed: &str) {
    fuzz(&format!("request-{}", from.id()), &[seed], WORDS, |input, random| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let vendor = *random.one_of(&[Vendor::OpenAi, Vendor::Anthropic, Vendor::Gemini, Vendor::Other]);
        let model = *random.one_of(&["m", "claude-opus-4-8", "claude-3-5-haiku", "gpt-5.1", "gemini-3-pro"]);
        let target = Target { model, stream: random.below(2) == 0, vendor };
        for to in ALL {
            let Ok(converted) = convert::request(from, to, text, &target) else { continue };
            is_object(&converted.body);
            // Upstreams find a cached prompt by its bytes, so one request must always convert to the same text.
            let again = convert::request(from, to, text, &target).expect("the same");
            assert_eq!(again.body, converted.body);
        }
        let Ok(body) = Node::parse(text) else { return };
        let restored = [
            chat::without_foreign_members(&body, vendor, model),
            messages::without_foreign_thinking(&body),
            messages::in_other_thinking_form(&body, None),
            responses::without_own_ids(&body),
            Some(responses::whole_turn(&body)).filter(|_| body.is_object()),
            Some(responses::merge_turn(&body, &["{\"type\":\"x\"}"], &body)).filter(|_| body.is_object()),
        ];
        restored.iter().flatten().for_each(|body| is_object(body));
        let _ = (responses::validate(&body), responses::echo(&body), estimate_tokens(&body));
    });
}

#[test]
fn chat_requests_are_read() {
    requests(Dialect::Chat, bodies::CHAT_REQUEST);
}

#[test]
fn responses_requests_are_read() {
    requests(Dialect::Responses, bodies::RESPONSES_REQUEST);
}

#[test]
fn messages_requests_are_read() {
    requests(Dialect::Messages, bodies::MESSAGES_REQUEST);
}

#[test]
fn gemini_requests_are_read() {
    requests(Dialect::Gemini, bodies::GEMINI_REQUEST);
}

#[test]
fn completions_requests_are_read() {
    requests(Dialect::Completions, bodies::COMPLETIONS_REQUEST);
}

#[test]
fn whole_answers_are_read() {
    fuzz("reply", &bodies::REPLIES, WORDS, |input, random| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let (from, to) = (*random.one_of(&ALL), *random.one_of(&CLIENTS));
        let context = context(random);
        if let Ok(answer) = convert::reply(from, to, text, &context) {
            is_object(&answer.body);
        }
        if let Ok(told) = convert::replayed(from, to, text, &context) {
            let told = std::str::from_utf8(&told.body).expect("text");
            are_events(told);
            // A written stream can be parsed as one.
            let read = convert::accumulated(to, to, told.as_bytes(), &context);
            assert!(read.is_ok() || to == Dialect::Chat, "{to:?} {read:?}: {told}");
        }
    });
}

/// Converts a stream of this dialect to another, with the same result however the network cuts it.
fn streams(from: Dialect, seed: &str) {
    fuzz(&format!("stream-{}", from.id()), &[seed, bodies::EVENTS[4]], WORDS, |input, random| {
        let to = *random.one_of(&CLIENTS);
        let context = Arc::new(context(random));
        let cut = pieces(input, random);
        let whole = converted(from, to, &[input], &context);
        assert_eq!(converted(from, to, &cut, &context), whole, "{from:?} to {to:?}");
        are_events(&whole.0);
        if let Ok(answer) = convert::accumulated(from, to, input, &context) {
            is_object(&answer.body);
        }
        let mut observer = StreamObserver::new(from);
        cut.iter().for_each(|piece| drop(observer.feed(piece).clone()));
        observer.close();
        let failure = observer.failure_event(&UpstreamError::new("no"), "resp_1");
        are_events(std::str::from_utf8(&failure).expect("text"));
    });
}

/// Returns the stream that a client gets, and whether it is complete. Failures are reported as the relay does.
fn converted(from: Dialect, to: Dialect, pieces: &[&[u8]], context: &Arc<ReplyContext>) -> (String, bool) {
    let mut converter = StreamConverter::new(from, to, context.clone());
    let mut out = String::new();
    pieces.iter().for_each(|piece| converter.feed(piece, &mut out));
    let complete = converter.close(&mut out);
    if !complete {
        let failure = converter.failure().cloned().unwrap_or_else(|| UpstreamError::new("it broke"));
        converter.fail(&failure, &mut out);
    }
    (out, complete)
}

#[test]
fn turns_of_a_socket_are_put_together() {
    fuzz("turns", &[bodies::RESPONSES_STREAM], WORDS, |input, _| {
        let mut turn = responses::TurnOutput::default();
        let text = String::from_utf8_lossy(input);
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.for_each(|data| turn.read(&StreamEvent::new(b"", data)));
        let before = Node::parse(bodies::RESPONSES_REQUEST).expect("a seed");
        is_object(&responses::merge_turn(&before, &turn.items(), &before));
    });
}

#[test]
fn chat_streams_are_read() {
    streams(Dialect::Chat, bodies::CHAT_STREAM);
}

#[test]
fn responses_streams_are_read() {
    streams(Dialect::Responses, bodies::RESPONSES_STREAM);
}

#[test]
fn messages_streams_are_read() {
    streams(Dialect::Messages, bodies::MESSAGES_STREAM);
}

#[test]
fn gemini_streams_are_read() {
    streams(Dialect::Gemini, bodies::GEMINI_STREAM);
}
