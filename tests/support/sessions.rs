//! Recorded sessions of command-line clients (`tests/clients/record.py`): each request as it was sent.

use serde_json::Value;

const CLAUDE_CODE: &str = include_str!("../clients/sessions/claude_code.json");
const CODEX: &str = include_str!("../clients/sessions/codex.json");

/// Returns the requests of Claude Code, turn by turn, to `/v1/messages`.
pub fn claude_code() -> Vec<Value> {
    requests(CLAUDE_CODE)
}

/// Returns the requests of Codex, turn by turn, to `/v1/responses`.
pub fn codex() -> Vec<Value> {
    requests(CODEX)
}

/// Rebuilds the requests; each turn is stored as its difference from the one before.
fn requests(text: &str) -> Vec<Value> {
    let session: Value = serde_json::from_str(text).expect("a session");
    let said = session["said"].as_str().expect("a name");
    let mut body = serde_json::json!({ said: [] });
    let mut requests = Vec::new();
    for turn in session["turns"].as_array().expect("turns") {
        for (name, value) in turn["members"].as_object().expect("members") {
            match value {
                Value::Null => drop(body.as_object_mut().expect("an object").remove(name)),
                value => body[name] = value.clone(),
            }
        }
        let conversation = body[said].as_array_mut().expect("a conversation");
        conversation.truncate(turn["kept"].as_u64().expect("a count") as usize);
        conversation.extend(turn["said"].as_array().expect("what follows").iter().cloned());
        requests.push(body.clone());
    }
    requests
}
