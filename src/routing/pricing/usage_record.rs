//! A request's entry in the site's own log: finds it and reads it.
//!
//! Sites of the new-api family, the hubs and sub2api log each request with exact tokens and price. The entry carries no id
//! that we know, so it is found by model, time, token and the usage that the answer reported: if none is close enough, none is
//! used.

use std::hash::Hash;

use serde_json::Value;

use super::price::Ratios;
use super::read::field;
use crate::json_number::number_or_text;
use crate::money::Usd;
use crate::platform::Platform;
use crate::time::{self, Millis};

/// How early an entry may be dated, in milliseconds: clocks differ, and some sites log the start.
const EARLY: Millis = 25_000;
const LATE: Millis = 120_000;
/// An entry further than this from the request's end belongs to another request, in milliseconds.
const FAR: Millis = 90_000;
/// An entry whose duration differs by more than this belongs to another request, in milliseconds.
const SLOW: f64 = 12_000.0;
/// The most tokens and the highest amount that an entry is believed; more counts as unknown.
const MAX_TOKENS: f64 = 1e9;
const MAX_AMOUNT: f64 = 1e12;
/// Units of quota per US dollar.
const UNITS_PER_USD: f64 = 500_000.0;

/// One entry of a site's log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageRecord {
    /// The site's id of the entry.
    pub id: Option<String>,
    pub model: String,
    pub prompt: u64,
    pub completion: u64,
    pub total: u64,
    pub cache_read: u64,
    pub cache_creation: u64,
    /// Whether `prompt` counts the cached tokens too, if the entry tells.
    pub prompt_includes_cache: Option<bool>,
    /// The amount that the site charged; 0 when the entry does not tell.
    pub cost: Usd,
    pub created: Option<Millis>,
    /// The duration of the request by the site's clock, in milliseconds.
    pub duration_ms: Option<f64>,
    pub token_name: Option<String>,
    pub token: Option<String>,
    /// The ratios that were charged, and the group's multiplier.
    pub ratios: Option<(Ratios, f64)>,
}

/// The request whose entry is looked for.
#[derive(Clone, Copy, Debug)]
pub struct UsageQuery<'a> {
    pub model: &'a str,
    pub started: Millis,
    pub ended: Millis,
    /// The token that the request was sent with.
    pub token: Option<&'a str>,
    pub token_name: Option<&'a str>,
    /// The tokens that the answer reported, if it did.
    pub reported: Option<ReportedTokens>,
    /// Whether only an entry with the reported tokens will do: others are looked for at the same time.
    pub is_strict: bool,
}

/// The tokens that an answer reported.
#[derive(Clone, Copy, Debug)]
pub struct ReportedTokens {
    pub prompt: u64,
    pub completion: u64,
}

/// Returns whether this platform's log is worth asking after an answer that did or did not report its usage.
pub fn is_worth_asking(platform: Platform, has_usage: bool) -> bool {
    let log = platform.profile().usage_log.as_ref();
    log.is_some_and(|log| !(log.only_without_usage && has_usage))
}

/// Reads the entries of a log answer, however it wraps them. The error is a message for people.
pub fn read(body: &[u8]) -> Result<Vec<UsageRecord>, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "the log is not valid JSON".to_owned())?;
    if answer["success"] == Value::Bool(false) {
        let said = answer["message"].as_str().unwrap_or_default().trim();
        return Err(if said.is_empty() {
            "the site refuses to show its request log".to_owned()
        } else {
            said.to_owned()
        });
    }
    let places =
        [&answer["data"]["items"], &answer["data"]["data"], &answer["data"], &answer["items"], &answer];
    let lines = places.into_iter().find_map(Value::as_array);
    let lines = lines.ok_or_else(|| "the answer has no request log".to_owned())?;
    Ok(lines.iter().filter_map(line).collect())
}

/// Finds this request's entry among those of a log.
pub fn find<'r>(lines: &'r [UsageRecord], query: &UsageQuery<'_>) -> Option<&'r UsageRecord> {
    let mut near: Vec<&UsageRecord> = lines.iter().filter(|line| line.may_match(query)).collect();
    narrow(&mut near, |line| same_token(line.token.as_deref(), query.token));
    narrow(&mut near, |line| line.token_name.is_some() && line.token_name.as_deref() == query.token_name);
    if let Some(reported) = query.reported {
        if query.is_strict {
            near.retain(|line| line.total == 0 || line.has_used(reported));
        }
        narrow(&mut near, |line| line.has_used(reported));
    }
    let best = near.into_iter().min_by(|one, other| one.mismatch(query).total_cmp(&other.mismatch(query)))?;
    let is_far = best.created.is_none_or(|created| (created - query.ended).abs() > FAR);
    (!is_far && best.duration_difference(query) <= SLOW).then_some(best)
}

/// Keeps the entries that fit, unless none does.
fn narrow(lines: &mut Vec<&UsageRecord>, fits: impl Fn(&UsageRecord) -> bool) {
    if lines.iter().any(|line| fits(line)) {
        lines.retain(|line| fits(line));
    }
}

fn same_token(logged: Option<&str>, used: Option<&str>) -> bool {
    let bare = |token: &str| token.trim().trim_start_matches("sk-").to_owned();
    logged.zip(used).is_some_and(|(logged, used)| !logged.is_empty() && bare(logged) == bare(used))
}

fn line(entry: &Value) -> Option<UsageRecord> {
    let model = text(entry, &["model_name", "modelName", "model"])?;
    let tokens = |count: f64| if count <= MAX_TOKENS { count.round() as u64 } else { 0 };
    let count = |names: &[&str]| amount(entry, names).map_or(0, tokens);
    let charged = amount(entry, &["actual_cost", "actualCost", "total_cost", "totalCost"]);
    let quota = amount(entry, &["quota"]).unwrap_or(0.0);
    let details = details(entry);
    let other = |names: &[&str]| amount(&details, names);
    let cached = |names: &[&str]| other(names).or_else(|| amount(entry, names)).map_or(0, tokens);
    let cache_read = cached(&["cache_tokens", "cacheTokens", "cache_read_tokens", "cacheReadTokens"]);
    let cache_creation = cached(&["cache_creation_tokens", "cacheCreationTokens"]);
    let prompt = count(&["prompt_tokens", "promptTokens", "input_tokens", "inputTokens"]);
    let completion = count(&["completion_tokens", "completionTokens", "output_tokens", "outputTokens"]);
    let number = |id: &Value| id.is_number().then(|| id.to_string());
    Some(UsageRecord {
        id: text(entry, &["id"]).or_else(|| number(&entry["id"])),
        prompt,
        completion,
        total: count(&["total_tokens", "totalTokens"]).max(prompt.saturating_add(completion)),
        cache_read,
        cache_creation,
        prompt_includes_cache: (details["claude"] == Value::Bool(true)).then_some(false),
        cost: Usd::new(charged.filter(|usd| *usd > 0.0).unwrap_or(quota / UNITS_PER_USD)),
        created: field(entry, &["created_at", "createdAt"]).and_then(time::from_json),
        duration_ms: amount(entry, &["request_time", "requestTime", "duration_ms", "durationMs"])
            // new-api counts in seconds.
            .or_else(|| amount(entry, &["use_time", "useTime"]).map(|seconds| seconds * 1000.0)),
        token_name: text(entry, &["token_name", "tokenName"]),
        token: field(entry, &["api_key", "apiKey"]).and_then(|key| text(key, &["key"])),
        ratios: ratios(&details, cache_read + cache_creation > 0),
        model,
    })
}

/// Returns the `other` record of an entry: an object, or a string that holds one.
fn details(entry: &Value) -> Value {
    match &entry["other"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    }
}

/// Reads the ratios of an entry; `None` when all are 1 and nothing was cached, which tells nothing.
fn ratios(details: &Value, is_cached: bool) -> Option<(Ratios, f64)> {
    if amount(details, &["model_price", "modelPrice"]).is_some_and(|price| price > 0.0) {
        return None; // charged by call
    }
    let positive = |names: &[&str]| amount(details, names).filter(|ratio| *ratio > 0.0).unwrap_or(1.0);
    let cache = |names: &[&str]| amount(details, names).unwrap_or(1.0);
    let ratios = Ratios {
        model: positive(&["model_ratio", "modelRatio"]),
        completion: positive(&["completion_ratio", "completionRatio"]),
        cache_read: cache(&["cache_ratio", "cacheRatio"]),
        cache_creation: cache(&["cache_creation_ratio", "cacheCreationRatio"]),
    };
    let group = positive(&["group_ratio", "groupRatio"]);
    let says_something = is_cached || ratios != Ratios::default() || group != 1.0;
    says_something.then_some((ratios, group))
}

fn text(entry: &Value, names: &[&str]) -> Option<String> {
    let text = field(entry, names)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a number from 0 to `MAX_AMOUNT`, also if it is written as text.
fn amount(entry: &Value, names: &[&str]) -> Option<f64> {
    let number = number_or_text(field(entry, names)?)?;
    (0.0..=MAX_AMOUNT).contains(&number).then_some(number)
}

// === impl UsageRecord ===

impl UsageRecord {
    fn may_match(&self, query: &UsageQuery<'_>) -> bool {
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_lowercase();
        let in_time =
            self.created.is_some_and(|at| (query.started - EARLY..=query.ended + LATE).contains(&at));
        let says_something = self.total > 0
            || self.cost > Usd::ZERO
            || self.duration_ms.is_some_and(|duration| duration > 0.0);
        in_time && says_something && last(&self.model) == last(query.model)
    }

    /// Returns what tells this entry from others of the same log.
    pub fn identity(&self) -> impl Hash + use<> {
        let seen = match self.id {
            Some(_) => None,
            None => Some((self.created, self.prompt, self.completion, self.total, self.cost.nano())),
        };
        (self.id.clone(), self.model.clone(), seen)
    }

    /// Whether the entry has these tokens of the prompt, with or without the cached ones, and of the completion.
    fn has_used(&self, ReportedTokens { prompt, completion }: ReportedTokens) -> bool {
        let cached = self.cache_read.saturating_add(self.cache_creation);
        let is_prompt = self.prompt == prompt
            || self.prompt.saturating_add(cached) == prompt
            || prompt.saturating_add(cached) == self.prompt;
        is_prompt && self.completion == completion
    }

    fn mismatch(&self, query: &UsageQuery<'_>) -> f64 {
        let apart = self.created.map_or(f64::MAX, |created| (created - query.ended).abs() as f64);
        apart + 2.0 * self.duration_difference(query)
    }

    /// Returns by how many milliseconds the two clocks differ about the duration; 0 if the entry does not tell it.
    fn duration_difference(&self, query: &UsageQuery<'_>) -> f64 {
        let latency = (query.ended - query.started) as f64;
        self.duration_ms.map_or(0.0, |duration| (duration - latency).abs())
    }
}

#[cfg(test)]
mod tests;
