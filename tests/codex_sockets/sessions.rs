//! The turns of conversations: which socket each takes, and how many run at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::scope;

use serde_json::{Value, json};

use super::codex::{Codex, answer};
use super::{MODEL, SWITCH, gateway, gateway_in, question};
use crate::support::{Gate, Gateway, Home, Setup, eventually};

/// Sends a turn of a conversation that the client names.
fn turn(gateway: &Gateway, session: &str, stream: bool) {
    let answer = gateway.client().send(question(stream).header("session_id", session));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn the_turns_of_a_conversation_go_over_one_socket() {
    let later: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&later);
    let codex = Codex::start(move |talk| {
        talk.answer_in(usize::MAX);
        while let Some(said) = talk.next() {
            seen.lock().expect("no panic there").push(said);
            talk.answer_in(usize::MAX);
        }
    });
    let gateway = gateway(&[], &[&codex]);
    for stream in [false, true, true] {
        turn(&gateway, "a", stream);
    }
    assert_eq!(codex.methods().len(), 1);
    let said = later.lock().expect("no panic there").clone();
    assert_eq!(said.len(), 2);
    for said in said {
        assert_eq!((&said["type"], &said["model"]), (&json!("response.create"), &json!(MODEL)), "{said}");
        assert!(said["previous_response_id"].is_null(), "each turn says all that was said: {said}");
    }
    turn(&gateway, "b", false);
    assert_eq!(codex.methods().len(), 2, "another conversation has a socket of its own");
    for _ in 0..2 {
        gateway.client().send(question(false)).expect(200);
    }
    assert_eq!(codex.methods().len(), 4, "nobody knows what follows on a question without a name");
    turn(&gateway, "a", false);
    assert_eq!(codex.methods().len(), 4);
    assert!(gateway.wait_for_logs(7).iter().all(|row| row["status"] == "success"));
}

#[test]
fn a_socket_that_its_upstream_ends_between_two_turns_is_missed_by_nobody() {
    let limit = json!({"type": "error", "status": 400, "error": {"type": "invalid_request_error",
        "code": "websocket_connection_limit_reached", "message": "Create a new WebSocket connection"}});
    for says_goodbye in [true, false] {
        let ended = Gate::new();
        let (limit, open) = (limit.clone(), ended.clone());
        let codex = Codex::start(move |talk| {
            talk.answer_in(usize::MAX);
            if says_goodbye {
                let _ = talk.0.close(None);
                let _ = talk.0.flush();
                open.open();
            } else if talk.next().is_some() {
                talk.say(&limit);
            }
            talk.wait_for_end();
        });
        let gateway = gateway(&[], &[&codex]);
        turn(&gateway, "a", false);
        if says_goodbye {
            ended.wait();
        }
        turn(&gateway, "a", true);
        assert_eq!(codex.methods(), ["GET", "GET"]);
        let row = gateway.wait_for_logs(2).remove(0);
        assert_eq!((&row["status"], &row["retryCount"]), (&json!("success"), &json!(0)), "{row}");
    }
}

/// Starts a gateway with one account that sessions share: `at_once` limits them, and the others wait for up to `wait`.
fn shared_by_sessions(codex: &Codex, at_once: &str, wait: &str) -> Gateway {
    let home = Home::new();
    let limits = [
        SWITCH,
        ("PROXY_SESSION_CHANNEL_CONCURRENCY_LIMIT", at_once),
        ("PROXY_SESSION_CHANNEL_QUEUE_WAIT_MS", wait),
    ];
    let setup = limits.iter().fold(Setup::default(), |setup, (name, value)| setup.with(name, value));
    let mut gateway = gateway_in(setup, home.clone(), &[codex]);
    gateway.signal("TERM");
    gateway.wait_for_exit();
    let update = "UPDATE accounts SET oauth_provider = 'codex', access_token = 'sk-upstream-key'";
    home.database().run(update);
    gateway.restart()
}

fn says(gateway: &Gateway, session: &str) -> u16 {
    gateway.client().send(question(false).header("session_id", session)).status
}

#[test]
fn a_session_beyond_those_that_may_be_at_work_over_sockets_is_refused_after_its_wait() {
    let gate = Gate::new();
    let open = gate.clone();
    let codex = Codex::start(move |talk| {
        open.wait();
        talk.answer();
    });
    let gateway = shared_by_sessions(&codex, "1", "1");
    scope(|scope| {
        let first = scope.spawn(|| says(&gateway, "a"));
        eventually("one is at work", || (codex.asked().len() == 1).then_some(()));
        assert_eq!(says(&gateway, "b"), 503);
        assert_eq!(codex.asked().len(), 1);
        gate.open();
        assert_eq!(first.join().expect("no panic"), 200);
    });
    assert_eq!(says(&gateway, "b"), 200, "the place is free again");
    assert!(codex.methods().iter().all(|method| method == "GET"));
}

#[test]
fn sessions_wait_for_their_turn_over_sockets_and_all_of_them_get_it() {
    const AT_ONCE: usize = 2;
    const ALL: usize = 7;
    let (answer_one, may_answer) = channel();
    let may_answer = Mutex::new(may_answer);
    let (at_work, most): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
    let (now, seen) = (Arc::clone(&at_work), Arc::clone(&most));
    let codex = Codex::start(move |talk| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        may_answer.lock().expect("no panic there").recv().expect("the test goes on");
        // The place is free with the last frame, which may be read before this thread goes on.
        talk.answer_in(answer().len() - 1);
        now.fetch_sub(1, Ordering::SeqCst);
        talk.say(answer().last().expect("a frame"));
        talk.wait_for_end();
    });
    let gateway = shared_by_sessions(&codex, "2", "60000");
    let sessions: Vec<String> = (0..ALL).map(|number| format!("session-{number}")).collect();
    scope(|scope| {
        let asks: Vec<_> = sessions.iter().map(|session| scope.spawn(|| says(&gateway, session))).collect();
        // Answered one after the other, so that requests that do not wait for their turn would show.
        for answered in 0..ALL {
            let begun = ALL.min(answered + AT_ONCE);
            eventually("as many as may be are at work", || (codex.asked().len() >= begun).then_some(()));
            answer_one.send(()).expect("somebody is at work");
        }
        for ask in asks {
            assert_eq!(ask.join().expect("no panic"), 200);
        }
    });
    assert_eq!(codex.methods(), ["GET"; ALL]);
    let most = most.load(Ordering::SeqCst);
    assert!(most <= AT_ONCE, "{most} at once");
}
