//! The push service channel: a form, sent to the address of the operator's key.

use serde_json::Value;

use super::message::Message;
use super::post::refusal_code;
use crate::one_line::{one_line, short_line};
use crate::routing::encode_component;

/// The limits of the service (sct.ftqq.com): the title in characters, the text in bytes.
const MAX_TITLE: usize = 32;
const MAX_TEXT: usize = 32 * 1024;

/// Returns the address for messages to the owner of a key. Keys of the service's third version (sc3.ft07.com) have the form
/// `sctp`, number of the owner, `t`, secret; each owner has a host.
pub(super) fn address(key: &str) -> String {
    let owner = key.strip_prefix("sctp").and_then(|rest| rest.split_once('t')).map(|(owner, _)| owner);
    let owner = owner.filter(|owner| !owner.is_empty() && owner.bytes().all(|digit| digit.is_ascii_digit()));
    let key = encode_component(key);
    match owner {
        Some(owner) => format!("https://{owner}.push.ft07.com/send/{key}.send"),
        None => format!("https://sctapi.ftqq.com/{key}.send"),
    }
}

/// Builds the message as `application/x-www-form-urlencoded`.
pub(super) fn form(message: &Message) -> String {
    let title = match one_line(&message.title) {
        title if title.chars().count() > MAX_TITLE => short_line(&title, MAX_TITLE - 1, "…"),
        title => title,
    };
    let text = message.levelled_within(MAX_TEXT);
    format!("title={}&desp={}", encode_component(&title), encode_component(&text))
}

/// Reads a response: `{"code":0,…}` is a success; so is a body that is not JSON.
pub(super) fn verdict(body: &[u8]) -> Result<(), String> {
    match serde_json::from_slice::<Value>(body) {
        Ok(answer) => refusal_code(&answer, "code"),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;
    use crate::store::events::EventLevel;

    #[test]
    fn the_form_survives_every_character() {
        let message = sample("a&b=c\n\u{754c} \"+%", "x&title=y", EventLevel::Error);
        let form = form(&message);
        let fields: Vec<(&str, String)> = form
            .split('&')
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| {
                let value = percent_encoding::percent_decode_str(value).decode_utf8().expect("UTF-8");
                (name, value.into_owned())
            })
            .collect();
        let desp = "x&title=y\n\nLevel: error\nLocal Time: 2026-03-01 16:00:00 (Asia/Shanghai)\n\
            UTC Time: 2026-03-01T08:00:00.000Z";
        assert_eq!(
            fields,
            [("title", "a&b=c \u{754c} \"+%".to_owned()), ("desp", desp.to_owned())],
            "{form}"
        );
        assert!(!form.contains([' ', '+', '\n']), "{form}");
    }

    #[test]
    fn a_long_message_keeps_to_the_limits_of_the_service() {
        let form = form(&sample(&"t".repeat(33), &"m".repeat(100_000), EventLevel::Error));
        let text = percent_encoding::percent_decode_str(&form).decode_utf8().expect("UTF-8");
        let (title, text) = text.split_once("&desp=").expect("two fields");
        assert_eq!(title, format!("title={}…", "t".repeat(31)));
        assert!(text.len() <= MAX_TEXT && text.ends_with("Z"), "{}", text.len());
    }

    #[test]
    fn a_key_tells_its_address_and_stays_within_its_path_segment() {
        for (key, expected) in [
            ("SCT1abc", "https://sctapi.ftqq.com/SCT1abc.send"),
            ("a/b?c#d", "https://sctapi.ftqq.com/a%2Fb%3Fc%23d.send"),
            ("sctp12tab/c", "https://12.push.ft07.com/send/sctp12tab%2Fc.send"),
            ("sctptab", "https://sctapi.ftqq.com/sctptab.send"),
            ("sctp1.x.exampletab", "https://sctapi.ftqq.com/sctp1.x.exampletab.send"),
        ] {
            assert_eq!(address(key), expected);
        }
    }

    #[test]
    fn the_service_says_no_in_the_body() {
        for (body, refused) in [
            (r#"{"code":0,"message":"","data":{"pushid":"1"}}"#, None),
            // The response of sct.ftqq.com to a wrong key.
            (r#"{"code":40001,"message":"bad pushtoken"}"#, Some("code 40001: bad pushtoken")),
            ("ok", None),
        ] {
            assert_eq!(verdict(body.as_bytes()).err().as_deref(), refused, "{body}");
        }
    }
}
