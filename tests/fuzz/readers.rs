//! Parsers below and beside the dialects: events, envelopes, patterns, schedules, addresses, rules, uploads.

use bytes::Bytes;
use switchyard::cron::Cron;
use switchyard::dialect::rename::Renamer;
use switchyard::dialect::tree::Node;
use switchyard::dialect::{Dialect, envelope, errors, judge, payload_rules, sse, usage};
use switchyard::http::multipart;
use switchyard::routing::pattern::ModelPattern;
use switchyard::site_url::SiteUrl;
use switchyard::upstream::http1::{Framing, parse_answer};

use super::bodies::{EVENTS, REQUESTS, WORDS};
use super::{fuzz, pieces};

type Events = Vec<(Vec<u8>, Vec<u8>)>;

fn events(chunks: &[&[u8]], limit: usize) -> Events {
    let mut events = Vec::new();
    let mut scanner = sse::Scanner::new(limit);
    for chunk in chunks {
        scanner.feed(chunk, |event| {
            assert!(event.end <= chunk.len() && event.start.is_none_or(|start| start < event.end));
            assert!(event.data.len() <= limit.max(64) + chunk.len());
            events.push((event.name.to_vec(), event.data.to_vec()));
        });
    }
    scanner.finish(|event| events.push((event.name.to_vec(), event.data.to_vec())));
    events
}

#[test]
fn events_are_the_same_however_they_are_cut() {
    fuzz("sse", &EVENTS, &[], |input, random| {
        let whole = events(&[input], 1 << 20);
        assert_eq!(events(&pieces(input, random), 1 << 20), whole);
        // Bounded memory cuts events, and changes nothing else.
        assert_eq!(events(&pieces(input, random), 100).len(), whole.len());
    });
}

#[test]
fn an_answer_is_renamed_the_same_however_it_is_cut() {
    const NAME: &str = "another \"model\"";
    let dialects = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini];
    fuzz("rename", &EVENTS, WORDS, |input, random| {
        let (dialect, is_stream) = (*random.one_of(&dialects), random.below(2) == 0);
        let renamed = |chunks: &[&[u8]]| {
            let mut renamer = Renamer::new(dialect, NAME, is_stream).expect("a dialect with a name");
            let mut out = Vec::new();
            chunks.iter().for_each(|chunk| renamer.feed(chunk, &mut out));
            renamer.finish(&mut out);
            out
        };
        let once = renamed(&[input]);
        assert_eq!(renamed(&pieces(input, random)), once);
        // A body that has the name already keeps it.
        assert_eq!(renamed(&[&once]), once);
    });
}

#[test]
fn an_envelope_is_what_the_body_says() {
    // Gemini's model is in the path.
    let dialects = [Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Images];
    fuzz("envelope", &REQUESTS, WORDS, |input, random| {
        let dialect = *random.one_of(&dialects);
        let Ok(read) = envelope::skim(dialect, input) else { return };
        let sent =
            envelope::splice_model(&Bytes::copy_from_slice(input), &read, "an \"other\" model").concat();
        let sent = std::str::from_utf8(&sent).expect("still text");
        let body = Node::parse(sent).expect("still JSON");
        assert_eq!(body.str_at("model"), "an \"other\" model");
        let before = Node::parse(std::str::from_utf8(input).expect("text")).expect("JSON");
        for (key, value) in before.members().iter().filter(|(key, _)| key != "model") {
            assert!(
                body.members().iter().any(|(own, sent)| own == key && sent.raw() == value.raw()),
                "{key}"
            );
        }
    });
}

#[test]
fn any_body_is_judged() {
    let rules = judge::Rules::new(["quota", "\u{130}"], true);
    fuzz("judge", &REQUESTS, WORDS, |input, random| {
        let dialect =
            *random.one_of(&[Dialect::Chat, Dialect::Responses, Dialect::Messages, Dialect::Gemini]);
        let _ = judge::reply(dialect, input, &rules);
        let _ = judge::beginning(input);
        let _ = usage::of_reply(dialect, input);
        let _ = usage::of_tail(dialect, input);
        let error = errors::read(500, input);
        let is_within =
            |text: &String, limit| (1..=limit + errors::CUT.len()).contains(&text.chars().count());
        assert!(is_within(&error.message, errors::MAX_MESSAGE));
        let mut names = [error.kind, error.code, error.param].into_iter().flatten();
        assert!(names.all(|name| is_within(&name, errors::MAX_NAME)));
    });
}

#[test]
fn patterns_read_any_text() {
    let seeds =
        ["gpt-*", "re:^claude-[0-9]+$", "re:(a|b){2,3}?\\d", "exact/name:free", "re:(?i)x*", "[a-z]?*"];
    fuzz("pattern", &seeds, &["*", "re:", "(", "){9}", "\\p{L}", "[^", "(?:", "|"], |input, random| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let name =
            random.one_of(&["gpt-4o", "", "re:", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "claude-3 \u{130}"]);
        if let Ok(pattern) = ModelPattern::parse(text) {
            let _ = (pattern.matches(name), pattern.matches(text));
        }
        let _ = ModelPattern::stored(text).matches(name);
    });
}

#[test]
fn schedules_read_any_text_and_always_lie_ahead() {
    let seeds =
        ["*/5 * * * *", "0 3 1-7 * 1", "59 23 31 12 7", "15,45 0-23/2 * JAN-MAR MON-FRI", "0 0 29 2 *"];
    let zones = ["UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe"];
    let zones = zones.map(|name| jiff::tz::TimeZone::get(name).expect("a zone"));
    fuzz("cron", &seeds, &["*", "/", "-", ",", " ", "60", "0", "@daily", "99999999999"], |input, random| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let Ok(cron) = Cron::parse(text) else { return };
        let at = i64::try_from(random.draw() % 4_000_000_000_000).expect("a time");
        if let Some(next) = cron.next_after(at, random.one_of(&zones)) {
            assert!(next > at, "{text} after {at} gives {next}");
        }
    });
}

#[test]
fn addresses_of_sites_read_any_text() {
    let seeds =
        ["https://api.example.com/v1", "http://[::1]:8080/a/../b?c#d", "EXAMPLE.com:443", "http://10.0.0.1"];
    fuzz("site_url", &seeds, &["http://", "@", ":", "/", "?", "#", "[", "%2f", "\u{ff0e}"], |input, _| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(url) = SiteUrl::parse(text) {
            let again = SiteUrl::parse(&url.persisted()).expect("what is stored is read again");
            assert_eq!(again.persisted(), url.persisted());
        }
        let _ = SiteUrl::parse_absolute(text);
    });
}

#[test]
fn rules_for_bodies_are_refused_or_normal() {
    let seeds = [
        r#"{"default":[{"models":[{"name":"gpt-*","protocol":"openai"}],"params":{"a.b.0":1}}]}"#,
        r#"{"override-raw":[{"models":[{"name":"*"}],"params":{"x":"{\"y\":1}"}}],"filter":[{"models":[{"name":"m"}],"params":["a.0.b"]}]}"#,
    ];
    let words =
        ["default", "defaultRaw", "override", "filter", "models", "params", "name", "a..b", "0.0.99999999"];
    fuzz("payload_rules", &seeds, &words, |input, _| {
        let Ok(value) = serde_json::from_slice(input) else { return };
        if let Ok(normal) = payload_rules::normal(&value) {
            assert_eq!(payload_rules::normal(&normal).as_ref(), Ok(&normal), "a normal form is its own");
        }
    });
}

#[test]
fn uploads_are_the_same_however_they_are_cut() {
    let seeds = [
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nwords\r\n--b--\r\n",
        "--b\r\ncontent-disposition: form-data; name=x; filename*=UTF-8''%e2%82%ac\r\n\r\n--b-\r\n\r\n--b--",
    ];
    fuzz("multipart", &seeds, &["--b", "--b--", "\r\n", "name=\"", "filename=", ";"], |input, random| {
        assert_eq!(parts(&pieces(input, random)), parts(&[input]));
    });
}

/// Returns the heads and contents of an upload, and whether it ended properly.
fn parts(chunks: &[&[u8]]) -> (Vec<String>, Vec<u8>, bool) {
    let mut reader = multipart::Reader::new("multipart/form-data; boundary=b").expect("a boundary");
    let (mut heads, mut contents) = (Vec::new(), Vec::new());
    for chunk in chunks {
        reader.feed(chunk);
        loop {
            match reader.event() {
                Ok(Some(multipart::Event::Data(data))) => contents.extend_from_slice(&data),
                Ok(Some(other)) => heads.push(format!("{other:?} at {}", contents.len())),
                Ok(None) => break,
                Err(_) => return (heads, contents, false),
            }
        }
    }
    (heads, contents, reader.is_ended())
}

#[test]
fn answers_of_upstreams_are_the_same_however_they_are_cut() {
    let seeds = [
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\ndata:\r\n1A \r\n012345678901234567890123-5\r\n0\r\nx-sum: 1\r\n\r\nHTTP",
        "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4, 4\r\nretry-after:\r\nconnection: close\r\n\r\nbusyHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\n\r\nuntil the end",
    ];
    let words = [
        "\r\n",
        "\r\n\r\n",
        "HTTP/1.1 ",
        "chunked",
        "content-length: ",
        "ffffffffffffffff",
        ";",
        "0\r\n\r\n",
    ];
    fuzz("answers", &seeds, &words, |input, random| {
        let Ok(Some((head, length))) = parse_answer(input) else { return };
        for cut in 0..length {
            assert!(!matches!(parse_answer(&input[..cut]), Ok(Some(_))), "a head of {cut} bytes");
        }
        let Ok(Some((again, _))) = parse_answer(input) else { panic!("a head is read once only") };
        assert!(head.headers.iter().all(|(_, value)| !value.contains(&b'\r')));
        let rest = &input[length..];
        assert_eq!(body(head.framing, &pieces(rest, random)), body(again.framing, &[rest]));
    });
}

/// Returns the decoded body of an answer, and whether it ended properly.
fn body(mut framing: Framing, chunks: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    for mut chunk in chunks.iter().copied() {
        while !chunk.is_empty() && !framing.is_ended() {
            let Ok(step) = framing.step(chunk) else { return (body, false) };
            let (now, later) = chunk[step.coding..].split_at(step.data);
            body.extend_from_slice(now);
            chunk = later;
        }
    }
    (body, framing.is_ended())
}
