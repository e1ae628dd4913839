//! `POST /api/accounts`: adds a session, one API key or many.
//!
//! A key is verified by the models it lists before anything is stored; `skipModelFetch` stores it unverified. A session
//! is verified by asking its site for the user ([`create_session`](super::create_session)). The work that follows runs
//! in the background: the response carries the task's id.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::create_session::create_session;
use super::created::{CreatedView, setup_task};
use super::handlers::find;
use super::input::{CreateInput, WHOLE_CREDENTIAL, unknown_site};
use super::schema;
use super::verify::{CredentialRefusal, models_of_key, platform_of, verify};
use super::view;
use super::view::AccountView;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::models::refresh;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;
use crate::jobs::run_status::RunStatus;
use crate::jobs::tasks::{self, Done};
use crate::key_mask::is_mask;
use crate::routing::Site;
use crate::store::Store;
use crate::store::accounts::{self, CredentialMode, NewAccount};
use crate::store::{self, Secret, sites};
use crate::upstream::platforms::{Identity, user_id_of_name};

/// The message of a response when a task follows.
const QUEUED: &str = "The account is stored; its models and routes follow in the background";
/// The number of keys of a batch that are verified at once, all of them at one site.
const CONCURRENCY: Concurrency = Concurrency { total: 8, per_site: 8 };

/// A key that was stored.
struct Created {
    id: AccountId,
    /// The number of models that the key lists; 0 if it was stored unverified.
    model_count: usize,
    job_id: Option<String>,
}

/// The response to the creation of many accounts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchView {
    success: bool,
    batch: bool,
    total_count: usize,
    created_count: usize,
    failed_count: usize,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    items: Vec<BatchItem>,
}

/// The result for one key of many.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum BatchItem {
    Created {
        index: usize,
        id: AccountId,
        username: Option<String>,
        model_count: usize,
        queued: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        job_id: Option<String>,
        message: Option<&'static str>,
    },
    Failed {
        index: usize,
        message: String,
        requires_verification: bool,
    },
}

/// The properties that all keys of one request share.
#[derive(Clone)]
struct SharedFields {
    site: Arc<Site>,
    platform_user_id: Option<i64>,
    skip_model_fetch: bool,
}

/// `POST /api/accounts`
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CREATE, request.json_object().await?);
    let input = CreateInput::read(&fields)?;
    if input.credentials.is_empty() {
        return Err(Invalid::field("accessToken", "non-empty string").into());
    }
    let (one, of_session) = (input.credentials.len() == 1, input.mode != CredentialMode::ApiKey);
    if one && of_session {
        return create_verified(admin.jobs.clone(), input).await;
    }
    for (name, keys) in [("accessToken", &input.credentials[..]), ("apiToken", input.api_token.as_slice())] {
        if keys.iter().any(|key| is_mask(key)) {
            return Err(Invalid::field(name, WHOLE_CREDENTIAL).into());
        }
    }
    let site = admin.core.snapshot.load().site(input.site_id).cloned();
    let site = site.ok_or_else(unknown_site)?;
    let shared = SharedFields {
        site,
        platform_user_id: input.platform_user_id.or_else(|| user_id_of_name(input.username.as_deref()?)),
        skip_model_fetch: input.skip_model_fetch,
    };
    match <[String; 1]>::try_from(input.credentials) {
        Ok([key]) => {
            let model_count = verify_key(&admin.core, &shared, &key).await?;
            let stored = input.api_token.as_deref().unwrap_or(&key);
            let created = store_key(&admin.core.store, &shared, stored, input.username, model_count).await?;
            admin.core.publish().await?;
            answer_one(&admin.core.store, start_discovery(&admin.jobs, &shared, created)).await
        }
        Err(keys) => create_many(admin.jobs.clone(), shared, keys, input.username).await,
    }
}

/// Returns the number of models that the key lists; 0 without asking if the operator skips the verification.
async fn verify_key(core: &Arc<Core>, shared: &SharedFields, key: &str) -> Result<usize> {
    if shared.skip_model_fetch {
        return Ok(0);
    }
    let verified = models_of_key(core, &shared.site, key, shared.platform_user_id.is_some()).await;
    verified.map(|models| models.len()).map_err(AdminError::from)
}

/// Creates an account of the kind that the site's answer about the credential shows.
async fn create_verified(jobs: Arc<Jobs>, input: CreateInput) -> Result<Response> {
    let site = sites::get(&jobs.core.store, input.site_id).await?.ok_or_else(unknown_site)?;
    let Some(credential) = input.credentials.first() else {
        return Err(Invalid::field("accessToken", "non-empty string").into());
    };
    platform_of(&site).map_err(|refusal| AdminError::bad_request(refusal.message))?;
    let (user_id, username) = (input.platform_user_id, input.username.as_deref());
    match verify(&jobs.core, &site, credential, input.mode, user_id, username).await? {
        Identity::ApiKey { models } => {
            if input.api_token.as_deref().is_some_and(is_mask) {
                return Err(Invalid::field("apiToken", WHOLE_CREDENTIAL).into());
            }
            let shared = SharedFields {
                site: jobs.core.snapshot.load().site(site.id).cloned().ok_or_else(unknown_site)?,
                platform_user_id: user_id.or_else(|| user_id_of_name(username?)),
                skip_model_fetch: input.skip_model_fetch,
            };
            let key = input.api_token.as_ref().unwrap_or(credential);
            let created =
                store_key(&jobs.core.store, &shared, key, input.username.clone(), models.len()).await?;
            jobs.core.publish().await?;
            answer_one(&jobs.core.store, start_discovery(&jobs, &shared, created)).await
        }
        Identity::Session { user, api_token, .. } => {
            create_session(jobs, &site, input, user, api_token).await
        }
    }
}

impl From<CredentialRefusal> for AdminError {
    fn from(refusal: CredentialRefusal) -> Self {
        let error = Self::bad_request(refusal.message).flag("requiresVerification", refusal.unverified);
        match refusal.verdict {
            Some(verdict) => error.flag(verdict.flag(), true),
            None => error,
        }
    }
}

/// Stores a verified key.
async fn store_key(
    store: &Store,
    shared: &SharedFields,
    key: &str,
    username: Option<String>,
    model_count: usize,
) -> Result<Created> {
    let account = NewAccount {
        username,
        api_token: Some(Secret::from(key)),
        checkin_enabled: false,
        credential_mode: CredentialMode::ApiKey,
        platform_user_id: shared.platform_user_id,
        ..NewAccount::on_site(shared.site.id)
    };
    let id = accounts::insert(store, account).await.map_err(|error| match error {
        store::Error::Dangling(_) => AdminError::from(unknown_site()),
        other => other.into(),
    })?;
    Ok(Created { id, model_count, job_id: None })
}

/// Starts the task that follows the creation of an account, unless the request wants no models: it reads the models, then
/// rebuilds the routes.
fn start_discovery(jobs: &Arc<Jobs>, shared: &SharedFields, created: Created) -> Created {
    if shared.skip_model_fetch {
        return created;
    }
    let (id, for_task) = (created.id, jobs.clone());
    let started = jobs.tasks.start(setup_task(id), move |_progress| initialise(for_task, id));
    Created { job_id: Some(started.id), ..created }
}

async fn initialise(jobs: Arc<Jobs>, id: AccountId) -> tasks::Outcome {
    let refresh = refresh::refresh_account(&jobs, id).await;
    // Rows may exist already (typed by hand, or kept from before): the routes are rebuilt in any case.
    let counts = rebuild_in(&jobs, Scope::of_accounts([id])).await?;
    if refresh.status == RunStatus::Failed {
        return Err(refresh.error_message);
    }
    let message =
        format!("Account {id}: {} models, {} routes created", refresh.model_count, counts.created_routes);
    Ok(Done { message, result: json!({"refresh": refresh, "rebuild": counts}) })
}

async fn answer_one(store: &Store, created: Created) -> Result<Response> {
    let account = find(store, created.id).await?;
    let body = CreatedView {
        account: AccountView::of(&account),
        success: true,
        token_type: "apikey",
        credential_mode: "apikey",
        capabilities: view::capabilities(&account),
        model_count: created.model_count,
        api_token_found: account.api_token.is_some(),
        username_detected: false,
        queued: created.job_id.is_some(),
        message: created.job_id.is_some().then_some(QUEUED),
        job_id: created.job_id,
    };
    Ok(http::json(StatusCode::OK, &body))
}

/// Creates an account for each key, or reports why it failed; nothing is undone. The keys are verified in parallel and
/// stored in the order sent.
async fn create_many(
    jobs: Arc<Jobs>,
    shared: SharedFields,
    keys: Vec<String>,
    username: Option<String>,
) -> Result<Response> {
    let total = keys.len();
    let mut results = Vec::with_capacity(total);
    for (index, (key, verified)) in verify_all(&jobs.core, &shared, keys).await?.into_iter().enumerate() {
        let name = username.as_ref().map(|name| format!("{name} #{}", index + 1));
        let created = match verified {
            Ok(model_count) => store_key(&jobs.core.store, &shared, &key, name.clone(), model_count).await,
            Err(refusal) => Err(refusal),
        };
        results.push((index, name, created));
    }
    jobs.core.publish().await?;
    let mut created_count = 0;
    let mut items = Vec::with_capacity(total);
    for (index, name, result) in results {
        items.push(match result {
            Ok(created) => {
                created_count += 1;
                let created = start_discovery(&jobs, &shared, created);
                BatchItem::Created {
                    index,
                    id: created.id,
                    username: name,
                    model_count: created.model_count,
                    queued: created.job_id.is_some(),
                    message: created.job_id.is_some().then_some(QUEUED),
                    job_id: created.job_id,
                }
            }
            Err(error) => BatchItem::Failed {
                index,
                message: error.message().to_owned(),
                requires_verification: error.has_flag("requiresVerification"),
            },
        });
    }
    let failed_count = total - created_count;
    let message = format!("{created_count} of {total} accounts created");
    let body = BatchView {
        success: created_count > 0,
        batch: true,
        total_count: total,
        created_count,
        failed_count,
        error: (created_count == 0).then(|| message.clone()),
        message,
        items,
    };
    let status = if created_count > 0 { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    Ok(http::json(status, &body))
}

/// Verifies the keys, a few at once; returns the results in the order of the keys.
async fn verify_all(
    core: &Arc<Core>,
    shared: &SharedFields,
    keys: Vec<String>,
) -> Result<Vec<(String, Result<usize>)>> {
    let total = keys.len();
    let keys = keys.into_iter().enumerate().map(|key| (shared.site.id, key)).collect();
    let mut verified = run_concurrently(keys, CONCURRENCY, |(index, key): (usize, String)| {
        let (core, shared) = (core.clone(), shared.clone());
        async move {
            let result = verify_key(&core, &shared, &key).await;
            (index, key, result)
        }
    })
    .await;
    if verified.len() < total {
        return Err(AdminError::internal("verifying keys", "a verification ended without a result"));
    }
    verified.sort_by_key(|(index, _, _)| *index);
    Ok(verified.into_iter().map(|(_, key, result)| (key, result)).collect())
}
