//! The files interface: only the key that uploaded a file can list, read and delete it.

use std::io::Write;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::support::paths::FILES;
use crate::support::{Answer, Caller, Gateway, Home, Request, Setup, eventually};

/// Builds a form with a file and a purpose.
fn form(filename: &str, content_type: Option<&str>, purpose: Option<&str>, content: &[u8]) -> Request {
    let mut body = Vec::new();
    let mut part = |head: &str, content: &[u8]| {
        write!(body, "--bound\r\nContent-Disposition: form-data; {head}\r\n\r\n").expect("memory");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    };
    let content_type = content_type.map(|name| format!("\r\nContent-Type: {name}")).unwrap_or_default();
    part(&format!("name=\"file\"; filename=\"{filename}\"{content_type}"), content);
    if let Some(purpose) = purpose {
        part("name=\"purpose\"", purpose.as_bytes());
    }
    body.extend_from_slice(b"--bound--\r\n");
    Request::post(FILES).header("content-type", "multipart/form-data; boundary=bound").body(body)
}

fn upload(client: &Caller, filename: &str, content: &[u8]) -> Value {
    client.send(form(filename, None, None, content)).expect(200)
}

fn path(file: &Value) -> String {
    format!("{FILES}/{}", file["id"].as_str().expect("an id"))
}

fn read(client: &Caller, file: &Value) -> Answer {
    client.get(&format!("{}/content", path(file)))
}

/// Returns the ids of a list, and whether there are more.
fn listed(client: &Caller, query: &str) -> (Vec<String>, bool) {
    let list = client.get(&format!("{FILES}{query}")).expect(200);
    assert_eq!(list["object"], "list");
    let ids = list["data"].as_array().expect("data").iter();
    let ids = ids.map(|file| file["id"].as_str().expect("an id").to_owned()).collect();
    (ids, list["has_more"].as_bool().expect("has_more"))
}

/// Returns a caller with an existing key.
fn client_of(gateway: &Gateway, number: u32) -> Caller {
    gateway.with_token(&format!("sk-managed-key-{number}"))
}

fn managed(gateway: &Gateway, number: u32) -> Caller {
    let key = format!("sk-managed-key-{number}");
    let body = json!({"name": format!("key {number}"), "key": key, "supportedModels": ["*"]});
    gateway.add_key(&body)
}

/// Returns bytes that do not repeat within reach of a compressor.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Queries the database of a running gateway.
fn number(gateway: &Gateway, sql: &str) -> i64 {
    gateway.home().database().number(sql)
}

#[test]
fn what_is_uploaded_can_be_read_back() {
    let gateway = Gateway::start();
    let client = gateway.client();
    let content = noise(1_300_000);
    let file = client
        .send(form("caf\u{e9} 1.pdf", Some("application/pdf"), Some("user_data"), &content))
        .expect(200);
    let id = file["id"].as_str().expect("an id");
    assert!(id.starts_with("file-sy-") && id.len() == 40, "{id}");
    for (field, value) in [
        ("object", json!("file")),
        ("bytes", json!(1_300_000)),
        ("filename", json!("caf\u{e9} 1.pdf")),
        ("purpose", json!("user_data")),
        ("mime_type", json!("application/pdf")),
        ("status", json!("processed")),
    ] {
        assert_eq!(file[field], value, "{field}");
    }
    let created = file["created_at"].as_i64().expect("whole seconds");
    assert_eq!(file["expires_at"].as_i64(), Some(created + 30 * 86_400));
    assert_eq!(client.get(&path(&file)).expect(200), file);
    let answer = read(&client, &file);
    assert_eq!(answer.status, 200);
    assert!(answer.body == content, "{} bytes came", answer.body.len());
    for (name, value) in [
        ("content-type", "application/pdf"),
        ("content-length", "1300000"),
        ("x-content-type-options", "nosniff"),
        (
            "content-disposition",
            "attachment; filename=\"caf%C3%A9%201.pdf\"; filename*=UTF-8''caf%C3%A9%201.pdf",
        ),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let head = client.send(Request::new("HEAD", &format!("{}/content", path(&file))));
    assert_eq!((head.status, head.header("content-length")), (200, Some("1300000")));
    let sum: String = digest(&SHA256, &content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(number(&gateway, &format!("SELECT COUNT(*) FROM proxy_files WHERE sha256 = '{sum}'")), 1);
}

#[test]
fn defaults_fill_what_a_form_leaves_open() {
    let gateway = Gateway::start();
    let client = gateway.client();
    for (filename, content_type, expected, mime) in [
        ("notes.md", None, "notes.md", "text/markdown"),
        ("a.mp3", Some("application/octet-stream"), "a.mp3", "audio/mpeg"),
        ("", Some("text/plain; charset=utf-8"), "upload.bin", "text/plain"),
        ("x.bin", Some("image/png"), "x.bin", "image/png"),
    ] {
        let file = client.send(form(filename, content_type, None, b"content")).expect(200);
        assert_eq!((&file["filename"], &file["mime_type"]), (&json!(expected), &json!(mime)));
        assert_eq!(file["purpose"], "assistants");
    }
    let long = upload(&client, &format!("{}.txt", "n".repeat(3000)), b"content");
    assert_eq!(
        (&long["filename"], &long["mime_type"]),
        (&json!(format!("{}.txt", "n".repeat(251))), &json!("text/plain"))
    );
    let empty = upload(&client, "empty.txt", b"");
    assert_eq!(empty["bytes"], 0);
    assert_eq!(read(&client, &empty).expect(200), Value::Null);
}

#[test]
fn a_form_that_is_none_is_refused() {
    let gateway = Gateway::start();
    let client = gateway.client();
    let raw =
        |content_type: &str, body: &str| Request::post(FILES).header("content-type", content_type).body(body);
    let multipart = "multipart/form-data; boundary=b";
    let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n1\r\n";
    let cases = [
        (Request::post(FILES).json(&json!({"file": "x"})), "multipart/form-data"),
        (raw("multipart/form-data", "x"), "boundary"),
        (raw(multipart, ""), "ends before its closing boundary"),
        (raw(multipart, "--b--\r\n"), "file is required"),
        (raw(multipart, file), "ends before its closing boundary"),
        (raw(multipart, &format!("{file}{file}--b--")), "one file"),
        (raw(multipart, "--b\r\nbroken\r\n\r\n1\r\n--b--"), "no colon"),
        (
            raw(
                multipart,
                &format!(
                    "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n{}\r\n--b--",
                    "p".repeat(65)
                ),
            ),
            "purpose",
        ),
        (form("x.exe", None, None, b"MZ"), "Unsupported file type"),
        (form("x.pdf", Some("application/zip"), None, b"PK"), "Unsupported file type"),
    ];
    for (ask, text) in cases {
        let error = client.send(ask).expect(400)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(text)), "{text}: {error}");
    }
    assert_eq!(listed(&client, "").0.len(), 0);
    eventually("nothing is left of them", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks") == 0).then_some(())
    });
}

#[test]
fn a_file_that_is_to_go_before_all_others_is_refused() {
    const DAY: i64 = 86_400;
    let gateway = Gateway::start();
    let field = |name: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let ask = |anchor: &str, seconds: &str| {
        let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n1\r\n";
        let (anchor, seconds) =
            (field("expires_after[anchor]", anchor), field("expires_after[seconds]", seconds));
        let body = format!("{file}{anchor}{seconds}--b--");
        gateway
            .client()
            .send(Request::post(FILES).header("content-type", "multipart/form-data; boundary=b").body(body))
    };
    let kept = ask("created_at", &(30 * DAY).to_string()).expect(200);
    let lasts = |file: &Value| {
        file["expires_at"].as_i64().zip(file["created_at"].as_i64()).map(|(end, start)| end - start)
    };
    assert_eq!(lasts(&kept), Some(30 * DAY));
    for (anchor, seconds, told) in [
        ("created_at", "3600", "kept for 30 days"),
        ("created_at", "-5", "positive"),
        ("created_at", "soon", "positive"),
        ("last_used", "2592000", "anchor"),
    ] {
        let error = ask(anchor, seconds).expect(400)["error"].clone();
        assert_eq!(error["param"], "expires_after", "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(told)), "{error}");
    }
    assert_eq!(listed(&gateway.client(), "").0.len(), 1);
}

#[test]
fn a_file_exists_for_its_owner_only() {
    let gateway = Gateway::start();
    let (a, b, global) = (managed(&gateway, 1), managed(&gateway, 2), gateway.client());
    let file = upload(&a, "secret.txt", b"for A alone");
    for other in [&b, &global] {
        assert_eq!(listed(other, "").0.len(), 0);
        let content = format!("{}/content", path(&file));
        for answer in [other.get(&path(&file)), other.get(&content), other.delete(&path(&file))] {
            let error = answer.expect(404)["error"].clone();
            assert_eq!(error["type"], "not_found_error", "{error}");
        }
        other.get(&format!("{FILES}?after={}", file["id"].as_str().unwrap())).expect(400);
    }
    gateway.anyone().get(&path(&file)).expect(401);
    assert_eq!(read(&a, &file).text(), "for A alone");
    let shared = upload(&global, "shared.txt", b"for all with the token");
    a.get(&path(&shared)).expect(404);
    assert_eq!(listed(&a, "").0, [file["id"].as_str().unwrap()]);
}

#[test]
fn a_deleted_file_is_gone_with_its_bytes() {
    let gateway = Gateway::start();
    let client = gateway.client();
    let file = upload(&client, "a.txt", &noise(600_000));
    let gone = json!({"id": file["id"], "object": "file", "deleted": true});
    assert_eq!(client.delete(&path(&file)).expect(200), gone);
    for answer in [client.delete(&path(&file)), client.get(&path(&file)), read(&client, &file)] {
        answer.expect(404);
    }
    assert_eq!(listed(&client, "").0.len(), 0);
    for table in ["proxy_file_chunks", "proxy_file_blobs"] {
        assert_eq!(number(&gateway, &format!("SELECT COUNT(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(number(&gateway, "SELECT COUNT(*) FROM proxy_files WHERE deleted_at IS NOT NULL"), 1);
    let error = client.get(&format!("{FILES}/file-sy-0")).expect(404)["error"].clone();
    assert!(error["message"].as_str().is_some_and(|text| text.contains("file-sy-0")), "{error}");
}

#[test]
fn the_same_bytes_are_stored_once_and_stay_while_one_file_has_them() {
    let gateway = Gateway::start();
    let (a, b) = (managed(&gateway, 1), managed(&gateway, 2));
    let content = noise(1_100_000);
    let files = [(&a, upload(&a, "one.txt", &content)), (&b, upload(&b, "two.txt", &content))];
    assert_ne!(files[0].1["id"], files[1].1["id"]);
    assert_eq!(number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks"), 3);
    files[0].0.delete(&path(&files[0].1)).expect(200);
    assert!(read(&b, &files[1].1).body == content);
    let third = upload(&a, "three.txt", &content);
    files[1].0.delete(&path(&files[1].1)).expect(200);
    assert!(read(&a, &third).body == content);
    a.delete(&path(&third)).expect(200);
    assert_eq!(number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks"), 0);
}

#[test]
fn the_list_is_paged_ordered_and_filtered() {
    let gateway = Gateway::start();
    let client = gateway.client();
    let ids: Vec<String> = (0..5)
        .map(|number| {
            let purpose = if number % 2 == 0 { "even" } else { "odd" };
            let content = format!("content {number}");
            let file = client.send(form("a.txt", None, Some(purpose), content.as_bytes())).expect(200);
            file["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    let pick = |places: &[usize]| -> Vec<String> { places.iter().map(|&place| ids[place].clone()).collect() };
    for (query, places, more) in [
        (String::new(), &[4, 3, 2, 1, 0][..], false),
        ("?order=asc".to_owned(), &[0, 1, 2, 3, 4], false),
        ("?limit=2".to_owned(), &[4, 3], true),
        (format!("?limit=2&after={}", ids[3]), &[2, 1], true),
        (format!("?limit=2&after={}", ids[1]), &[0], false),
        (format!("?order=asc&limit=3&after={}", ids[1]), &[2, 3, 4], false),
        ("?purpose=odd".to_owned(), &[3, 1], false),
        ("?purpose=none".to_owned(), &[], false),
        ("?limit=5".to_owned(), &[4, 3, 2, 1, 0], false),
    ] {
        assert_eq!(listed(&client, &query), (pick(places), more), "{query}");
    }
    for (query, param) in
        [("?limit=0", "limit"), ("?limit=x", "limit"), ("?order=up", "order"), ("?after=x", "after")]
    {
        let error = client.get(&format!("{FILES}{query}")).expect(400)["error"].clone();
        assert_eq!(error["param"], param, "{error}");
    }
}

/// Anthropic's formats are documented at <https://docs.anthropic.com/en/api/files-list>.
#[test]
fn clients_of_anthropic_see_files_as_anthropic_has_them() {
    let gateway = Gateway::start();
    let client = gateway.client().with("anthropic-version", "2023-06-01");
    let uploaded: Vec<Value> =
        (0..4).map(|n| upload(&client, "a.txt", format!("content {n}").as_bytes())).collect();
    let first = &uploaded[0];
    assert!(first["created_at"].as_str().is_some_and(|at| at.contains('T') && at.ends_with('Z')), "{first}");
    let expected = json!({"id": first["id"], "type": "file", "filename": "a.txt", "mime_type": "text/plain",
        "size_bytes": 9, "created_at": first["created_at"], "downloadable": true});
    assert_eq!(*first, expected);
    assert_eq!(client.get(&path(first)).expect(200), expected);
    assert_eq!(read(&client, first).text(), "content 0");
    let id = |number: usize| uploaded[number]["id"].as_str().expect("an id");
    for (query, places, more) in [
        (String::new(), &[3, 2, 1, 0][..], false),
        ("?beta=true&limit=2".to_owned(), &[3, 2], true),
        (format!("?limit=2&after_id={}", id(2)), &[1, 0], false),
        (format!("?limit=2&page={}", id(2)), &[1, 0], false),
        (format!("?limit=1&ids[]={}&ids%5B%5D=file-sy-x&ids={}", id(1), id(3)), &[1, 3], false),
        (format!("?limit=2&before_id={}", id(0)), &[2, 1], true),
        (format!("?limit=2&before_id={}", id(2)), &[3], false),
    ] {
        let list = client.get(&format!("{FILES}{query}")).expect(200);
        let data: Vec<&Value> = places.iter().map(|place: &usize| &uploaded[*place]).collect();
        let (from, to) = (id(places[0]), id(places[places.len() - 1]));
        let next = more.then_some(to);
        let expected =
            json!({"data": data, "first_id": from, "last_id": to, "has_more": more, "next_page": next});
        assert_eq!(list, expected, "{query}");
    }
    for query in ["?limit=1001", "?before_id=x", "?after_id=x"] {
        let error = client.get(&format!("{FILES}{query}")).expect(400);
        assert_eq!(
            (&error["type"], &error["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
    }
    assert_eq!(client.delete(&path(first)).expect(200), json!({"id": first["id"], "type": "file_deleted"}));
}

#[test]
fn an_upload_beyond_the_limit_is_refused() {
    let gateway =
        Gateway::with(&[("FILE_UPLOAD_LIMIT_BYTES", "1048576"), ("PROXY_FILE_QUOTA_BYTES", "1500000")]);
    let client = gateway.client();
    // The limit applies to the file; the form around it does not count.
    let whole = upload(&client, "a.txt", &noise(1_048_576));
    client.delete(&path(&whole)).expect(200);
    for beyond in [1_048_577, 1_200_000] {
        let error = client.send(form("a.txt", None, None, &noise(beyond))).expect(413)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{error}");
    }
    let messages = client.clone().with("anthropic-version", "2023-06-01");
    let error = messages.send(form("a.txt", None, None, &noise(1_048_577))).expect(413);
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("request_too_large")));
    // Chunked, so that no length is announced.
    let mut connection = client.connect();
    let chunked = Request::post(FILES)
        .header("content-type", "multipart/form-data; boundary=bound")
        .header("transfer-encoding", "chunked")
        .header("content-length", "0");
    let head = String::from_utf8(client.bytes(chunked)).expect("text").replace("content-length: 0\r\n", "");
    connection.write(head.as_bytes()).expect("sent");
    let begin = "--bound\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n";
    let _ = connection.write(format!("{:x}\r\n{begin}\r\n", begin.len()).as_bytes());
    for _ in 0..17 {
        let _ = connection.write(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes());
    }
    let _ = connection.write(b"0\r\n\r\n");
    assert_eq!(connection.read_answer(false).expect("an answer").status, 413);
    eventually("its chunks are gone", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks") == 0).then_some(())
    });
    // The quota is per owner. The space of a deleted file is free a moment after its chunks are gone.
    let first = eventually("its room is free", || {
        let answer = client.send(form("b.txt", None, None, &noise(1_000_000)));
        (answer.status != 413).then(|| answer.expect(200))
    });
    let over = client.send(form("c.txt", None, None, &noise(600_000))).expect(413);
    assert_eq!(over["error"]["code"], "file_quota_exceeded", "{over}");
    upload(&managed(&gateway, 1), "c.txt", &noise(600_000));
    client.delete(&path(&first)).expect(200);
    upload(&client, "c.txt", &noise(600_000));
}

#[test]
fn an_upload_whose_client_hangs_up_leaves_nothing() {
    let gateway = Gateway::start();
    let client = gateway.client();
    let bytes = client.bytes(form("a.txt", None, None, &noise(3 << 20)));
    let mut connection = client.connect();
    connection.write(&bytes[..2 << 20]).expect("sent");
    let chunks = || number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks");
    eventually("chunks arrive", || (chunks() > 0).then_some(()));
    drop(connection);
    eventually("and go again", || (chunks() == 0).then_some(()));
    assert_eq!(listed(&client, "").0.len(), 0);
}

#[test]
fn a_large_file_passes_without_being_kept_in_memory() {
    const SIZE: usize = 64 << 20;
    let gateway = Gateway::start();
    let client = gateway.client();
    upload(&client, "warm.txt", &noise(2 << 20));
    let before = gateway.resident_kib();
    let content = noise(SIZE);
    let mut largest = before;
    let bytes = client.bytes(form("large.txt", None, None, &content));
    let mut connection = client.connect();
    for piece in bytes.chunks(4 << 20) {
        connection.write(piece).expect("sent");
        largest = largest.max(gateway.resident_kib());
    }
    let file = connection.read_answer(false).expect("an answer").expect(200);
    largest = largest.max(gateway.resident_kib());
    assert!(largest - before < 32 << 10, "the upload took {} KiB", largest - before);
    // Other changes are not held up, and nothing is read ahead for a reader that stops.
    let mut stream = client.stream(Request::new("GET", &format!("{}/content", path(&file))));
    let mut read = stream.next_piece().expect("no break").expect("bytes");
    upload(&client, "meanwhile.txt", b"small");
    while let Some(piece) = stream.next_piece().expect("no break") {
        read.extend(piece);
        if read.len() % (8 << 20) < 64 << 10 {
            largest = largest.max(gateway.resident_kib());
        }
    }
    assert!(read == content, "{} bytes came", read.len());
    assert!(largest - before < 32 << 10, "reading it took {} KiB", largest - before);
}

#[test]
fn old_files_and_what_unfinished_uploads_left_are_forgotten() {
    let home = Home::new();
    let mut gateway = Setup::default().start_in(home.clone());
    let content = noise(600_000);
    let old = upload(&gateway.client(), "old.txt", &content);
    let same = upload(&gateway.client(), "same.txt", &content);
    let hidden = upload(&gateway.client(), "hidden.txt", b"other");
    gateway.client().delete(&path(&hidden)).expect(200);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let aged = home.database();
    for (sql, id) in [
        ("UPDATE proxy_files SET created_at = created_at - 2678400000 WHERE public_id = ?", &old),
        ("UPDATE proxy_files SET created_at = created_at - 2678400000 WHERE public_id = ?", &hidden),
        (
            "INSERT INTO proxy_file_chunks (upload, position, bytes, created_at) VALUES ('unfinished', 0, ?, 5)",
            &old,
        ),
    ] {
        aged.execute(sql, &[&id["id"].as_str()]);
    }
    let gateway = Setup::default().start_in(home);
    eventually("one row is left", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_files") == 1).then_some(())
    });
    let left = "SELECT COUNT(*) FROM proxy_file_chunks WHERE upload = 'unfinished'";
    eventually("the unfinished upload is gone", || (number(&gateway, left) == 0).then_some(()));
    gateway.client().get(&path(&old)).expect(404);
    assert!(read(&gateway.client(), &same).body == content, "its bytes are still needed");
    assert_eq!(number(&gateway, "SELECT reference_count FROM proxy_file_blobs"), 1);
}

#[test]
fn file_calls_do_not_count_against_a_keys_requests() {
    let gateway = Gateway::start();
    let body =
        json!({"name": "few", "key": "sk-managed-key-few", "supportedModels": ["*"], "maxRequests": 1});
    let client = gateway.add_key(&body);
    for number in 0..3 {
        upload(&client, "a.txt", format!("{number}").as_bytes());
    }
    assert_eq!(listed(&client, "").0.len(), 3);
}

#[test]
fn uploads_at_once_share_their_keys_quota() {
    let gateway = Gateway::with(&[("PROXY_FILE_QUOTA_BYTES", "3145728")]);
    let client = managed(&gateway, 1);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let uploads: Vec<_> = (0..16)
            .map(|number| {
                let client = client.clone();
                scope.spawn(move || {
                    let content = [&[number; 1][..], &noise((1 << 20) - 1)].concat();
                    client.send(form("a.txt", None, None, &content)).status
                })
            })
            .collect();
        uploads.into_iter().map(|upload| upload.join().expect("no panic there")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 413].contains(status)), "{statuses:?}");
    assert_eq!(number(&gateway, "SELECT SUM(byte_size) FROM proxy_files"), 3 << 20);
    eventually("the chunks of the refused are gone", || {
        (number(&gateway, "SELECT COALESCE(SUM(LENGTH(bytes)), 0) FROM proxy_file_chunks") == 3 << 20)
            .then_some(())
    });
    let refused = client.send(form("a.txt", None, None, b"x")).expect(413);
    assert_eq!(refused["error"]["code"], "file_quota_exceeded");
    let (ids, _) = listed(&client, "");
    client.delete(&format!("{FILES}/{}", ids[0])).expect(200);
    upload(&client, "a.txt", b"x");
}

#[test]
fn an_upload_under_way_takes_room_and_what_a_killed_process_left_of_one_goes() {
    let mut gateway = Gateway::with(&[("PROXY_FILE_QUOTA_BYTES", "3145728")]);
    let client = managed(&gateway, 1);
    let whole = client.bytes(form("a.txt", None, None, &noise(5 << 19)));
    let mut half = client.connect();
    half.write(&whole[..whole.len() - 1000]).expect("sent");
    eventually("its chunks are stored", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks") >= 4).then_some(())
    });
    assert_eq!(client.send(form("b.txt", None, None, &noise(1 << 20))).status, 413);
    upload(&client, "small.txt", b"there is room for this one");
    gateway.kill();
    let gateway = gateway.restart();
    eventually("what was left is gone", || {
        (number(&gateway, "SELECT COUNT(*) FROM proxy_file_chunks") == 1).then_some(())
    });
    upload(&client_of(&gateway, 1), "b.txt", &noise(1 << 20));
}
