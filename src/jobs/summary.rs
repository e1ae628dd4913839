//! The daily summary in one notice: what the accounts of active sites have, earned and spent since local midnight.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;

use super::balances::income;
use super::schedule::Pass;
use crate::core::Core;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::money::Usd;
use crate::notify::Notice;
use crate::store::checkins::{self, CheckinStatus};
use crate::store::events::EventLevel;
use crate::store::{self, stats};
use crate::time::{Millis, local_day, local_day_start, now_ms};

/// The balance below which an account has little left, in USD.
const LOW_BALANCE: Usd = Usd::new(1.0);

/// The figures of a day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Day {
    pub local_day: String,
    pub generated_at_local: String,
    pub time_zone: String,
    pub total_accounts: usize,
    pub active_accounts: usize,
    pub low_balance_accounts: usize,
    pub checkin_total: usize,
    pub checkin_success: usize,
    pub checkin_skipped: usize,
    pub checkin_failed: usize,
    pub proxy_total: i64,
    pub proxy_success: i64,
    pub proxy_failed: i64,
    pub proxy_total_tokens: i64,
    pub today_spend: Usd,
    pub today_reward: Usd,
}

/// Sums the day up and notifies the operator, without a cool-down.
pub async fn send(jobs: Arc<Jobs>) -> Pass {
    let day = day(&jobs.core, now_ms()).await?;
    let notice = Notice::new(EventLevel::Info, format!("Daily summary {}", day.local_day), day.text());
    let report = jobs.core.notifier.deliver(&notice.always()).await;
    if report.channels.is_empty() {
        return Err("the daily summary reached nobody: no notification channel is usable".to_owned());
    }
    let failed: Vec<String> = report
        .channels
        .iter()
        .filter_map(|(channel, sent)| Some(format!("{channel}: {}", sent.as_ref().err()?)))
        .collect();
    if failed.is_empty() {
        Ok(Some("daily summary sent".to_owned()))
    } else {
        Err(format!("notify failed: {}", failed.join("; ")))
    }
}

async fn day(core: &Core, now: Millis) -> store::Result<Day> {
    core.store.flush().await;
    let (store, zone) = (&core.store, &core.config.time_zone);
    let start = local_day_start(now, zone);
    let local_day = local_day(now, zone).to_string();
    let active = stats::active_accounts(store).await?;
    let checkins = checkins::since_at_active_sites(store, start).await?;
    let logged = stats::logged_since(store, start).await?;
    let count = |status| checkins.iter().filter(|checkin| checkin.status == status).count();
    let spent = stats::by_site(store, Some(&local_day)).await?;
    let extra: HashMap<AccountId, Option<&str>> =
        active.iter().map(|account| (account.id, account.extra.as_deref())).collect();
    let rewards =
        income::rewards(&checkins, |id| income::stored(extra.get(&id).copied().flatten(), &local_day));
    let stamp = Timestamp::from_millisecond(now).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(Day {
        generated_at_local: stamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        time_zone: core.config.time_zone_name.clone(),
        total_accounts: active.len(),
        active_accounts: active.iter().filter(|account| account.is_active).count(),
        low_balance_accounts: active.iter().filter(|account| account.balance < LOW_BALANCE).count(),
        checkin_total: checkins.len(),
        checkin_success: count(CheckinStatus::Success),
        checkin_skipped: count(CheckinStatus::Skipped),
        checkin_failed: count(CheckinStatus::Failed),
        proxy_total: logged.calls,
        proxy_success: logged.ok,
        proxy_failed: logged.calls - logged.ok,
        proxy_total_tokens: logged.tokens,
        today_spend: spent.iter().map(|(_, sums)| sums.cost).sum::<Usd>().rounded(),
        today_reward: rewards.into_values().sum::<Usd>().rounded(),
        local_day,
    })
}

impl Day {
    fn text(&self) -> String {
        let mut text =
            format!("{} ({}), as of {}\n", self.local_day, self.time_zone, self.generated_at_local);
        let lines = [
            format!(
                "Accounts: {} ({} active, {} below {LOW_BALANCE} USD)",
                self.total_accounts, self.active_accounts, self.low_balance_accounts
            ),
            format!(
                "Check-ins: {} ({} ok, {} skipped, {} failed)",
                self.checkin_total, self.checkin_success, self.checkin_skipped, self.checkin_failed
            ),
            format!(
                "Requests: {} ({} ok, {} failed), {} tokens",
                self.proxy_total, self.proxy_success, self.proxy_failed, self.proxy_total_tokens
            ),
            format!("Spent: {:.6} USD", self.today_spend),
            format!("Rewards: {:.6} USD", self.today_reward),
            format!("Net: {:.6} USD", (self.today_reward - self.today_spend).rounded()),
        ];
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_is_told_in_six_lines_and_a_heading() {
        let day = Day {
            local_day: "2026-03-01".to_owned(),
            generated_at_local: "2026-03-01 23:58:00".to_owned(),
            time_zone: "Asia/Shanghai".to_owned(),
            total_accounts: 5,
            active_accounts: 4,
            low_balance_accounts: 2,
            checkin_total: 3,
            checkin_success: 1,
            checkin_skipped: 1,
            checkin_failed: 1,
            proxy_total: 12,
            proxy_success: 10,
            proxy_failed: 2,
            proxy_total_tokens: 3400,
            today_spend: Usd::new(0.25),
            today_reward: Usd::new(0.1),
        };
        assert_eq!(
            day.text(),
            "2026-03-01 (Asia/Shanghai), as of 2026-03-01 23:58:00\n\
             Accounts: 5 (4 active, 2 below 1 USD)\n\
             Check-ins: 3 (1 ok, 1 skipped, 1 failed)\n\
             Requests: 12 (10 ok, 2 failed), 3400 tokens\n\
             Spent: 0.250000 USD\n\
             Rewards: 0.100000 USD\n\
             Net: -0.150000 USD"
        );
    }
}
