//! The value rules of runtime settings: values are read strictly as an operator sends them, tolerantly as they are
//! stored, and as text from the environment.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::cron::Cron;
use crate::dialect::payload_rules;
use crate::json_number::{number_or_text, shortest};
use crate::mask;
use crate::networks;
use crate::routing::OutboundProxy;

/// Maximum number of wrong list entries that a message names.
const MAX_NAMED: usize = 10;
/// The longest cooldown: 30 days, in seconds.
const MAX_COOLDOWN_SEC: f64 = 2_592_000.0;
/// Minimum cost that may be assumed for a unit.
const MIN_UNIT_COST: f64 = 1e-6;
/// The public address of the chat-bot API.
pub const BOT_API: &str = "https://api.telegram.org";
/// The members of the routing weights, with their variables and their defaults.
pub const WEIGHTS: &[(&str, &str, f64)] = &[
    ("baseWeightFactor", "BASE_WEIGHT_FACTOR", 0.5),
    ("valueScoreFactor", "VALUE_SCORE_FACTOR", 0.5),
    ("costWeight", "COST_WEIGHT", 0.4),
    ("balanceWeight", "BALANCE_WEIGHT", 0.3),
    ("usageWeight", "USAGE_WEIGHT", 0.3),
];

/// The members of the headers for Codex, with their spelling in other programs.
pub const CODEX_HEADERS: &[(&str, &str)] = &[("userAgent", "user-agent"), ("betaFeatures", "beta-features")];

/// The kind of a setting's value. Every reader returns the value in one form: trimmed, whole numbers as integers, lists
/// as arrays of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Flag,
    /// A whole number in this range; fractions are dropped first.
    Integer(i64, i64),
    /// Seconds above zero; more than 30 days counts as 30 days.
    CooldownCap,
    /// A number above zero.
    UnitCost,
    /// A number of at least zero.
    Amount,
    Text,
    /// Text that is shown masked.
    Secret,
    Schedule,
    /// A schedule, or blank for never.
    ScheduleOrOff,
    Choice(&'static [&'static str]),
    /// Texts in an array or in one text, split at commas and line ends; order and duplicates stay.
    Words,
    /// Texts in an array, without duplicates.
    List,
    /// Addresses and networks, in an array or in one text.
    Networks,
    /// The address of an outbound proxy; blank for none.
    Proxy,
    /// The token with which clients authenticate.
    ProxyToken,
    /// The target of notifications; checked when its channel is enabled. May hold a key in its path.
    Target,
    /// The address of a bot API; blank for the public one. May hold a password before its host.
    BotApi,
    /// The id of a topic: digits in a text, or blank.
    Topic,
    Weights,
    /// The values of headers for Codex; a blank one means none.
    CodexHeaders,
    /// The rules that rewrite bodies on their way to an upstream; null for none.
    PayloadRules,
}

impl Rule {
    /// Reads a value as an operator sent it; the error is the expectation. `current` is the value in force.
    pub fn sent(self, value: &Value, current: &Value) -> Result<Value, String> {
        let text = || value.as_str().map(str::trim).ok_or_else(|| "string".to_owned());
        match self {
            Self::Flag => value.as_bool().map(Value::from).ok_or_else(|| "boolean".to_owned()),
            Self::Integer(min, max) => {
                // A part of one below the minimum, as -0.5, is not rounded into the range.
                let number = number_or_text(value).filter(|number| *number >= min as f64);
                let fits = number.map(f64::trunc).filter(|number| *number <= max as f64);
                fits.map(|number| (number as i64).into()).ok_or_else(|| integer_of(min, max))
            }
            Self::CooldownCap => {
                let seconds = above_zero(value)?;
                Ok((seconds.trunc().clamp(1.0, MAX_COOLDOWN_SEC) as i64).into())
            }
            Self::UnitCost => Ok(shortest(above_zero(value)?.max(MIN_UNIT_COST))),
            Self::Amount => {
                let amount = number_or_text(value).filter(|amount| *amount >= 0.0);
                amount.map(shortest).ok_or_else(|| "number of at least 0".to_owned())
            }
            Self::Text | Self::Secret | Self::Target => one_line(text()?),
            Self::ScheduleOrOff if text()?.is_empty() => Ok("".into()),
            Self::Schedule | Self::ScheduleOrOff => schedule(text()?),
            Self::Choice(choices) => choice(text()?, choices),
            Self::Words => {
                words(value).map(Value::from).ok_or_else(|| "string or array of strings".to_owned())
            }
            Self::List => list(value).ok_or_else(|| "array of strings".to_owned()),
            Self::Networks => networks(value),
            Self::Proxy => proxy(text()?),
            Self::ProxyToken => proxy_token(text()?),
            Self::BotApi => bot_api(text()?),
            Self::Topic => topic(text()?),
            Self::Weights => {
                let given = value.as_object().ok_or("object of numbers")?;
                Ok(weights(given, current))
            }
            Self::CodexHeaders => {
                codex_headers(value.as_object().ok_or("object with userAgent and betaFeatures")?, current)
            }
            Self::PayloadRules => payload_rules::normal(value).map_err(|why| format!("valid rules: {why}")),
        }
    }

    /// Whether a value is only the mask of a secret.
    pub fn is_mask(self, value: &Value) -> bool {
        let text = value.as_str().map(str::trim).unwrap_or_default();
        match self {
            Self::Secret | Self::ProxyToken => mask::is_of_secret(text),
            Self::Proxy | Self::BotApi => mask::is_of_proxy_url(text),
            Self::Target => mask::is_of_target(text),
            _ => false,
        }
    }

    /// Reads a stored value; an invalid one is ignored. `default` is the value in force without it.
    pub fn stored(self, value: &Value, default: &Value) -> Option<Value> {
        match self {
            // Older versions stored some lists as JSON text.
            Self::Words | Self::List => match value.as_str().map(serde_json::from_str) {
                Some(Ok(inner @ Value::Array(_))) => list_or_words(self, &inner),
                _ => list_or_words(self, value),
            },
            // An unreadable entry must not open the list to everyone: it stays, and admits nobody.
            Self::Networks => words(value).map(Value::from),
            // A blank token would lock everybody out.
            Self::ProxyToken => {
                value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(Value::from)
            }
            Self::Secret | Self::Target | Self::Proxy => value.as_str().map(|text| text.trim().into()),
            Self::CodexHeaders => {
                let mut given = value.as_object()?.clone();
                given.retain(|name, value| is_codex_header(name) && header(value).is_some());
                codex_headers(&given, default).ok()
            }
            Self::PayloadRules => payload_rules::usable(value),
            _ => self.sent(value, default).ok(),
        }
    }

    /// Reads a variable of the environment, with a warning if another value is used, or if this one cannot serve.
    pub fn variable(self, text: &str) -> Result<(Value, Option<String>), String> {
        let value = match self {
            Self::Flag => {
                let (flag, remark) = flag(text);
                return Ok((flag.into(), remark));
            }
            Self::Integer(min, max) => {
                let number =
                    number_or_text(&text.into()).ok_or_else(|| format!("`{text}` is not a number"))?.trunc();
                let moved = number.clamp(min as f64, max as f64);
                let remark = (moved != number)
                    .then(|| format!("{text} is outside {min}..{max}; {moved} is used instead"));
                return Ok(((moved as i64).into(), remark));
            }
            // Less than a second is not a cap and means the default here; an operator who sends it gets one second.
            Self::CooldownCap => {
                number_or_text(&text.into()).map_or_else(|| text.into(), |seconds| seconds.trunc().into())
            }
            Self::UnitCost => {
                let cost = number_or_text(&text.into()).ok_or_else(|| format!("`{text}` is not a number"))?;
                let moved = cost.max(MIN_UNIT_COST);
                let remark = (moved != cost).then(|| format!("{text} is too small; {moved} is used instead"));
                return Ok((shortest(moved), remark));
            }
            Self::PayloadRules => {
                serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?
            }
            // An unknown choice in the environment means the default, so that a misspelt one does not stop the start.
            Self::Choice(choices @ [first, ..]) if !choices.contains(&text) => {
                return Ok(((*first).into(), Some(format!("`{text}` is unknown; {first} is used"))));
            }
            _ => text.into(),
        };
        let is_no_target = matches!(self, Self::Target) && !is_web_address(&text.to_ascii_lowercase());
        let remark = is_no_target.then(|| "it is no http or https address: notices to it fail".to_owned());
        // A variable may hold a secret, so its value is not repeated.
        let read = self.sent(&value, &Value::Null).map_err(|expected| format!("expected {expected}"))?;
        Ok((read, remark))
    }
}

/// Reads a switch in the environment, with a warning if the text is neither true nor false.
pub(super) fn flag(text: &str) -> (bool, Option<String>) {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => (true, None),
        "0" | "false" | "no" | "off" => (false, None),
        _ => (false, Some(format!("`{text}` is neither true nor false; false is used"))),
    }
}

/// Whether an address is an http or https address with a host.
pub fn is_web_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        !host.is_empty()
            && !host.starts_with(':')
            && !url.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

fn integer_of(min: i64, max: i64) -> String {
    match max {
        i64::MAX.. => format!("integer of at least {min}"),
        _ => format!("integer from {min} to {max}"),
    }
}

fn above_zero(value: &Value) -> Result<f64, String> {
    number_or_text(value).filter(|number| *number > 0.0).ok_or_else(|| "number above 0".to_owned())
}

/// A line end in a value for a header or a mail would begin another line.
fn one_line(text: &str) -> Result<Value, String> {
    let is_plain = !text.contains(char::is_control);
    is_plain.then(|| text.into()).ok_or_else(|| "string without control characters".to_owned())
}

fn schedule(text: &str) -> Result<Value, String> {
    Cron::parse(text).map(|_| text.into()).map_err(|why| format!("cron expression: {why}"))
}

fn choice(chosen: &str, choices: &[&str]) -> Result<Value, String> {
    let known = choices.contains(&chosen);
    known.then(|| chosen.into()).ok_or_else(|| format!("one of {}", choices.join(", ")))
}

fn networks(value: &Value) -> Result<Value, String> {
    let entries = words(value).ok_or("array of addresses and networks, or a string that lists them")?;
    let bad = entries.iter().map(String::as_str).filter(|entry| networks::parse(entry).is_none());
    match bad.take(MAX_NAMED).collect::<Vec<_>>().as_slice() {
        [] => Ok(entries.into()),
        [one] => Err(format!("addresses and CIDR networks; {one} is neither")),
        several => Err(format!("addresses and CIDR networks; {} are neither", several.join(", "))),
    }
}

fn proxy(text: &str) -> Result<Value, String> {
    if !text.is_empty() {
        OutboundProxy::parse(text).map_err(|why| format!("the address of a proxy: {why}"))?;
    }
    Ok(text.trim_end_matches('/').into())
}

fn proxy_token(token: &str) -> Result<Value, String> {
    let fits = token.starts_with("sk-")
        && (6..=512).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| token.into()).ok_or_else(|| {
        "string that begins with sk-, of 6 to 512 visible ASCII characters without blanks".to_owned()
    })
}

fn bot_api(text: &str) -> Result<Value, String> {
    match text.trim_end_matches('/') {
        "" => Ok(BOT_API.into()),
        url if is_web_address(url) => Ok(url.into()),
        _ => Err("http or https address, or an empty string".to_owned()),
    }
}

fn topic(topic: &str) -> Result<Value, String> {
    let digits = topic.bytes().all(|byte| byte.is_ascii_digit());
    let fits = topic.is_empty() || (digits && !topic.starts_with('0') && topic.len() < 20);
    fits.then(|| topic.into()).ok_or_else(|| "positive whole number in a string, or an empty one".to_owned())
}

fn words(value: &Value) -> Option<Vec<String>> {
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let parts = texts.iter().flat_map(|text| text.split([',', '\n'])).map(str::trim);
    Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

fn list(value: &Value) -> Option<Value> {
    let (mut texts, mut seen) = (Vec::new(), HashSet::new());
    for item in value.as_array()? {
        let text = item.as_str()?.trim();
        if !text.is_empty() && seen.insert(text) {
            texts.push(text);
        }
    }
    Some(json!(texts))
}

fn list_or_words(rule: Rule, value: &Value) -> Option<Value> {
    if rule == Rule::Words { words(value).map(Value::from) } else { list(value) }
}

/// Returns the weights in force, with every usable given weight replaced.
fn weights(given: &Map<String, Value>, current: &Value) -> Value {
    let weight = |name: &str| {
        let new = given.get(name).and_then(number_or_text).filter(|weight| *weight >= 0.0);
        new.map_or_else(|| current.get(name).cloned().unwrap_or(Value::Null), shortest)
    };
    Value::Object(WEIGHTS.iter().map(|(name, ..)| ((*name).to_owned(), weight(name))).collect())
}

fn is_codex_header(name: &str) -> bool {
    CODEX_HEADERS.iter().any(|(member, other)| [*member, *other].contains(&name))
}

/// Returns the headers in force, with every given header replaced.
fn codex_headers(given: &Map<String, Value>, current: &Value) -> Result<Value, String> {
    if let Some(unknown) = given.keys().find(|name| !is_codex_header(name)) {
        return Err(format!("object with no members but userAgent and betaFeatures; {unknown} is unknown"));
    }
    let mut headers = Map::new();
    for (member, other) in CODEX_HEADERS {
        let value = match given.get(*member).or_else(|| given.get(*other)) {
            Some(value) => header(value)
                .ok_or_else(|| format!("{member} to be text of printable ASCII characters"))?
                .into(),
            None => current.get(member).cloned().unwrap_or_else(|| "".into()),
        };
        headers.insert((*member).to_owned(), value);
    }
    Ok(headers.into())
}

fn header(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| is_header_text(text))
}

/// Whether a text can be the value of a header (RFC 9110 §5.5), in ASCII.
pub(super) fn is_header_text(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
