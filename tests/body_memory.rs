//! The memory that all request bodies share: which ones wait for it, which are refused, and when it is returned.

use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::paths::CHAT;
use crate::support::{
    Answer, CONTINUED, Caller, Connection, Gate, Gateway, PING, Reply, Request, SOON, Socket, TEXT, Upstream,
    eventually, wire,
};

const MODEL: &str = "model-m";
/// The whole memory in these tests, in bytes; one key may have three quarters of it.
const MEMORY: usize = 1 << 20;

fn gateway(variables: &[(&str, &str)]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(&[MODEL]);
    let memory = MEMORY.to_string();
    let gateway = Gateway::with(&[&[("REQUEST_BODY_MEMORY_BYTES", memory.as_str())], variables].concat())
        .in_front_of("openai", &upstream);
    (gateway, upstream)
}

/// Builds a chat request of about this many bytes.
fn chat(bytes: usize) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": "x".repeat(bytes)}]})
}

/// Builds a chat request of unknown length.
fn chunked(caller: &Caller, mut body: &[u8], chunk: usize) -> Vec<u8> {
    let head = caller.bytes(Request::post(CHAT).json_text(""));
    let head = String::from_utf8(head).expect("a head");
    let mut out = head.replace("content-length: 0", "transfer-encoding: chunked").into_bytes();
    while !body.is_empty() {
        let (now, later) = body.split_at(chunk.min(body.len()));
        out.extend(format!("{:x}\r\n", now.len()).bytes().chain(now.iter().copied()).chain(*b"\r\n"));
        body = later;
    }
    out.extend(b"0\r\n\r\n");
    out
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Creates a managed key with this name.
fn key(gateway: &Gateway, name: &str) -> Caller {
    let value = format!("sk-key-of-{name}-0123456789");
    gateway.add_key(&json!({"name": name, "key": value}))
}

/// Announces a chat request of this length without sending its body.
fn announced(gateway: &Gateway, caller: &Caller, length: usize) -> TcpStream {
    let request = Request::post(CHAT).header("content-length", &length.to_string());
    let request = request.header("content-type", "application/json").header("expect", "100-continue");
    let mut stream = TcpStream::connect(gateway.address()).expect("connected");
    stream.set_read_timeout(Some(2 * SOON)).expect("a time-out");
    stream.write_all(&caller.bytes(request)).expect("a head");
    stream
}

/// Does what [`announced`] does, and waits until the gateway has room for the body and asks for it.
fn begun(gateway: &Gateway, caller: &Caller, length: usize) -> TcpStream {
    let mut stream = announced(gateway, caller, length);
    let mut asked = [0; 12];
    stream.read_exact(&mut asked).expect("an answer");
    assert_eq!(&asked, b"HTTP/1.1 100");
    stream
}

/// Waits until no memory is held: a body that needs all of it is read and answered.
#[track_caller]
fn all_is_given_back(gateway: &Gateway, after: &str) {
    let whole = gateway.client().post(CHAT, &chat(MEMORY));
    assert_eq!(whole.status, 200, "after {after}: {}", whole.text());
}

#[track_caller]
fn is_refused_for_memory(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 503, "{what}: {}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("5"), "{what}");
    assert!(answer.text().contains("REQUEST_BODY_MEMORY_BYTES"), "{what}: {}", answer.text());
}

#[test]
fn a_large_request_waits_until_another_is_answered_and_a_small_one_does_not() {
    let (gateway, upstream) = gateway(&[]);
    let answered = Gate::default();
    upstream.answer_once(CHAT, Reply::json(200, &wire::chat(MODEL)).head_waits_for(&answered));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.client().post(CHAT, &chat(MEMORY * 3 / 4)));
        eventually("the first is at its upstream", || (upstream.asked_for(CHAT).len() == 1).then_some(()));
        let second = scope.spawn(|| gateway.client().post(CHAT, &chat(MEMORY / 2)));
        for _ in 0..20 {
            gateway.client().post(CHAT, &chat(1000)).expect(200);
        }
        let large = |upstream: &Upstream| {
            upstream.asked_for(CHAT).iter().filter(|asked| asked.body.len() > MEMORY / 4).count()
        };
        assert_eq!(large(&upstream), 1, "the second waits");
        answered.open();
        first.join().unwrap();
        second.join().unwrap().expect(200);
        assert_eq!(large(&upstream), 2);
    });
    all_is_given_back(&gateway, "two answers");
}

#[test]
fn who_finds_no_room_in_time_is_told_so_in_the_shape_of_its_dialect() {
    let (gateway, _upstream) = gateway(&[]);
    let greedy = key(&gateway, "greedy");
    // Bytes that are still to come count as well: a body that is half read must not wait for another.
    let held = begun(&gateway, &greedy, 2 * MEMORY);
    let body = chat(MEMORY / 4);
    let large = |path: &str| Request::post(path).json(&body);
    let form = |field: &str| {
        let content = "x".repeat(MEMORY / 4);
        Request::post(if field == "file" { "/v1/files" } else { "/v1/images/edits" })
            .header("content-type", "multipart/form-data; boundary=b")
            .body(format!(
                "--b\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"a.txt\"\r\n\r\n{content}\r\n--b--\r\n"
            ))
    };
    let (client, admin) = (gateway.client(), gateway.admin());
    let compressed = large(CHAT).header("content-encoding", "gzip").body(gzip(body.to_string().as_bytes()));
    let of = |caller: &Caller, request: Request| caller.bytes(request);
    let asked = [
        ("chat", of(&client, large(CHAT))),
        ("responses", of(&client, large("/v1/responses"))),
        ("messages", of(&client, large("/v1/messages"))),
        ("gemini", of(&client, large("/v1beta/models/model-m:generateContent"))),
        ("chunked", chunked(&client, body.to_string().as_bytes(), 10_000)),
        ("compressed", of(&client, compressed)),
        ("form", of(&client, form("image"))),
        ("upload", of(&client, form("file"))),
        ("admin", of(&admin, large("/api/sites"))),
    ];
    let answers: Vec<(&str, Answer)> = std::thread::scope(|scope| {
        let socket = scope.spawn(|| {
            let mut socket = gateway.client().socket();
            let body = body.to_string();
            for (at, part) in body.as_bytes().chunks(32 << 10).enumerate() {
                socket.frame(false, if at == 0 { TEXT } else { CONTINUED }, part);
                // A ping within a message does not make room for more of the message.
                socket.frame(true, PING, b"");
            }
            socket.frame(true, CONTINUED, b"");
            (socket.event(), socket.closed_with())
        });
        let asking = asked.map(|(what, request)| {
            let connection = gateway.anyone().connect();
            (
                what,
                scope.spawn(move || {
                    let mut connection = connection;
                    connection.exchange(&request)
                }),
            )
        });
        gateway.client().post(CHAT, &chat(1000)).expect(200);
        gateway.admin().get("/api/sites").expect(200);
        let (event, code) = socket.join().unwrap();
        assert_eq!((&event["type"], &event["status"], code), (&json!("error"), &json!(503), 1013), "{event}");
        assert!(event["error"]["message"].as_str().unwrap().contains("REQUEST_BODY_MEMORY_BYTES"), "{event}");
        asking.map(|(what, asking)| (what, asking.join().unwrap())).into()
    });
    for (what, answer) in &answers {
        is_refused_for_memory(answer, what);
        let error = answer.json()["error"].clone();
        match *what {
            "messages" => assert_eq!(error["type"], "overloaded_error", "{error}"),
            "gemini" => assert_eq!(error["status"], "UNAVAILABLE", "{error}"),
            "admin" => assert_eq!(answer.json()["success"], false),
            _ => assert!(error["type"].is_string(), "{what}: {error}"),
        }
    }
    drop(held);
    all_is_given_back(&gateway, "a client that is gone");
}

#[test]
fn what_a_body_has_is_given_back_however_its_request_ends() {
    let (gateway, upstream) = gateway(&[("REQUEST_BODY_LIMIT_BYTES", "2097152")]);
    let most = MEMORY * 9 / 10;
    all_is_given_back(&gateway, "an answer");
    let post = |request: Request| gateway.client().send(request);

    upstream.answer_once(CHAT, Reply::error(400, "no"));
    post(Request::post(CHAT).json(&chat(most))).expect(400);
    all_is_given_back(&gateway, "a refusal of the upstream");

    post(Request::post(CHAT).json_text("x".repeat(most))).expect(400);
    all_is_given_back(&gateway, "a body that is no JSON");

    let long = chunked(&gateway.client(), chat(3 * MEMORY).to_string().as_bytes(), 100_000);
    assert_eq!(gateway.client().connect().exchange(&long).status, 413);
    all_is_given_back(&gateway, "a body that is too long");

    let compressed = gzip(chat(most).to_string().as_bytes());
    let compressed = Request::post(CHAT).header("content-encoding", "gzip").json_text(compressed);
    post(compressed).expect(200);
    all_is_given_back(&gateway, "a compressed body");

    let mut half = begun(&gateway, &gateway.client(), 2 * MEMORY);
    half.write_all(&vec![b'x'; MEMORY / 2]).unwrap();
    drop(half);
    all_is_given_back(&gateway, "half a body");

    let asked = upstream.asked_for(CHAT).len();
    upstream.answer_once(CHAT, Reply::stall());
    let mut connection = gateway.client().connect();
    connection.write(&gateway.client().bytes(Request::post(CHAT).json(&chat(most)))).unwrap();
    eventually("the upstream is asked", || (upstream.asked_for(CHAT).len() > asked).then_some(()));
    drop(connection);
    all_is_given_back(&gateway, "a client that hangs up before its answer");

    gateway.admin().send(Request::post("/api/sites").json(&json!({"name": "x".repeat(most)}))).expect(400);
    all_is_given_back(&gateway, "a request of the admin");
}

#[test]
fn one_key_leaves_room_for_the_others() {
    let (gateway, upstream) = gateway(&[]);
    let (greedy, modest) = (key(&gateway, "greedy"), key(&gateway, "modest"));
    let held: Vec<_> = (0..3).map(|_| begun(&gateway, &greedy, MEMORY / 4)).collect();
    let waiting: Vec<_> = (0..5).map(|_| announced(&gateway, &greedy, MEMORY / 4)).collect();
    modest.post(CHAT, &chat(MEMORY / 5)).expect(200);
    assert_eq!(upstream.asked_for(CHAT).len(), 1);
    drop((held, waiting));
    all_is_given_back(&gateway, "requests that never came");
}

#[test]
fn the_conversation_of_an_idle_socket_gives_way_to_a_body() {
    let (gateway, _upstream) = gateway(&[]);
    let mut socket = gateway.client().socket();
    let turn = |socket: &mut Socket, input: String, previous: Option<&str>| {
        socket.send(&json!({"type": "response.create", "model": MODEL, "input": input, "store": false,
            "previous_response_id": previous}));
        socket.turn().pop().expect("an event")
    };
    let long = || "x".repeat(MEMORY / 4);
    let first = turn(&mut socket, long(), None);
    let id = first["response"]["id"].as_str().expect("an id");
    let second = turn(&mut socket, "And then?".to_owned(), Some(id));
    assert_eq!(second["type"], "response.completed", "nobody has waited for its memory: {second}");
    all_is_given_back(&gateway, "two turns");
    let id = second["response"]["id"].as_str().expect("an id");
    let third = turn(&mut socket, "And then?".to_owned(), Some(id));
    assert_eq!(third["error"]["code"], "previous_response_not_found", "{third}");
    assert_eq!(turn(&mut socket, long(), None)["type"], "response.completed", "all of it, once more");
}

#[test]
fn an_answer_that_finds_no_room_is_told_and_not_kept_for_the_next_turn() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let memory = MEMORY.to_string();
    let gateway =
        Gateway::with(&[("REQUEST_BODY_MEMORY_BYTES", memory.as_str())]).in_front_of("new-api", &upstream);
    let greedy = key(&gateway, "greedy");
    for (is_taken, status) in [(false, 200), (true, 400)] {
        let _held = is_taken.then(|| begun(&gateway, &greedy, 2 * MEMORY));
        let long = [
            wire::chat_role(MODEL),
            wire::chat_content(MODEL, &"y".repeat(MEMORY / 8)),
            wire::chat_chunk(MODEL, &json!({}), json!("stop")),
            "data: [DONE]\n\n".to_owned(),
        ];
        upstream.answer_once(CHAT, Reply::events(long));
        let ask = |input: &str, previous: Option<&str>, stream: bool| {
            Request::post("/v1/responses").json(&json!({"model": MODEL, "input": input, "stream": stream,
                "previous_response_id": previous}))
        };
        let answer = gateway.client().stream(ask("Which way?", None, true)).whole();
        let events = wire::data_of(&answer.text());
        let end = events.last().expect("an event");
        assert_eq!(end["type"], "response.completed", "{}", answer.status);
        let id = end["response"]["id"].as_str();
        gateway.client().send(ask("And then?", id, false)).expect(status);
    }
}

#[test]
fn an_upload_waits_for_room_before_its_file_is_taken_in() {
    let (gateway, _upstream) = gateway(&[]);
    let file = "x".repeat(3 * MEMORY);
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{file}\r\n--b--\r\n"
    );
    let upload = || {
        let request = Request::post("/v1/files").header("content-type", "multipart/form-data; boundary=b");
        gateway.client().send(request.body(form.clone()))
    };
    // Each takes all the memory, for as long as it comes.
    std::thread::scope(|scope| {
        let uploads: Vec<_> = (0..4).map(|_| scope.spawn(upload)).collect();
        for upload in uploads {
            assert_eq!(upload.join().unwrap().expect(200)["bytes"], 3 * MEMORY);
        }
    });
    all_is_given_back(&gateway, "uploads");
}

#[test]
fn what_a_small_request_goes_on_from_counts_with_it() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let gateway = Gateway::with(&[("REQUEST_BODY_MEMORY_BYTES", &MEMORY.to_string())])
        .in_front_of("new-api", &upstream);
    let client = gateway.client();
    let said = json!({"model": MODEL, "input": "x".repeat(MEMORY / 3)});
    let first = client.post("/v1/responses", &said).expect(200);
    let item = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let goes_on = json!({"model": MODEL, "previous_response_id": first["id"], "input": [item]});
    let held = begun(&gateway, &key(&gateway, "other"), MEMORY * 3 / 4);
    is_refused_for_memory(&client.post("/v1/responses", &goes_on), "what is stored has no room");
    drop(held);
    eventually("there is room again", || {
        (client.post("/v1/responses", &goes_on).status == 200).then_some(())
    });
    all_is_given_back(&gateway, "a conversation that went on");
}

#[test]
fn what_is_held_back_to_decode_a_body_counts() {
    let (gateway, _upstream) = gateway(&[]);
    let coded = |caller: &Caller, body: Vec<u8>| {
        caller.bytes(Request::post(CHAT).header("content-encoding", "zstd").json_text(body))
    };
    let mut unended = coded(&key(&gateway, "greedy"), wire::zstd_of_blanks(MEMORY));
    // Nothing comes out of the frame before its last block.
    unended.truncate(unended.len() - 4);
    let mut stream = TcpStream::connect(gateway.address()).expect("connected");
    stream.write_all(&unended).expect("most of a request");
    let whole = coded(&key(&gateway, "other"), wire::zstd_of_blanks(MEMORY / 2));
    let answer = || Connection::open(gateway.address()).exchange(&whole);
    let refused =
        eventually("the unended body has unfolded", || Some(answer()).filter(|it| it.status != 400));
    is_refused_for_memory(&refused, "nobody else's body can be decoded");
    drop(stream);
    eventually("there is room again, for a body that is no JSON", || (answer().status == 400).then_some(()));
    all_is_given_back(&gateway, "a body that never ended");
}

#[test]
fn too_many_conversions_at_once_are_refused_in_the_words_of_the_dialect() {
    let upstream = Upstream::with_one_path(MODEL, CHAT);
    let memory = [("CONVERSION_MEMORY_BYTES", "1048576"), ("REQUEST_BODY_MEMORY_BYTES", "1073741824")];
    let gateway = Gateway::with(&memory).in_front_of("new-api", &upstream);
    let parts = vec![json!({"type": "text", "text": "x".repeat(60)}); 18_000];
    let body = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": parts}]});
    let request = Request::post("/v1/messages").json(&body);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            (0..120).map(|_| scope.spawn(|| gateway.client().send(request.clone()))).collect();
        gateway
            .client()
            .post(
                "/v1/messages",
                &json!({"model": MODEL, "max_tokens": 9,
            "messages": [{"role": "user", "content": "x"}]}),
            )
            .expect(200);
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert!(!refused.is_empty(), "so many at once, of which one is converted and 64 wait");
    assert!(answers.iter().any(|answer| answer.status == 200));
    for refused in refused {
        assert_eq!(refused.header("retry-after"), Some("5"));
        let error = &refused.json()["error"];
        assert_eq!(error["type"], "overloaded_error", "{error}");
        assert!(error["message"].as_str().unwrap().contains("CONVERSION_MEMORY_BYTES"), "{error}");
    }
    gateway.client().send(request).expect(200);
}
