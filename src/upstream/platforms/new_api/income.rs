//! Sums up what the account was given, by the lines of its own log at the site.

use serde_json::Value;

use super::unit;
use crate::json_number::number_or_text;
use crate::money::Usd;
use crate::platform::NewApiFork;
use crate::time::Millis;
use crate::upstream::Client;
use crate::upstream::platforms::error::SiteError;
use crate::upstream::platforms::site_client::{Call, SiteClient};
use crate::upstream::platforms::{quota_units, reply};

/// The kinds of lines that are income: top-ups, and what the system says (check-ins, gifts).
const KINDS: [u8; 2] = [1, 4];
const MAX_PAGES: u32 = 6;

/// Returns the dollars of all income lines between two moments.
pub(in crate::upstream::platforms) async fn between(
    site_client: &SiteClient,
    client: &Client,
    fork: &NewApiFork,
    start: Millis,
    end: Millis,
) -> Result<Usd, SiteError> {
    let unit = unit(site_client, client).await;
    let (start, end) = (start / 1000, end / 1000);
    let first_page = fork.first_page;
    let mut sum = Usd::ZERO;
    for kind in KINDS {
        let mut read = 0;
        for page in first_page..first_page + MAX_PAGES {
            let path = format!(
                "/api/log/self?p={page}&page_size=100&type={kind}&token_name=&model_name=\
                 &start_timestamp={start}&end_timestamp={end}&group="
            );
            let answer = site_client.as_user(client, Call::get(&path)).await?;
            let places = ["/data/items", "/items", "/data"];
            let items = places.into_iter().find_map(|place| answer.pointer(place)?.as_array());
            let Some(items) = items.filter(|items| !items.is_empty()) else { break };
            sum += items.iter().filter_map(|item| amount(item, unit)).sum::<Usd>();
            read += items.len() as u64;
            let total = ["/data/total", "/total"]
                .into_iter()
                .find_map(|at| u64::try_from(reply::whole(answer.pointer(at)?)?).ok());
            if total.is_some_and(|total| read >= total) {
                break;
            }
        }
    }
    Ok(sum.rounded())
}

/// Returns the line's units in dollars, else the first number of its text.
fn amount(line: &Value, unit: f64) -> Option<Usd> {
    match line.get("quota").and_then(number_or_text) {
        Some(units) if units > 0.0 => Some(Usd::new(units / unit)),
        _ => {
            let content = plain(line.get("content")?.as_str()?);
            let (number, before, after) = number_in(&content)?;
            let is_units = quota_units::are_meant(number, before, after);
            Some(Usd::new(if is_units { number / unit } else { number }))
        }
    }
}

/// Returns the first number of a text, ignoring commas, if it is above zero. A number that is a part of a word, as in
/// `2FA`, does not count; `USD` may stand right beside one.
pub(super) fn first_number(text: &str) -> Option<f64> {
    number_in(&plain(text)).map(|(number, ..)| number)
}

/// Returns a text in lower case, without commas.
fn plain(text: &str) -> String {
    text.replace(',', "").to_ascii_lowercase()
}

/// Returns the number of [`first_number`], and the text before and behind it.
fn number_in(text: &str) -> Option<(f64, &str, &str)> {
    const CURRENCY: &str = "usd";
    let mut from = 0;
    loop {
        let start = from + text[from..].find(|c: char| c.is_ascii_digit())?;
        let digits = &text[start..];
        let end = start + digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let (before, after) = (&text[..start], &text[end..]);
        let is_glued_before =
            before.ends_with(|c: char| c.is_ascii_alphabetic()) && !before.ends_with(CURRENCY);
        let is_glued_after =
            after.starts_with(|c: char| c.is_ascii_alphabetic()) && !after.starts_with(CURRENCY);
        if is_glued_before || is_glued_after {
            from = end;
            continue;
        }
        let number = text[start..end].trim_end_matches('.').parse::<f64>().ok()?;
        return (number > 0.0 && !before.ends_with('-')).then_some((number, before, after));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_worth_its_units_or_its_first_number() {
        for (line, usd) in [
            (json!({"quota": 250_000, "content": "5 days"}), Some(0.5)),
            (json!({"quota": 0, "content": "充值 ＄1,250.50 额度"}), Some(1250.5)),
            (json!({"content": "通过兑换码充值 2."}), Some(2.0)),
            (json!({"quota": 0, "content": "用户签到，获得额度 12500 点额度"}), Some(0.025)),
            (json!({"quota": 0, "content": "签到奖励 500,000 额度"}), Some(1.0)),
            (json!({"content": "-3"}), None),
            (json!({"quota": 0, "content": "通用安全验证成功 (验证方式: 2FA)"}), None),
            (json!({"content": "2FA on; for gpt4o.1x you get 0.5USD"}), Some(0.5)),
            (json!({"content": "US$5额度"}), Some(5.0)),
            (json!({"content": "nothing"}), None),
            (json!({}), None),
        ] {
            assert_eq!(amount(&line, 500_000.0).map(Usd::dollars), usd, "{line}");
        }
    }
}
