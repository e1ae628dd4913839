//! A stub of Codex's upstream that speaks over WebSockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::Value;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::MODEL;
use crate::support::{secured, wire};

/// A stub of Codex that accepts WebSockets, or refuses them.
pub(super) struct Codex {
    pub(super) address: SocketAddr,
    pub(super) scheme: &'static str,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
}

/// A request or a frame.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// `GET` for an upgrade.
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    /// The content of the only frame, or the body.
    pub(super) said: Value,
}

/// A connection, encrypted or not.
pub(super) trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// The stub's end of a WebSocket.
pub(super) struct Talk(pub(super) WebSocket<Box<dyn Wire>>);

/// What the stub does once it has read the first request over a socket.
pub(super) type Script = dyn Fn(&mut Talk) + Send + Sync;

// === impl Codex ===

impl Codex {
    pub(super) fn start(script: impl Fn(&mut Talk) + Send + Sync + 'static) -> Self {
        Self::with("http", None, script)
    }

    /// Starts a stub with TLS.
    pub(super) fn secured(script: impl Fn(&mut Talk) + Send + Sync + 'static) -> Self {
        Self::with("https", None, script)
    }

    /// Starts a stub that refuses every upgrade with this status and answers over HTTP.
    pub(super) fn refusing(status: u16) -> Self {
        Self::with("http", Some(status), |_| {})
    }

    pub(super) fn with(
        scheme: &'static str,
        refusal: Option<u16>,
        script: impl Fn(&mut Talk) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (script, seen): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                std::thread::spawn(move || {
                    let wire: Box<dyn Wire> = match scheme {
                        "https" => Box::new(secured(stream)),
                        _ => Box::new(stream),
                    };
                    serve(wire, refusal, &*script, &seen);
                });
            }
        });
        Self { address, scheme, asked }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic there").clone()
    }

    pub(super) fn methods(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.method).collect()
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

// === impl Asked ===

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

// === impl Talk ===

impl Talk {
    pub(super) fn say(&mut self, frame: &Value) {
        self.send(&frame.to_string());
    }

    pub(super) fn send(&mut self, text: &str) {
        // The other side may be gone.
        let _ = self.0.send(Message::Text(Utf8Bytes::from(text)));
    }

    /// Sends the first frames of a whole answer.
    pub(super) fn answer_in(&mut self, frames: usize) {
        for frame in answer().iter().take(frames) {
            self.say(frame);
        }
    }

    pub(super) fn answer(&mut self) {
        self.answer_in(usize::MAX);
        self.wait_for_end();
    }

    /// Returns the next request over the same socket; `None` when the other end leaves.
    pub(super) fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.read() {
                Ok(Message::Text(frame)) => return serde_json::from_str(&frame).ok(),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                _ => return None,
            }
        }
    }

    pub(super) fn wait_for_end(&mut self) {
        while self.0.read().is_ok() {}
    }
}

/// Returns the frames of an answer.
pub(super) fn answer() -> Vec<Value> {
    let data = |event: String| {
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect("data").to_owned();
        serde_json::from_str(&data).expect("JSON")
    };
    wire::response_events(MODEL).into_iter().map(data).collect()
}

pub(super) fn serve(
    mut stream: Box<dyn Wire>,
    refusal: Option<u16>,
    script: &Script,
    seen: &Mutex<Vec<Asked>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let mut lines = head.lines();
    let mut line = lines.next().expect("a request line").split(' ').map(str::to_owned);
    let (method, target) = (line.next().expect("a method"), line.next().expect("a target"));
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut asked = Asked { method, target, headers, said: Value::Null };
    if asked.header("upgrade").is_none() {
        let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a body");
        asked.said = serde_json::from_slice(&body).unwrap_or_default();
        seen.lock().expect("no panic there").push(asked);
        let events = wire::response_events(MODEL).concat();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
        let _ = stream.write_all(format!("{head}\r\n\r\n{events}").as_bytes());
        return;
    }
    if let Some(status) = refusal {
        seen.lock().expect("no panic there").push(asked);
        let _ = stream.write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").as_bytes());
        return;
    }
    let key = asked.header("sec-websocket-key").expect("a key").to_owned();
    let accept =
        digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    let accept = BASE64.encode(accept);
    let opened = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\nx-request-id: of-the-stub\r\n\r\n"
    );
    stream.write_all(opened.as_bytes()).expect("the client waits");
    let mut talk = Talk(WebSocket::from_raw_socket(stream, Role::Server, None));
    let Ok(Message::Text(frame)) = talk.0.read() else { return };
    asked.said = serde_json::from_str(&frame).expect("JSON");
    seen.lock().expect("no panic there").push(asked);
    script(&mut talk);
}
