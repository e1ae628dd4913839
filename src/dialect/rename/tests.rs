use super::*;
use proptest::prelude::*;

fn renamed(dialect: Dialect, is_stream: bool, chunks: &[&[u8]]) -> String {
    let mut renamer = Renamer::new(dialect, "asked \"é\"", is_stream).unwrap();
    let mut out = Vec::new();
    for chunk in chunks {
        renamer.feed(chunk, &mut out);
    }
    renamer.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// Renames the text in one piece and byte by byte, and compares it with `wanted`.
#[track_caller]
fn check(dialect: Dialect, is_stream: bool, text: &str, wanted: &str) {
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    for chunks in [&[text.as_bytes()][..], &bytes] {
        assert_eq!(renamed(dialect, is_stream, chunks), wanted, "{text}");
    }
}

#[test]
fn the_model_of_an_object_is_renamed_where_the_dialect_has_it() {
    let to = |text: &str| text.replace("\"X\"", r#""asked \"é\"""#);
    for (dialect, text) in [
        (Dialect::Chat, r#" {"id":"1","model" : "X" ,"choices":[{"model":"y"}],"response":{"model":"y"}}"#),
        (Dialect::Embeddings, r#"{"data":[{"embedding":[0.1,-2e3]}],"model":"X"}"#),
        (Dialect::Completions, r#"{"mod\u0065l":"X","text":"\"model\":\"y\"","b":{"model":"y"}}"#),
        (
            Dialect::Responses,
            r#"{"response":{"a":[{"model":"y"}],"model":"X","z":{"model":"y"}},"model":"X"}"#,
        ),
        (Dialect::Responses, r#"{"a":{"response":{"model":"y"}},"response":[{"model":"y"}],"model":"X"}"#),
        (Dialect::Messages, r#"{"type":"message_start","message":{"model":"X","x":{}},"y":{"model":"y"}}"#),
        (Dialect::Gemini, r#"{"candidates":[],"modelVersion":"X","model":"y"}"#),
        (Dialect::Chat, r#"{"model":"X","model":"X"}"#),
    ] {
        check(dialect, false, text, &to(text));
    }
}

#[test]
fn what_names_no_other_model_stays_as_it_is_written() {
    let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(2 * LONGEST_NAME));
    for text in [
        r#"{"model":"asked \"é\""}"#,
        r#"{"model":"\u0061sked \u0022\u00e9\""}"#,
        r#"{"model":null,"x":"model"}"#,
        r#"{"model":{"model":"y"},"models":["model","y"]}"#,
        r#"{"error":{"model":"y"}}"#,
        r#"[{"model":"y"}]"#,
        r#""model""#,
        r#"{"model":"cut"#,
        r#"{"model":"a\"#,
        "",
        "nothing of the kind",
        &long,
    ] {
        check(Dialect::Chat, false, text, text);
    }
    assert!(Renamer::new(Dialect::Images, "m", false).is_none());
}

#[test]
fn events_are_renamed_one_by_one_however_their_lines_end() {
    let event =
        |model: &str| format!("event: x\ndata:{{\"model\":{model}}}\n\ndata: {{\"model\":{model}}}\n\n");
    let name = r#""asked \"é\"""#;
    for (before, after) in [("", ""), (": keepalive\n\n", "data: [DONE]\n\n"), ("id: 1\n", "data: {\"a\":1}")]
    {
        for ending in ["\n", "\r\n", "\r"] {
            let [text, wanted] = [r#""y""#, name]
                .map(|model| format!("{before}{}{after}", event(model)).replace('\n', ending));
            check(Dialect::Chat, true, &text, &wanted);
        }
    }
    let marked = |model: &str| format!("\u{feff}{}", event(model));
    check(Dialect::Chat, true, &marked(r#""y""#), &marked(name));
    // An object may span several lines, and a line end within a string ends it.
    let lines = |model: &str| format!("data: {{\"id\":1,\ndata: \"model\":\ndata: {model}}}\n\n");
    check(Dialect::Chat, true, &lines(r#""y""#), &lines(name));
    let broken = "data: {\"model\":\"y\ndata: z\"}\n\ndata: x\n\n";
    check(Dialect::Chat, true, broken, broken);
    // A string that breaks off behind a backslash does not affect the next event.
    let broken = |model: &str| format!("data: {{\"a\":\"x\\\n\ndata: {{\"\":1,\"model\":{model}}}\n\n");
    check(Dialect::Chat, true, &broken(r#""y""#), &broken(name));
}

proptest! {
    #[test]
    fn every_object_is_the_same_but_for_its_model(
        text in "(\\PC|[\"\\\\\n]){0,20}",
        model in "(\\PC|[\"\\\\\n]){0,20}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let of = |model: &str| serde_json::json!({"a": text, "b": {"model": text}, "model": model, "z": [text]});
        let event = format!("data: {}\n\n", of(&model));
        let bytes = event.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(renamed(Dialect::Chat, true, &chunks), format!("data: {}\n\n", of("asked \"é\"")));
    }
}
