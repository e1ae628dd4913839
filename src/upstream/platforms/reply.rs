//! Reads the answers of upstreams to management calls: JSON of several shapes, error pages, garbage.

use std::collections::HashSet;

use bytes::Bytes;
use hyper::http::StatusCode;
use serde_json::Value;

use crate::byte_order_mark;
use crate::error_words::sites;
use crate::idle_thread::run_on_idle_thread;
use crate::one_line::short_line;

/// The longest body, in bytes, that is read on the spot: it takes less than a millisecond.
const SHORT: usize = 64 * 1024;
/// The longest text of an upstream's own words that is kept, in characters.
const MAX_MESSAGE: usize = 300;
/// The longest name of a user, a key or a group, in characters: what the store can index.
const MAX_NAME_CHARS: usize = 191;
/// The longest name of a model that is read, in bytes: more than the store can index in any writing, so that a discovery
/// reports the names that are too long. Anything longer is garbage.
pub const MAX_MODEL_NAME: usize = 1024;

/// Parses JSON, also behind the mark with which some programs begin a text in UTF-8.
pub(super) fn json(body: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(byte_order_mark::strip(body))
}

/// Reads a body with `reader`; reads a long one on a thread where no request waits behind it.
pub(super) async fn read<T: Send + 'static>(
    body: Bytes,
    reader: impl FnOnce(&[u8]) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    if body.len() <= SHORT {
        return reader(&body);
    }
    run_on_idle_thread(move || reader(&body))
        .await
        .unwrap_or_else(|_| Err("the answer could not be read".to_owned()))
}

/// The message of a failure that came without one.
pub(super) const SPEECHLESS: &str = "the site reported a failure without a message";

/// Reads a member that names something: one line of a bounded length. `None` when it is blank or no text.
pub(super) fn name(value: &Value, member: &str) -> Option<String> {
    value.get(member)?.as_str().and_then(name_of_text)
}

/// Returns a name as [`name`] does; `None` when it is blank.
pub(super) fn name_of_text(text: &str) -> Option<String> {
    Some(short_line(text, MAX_NAME_CHARS, "")).filter(|name| !name.is_empty())
}

/// Reads a whole number, also one that a site writes as text.
pub(super) fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    }
}

/// Returns the model names in an answer, trimmed; of names that differ in case only, the first. The error is for
/// people.
pub(super) fn model_names(body: &[u8]) -> Result<Vec<String>, String> {
    if let Some(page) = page_summary(StatusCode::OK, body) {
        return Err(format!("a web page instead of a model list: {page}"));
    }
    let answer = json(body).map_err(|_| "the model list is not valid JSON".to_owned())?;
    if answer.get("success") == Some(&Value::Bool(false)) {
        return Err(message(&answer).unwrap_or_else(|| SPEECHLESS.into()));
    }
    names_in(&answer)
        .ok_or_else(|| message(&answer).unwrap_or_else(|| "the answer has no list of models".into()))
}

/// Returns the names of the models that a session's user may use: a list, or an object whose keys are the names,
/// whatever their values are; `None` when there is neither. Programs in Go write an empty list as `null`.
pub(super) fn names_of_session(answer: &Value) -> Option<Vec<String>> {
    const NOT_MODELS: [&str; 5] = ["success", "message", "code", "data", "error"];
    match answer.get("data") {
        Some(Value::Object(models)) => {
            let names = models.keys().map(String::as_str).filter(|name| !NOT_MODELS.contains(name));
            Some(distinct_names(names))
        }
        Some(Value::Null) if answer["success"] == true => Some(Vec::new()),
        _ => names_in(answer),
    }
}

/// Returns the model names in an answer that is JSON; `None` when it has no list.
fn names_in(answer: &Value) -> Option<Vec<String>> {
    let list = answer.get("data").or_else(|| answer.get("models")).unwrap_or(answer);
    let names: Vec<&str> = match list {
        Value::Array(items) => items.iter().filter_map(name_of).collect(),
        // one-hub lists its models as the keys of an object of objects.
        Value::Object(models) if answer.get("data").is_some() && models.values().all(Value::is_object) => {
            models.keys().map(String::as_str).collect()
        }
        _ => return None,
    };
    Some(distinct_names(names))
}

/// Returns the names trimmed, without garbage; of names that differ in case only, the first.
fn distinct_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    let names = names.into_iter().map(|name| name.trim().trim_start_matches("models/"));
    let names = names
        .filter(|name| !name.is_empty() && name.len() <= MAX_MODEL_NAME && !name.contains(char::is_control));
    names.filter(|name| seen.insert(name.to_lowercase())).map(str::to_owned).collect()
}

fn name_of(item: &Value) -> Option<&str> {
    match item {
        Value::String(name) => Some(name),
        _ => item.get("id").or_else(|| item.get("name"))?.as_str(),
    }
}

/// Formats a failure as `HTTP <status>: <what the upstream says>`, in one short line.
pub(super) fn failure(status: StatusCode, body: &[u8]) -> String {
    let error_message = page_summary(status, body)
        .or_else(|| json(body).ok().as_ref().and_then(message))
        .unwrap_or_else(|| one_line(&String::from_utf8_lossy(body)));
    match error_message.as_str() {
        "" => format!("HTTP {}", status.as_u16()),
        error_message => format!("HTTP {}: {error_message}", status.as_u16()),
    }
}

/// Returns the error message of a body, in one short line; `None` when it is JSON without one.
pub(super) fn error_message(body: &[u8]) -> Option<String> {
    match json(body).ok() {
        Some(answer) => message(&answer),
        None => Some(one_line(&String::from_utf8_lossy(body))),
    }
}

/// Returns the text by which a failure is judged: its message and its code.
pub(super) fn words(body: &[u8]) -> String {
    let Ok(answer) = json(body) else {
        return one_line(&String::from_utf8_lossy(body));
    };
    let code = answer.get("code").and_then(Value::as_str).map(one_line);
    message(&answer).into_iter().chain(code).collect::<Vec<_>>().join(" ")
}

/// Returns the upstream's error message, from whichever of the usual places, with its name for the error.
pub(super) fn message(answer: &Value) -> Option<String> {
    let error = answer.get("error");
    let places =
        [answer.get("message"), error.and_then(|error| error.get("message")), error, answer.get("msg")];
    let texts = places.into_iter().flatten().filter_map(Value::as_str);
    let text = texts.map(one_line).find(|text| !text.is_empty())?;
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    Some(match answer.get("reason").and_then(Value::as_str).filter(is_name) {
        Some(name) => format!("{text} ({name})"),
        None => text,
    })
}

/// Returns the title of an HTML page, up to its first `|`, with the error number that Cloudflare's pages carry, and a
/// remark on pages that want to run a script: where JSON was asked for, bot shields send those.
pub(super) fn page_summary(status: StatusCode, body: &[u8]) -> Option<String> {
    if !is_page(body) {
        return None;
    }
    let title = title(body).map(|title| one_line(title.split('|').next().unwrap_or_default()));
    let lower = String::from_utf8_lossy(body).to_ascii_lowercase();
    let title = title.filter(|title| !title.is_empty()).unwrap_or_else(|| "HTML page".into());
    let number = lower.match_indices("error").find_map(|(at, word)| {
        let digits = lower[at + word.len()..].trim_start_matches([' ', ':']);
        let number: String = digits.chars().take_while(char::is_ascii_digit).collect();
        (number.len() == 4).then_some(number)
    });
    let title = match number {
        Some(number) if !title.contains(&number) => format!("{title} (Error {number})"),
        _ => title,
    };
    let is_shield = sites::is_shield_page(&lower, Some(status.as_u16()));
    Some(if is_shield { format!("{title} (a script page, as bot shields send)") } else { title })
}

/// Whether a web page wants to run a script, whatever its status.
pub(super) fn is_script_page(body: &[u8]) -> bool {
    is_page(body) && sites::is_shield_page(&String::from_utf8_lossy(body).to_lowercase(), None)
}

/// Returns the title of a web page, with its white space collapsed.
pub(super) fn title(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let lower = text.to_ascii_lowercase(); // ASCII only: offsets stay those of `text`
    let tag = lower.find("<title")?;
    let from = tag + lower[tag..].find('>')? + 1;
    let to = from + lower[from..].find("</title")?;
    Some(one_line(&text[from..to]))
}

/// Whether a body is a web page, whatever its type says.
pub(super) fn is_page(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&body[..body.len().min(4096)]).to_ascii_lowercase();
    let start = head.trim_start_matches(byte_order_mark::CHAR).trim_start();
    start.starts_with('<')
        && ["<!doctype html", "<html", "<head", "<title", "<body", "<script"]
            .iter()
            .any(|tag| start.contains(tag))
}

/// Shortens a text to one line of a readable length.
pub(super) fn one_line(text: &str) -> String {
    short_line(text, MAX_MESSAGE, "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_the_first_spelling_wins() {
        let body = br#"{"data":[{"id":" GPT-4o "},{"id":"gpt-4o"},{"id":""},{"id":7},"plain",{"name":"models/gemini-2.5-pro"}]}"#;
        assert_eq!(model_names(body), Ok(vec!["GPT-4o".into(), "plain".into(), "gemini-2.5-pro".into()]));
    }

    #[test]
    fn names_are_one_bounded_line() {
        let item = serde_json::json!({"a": "\u{1b}[31mRED\u{7}\r\n2026 ERROR \u{202e}x", "b": "N".repeat(400_000),
            "c": " \r\n", "d": 7});
        assert_eq!(name(&item, "a").as_deref(), Some("[31mRED 2026 ERROR x"));
        assert_eq!(name(&item, "b"), Some("N".repeat(191)));
        assert_eq!(["c", "d", "e"].map(|member| name(&item, member)), [None, None, None]);
    }

    #[test]
    fn every_known_shape_of_a_list_is_read() {
        for body in [
            r#"{"object":"list","data":[{"id":"m"}]}"#,
            r#"{"success":true,"data":["m"]}"#,
            r#"{"models":[{"name":"models/m"}]}"#,
            r#"{"success":true,"data":{"m":{"groups":[]}}}"#,
            r#"[{"id":"m"}]"#,
        ] {
            assert_eq!(model_names(body.as_bytes()), Ok(vec!["m".into()]), "{body}");
        }
    }

    #[test]
    fn an_unreadable_model_list_is_refused_with_a_reason() {
        for (body, reason) in [
            ("<!doctype html><title>Sign in | Relay</title>", "a web page instead of a model list: Sign in"),
            (
                "<html><script>var arg1='B8B7';</script></html>",
                "a web page instead of a model list: HTML page (a script page, as bot shields send)",
            ),
            (r#"{"data":[{"id":"m"#, "the model list is not valid JSON"),
            (r#"{"data":"none"}"#, "the answer has no list of models"),
            (r#"{"data":{"id":"m"}}"#, "the answer has no list of models"),
            ("17", "the answer has no list of models"),
            ("", "the model list is not valid JSON"),
            (r#"{"success":false,"message":"access token 无效"}"#, "access token 无效"),
        ] {
            assert_eq!(model_names(body.as_bytes()), Err(reason.to_owned()), "{body}");
        }
    }

    #[test]
    fn failures_are_shown_in_one_line() {
        let status = StatusCode::from_u16(530).expect("a status");
        let page = "<html><head><title>Cloudflare Tunnel error | relay.example</title></head><body>Error 1033</body>";
        for (body, shown) in [
            (page, "HTTP 530: Cloudflare Tunnel error (Error 1033)"),
            ("<html><title>Down</title><script src=x></script></html>", "HTTP 530: Down"),
            (r#"{"error":{"message":"bad  key"}}"#, "HTTP 530: bad key"),
            (r#"{"error":"nope"}"#, "HTTP 530: nope"),
            (r#"{"msg":"no"}"#, "HTTP 530: no"),
            ("busy\n\nnow", "HTTP 530: busy now"),
            ("", "HTTP 530"),
        ] {
            assert_eq!(failure(status, body.as_bytes()), shown);
        }
    }
}
