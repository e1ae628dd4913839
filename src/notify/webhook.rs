//! The webhook channel, in the form of the service that the address belongs to.

use serde_json::{Value, json};

use super::message::{Message, cut};
use super::post::{PostTarget, json_of, refusal_code};

/// The service that a webhook's address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Generic,
    /// A group robot of WeCom (qyapi.weixin.qq.com).
    WeCom,
    /// A custom bot of Feishu or Lark.
    Feishu,
}

impl Form {
    pub(super) fn of(target: &PostTarget) -> Self {
        match target.host() {
            "qyapi.weixin.qq.com" if target.path().contains("/cgi-bin/webhook/send") => Self::WeCom,
            "open.feishu.cn" | "open.larksuite.com" if target.path().contains("/open-apis/bot/v2/hook/") => {
                Self::Feishu
            }
            _ => Self::Generic,
        }
    }

    pub(super) fn payload(self, message: &Message) -> Value {
        match self {
            Self::Generic => json!({
                "title": message.title,
                "message": message.text,
                "level": message.level.as_str(),
                "timestamp": message.timestamp,
                "localTime": message.local_time,
                "timeZone": message.zone,
            }),
            // The service's limit is 2048 bytes.
            Self::WeCom => {
                json!({"msgtype": "text", "text": {"content": cut(&message.tagged(), 1900, 2048)}})
            }
            Self::Feishu => {
                // Its text messages support one piece of markup, which mentions people: `<at user_id="all">`.
                let text = message.tagged().replace("<at ", "<\u{200b}at ");
                json!({"msg_type": "text", "content": {"text": cut(&text, 3900, usize::MAX)}})
            }
        }
    }

    /// Reads the body of a 2xx response: the chat platforms refuse with a code in it.
    pub(super) fn verdict(self, body: &[u8]) -> Result<(), String> {
        match self {
            Self::Generic => Ok(()),
            Self::WeCom => refusal_code(&json_of(body)?, "errcode"),
            Self::Feishu => refusal_code(&json_of(body)?, "code"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::sample;
    use super::*;
    use crate::store::events::EventLevel;

    #[test]
    fn the_address_tells_the_form() {
        for (url, form) in [
            ("https://hooks.example/x", Form::Generic),
            ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k", Form::WeCom),
            ("https://QYAPI.weixin.qq.com/proxy/cgi-bin/webhook/send", Form::WeCom),
            ("https://qyapi.weixin.qq.com/cgi-bin/other", Form::Generic),
            ("https://qyapi.weixin.qq.com.evil.example/cgi-bin/webhook/send", Form::Generic),
            ("https://open.feishu.cn/open-apis/bot/v2/hook/abc", Form::Feishu),
            ("https://open.larksuite.com/open-apis/bot/v2/hook/abc", Form::Feishu),
            ("https://open.feishu.cn/other", Form::Generic),
            ("https://h.example/?x=/cgi-bin/webhook/send", Form::Generic),
        ] {
            let target = PostTarget::parse(url, None).expect(url);
            assert_eq!(Form::of(&target), form, "{url}");
        }
    }

    /// Operators' scripts read these members.
    #[test]
    fn the_generic_form_is_that_of_the_example() {
        let message = "alice @ Demo site: token invalid or expired (HTTP 401)";
        let payload = Form::Generic.payload(&sample("Token expired", message, EventLevel::Error));
        let expected = json!({"title": "Token expired", "message": message, "level": "error",
            "timestamp": "2026-03-01T08:00:00.000Z", "localTime": "2026-03-01 16:00:00", "timeZone": "Asia/Shanghai"});
        assert_eq!(payload, expected);
    }

    #[test]
    fn chat_platforms_get_the_tagged_text_cut_to_their_limits() {
        let short = sample("t", "m", EventLevel::Info);
        let text = short.tagged();
        assert_eq!(Form::WeCom.payload(&short), json!({"msgtype": "text", "text": {"content": text}}));
        assert_eq!(Form::Feishu.payload(&short), json!({"msg_type": "text", "content": {"text": text}}));

        for (filler, units, bytes) in [("a", 1900, 2048), ("\u{754c}", 1900, 2048)] {
            let long = Form::WeCom.payload(&sample("t", &filler.repeat(5000), EventLevel::Info));
            let content = long["text"]["content"].as_str().expect("a text");
            assert!(content.ends_with("...(truncated)"), "{content}");
            assert!(content.chars().count() <= units && content.len() <= bytes, "{}", content.len());
            assert!(content.chars().count() == units || content.len() > bytes - 3, "as much as fits");
        }
        let long = Form::Feishu.payload(&sample("t", &"a".repeat(5000), EventLevel::Info));
        assert_eq!(long["content"]["text"].as_str().map(str::len), Some(3900));
    }

    #[test]
    fn a_text_calls_nobody_in_a_chat() {
        let payload = Form::Feishu.payload(&sample("t", "<at user_id=\"all\">x</at>", EventLevel::Info));
        let text = payload["content"]["text"].as_str().expect("a text");
        assert!(!text.contains("<at "), "{text}");
    }

    #[test]
    fn chat_platforms_say_no_in_the_body() {
        for (form, body, refused) in [
            (Form::Generic, "whatever", None),
            // developer.work.weixin.qq.com, group robots: `{"errcode":0,"errmsg":"ok"}`.
            (Form::WeCom, r#"{"errcode":0,"errmsg":"ok"}"#, None),
            (Form::WeCom, r#"{}"#, None),
            (
                Form::WeCom,
                r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#,
                Some("errcode 93000: invalid webhook url"),
            ),
            (Form::WeCom, "ok", Some("the answer is not JSON")),
            // open.feishu.cn, custom bots: `{"code":19001,"msg":"param invalid"}`.
            (Form::Feishu, r#"{"code":0,"msg":"success","data":{}}"#, None),
            (Form::Feishu, r#"{"code":19001,"msg":"param invalid"}"#, Some("code 19001: param invalid")),
            (Form::Feishu, "<html>", Some("the answer is not JSON")),
        ] {
            assert_eq!(form.verdict(body.as_bytes()).err().as_deref(), refused, "{form:?} {body}");
        }
    }
}
