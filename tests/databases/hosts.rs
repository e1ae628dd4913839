//! Several hosts in an address of PostgreSQL: the one that accepts changes is used.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::json;

use super::soon;
use crate::support::{self, Home, Partition, ServerDatabase, Setup};

/// Starts a stub of a standby on a port of its own: it accepts every login, and answers every simple query with `on`.
/// Queries in another form hang.
fn standby() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || drop(serve(client)));
        }
    });
    place
}

/// Speaks PostgreSQL's protocol (PostgreSQL documentation, "Message Formats") with one client.
fn serve(mut client: TcpStream) -> Result<()> {
    let ready = message(b'Z', b"I");
    read_body(&mut client)?;
    client.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat())?;
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        read_body(&mut client)?;
        if kind == *b"Q" {
            let text_column =
                [&[0, 1][..], b"x\0", &[0; 6], &25_i32.to_be_bytes(), &[255; 6], &[0; 2]].concat();
            let row = [&[0, 1][..], &2_i32.to_be_bytes(), b"on"].concat();
            let answer =
                [message(b'T', &text_column), message(b'D', &row), message(b'C', b"SHOW\0"), ready.clone()];
            client.write_all(&answer.concat())?;
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).expect("a short message");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn read_body(client: &mut TcpStream) -> Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length") - 4];
    client.read_exact(&mut body)
}

/// Returns the address of the database with another host before its own.
fn behind(first: &str, server: &ServerDatabase) -> String {
    server.url().replace(server.place(), &format!("{first},{}", server.place()))
}

#[track_caller]
fn starts_and_makes_changes(home: &std::sync::Arc<Home>, url: &str) {
    let gateway = Setup::default().with("DB_URL", url).start_in(home.clone());
    let change = json!({ "notifyCooldownSec": 77 });
    gateway.admin().put("/api/settings/runtime", &change).expect(200);
    let other = Setup::default().start_in(home.clone());
    let site = json!({ "name": "far", "url": "http://127.0.0.1:9", "platform": "openai" });
    other.admin().post("/api/sites", &site).expect(200);
    soon("the change of another instance is seen", || {
        gateway.admin().get("/api/sites").json()[0]["name"] == "far"
    });
}

#[test]
fn a_standby_is_not_taken_for_the_primary() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "postgres") else { return };
    let url = behind(&standby(), server);
    starts_and_makes_changes(&home, &format!("{url}?target_session_attrs=primary"));
}

#[test]
fn a_host_that_hangs_does_not_keep_from_the_next_one() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "postgres") else { return };
    let way = Partition::before(server.place());
    way.cut();
    let gone = way.instead_of("postgres://host:1/x");
    let gone = gone.trim_start_matches("postgres://").trim_end_matches("/x").replace("host", "127.0.0.1");
    starts_and_makes_changes(&home, &behind(&gone, server));
}

#[test]
fn an_address_that_asks_for_a_server_without_changes_is_refused() {
    let home = Home::new();
    let Some(server) = home.server().filter(|server| server.kind() == "postgres") else { return };
    let url = format!("{}?target_session_attrs=read-only", server.url());
    let said = support::run(&Setup::default().with("PORT", "4999").with("DB_URL", &url), &home, &["serve"]);
    assert_eq!(said.status.code(), Some(78), "{}", said.stderr);
    assert!(said.stderr.contains("target_session_attrs=read-only"), "{}", said.stderr);
}
