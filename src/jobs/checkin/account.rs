//! Checks one account in: asks its site, once more with a new session, interprets the answer and stores the outcome.

use std::sync::Arc;

use super::runs::CheckinOutcome;
use super::verdict::{self, Class, MANUAL, Reason, is_challenge};
use crate::core::Core;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::accounts::health::{note_failure, success_statements};
use crate::jobs::balances::balance::{self, BalanceReading};
use crate::jobs::balances::income;
use crate::jobs::sessions::session::Session;
use crate::money::Usd;
use crate::notify::Notice;
use crate::platform::Platform;
use crate::store;
use crate::store::Store;
use crate::store::accounts::{
    self, AccountPatch, AccountRow, AccountStatus, Health, HealthSource, HealthState,
};
use crate::store::checkins::{CheckinStatus, NewCheckin};
use crate::store::events::{EventLevel, NewEvent};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::sync::lock;
use crate::time::now_ms;
use crate::upstream::platforms::{CheckIn, SiteError, SiteErrorKind};

/// Who asked for a check-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// An operator, for this account alone: the operators' list shows the outcome.
    Operator,
    /// A run over many accounts: only the log has the outcome.
    Schedule,
}

/// Checks the account in. Never fails: what went wrong is in the outcome.
pub async fn check_in(jobs: &Arc<Jobs>, id: AccountId, trigger: Trigger) -> CheckinOutcome {
    match try_check_in(jobs, id, trigger).await {
        Ok(outcome) => outcome,
        // The account was deleted while its site was asked.
        Err(store::Error::NotFound | store::Error::Dangling(_)) => CheckinOutcome::of_nobody(),
        Err(error) => {
            log::error!("the check-in of account {id} could not be stored: {error}");
            CheckinOutcome::failed("the check-in could not be stored")
        }
    }
}

async fn try_check_in(jobs: &Arc<Jobs>, id: AccountId, trigger: Trigger) -> store::Result<CheckinOutcome> {
    let Some((site, _)) = rows(&jobs.core.store, id).await? else { return Ok(CheckinOutcome::of_nobody()) };
    let turn = jobs.checkins.turn(site.id);
    let _turn = turn.lock().await;
    // The account may have been changed while this waited for its turn.
    let Some((site, mut account)) = rows(&jobs.core.store, id).await? else {
        return Ok(CheckinOutcome::of_nobody());
    };
    if site.status != SiteStatus::Active {
        let reason = verdict::SITE_DISABLED;
        let outcome =
            CheckinOutcome { reason: Some(reason.code), ..CheckinOutcome::skipped("site is disabled") };
        let mut batch = vec![outcome.row(id, reason).insert(now_ms())];
        batch.push(accounts::health_statement(
            id,
            &Health::now(HealthState::Disabled, &outcome.message, HealthSource::Checkin),
        ));
        batch.extend(outcome.event(&site, &account, trigger));
        jobs.core.store.batch(batch).await?;
        return Ok(outcome);
    }
    if !account.is_session() {
        return Ok(CheckinOutcome::failed("an account without a session has no check-in"));
    }
    if account.status == AccountStatus::Disabled {
        return Ok(CheckinOutcome::failed("the account is disabled"));
    }
    if Platform::parse(&site.platform).is_none() {
        let outcome = CheckinOutcome::failed(&format!("the platform {} is unknown", site.platform));
        let mut batch = vec![outcome.row(id, verdict::UNKNOWN).insert(now_ms())];
        batch.extend(outcome.event(&site, &account, trigger));
        jobs.core.store.batch(batch).await?;
        return Ok(outcome);
    }
    let Ok(_permit) = jobs.checkins.under_way.acquire().await else {
        return Ok(CheckinOutcome::failed("the service is stopping"));
    };
    lock(&jobs.checkins.tried).insert(id, now_ms());
    let answer = ask(jobs, &site, &mut account).await;
    let asked = CheckinRecorder { jobs, site: &site, account: &account, trigger };
    match answer {
        Ok(answer) => asked.succeeded(answer).await,
        Err(error) => match classify(&error) {
            Class::Already => asked.succeeded(Answer::already(error.message)).await,
            Class::Unsupported | Class::Manual => asked.skipped(&error).await,
            Class::Plain => asked.failed(&error).await,
        },
    }
}

/// A successful check-in.
struct Answer {
    message: String,
    reward: Option<Usd>,
    /// Whether the check-in had been done before.
    already: bool,
}

impl Answer {
    fn already(message: String) -> Self {
        Self { message, reward: None, already: true }
    }
}

impl From<CheckIn> for Answer {
    fn from(done: CheckIn) -> Self {
        let already = Class::of(&done.message) == Class::Already;
        let message = if done.message.trim().is_empty() { "checked in".to_owned() } else { done.message };
        Self { message, reward: done.reward, already }
    }
}

async fn ask(jobs: &Arc<Jobs>, site: &SiteRow, account: &mut AccountRow) -> Result<Answer, SiteError> {
    let mut session = Session::open(jobs, site.clone(), account.clone()).await?;
    let mut answer = session.site_client().check_in(&jobs.core.client).await;
    if session.is_renewed_after(jobs, &mut answer).await {
        answer = session.site_client().check_in(&jobs.core.client).await;
    }
    account.credential_version = session.account.credential_version;
    answer.map(Answer::from)
}

/// Classifies an error. A site without the page and a platform without check-ins count as unsupported.
fn classify(error: &SiteError) -> Class {
    match Class::of(&error.message) {
        Class::Plain if matches!(error.kind, SiteErrorKind::Unsupported | SiteErrorKind::Missing) => {
            Class::Unsupported
        }
        class => class,
    }
}

/// A check-in that its site has answered. Stores the outcome and notifies the operator.
struct CheckinRecorder<'a> {
    jobs: &'a Arc<Jobs>,
    site: &'a SiteRow,
    account: &'a AccountRow,
    trigger: Trigger,
}

impl CheckinRecorder<'_> {
    async fn succeeded(&self, answer: Answer) -> store::Result<CheckinOutcome> {
        let (jobs, account) = (self.jobs, self.account);
        // Active before its balance is read: an expired account has proved that its session works.
        jobs.core.store.batch(success_statements(account, HealthSource::Checkin, &answer.message)).await?;
        let read = balance::refresh(jobs, account.id).await;
        let gained = match read {
            // The rise since the last reading; a first reading has nothing to compare with.
            Ok(BalanceReading::Read(now)) if !answer.already && account.last_balance_refresh.is_some() => {
                Some(now.balance - account.balance)
            }
            _ => None,
        };
        let stated = answer
            .reward
            .filter(|reward| *reward > Usd::ZERO)
            .or_else(|| income::in_message(&answer.message));
        let reward = stated.or(gained.filter(|gained| *gained >= Usd::new(1e-6))).map(income::format_amount);
        let outcome = CheckinOutcome {
            status: Some(CheckinStatus::Success),
            message: answer.message,
            reward,
            ..CheckinOutcome::default()
        };
        let now = now_ms();
        let reason = if answer.already { verdict::CHECKED_IN } else { verdict::SUCCESS };
        let mut batch = vec![outcome.row(account.id, reason).insert(now)];
        if !answer.already || !is_interval(&jobs.core) {
            let moved = AccountPatch { last_checkin_at: Some(Some(now)), ..AccountPatch::default() };
            batch.push(accounts::update_statement(&jobs.core.store, account.id, moved)?);
        }
        batch.extend(self.event(&outcome));
        self.commit(batch).await?;
        Ok(outcome)
    }

    async fn skipped(&self, error: &SiteError) -> store::Result<CheckinOutcome> {
        let (message, reason) = match classify(error) {
            Class::Manual => (MANUAL, verdict::TURNSTILE),
            // The words of a missing page do not say what is missing.
            _ if Class::of(&error.message) != Class::Unsupported => {
                ("check-in is not supported by this site", verdict::NOT_SUPPORTED)
            }
            _ => (error.message.as_str(), verdict::NOT_SUPPORTED),
        };
        let outcome = CheckinOutcome::skipped(message);
        let health = Health::now(HealthState::Degraded, message, HealthSource::Checkin);
        let mut batch = vec![
            outcome.row(self.account.id, reason).insert(now_ms()),
            accounts::health_statement(self.account.id, &health),
        ];
        batch.extend(self.event(&outcome));
        self.commit(batch).await?;
        Ok(outcome)
    }

    async fn failed(&self, error: &SiteError) -> store::Result<CheckinOutcome> {
        let Self { jobs, site, account, .. } = self;
        log::warn!("checkin failed for account {} on site \"{}\": {}", account.id, site.name, error.message);
        let outcome = CheckinOutcome::failed(&error.message);
        let reason = Reason::by_words(CheckinStatus::Failed, &error.message);
        let mut batch = vec![outcome.row(account.id, reason).insert(now_ms())];
        batch.extend(self.event(&outcome));
        jobs.core.store.batch(batch).await?;
        note_failure(&jobs.core, site, account, HealthSource::Checkin, error).await?;
        let notify = |level, title| {
            jobs.core.notifier.send(Notice::new(level, title, described(site, account, &outcome.message)));
        };
        if is_challenge(&error.message) || error.kind == SiteErrorKind::Shield {
            notify(EventLevel::Warning, "Cloudflare challenge");
        }
        notify(EventLevel::Error, "Check-in failed");
        self.commit(Vec::new()).await?;
        Ok(outcome)
    }

    fn event(&self, outcome: &CheckinOutcome) -> Option<store::Statement> {
        outcome.event(self.site, self.account, self.trigger)
    }

    /// Stores the statements, and publishes where an operator asked for this account.
    async fn commit(&self, batch: Vec<store::Statement>) -> store::Result<()> {
        if !batch.is_empty() {
            self.jobs.core.store.batch(batch).await?;
        }
        if self.trigger == Trigger::Operator { self.jobs.core.publish().await } else { Ok(()) }
    }
}

async fn rows(store: &Store, id: AccountId) -> store::Result<Option<(SiteRow, AccountRow)>> {
    let Some(account) = accounts::get(store, id).await? else { return Ok(None) };
    Ok(sites::get(store, account.site_id).await?.map(|site| (site, account)))
}

fn described(site: &SiteRow, account: &AccountRow, message: &str) -> String {
    format!("{} @ {}: {message}", account.username.as_deref().unwrap_or("(no name)"), site.name)
}

/// Whether accounts check in at an interval, not by a schedule.
pub fn is_interval(core: &Core) -> bool {
    core.settings.load().values.text("checkin_schedule_mode") == "interval"
}

// === impl CheckinOutcome ===

impl CheckinOutcome {
    fn skipped(message: &str) -> Self {
        Self { status: Some(CheckinStatus::Skipped), message: message.to_owned(), ..Self::default() }
    }

    fn failed(message: &str) -> Self {
        Self { status: Some(CheckinStatus::Failed), message: message.to_owned(), ..Self::default() }
    }

    /// Builds the outcome for an account that does not exist.
    fn of_nobody() -> Self {
        Self { message: "account not found".to_owned(), ..Self::default() }
    }

    fn row(&self, account_id: AccountId, reason: Reason) -> NewCheckin {
        NewCheckin {
            account_id,
            status: self.status.unwrap_or(CheckinStatus::Failed),
            message: self.message.clone(),
            reward: self.reward.clone(),
            reason: reason.code,
        }
    }

    /// Builds the event for the operators' list; `None` unless an operator asked for this account.
    fn event(&self, site: &SiteRow, account: &AccountRow, trigger: Trigger) -> Option<store::Statement> {
        let title = match self.status {
            Some(CheckinStatus::Success) => "Checked in",
            Some(CheckinStatus::Skipped) => "Check-in skipped",
            Some(CheckinStatus::Failed) | None => "Check-in failed",
        };
        let event = NewEvent {
            kind: "checkin",
            title: title.to_owned(),
            message: Some(described(site, account, &self.message)),
            level: if self.is_success() { EventLevel::Info } else { EventLevel::Error },
            related_id: Some(account.id.get()),
            related_type: Some("account"),
        };
        (trigger == Trigger::Operator).then(|| event.insert(now_ms()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::super::runs::Item;
    use super::*;

    /// Operators' scripts read these members.
    #[test]
    fn a_run_is_told_in_the_documented_shape() {
        let item = |account, username: &str, site: &str, result| Item {
            account_id: AccountId::new(account),
            username: Some(username.to_owned()),
            site: site.to_owned(),
            result,
        };
        let done = CheckinOutcome {
            status: Some(CheckinStatus::Success),
            message: "签到成功".to_owned(),
            reward: Some(income::format_amount(Usd::new(0.025))),
            ..CheckinOutcome::default()
        };
        let items = [
            item(4, "ada", "Relay A", done),
            item(5, "bob", "Relay A", CheckinOutcome::skipped(MANUAL)),
            item(9, "cy", "Relay B", CheckinOutcome::failed("HTTP 502: Bad gateway")),
        ];
        assert_eq!(
            to_value(items).expect("it serializes"),
            json!([
                {"accountId":4,"username":"ada","site":"Relay A","result":{"success":true,"status":"success",
                    "message":"签到成功","reward":"0.025"}},
                {"accountId":5,"username":"bob","site":"Relay A","result":{"success":true,"status":"skipped",
                    "skipped":true,"message":"manual check-in needed"}},
                {"accountId":9,"username":"cy","site":"Relay B","result":{"success":false,"status":"failed",
                    "message":"HTTP 502: Bad gateway"}},
            ])
        );
    }
}
