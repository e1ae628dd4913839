//! Stores a session that its site has confirmed, and starts the task that follows.

use std::sync::Arc;

use hyper::StatusCode;

use super::created::{CreatedView, setup_task};
use super::handlers::find;
use super::input::{CreateInput, WHOLE_CREDENTIAL, unknown_site};
use super::view;
use super::view::AccountView;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Invalid;
use crate::admin::secrets;
use crate::http::{self, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::accounts::setup::{adopt_key, set_up};
use crate::jobs::tasks::Done;
use crate::key_mask::is_mask;
use crate::platform::Platform;
use crate::store::accounts::{self, CredentialMode, NewAccount};
use crate::store::sites::SiteRow;
use crate::store::tokens::TokenSource;
use crate::store::{self, Secret};
use crate::upstream::platforms::{User, user_id_of_name};

/// The message of a response when the session is stored.
const QUEUED: &str = "The account is stored; its tokens, balance, models and routes follow in the background";

/// Stores the session of `user` and answers with the account; `found` is an API key that the site reported.
pub async fn create_session(
    jobs: Arc<Jobs>,
    site: &SiteRow,
    input: CreateInput,
    user: User,
    found: Option<Secret>,
) -> Result<Response> {
    let credential = input.credentials.into_iter().next().unwrap_or_default();
    let source = if input.api_token.is_some() { TokenSource::Manual } else { TokenSource::Sync };
    let key = given_key(input.api_token, found)?;
    let username_detected = input.username.is_none() && !user.username.is_empty();
    let username = input.username.or(Some(user.username).filter(|name| !name.is_empty()));
    let guess = username.as_deref().and_then(|name| user_id_of_name(name.trim()));
    let platform = Platform::parse(&site.platform);
    let has_refresh = platform.is_some_and(|platform| platform.abilities().refresh);
    let rotation = Some(input.rotation).filter(|_| has_refresh).unwrap_or_default();
    let account = NewAccount {
        access_token: Some(Secret::from(credential)),
        checkin_enabled: input.checkin_enabled.unwrap_or(true),
        credential_mode: CredentialMode::Session,
        // The site's own user id is more reliable than one that was typed or guessed.
        platform_user_id: user.id.or(input.platform_user_id).or(guess),
        sub2api_token_expires_at: rotation.expires_at.filter(|_| rotation.refresh_token.is_some()),
        sub2api_refresh_token: rotation.refresh_token.map(Secret::from),
        username,
        ..NewAccount::on_site(site.id)
    };
    let id = accounts::insert(&jobs.core.store, account).await.map_err(|error| match error {
        store::Error::Dangling(_) => AdminError::from(unknown_site()),
        other => other.into(),
    })?;
    adopt_key(&jobs.core, id, key.as_ref(), source).await?;
    jobs.core.publish().await?;
    let job = start_set_up(&jobs, id, !input.skip_model_fetch);
    let account = find(&jobs.core.store, id).await?;
    let body = CreatedView {
        account: AccountView::of(&account),
        success: true,
        token_type: "session",
        credential_mode: "session",
        capabilities: view::capabilities(&account).at(platform),
        model_count: 0,
        api_token_found: key.is_some(),
        username_detected,
        queued: true,
        job_id: Some(job),
        message: Some(QUEUED),
    };
    Ok(http::json(StatusCode::OK, &body))
}

/// Returns the key typed for the session, else the one that the site reported. A form that was shown the site's key
/// sends it back masked.
fn given_key(typed: Option<String>, found: Option<Secret>) -> Result<Option<Secret>, Invalid> {
    match typed {
        None => Ok(found),
        Some(text) if secrets::is_echo(&text, found.as_ref().map(Secret::expose)) => Ok(found),
        Some(text) if is_mask(&text) => Err(Invalid::field("apiToken", WHOLE_CREDENTIAL)),
        Some(text) => Ok(Some(Secret::from(text))),
    }
}

/// Starts the task that follows; returns its id.
fn start_set_up(jobs: &Arc<Jobs>, id: AccountId, with_models: bool) -> String {
    let for_task = jobs.clone();
    let started = jobs.tasks.start(setup_task(id), move |_progress| async move {
        let done = set_up(&for_task, id, with_models).await;
        let result = serde_json::to_value(&done).map_err(|error| error.to_string())?;
        let tokens = done.token_sync.as_ref().map_or(0, |sync| sync.created + sync.updated);
        let models = done.coverage.iter().flat_map(|coverage| &coverage.refresh);
        let models: usize = models.map(|refresh| refresh.model_count).sum();
        Ok(Done { message: format!("Account {id}: {tokens} tokens, {models} models"), result })
    });
    started.id
}

#[cfg(test)]
mod tests {
    use crate::admin::accounts::create_session::*;

    #[test]
    fn a_typed_key_goes_before_the_one_found_unless_it_is_its_mask() {
        let found = || Some(Secret::from("sk-found-0123456789"));
        let given = |typed: Option<&str>, found| {
            let key = given_key(typed.map(str::to_owned), found).map_err(drop)?;
            Ok::<_, ()>(key.map(|key| key.expose().to_owned()))
        };
        assert_eq!(given(None, found()), Ok(Some("sk-found-0123456789".to_owned())));
        assert_eq!(given(Some("sk-f****6789"), found()), Ok(Some("sk-found-0123456789".to_owned())));
        assert_eq!(given(Some("sk-typed"), found()), Ok(Some("sk-typed".to_owned())));
        assert_eq!(given(Some("sk-x****nope"), found()), Err(()));
        assert_eq!(given(None, None), Ok(None));
    }
}
