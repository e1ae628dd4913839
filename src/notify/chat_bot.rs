//! The chat bot channel. The bot's token is part of the address: no text from here ever shows one.

use serde_json::{Value, json};

use super::message::{Message, cut};
use crate::routing::encode_component;

/// Returns the address for the bot's messages.
pub(super) fn address(api: &str, token: &str) -> String {
    let api = api.trim_end_matches('/');
    // The colon of a token is not encoded, as in every example of the API.
    let token = encode_component(token).to_string().replace("%3A", ":");
    format!("{api}/bot{token}/sendMessage")
}

/// Builds the payload, without `parse_mode`: the text is shown as it is. `topic` is a number in a text, or blank.
pub(super) fn payload(message: &Message, chat: &str, topic: &str) -> Value {
    let text = format!("{}\n\n{}", message.tag_line(), message.levelled());
    let mut payload = json!({
        "chat_id": chat,
        "text": cut(&text, 3900, usize::MAX),
        "disable_web_page_preview": true,
    });
    if let Ok(topic) = topic.parse::<u64>() {
        payload["message_thread_id"] = topic.into();
    }
    payload
}

/// Reads a response: `{"ok":false,"description":…}` is a refusal, whatever the status.
pub(super) fn verdict(body: &[u8]) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    match &answer["ok"] {
        Value::Bool(false) => {
            Err(answer["description"].as_str().unwrap_or("the bot API refused the message").to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;
    use crate::store::events::EventLevel;

    #[test]
    fn the_address_keeps_the_token_whole() {
        for (api, token, expected) in [
            ("https://api.telegram.org", "1:AA-b_c", "https://api.telegram.org/bot1:AA-b_c/sendMessage"),
            ("http://h.example/tg/", "1:a/../b?", "http://h.example/tg/bot1:a%2F..%2Fb%3F/sendMessage"),
        ] {
            assert_eq!(address(api, token), expected);
        }
    }

    #[test]
    fn the_text_has_a_level_line_and_the_topic_is_a_number() {
        let message = sample("*bold* _x_ <b>", "m", EventLevel::Warning);
        let text = "[Switchyard][WARNING] *bold* _x_ <b>\n\nm\n\nLevel: warning\n\
            Local Time: 2026-03-01 16:00:00 (Asia/Shanghai)\nUTC Time: 2026-03-01T08:00:00.000Z";
        let expected = json!({"chat_id": "-100", "text": text, "disable_web_page_preview": true});
        assert_eq!(payload(&message, "-100", ""), expected);
        assert_eq!(payload(&message, "-100", "42")["message_thread_id"], 42);
        let long = payload(&sample("t", &"a".repeat(5000), EventLevel::Info), "1", "");
        let text = long["text"].as_str().expect("a text");
        assert_eq!((text.len(), text.ends_with("...(truncated)")), (3900, true));
    }

    #[test]
    fn the_api_says_no_in_the_body() {
        for (body, refused) in [
            (r#"{"ok":true,"result":{"message_id":1}}"#, None),
            ("", None),
            (
                r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#,
                Some("Bad Request: chat not found"),
            ),
        ] {
            assert_eq!(verdict(body.as_bytes()).err().as_deref(), refused, "{body}");
        }
    }
}
