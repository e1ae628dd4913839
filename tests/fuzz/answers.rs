//! Compares how the gateway's client and hyper's client parse an upstream's answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use switchyard::routing::Origin;
use switchyard::upstream::{Client, ClientOptions};
use tokio::net::TcpStream;

use crate::{fuzz, pieces};

const SEEDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 11\r\ncontent-type: application/json\r\n\r\n{\"ok\":true}",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nx-trailer: 1\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.0 200 OK\r\nserver: old\r\n\r\nuntil the end",
    "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    "HTTP/1.1 204 No Content\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
    "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\nconnection: close\r\ncontent-length: 4\r\n\r\nslow",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
];

const WORDS: &[&str] = &[
    "HTTP/1.1 ",
    "HTTP/1.0 ",
    "200",
    "304",
    "101",
    "99",
    "\r\n",
    "\n",
    "\r\n\r\n",
    ": ",
    "content-length: ",
    "0",
    "1",
    "7",
    "18446744073709551616",
    "+1",
    "-1",
    "transfer-encoding: ",
    "chunked",
    "identity",
    "connection: ",
    "close",
    "keep-alive",
    ";",
    ",",
    "ffffffffffffffff",
    "0x5",
    "\t",
    "\0",
    "x-a: b\r\n",
];

/// A parsed message: status, headers sorted by name, and the body.
#[derive(Debug, PartialEq)]
struct Message {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Message {
    fn codings(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(|(name, _)| name == "transfer-encoding").map(|(_, list)| &list[..])
    }

    fn is_chunked(&self) -> bool {
        self.codings().next().is_some()
    }
}

/// Plays the next script to each connection: pieces that are written one after the other, then the end.
struct Stage {
    port: u16,
    scripts: SyncSender<Vec<Vec<u8>>>,
}

impl Stage {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (scripts, taken): (_, Receiver<Vec<Vec<u8>>>) = sync_channel(1);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), Ok(script)) = (stream, taken.recv()) else { return };
                let mut request = Vec::new();
                let mut chunk = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut chunk) {
                        Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                        _ => break,
                    }
                }
                let _ = stream.set_nodelay(true);
                for piece in script {
                    if stream.write_all(&piece).is_err() {
                        break;
                    }
                }
                // So that the written bytes arrive: closing with unread bytes would reset the connection.
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut request);
            }
        });
        Self { port, scripts }
    }

    fn next(&self, script: Vec<Vec<u8>>) {
        self.scripts.send(script).expect("the stage stands");
    }
}

async fn as_we_read(port: u16) -> Option<Message> {
    let client = Client::new(ClientOptions::default());
    let origin = Arc::new(Origin::new(false, "127.0.0.1", port, None));
    let request = Request::get("/").body(()).expect("a request");
    let mut answer = client.send(&origin, request).await.ok()?;
    let mut body = Vec::new();
    while let Some(data) = answer.body.data().await {
        body.extend_from_slice(&data.ok()?);
    }
    let headers = answer.head.headers.iter();
    let headers =
        headers.map(|(name, value)| (String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()));
    Some(Message { status: answer.head.status.as_u16(), headers: sorted(headers), body })
}

/// Parses with hyper; if hyper refuses in the middle of the body, returns what it had parsed by then.
async fn as_hyper_reads(port: u16) -> Result<Message, Option<Message>> {
    let socket = TcpStream::connect(("127.0.0.1", port)).await.map_err(|_| None)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(|_| None)?;
    let driver = tokio::spawn(async move {
        let _ = connection.await;
    });
    let request =
        Request::get("/").header("host", "127.0.0.1").body(Empty::<Bytes>::new()).expect("a request");
    let answer = sender.send_request(request).await;
    let message = async {
        let (head, mut body) = answer.map_err(|_| None)?.into_parts();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let mut message =
            Message { status: head.status.as_u16(), headers: sorted(headers), body: Vec::new() };
        while let Some(frame) = body.frame().await {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => message.body.extend_from_slice(&data),
                Ok(Err(_trailers)) => {}
                Err(_) => return Err(Some(message)),
            }
        }
        Ok(message)
    }
    .await;
    drop(sender);
    driver.abort();
    message
}

/// Sorts by name; equal names keep their order.
fn sorted(headers: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let mut headers: Vec<_> = headers.collect();
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    headers
}

#[test]
fn an_answer_reads_as_hyper_reads_it() {
    let stage = Stage::open();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    fuzz("answers", SEEDS, WORDS, |input, random| {
        // Decoding is not part of parsing, and a switch of protocols is not an answer here.
        let text = String::from_utf8_lossy(input).to_ascii_lowercase();
        if text.contains("content-encoding") || text.contains(" 101") {
            return;
        }
        let script: Vec<Vec<u8>> = pieces(input, random).into_iter().take(64).map(<[u8]>::to_vec).collect();
        stage.next(script.clone());
        let ours = runtime.block_on(as_we_read(stage.port));
        stage.next(script);
        let theirs = runtime.block_on(as_hyper_reads(stage.port));
        match (&ours, &theirs) {
            // hyper ignores a coding list with a byte beyond ASCII, we do not: such a list is not a list of tokens (RFC
            // 9110).
            (Some(ours), _) if ours.codings().any(|list| !list.is_ascii()) => {}
            (Some(ours), Ok(theirs)) => assert_eq!(ours, theirs),
            // Being stricter does no harm: contradictory lengths are refused here even beside a coding.
            (None, _) => {}
            // Nobody reads trailers here: their contents do not make an answer invalid.
            (Some(ours), Err(Some(begun))) if ours == begun && ours.is_chunked() => {}
            (ours, theirs) => panic!("one refuses: ours {ours:?}, hyper's {theirs:?}"),
        }
    });
}
