use super::*;
use crate::dialect::Dialect::{Chat, Completions, Embeddings, Gemini, Messages, Responses};
use crate::dialect::json;
use crate::ids::SiteId;

#[test]
fn the_own_dialect_comes_first_where_it_can() {
    let cases: &[(Platform, Dialect, &str, &[Dialect])] = &[
        (Platform::NewApi, Chat, "m", &[Chat, Messages, Responses]),
        (Platform::NewApi, Messages, "m", &[Messages, Chat, Responses]),
        (Platform::NewApi, Responses, "m", &[Responses, Chat, Messages]),
        (Platform::NewApi, Responses, "Claude-x", &[Responses, Messages, Chat]),
        (Platform::NewApi, Gemini, "m", &[Chat, Messages, Responses]),
        (Platform::NewApi, Chat, "claude-x", &[Chat, Messages, Responses]),
        (Platform::OpenAi, Chat, "m", &[Chat, Responses, Messages]),
        (Platform::OpenAi, Messages, "m", &[Messages, Responses, Chat]),
        (Platform::AnyRouter, Responses, "m", &[Responses, Messages, Chat]),
        (Platform::AnyRouter, Chat, "m", &[Chat, Messages, Responses]),
        (Platform::Claude, Chat, "m", &[Messages]),
        (Platform::Codex, Messages, "m", &[Responses]),
        (Platform::Gemini, Messages, "m", &[Chat, Gemini]),
        (Platform::Gemini, Gemini, "m", &[Gemini, Chat]),
        (Platform::NewApi, Completions, "m", &[Completions, Chat, Messages, Responses]),
        (Platform::NewApi, Completions, "claude-x", &[Completions, Messages, Chat, Responses]),
        (Platform::OpenAi, Completions, "m", &[Completions, Chat, Responses, Messages]),
        (Platform::Claude, Completions, "m", &[Messages]),
        (Platform::Codex, Completions, "m", &[Responses]),
        (Platform::Gemini, Completions, "m", &[Chat, Gemini]),
        (Platform::Antigravity, Completions, "m", &[Gemini]),
        (Platform::NewApi, Embeddings, "m", &[Embeddings]),
        (Platform::Gemini, Embeddings, "m", &[Embeddings, Gemini]),
        (Platform::Claude, Embeddings, "m", &[]),
    ];
    for (platform, client, model, wanted) in cases {
        assert_eq!(*order(*platform, *client, model), **wanted, "{platform:?} {client:?} {model}");
        assert_eq!(
            is_served(*platform, *client, Operation::Answer),
            !wanted.is_empty(),
            "{platform:?} {client:?}"
        );
    }
}

fn of(client: Dialect, model: &str) -> DialectMemoryKey<'_> {
    DialectMemoryKey { site: SiteId::new(1), client, model, body: b"" }
}

fn refused(dialect: Dialect) -> RefusedDialect {
    RefusedDialect { dialect, instead: None }
}

#[test]
fn what_is_more_than_an_answer_needs_the_own_dialect_but_for_embeddings() {
    for (platform, client, operation, served) in [
        (Platform::NewApi, Messages, Operation::CountTokens, true),
        (Platform::Claude, Messages, Operation::CountTokens, true),
        (Platform::Gemini, Messages, Operation::CountTokens, false),
        (Platform::Codex, Responses, Operation::Compact, true),
        (Platform::Claude, Responses, Operation::Compact, false),
        (Platform::NewApi, Gemini, Operation::OfGemini("embedContent"), true),
        (Platform::NewApi, Gemini, Operation::OfGemini("predict"), false),
        (Platform::Claude, Gemini, Operation::OfGemini("embedContent"), false),
        (Platform::Gemini, Gemini, Operation::OfGemini("predict"), true),
    ] {
        assert_eq!(is_served(platform, client, operation), served, "{platform:?} {operation:?}");
    }
}

#[test]
fn who_has_refused_completions_is_no_native_any_more() {
    let memory = DialectMemory::default();
    let native = |platform, now| is_native(&memory, platform, of(Completions, "M"), now);
    assert!(native(Platform::NewApi, 0) && !native(Platform::Claude, 0) && !native(Platform::Gemini, 0));
    memory.refused(of(Completions, "m"), RefusedDialect { dialect: Completions, instead: Some(Chat) }, 0);
    assert!(!native(Platform::NewApi, 1) && native(Platform::NewApi, BLOCKED_MS));
}

#[test]
fn a_refused_dialect_waits_six_hours_and_a_good_one_leads_for_a_day() {
    const HOUR: Millis = 3_600_000;
    let memory = DialectMemory::default();
    let at = |now: Millis, body: &[u8]| {
        let mut formats: DialectOrder = [Messages, Chat, Responses].into_iter().collect();
        let avoided = memory.apply(&mut formats, DialectMemoryKey { body, ..of(Messages, "M") }, now);
        assert!(avoided.len() + formats.len() == 3 && avoided.iter().all(|one| !formats.contains(one)));
        formats.to_vec()
    };
    assert_eq!(at(0, b""), [Messages, Chat, Responses]);
    memory.refused(of(Messages, "m"), refused(Messages), 0);
    memory.succeeded(of(Messages, "m"), Chat, 0);
    assert_eq!(at(HOUR, b""), [Chat, Responses]);
    assert_eq!(at(HOUR, br#"{"type":"image"}"#), [Messages, Chat, Responses]);
    assert_eq!(at(HOUR, br#"{"inline_data":{}}"#), [Messages, Chat, Responses]);
    // Refused without tools and reasoning, which says nothing of requests with them.
    assert_eq!(at(HOUR, br#"{"tools":[]}"#), [Messages, Chat, Responses]);
    assert_eq!(at(HOUR, br#"{"thinking": {}}"#), [Messages, Chat, Responses]);
    assert_eq!(at(HOUR, br#"{"type":"thinking","text":"\"tools\":"}"#), [Chat, Responses]);
    // Parameters of a tool.
    let tool = br#"{"properties":{"image":{"type":"string"},"file":{}},"required":["image","file"]}"#;
    assert_eq!(at(HOUR, tool), [Chat, Responses]);
    assert_eq!(at(7 * HOUR, b""), [Chat, Messages, Responses]);
    assert_eq!(at(25 * HOUR, b""), [Messages, Chat, Responses]);
    for dialect in [Messages, Chat, Responses] {
        memory.refused(of(Messages, "m"), refused(dialect), 30 * HOUR);
    }
    assert_eq!(at(31 * HOUR, b"").len(), 3, "all refused is none refused");
    memory.clear();
    assert_eq!(at(31 * HOUR, b""), [Messages, Chat, Responses]);
    let image = DialectMemoryKey {
        body: br#"{"type":"image_url","image_url":"x","y":"image_url", "z":"image"}"#,
        ..of(Messages, "m")
    };
    memory.refused(image, refused(Messages), 31 * HOUR);
    memory.succeeded(image, Chat, 31 * HOUR);
    assert_eq!(at(31 * HOUR, b""), [Messages, Chat, Responses], "nothing is learnt from an attachment");
}

#[test]
fn a_document_by_its_address_stays_with_responses() {
    let with = r#"{"input":[{"content":[{"type":"input_file","file_url":"https://x/y.pdf"}]}]}"#;
    let named = r#"{"input":"what is a \"file_url\"?"}"#;
    let of_tool = r#"{"input":"x","tools":[{"type":"function","name":"f","parameters":
        {"properties":{"file_url":{"type":"string"}},"required":["file_url"]}}]}"#;
    for (platform, client, body, wanted) in [
        (Platform::NewApi, Responses, with, &[Responses][..]),
        (Platform::NewApi, Responses, named, &[Responses, Chat, Messages]),
        (Platform::NewApi, Messages, with, &[Messages, Chat, Responses]),
        (Platform::AnyRouter, Responses, with, &[Responses, Messages, Chat]),
        (Platform::Claude, Responses, with, &[Messages]),
        (Platform::NewApi, Responses, of_tool, &[Responses, Chat, Messages]),
        // A platform without the responses dialect keeps its order.
        (Platform::Gemini, Responses, with, &[Chat, Gemini]),
    ] {
        let mut formats = order(platform, client, "m");
        let marks = json::members(body, |_| ()).unwrap().marks;
        keep_address(&mut formats, platform, client, marks, body.as_bytes());
        assert_eq!(*formats, *wanted, "{platform:?} {client:?} {body}");
    }
}

#[test]
fn a_document_goes_where_most_of_it_is_taken() {
    let in_chat = r#"{"messages":[{"content":[{"type":"file","file":{"file_data":"data:…"}}]}]}"#;
    let in_messages = r#"{"messages":[{"content":[{"type": "document","source":{}}]}]}"#;
    let in_gemini = r#"{"contents":[{"parts":[{"inlineData":{"mimeType": "application/pdf"}}]}]}"#;
    let image = r#"{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png"}}]}],"x":{"type":"image"}}"#;
    for (platform, client, model, body, wanted) in [
        (Platform::NewApi, Chat, "m", in_chat, &[Chat, Responses, Messages][..]),
        (Platform::NewApi, Chat, "claude-x", in_chat, &[Chat, Messages, Responses]),
        (Platform::NewApi, Messages, "m", in_messages, &[Messages, Responses, Chat]),
        (Platform::NewApi, Gemini, "m", in_gemini, &[Responses, Messages, Chat]),
        (Platform::NewApi, Gemini, "claude-x", in_gemini, &[Messages, Responses, Chat]),
        (Platform::NewApi, Gemini, "m", image, &[Chat, Messages, Responses]),
        (Platform::AnyRouter, Messages, "m", in_messages, &[Messages, Responses, Chat]),
        (Platform::AnyRouter, Gemini, "m", in_gemini, &[Messages, Responses, Chat]),
        (Platform::OpenAi, Messages, "m", in_messages, &[Messages, Responses, Chat]),
        (Platform::Gemini, Messages, "m", in_messages, &[Chat, Gemini]),
    ] {
        let mut formats = order(platform, client, model);
        order_for_document(&mut formats, platform, client, model, body.as_bytes());
        assert_eq!(*formats, *wanted, "{platform:?} {client:?} {model}");
    }
}

#[test]
fn the_memory_is_bounded() {
    let memory = DialectMemory::default();
    for number in 0..2 * MAX_ENTRIES {
        memory.refused(of(Chat, &format!("m{number}")), refused(Chat), number as Millis);
    }
    assert_eq!(memory.count.load(Ordering::Relaxed), MAX_ENTRIES);
    let mut formats: DialectOrder = [Chat, Messages].into_iter().collect();
    memory.apply(&mut formats, of(Chat, "m0"), 2);
    assert_eq!(*formats, [Chat, Messages], "the oldest went first");
}

#[test]
fn a_price_list_that_leaves_the_own_dialect_out_names_the_first() {
    use Dialect::{Chat, Messages, Responses};
    use Platform::{NewApi, OpenAi};
    for (platform, client, model, labels, first) in [
        (NewApi, Chat, "m", &["anthropic"][..], Messages),
        (NewApi, Chat, "m", &["openai-response", "anthropic"], Responses),
        (NewApi, Chat, "m", &["anthropic", "openai"], Chat),
        (NewApi, Messages, "m", &["openai"], Chat),
        (NewApi, Messages, "m", &["/v1/chat/completions"], Chat),
        (NewApi, Messages, "m", &["jina-rerank"], Messages),
        (NewApi, Messages, "m", &[], Messages),
        (NewApi, Chat, "claude-x", &["openai-response"], Chat),
        (OpenAi, Responses, "claude-x", &["anthropic"], Messages),
        (NewApi, Completions, "m", &["anthropic", "completions"], Completions),
    ] {
        let mut formats = order(platform, client, model);
        let before = formats.len();
        let labels: Vec<String> = labels.iter().map(|label| label.to_string()).collect();
        prefer_listed(&mut formats, platform, client, [model, "alias"], &labels);
        assert_eq!((formats[0], formats.len()), (first, before), "{platform:?} {client:?} {labels:?}");
    }
}
