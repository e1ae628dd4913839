//! A converted request begins with the request before it, when a conversation goes on: a provider bills a prompt that
//! begins like the previous one at a tenth. This must hold for any conversation, from each dialect to each other.
//!
//! ```text
//! conversation ─▶ its requests, one per answer ─▶ in the client's dialect ─▶ converted ─▶ one begins the next
//! ```
//!
//! The JSON is compared. All members but the list of messages must be equal, and so tools, instructions, tool choice
//! and effort, unless the client chooses other tools with each request. The messages must be equal one by one; only the
//! beginning of the last must be, since on messages and gemini the user's side may go on in it. These may differ: marks
//! for the cache; whether the one text of the last message stands in a list, which is the client's habit; and thinking
//! that is switched off because the client did not bring back the signed thinking of a tool loop that is running.

use proptest::prelude::*;

use super::client_words::in_words_of;
use super::conversations::{conversation, head, requests};
use super::*;
use Dialect::{Chat, Gemini, Messages, Responses};

pub(super) const ALL: [Dialect; 4] = [Chat, Responses, Messages, Gemini];

// === as they are converted ===

pub(super) fn targets(to: Dialect) -> &'static [(Vendor, &'static str)] {
    match to {
        Chat => &[(Vendor::OpenAi, "gpt-5.2"), (Vendor::Other, "m"), (Vendor::Gemini, "gemini-3-pro")],
        Responses => &[(Vendor::OpenAi, "gpt-5.2"), (Vendor::Other, "m")],
        Messages => &[
            (Vendor::Anthropic, "claude-opus-4-6"),
            (Vendor::Anthropic, "claude-sonnet-4-5"),
            (Vendor::Other, "glm-4.6"),
        ],
        _ => &[(Vendor::Gemini, "gemini-2.5-pro"), (Vendor::Gemini, "gemini-3-pro"), (Vendor::Other, "m")],
    }
}

pub(super) fn converted(from: Dialect, to: Dialect, (vendor, model): (Vendor, &str), body: &Value) -> Bytes {
    let target = Target { model, stream: true, vendor };
    super::super::request(from, to, &body.to_string(), &target).unwrap().body
}

/// Takes the messages out of a body.
fn messages(to: Dialect, body: &mut Value) -> Vec<Value> {
    let key = match to {
        Responses => "input",
        Gemini => "contents",
        _ => "messages",
    };
    match body.as_object_mut().unwrap().remove(key) {
        Some(Value::Array(messages)) => messages,
        other => panic!("no messages but {other:?}"),
    }
}

/// Whether a running tool loop lacks the thinking that it began with, so that thinking by a budget is off.
fn lacks_thinking(messages: &[Value]) -> bool {
    let last = messages.iter().rposition(|message| message["role"] == "assistant");
    last.is_some_and(|last| {
        let first =
            |at: usize| messages.get(at).map(|message| message["content"][0]["type"].as_str().unwrap());
        first(last + 1) == Some("tool_result") && !first(last).unwrap().ends_with("thinking")
    })
}

/// Returns a message whose only text is in a list, as the client lists its last message, without the list.
fn unwrapped(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some([text]) = message["content"].as_array().map(Vec::as_slice)
        && text["type"] == "input_text"
    {
        message["content"] = text["text"].clone();
    }
    message
}

/// Removes what concerns this request alone: the tools that may be called in it.
fn without_last_words(body: &mut Value, messages: &mut Vec<Value>) {
    let begin = "<system-reminder>In this turn call no tools but these";
    let is_word = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(begin));
    for member in ["tool_choice", "toolConfig"] {
        body.as_object_mut().unwrap().remove(member);
    }
    let Some(last) = messages.last_mut() else { return };
    if let Some(blocks) = last.get_mut("content").and_then(Value::as_array_mut) {
        blocks.retain(|block| !is_word(&block["text"]));
    }
    messages.pop_if(|last| last.get("content").is_some_and(is_word));
}

/// Returns the difference between a request and the beginning of the next.
pub(super) fn difference(to: Dialect, earlier: &Bytes, later: &Bytes, is_choosing: bool) -> Option<String> {
    let [mut earlier, mut later] =
        [earlier, later].map(|body| serde_json::from_slice::<Value>(body).unwrap());
    if to == Messages {
        without_breakpoints(&mut earlier);
        without_breakpoints(&mut later);
    }
    let (mut said, mut goes_on) = (messages(to, &mut earlier), messages(to, &mut later));
    if is_choosing {
        without_last_words(&mut earlier, &mut said);
        without_last_words(&mut later, &mut goes_on);
    }
    let is_off =
        |head: &Value, messages: &[Value]| head.get("thinking").is_none() && lacks_thinking(messages);
    if to == Messages && is_off(&earlier, &said) != is_off(&later, &goes_on) {
        for head in [&mut earlier, &mut later] {
            head.as_object_mut().unwrap().remove("thinking");
        }
    }
    if earlier != later {
        return Some(format!("head: {earlier} is not {later}"));
    }
    let (last, before) = said.split_last()?;
    if let Some(at) = (0..before.len()).find(|at| goes_on.get(*at) != Some(&before[*at])) {
        return Some(format!("message {at}: {} is not {:?}", before[at], goes_on.get(at)));
    }
    let begins = |key: &str, goes_on: &Value| {
        let (own, longer) = (last[key].as_array(), goes_on[key].as_array());
        last["role"] == goes_on["role"]
            && own.zip(longer).is_some_and(|(own, longer)| longer.starts_with(own))
    };
    let same = goes_on.get(before.len()).is_some_and(|goes_on| match to {
        Messages => begins("content", goes_on),
        Gemini => begins("parts", goes_on),
        _ => unwrapped(last) == unwrapped(goes_on),
    });
    (!same).then(|| format!("last message: {last} is not {:?}", goes_on.get(before.len())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_conversation_that_goes_on_begins_as_before(head in head(), steps in conversation()) {
        for from in ALL {
            let bodies: Vec<_> = requests(&steps).map(|steps| in_words_of(from, &head, steps)).collect();
            for to in ALL.into_iter().filter(|to| *to != from) {
                for target in targets(to) {
                    let sent: Vec<_> = bodies.iter().map(|body| converted(from, to, *target, body)).collect();
                    for (at, pair) in sent.windows(2).enumerate() {
                        let difference = difference(to, &pair[0], &pair[1], head.is_choosing());
                        prop_assert!(difference.is_none(), "{:?} to {:?} {:?}, request {}: {}", from, to, target, at, difference.unwrap());
                    }
                    // A result that depends on the order of a hash map would differ from one time to the next.
                    if let (Some(body), Some(sent)) = (bodies.last(), sent.last()) {
                        prop_assert_eq!(&converted(from, to, *target, body), sent);
                    }
                }
            }
        }
    }
}
