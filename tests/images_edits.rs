//! Edits of images: forms reach the upstream byte for byte, except for the model's name.

use serde_json::json;

use crate::support::wire::form_field;
use crate::support::{self, Gateway, Reply, Request, Upstream, split_events, wire};

const MODEL: &str = "gpt-image-1";
const EDITS: &str = "/v1/images/edits";
const KIND: &str = "multipart/form-data; boundary=\"b 1\"";

/// Builds a form with an image of arbitrary bytes, and perhaps a model.
fn form(model: Option<&str>, more: &[(&str, &str)]) -> Vec<u8> {
    let mut body = form_field(
        "name=\"image[]\"; filename=\"a.png\"\r\nContent-Type: image/png",
        b"\x89PNG\r\n\x1a\n\0\xff--b",
    );
    for (name, value) in model.iter().map(|model| ("model", *model)).chain(more.iter().copied()) {
        body.extend(form_field(&format!("name=\"{name}\""), value.as_bytes()));
    }
    body.extend(form_field("name=prompt", "A signal böx".as_bytes()));
    body.extend(b"--b 1--\r\n");
    body
}

fn started(models: &[&str]) -> (Gateway, Upstream) {
    Gateway::serving_as("new-api", models)
}

fn send(gateway: &Gateway, body: Vec<u8>) -> support::Answer {
    gateway.client().send(Request::post(EDITS).header("content-type", KIND).body(body))
}

#[test]
fn a_form_goes_upstream_byte_for_byte() {
    let (gateway, upstream) = started(&[MODEL]);
    let body = form(Some(MODEL), &[]);
    assert_eq!(send(&gateway, body.clone()).expect(200), wire::image());
    let asked = upstream.last(EDITS);
    assert_eq!(asked.body, body);
    assert_eq!(asked.header("content-type"), Some(KIND));
    assert!(asked.header("authorization").is_some_and(|value| value.starts_with("Bearer ")));
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!((&row["status"], &row["modelRequested"]), (&json!("success"), &json!(MODEL)));
}

#[test]
fn the_model_is_replaced_where_it_stands_or_added_at_the_end() {
    let (gateway, upstream) = started(&["upstream-image"]);
    let mapping = json!({"alias-image": "upstream-image", MODEL: "upstream-image"}).to_string();
    let route = json!({"modelPattern": "re:-image", "modelMapping": mapping});
    gateway.admin().post("/api/routes", &route).expect(200);
    send(&gateway, form(Some(" alias-image "), &[])).expect(200);
    assert_eq!(upstream.last(EDITS).body, form(Some("upstream-image"), &[]));

    send(&gateway, form(None, &[])).expect(200);
    let asked = String::from_utf8_lossy(&upstream.last(EDITS).body).into_owned();
    let end = "name=prompt\r\n\r\nA signal böx\r\n--b 1\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nupstream-image\r\n--b 1--\r\n";
    assert!(asked.ends_with(end), "{asked:?}");
}

#[test]
fn a_picture_without_a_name_gets_one() {
    let (gateway, upstream) = started(&[MODEL]);
    let picture = |head: &str| {
        let mut body = form_field(head, b"\x89PNG\r\n--b");
        body.extend(form_field("name=model", MODEL.as_bytes()));
        body.extend(b"--b 1--\r\n");
        body
    };
    for (given, wanted) in [
        (
            "name=image\r\nContent-Type: image/png",
            "name=image; filename=\"upload.bin\"\r\nContent-Type: image/png",
        ),
        ("name=\"mask\"; filename=\"\"", "name=\"mask\"; filename=\"upload.bin\""),
        ("name=image; filename=a.png", "name=image; filename=a.png"),
        ("name=prompt\r\nContent-Type: text/plain", "name=prompt\r\nContent-Type: text/plain"),
    ] {
        send(&gateway, picture(given)).expect(200);
        assert_eq!(upstream.last(EDITS).body, picture(wanted), "{given}");
    }
}

#[test]
fn an_edit_in_json_and_one_that_streams_pass_too() {
    let (gateway, upstream) = started(&[MODEL]);
    let body = json!({"image": "data:image/png;base64,AA==", "prompt": "x", "model": MODEL});
    gateway.client().post(EDITS, &body).expect(200);
    assert_eq!(upstream.last(EDITS).json(), body);
    assert_eq!(upstream.last(EDITS).header("content-type"), Some("application/json"));

    // As in OpenAI's API reference, "Image streaming events".
    let events = [
        wire::named(
            &json!({"type": "image_edit.partial_image", "b64_json": "AA==", "partial_image_index": 0}),
        ),
        wire::named(
            &json!({"type": "image_edit.completed", "b64_json": "AA==", "usage": {"total_tokens": 100,
            "input_tokens": 50, "output_tokens": 50}}),
        ),
    ];
    upstream.answer(EDITS, Reply::events(&events));
    let answer = send(&gateway, form(Some(MODEL), &[("stream", "true")]));
    assert_eq!(split_events(answer.text().as_bytes()).len(), 2, "{}", answer.text());
    assert_eq!(upstream.last(EDITS).header("accept"), Some("text/event-stream"));
    let rows = gateway.wait_for_logs(2);
    assert_eq!((&rows[1]["isStream"], &rows[1]["totalTokens"]), (&json!(true), &json!(100)));
}

#[test]
fn another_channel_gets_the_same_form() {
    let pair = support::Pair::on("new-api", &[]);
    pair.first.answer(EDITS, Reply::error(500, "boom"));
    let body = form(Some(support::Pair::MODEL), &[]);
    send(&pair.gateway, body.clone()).expect(200);
    assert_eq!((pair.first.last(EDITS).body, pair.second.last(EDITS).body), (body.clone(), body));
}

#[test]
fn an_edit_without_a_form_and_a_model_is_refused() {
    let (gateway, upstream) = started(&[MODEL]);
    for body in [Vec::new(), b"--b 1--\r\n".to_vec(), b"{}".to_vec(), form(Some(" "), &[])] {
        let error = send(&gateway, body).expect(400);
        assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
    }
    assert_eq!(upstream.asked_for(EDITS).len(), 0);
}

#[test]
fn a_variation_is_asked_for_as_an_edit_is() {
    const VARIATIONS: &str = "/v1/images/variations";
    let (gateway, upstream) = started(&[MODEL]);
    let body = form(Some(MODEL), &[]);
    let ask = Request::post(VARIATIONS).header("content-type", KIND).body(body.clone());
    assert_eq!(gateway.client().send(ask).expect(200), wire::image());
    assert_eq!(upstream.last(VARIATIONS).body, body);
    let row = &gateway.wait_for_logs(1)[0];
    assert_eq!((&row["status"], &row["modelRequested"]), (&json!("success"), &json!(MODEL)));
}

#[test]
fn a_form_that_may_hide_a_model_is_refused() {
    let (gateway, upstream) = started(&[MODEL]);
    let plain = form(Some(MODEL), &[]);
    let with = |more: Vec<u8>| {
        let end = plain.len() - b"--b 1--\r\n".len();
        [&plain[..end], &more, b"--b 1--\r\n"].concat()
    };
    for head in [
        "name*=UTF-8''model",
        "name=\"x\"; name=\"model\"",
        "name=\"mo\\del\"",
        "name=\"x\"; filename=\"y\\\"; name=model; z=\"",
        "name=\"x\"\nContent-Disposition: form-data; name=\"model\"",
        "name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"",
        "name=\"x\";\r\n name=\"model\"",
        "name=\"x\"\r\nContent-Transfer-Encoding: base64",
        "name=\"model\"",
        "name=\"Model\"",
        "name=\"model[]\"",
    ] {
        let error = send(&gateway, with(form_field(head, b"gpt-forbidden"))).expect(400);
        assert_eq!(error["error"]["type"], "invalid_request_error", "{head}: {error}");
    }
    let hidden = b"Content-Disposition: form-data; name=\"model\"\n\ngpt-forbidden";
    for body in [
        with(form_field("name=x", &[b"1\n--b 1\n".as_slice(), hidden].concat())),
        [&plain[..], b"--b 1\r\n", hidden, b"\r\n--b 1--\r\n"].concat(),
        form(None, &[("model\"; filename=\"x", MODEL)]),
        form(None, &[("model\"\r\nContent-Type: \"text/plain; charset=utf-16", MODEL)]),
    ] {
        let error = send(&gateway, body).expect(400);
        assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
    }
    let ask = Request::post(EDITS)
        .header("content-type", KIND)
        .header("content-type", "multipart/form-data; boundary=c");
    let error = gateway.client().send(ask.body(plain.clone())).expect(400);
    assert_eq!(error["error"]["type"], "invalid_request_error", "{error}");
    assert_eq!(upstream.asked_for(EDITS).len(), 0);
    send(&gateway, plain.clone()).expect(200);
}
