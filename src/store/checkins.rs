//! The log of check-ins.

use super::sql::{Fields, Statement, Value, contains_pattern};
use super::{Result, Store};
use crate::ids::{AccountId, CheckinId, SiteId};
use crate::time::Millis;

/// How a check-in ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckinStatus {
    Success,
    Failed,
    /// The site offers no check-in, or wants a person for it.
    Skipped,
}

/// The result of a check-in, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheckin {
    pub account_id: AccountId,
    pub status: CheckinStatus,
    pub message: String,
    /// In USD, as decimal digits.
    pub reward: Option<String>,
    /// The code of the reason why it ended so.
    pub reason: &'static str,
}

/// A row of the log with details of its account and site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckinRow {
    pub id: CheckinId,
    pub account_id: AccountId,
    pub status: CheckinStatus,
    pub message: Option<String>,
    pub reward: Option<String>,
    /// The code of the reason why it ended so; `None` in rows of releases that did not store it.
    pub reason: Option<String>,
    pub created_at: Millis,
    pub username: Option<String>,
    pub account_status: String,
    pub site_id: SiteId,
    pub site_name: String,
    pub site_url: String,
    pub site_platform: String,
    pub site_status: String,
}

impl CheckinStatus {
    /// Reads a stored status; a word that is none was no success.
    fn read(word: &str) -> Self {
        match word {
            "success" => Self::Success,
            "skipped" => Self::Skipped,
            _ => Self::Failed,
        }
    }

    /// Returns the name used in the store and in API answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl NewCheckin {
    /// Builds the insertion, for a batch that changes the account along with it; inserts nothing when the
    /// account no longer exists.
    pub fn insert(&self, now: Millis) -> Statement {
        Statement::new(
            "INSERT INTO checkin_logs (account_id, status, message, reward, reason, created_at) \
             SELECT id, ?, ?, ?, ?, ? FROM accounts WHERE id = ?",
            vec![
                self.status.as_str().into(),
                self.message.as_str().into(),
                self.reward.as_deref().into(),
                self.reason.into(),
                now.into(),
                self.account_id.into(),
            ],
        )
    }
}

/// Returns the newest check-ins whose message contains a text, ignoring case.
pub async fn search(store: &Store, text: &str, limit: i64) -> Result<Vec<CheckinRow>> {
    let lower = store.database().dialect().lower(text);
    let chosen = format!("WHERE {lower}(l.message) LIKE {lower}(?) ESCAPE '!' ");
    select(store, &chosen, vec![contains_pattern(text)], limit, 0).await
}

/// Returns check-ins, newest first; only those of one account when it is given.
pub async fn list(
    store: &Store,
    account_id: Option<AccountId>,
    limit: i64,
    offset: i64,
) -> Result<Vec<CheckinRow>> {
    let mut args: Vec<Value> = Vec::new();
    let mut chosen = "";
    if let Some(id) = account_id {
        chosen = "WHERE l.account_id = ? ";
        args.push(id.into());
    }
    select(store, chosen, args, limit, offset).await
}

async fn select(
    store: &Store,
    chosen: &str,
    mut args: Vec<Value>,
    limit: i64,
    offset: i64,
) -> Result<Vec<CheckinRow>> {
    args.extend([limit.into(), offset.into()]);
    let sql = format!(
        "SELECT l.id, l.account_id, l.status, l.message, l.reward, l.reason, l.created_at, a.username, a.status, \
         s.id, s.name, s.url, s.platform, s.status FROM checkin_logs l \
         JOIN accounts a ON a.id = l.account_id JOIN sites s ON s.id = a.site_id {chosen}\
         ORDER BY l.created_at DESC, l.id DESC LIMIT ? OFFSET ?"
    );
    store.rows(sql, args, read).await
}

/// What a check-in brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewardRow {
    pub account_id: AccountId,
    pub status: CheckinStatus,
    /// As the check-in stored it.
    pub reward: Option<String>,
}

/// Returns the check-ins since `from`.
pub async fn since(store: &Store, from: Millis) -> Result<Vec<RewardRow>> {
    brief(store, "SELECT c.account_id, c.status, c.reward FROM checkin_logs c", from).await
}

/// Returns the check-ins since `from` on accounts of active sites.
pub async fn since_at_active_sites(store: &Store, from: Millis) -> Result<Vec<RewardRow>> {
    let sql = "SELECT c.account_id, c.status, c.reward FROM checkin_logs c \
               JOIN accounts a ON a.id = c.account_id JOIN sites s ON s.id = a.site_id AND s.status = 'active'";
    brief(store, sql, from).await
}

/// Runs a query for check-ins since `from`. As in [`spend`](super::spend), the range has an end for PostgreSQL.
async fn brief(store: &Store, source: &'static str, from: Millis) -> Result<Vec<RewardRow>> {
    let sql = format!("{source} WHERE c.created_at >= ? AND c.created_at < ?");
    store
        .rows(sql, vec![from.into(), Millis::MAX.into()], |row| {
            Ok(RewardRow {
                account_id: row.id()?,
                status: CheckinStatus::read(&row.text()?),
                reward: row.opt_text()?,
            })
        })
        .await
}

fn read(row: &mut Fields<'_>) -> Result<CheckinRow> {
    Ok(CheckinRow {
        id: row.id()?,
        account_id: row.id()?,
        status: CheckinStatus::read(&row.text()?),
        message: row.opt_text()?,
        reward: row.opt_text()?,
        reason: row.opt_text()?,
        created_at: row.int()?,
        username: row.opt_text()?,
        account_status: row.text()?,
        site_id: row.id()?,
        site_name: row.text()?,
        site_url: row.text()?,
        site_platform: row.text()?,
        site_status: row.text()?,
    })
}
