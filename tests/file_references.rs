//! Files that are uploaded here and named in a request reach the upstream as their contents.

use serde_json::{Value, json};

use crate::support::paths::{CHAT, MESSAGES, RESPONSES};
use crate::support::{Caller, Gateway, Reply, Request, Upstream};

const MODEL: &str = "model-files";
const PATHS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

fn upload(client: &Caller, filename: &str, content: &[u8]) -> String {
    let head =
        format!("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\r\n");
    let body = [head.as_bytes(), content, b"\r\n--b--\r\n"].concat();
    let ask = Request::post("/v1/files").header("content-type", "multipart/form-data; boundary=b").body(body);
    client.send(ask).expect(200)["id"].as_str().expect("an id").to_owned()
}

/// Builds a request that names a file as its dialect does.
fn naming(path: &str, id: &str, streamed: bool) -> Value {
    match path {
        CHAT => json!({"model": MODEL, "stream": streamed, "messages": [{"role": "user", "content": [
            {"type": "text", "text": "Read this"}, {"type": "file", "file": {"file_id": id}}]}]}),
        RESPONSES => json!({"model": MODEL, "stream": streamed, "input": [{"role": "user", "content": [
            {"type": "input_text", "text": "Read this"}, {"type": "input_file", "file_id": id}]}]}),
        _ => {
            json!({"model": MODEL, "stream": streamed, "max_tokens": 9, "messages": [{"role": "user", "content": [
            {"type": "text", "text": "Read this"},
            {"type": "document", "source": {"type": "file", "file_id": id}}]}]})
        }
    }
}

/// Starts a gateway in front of an upstream that offers only one of the dialects.
fn narrow(offered: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::with_one_path(MODEL, offered);
    let gateway = Gateway::start().in_front_of("new-api", &upstream);
    (gateway, upstream)
}

/// Returns the last block of the user's message.
fn block(path: &str, body: &Value) -> Value {
    let content = match path {
        RESPONSES => &body["input"][0]["content"],
        _ => &body["messages"][0]["content"],
    };
    content.as_array().and_then(|blocks| blocks.last().cloned()).unwrap_or_default()
}

const PDF: &[u8] = b"%PDF-1.7\nhello";
const PDF_URL: &str = "data:application/pdf;base64,JVBERi0xLjcKaGVsbG8=";
const PNG_URL: &str = "data:image/png;base64,iVBORw0K";

#[test]
fn a_file_reaches_every_upstream_in_a_valid_form() {
    for offered in PATHS {
        let (gateway, upstream) = narrow(offered);
        let client = gateway.client();
        let pdf = upload(&client, "a.pdf", PDF);
        let png = upload(&client, "a.png", b"\x89PNG\r\n");
        let text = upload(&client, "a.md", "# Tïtle \"1\"".as_bytes());
        for path in PATHS {
            let sent = |id: &str| {
                client.post(path, &naming(path, id, false)).expect(200);
                let asked = upstream.last(offered);
                assert!(!String::from_utf8_lossy(&asked.body).contains(id), "{path} on {offered}");
                block(offered, &asked.json())
            };
            let (is_pdf, is_image) = match offered {
                CHAT => (
                    json!({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}),
                    json!({"type": "image_url", "image_url": {"url": PNG_URL}}),
                ),
                RESPONSES => (
                    json!({"type": "input_file", "filename": "a.pdf", "file_data": PDF_URL}),
                    json!({"type": "input_image", "image_url": PNG_URL}),
                ),
                _ => (
                    json!({"type": "document", "title": "a.pdf", "source": {"type": "base64",
                        "media_type": "application/pdf", "data": "JVBERi0xLjcKaGVsbG8="}}),
                    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}),
                ),
            };
            let same = |mut sent: Value, expected: &Value| {
                // The level of detail goes where the dialect expects it.
                if let Some(image) = sent.as_object_mut() {
                    image.remove("detail");
                    image.remove("cache_control");
                }
                assert_eq!(&sent, expected, "{path} on {offered}");
            };
            same(sent(&pdf), &is_pdf);
            same(sent(&png), &is_image);
            let markdown = sent(&text).to_string();
            let carried = ["# Tïtle \\\"1\\\"", "data:text/markdown;base64,IyBUw690bGUgIjEi"];
            assert!(carried.iter().any(|form| markdown.contains(form)), "{path} on {offered}: {markdown}");
        }
    }
}

#[test]
fn a_picture_named_as_a_document_has_no_members_of_one() {
    let (gateway, upstream) = narrow(MESSAGES);
    let client = gateway.client();
    let id = upload(&client, "a.png", b"\x89PNG\r\n");
    let mark = json!({"type": "ephemeral"});
    client
        .post(
            MESSAGES,
            &json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": [
                {"type": "document", "source": {"type": "file", "file_id": id}, "title": "T", "context": "C",
                 "citations": {"enabled": true}, "cache_control": mark}]}]}),
        )
        .expect(200);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0K"});
    let image = json!({"type": "image", "source": source, "cache_control": mark});
    assert_eq!(block(MESSAGES, &upstream.last(MESSAGES).json()), image);
}

#[test]
fn an_svg_reaches_upstreams_as_its_text_or_as_a_picture() {
    for offered in PATHS {
        let (gateway, upstream) = narrow(offered);
        let client = gateway.client();
        let svg = upload(&client, "a.svg", b"<svg/>");
        for kind in ["image", "document"] {
            let mut body = naming(MESSAGES, &svg, false);
            body["messages"][0]["content"][1]["type"] = json!(kind);
            client.post(MESSAGES, &body).expect(200);
            let sent = block(offered, &upstream.last(offered).json());
            let wanted = match offered {
                CHAT => json!({"type": "text", "text": "a.svg\n<svg/>"}),
                RESPONSES => json!({"type": "input_text", "text": "a.svg\n<svg/>"}),
                _ => json!({"type": "document", "title": "a.svg",
                    "source": {"type": "text", "media_type": "text/plain", "data": "<svg/>"}}),
            };
            assert_eq!(sent, wanted, "{kind} on {offered}");
        }
    }
}

#[test]
fn a_text_in_another_encoding_is_read_or_refused() {
    let (gateway, upstream) = narrow(CHAT);
    let client = gateway.client();
    let wide = upload(&client, "a.txt", b"\xff\xfeh\0\xfc\0");
    let latin = upload(&client, "b.txt", b"Gr\xfcn");
    for path in [CHAT, MESSAGES] {
        client.post(path, &naming(path, &wide, false)).expect(200);
        assert_eq!(block(CHAT, &upstream.last(CHAT).json())["text"], "a.txt\nhü", "{path}");
        let error = client.post(path, &naming(path, &latin, false)).expect(400);
        assert!(error["error"]["message"].as_str().is_some_and(|said| said.contains("b.txt")), "{error}");
    }
}

#[test]
fn sound_reaches_upstreams_that_listen() {
    let (gateway, upstream) = narrow(CHAT);
    let client = gateway.client();
    let id = upload(&client, "a.mp3", b"ABC");
    for path in PATHS {
        client.post(path, &naming(path, &id, false)).expect(200);
        let expected = json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}});
        assert_eq!(block(CHAT, &upstream.last(CHAT).json()), expected, "{path}");
    }
    let (gateway, upstream) = narrow(MESSAGES);
    let client = gateway.client();
    let id = upload(&client, "a.mp3", b"ABC");
    let error = client.post(MESSAGES, &naming(MESSAGES, &id, false)).expect(400);
    let told = error["error"]["message"].as_str().unwrap_or_default();
    assert!(told.starts_with("document is not supported"), "{error}");
    assert!(upstream.asked_for(MESSAGES).is_empty(), "that dialect has no block for sound");
}

#[test]
fn a_file_by_its_address_is_a_400_where_the_site_has_no_responses() {
    let (gateway, upstream) = narrow(CHAT);
    upstream.answer(RESPONSES, Reply::error(404, "Invalid URL (POST /v1/responses)"));
    let file = json!({"type": "input_file", "file_url": "https://h.example/a.pdf"});
    let body = json!({"model": MODEL, "input": [{"role": "user", "content": [file]}]});
    let error = gateway.client().post(RESPONSES, &body).expect(400);
    let told = error["error"]["message"].as_str().unwrap_or_default();
    assert!(told.starts_with("file_url is not supported by any upstream"), "{error}");
    assert_eq!(error["error"]["param"], "file_url", "{error}");
    assert!(upstream.asked_for(CHAT).is_empty());
    assert_eq!(gateway.channels(MODEL)[0]["cooldownUntil"], Value::Null);
}

#[test]
fn a_file_of_another_key_or_of_nobody_is_not_found_and_nobody_is_asked() {
    let (gateway, upstream) = narrow(CHAT);
    let key = json!({"name": "other", "key": "sk-managed-key-1", "supportedModels": ["*"]});
    let other = gateway.add_key(&key);
    let foreign = upload(&other, "a.pdf", PDF);
    let deleted = upload(&gateway.client(), "a.pdf", PDF);
    gateway.client().delete(&format!("/v1/files/{deleted}")).expect(200);
    for id in [foreign.as_str(), deleted.as_str(), "file-sy-none", "file-metapi-none"] {
        for path in PATHS {
            let answer = gateway.client().post(path, &naming(path, id, true));
            assert_eq!(answer.status, 404, "{path} {id}: {}", answer.text());
            assert_eq!(answer.json()["error"]["type"], "not_found_error", "{path} {id}");
        }
    }
    let chats = upstream.asked_for(CHAT).len();
    assert_eq!(chats, 0);
    // The owner may use it, and a refused call was not counted.
    other.post(CHAT, &naming(CHAT, &foreign, false)).expect(200);
    let not_mine = other.post(CHAT, &naming(CHAT, "file-sy-none", false));
    assert_eq!(not_mine.status, 404);
    let keys = gateway.admin().get("/api/downstream-keys").expect(200).to_string();
    assert!(keys.contains("\"usedRequests\":1"), "{keys}");
}

#[test]
fn ids_of_others_stay_and_a_large_file_is_refused_before_it_is_read() {
    let (gateway, upstream) = narrow(RESPONSES);
    let client = gateway.client();
    let body = naming(RESPONSES, "file-abc123", false);
    client.post(RESPONSES, &body).expect(200);
    assert_eq!(upstream.last(RESPONSES).body, body.to_string().into_bytes());

    let large = upload(&client, "a.pdf", &vec![b'x'; (32 << 20) + 1]);
    let answer = client.post(RESPONSES, &naming(RESPONSES, &large, false));
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert_eq!(upstream.asked_for(RESPONSES).len(), 1);

    // Several chunks of the store, joined at offsets where base64 does not end.
    let content: Vec<u8> = (0..1_300_001u32).map(|n| (n % 251) as u8).collect();
    let medium = upload(&client, "a.pdf", &content);
    client.post(RESPONSES, &naming(RESPONSES, &medium, false)).expect(200);
    let sent = block(RESPONSES, &upstream.last(RESPONSES).json());
    use base64::Engine;
    let expected = base64::engine::general_purpose::STANDARD.encode(&content);
    assert!(sent["file_data"] == format!("data:application/pdf;base64,{expected}"), "the bytes differ");
}

#[test]
fn bare_base64_reaches_an_upstream_of_its_dialect_as_a_data_url() {
    let (gateway, upstream) = Gateway::serving(&[MODEL]);
    let address = |data: &str| format!("data:application/pdf;base64,{data}");
    let chat = |data: &str| {
        json!({"model": MODEL, "messages": [{"role": "user", "content": [
            {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}]}]})
    };
    let responses = |data: &str| {
        json!({"model": MODEL, "input": [{"role": "user", "content": [
            {"type": "input_file", "filename": "a.pdf", "file_data": data}]}]})
    };
    for data in ["JVBERi0=", &address("JVBERi0=")] {
        for (path, given, wanted) in [
            (CHAT, chat(data), chat(&address("JVBERi0="))),
            (RESPONSES, responses(data), responses(&address("JVBERi0="))),
        ] {
            gateway.client().post(path, &given).expect(200);
            assert_eq!(upstream.last(path).json(), wanted);
        }
    }
}

#[test]
fn a_file_in_the_body_itself_is_checked_and_reaches_the_upstream_in_its_kinds_block() {
    for path in [CHAT, RESPONSES] {
        let (gateway, upstream) = narrow(path);
        let carrying = |file: Value| {
            let mut body = naming(path, "", false);
            let block = match path {
                CHAT => json!({"type": "file", "file": file}),
                _ => {
                    let mut block = file;
                    block["type"] = json!("input_file");
                    block
                }
            };
            let content = if path == CHAT { "/messages/0/content/1" } else { "/input/0/content/1" };
            *body.pointer_mut(content).expect("a block") = block;
            body
        };
        let client = gateway.client();
        for file in [json!({"file_data": PNG_URL}), json!({"file_data": "iVBORw0K", "filename": "a.PNG"})] {
            client.post(path, &carrying(file)).expect(200);
            let wanted = match path {
                CHAT => json!({"type": "image_url", "image_url": {"url": PNG_URL}}),
                _ => json!({"type": "input_image", "image_url": PNG_URL}),
            };
            assert_eq!(block(path, &upstream.last(path).json()), wanted);
        }
        let pdf = carrying(json!({"file_data": PDF_URL, "filename": "a.pdf"})).to_string();
        client
            .send(Request::post(path).header("content-type", "application/json").body(pdf.as_bytes()))
            .expect(200);
        assert_eq!(String::from_utf8_lossy(&upstream.last(path).body), pdf);

        let asked = upstream.asked_for(path).len();
        let refused = client
            .post(path, &carrying(json!({"file_data": "data:application/zip;base64,UEsD"})))
            .expect(400);
        let error = &refused["error"];
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &json!("file_data")));
        assert!(error["message"].as_str().is_some_and(|text| text.contains("application/zip")), "{error}");
        assert_eq!(upstream.asked_for(path).len(), asked);
    }
}
