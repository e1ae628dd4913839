//! Tests of the channels whose services have fixed addresses, each against a socket in place of its service. The others
//! are tested through the binary, in `tests/notifications.rs`.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::message::{Message, sample};
use super::post::{FORM, JSON, PostTarget};
use super::push_service;
use super::webhook::Form;
use crate::store::events::EventLevel;
use crate::upstream::{Client, ClientOptions};

/// Answers one request with `answer`; returns the address, and the request once it has arrived.
async fn service(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let text = String::from_utf8_lossy(&request);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if length.and_then(|length| length.parse().ok()).unwrap_or(0) <= body.len() {
                    break;
                }
            }
            let read = stream.read(&mut chunk).await.expect("more");
            assert!(read > 0, "the request ends early");
            request.extend_from_slice(&chunk[..read]);
        }
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        stream.write_all(answer.as_bytes()).await.expect("answered");
        String::from_utf8(request).expect("UTF-8")
    });
    (url, asked)
}

/// A message with quotes, line ends, markdown and markup.
fn hostile() -> Message {
    sample("say \"hi\"\n*now*", "<b>\\ `x` [a](b)\r\n\u{1f600}\u{0}", EventLevel::Warning)
}

async fn post(form: Form, answer: &'static str) -> (Result<(), String>, String, Value) {
    let (url, asked) = service(answer).await;
    let target = PostTarget::parse(&format!("{url}/robot/send?key=K3Y-0123"), None).expect("an address");
    let client = Client::new(ClientOptions::default());
    let body = form.payload(&hostile()).to_string();
    let sent = target.post(&client, JSON, body, |answer| form.verdict(answer)).await;
    let request = asked.await.expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let body = serde_json::from_str(body).expect("JSON");
    (sent.map_err(|failure| failure.text), head.to_ascii_lowercase(), body)
}

#[tokio::test]
async fn chat_platforms_get_the_hostile_text_as_it_is() {
    let text = hostile().tagged();
    assert!(
        text.starts_with("[Switchyard][WARNING] say \"hi\" *now*\n\n<b>\\ `x` [a](b)\r\n\u{1f600}"),
        "{text}"
    );
    for (form, expected, yes, no) in [
        (
            Form::WeCom,
            json!({"msgtype": "text", "text": {"content": text}}),
            r#"{"errcode":0,"errmsg":"ok"}"#,
            r#"{"errcode":93000,"errmsg":"invalid K3Y-0123"}"#,
        ),
        (
            Form::Feishu,
            json!({"msg_type": "text", "content": {"text": text}}),
            r#"{"code":0,"msg":"success"}"#,
            r#"{"code":19024,"msg":"Key Words Not Found"}"#,
        ),
    ] {
        let (sent, head, body) = post(form, yes).await;
        assert_eq!((sent, &body), (Ok(()), &expected), "{form:?}");
        assert!(head.starts_with("post /robot/send?key=k3y-0123 http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/json; charset=utf-8"), "{head}");
        let refused = post(form, no).await.0.expect_err("refused");
        assert!(refused.contains("code ") && !refused.contains("K3Y-0123"), "{refused}");
    }
}

#[tokio::test]
async fn the_push_service_gets_a_form_that_reads_back() {
    let (url, asked) = service(r#"{"code":0,"message":""}"#).await;
    let target = PostTarget::parse(&format!("{url}/K3Y.send"), None).expect("an address");
    let client = Client::new(ClientOptions::default());
    let sent = target.post(&client, FORM, push_service::form(&hostile()), push_service::verdict).await;
    assert!(sent.is_ok());
    let request = asked.await.expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("POST /K3Y.send HTTP/1.1\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-type: application/x-www-form-urlencoded"), "{head}");
    let fields: Vec<(&str, String)> = body
        .split('&')
        .filter_map(|field| field.split_once('='))
        .map(|(name, value)| {
            let value = percent_encoding::percent_decode_str(value).decode_utf8().expect("UTF-8");
            (name, value.into_owned())
        })
        .collect();
    assert_eq!(fields, [("title", "say \"hi\" *now*".to_owned()), ("desp", hostile().levelled())]);
}

#[tokio::test]
async fn a_message_has_arrived_however_long_the_answer_is() {
    let (url, asked) = service("x".repeat(200_000).leak()).await;
    let target = PostTarget::parse(&url, None).expect("an address");
    let client = Client::new(ClientOptions::default());
    let sent = target.post(&client, JSON, "{}", |answer| Form::Generic.verdict(answer)).await;
    assert!(sent.is_ok());
    // The rest of the answer is not read.
    let _ = asked.await;
}
