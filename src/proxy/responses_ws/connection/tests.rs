//! The timing of a socket, on a paused clock.

use std::collections::HashMap;

use futures_util::{SinkExt, StreamExt};
use hyper::HeaderMap;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;
use crate::config;
use crate::core::Core;
use crate::http::Query;
use crate::http::bearer::LastToken;
use crate::http::stop::StopStage;
use crate::jobs::Jobs;

struct Served {
    client: WebSocketStream<DuplexStream>,
    stop: watch::Sender<StopStage>,
    ended: JoinHandle<()>,
    since: Instant,
    _folder: Folder,
}

struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a socket and returns its only client.
async fn served() -> Served {
    let folder = std::env::temp_dir().join(format!("switchyard-socket-{}", uuid::v4()));
    let values = [("DATA_DIR", folder.to_str().unwrap()), ("ACCOUNT_CREDENTIAL_SECRET", "of-these-tests")];
    let values: HashMap<String, String> =
        values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let core = Core::start(config::read(&values).unwrap().0).await.unwrap();
    let proxy = Proxy::new(&core, &Jobs::new(&core), Vec::new());
    let opener = SocketOpener {
        headers: HeaderMap::new(),
        query: Query::default(),
        local: true,
        client_ip: std::net::Ipv4Addr::LOCALHOST.into(),
        last_token: LastToken::default(),
        rates: proxy.core.rates.global.clone(),
        session: "s".to_owned(),
    };
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (stop, stopping) = watch::channel(StopStage::Serving);
    tokio::time::pause();
    let socket = WebSocket::on(ours, stopping).await;
    let ended = tokio::spawn(serve(proxy, opener, socket));
    let client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
    Served { client, stop, ended, since: Instant::now(), _folder: Folder(folder) }
}

impl Served {
    async fn next(&mut self) -> Message {
        self.client.next().await.expect("a frame").expect("a frame")
    }

    fn seconds(&self) -> u64 {
        self.since.elapsed().as_secs()
    }
}

fn code_of(message: &Message) -> Option<u16> {
    match message {
        Message::Close(Some(frame)) => Some(frame.code.into()),
        _ => None,
    }
}

#[tokio::test]
async fn a_socket_is_pinged_every_half_minute() {
    let mut served = served().await;
    for ping in 1..=5 {
        assert_eq!(served.next().await, Message::Ping(Bytes::new()));
        assert_eq!(served.seconds(), 30 * ping);
    }
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_let_go() {
    let served = served().await;
    served.ended.await.unwrap();
    assert!((600..605).contains(&served.since.elapsed().as_secs()));
}

#[tokio::test]
async fn after_an_hour_the_client_is_told_to_open_another() {
    let mut served = served().await;
    let told = loop {
        match served.next().await {
            Message::Ping(_) => {}
            told => break told,
        }
    };
    assert_eq!(served.seconds(), 3600);
    let told: Value = serde_json::from_str(told.to_text().unwrap()).unwrap();
    assert_eq!((&told["type"], &told["status"]), (&"error".into(), &400.into()));
    assert_eq!(told["error"]["code"], "websocket_connection_limit_reached");
    assert_eq!(code_of(&served.next().await), Some(1000));
    served.ended.await.unwrap();
}

#[tokio::test]
async fn a_socket_closes_when_the_service_stops() {
    let mut served = served().await;
    served.stop.send_replace(StopStage::Draining);
    assert_eq!(code_of(&served.next().await), Some(1001));
    served.client.close(None).await.ok();
    drop(served.client);
    served.ended.await.unwrap();
    assert!(served.since.elapsed() < CLOSING_AT_MOST);
}

/// The close frame gets two seconds to be seen.
const CLOSING_AT_MOST: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_frame_that_is_no_turn_is_answered_at_once() {
    let mut served = served().await;
    served.client.send(Message::text("[]")).await.unwrap();
    let refusal: Value = serde_json::from_str(served.next().await.to_text().unwrap()).unwrap();
    // The headers are empty, so there is no token.
    assert_eq!((&refusal["status"], &refusal["error"]["code"]), (&401.into(), &"missing_api_key".into()));
}
