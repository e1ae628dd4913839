//! The models of an account to ask for, and the credential for each.

use std::collections::HashSet;

use super::busy::ModelOf;
use crate::ids::TokenId;
use crate::jobs::sessions::sendable::sendable_secrets;
use crate::routing::{Credential, Secret};
use crate::store;
use crate::store::Store;
use crate::store::accounts::AccountRow;
use crate::store::availability;
use crate::store::tokens::{self, TokenRow};

/// A model to ask for, and the credential to ask with.
pub(super) struct ProbeTarget {
    pub(super) model: String,
    /// The token that the row belongs to; `None` for a row of the account itself.
    pub(super) token: Option<TokenId>,
    pub(super) available: bool,
    pub(super) credential: Option<Credential>,
    checked_at: i64,
}

impl ProbeTarget {
    pub(super) fn name(&self) -> ModelOf {
        (self.token, self.model.clone())
    }
}

/// Returns the models of an account and of its usable tokens, the longest unchecked first; those put off come last.
pub(super) async fn targets(
    store: &Store,
    account: &AccountRow,
    put_off: &HashSet<ModelOf>,
) -> store::Result<Vec<ProbeTarget>> {
    let tokens: Vec<TokenRow> =
        tokens::of_account(store, account.id).await?.into_iter().filter(TokenRow::is_usable).collect();
    let of_account = credential(account, &tokens);
    let mut targets: Vec<ProbeTarget> = availability::of_account(store, account.id)
        .await?
        .into_iter()
        .filter(|row| !row.is_manual)
        .map(|row| ProbeTarget {
            model: row.model_name,
            token: None,
            available: row.available,
            credential: of_account.clone(),
            checked_at: row.checked_at,
        })
        .collect();
    for row in availability::of_tokens_of(store, account.id).await? {
        let Some(token) = tokens.iter().find(|token| token.id == row.token_id) else { continue };
        targets.push(ProbeTarget {
            model: row.model_name,
            token: Some(row.token_id),
            available: row.available,
            credential: credential_of(token),
            checked_at: row.checked_at,
        });
    }
    targets.sort_by_cached_key(|target| (put_off.contains(&target.name()), target.checked_at));
    Ok(targets)
}

/// Returns the credential that an account's models are asked for with.
pub(super) fn credential(account: &AccountRow, tokens: &[TokenRow]) -> Option<Credential> {
    // A session's own token gives no access to models: one of its keys does.
    let own = if account.is_session() {
        sendable_secrets([&account.api_token])
    } else {
        sendable_secrets([&account.api_token, &account.access_token])
    };
    let key = own.first().map(|text| Credential::from(Secret::from(*text)));
    let preferred = || tokens.iter().find(|token| token.is_default).or_else(|| tokens.first());
    key.or_else(|| preferred().and_then(credential_of))
}

fn credential_of(token: &TokenRow) -> Option<Credential> {
    token.token.as_ref().map(|secret| Credential::from(Secret::from(secret.expose().trim())))
}
