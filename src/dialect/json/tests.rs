use super::*;
use proptest::prelude::*;

fn keys_and_values(text: &str) -> Result<Vec<(String, &str)>, SyntaxError> {
    let mut all = Vec::new();
    members(text, |member| {
        assert_eq!(&text[member.at..member.at + member.value.len()], member.value);
        all.push((member.key.into_owned(), member.value));
    })?;
    Ok(all)
}

#[test]
fn half_a_letter_makes_a_tree_and_an_escaped_backslash_no_letter() {
    let said = |text: &str| tree(text.as_bytes()).expect(text)["x"].clone();
    assert_eq!(said(r#"{"x":"a\ud83d"}"#), "a\u{fffd}");
    assert_eq!(said(r#"{"y":"C:\\ud8","x":"a\ud83d"}"#), "a\u{fffd}");
    assert_eq!(said(r#"{"x":"\ud83d\ude00"}"#), "\u{1f600}", "both halves are a letter");
    assert_eq!(tree(br#"{"x":"\ud83d""#), None);
}

#[test]
fn members_are_slices_of_the_text() {
    let text = " {\"a\" : [1, {\"a\":2}] ,\"\\u0062\":\"x\\\"y\", \"a\":-1.5e+3,\"c\":{}}\n";
    let wanted = [("a", "[1, {\"a\":2}]"), ("b", "\"x\\\"y\""), ("a", "-1.5e+3"), ("c", "{}")];
    let wanted: Vec<_> = wanted.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
    assert_eq!(keys_and_values(text), Ok(wanted));
    assert_eq!(members(text, |_| {}), Ok(Object { open: 1, marks: Marks::default() }));
    assert_eq!(member(text, "c"), Some("{}"));
    assert_eq!(member(text, "d"), None);
}

#[test]
fn every_mark_begins_like_one() {
    assert_eq!(MARK_STARTS.iter().filter(|start| **start != 0).count(), STARTS.len());
    let marks = OWN_MARKS.iter().chain(&FILE_MARKS).chain(&OUTPUT_MARKS).map(|mark| mark.as_bytes());
    let names = THINKING.iter().map(|name| name.as_bytes()).chain([FILE_DATA, FILE_URL, GEMINI_SIGNATURE]);
    for mark in marks.chain(names) {
        assert!(may_be_mark(u32::from_le_bytes(*mark.first_chunk().expect("a mark"))), "{mark:?}");
    }
}

#[test]
fn marks_are_seen_at_the_beginning_of_strings_only() {
    for (text, own, files) in [
        (r#"{"a":[{"b":"sy1:x"}]}"#, true, false),
        (r#"{"a":"metapi:"}"#, true, false),
        (r#"{"id":"msg_sy1","file":"file-metapi-1"}"#, true, true),
        (r#"{"rs_sy":1}"#, true, false),
        (r#"{"a":"fc_sy"}"#, true, false),
        (r#"{"a":"ws_sy0"}"#, true, false),
        (r#"{"a":"srvtoolu_sy0_1"}"#, true, false),
        (r#"{"a":"srvtoolu_01","b":"ws_1"}"#, false, false),
        (r#"{"a":"file-sy-1"}"#, false, true),
        (r#"{"a":"the \"sy1:x\" and sy1:"}"#, false, false),
        (r#"{"a":"sy","b":"metapi","c":"s","d":"file-x"}"#, false, false),
    ] {
        let marks = members(text, |_| {}).unwrap().marks;
        assert_eq!(marks, Marks { own, files, ..Marks::default() }, "{text}");
    }
    for (text, file_data, file_urls) in [
        (r#"{"input":[{"file_data":"x"}]}"#, true, false),
        (r#"{"input":[{"file_url":"x"}]}"#, false, true),
        (r#"{"a":"file_data2","b":"the \"file_url\""}"#, false, false),
    ] {
        let marks = members(text, |_| {}).unwrap().marks;
        assert_eq!(marks, Marks { file_data, file_urls, ..Marks::default() }, "{text}");
    }
    for (text, thinking, gemini_signatures) in [
        (r#"{"messages":[{"reasoning_content":"x"}]}"#, true, false),
        (r#"{"thinking":{}}"#, true, false),
        (r#"{"extra_content":{"google":{"thought_signature":"x"}}}"#, false, true),
        (r#"{"reasoning_effort":"low","a":"thinking of","b":"thought"}"#, false, false),
    ] {
        let marks = members(text, |_| {}).unwrap().marks;
        assert_eq!(marks, Marks { thinking, gemini_signatures, ..Marks::default() }, "{text}");
    }
    for (kind, outputs) in
        [("function_call_output", true), ("custom_tool_call_output", true), ("custom_tool_call", false)]
    {
        let text = format!(r#"{{"input":[{{"type":"{kind}"}}]}}"#);
        assert_eq!(members(&text, |_| {}).unwrap().marks.outputs, outputs, "{kind}");
    }
}

#[test]
fn what_is_no_json_object_is_refused_where_it_goes_wrong() {
    let cases = [
        ("", 0),
        ("[]", 0),
        ("\u{feff}{}", 0),
        ("{", 1),
        ("{}x", 2),
        ("{\"a\":1,}", 7),
        ("{\"a\":[1,]}", 8),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("{\"a\":01}", 6),
        ("{\"a\":1.}", 7),
        ("{\"a\":1e}", 7),
        ("{\"a\":-}", 6),
        ("{\"a\":+1}", 5),
        ("{\"a\":nul}", 5),
        ("{\"a\":NaN}", 5),
        ("{\"a\":\"\t\"}", 6),
        ("{\"a\":\"\\x\"}", 6),
        ("{\"a\":\"\\u12g4\"}", 6),
        ("{\"a\":\"\\u12", 6),
        ("{\"a\":\"x", 7),
        ("{\"a\":[1}", 7),
    ];
    for (text, at) in cases {
        assert_eq!(keys_and_values(text).unwrap_err().at, at, "{text:?}");
    }
}

#[test]
fn nesting_ends_at_the_limit_and_not_in_the_stack() {
    let nested = |depth: usize| {
        let inside = depth - 1;
        format!("{{\"a\":{}{}}}", "[".repeat(inside), "]".repeat(inside))
    };
    assert!(members(&nested(MAX_DEPTH), |_| {}).is_ok());
    assert!(members(&nested(MAX_DEPTH + 1), |_| {}).is_err());
    assert!(members(&nested(1_000_000), |_| {}).is_err());
}

#[test]
fn long_strings_are_checked_at_every_offset() {
    for length in 0..70 {
        let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
        assert_eq!(keys_and_values(&format!("{{\"a\":\"{plain}\"}}")).unwrap().len(), 1);
        assert!(keys_and_values(&format!("{{\"a\":\"{plain}\u{1}\"}}")).is_err());
    }
}

proptest! {
    #[test]
    fn any_text_is_judged_as_a_full_parser_judges_it(text in "[ \\[\\]{}\",:\\\\a0-9.eE+u\\-tnrulfs]{0,40}") {
        let text = format!("{{{text}}}");
        let full: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(&text);
        let object = full.is_ok_and(|value| value.get().starts_with('{'));
        prop_assert_eq!(members(&text, |_| {}).is_ok(), object, "{}", text);
    }
}
