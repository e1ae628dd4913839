use serde_json::{Value, json};

use super::*;
use crate::dialect::json;

const ID: &str = "file-sy-1";

fn file(filename: &str, mime_type: &str, dialect: Dialect) -> StoredFile {
    let content = if is_carried_as_text(dialect, mime_type) {
        Content::Text("a \"b\"\n".to_owned())
    } else {
        Content::Base64("QUJD".to_owned())
    };
    StoredFile { filename: filename.to_owned(), mime_type: mime_type.to_owned(), content }
}

fn resolved(dialect: Dialect, body: &Value, name: &str, mime: &str) -> Value {
    let text = body.to_string();
    let files = HashMap::from([(ID.to_owned(), file(name, mime, dialect))]);
    let written = inlined(dialect, &Node::parse(&text).expect("JSON"), &files);
    serde_json::from_str(&written).expect("JSON")
}

#[test]
fn a_file_becomes_the_block_of_its_kind() {
    let nested = json!({"type": "file", "file": {"file_id": ID}});
    let flat = json!({"type": "input_file", "file_id": ID});
    let document = json!({"type": "document", "source": {"type": "file", "file_id": ID}});
    for (dialect, block, name, mime, expected) in [
        (
            Dialect::Chat,
            &nested,
            "a.pdf",
            "application/pdf",
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}}),
        ),
        (
            Dialect::Chat,
            &flat,
            "a.png",
            "image/png",
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}),
        ),
        (
            Dialect::Chat,
            &nested,
            "a.mp3",
            "audio/mpeg",
            json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}),
        ),
        (Dialect::Chat, &nested, "a.md", "text/markdown", json!({"type": "text", "text": "a.md\na \"b\"\n"})),
        (
            Dialect::Chat,
            &nested,
            "a.jsonl",
            "application/jsonl",
            json!({"type": "text", "text": "a.jsonl\na \"b\"\n"}),
        ),
        (
            Dialect::Responses,
            &flat,
            "a.pdf",
            "application/pdf",
            json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}),
        ),
        (
            Dialect::Responses,
            &flat,
            "a.md",
            "text/markdown",
            json!({"type": "input_file", "filename": "a.md", "file_data": "data:text/markdown;base64,QUJD"}),
        ),
        (
            Dialect::Responses,
            &json!({"type": "input_image", "file_id": ID, "detail": "low"}),
            "a.png",
            "image/png",
            json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "low"}),
        ),
        (
            Dialect::Responses,
            &flat,
            "a.flac",
            "audio/flac",
            json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "flac"}}),
        ),
        (
            Dialect::Messages,
            &document,
            "a.pdf",
            "application/pdf",
            json!({"type": "document", "title": "a.pdf",
             "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}}),
        ),
        (
            Dialect::Messages,
            &json!({"type": "document", "title": "T", "cache_control": {"type": "ephemeral"},
             "source": {"type": "file", "file_id": ID}}),
            "a.json",
            "application/json",
            json!({"type": "document", "title": "T", "cache_control": {"type": "ephemeral"},
             "source": {"type": "text", "media_type": "text/plain", "data": "a \"b\"\n"}}),
        ),
        (
            Dialect::Messages,
            &json!({"type": "image", "source": {"type": "file", "file_id": ID}}),
            "a.png",
            "image/png",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}),
        ),
    ] {
        let body = json!({"messages": [{"role": "user", "content": [block]}], "n": 1});
        let expected = json!({"messages": [{"role": "user", "content": [expected]}], "n": 1});
        assert_eq!(resolved(dialect, &body, name, mime), expected, "{dialect:?} {name}");
        // A lone block counts as a list of one.
        let body = json!({"input": block});
        assert_eq!(resolved(dialect, &body, name, mime)["input"], expected["messages"][0]["content"][0]);
    }
}

#[test]
fn what_is_no_reference_stays() {
    for body in [
        json!({"content": [{"type": "file", "file": {"file_id": "file-abc"}}]}),
        json!({"content": [{"type": "text", "text": ID}]}),
        json!({"content": [{"type": "tool_use", "input": {"type": "file", "file_id": ID}}]}),
        json!({"tools": [{"type": "file", "file_id": ID}]}),
        json!({"content": [{"type": "container_upload", "file_id": ID}]}),
    ] {
        let text = body.to_string();
        assert_eq!(wanted(&Node::parse(&text).unwrap()), None, "{body}");
        assert_eq!(resolved(Dialect::Chat, &body, "a.pdf", "application/pdf"), body);
    }
}

#[test]
fn data_and_addresses_count_before_an_id() {
    for (block, expected) in [
        (
            json!({"type": "file", "file": {"file_id": ID, "file_data": "data:x"}}),
            json!({"type": "file", "file": {"file_data": "data:x"}}),
        ),
        (
            json!({"type": "input_file", "file_id": ID, "file_url": "https://x"}),
            json!({"type": "input_file", "file_url": "https://x"}),
        ),
    ] {
        let text = json!([block]).to_string();
        assert_eq!(wanted(&Node::parse(&text).unwrap()), Some(Vec::new()));
        assert_eq!(resolved(Dialect::Responses, &block, "a.pdf", "application/pdf"), expected);
    }
}

#[test]
fn a_name_in_the_block_counts_before_the_stored_one_and_the_rest_stays_as_written() {
    let text =
        r#"{ "n" : 1.50, "input":[{"type":"input_file","file_id":"file-sy-1","filename":"b.pdf"} , 2.0] }"#;
    let files = HashMap::from([(ID.to_owned(), file("a.pdf", "application/pdf", Dialect::Responses))]);
    let written = inlined(Dialect::Responses, &Node::parse(text).unwrap(), &files);
    let expected = r#"{"n":1.50,"input":[{"type":"input_file","filename":"b.pdf","file_data":"data:application/pdf;base64,QUJD"},2.0]}"#;
    assert_eq!(written, expected);
}

#[test]
fn every_occurrence_is_wanted_wherever_it_stands() {
    let body = json!({"messages": [{"content": [
        {"type": "tool_result", "content": [{"type": "document", "source": {"type": "file", "file_id": "file-sy-2"}}]},
        {"type": "document", "source": {"type": "file", "file_id": "file-metapi-3"}},
        {"type": "document", "source": {"type": "file", "file_id": "file-metapi-3"}},
    ]}]});
    let text = body.to_string();
    let marks = |text: &str| json::members(text, |_| ()).expect("an object").marks;
    assert!(may_occur(Dialect::Messages, marks(&text)) && !may_occur(Dialect::Embeddings, marks(&text)));
    let others = r#"{"a":"file-abc","b":"see file-sy-1"}"#;
    assert!(!may_occur(Dialect::Chat, marks(others)));
    let wanted = wanted(&Node::parse(&text).unwrap()).expect("some");
    assert_eq!(wanted, ["file-sy-2", "file-metapi-3", "file-metapi-3"]);
}

#[test]
fn what_text_takes_in_json_is_known_before_it_is_written() {
    let text: String = (0..=0x80).map(char::from).chain("é漢".chars()).collect();
    let literal = Text::of(&text).literal().len();
    assert_eq!(Content::Text(text.clone()).held_len(), text.len() + 2 * literal);
}
