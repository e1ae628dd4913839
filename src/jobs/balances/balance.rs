//! Reads the balances of accounts from their sites.
//!
//! ```text
//! refresh       one account: open its session, read, once more with a new session, store
//! refresh_all   every active session account: eight at once, two at a site; then publish
//! ```
//!
//! A reading that fails changes only the account's health, and its status where its session is over. A reading that
//! succeeds is stored in one transaction, and only while `extraConfig` is still what it was merged from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::income;
use super::income::SNAPSHOT;
use super::low;
use crate::core::Core;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::accounts::health::{advised, note_failure, success_statements};
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::sessions::session::Session;
use crate::money::Usd;
use crate::platform::Platform;
use crate::store;
use crate::store::accounts::{self, AccountPatch, AccountRow, AccountStatus, HealthSource};
use crate::store::balances::{self, NewBalance};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::time::{Millis, iso, local_day, local_day_start, now_ms};
use crate::upstream::platforms::{Allowance, Balance, SiteError, Subscription, SubscriptionSummary};

/// The number of accounts read at once.
const CONCURRENCY: Concurrency = Concurrency { total: 8, per_site: 2 };
/// The longest wait for the income of the day in a site's log, once the balance is known.
const INCOME_WAIT: Duration = Duration::from_secs(3);
/// The member of `extraConfig` that holds the subscriptions.
const SUBSCRIPTIONS: &str = "sub2apiSubscription";

/// The balance of an account.
#[derive(Clone, Debug, PartialEq)]
pub enum BalanceReading {
    /// Just read from the site.
    Read(Balance),
    /// As stored: the site was not asked, for this reason.
    Stored { balance: Usd, used: Usd, quota: Usd, reason: NotAsked },
}

/// Why the site of an account was not asked for its balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    SiteDisabled,
    /// The account is an API key, which has no balance to read.
    ProxyOnly,
}

impl NotAsked {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SiteDisabled => "site_disabled",
            Self::ProxyOnly => "proxy_only",
        }
    }
}

/// Why a balance could not be read.
#[derive(Debug)]
pub enum Failure {
    NoAccount,
    /// The site is of an unknown platform.
    NoAdapter(String),
    /// The site gave no balance. The account's health says so, too.
    Site(SiteError),
    Store(store::Error),
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// Words the failure for people.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount => f.write_str("account not found"),
            Self::NoAdapter(platform) => write!(f, "sites of platform {platform} have no balance"),
            Self::Site(error) => f.write_str(&advised(&error.message)),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// Reads the account's balance and stores it. Call [`Core::publish`](crate::core::Core::publish) when it is
/// [`BalanceReading::Read`]: routing weighs balances.
pub async fn refresh(jobs: &Arc<Jobs>, id: AccountId) -> Result<BalanceReading, Failure> {
    let mut account = accounts::get(&jobs.core.store, id).await?.ok_or(Failure::NoAccount)?;
    let site = sites::get(&jobs.core.store, account.site_id).await?.ok_or(Failure::NoAccount)?;
    let stored = |reason| BalanceReading::Stored {
        balance: account.balance,
        used: account.balance_used,
        quota: account.quota,
        reason,
    };
    if site.status != SiteStatus::Active {
        return Ok(stored(NotAsked::SiteDisabled));
    }
    if !account.is_session() {
        return Ok(stored(NotAsked::ProxyOnly));
    }
    if Platform::parse(&site.platform).is_none() {
        return Err(Failure::NoAdapter(site.platform));
    }
    match read(jobs, &site, &mut account).await {
        Ok((session, balance)) => {
            let former = store(&jobs.core, &session, &balance).await?;
            low::note(&jobs.core, &site, &account, former, balance.balance).await;
            Ok(BalanceReading::Read(balance))
        }
        Err(error) => {
            log::warn!(
                "balance refresh failed for account {id} on site \"{}\": {}",
                site.name,
                error.message
            );
            note_failure(&jobs.core, &site, &account, HealthSource::Balance, &error).await?;
            Err(Failure::Site(error))
        }
    }
}

/// The numbers of accounts in a reading of all balances.
pub struct BalanceCounts {
    pub asked: usize,
    pub failed: usize,
}

/// Reads the balances of all active session accounts.
pub async fn refresh_all(jobs: &Arc<Jobs>) -> store::Result<BalanceCounts> {
    let active = accounts::pick(&jobs.core.store, |row| {
        (row.status == AccountStatus::Active && row.is_session()).then_some((row.site_id, row.id))
    });
    let read = run_concurrently(active.await?, CONCURRENCY, |id| {
        let jobs = jobs.clone();
        async move { refresh(&jobs, id).await.is_ok() }
    });
    let read = read.await;
    jobs.core.publish().await?;
    let failed = read.iter().filter(|is_read| !**is_read).count();
    Ok(BalanceCounts { asked: read.len(), failed })
}

/// Reads the balance from the site, with a renewed session if needed.
async fn read(
    jobs: &Arc<Jobs>,
    site: &SiteRow,
    account: &mut AccountRow,
) -> Result<(Session, Balance), SiteError> {
    let mut session = Session::open(jobs, site.clone(), account.clone()).await?;
    let mut answer = session.site_client().balance(&jobs.core.client).await;
    if session.is_renewed_after(jobs, &mut answer).await {
        answer = session.site_client().balance(&jobs.core.client).await;
    }
    account.credential_version = session.account.credential_version;
    let mut balance = answer?;
    if balance.today_income.is_none() {
        let now = now_ms();
        let start = local_day_start(now, &jobs.core.config.time_zone);
        let income = session.site_client().today_income(&jobs.core.client, start, now);
        // The income from the site's log is optional: a reading succeeds without it.
        let income = timeout(INCOME_WAIT, income).await.ok().and_then(Result::ok).flatten();
        balance.today_income = income.filter(|income| income.is_believable());
    }
    Ok((session, balance))
}

/// Stores a reading; returns the balance that it replaces.
async fn store(core: &Core, session: &Session, balance: &Balance) -> store::Result<Option<Usd>> {
    let now = now_ms();
    let account = &session.account;
    let mut along = success_statements(account, HealthSource::Balance, "balance read");
    // The site has told the user number: it is stored, so that nobody looks for it again.
    if let (None, Some(id)) = (account.platform_user_id, session.site_client().known_user_id()) {
        let found = AccountPatch { platform_user_id: Some(Some(id)), ..AccountPatch::default() };
        along.push(accounts::update_statement(&core.store, account.id, found)?);
    }
    let numbers = NewBalance { balance: balance.balance, used: balance.used, quota: balance.quota, at: now };
    let day = local_day(now, &core.config.time_zone).to_string();
    let merge = |extra: &mut Map<String, Value>| {
        if let Some(income) = balance.today_income {
            let snapshot = income::snapshot(extra, &day, income, now);
            extra.insert(SNAPSHOT.to_owned(), snapshot);
        }
        if let Some(summary) = &balance.subscriptions {
            let mut shown = summary_json(summary);
            shown["updatedAt"] = now.into();
            extra.insert(SUBSCRIPTIONS.to_owned(), shown);
        }
    };
    let user_id = account.platform_user_id;
    balances::record(&core.store, (account.id, user_id), &numbers, merge, &along).await
}

/// Builds the subscriptions as API answers and `extraConfig` show them.
pub fn summary_json(summary: &SubscriptionSummary) -> Value {
    json!({
        "activeCount": summary.active_count,
        "totalUsedUsd": summary.total_used_usd,
        "subscriptions": summary.subscriptions.iter().map(subscription_json).collect::<Vec<_>>(),
    })
}

fn subscription_json(subscription: &Subscription) -> Value {
    let mut shown = Map::new();
    let mut tell = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    };
    tell("id", subscription.id.map(Value::from));
    tell("groupId", subscription.group_id.map(Value::from));
    tell("groupName", subscription.group_name.clone().map(Value::from));
    tell("status", subscription.status.clone().map(Value::from));
    tell("expiresAt", subscription.expires_at.map(|at: Millis| iso(at).into()));
    for (period, Allowance { used_usd, limit_usd }) in
        [("daily", subscription.daily), ("weekly", subscription.weekly), ("monthly", subscription.monthly)]
    {
        tell(&format!("{period}UsedUsd"), used_usd.map(Value::from));
        tell(&format!("{period}LimitUsd"), limit_usd.map(Value::from));
    }
    shown.into()
}
