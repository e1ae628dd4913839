//! The push app channel: a POST, since a long message does not fit into a path.

use serde_json::{Value, json};

use super::message::{Message, SENDER};
use crate::store::events::EventLevel;

pub(super) fn payload(message: &Message) -> Value {
    // The app's levels say how urgent a message is, not how severe.
    let level = match message.level {
        EventLevel::Info | EventLevel::Warning => "active",
        EventLevel::Error => "timeSensitive",
    };
    json!({"title": message.title, "body": message.text, "group": SENDER, "level": level})
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;

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
