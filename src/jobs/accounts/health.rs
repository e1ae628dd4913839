//! Turns the outcome of a call to a site into the health of an account, and notices when its session is over.

use crate::core::Core;
use crate::error_words::sites;
use crate::notify::Notice;
use crate::store::accounts::{self, AccountRow, AccountStatus, Health, HealthSource, HealthState};
use crate::store::events::{EventLevel, NewEvent};
use crate::store::sites::SiteRow;
use crate::store::{self, Statement};
use crate::time::now_ms;
use crate::upstream::platforms::{SiteError, SiteErrorKind};

/// The advice added to a site's message that the access token is invalid.
const ADVICE: &str = "create a new system access token at the site and bind the account with it again";

/// Returns a failure's message for people. Where the site says that the access token is invalid, appends advice, once.
pub fn advised(message: &str) -> String {
    let text = message.to_lowercase();
    if text.contains(ADVICE) || !sites::is_invalid_token(&text) {
        return message.to_owned();
    }
    format!("{message}; {ADVICE}")
}

/// Records that a call for `source` (balance, checkin, …) failed. Where the site says that the session is over, an
/// active or unhealthy account becomes expired and the operator is notified. `account` holds the credential that was
/// sent.
pub async fn note_failure(
    core: &Core,
    site: &SiteRow,
    account: &AccountRow,
    source: HealthSource,
    error: &SiteError,
) -> store::Result<()> {
    let message = advised(&error.message);
    let may_expire = matches!(account.status, AccountStatus::Active | AccountStatus::Unhealthy);
    let is_over = error.kind == SiteErrorKind::Expired;
    if account.status == AccountStatus::Expired && !is_over {
        // The list shows why it is expired: what its site said of the session last.
        return Ok(());
    }
    if !may_expire || !is_over {
        let source = if is_over { HealthSource::Auth } else { source };
        let health = Health::now(HealthState::Unhealthy, &message, source);
        accounts::set_health(&core.store, account.id, &health).await?;
        return core.publish().await;
    }
    expire(core, site, account, &message).await
}

/// Marks an active or unhealthy account expired if it still has this credential, and notifies the operator once.
pub async fn expire(core: &Core, site: &SiteRow, account: &AccountRow, message: &str) -> store::Result<()> {
    let name = account.username.as_deref().unwrap_or("(no name)");
    let text = format!("Account {} ({name}) on site \"{}\": {message}", account.id, site.name);
    log::warn!("token expired: {text}");
    let event = NewEvent {
        kind: "token",
        title: "Session expired".to_owned(),
        message: Some(text),
        level: EventLevel::Error,
        related_id: Some(account.id.get()),
        related_type: Some("account"),
    };
    let notice = Notice::from(&event).about(format!("token-expired:{}", account.id));
    let batch = vec![
        accounts::expire_statement(account),
        accounts::health_statement(
            account.id,
            &Health::now(HealthState::Unhealthy, message, HealthSource::Auth),
        ),
        event.insert(now_ms()),
    ];
    match core.store.batch(batch).await {
        // Somebody changed the account while its site was asked: their change stands.
        Err(store::Error::NotFound) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            core.notifier.send(notice);
            core.publish().await
        }
    }
}

/// Builds the statements to store after a successful call for `source`: the account becomes healthy, and active again
/// if it was expired or unhealthy. A degraded health from another source stays: a balance says nothing about a missing
/// check-in.
pub fn success_statements(account: &AccountRow, source: HealthSource, reason: &str) -> Vec<Statement> {
    let mut batch = Vec::new();
    if matches!(account.status, AccountStatus::Expired | AccountStatus::Unhealthy) {
        batch.push(accounts::revive_statement(account.id));
    }
    if !lacks_another(account, &source) {
        batch
            .push(accounts::health_statement(account.id, &Health::now(HealthState::Healthy, reason, source)));
    }
    batch
}

/// Whether the account is degraded by something that a success for `source` says nothing about.
pub fn lacks_another(account: &AccountRow, source: &HealthSource) -> bool {
    let known = account.health.as_ref();
    known.is_some_and(|known| known.state == HealthState::Degraded && known.source != *source)
}

#[cfg(test)]
mod tests {
    use crate::jobs::accounts::health::*;

    #[test]
    fn an_invalid_access_token_is_told_with_what_to_do_once() {
        let told = advised("无权进行此操作，access token 无效");
        assert!(told.ends_with(ADVICE), "{told}");
        assert_eq!(advised(&told), told);
        assert_eq!(advised("HTTP 502: Bad gateway"), "HTTP 502: Bad gateway");
    }
}
