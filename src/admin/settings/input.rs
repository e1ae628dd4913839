//! Reads a change of the runtime settings: each field by its rule, then checks of the whole.

use std::net::IpAddr;

use serde_json::Value;

use crate::admin::input::{Fields, Invalid};
use crate::admin::secrets;
use crate::config::rule::{Rule, is_web_address};
use crate::config::runtime::{SETTINGS, Setting, Values};
use crate::settings::{AllowList, LOG_CLEANUP_KEYS};

/// The change that one request makes.
pub struct Change {
    /// The fields that were sent, without secrets that only came back masked; in the table's order.
    sent: Vec<Sent>,
    before: Values,
    /// The values after the change.
    after: Values,
}

/// A field that was sent.
struct Sent {
    setting: &'static Setting,
    /// Whether it was sent under its other name.
    by_alias: bool,
    value: Value,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Returns the settings whose values differ from the current ones.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Setting, &Value)> {
        let differs = |sent: &&Sent| *self.before.get(sent.setting.key) != sent.value;
        self.sent.iter().filter(differs).map(|sent| (sent.setting, &sent.value))
    }

    /// Whether the value of one of these settings differs from the current one.
    pub fn touches(&self, keys: &[&str]) -> bool {
        self.changed().any(|(setting, _)| keys.contains(&setting.key))
    }

    /// Whether a setting of a notification channel changes.
    pub fn touches_channels(&self) -> bool {
        let prefixes = ["webhook_", "bark_", "serverchan_", "telegram_", "smtp_"];
        self.changed().any(|(setting, _)| prefixes.iter().any(|prefix| setting.key.starts_with(prefix)))
    }

    pub fn turns_on(&self, key: &str) -> bool {
        self.touches(&[key]) && self.after.flag(key)
    }

    /// Returns the rows to store. Those of the log cleanup are only stored together.
    pub fn stored(&self) -> Vec<(&'static str, &Value)> {
        let mut rows: Vec<_> = self.sent.iter().map(|sent| (sent.setting.key, &sent.value)).collect();
        if rows.iter().any(|(key, _)| LOG_CLEANUP_KEYS.contains(key)) {
            for key in LOG_CLEANUP_KEYS {
                if !rows.iter().any(|(known, _)| *known == key) {
                    rows.push((key, self.after.get(key)));
                }
            }
        }
        rows
    }
}

/// Reads a request as a change of the current values. Refuses a change that locks `caller` out.
pub fn read(fields: &Fields, current: &Values, caller: IpAddr) -> Result<Change, Invalid> {
    let (mut sent, mut after) = (Vec::new(), current.clone());
    for setting in SETTINGS {
        let names = std::iter::once(setting.field).chain(setting.alias);
        let given = names.filter_map(|name| Some((name, fields.get(name)?))).next();
        let Some((name, value)) = given else { continue };
        let held = current.get(setting.key);
        if is_echo(setting.rule, value, held) {
            continue;
        }
        if setting.rule.is_mask(value) {
            return Err(Invalid::field(name, secrets::WHOLE));
        }
        let value = setting.rule.sent(value, held).map_err(|expected| Invalid::field(name, &expected))?;
        after.set(setting.key, value.clone());
        sent.push(Sent { setting, by_alias: setting.alias == Some(name), value });
    }
    let change = Change { sent, before: current.clone(), after };
    check_channels(&change)?;
    check_allow_list(&change, caller)?;
    Ok(change)
}

/// Whether a secret was sent back as it is shown, which means that it is unchanged.
fn is_echo(rule: Rule, sent: &Value, held: &Value) -> bool {
    let (Some(sent), Some(held)) = (sent.as_str().map(str::trim), held.as_str()) else { return false };
    match rule {
        Rule::Secret | Rule::ProxyToken => secrets::is_echo(sent, Some(held)),
        Rule::Proxy | Rule::BotApi => secrets::is_proxy_echo(sent, Some(held)),
        Rule::Target => secrets::is_target_echo(sent, held),
        _ => false,
    }
}

/// Refuses a notification channel that would be enabled but cannot send. Checks only the channels that the request touches:
/// the environment may have enabled another one without an address.
fn check_channels(change: &Change) -> Result<(), Invalid> {
    let after = &change.after;
    let is_used = |prefix: &str, enabled: &str| {
        change.sent.iter().any(|sent| sent.setting.key.starts_with(prefix)) && after.flag(enabled)
    };
    // A refusal names the field as the request names the channel's fields.
    let uses_alias =
        |prefix: &str| change.sent.iter().any(|sent| sent.setting.key.starts_with(prefix) && sent.by_alias);
    let is_sent = |key: &str| change.sent.iter().any(|sent| sent.setting.key == key);
    let push_app_url = if uses_alias("bark_") { "pushAppUrl" } else { "barkUrl" };
    for (prefix, enabled, key, field) in [
        ("webhook_", "webhook_enabled", "webhook_url", "webhookUrl"),
        ("bark_", "bark_enabled", "bark_url", push_app_url),
    ] {
        if is_sent(key) && !after.text(key).is_empty() && !is_web_address(after.text(key)) {
            return Err(Invalid::field(field, "http or https address"));
        }
        if is_used(prefix, enabled) && !is_web_address(after.text(key)) {
            return Err(Invalid::field(field, "http or https address while its channel is enabled"));
        }
    }
    if is_used("telegram_", "telegram_enabled") {
        let (token, chat) = if uses_alias("telegram_") {
            ("chatbotBotToken", "chatbotChatId")
        } else {
            ("telegramBotToken", "telegramChatId")
        };
        if !after.text("telegram_bot_token").contains(':') {
            return Err(Invalid::field(token, "bot token with a colon while the bot is enabled"));
        }
        if after.text("telegram_chat_id").is_empty() {
            return Err(Invalid::field(chat, "non-empty string while the bot is enabled"));
        }
    }
    if is_used("smtp_", "smtp_enabled") {
        for (key, field) in [("smtp_from", "smtpFrom"), ("smtp_to", "smtpTo")] {
            let mut addresses = after.text(key).split(',').map(str::trim).filter(|entry| !entry.is_empty());
            if !addresses.all(is_mail_address) {
                return Err(Invalid::field(field, "mail addresses while e-mail is enabled"));
            }
        }
        for (key, field) in [("smtp_host", "smtpHost"), ("smtp_from", "smtpFrom"), ("smtp_to", "smtpTo")] {
            // What was never set may be sent later; what is set may not be emptied.
            let is_empty = |values: &Values| values.text(key).trim_matches([',', ' ']).is_empty();
            if is_sent(key) && is_empty(after) && !is_empty(&change.before) {
                return Err(Invalid::field(field, "non-empty string while e-mail is enabled"));
            }
        }
        if is_sent("smtp_host") && !is_host(after.text("smtp_host")) {
            return Err(Invalid::field("smtpHost", "name or address of a server, without a port"));
        }
    }
    Ok(())
}

/// Whether a text is a host name, an IPv4 address, or an IPv6 address with or without brackets.
fn is_host(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && !":/@[]?#\\".contains(c);
    inner.parse::<std::net::Ipv6Addr>().is_ok() || text.chars().all(is_name)
}

/// Whether an entry has the form `a@b` or `Name <a@b>`.
fn is_mail_address(entry: &str) -> bool {
    let address =
        entry.strip_suffix('>').and_then(|entry| entry.rsplit_once('<')).map_or(entry, |(_, inner)| inner);
    address.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && !host.is_empty() && !address.contains([' ', '<', '>']) && !host.contains('@')
    })
}

fn check_allow_list(change: &Change, caller: IpAddr) -> Result<(), Invalid> {
    let is_sent = change.sent.iter().any(|sent| sent.setting.rule == Rule::Networks);
    if is_sent && !AllowList::of(&change.after.texts("admin_ip_allowlist")).admits(caller) {
        let expected = format!("a list that admits your own address, {caller}");
        return Err(Invalid::field("adminIpAllowlist", &expected));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use crate::admin::settings::input::*;
    use crate::admin::settings::schema::RUNTIME_CHANGE;

    fn values(saved: Value) -> Values {
        let (config, _) = crate::config::read(&HashMap::new()).expect("defaults");
        let saved = saved.as_object().expect("an object").iter();
        Values::new(&config, &saved.map(|(key, value)| (key.clone(), value.to_string())).collect())
    }

    fn read_from(saved: Value, body: Value, caller: &str) -> Result<Change, String> {
        let fields = Fields::of(&RUNTIME_CHANGE, body.as_object().cloned().expect("an object"));
        read(&fields, &values(saved), caller.parse().expect("an address"))
            .map_err(|invalid| invalid.to_string())
    }

    fn refusal(saved: Value, body: Value) -> String {
        read_from(saved, body.clone(), "198.51.100.10").err().unwrap_or_else(|| panic!("{body} was accepted"))
    }

    #[test]
    fn a_channel_that_is_touched_must_be_able_to_send() {
        for (saved, body, named) in [
            (json!({}), json!({"webhookEnabled": true}), "webhookUrl"),
            (json!({}), json!({"webhookUrl": "ftp://x"}), "webhookUrl"),
            (json!({"webhook_url": "https://h.example/x"}), json!({"webhookUrl": ""}), "webhookUrl"),
            (json!({}), json!({"barkUrl": "x"}), "barkUrl"),
            (json!({}), json!({"pushAppUrl": "x"}), "pushAppUrl"),
            (json!({}), json!({"pushAppEnabled": true}), "pushAppUrl"),
            (json!({}), json!({"telegramEnabled": true}), "telegramBotToken"),
            (json!({"telegram_bot_token": "1:a"}), json!({"chatbotEnabled": true}), "chatbotChatId"),
            (json!({}), json!({"telegramApiBaseUrl": "bot.example"}), "telegramApiBaseUrl"),
            (json!({}), json!({"chatbotMessageThreadId": "07"}), "chatbotMessageThreadId"),
            (json!({}), json!({"smtpEnabled": true, "smtpTo": "a@b.example, nobody"}), "smtpTo"),
            (json!({"smtp_enabled": true, "smtp_to": "a@b.example"}), json!({"smtpTo": " , "}), "smtpTo"),
            (json!({"smtp_enabled": true, "smtp_host": "h.example"}), json!({"smtpHost": ""}), "smtpHost"),
            (json!({"smtp_enabled": true}), json!({"smtpHost": "h h"}), "smtpHost"),
            (json!({"smtp_enabled": true}), json!({"smtpHost": "127.0.0.1:25"}), "smtpHost"),
        ] {
            let message = refusal(saved, body.clone());
            assert!(message.starts_with(&format!("Invalid {named}.")), "{body}: {message}");
        }
        for (saved, body) in [
            (json!({}), json!({"checkinCron": "0 9 * * *"})),
            (json!({}), json!({"webhookEnabled": false, "webhookUrl": ""})),
            (json!({}), json!({"webhookUrl": "https://h.example/x"})),
            (json!({}), json!({"serverChanEnabled": true})),
            (json!({}), json!({"telegramEnabled": true, "telegramBotToken": "1:a", "telegramChatId": "7"})),
            (json!({}), json!({"smtpEnabled": true, "smtpFrom": "Gate <g@b.example>", "smtpTo": ""})),
            (json!({"smtp_enabled": true}), json!({"smtpHost": "mail.b.example"})),
            (json!({"smtp_enabled": true}), json!({"smtpHost": "2001:db8::25"})),
            (json!({"smtp_host": "h.example"}), json!({"smtpHost": ""})),
        ] {
            assert!(read_from(saved, body.clone(), "198.51.100.10").is_ok(), "{body}");
        }
    }

    #[test]
    fn nobody_locks_himself_out() {
        let message = refusal(json!({}), json!({"adminIpAllowlist": ["10.0.0.0/8"]}));
        assert!(message.contains("198.51.100.10"), "{message}");
        let message = refusal(json!({}), json!({"adminIpAllowlist": ["198.51.100.10/99"]}));
        assert!(message.contains("198.51.100.10/99"), "{message}");
        for list in [
            json!([]),
            json!(""),
            json!(["198.51.100.0/24"]),
            json!("198.51.100.10, 10.0.0.1"),
            json!("::/0,0.0.0.0/0"),
        ] {
            let change = read_from(json!({}), json!({"adminIpAllowlist": list}), "198.51.100.10");
            assert!(change.is_ok(), "{list}");
        }
    }

    #[test]
    fn a_secret_that_comes_back_masked_is_not_sent_at_all() {
        let saved = json!({"proxy_token": "sk-0123456789", "smtp_pass": "a-password", "webhook_url": "https://h.example/key",
            "system_proxy_url": "http://u:secret@p.example:8080"});
        let echoes = json!({"proxyToken": "sk-0****6789", "smtpPass": "a-pa****word", "webhookUrl": "https://h.example/****",
            "systemProxyUrl": "http://u:****@p.example:8080"});
        assert!(read_from(saved.clone(), echoes, "::1").expect("accepted").is_empty());
        let cleared = read_from(saved, json!({"smtpPass": ""}), "::1").expect("accepted");
        assert_eq!(cleared.stored(), [("smtp_pass", &json!(""))]);
    }

    #[test]
    fn the_four_settings_of_the_log_cleanup_are_stored_together() {
        let change = read_from(json!({}), json!({"logCleanupCron": "0 5 * * *", "smtpPort": "25"}), "::1");
        let change = change.expect("accepted");
        let mut keys: Vec<_> = change.stored().into_iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        let mut expected = LOG_CLEANUP_KEYS.to_vec();
        expected.push("smtp_port");
        expected.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(change.changed().count(), 2);
    }
}
