//! Stores a token that the other side issues only once: it replaced the token that it was asked for with.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::core::Core;
use crate::ids::AccountId;
use crate::store;
use crate::store::accounts::{self, AccountRow};

/// How often storing is tried, except while the disk is full or the database server does not answer.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// How long storing is tried while the disk is full or the database server does not answer.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// Stores the new token of an account, and tries again where that fails.
///
/// # Errors
/// When the account is another one now, the store has closed, or the last try has failed.
pub(super) async fn store_with_retries<F>(id: AccountId, store: impl Fn() -> F) -> store::Result<()>
where
    F: Future<Output = store::Result<()>>,
{
    let (mut tries, began) = (1, Instant::now());
    loop {
        match store().await {
            Err(error @ (store::Error::Full(_) | store::Error::Unreachable(_)))
                if began.elapsed() < LONGEST =>
            {
                log::error!("the new token of account {id} is not stored yet: {error}");
            }
            Err(error)
                if tries < TRIES && !matches!(error, store::Error::NotFound | store::Error::Closed) =>
            {
                tries += 1;
                log::error!("the new token of account {id} is not stored yet: {error}");
            }
            ended => return ended,
        }
        sleep(PAUSE).await;
    }
}

/// Takes over the credential that an account was given while a new one was asked for, for example by a login. Returns
/// whether there is one; `account` is the row from before.
pub(super) async fn take_over_newer(core: &Core, account: &AccountRow) -> store::Result<bool> {
    let now = accounts::get(&core.store, account.id).await?;
    let newer = now.filter(|now| now.access_token.is_some() && now.access_token != account.access_token);
    if newer.is_none() {
        return Ok(false);
    }
    core.publish().await?;
    Ok(true)
}
