//! Later corrections of a logged request: its row and the usage tables are updated in one transaction.

use jiff::tz::TimeZone;

use super::cached_tokens::CachedTokens;
use super::proxy_logs::UsageSource;
use super::sql::Statement;
pub use super::telemetry::log_row::RowName;
use super::telemetry::log_spans;
use super::telemetry::recorder::Recorder;
pub use super::telemetry::usage::Correction;
use super::{Error, Result, Store};
use crate::keys::KeyDelta;
use crate::money::Usd;
use crate::time::now_ms;

/// The new values of a log row, and by how much they exceed the old ones.
#[derive(Clone, Debug)]
pub struct Amendment {
    pub row: RowName,
    /// `None` keeps the stored counts and their source.
    pub tokens: Option<LoggedTokens>,
    /// `None` keeps the stored cache counts.
    pub cached: Option<CachedTokens>,
    /// In USD.
    pub cost: Usd,
    /// JSON text.
    pub billing_details: Option<String>,
    pub more: Correction,
    /// What is added to the sums of the key that pays.
    pub charged: Option<KeyDelta>,
    /// Whether the usage of the key was reset since: its days do not count the row any more.
    pub is_key_reset: bool,
    /// Taken in the same transaction, where only one instance may book the amendment.
    pub claim: Option<Claim>,
}

/// The tokens of a log row, and where the counts come from.
#[derive(Clone, Copy, Debug)]
pub struct LoggedTokens {
    pub prompt: i64,
    pub completion: i64,
    pub total: i64,
    pub source: UsageSource,
}

/// A claim that only one caller can take: a change of a row that fails when the row was already changed.
#[derive(Clone, Debug)]
pub struct Claim(Statement);

impl Claim {
    pub(super) fn new(change: Statement) -> Self {
        Self(change.must_change())
    }

    /// Takes the claim on its own; returns false when it was already taken.
    pub(super) async fn take(self, store: &Store) -> Result<bool> {
        match store.batch(vec![self.0]).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Amends a row that was written before, and the sums that it is part of. Rows of refusals on the way have the same name,
/// and come before the row of the attempt.
///
/// A row without a claim is amended within minutes. If it is gone by then, all usage was cleared: only its key still counts
/// it and is amended, and the result is false. A claimed row may be long gone; its sums are amended all the same.
///
/// # Errors
/// [`Error::NotFound`], with nothing changed, when the claim was already taken.
pub async fn amend(store: &Store, zone: &TimeZone, amendment: Amendment) -> Result<bool> {
    let Amendment { row, tokens, cached, .. } = &amendment;
    let mut recorder = Recorder::new(store.database().dialect(), zone.clone());
    let is_claimed = amendment.claim.is_some();
    let mut batch = Vec::from_iter(amendment.claim.clone().map(|Claim(change)| change));
    let change = Statement::new(
        "UPDATE proxy_logs SET prompt_tokens = COALESCE(?, prompt_tokens), \
         completion_tokens = COALESCE(?, completion_tokens), total_tokens = COALESCE(?, total_tokens), \
         usage_source = COALESCE(?, usage_source), input_tokens = COALESCE(?, input_tokens), \
         cache_read_tokens = COALESCE(?, cache_read_tokens), \
         cache_creation_tokens = COALESCE(?, cache_creation_tokens), estimated_cost = ?, billing_details = ? \
         WHERE id = (SELECT id FROM (SELECT MAX(id) AS id FROM proxy_logs \
         WHERE created_at = ? AND request_id = ? AND retry_count = ?) AS own)",
        vec![
            tokens.map(|tokens| tokens.prompt).into(),
            tokens.map(|tokens| tokens.completion).into(),
            tokens.map(|tokens| tokens.total).into(),
            tokens.map(|tokens| tokens.source.as_str()).into(),
            cached.map(|cached| cached.input).into(),
            cached.map(|cached| cached.read).into(),
            cached.map(|cached| cached.creation).into(),
            amendment.cost.into(),
            amendment.billing_details.as_deref().into(),
            row.created_at.into(),
            row.request_id.as_str().into(),
            i64::from(row.retry_count).into(),
        ],
    );
    batch.push(if is_claimed { change } else { change.must_change() });
    // In the order of a group of telemetry, so that several instances on one database never deadlock.
    let charges: Vec<Statement> = amendment.charged.clone().into_iter().flat_map(Recorder::charge).collect();
    batch.extend(charges.iter().cloned());
    batch.extend(recorder.correction(row, &amendment.more));
    let days =
        if amendment.is_key_reset { Vec::new() } else { recorder.key_correction(row, &amendment.more) };
    batch.extend(days.iter().cloned());
    let span = log_spans::summed_span(row.created_at, now_ms());
    batch.extend(span.into_iter().flat_map(|span| log_spans::open(store.database().dialect(), span)));
    match store.batch(batch).await {
        // The days of the proxy token were cleared, too.
        Err(Error::NotFound) if !is_claimed && row.key_id.is_none() => Ok(false),
        Err(Error::NotFound) if !is_claimed => store.batch([charges, days].concat()).await.map(|_| false),
        done => done.map(|_| true),
    }
}
