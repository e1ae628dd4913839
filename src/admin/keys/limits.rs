//! The limits of a downstream key as sent: concurrency, requests and tokens per minute, addresses and budgets.

use serde_json::Value;

use super::readers::{embedded, limit, models, set, texts};
use super::schema;
use crate::admin::input::{Fields, Invalid, Patch};
use crate::json_number::exact_integer;
use crate::keys::{MAX_BUDGETS, Period};
use crate::money::Usd;
use crate::networks;
use crate::store::keys::{BudgetSettings, KeySettings};

/// Maximum concurrency limit: a process does not serve more requests at once, so a higher one would not limit anything.
const MAX_CONCURRENCY: i64 = 10_000;
/// Maximum limit per minute.
const MAX_PER_MINUTE: i64 = 4_000_000_000;
const MAX_ADDRESSES: usize = 500;

/// Applies every limit that was sent to the settings.
pub(super) fn apply(fields: &Fields, settings: &mut KeySettings) -> Result<(), Invalid> {
    set(&mut settings.max_concurrency, count(fields, "maxConcurrency", MAX_CONCURRENCY)?);
    set(&mut settings.requests_per_minute, count(fields, "requestsPerMinute", MAX_PER_MINUTE)?);
    set(&mut settings.tokens_per_minute, count(fields, "tokensPerMinute", MAX_PER_MINUTE)?);
    set(&mut settings.allowed_ips, addresses(fields)?);
    set(&mut settings.budgets, budgets(fields)?);
    Ok(())
}

/// Reads a whole number, also from text; 0, `null` and blank text mean no limit.
fn count(fields: &Fields, name: &str, most: i64) -> Result<Patch<u32>, Invalid> {
    let number = match fields.get(name) {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(None)),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Some(None)),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => exact_integer(value),
    };
    let number = number.filter(|number| *number <= most).and_then(|number| u32::try_from(number).ok());
    let number = number
        .ok_or_else(|| Invalid::field(name, &format!("integer from 0 to {most}, or null; 0 is no limit")))?;
    Ok(Some(Some(number).filter(|number| *number > 0)))
}

/// Reads addresses and networks, without duplicates; an empty list allows every address.
fn addresses(fields: &Fields) -> Result<Patch<Vec<String>>, Invalid> {
    let Some(sent) = texts(fields, "allowedIps", &[',', '\n'])? else { return Ok(None) };
    let mut addresses: Vec<String> = Vec::new();
    for address in sent {
        if networks::parse(&address).is_none() {
            let expected = "addresses and networks, such as 192.0.2.7 or 10.0.0.0/8";
            return Err(Invalid::field("allowedIps", &format!("{expected}, not {address}")));
        }
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        if addresses.len() > MAX_ADDRESSES {
            return Err(Invalid::field("allowedIps", "at most 500 addresses and networks"));
        }
    }
    Ok(Some(Some(addresses).filter(|addresses| !addresses.is_empty())))
}

fn budgets(fields: &Fields) -> Result<Patch<Vec<BudgetSettings>>, Invalid> {
    let expected = "array of at most 8 budgets, each an object with a period";
    let invalid = || Invalid::field("budgets", expected);
    let items = match embedded(fields, "budgets", expected)? {
        None => return Ok(None),
        Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) if items.len() <= MAX_BUDGETS => items,
        Some(_) => return Err(invalid()),
    };
    let read = |item| match item {
        Value::Object(members) => {
            budget(&Fields::of(&schema::BUDGET, members)).map_err(|error| error.within("budgets"))
        }
        _ => Err(invalid()),
    };
    let budgets: Vec<_> = items.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(Some(Some(budgets).filter(|budgets| !budgets.is_empty())))
}

fn budget(fields: &Fields) -> Result<BudgetSettings, Invalid> {
    // A misspelt limit would silently be no limit.
    if let Some(unknown) = fields.unknown() {
        return Err(Invalid::field(unknown, "one of period, maxCost, maxRequests, maxTokens, models"));
    }
    let period = fields.get("period").and_then(Value::as_str).and_then(Period::parse);
    Ok(BudgetSettings {
        period: period.ok_or_else(|| fields.unexpected("period"))?,
        max_cost: limit(fields, "maxCost")?.flatten().map(Usd::new),
        max_requests: whole_limit(fields, "maxRequests")?,
        max_tokens: whole_limit(fields, "maxTokens")?,
        models: models(fields, "models")?.filter(|models| !models.is_empty()),
    })
}

fn whole_limit(fields: &Fields, name: &str) -> Result<Option<i64>, Invalid> {
    Ok(limit(fields, name)?.flatten().map(|most| most.trunc() as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(sent: &Value, before: KeySettings) -> Result<KeySettings, String> {
        let fields = Fields::of(&schema::UPDATE, sent.as_object().cloned().expect("an object"));
        let mut settings = before;
        apply(&fields, &mut settings).map(|()| settings).map_err(|refused| refused.to_string())
    }

    #[test]
    fn limits_are_read_in_every_form_and_cleared_by_null_and_blank() {
        let full = applied(
            &json!({"maxConcurrency": "2", "requestsPerMinute": 3, "tokensPerMinute": 4.0,
                "allowedIps": "10.0.0.0/8, ::1\n10.0.0.0/8",
                "budgets": [{"period": "5h", "maxCost": "1.5", "maxRequests": 7, "models": "gpt-*, o3"},
                    {"period": "total", "maxTokens": 0, "models": [], "used": {}, "resetsAt": null}]}),
            KeySettings::default(),
        );
        let budget = |period, max_cost, max_requests, max_tokens, models| BudgetSettings {
            period,
            max_cost,
            max_requests,
            max_tokens,
            models,
        };
        let models = Some(vec!["gpt-*".to_owned(), "o3".to_owned()]);
        let expected = KeySettings {
            max_concurrency: Some(2),
            requests_per_minute: Some(3),
            tokens_per_minute: Some(4),
            allowed_ips: Some(vec!["10.0.0.0/8".to_owned(), "::1".to_owned()]),
            budgets: Some(vec![
                budget(Period::FiveHours, Some(Usd::new(1.5)), Some(7), None, models),
                budget(Period::Total, None, None, Some(0), None),
            ]),
            ..KeySettings::default()
        };
        assert_eq!(full, Ok(expected.clone()));
        assert_eq!(applied(&json!({}), expected.clone()), Ok(expected.clone()));
        for nothing in [json!(null), json!("")] {
            let sent = json!({"maxConcurrency": nothing, "requestsPerMinute": nothing, "tokensPerMinute": nothing,
                "allowedIps": nothing, "budgets": nothing});
            assert_eq!(applied(&sent, expected.clone()), Ok(KeySettings::default()), "{nothing}");
        }
        let sent = json!({"maxConcurrency": 0, "requestsPerMinute": 0, "tokensPerMinute": 0, "allowedIps": [],
            "budgets": []});
        assert_eq!(applied(&sent, expected), Ok(KeySettings::default()));
    }

    #[test]
    fn a_bad_limit_is_refused_by_name() {
        let nine: Vec<_> = (0..9).map(|_| json!({"period": "day"})).collect();
        for (sent, word) in [
            (json!({"maxConcurrency": -1}), "maxConcurrency"),
            (json!({"maxConcurrency": 10_001}), "10000"),
            (json!({"requestsPerMinute": 1.5}), "requestsPerMinute"),
            (json!({"tokensPerMinute": "many"}), "tokensPerMinute"),
            (json!({"tokensPerMinute": true}), "tokensPerMinute"),
            (json!({"allowedIps": ["10.0.0.0/8", "10.0.0.300"]}), "10.0.0.300"),
            (json!({"allowedIps": "10.0.0.0/33"}), "10.0.0.0/33"),
            (json!({"allowedIps": 7}), "allowedIps"),
            (json!({"budgets": nine}), "at most 8"),
            (json!({"budgets": {"period": "day"}}), "budgets"),
            (json!({"budgets": ["day"]}), "budgets"),
            (json!({"budgets": [{}]}), "budgets[].period"),
            (json!({"budgets": [{"period": "year"}]}), "5h, day, week, month or total"),
            (json!({"budgets": [{"period": "day", "maxCost": -1}]}), "budgets[].maxCost"),
            (json!({"budgets": [{"period": "day", "maxRequests": "x"}]}), "budgets[].maxRequests"),
            (json!({"budgets": [{"period": "day", "maxTokens": []}]}), "budgets[].maxTokens"),
            (json!({"budgets": [{"period": "day", "models": ["re:["]}]}), "budgets[].models"),
            (json!({"budgets": [{"period": "day", "maxcost": 1}]}), "budgets[].maxcost"),
        ] {
            let error = applied(&sent, KeySettings::default()).expect_err("a refusal");
            assert!(error.contains(word), "{sent}: {error}");
        }
    }
}
