//! Speech from text and text from speech: forms and audio that pass byte for byte, in any format.

use serde_json::{Value, json};

use crate::support::{Gate, Gateway, Pair, Reply, Request, Upstream, wire};

const SPEECH: &str = "/v1/audio/speech";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const TRANSLATIONS: &str = "/v1/audio/translations";
const MODEL: &str = "model-voice";
const KIND: &str = "multipart/form-data; boundary=b1";
/// Audio data that is not text, and begins with a colon like an event's comment.
const SOUND: [&[u8]; 2] = [b":\xff\xfb\x90d\0\x01", b"data: \0\xef\xbb\xbf"];

fn started() -> (Gateway, Upstream) {
    Gateway::serving_as("new-api", &[MODEL])
}

fn speech(model: &str) -> Value {
    json!({"model": model, "input": "Which way?", "voice": "alloy"})
}

/// Builds a form with a recording of arbitrary bytes.
fn recording(model: Option<&str>, more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = b"--b1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n".to_vec();
    body.extend(SOUND.concat());
    for (name, value) in model.iter().map(|model| ("model", *model)).chain(more.iter().copied()) {
        body.extend(
            format!("\r\n--b1\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}").bytes(),
        );
    }
    body.extend(b"\r\n--b1--\r\n");
    body
}

fn listen(path: &str, body: Vec<u8>) -> Request {
    Request::post(path).header("content-type", KIND).body(body)
}

#[test]
fn a_text_read_aloud_is_heard_while_it_is_still_read() {
    let (gateway, upstream) = started();
    let gate = Gate::new();
    upstream.answer(SPEECH, Reply::pieces("audio/mpeg", SOUND).waits_for(1, &gate));
    let ask = speech(MODEL);
    let mut stream = gateway.client().stream(Request::post(SPEECH).json(&ask));
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("audio/mpeg")));
    assert_eq!(stream.next_piece().unwrap().as_deref(), Some(SOUND[0]));
    gate.open();
    let (rest, end) = stream.rest();
    assert_eq!((&rest[..], end.is_ok()), (SOUND[1], true));
    let asked = upstream.last(SPEECH);
    assert_eq!((asked.json(), asked.header("accept")), (ask, Some("*/*")));
    let row = &gateway.wait_for_logs(1)[0];
    let told = [&row["status"], &row["modelRequested"], &row["isStream"]];
    assert_eq!(told, [&json!("success"), &json!(MODEL), &json!(false)]);
}

#[test]
fn a_sound_of_known_length_keeps_it() {
    let (gateway, upstream) = started();
    upstream.answer(SPEECH, Reply::bytes(200, "audio/wav", SOUND.concat()));
    let answer = gateway.client().post(SPEECH, &speech(MODEL));
    assert_eq!((answer.status, &answer.body), (200, &SOUND.concat()));
    assert_eq!(answer.header("content-length"), Some(SOUND.concat().len().to_string().as_str()));
}

#[test]
fn speech_as_events_is_a_stream_and_tells_its_usage() {
    let (gateway, upstream) = started();
    let gate = Gate::new();
    let usage = json!({"input_tokens": 14, "output_tokens": 101, "total_tokens": 115});
    let events = [
        wire::data(&json!({"type": "speech.audio.delta", "audio": "UklGRg=="})),
        wire::data(&json!({"type": "speech.audio.done", "usage": usage})),
    ];
    upstream.answer(SPEECH, Reply::events(&events).waits_for(1, &gate));
    let mut ask = speech(MODEL);
    ask["stream_format"] = json!("sse");
    let mut stream = gateway.client().stream(Request::post(SPEECH).json(&ask));
    assert_eq!(stream.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(stream.next_event().unwrap().as_deref(), Some(events[0].as_str()));
    gate.open();
    assert_eq!(stream.rest().0, events[1].as_bytes());
    assert_eq!(upstream.last(SPEECH).header("accept"), Some("text/event-stream"));
    let row = &gateway.wait_for_logs(1)[0];
    let told = [&row["status"], &row["promptTokens"], &row["completionTokens"], &row["isStream"]];
    assert_eq!(told, [&json!("success"), &json!(14), &json!(101), &json!(true)]);
}

#[test]
fn a_recording_goes_upstream_byte_for_byte_and_its_transcript_comes_in_any_form() {
    let (gateway, upstream) = started();
    let subtitles = "1\n00:00:00,000 --> 00:00:01,000\nWhich way?\n";
    let transcript = json!({"text": "Which way?", "usage": {"type": "tokens", "input_tokens": 20,
        "output_tokens": 3, "total_tokens": 23}});
    for path in [TRANSCRIPTIONS, TRANSLATIONS] {
        for (format, kind, text) in [
            ("json", "application/json", transcript.to_string().as_str()),
            ("text", "text/plain; charset=utf-8", ": Which way?\n"),
            ("srt", "application/x-subrip", subtitles),
            ("vtt", "text/vtt", "\u{feff}WEBVTT\n"),
            ("text", "text/plain", ""),
        ] {
            upstream.answer(path, Reply::bytes(200, kind, text));
            let body = recording(Some(MODEL), &[("response_format", format)]);
            let answer = gateway.client().send(listen(path, body.clone()));
            assert_eq!((answer.status, answer.text().as_str()), (200, text), "{path} {format}");
            assert_eq!(answer.header("content-type"), Some(kind), "{path} {format}");
            let asked = upstream.last(path);
            assert_eq!(
                (asked.body, asked.headers.iter().filter(|(name, _)| name == "content-type").count()),
                (body, 1)
            );
        }
    }
    let rows = gateway.wait_for_logs(10);
    assert!(rows.iter().all(|row| row["status"] == "success"), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row["totalTokens"] == 23).count(), 2);
    let error = gateway.client().send(listen(TRANSCRIPTIONS, recording(None, &[]))).expect(400);
    assert_eq!(error["error"]["param"], "model");
    gateway.anyone().send(listen(TRANSCRIPTIONS, recording(Some(MODEL), &[]))).expect(401);
}

#[test]
fn a_transcript_is_streamed_as_it_is_written() {
    let (gateway, upstream) = started();
    let gate = Gate::new();
    let usage = json!({"type": "tokens", "input_tokens": 20, "output_tokens": 3, "total_tokens": 23});
    let events = [
        wire::data(&json!({"type": "transcript.text.delta", "delta": "Which"})),
        wire::data(&json!({"type": "transcript.text.done", "text": "Which way?", "usage": usage})),
    ];
    upstream.answer(TRANSCRIPTIONS, Reply::events(&events).waits_for(1, &gate));
    let body = recording(Some(MODEL), &[("stream", "true")]);
    let mut stream = gateway.client().stream(listen(TRANSCRIPTIONS, body));
    assert_eq!(stream.next_event().unwrap().as_deref(), Some(events[0].as_str()));
    gate.open();
    assert_eq!(stream.rest().0, events[1].as_bytes());
    assert_eq!(gateway.wait_for_logs(1)[0]["totalTokens"], 23);
}

#[test]
fn a_long_recording_is_taken_where_a_long_conversation_is_not() {
    let limit = [("REQUEST_BODY_LIMIT_BYTES", "1048576")];
    let (gateway, upstream) = (Gateway::with(&limit), Upstream::start(&[MODEL]));
    gateway.add_as(&json!({"name": "site", "platform": "new-api"}), &upstream);
    upstream.answer(TRANSCRIPTIONS, Reply::json(200, &json!({"text": "x"})));
    let long = "x".repeat(3 << 20);
    let body = recording(Some(MODEL), &[("prompt", &long)]);
    gateway.client().send(listen(TRANSCRIPTIONS, body.clone())).expect(200);
    assert_eq!(upstream.last(TRANSCRIPTIONS).body, body);
    gateway.client().post(SPEECH, &json!({"model": MODEL, "input": long})).expect(413);
}

#[test]
fn what_is_no_sound_gives_way_to_the_next_site() {
    let pair = Pair::on("new-api", &[]);
    pair.second.answer(SPEECH, Reply::bytes(200, "audio/mpeg", SOUND.concat()));
    pair.second.answer(TRANSCRIPTIONS, Reply::json(200, &json!({"text": "x"})));
    for reply in [
        Reply::error(500, "boom"),
        Reply::html(200, "<html><title>Log in</title></html>"),
        Reply::error(200, "no such voice here"),
        Reply::bytes(200, "audio/mpeg", ""),
        Reply::silence(),
    ] {
        pair.first.answer(SPEECH, reply);
        let answer = pair.gateway.client().post(SPEECH, &speech(Pair::MODEL));
        assert_eq!((answer.status, &answer.body), (200, &SOUND.concat()), "{}", answer.text());
        let account = pair.channel("first")["account"]["id"].clone();
        pair.gateway.admin().post(&format!("/api/accounts/{account}/clear-cooldown"), &json!({})).expect(200);
    }
    assert_eq!(pair.first.asked_for(SPEECH).len(), 5);
    pair.first.answer(TRANSCRIPTIONS, Reply::error(404, "Invalid URL (POST /v1/audio/transcriptions)"));
    let body = recording(Some(Pair::MODEL), &[]);
    pair.gateway.client().send(listen(TRANSCRIPTIONS, body.clone())).expect(200);
    assert_eq!(pair.first.last(TRANSCRIPTIONS).body, body);
    assert!(pair.channel("first")["cooldownUntil"].is_null());

    // A plain text is no speech, and a transcript only for a client that asked for one.
    let plain = Reply::bytes(200, "text/plain; charset=UTF-8", "error code: 1015");
    pair.first.answer_once(SPEECH, plain.clone());
    let told = pair.gateway.client().post(SPEECH, &speech(Pair::MODEL));
    assert_eq!((told.status, &*told.body), (200, SOUND.concat().as_slice()));
    assert_eq!(pair.first.asked_for(SPEECH).len(), 6);
    let account = pair.channel("first")["account"]["id"].clone();
    pair.gateway.admin().post(&format!("/api/accounts/{account}/clear-cooldown"), &json!({})).expect(200);
    for (format, expected) in [(None, json!({"text": "x"})), (Some("verbose_json"), json!({"text": "x"}))] {
        pair.first.answer_once(TRANSCRIPTIONS, plain.clone());
        let fields: Vec<_> = format.map(|format| ("response_format", format)).into_iter().collect();
        let body = recording(Some(Pair::MODEL), &fields);
        assert_eq!(pair.gateway.client().send(listen(TRANSCRIPTIONS, body)).expect(200), expected);
        let account = pair.channel("first")["account"]["id"].clone();
        pair.gateway.admin().post(&format!("/api/accounts/{account}/clear-cooldown"), &json!({})).expect(200);
    }
    assert_eq!(pair.first.asked_for(TRANSCRIPTIONS).len(), 3);
}

#[test]
fn a_failure_is_reported_though_the_site_that_was_asked_last_reads_nothing_aloud() {
    let pair = Pair::on("new-api", &[]);
    pair.first.answer(SPEECH, Reply::error(500, "boom"));
    pair.second.answer(SPEECH, Reply::error(404, "Invalid URL (POST /v1/audio/speech)"));
    let answer = pair.gateway.client().post(SPEECH, &speech(Pair::MODEL));
    assert_eq!(answer.expect(500)["error"]["message"], "boom");
    assert_eq!([&pair.first, &pair.second].map(|site| site.asked_for(SPEECH).len()), [1, 1]);
}

#[test]
fn a_sound_that_breaks_off_is_not_whole_for_its_client_either() {
    let (gateway, upstream) = started();
    let gate = Gate::new();
    upstream.answer(SPEECH, Reply::pieces("audio/mpeg", SOUND).waits_for(1, &gate).cut_after(2));
    let mut stream = gateway.client().stream(Request::post(SPEECH).json(&speech(MODEL)));
    assert_eq!(stream.next_piece().unwrap().as_deref(), Some(SOUND[0]));
    gate.open();
    let (rest, end) = stream.rest();
    assert_eq!((rest.len(), end.is_err()), (0, true));
    assert_eq!(gateway.wait_for_logs(1)[0]["status"], "failed");
}

#[test]
fn a_key_is_held_to_its_models_and_budgets_here_too() {
    let (gateway, upstream) = started();
    upstream.answer(SPEECH, Reply::bytes(200, "audio/mpeg", SOUND.concat()));
    let key = json!({"name": "k", "key": "sk-client-audio", "supportedModels": [MODEL],
                     "budgets": [{"period": "total", "maxRequests": 1}]});
    let client = gateway.add_key(&key);
    client.post(SPEECH, &speech("another")).expect(403);
    assert_eq!(client.post(SPEECH, &speech(MODEL)).status, 200);
    let refused = client.post(SPEECH, &speech(MODEL)).expect(429);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("maxRequests of 1")));
    assert_eq!(upstream.asked_for(SPEECH).len(), 1);
}
