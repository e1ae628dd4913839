//! The income of an account in a local day: the rewards of its check-ins, or what the site's own log credits where one
//! of them does not tell its reward.
//!
//! The log is read with each balance and kept as a [`snapshot`] in the account's `extraConfig`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::ids::AccountId;
use crate::money::Usd;
use crate::store::checkins::{CheckinStatus, RewardRow};
use crate::time::{Millis, iso};
use crate::upstream::platforms::quota_units;

/// The member of `extraConfig` that holds the snapshot.
pub const SNAPSHOT: &str = "todayIncomeSnapshot";

/// Returns the first number of a text, ignoring commas, if it is above zero and believable.
pub fn amount(text: &str) -> Option<Usd> {
    let text = text.replace(',', "");
    let number = numbers(&text).next()?;
    Some(Usd::new(number.value)).filter(|amount| *amount > Usd::ZERO && amount.is_believable())
}

/// Returns the amount that a message says was gained: the first positive number beside a word for money or quota, or
/// after a word for a gain that names nothing else, as `获得 100 积分` does. `连续签到 5 天` names no amount.
pub fn in_message(message: &str) -> Option<Usd> {
    const AFTER: [&str; 12] =
        ["$", "¥", "￥", "usd", "cny", "元", "美元", "美金", "刀", "额度", "点额度", "quota"];
    const BEFORE: [&str; 6] = ["$", "¥", "￥", "usd", "额度", "quota"];
    const OF_GAIN: [&str; 7] = ["获得", "得到", "奖励", "reward", "gained", "earned", "credited"];
    const OF_TIME: [&str; 6] = ["天", "日", "次", "day", "time", "%"];
    let text = message.replace(',', "").to_lowercase();
    let tells = |number: &Number<'_>| {
        let after = number.after.trim_start();
        let joints = |c: char| c.is_whitespace() || [':', '：', '+', '=', '了', '为', '约'].contains(&c);
        let before = number.before.trim_end_matches(joints);
        let counts = OF_TIME.iter().any(|word| after.starts_with(word));
        let is_money = AFTER.iter().any(|word| after.starts_with(word))
            || BEFORE.iter().any(|word| before.ends_with(word));
        let is_bare = !after.starts_with(char::is_alphanumeric);
        let is_gain = is_bare && OF_GAIN.iter().any(|word| before.ends_with(word));
        !counts && (is_money || is_gain)
    };
    let found = numbers(&text).find(|number| number.value > 0.0 && tells(number))?;
    let is_units = quota_units::are_meant(found.value, found.before, found.after);
    let amount = Usd::new(if is_units { found.value / quota_units::PER_USD } else { found.value });
    amount.is_believable().then_some(amount)
}

/// Formats an amount as logs show it: at most six decimals, no trailing zeros.
pub fn format_amount(amount: Usd) -> String {
    let text = format!("{amount:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns what each account earned by these check-ins of a local day. `seen` gives the income that its site's log had
/// for it; it counts where a check-in does not tell its reward and it is the larger one.
pub fn rewards(checkins: &[RewardRow], seen: impl Fn(AccountId) -> Usd) -> HashMap<AccountId, Usd> {
    let mut earned: HashMap<AccountId, (Usd, bool)> = HashMap::new();
    for checkin in checkins.iter().filter(|checkin| checkin.status == CheckinStatus::Success) {
        let (sum, unknown) = earned.entry(checkin.account_id).or_default();
        match checkin.reward.as_deref().and_then(amount) {
            Some(reward) => *sum += reward,
            None => *unknown = true,
        }
    }
    let of = |(account, (sum, unknown)): (AccountId, (Usd, bool))| {
        (account, if unknown { sum.max(seen(account)) } else { sum })
    };
    earned.into_iter().map(of).collect()
}

/// Returns the income of the day that is stored in an account's `extraConfig`; 0 when there is none of that day.
pub fn stored(extra: Option<&str>, day: &str) -> Usd {
    let extra: Value = extra.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let snapshot = &extra[SNAPSHOT];
    let latest = snapshot["latest"].as_f64().filter(|_| snapshot["day"] == day);
    Usd::new(latest.unwrap_or(0.0).max(0.0))
}

/// Builds the snapshot after another reading. The first reading of a day begins a new snapshot; within a day it keeps
/// the smallest income beside the latest.
pub fn snapshot(extra: &Map<String, Value>, day: &str, income: Usd, now: Millis) -> Value {
    let before = extra.get(SNAPSHOT).filter(|snapshot| snapshot["day"] == day);
    let baseline = before
        .and_then(|snapshot| snapshot["baseline"].as_f64())
        .map_or(income, |least| Usd::new(least).min(income));
    json!({ "day": day, "baseline": baseline, "latest": income, "updatedAt": iso(now) })
}

struct Number<'a> {
    value: f64,
    before: &'a str,
    after: &'a str,
}

/// Returns the numbers of a text from left to right, with their signs.
fn numbers(text: &str) -> impl Iterator<Item = Number<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let digit = from + text.get(from..)?.find(|c: char| c.is_ascii_digit())?;
            let rest = &text[digit..];
            let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let end = digit + rest[..length].trim_end_matches('.').len();
            from = digit + length;
            let start = if text[..digit].ends_with(['-', '+']) { digit - 1 } else { digit };
            if let Ok(value) = text[start..end].parse() {
                return Some(Number { value, before: &text[..start], after: &text[end..] });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::jobs::balances::income::*;
    use crate::time::parse;

    #[test]
    fn an_amount_is_the_first_number_when_it_is_positive() {
        for (text, expected) in [
            ("0.025", Some(0.025)),
            ("+ 0.25 USD", Some(0.25)),
            ("$1,234.50", Some(1234.5)),
            ("3. done", Some(3.0)),
            ("-3 then 4", None),
            ("0", None),
            ("0.0 and 7", None),
            ("1.2.3", None),
            ("99999999999999999999999999999999999", None),
            ("", None),
            ("签到成功", None),
        ] {
            assert_eq!(amount(text), expected.map(Usd::new), "{text}");
        }
    }

    #[test]
    fn a_message_tells_a_gain_beside_a_word_for_it_only() {
        for (message, expected) in [
            ("连续签到 5 天", None),
            ("连续签到 5 天，获得 0.1 额度", Some(0.1)),
            ("签到成功，获得了 500 额度", Some(500.0)),
            ("签到成功！奖励：$0.25", Some(0.25)),
            ("签到成功, +1,000 quota", Some(0.002)),
            ("签到成功，获得 500000 额度", Some(1.0)),
            ("签到成功，获得 $1,000 额度", Some(1000.0)),
            ("checked in, reward: 0.5", Some(0.5)),
            ("You earned 0.3 USD", Some(0.3)),
            ("第 12 次签到，+0.02 美元", Some(0.02)),
            ("签到成功，获得 12500 点额度", Some(0.025)),
            ("奖励 3 天会员", None),
            ("签到成功，获得 0.1，明天再来", Some(0.1)),
            ("签到成功，获得 100 积分", None),
            ("earned 5 credits", None),
            ("获得 2 张优惠券", None),
            ("奖励 3 枚徽章", None),
            ("You gained 1000 tokens", None),
            ("checked in 7", None),
            ("获得 0 额度", None),
            ("获得 99999999999999999999999999999999999 额度", None),
            ("2026-03-01 签到成功", None),
            ("", None),
        ] {
            assert_eq!(in_message(message), expected.map(Usd::new), "{message}");
        }
    }

    #[test]
    fn amounts_show_six_decimals_at_most() {
        for (usd, text) in [(0.025, "0.025"), (1.0, "1"), (0.1 + 0.2, "0.3"), (1e-7, "0"), (10.0, "10")] {
            assert_eq!(format_amount(Usd::new(usd)), text);
        }
    }

    #[test]
    fn a_reward_that_is_not_told_is_at_least_the_income_of_the_day() {
        let row = |account, status, reward: Option<&str>| RewardRow {
            account_id: AccountId::new(account),
            status,
            reward: reward.map(str::to_owned),
        };
        let checkins = [
            row(1, CheckinStatus::Success, Some("+ 0.25 USD")),
            row(2, CheckinStatus::Success, Some("1")),
            row(2, CheckinStatus::Success, None),
            row(3, CheckinStatus::Success, Some("done")),
            row(3, CheckinStatus::Failed, Some("9")),
            row(4, CheckinStatus::Success, None),
            row(4, CheckinStatus::Success, Some("6")),
        ];
        let found =
            rewards(
                &checkins,
                |account| if account == AccountId::new(3) { Usd::new(0.0) } else { Usd::new(3.5) },
            );
        assert_eq!(
            found,
            HashMap::from(
                [(1, 0.25), (2, 3.5), (3, 0.0), (4, 6.0)]
                    .map(|(id, sum)| (AccountId::new(id), Usd::new(sum)))
            )
        );
        let extra = r#"{"todayIncomeSnapshot":{"day":"2026-05-01","baseline":1,"latest":3.5}}"#;
        for (extra, day, income) in [
            (Some(extra), "2026-05-01", 3.5),
            (Some(extra), "2026-05-02", 0.0),
            (Some("not json"), "2026-05-01", 0.0),
            (None, "2026-05-01", 0.0),
        ] {
            assert_eq!(stored(extra, day), Usd::new(income));
        }
    }

    #[test]
    fn a_snapshot_keeps_the_smallest_and_the_latest_of_its_day() {
        let at = |text: &str| parse(text).expect("a time");
        let mut extra = Map::new();
        let mut read = |day: &str, income, now| {
            let made = snapshot(&extra, day, income, now);
            extra.insert(SNAPSHOT.to_owned(), made.clone());
            made
        };
        read("2026-03-01", Usd::new(0.10), at("2026-03-01T08:00:00Z"));
        assert_eq!(
            read("2026-03-01", Usd::new(0.35), at("2026-03-01T09:00:00Z")),
            json!({"day":"2026-03-01","baseline":0.1,"latest":0.35,"updatedAt":"2026-03-01T09:00:00.000Z"})
        );
        let third = read("2026-03-01", Usd::new(0.05), at("2026-03-01T10:00:00Z"));
        assert_eq!((&third["baseline"], &third["latest"]), (&json!(0.05), &json!(0.05)));
        let next = read("2026-03-02", Usd::new(0.7), at("2026-03-01T16:00:00Z"));
        assert_eq!((&next["day"], &next["baseline"]), (&json!("2026-03-02"), &json!(0.7)));
    }
}
