//! Sets up an account after a new credential: reads its keys at the site, its balance and its models, then rebuilds the
//! routes. A step that fails does not hold up the ones after it.

use std::sync::Arc;

use serde::Serialize;

use crate::core::Core;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::balances::balance;
use crate::jobs::models::coverage::{Coverage, cover};
use crate::jobs::tokens::set::TokenSet;
use crate::jobs::tokens::sync;
use crate::jobs::tokens::sync::SyncOutcome;
use crate::store::tokens::{TokenRow, TokenSource};
use crate::store::{self, Secret, accounts};

/// The results of the steps, for the result of a task.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetUp {
    pub token_sync: Option<SyncOutcome>,
    /// Why the balance was not read; `null` when it was.
    pub balance_error: Option<String>,
    pub coverage: Option<Coverage>,
}

/// Takes all steps for a session account; reads models and rebuilds routes only if `with_models`.
pub async fn set_up(jobs: &Arc<Jobs>, id: AccountId, with_models: bool) -> SetUp {
    let token_sync = sync::sync(jobs, id).await.unwrap_or_else(|error| {
        log::warn!("the tokens of account {id} were not synced: {error}");
        None
    });
    let balance_error = balance::refresh(jobs, id).await.err().map(|failure| failure.to_string());
    if let Err(error) = jobs.core.publish().await {
        log::warn!("the routes do not use the new balance of account {id} yet: {error}");
    }
    let coverage = if with_models { Some(cover(jobs, &[id]).await) } else { None };
    SetUp { token_sync, balance_error, coverage }
}

/// Makes the key that came with a session, if one did, the default token of its account. A key that the account had
/// before its tokens had rows becomes a token, too.
pub async fn adopt_key(
    core: &Core,
    id: AccountId,
    key: Option<&Secret>,
    source: TokenSource,
) -> store::Result<Vec<TokenRow>> {
    let _turn = core.token_edits.lock().await;
    let mut token_set = TokenSet::read(&core.store, id).await?;
    let account = accounts::get(&core.store, id).await?;
    token_set.adopt_legacy(account.as_ref());
    if let Some(key) = key {
        token_set.adopt(key.expose(), source);
    }
    token_set.save(&core.store).await
}
