//! A realtime upstream that says what its client asks for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocket};

use crate::support::wire;

pub(super) const MODEL: &str = "model-speech";

/// Stands for an upstream that opens the socket, and says in it that the key is wrong.
pub(super) const REFUSES_IN_THE_SOCKET: u16 = 101;

/// A realtime upstream, or one that answers the upgrade with a status.
pub(super) struct Voice {
    pub(super) address: SocketAddr,
    /// The heads of the upgrade requests.
    asked: Arc<Mutex<Vec<String>>>,
    /// The frames of its clients.
    heard: Arc<Mutex<Vec<Value>>>,
    /// The status of answers to chat requests.
    chat_status: Arc<AtomicU16>,
}

impl Voice {
    pub(super) fn start() -> Self {
        Self::with(None)
    }

    pub(super) fn with(refusal: Option<u16>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let chat_status = Arc::new(AtomicU16::new(200));
        let (heads, words, status) = (Arc::clone(&asked), Arc::clone(&heard), Arc::clone(&chat_status));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (heads, words, status) = (Arc::clone(&heads), Arc::clone(&words), Arc::clone(&status));
                std::thread::spawn(move || serve(stream, refusal, &heads, &words, &status));
            }
        });
        Self { address, asked, heard, chat_status }
    }

    pub(super) fn answer_chats_with(&self, status: u16) {
        self.chat_status.store(status, Ordering::SeqCst);
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic there").clone()
    }

    pub(super) fn heard(&self) -> Vec<Value> {
        self.heard.lock().expect("no panic there").clone()
    }
}

/// Builds a price list of new-api: each call costs 0.3 USD.
fn prices() -> Value {
    json!({"success": true, "group_ratio": {"vip": 1}, "usable_group": {"vip": "VIP"}, "data": [
        {"model_name": MODEL, "quota_type": 1, "model_price": 0.3, "enable_groups": ["vip"]}]})
}

fn serve(
    mut stream: TcpStream,
    refusal: Option<u16>,
    asked: &Mutex<Vec<String>>,
    heard: &Mutex<Vec<Value>>,
    chat_status: &AtomicU16,
) {
    let Some(head) = read_head(&mut stream) else { return };
    if !head.starts_with("GET /v1/realtime") {
        return answer(&mut stream, &head, chat_status.load(Ordering::SeqCst));
    }
    asked.lock().expect("no panic there").push(head.clone());
    if let Some(status) = refusal.filter(|status| *status != REFUSES_IN_THE_SOCKET) {
        let no = format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return drop(stream.write_all(no.as_bytes()));
    }
    upgrade(&mut stream, &head);
    let mut socket = WebSocket::from_raw_socket(stream, Role::Server, None);
    if refusal.is_some() {
        say(&mut socket, json!({"type": "error", "error": {"code": "invalid_api_key"}}));
        return drop(socket.close(None));
    }
    say(&mut socket, json!({"type": "session.created"}));
    converse(socket, heard);
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Answers a request for prices, models or a chat.
fn answer(stream: &mut TcpStream, head: &str, chat_status: u16) {
    let (status, body) = match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        None if head.starts_with("GET /api/pricing") => (200, prices()),
        None => (200, json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]})),
        Some(length) => {
            let mut body = vec![0; length.parse().expect("a number")];
            drop(stream.read_exact(&mut body));
            (chat_status, wire::chat(MODEL))
        }
    };
    let (body, length) = (body.to_string(), body.to_string().len());
    let answer = format!(
        "HTTP/1.1 {status} Yes\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    drop(stream.write_all(answer.as_bytes()));
}

fn upgrade(stream: &mut TcpStream, head: &str) {
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).expect("a key");
    let proof = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, proof.as_bytes()));
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    drop(stream.write_all(answer.as_bytes()));
}

fn say(socket: &mut WebSocket<TcpStream>, event: Value) {
    let _ = socket.send(Message::text(event.to_string()));
}

/// Does what the frames of a client ask for, until one ends the conversation.
fn converse(mut socket: WebSocket<TcpStream>, heard: &Mutex<Vec<Value>>) {
    let mut asides = 0;
    while let Ok(message) = socket.read() {
        if let Message::Binary(bytes) = &message {
            let back: Vec<u8> = bytes.iter().rev().copied().collect();
            let _ = socket.send(Message::binary(back));
        }
        let Message::Text(text) = message else { continue };
        let event: Value = serde_json::from_str(&text).expect("JSON");
        heard.lock().expect("no panic there").push(event.clone());
        replies(&event, &mut asides).into_iter().for_each(|reply| say(&mut socket, reply));
        match event["type"].as_str().unwrap_or_default() {
            "complain in bytes" => {
                let error = json!({"type": "error", "error": {"message": "Bad key: sk-upstream-key"}});
                let _ = socket.send(Message::binary(error.to_string()));
            }
            "goodbye" | "break off" => drop(socket.close(None)),
            "confess" => {
                let reason = "no sk-upstream-key".into();
                drop(socket.close(Some(CloseFrame { code: CloseCode::Error, reason })));
            }
            "trip" => return drop(socket.get_ref().shutdown(std::net::Shutdown::Both)),
            _ => {}
        }
    }
}

/// Returns the events that answer one of a client. `asides` counts the responses outside of the conversation that have
/// begun.
fn replies(event: &Value, asides: &mut usize) -> Vec<Value> {
    let usage = json!({"total_tokens": 30, "input_tokens": 20, "output_tokens": 10,
        "input_token_details": {"cached_tokens": 5}});
    let begun = || json!({"type": "response.created", "response": {"id": "r"}});
    let delta = |data: &str| json!({"type": "response.output_audio.delta", "delta": data});
    let done = |response: Value| json!({"type": "response.done", "response": response});
    match event["type"].as_str().unwrap_or_default() {
        "response.create" if event["response"]["voice"] == "nobody's" => {
            vec![json!({"type": "error", "error": {"code": "invalid_value"}})]
        }
        "response.create" if event["response"]["conversation"] == "none" => {
            *asides += 1;
            vec![json!({"type": "response.created", "response": {"id": asides.to_string()}})]
        }
        "finish" => {
            let response = |id: usize| json!({"id": id.to_string(), "status": "completed", "usage": usage});
            (1..=std::mem::take(asides)).rev().map(|id| done(response(id))).collect()
        }
        "response.create" | "somebody.speaks" => {
            vec![begun(), delta("UklGRg=="), done(json!({"status": "completed", "usage": usage}))]
        }
        "ramble" => vec![begun(), delta(&"A".repeat(64_000))],
        "complain" => {
            let message = "Incorrect API key provided: sk-upstream-key";
            vec![json!({"type": "error", "error": {"message": message}})]
        }
        "repeat the key" => vec![
            json!({"type": event["as"], "error": {"message": "no sk-upstream-key"}, "item": "sk-upstream-key"}),
        ],
        "transcribe" => {
            let usage =
                json!({"type": "tokens", "total_tokens": 30, "input_tokens": 20, "output_tokens": 10});
            let kind = "conversation.item.input_audio_transcription.completed";
            vec![json!({"type": kind, "transcript": "Hi", "usage": usage})]
        }
        "done unasked" => vec![done(json!({"status": "completed", "usage": {"total_tokens": 9}}))],
        "go on" => vec![done(json!({"status": "completed"}))],
        "break off" | "confess" | "trip" => vec![begun()],
        "goodbye" | "complain in bytes" => Vec::new(),
        _ => vec![json!({"type": "echo", "of": event})],
    }
}
