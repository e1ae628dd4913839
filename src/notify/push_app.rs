//! The push app channel: a POST, since a long message does not fit into a path.

use serde_json::{Value, json};

use super::message::{Message, SENDER, cut_escaped};
use crate::store::events::EventLevel;

/// The maximum lengths of title and text, in bytes of JSON. Apple's push service delivers at most 4096 bytes, among
/// them what the app's server adds.
const MAX_TITLE: usize = 400;
const MAX_BODY: usize = 3000;

pub(super) fn payload(message: &Message) -> Value {
    // The app's levels say how urgent a message is, not how severe.
    let level = match message.level {
        EventLevel::Info | EventLevel::Warning => "active",
        EventLevel::Error => "timeSensitive",
    };
    let (title, body) = (cut_escaped(&message.title, MAX_TITLE), cut_escaped(&message.text, MAX_BODY));
    json!({"title": title, "body": body, "group": SENDER, "level": level})
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;

    #[test]
    fn a_long_message_fits_into_what_apple_delivers() {
        for text in ["x", "\"", "\u{754c}", "<"] {
            let payload =
                payload(&sample(&text.repeat(900), &text.repeat(9000), EventLevel::Info)).to_string();
            assert!(payload.len() < 3600, "{}", payload.len());
        }
    }

    #[test]
    fn levels_are_those_of_the_app() {
        for (level, shown) in [
            (EventLevel::Info, "active"),
            (EventLevel::Warning, "active"),
            (EventLevel::Error, "timeSensitive"),
        ] {
            let expected = json!({"title": "t", "body": "m", "group": "Switchyard", "level": shown});
            assert_eq!(payload(&sample("t", "m", level)), expected);
        }
    }
}
