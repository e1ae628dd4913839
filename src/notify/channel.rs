//! The notification channels: which are usable, and one delivery on each.

use std::sync::Arc;
use std::time::Duration;

use super::failure::{Failure, TIMEOUT};
use super::mail::{self, Envelope};
use super::message::Message;
use super::post::{FORM, JSON, PostTarget};
use super::smtp::Server;
use super::webhook::Form;
use super::{chat_bot, push_app, push_service};
use crate::config::runtime::Values;
use crate::request_id::RequestId;
use crate::routing::OutboundProxy;
use crate::upstream::Client;

/// The pause before the second attempt, which is made if no connection was established.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// A channel that is enabled and has its target. Carries secrets, so it has no `Debug`.
#[derive(Clone)]
pub(super) enum Channel {
    Webhook { url: String },
    PushApp { url: String },
    PushService { key: String },
    ChatBot { api: String, token: String, chat: String, topic: String, proxy: Option<String> },
    Mail { server: Server, from: String, to: String },
}

impl Channel {
    /// Returns the channels that are enabled and have the addresses and keys that they need.
    pub(super) fn usable(values: &Values) -> Vec<Self> {
        let text = |key| values.text(key).to_owned();
        let proxy = values.flag("telegram_use_system_proxy").then(|| text("system_proxy_url"));
        let all = [
            (["webhook_enabled", "webhook_url"].as_slice(), Self::Webhook { url: text("webhook_url") }),
            (&["bark_enabled", "bark_url"], Self::PushApp { url: text("bark_url") }),
            (&["serverchan_enabled", "serverchan_key"], Self::PushService { key: text("serverchan_key") }),
            (
                &["telegram_enabled", "telegram_bot_token", "telegram_chat_id"],
                Self::ChatBot {
                    api: text("telegram_api_base_url"),
                    token: text("telegram_bot_token"),
                    chat: text("telegram_chat_id"),
                    topic: text("telegram_message_thread_id"),
                    proxy: proxy.filter(|url| !url.is_empty()),
                },
            ),
            (
                &["smtp_enabled", "smtp_host", "smtp_from", "smtp_to"],
                Self::Mail { server: server(values), from: text("smtp_from"), to: text("smtp_to") },
            ),
        ];
        let is_set = |key: &&str| values.flag(key) || !values.text(key).is_empty();
        let usable = all.into_iter().filter(|(needs, _)| needs.iter().all(is_set));
        usable.map(|(_, channel)| channel).collect()
    }

    /// Returns the channel's name for operators: the prefix of its settings.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Webhook { .. } => "webhook",
            Self::PushApp { .. } => "bark",
            Self::PushService { .. } => "serverchan",
            Self::ChatBot { .. } => "telegram",
            Self::Mail { .. } => "smtp",
        }
    }

    /// Delivers a message; tries once more if no connection was established.
    pub(super) async fn deliver(&self, client: &Client, message: &Message) -> Result<(), String> {
        let first = self.attempt(client, message).await;
        let outcome = match first {
            Err(failure) if failure.unconnected => {
                tokio::time::sleep(RETRY_AFTER).await;
                self.attempt(client, message).await
            }
            other => other,
        };
        outcome.map_err(|failure| failure.text)
    }

    async fn attempt(&self, client: &Client, message: &Message) -> Result<(), Failure> {
        let target = |url: &str, proxy| PostTarget::parse(url, proxy).map_err(Failure::lasting);
        match self {
            Self::Webhook { url } => {
                let target = target(url, None)?;
                let form = Form::of(&target);
                let body = form.payload(message).to_string();
                target.post(client, JSON, body, |answer| form.verdict(answer)).await
            }
            Self::PushApp { url } => {
                let body = push_app::payload(message).to_string();
                target(url, None)?.post(client, JSON, body, |_| Ok(())).await
            }
            Self::PushService { key } => {
                let target = target(&push_service::address(key), None)?.hiding(key);
                target.post(client, FORM, push_service::form(message), push_service::verdict).await
            }
            Self::ChatBot { api, token, chat, topic, proxy } => {
                let proxy = proxy.as_deref().map(OutboundProxy::parse).transpose();
                let proxy = proxy.map_err(|why| Failure::lasting(format!("the system proxy: {why}")))?;
                let target = target(&chat_bot::address(api, token), proxy.map(Arc::new))?.hiding(token);
                let body = chat_bot::payload(message, chat, topic).to_string();
                target.post(client, JSON, body, chat_bot::verdict).await
            }
            Self::Mail { server, from, to } => {
                let envelope = Envelope::parse(from, to).map_err(Failure::lasting)?;
                let mail = mail::text(message, &envelope, RequestId::next().as_str());
                let sent = tokio::time::timeout(TIMEOUT, server.send(client, &envelope, &mail)).await;
                sent.unwrap_or_else(|_elapsed| {
                    let seconds = TIMEOUT.as_secs();
                    Err(Failure::lasting(format!(
                        "the mail server did not accept the mail within {seconds} s"
                    )))
                })
            }
        }
    }
}

fn server(values: &Values) -> Server {
    Server {
        host: values.text("smtp_host").to_owned(),
        port: u16::try_from(values.count("smtp_port")).unwrap_or_default(),
        implicit_tls: values.flag("smtp_secure"),
        user: values.text("smtp_user").to_owned(),
        password: values.text("smtp_pass").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;

    fn names(saved: Value) -> Vec<&'static str> {
        let (config, _) = crate::config::read(&HashMap::new()).expect("defaults");
        let saved = saved.as_object().expect("an object").iter();
        let saved = saved.map(|(key, value)| (key.clone(), value.to_string())).collect();
        Channel::usable(&Values::new(&config, &saved)).iter().map(Channel::name).collect()
    }

    #[test]
    fn a_channel_is_usable_when_it_is_on_and_knows_where_to_send() {
        for (saved, expected) in [
            (json!({}), &[][..]),
            (json!({"webhook_url": "https://h.example"}), &["webhook"]),
            (json!({"webhook_url": "https://h.example", "webhook_enabled": false}), &[]),
            (json!({"bark_url": "https://h.example", "serverchan_key": "k"}), &["bark", "serverchan"]),
            (json!({"telegram_bot_token": "1:a", "telegram_chat_id": "2"}), &[]),
            (json!({"telegram_enabled": true, "telegram_bot_token": "1:a"}), &[]),
            (
                json!({"telegram_enabled": true, "telegram_bot_token": "1:a", "telegram_chat_id": "2"}),
                &["telegram"],
            ),
            (json!({"smtp_enabled": true, "smtp_host": "h", "smtp_from": "a@b.example"}), &[]),
            (
                json!({"smtp_enabled": true, "smtp_host": "h", "smtp_from": "a@b.example", "smtp_to": "c@d.example"}),
                &["smtp"],
            ),
        ] {
            assert_eq!(names(saved.clone()), expected, "{saved}");
        }
    }
}
