//! Everything that an upstream can do with a request, in every order of three: none is read twice that must not be.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::http::Method;
use hyper::http::uri::PathAndQuery;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Upstream, client, read_request, text, within};
use crate::upstream::{Client, Request, WorkKind};

/// What an upstream does with a request that it has read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Answers,
    /// Answers, and says that it closes the connection.
    AnswersLast,
    /// Answers, and closes the connection without a word.
    AnswersAndHangsUp,
    Refuses,
    /// Sends a part of a head, then closes.
    BreaksOff,
    /// Sends an interim response, then closes.
    PromisesAndHangsUp,
    /// Closes without a byte.
    HangsUp,
    Resets,
    /// Says 408 and closes, as servers do to connections that were idle for too long.
    SaysGoodbye,
}

const DEEDS: [Deed; 9] = [
    Deed::Answers,
    Deed::AnswersLast,
    Deed::AnswersAndHangsUp,
    Deed::Refuses,
    Deed::BreaksOff,
    Deed::PromisesAndHangsUp,
    Deed::HangsUp,
    Deed::Resets,
    Deed::SaysGoodbye,
];

const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

impl Deed {
    /// Returns what the upstream sends, and whether the connection stays open.
    fn says(self) -> (&'static [u8], bool) {
        match self {
            Self::Answers => (WHOLE, true),
            Self::AnswersLast => {
                (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", false)
            }
            Self::AnswersAndHangsUp => (WHOLE, false),
            Self::Refuses => (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\nno", true),
            Self::BreaksOff => (b"HTTP/1.1 200 OK\r\ncontent-", false),
            Self::PromisesAndHangsUp => (b"HTTP/1.1 100 Continue\r\n\r\n", false),
            Self::HangsUp | Self::Resets => (b"", false),
            Self::SaysGoodbye => {
                (b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", false)
            }
        }
    }

    fn is_an_answer(self) -> bool {
        matches!(self, Self::Answers | Self::AnswersLast | Self::AnswersAndHangsUp | Self::Refuses)
    }
}

/// The deeds still to be done, and those that were done with each request.
#[derive(Default)]
struct Play {
    script: VecDeque<Deed>,
    done: Vec<(String, Deed)>,
}

/// Does what the script says with one request after the other, on whatever connection they come; then only answers.
async fn perform(mut stream: TcpStream, play: Arc<Mutex<Play>>) {
    while let Some(request) = read_request(&mut stream).await {
        let id = request.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        let deed = {
            let mut play = play.lock().unwrap_or_else(PoisonError::into_inner);
            let deed = play.script.pop_front().unwrap_or(Deed::Answers);
            play.done.push((id, deed));
            deed
        };
        let (words, stays) = deed.says();
        if stream.write_all(words).await.is_err() {
            return;
        }
        if deed == Deed::Resets {
            let socket = socket2::SockRef::from(&stream);
            socket.set_linger(Some(Duration::ZERO)).expect("a socket that resets");
        }
        if !stays {
            return;
        }
    }
}

fn request(work: WorkKind, id: &str) -> Box<Request> {
    let body = bytes::Bytes::copy_from_slice(id.as_bytes());
    let mut request = Request::new(Method::POST, PathAndQuery::from_static("/v1/x"), body.into());
    request.work = work;
    Box::new(request)
}

/// Whether a request got a whole answer.
async fn exchange(client: &Client, upstream: &Upstream, work: WorkKind, id: &str) -> bool {
    match within(client.send_boxed(&upstream.base.origin, request(work, id))).await {
        Ok(answer) => text(answer.body).await.is_ok(),
        Err(_) => false,
    }
}

async fn play(script: [Deed; 3], work: WorkKind) {
    let shared = Arc::new(Mutex::new(Play { script: script.into(), done: Vec::new() }));
    let stage = Arc::clone(&shared);
    let upstream = Upstream::start(move |stream, _| perform(stream, Arc::clone(&stage))).await;
    let client = client();
    for id in ["a", "b", "c", "d"] {
        let is_answered = exchange(&client, &upstream, work, id).await;
        let deeds: Vec<Deed> = {
            let play = shared.lock().unwrap_or_else(PoisonError::into_inner);
            play.done.iter().filter(|(of, _)| of == id).map(|(_, deed)| *deed).collect()
        };
        let told = format!("{work:?} {script:?}: {id} met {deeds:?}");
        let (last, before) =
            deeds.split_last().map_or((None, &[][..]), |(last, before)| (Some(*last), before));
        for deed in before {
            // A lookup may be sent again when not a byte came; a goodbye belongs to the idle connection and answers
            // nothing.
            let may_repeat = match work {
                WorkKind::Lookup => matches!(deed, Deed::HangsUp | Deed::Resets | Deed::SaysGoodbye),
                WorkKind::Text => *deed == Deed::SaysGoodbye,
                WorkKind::Creation => false,
            };
            assert!(may_repeat, "{told}");
        }
        assert!(before.len() <= 1, "{told}");
        let is_said_goodbye_to = last == Some(Deed::SaysGoodbye);
        if !is_said_goodbye_to {
            assert_eq!(is_answered, last.is_some_and(Deed::is_an_answer), "{told}");
        }
        let is_kept = matches!(last, Some(Deed::Answers | Deed::Refuses | Deed::AnswersAndHangsUp));
        assert_eq!(client.idle(&upstream.base.origin), usize::from(is_kept), "{told}");
    }
}

#[tokio::test]
async fn in_whatever_order_things_go_wrong_nothing_is_read_twice_that_may_stay() {
    for work in [WorkKind::Lookup, WorkKind::Text, WorkKind::Creation] {
        for first in DEEDS {
            for second in DEEDS {
                for third in DEEDS {
                    play([first, second, third], work).await;
                }
            }
        }
    }
}
